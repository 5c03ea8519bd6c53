//! Climbs from states to local optima, along a gradient or by a race of random walks.

use nalgebra::{DMatrix, DVector};

use super::find_modes::{MOST_MODES, Target};
use crate::num::Lbfgs;
use crate::random::StandardNormal;

/// The log density of a state, and the state itself.
type Start = (f64, DVector<f64>);

/// Largest number of iterations of a climb along a gradient. Eight lead within a tenth of a deviation of the top of a
/// Gaussian in 10 dimensions. They cost 9 evaluations or more, and a rating of a state costs one.
const CLIMB_ITERATIONS: usize = 8;
/// Largest entry of the gradient, times the largest spread of the starts, at which a climb ends. A climb to a peak
/// narrower than the starts' spread then ends within a tenth of the peak's deviation.
const FLAT_GRADIENT: f64 = 0.1;
/// Smallest number of steps of a walk in a lap, after which the half of the walks with lower log densities drops out.
/// In 8 dimensions or more a lap has one step per dimension, so this limit only matters in fewer.
const LEAST_LAP_STEPS: usize = 8;
/// First step size of a walk in d dimensions, times `sqrt(d)` and relative to the spread of the starts. It need not be
/// precise: the first eight steps can raise the size 26 times, or divide it by 2.25.
const FIRST_STEP: f64 = 0.5;
/// Factor for a walk's step size after a step that went up. Any other step divides the size by the fourth root of this
/// factor, so one step in five goes up (Rechenberg 1973), whatever the factor is.
const STEP_GROWTH: f64 = 1.5;

/// Returns the states where climbs end, with their log densities, the highest first. The climbs begin at the first of
/// `starts`, as many as `allowance` evaluations pay for.
pub(super) fn tops(
    starts: Vec<Start>,
    target: &Target<'_, DVector<f64>>,
    allowance: u64,
) -> Vec<Start> {
    let Some(spread) = spread(&starts) else {
        return Vec::new();
    };
    let allowance = allowance.min(target.left());
    let mut tops = match target.gradient {
        Some(gradient_of) => {
            let last = target.left().saturating_sub(allowance);
            let starts = starts.into_iter();
            starts
                // Room for two gradients in each iteration.
                .take_while(|_| target.left() >= last + 2 * CLIMB_ITERATIONS as u64)
                .map(|(_, start)| climbed(start, FLAT_GRADIENT / spread.max(), gradient_of, target))
                .collect()
        }
        None => raced(starts, &spread, target, allowance),
    };
    tops.retain(|(log_density, _)| log_density.is_finite());
    tops.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    tops
}

/// Returns the point after a few iterations of L-BFGS from `start`; fewer if the gradient falls below `tolerance`.
fn climbed(
    start: DVector<f64>,
    tolerance: f64,
    gradient_of: &dyn Fn(&DVector<f64>, &mut DVector<f64>) -> f64,
    target: &Target<'_, DVector<f64>>,
) -> Start {
    let descent = |x: &DVector<f64>| {
        let mut gradient = DVector::zeros(x.len());
        let log_density = target.by(gradient_of, x, &mut gradient);
        (-log_density, -gradient)
    };
    let solver = Lbfgs {
        memory: 6,
        iterations: CLIMB_ITERATIONS,
        tolerance,
    };
    let top = solver.minimize(start, descent);
    (-top.value, top.position)
}

/// Returns the winners of a race of random walks from the first of `starts`, as many as `allowance` pays for. In a lap
/// each walk takes as many steps as there are dimensions, but at least [`LEAST_LAP_STEPS`]. After each lap the half
/// with the lower log densities drops out (successive halving, Jamieson and Talwalkar 2016).
fn raced(
    starts: Vec<Start>,
    spread: &DVector<f64>,
    target: &Target<'_, DVector<f64>>,
    allowance: u64,
) -> Vec<Start> {
    let dimension = spread.len();
    let lap = dimension.max(LEAST_LAP_STEPS);
    // Each lap has half the walks of the one before, so that all laps cost at most twice the first.
    let affordable = (allowance / (2 * lap as u64)) as usize;
    let started = starts.into_iter().take(affordable);
    let mut walks: Vec<Walk> = started
        .map(|(log_density, state)| Walk {
            log_density,
            state,
            step: FIRST_STEP / (dimension as f64).sqrt(),
        })
        .collect();
    loop {
        for walk in &mut walks {
            (0..lap).for_each(|_| walk.step(spread, target));
        }
        walks.sort_by(|a, b| b.log_density.total_cmp(&a.log_density));
        walks.truncate((walks.len() / 2).max(1));
        if walks.len() <= MOST_MODES {
            break;
        }
    }
    let ends = walks.into_iter();
    ends.map(|walk| (walk.log_density, walk.state)).collect()
}

/// Returns the standard deviation of each coordinate; `None` for less than two starts.
fn spread(starts: &[Start]) -> Option<DVector<f64>> {
    (starts.len() > 1).then(|| {
        let dimension = starts[0].1.len();
        let states = DMatrix::from_fn(dimension, starts.len(), |i, start| starts[start].1[i]);
        states.column_variance().map(f64::sqrt)
    })
}

/// A random walk that only goes up.
struct Walk {
    log_density: f64,
    state: DVector<f64>,
    /// Standard deviation of a step, relative to the spread of the starts.
    step: f64,
}

