//! Modes of a target: where chains end, and where climbs lead from draws that the known modes do not explain.

use nalgebra::DVector;

use super::around::{fits, laplace};
use super::climbs::tops;
use super::find_modes::{MOST_MODES, Target, Trails};
use crate::model::{Gaussian, Sampleable, UnnormalizedModel};
use crate::num::log_sum_exp;

/// Drop in log density, on the line between two states, from which on the states belong to different modes. At 1 nat,
/// two equal Gaussian modes count as one if their centres are less than 3.7 deviations apart.
const DROP_BETWEEN_MODES: f64 = 1.0;
/// Number of searches for modes. Each search uses the modes that earlier searches found, so the third finds modes that
/// only draws around a mode of the second reach. Each has a third of the draws.
const SEARCHES: usize = 3;
/// Factor of the covariance of a mode's Gaussian, from which states around the mode are drawn. At twice the deviations
/// one state in 10,000 lies in the narrowest of three modes (in the test below); two base draws in a million do.
const COVARIANCE_FACTOR: f64 = 4.0;
/// Number of draws around modes for each draw of the base. The search then spends half of its evaluations around modes,
/// a sixth on draws of the base, and a third on climbs.
const DRAWS_AROUND_MODES: usize = 3;
/// Number of evaluations by climbs for each draw of the base. It pays one climb along a gradient for 18 rated states.
const CLIMB_EVALUATIONS: usize = 2;
/// Number of evaluations of the search for each draw of the base: its own rating, ratings around modes, and climbs.
pub(super) const EVALUATIONS_PER_DRAW: u64 = (1 + DRAWS_AROUND_MODES + CLIMB_EVALUATIONS) as u64;
/// Largest number of local optima that a search compares with the modes, among the optima that no known mode explains.
/// The limit bounds the cost: the comparisons of 200 optima with 16 modes take up to 9,600 evaluations.
const MOST_TOPS: usize = 200;
/// Divisor of the evaluations left. The quotient is the most that one search spends on Laplace's approximations. With a
/// fit before the three searches, they take at most 41% of all, so that the other steps keep the larger part.
const LAPLACE_DIVISOR: u64 = 8;

/// A mode: the best state found there, the chains that end there, and Gaussians around it.
pub(super) struct Mode {
    best: DVector<f64>,
    log_density: f64,
    chains: Vec<usize>,
    /// Laplace's approximation, if there is one, followed by fits to the chains at each power, the highest power first.
    pub(super) gaussians: Vec<Gaussian>,
}

/// Returns the modes where the chains end, and the modes to which climbs lead.
pub(super) fn modes(trails: &Trails<DVector<f64>>, target: &Target<'_, DVector<f64>>) -> Vec<Mode> {
    let mut modes = Vec::new();
    let ends = trails.ends().iter().enumerate();
    let mut ends: Vec<_> = ends
        .map(|(chain, end)| Mode::new(target.log_density(end), end.clone(), vec![chain]))
        .collect();
    // `is_near` calls no end near to a much lower one, so the highest ends are added first.
    ends.sort_by(|a, b| b.log_density.total_cmp(&a.log_density));
    ends.into_iter()
        .for_each(|end| add(&mut modes, end, target));
    fit(&mut modes, trails, target);
    let each = trails.draws().len().div_ceil(SEARCHES).max(1);
    for draws in trails.draws().chunks(each) {
        let starts = unexplained(&modes, draws, target);
        let found = tops(starts, target, (CLIMB_EVALUATIONS * draws.len()) as u64).into_iter();
        let peaks = peaks(&modes);
        let is_new = |(log_density, top): &(f64, DVector<f64>)| {
            (log_density - explained(&peaks, top)).abs() > DROP_BETWEEN_MODES
        };
        let new: Vec<_> = found.filter(is_new).take(MOST_TOPS).collect();
        for (log_density, top) in new {
            add(&mut modes, Mode::new(log_density, top, Vec::new()), target);
        }
        fit(&mut modes, trails, target);
    }
    modes
}

/// Adds `new` to the modes. If `new` is near a known mode, the known mode gets the chains of `new` instead.
fn add(modes: &mut Vec<Mode>, new: Mode, target: &Target<'_, DVector<f64>>) {
    if new.log_density == f64::NEG_INFINITY {
        return;
    }
    match modes.iter().position(|mode| mode.is_near(&new, target)) {
        Some(mode) => modes[mode].chains.extend(new.chains),
        None if modes.len() < MOST_MODES => modes.push(new),
        None => {}
    }
}

/// Fits Gaussians around the modes that have none. Moves a mode to the centre of its first Gaussian if the density is
/// higher there.
fn fit(modes: &mut [Mode], trails: &Trails<DVector<f64>>, target: &Target<'_, DVector<f64>>) {
    let all = modes.len() as u64;
    for mode in modes.iter_mut().filter(|mode| mode.gaussians.is_empty()) {
        let fits = fits(trails, &mode.chains);
        let share = target.left() / (LAPLACE_DIVISOR * all);
        let laplace = laplace(&mode.best, fits.first(), target, share);
        mode.gaussians = laplace.into_iter().chain(fits).collect();
        if let Some(first) = mode.gaussians.first() {
            let log_density = target.log_density(first.mean());
            if log_density > mode.log_density {
                (mode.best, mode.log_density) = (first.mean().clone(), log_density);
            }
        }
    }
}

/// Returns `draws` of the base and further draws around the modes, with their log densities. They are sorted by the
/// ratio of their density to the density that the Gaussians around the modes explain, the largest first.
fn unexplained(
    modes: &[Mode],
    draws: &[DVector<f64>],
    target: &Target<'_, DVector<f64>>,
) -> Vec<(f64, DVector<f64>)> {
    let known = modes.iter().filter_map(|mode| mode.gaussians.first());
    let wide: Vec<Gaussian> = known
        .filter_map(|known| known.scaled(COVARIANCE_FACTOR).ok())
        .collect();
    let mut states = draws.to_vec();
    let each = DRAWS_AROUND_MODES * draws.len() / wide.len().max(1);
    let rng = &mut *target.rng.borrow_mut();
    // A narrow mode near a known one may be too rare among draws of the base.
    for wide in &wide {
        states.extend((0..each).map(|_| wide.sample(rng)));
    }
    let peaks = peaks(modes);
    let mut rated: Vec<(f64, f64, DVector<f64>)> = states
        .into_iter()
        .map(|state| {
            let log_density = target.log_density(&state);
            (log_density - explained(&peaks, &state), log_density, state)
        })
        .collect();
    // A rating costs one evaluation and a climb eight or more, so climbs begin at the best-rated states.
    rated.sort_by(|(a, a_density, _), (b, b_density, _)| {
        // Without a known mode all ratings are equal.
        b.total_cmp(a).then(b_density.total_cmp(a_density))
    });
    let rated = rated.into_iter();
    rated.map(|(_, density, state)| (density, state)).collect()
}

/// Returns the first Gaussian of each mode that has one, and the log of the factor that scales its peak to the
/// density at the mode.
fn peaks(modes: &[Mode]) -> Vec<(f64, &Gaussian)> {
    let known = modes.iter().filter_map(|mode| {
        let first = mode.gaussians.first()?;
        Some((mode.log_density - first.log_density(first.mean()), first))
    });
    known.collect()
}

/// Returns the log density at `state` of the sum of the scaled Gaussians `peaks`; very low if there are none.
fn explained(peaks: &[(f64, &Gaussian)], state: &DVector<f64>) -> f64 {
    let parts = peaks
        .iter()
        .map(|(peak, part)| peak + part.log_density(state));
    // With -inf the rating of a state off the support would be NaN.
    log_sum_exp(parts).max(f64::MIN)
}

impl Mode {
    fn new(log_density: f64, best: DVector<f64>, chains: Vec<usize>) -> Self {
        Self {
            best,
            log_density,
            chains,
            gaussians: Vec::new(),
        }
    }

    /// Returns true if the log density on the line from `lower` to this mode never falls by more than
    /// [`DROP_BETWEEN_MODES`] below its value at `lower`. Three points on the line are compared. So no state is near to
    /// a mode of much lower density: a narrow peak on the slope of a broad mode is a mode of its own.
    fn is_near(&self, lower: &Self, target: &Target<'_, DVector<f64>>) -> bool {
        let between = |share: f64| &lower.best * (1.0 - share) + &self.best * share;
        // The middle is farthest from both states. It comes first, since a drop there saves two evaluations.
        [0.5, 0.25, 0.75].into_iter().all(|share| {
            target.log_density(&between(share)) >= lower.log_density - DROP_BETWEEN_MODES
        })
    }
}

#[cfg(test)]
mod tests {

    use super::super::find_modes::GradientOf;
    use super::*;
    use crate::model::{Differentiable, GaussianMixture};
    use crate::random::{Purpose, StreamRng, stream};

    const DIMENSION: usize = 10;

    fn part(mean: f64, deviation: f64) -> Gaussian {
        Gaussian::isotropic(DVector::from_element(DIMENSION, mean), deviation).unwrap()
    }

    fn samples(part: &Gaussian, count: usize, rng: &mut StreamRng) -> Vec<DVector<f64>> {
        (0..count).map(|_| part.sample(rng)).collect()
    }