impl Walk {
    fn step(&mut self, spread: &DVector<f64>, target: &Target<'_, DVector<f64>>) {
        let mut rng = target.rng.borrow_mut();
        let normal = StandardNormal::get();
        let moved = |x: f64, deviation: f64| x + self.step * deviation * normal.draw(&mut *rng);
        let proposal = self.state.zip_map(spread, moved);
        let log_density = target.log_density(&proposal);
        match log_density > self.log_density {
            true => {
                (self.log_density, self.state) = (log_density, proposal);
                self.step *= STEP_GROWTH;
            }
            false => self.step *= STEP_GROWTH.powf(-0.25),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::model::{Differentiable, Gaussian, GaussianMixture, Sampleable, UnnormalizedModel};
    use crate::random::{Purpose, stream};

    /// Only one draw of the base in 2,500 lies where the target's narrow part is denser than its wide part. Most other
    /// draws have a higher density than this draw.
    #[test]
    fn a_race_finds_a_narrow_mode_that_few_draws_are_near_to() {
        let part = |mean, deviation| {
            Gaussian::isotropic(DVector::from_element(10, mean), deviation).unwrap()
        };
        let parts = [(0.5, part(-1.0, 1.0)), (0.5, part(1.0, 0.3))];
        let narrow = part(1.0, 0.3);
        let target = GaussianMixture::new(parts).unwrap();
        let log_density = |x: &DVector<f64>| target.log_density(x);
        let mut found = 0;
        for seed in 1..=5 {
            let mut rng = stream(seed, Purpose::TESTING, 0);
            let draws: Vec<_> = (0..8_000)
                .map(|_| part(0.0, 2.0).sample(&mut rng))
                .collect();
            let counted = Target::new(
                &log_density,
                None,
                70_000,
                stream(seed, Purpose::TESTING, 1),
            );
            let starts = draws.into_iter().map(|draw| (log_density(&draw), draw));
            let mut starts: Vec<_> = starts.collect();
            starts.sort_by(|(a, _), (b, _)| b.total_cmp(a));
            let tops = tops(starts, &counted, 52_000);
            assert!((47_000..=52_000).contains(&counted.spent.get()));
            assert!(tops.len() <= MOST_MODES && tops.is_sorted_by(|a, b| a.0 >= b.0));
            let (top, state) = &tops[0];
            assert_eq!(*top, log_density(state));
            let is_there = narrow.log_density(state) > -0.5 * 10.0;
            found += usize::from(is_there);
        }
        assert!(found >= 4, "{found} of 5");
    }

    #[test]
    fn a_race_of_few_walks_climbs_too() {
        let peak = Gaussian::isotropic(DVector::from_element(10, 1.0), 0.5).unwrap();
        let log_density = |x: &DVector<f64>| peak.log_density(x);
        let wide = Gaussian::isotropic(DVector::zeros(10), 2.0).unwrap();
        let mut rng = stream(1, Purpose::TESTING, 0);
        let draws = (0..50).map(|_| wide.sample(&mut rng));
        let starts: Vec<_> = draws.map(|draw| (log_density(&draw), draw)).collect();
        // One lap of ten walks.
        let counted = Target::new(&log_density, None, 200, stream(1, Purpose::TESTING, 1));
        let tops = tops(starts[..10].to_vec(), &counted, 200);
        assert_eq!((tops.len(), counted.spent.get()), (5, 100));
        let best = starts[..10]
            .iter()
            .map(|start| start.0)
            .fold(f64::NEG_INFINITY, f64::max);
        assert!(tops[0].0 > best + 5.0, "{} from {best}", tops[0].0);
    }

    #[test]
    fn climbs_along_a_gradient_end_where_it_is_flat() {
        let variances = DVector::from_fn(10, |i, _| 0.5 + 0.05 * i as f64);
        let peak = Gaussian::diagonal(DVector::from_element(10, 1.0), variances).unwrap();
        let log_density = |x: &DVector<f64>| peak.log_density(x);
        let gradient = |x: &DVector<f64>, to: &mut DVector<f64>| peak.gradient_into(x, to);
        let counted = Target::new(
            &log_density,
            Some(&gradient),
            10_000,
            stream(1, Purpose::TESTING, 1),
        );
        let wide = Gaussian::isotropic(DVector::zeros(10), 2.0).unwrap();
        let mut rng = stream(1, Purpose::TESTING, 0);
        let starts = (0..50).map(|_| (0.0, wide.sample(&mut rng))).collect();
        let tops = tops(starts, &counted, 10_000);
        assert_eq!(tops.len(), 50);
        for (_, top) in tops {
            let off = (top - peak.mean()).amax();
            assert!(off < 0.05, "{off}");
        }
        let spent = counted.spent.get();
        assert!(spent <= 50 * CLIMB_ITERATIONS as u64 * 3 / 4, "{spent}");
    }

    #[test]
    fn nothing_is_found_without_draws_or_evaluations() {
        let draw = DVector::from_element(3, 1.0);
        for (draws, allowance) in [
            (vec![], 100),
            (vec![draw.clone()], 100),
            (vec![draw; 50], 0),
        ] {
            let counted = Target::new(
                &|x: &DVector<f64>| -x.norm_squared(),
                None,
                allowance,
                stream(1, Purpose::TESTING, 1),
            );
            let starts = draws.into_iter().map(|draw| (0.0, draw)).collect();
            assert!(tops(starts, &counted, allowance).is_empty());
        }
    }
}