    fn counted<'t>(
        log_density: &'t dyn Fn(&DVector<f64>) -> f64,
        gradient: Option<GradientOf<'t, DVector<f64>>>,
        seed: u64,
    ) -> Target<'t, DVector<f64>> {
        Target::new(
            log_density,
            gradient,
            300_000,
            stream(seed, Purpose::TESTING, 1),
        )
    }

    /// Only one draw of the base in 2,500 lies where the target's narrow part is denser than its wide part. Most other
    /// draws have a higher density than this draw.
    #[test]
    fn draws_that_the_known_mode_does_not_explain_come_first() {
        let (wide, narrow) = (part(-1.0, 1.0), part(1.0, 0.3));
        let target = GaussianMixture::new([(0.5, wide.clone()), (0.5, narrow.clone())]).unwrap();
        let known = Mode {
            gaussians: vec![wide.clone()],
            ..Mode::new(target.log_density(wide.mean()), wide.mean().clone(), vec![])
        };
        let draws = samples(&part(0.0, 2.0), 10_000, &mut stream(1, Purpose::TESTING, 0));
        let log_density = |x: &DVector<f64>| target.log_density(x);
        let counted = counted(&log_density, None, 1);
        let rated = unexplained(&[known], &draws, &counted);
        assert_eq!(rated.len(), (1 + DRAWS_AROUND_MODES) * draws.len());
        assert_eq!(counted.spent.get(), rated.len() as u64);
        let normalised = |part: &Gaussian, x: &DVector<f64>| {
            part.log_density(x) + DIMENSION as f64 * part.covariance()[(0, 0)].powf(-0.5).ln()
        };
        let is_narrow =
            |(_, x): &&(f64, DVector<f64>)| normalised(&narrow, x) > normalised(&wide, x);
        let all = rated.iter().filter(is_narrow).count();
        let first = rated[..all].iter().filter(is_narrow).count();
        assert!(all >= 2 && first == all, "{first} of {all}");
    }

    #[test]
    fn without_a_known_mode_the_densest_draws_come_first() {
        let target = part(0.0, 1.0);
        let draws = samples(&part(0.0, 2.0), 100, &mut stream(1, Purpose::TESTING, 0));
        let log_density = |x: &DVector<f64>| target.log_density(x);
        let rated = unexplained(&[], &draws, &counted(&log_density, None, 1));
        assert!(rated.is_sorted_by(|(a, _), (b, _)| a >= b));
    }

    /// Two draws of the base in a million lie where the narrowest part has the largest density. Of the draws from a
    /// Gaussian twice as wide as the middle part, one in 10,000 lies there.
    #[test]
    fn a_mode_near_to_another_is_found_from_there() {
        let parts = [part(-1.0, 1.0), part(0.5, 0.5), part(1.5, 0.2)];
        let target = GaussianMixture::new(parts.clone().map(|part| (1.0 / 3.0, part))).unwrap();
        let log_density = |x: &DVector<f64>| target.log_density(x);
        let gradient = |x: &DVector<f64>, to: &mut DVector<f64>| target.gradient_into(x, to);
        let mut found = 0;
        for seed in 1..=6 {
            let mut rng = stream(seed, Purpose::TESTING, 0);
            let mut trails = Trails::new(samples(&parts[0], 64, &mut rng));
            trails.push(256.0, samples(&part(-1.0, 1.0 / 16.0), 64, &mut rng));
            let trails = trails.with_draws(samples(&part(0.0, 2.0), 20_000, &mut rng));
            let counted = counted(&log_density, Some(&gradient), seed);
            let modes = modes(&trails, &counted);
            assert!((2..=3).contains(&modes.len()), "{}", modes.len());
            assert!((100_000..=150_000).contains(&counted.spent.get()));
            found += usize::from(modes.len() == 3);
        }
        assert!(found >= 5, "{found} of 6");
    }

    /// The chains of a narrow mode end beside its centre. Climbs must still find the other modes.
    #[test]
    fn a_narrow_mode_off_its_centre_leaves_climbs_to_others() {
        let of = |mean: fn(usize) -> f64, deviation: f64| {
            Gaussian::isotropic(DVector::from_fn(6, |i, _| mean(i)), deviation).unwrap()
        };
        let narrow = of(|i| if i % 2 == 0 { 2.0 } else { -2.0 }, 0.1);
        let parts = [of(|_| -1.5, 1.0), of(|_| 1.5, 0.3), narrow.clone()];
        let target = GaussianMixture::new(parts.clone().map(|part| (1.0 / 3.0, part))).unwrap();
        let log_density = |x: &DVector<f64>| target.log_density(x);
        let gradient = |x: &DVector<f64>, to: &mut DVector<f64>| target.gradient_into(x, to);
        for seed in 1..=3 {
            let mut rng = stream(seed, Purpose::TESTING, 0);
            let off = narrow.mean().map(|x| x + 0.03);
            let ends = |deviation| of(|_| -1.5, deviation);
            let mut starts = samples(&ends(1.0), 64, &mut rng);
            starts.extend(vec![off.clone(); 32]);
            let mut trails = Trails::new(starts);
            let mut cooled = samples(&ends(1.0 / 16.0), 64, &mut rng);
            cooled.extend(vec![off; 32]);
            trails.push(256.0, cooled);
            let trails = trails.with_draws(samples(&of(|_| 0.0, 3.0), 4_400, &mut rng));
            let counted = counted(&log_density, Some(&gradient), seed);
            assert_eq!(modes(&trails, &counted).len(), 3);
        }
    }
}
