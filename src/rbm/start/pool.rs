//! Weighted samples of an RBM, and mixtures of Bernoulli products fitted to them.

use std::collections::HashSet;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};

use crate::Result;
use crate::ais::Run;
use crate::estimate::LogZ;
use crate::num::{WeightSums, largest, log_sum_exp, sigmoid};
use crate::random::{StreamRng, draw_index};
use crate::rbm::lower_bound::{Configuration, log_sum};
use crate::rbm::model::draw_all;
use crate::rbm::{BaseRate, Rbm, Scalar};

/// Number of rows (samples of the RBM) drawn from the known configurations: half as many as a pilot has chains. A
/// quarter of them is enough for the largest mixture (16 components of 4 effective rows).
const CONFIGURATION_ROWS: usize = 256;
/// Log of the known configurations' share of Z, 5%, below which they are left out. The pilots' own states then stand
/// for this mass, so it is counted once in either case.
const NEGLIGIBLE_LOG_SHARE: f64 = -3.0;
/// Share of the largest weight below which rows are left out. At most 3,840 rows enter, so that all rows left out weigh
/// less than 4% of the heaviest one.
const LEAST_WEIGHT: f64 = 1e-5;

/// Configurations of the layer with fewer units, one for each chain of a pilot, with the log of the chain's share of
/// the pilot's `Z^`.
pub(super) struct Drawn {
    log_z: f64,
    effective: f64,
    configurations: Vec<Configuration>,
}

impl Drawn {
    /// Draws h given the final v of each of N chains, or keeps v if it has fewer units. Caps weights at `sqrt(N)` times
    /// their mean (Ionides 2008).
    pub(super) fn of<T: Scalar>(rbm: &Rbm<T>, run: &Run<Vec<bool>>, rng: &mut StreamRng) -> Self {
        let log_chains = (run.chains() as f64).ln();
        let most = -0.5 * log_chains;
        let chains = run.states().iter().zip(run.log_weights());
        let configurations = chains.map(|(state, log_weight)| {
            let units = match rbm.is_narrow() {
                true => draw_all(&rbm.hidden_activation(state), rng),
                false => state.clone(),
            };
            // The smaller terms are added last, because they are below the rounding of large weights.
            let log_share = (log_weight - run.log_z_ratio()) - log_chains;
            (log_share.min(most), units)
        });
        Self {
            log_z: run.log_z(),
            effective: run.effective_sample_size(),
            configurations: configurations.collect(),
        }
    }
}

/// Pools pilots and known configurations of the smaller layer into weighted samples of the RBM: the visible
/// probabilities given a configuration. Known configurations have their exact masses `f(h)`. Pilots, weighted by
/// effective sample size, add chains with other configurations.
pub(super) fn pool<T: Scalar>(
    rbm: &Rbm<T>,
    pilots: &[Drawn],
    known: &[Configuration],
    rng: &mut StreamRng,
) -> Rows {
    let best = largest(pilots.iter().map(|pilot| pilot.log_z));
    let log_known = log_sum(known) - best;
    let known = match log_known > NEGLIGIBLE_LOG_SHARE {
        true => known,
        false => &[],
    };
    let met: HashSet<&Vec<bool>> = known.iter().map(|(_, units)| units).collect();
    let effective: f64 = pilots.iter().map(|pilot| pilot.effective).sum();
    // The log masses of all rows are relative to the highest estimate. A small share is lost in the rounding of a large
    // log mass.
    let each = log_known - (CONFIGURATION_ROWS as f64).ln();
    let known = systematic(known, rng).into_iter();
    let mut rows = Vec::from_iter(known.map(|units| (each, units)));
    for pilot in pilots {
        let log_share = (pilot.log_z - best) + (pilot.effective / effective).ln();
        let others = pilot
            .configurations
            .iter()
            .filter(|(_, units)| !met.contains(units));
        rows.extend(others.map(|(log_part, units)| (log_part + log_share, units)));
    }
    let most = largest(rows.iter().map(|(log_mass, _)| log_mass));
    rows.retain(|(log_mass, _)| *log_mass - most > LEAST_WEIGHT.ln());
    let rates = rows.iter().map(|(_, units)| match rbm.is_narrow() {
        true => rbm.visible_activation(units).map(sigmoid),
        false => DVector::from_iterator(units.len(), units.iter().map(|&on| f64::from(on))),
    });
    Rows {
        rates: DMatrix::from_columns(&Vec::from_iter(rates)),
        weights: rows
            .iter()
            .map(|(log_mass, _)| (log_mass - most).exp())
            .collect(),
    }
}

/// Draws configurations in proportion to their masses by systematic sampling. Each draw has an equal part of the total
/// mass.
fn systematic<'c>(known: &'c [Configuration], rng: &mut StreamRng) -> Vec<&'c Vec<bool>> {
    let sums = WeightSums::of(known.iter().map(|(log_f, _)| *log_f));
    let (mut left, mut rows) = (rng.random::<f64>(), Vec::new());
    for (log_f, hidden) in known {
        left += CONFIGURATION_ROWS as f64 * sums.share(*log_f);
        while left >= 1.0 {
            rows.push(hidden);
            left -= 1.0;
        }
    }
    rows
}

/// Number of steps of EM for a mixture. An imperfect fit costs effective chains and no bias, and each component has
/// `PRIOR_ROWS` rows of the overall mean anyway.
const EM_ITERATIONS: usize = 8;
/// Prior of a component: number of rows at the overall mean that are added to its effective rows. A component of the
/// fewest rows that one needs on average (4) moves a third of the way to that mean.
const PRIOR_ROWS: f64 = 2.0;
/// Number of effective rows below which a component is dropped. It must be below 1/2: with one effective row and two
/// components, the larger may have only half a row, and one component must stay.
const LEAST_ROWS: f64 = 0.3;
/// Smallest mean of a component; the largest is `1 - LEAST_RATE`. A unit that no sample shows in one of its states then
/// costs a weight at most 5.3 nats (`-log .005`).
const LEAST_RATE: f64 = 0.005;

/// Visible probabilities, a column (D) per sample of the model, with weights.
pub(super) struct Rows {
    pub(super) rates: DMatrix<f64>,
    pub(super) weights: Vec<f64>,
}

impl Rows {
    pub(super) fn effective(&self) -> f64 {
        let squares: f64 = self.weights.iter().map(|w| w * w).sum();
        self.weights.iter().sum::<f64>().powi(2) / squares
    }

    /// Fits a mixture by EM, starting at rows far from one another. A prior pulls each component towards the overall
    /// mean.
    pub(super) fn fit<T: Scalar>(
        &self,
        hidden_units: usize,
        components: usize,
        rng: &mut impl Rng,
    ) -> Result<BaseRate<T>> {
        let mean = &self.rates * DVector::from_column_slice(&self.weights) / self.total();
        let (mut shares, mut means) = (vec![1.0], DMatrix::from_columns(&[clipped(&mean)]));
        if components > 1 {
            let chosen = self.distant(components, rng);
            let start = |&row: &usize| clipped(&((self.rates.column(row) + &mean) / 2.0));
            means = DMatrix::from_columns(&Vec::from_iter(chosen.iter().map(start)));
            shares = vec![1.0 / chosen.len() as f64; chosen.len()];
            for _ in 0..EM_ITERATIONS {
                (shares, means) = self.step(&mean, &shares, &means);
            }
        }
        let components = shares.iter().zip(means.column_iter());
        let components = components.map(|(&share, rates)| {
            let rates = rates.into_owned();
            Ok((share, BaseRate::from_rates(hidden_units, &rates)?))
        });
        BaseRate::mixture(components.collect::<Result<Vec<_>>>()?)
    }

    fn total(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// Chooses rows with probability proportional to weight times squared distance from the nearest row chosen before.
    fn distant(&self, count: usize, rng: &mut impl Rng) -> Vec<usize> {
        let mut chosen = vec![draw_by_mass(&self.weights, rng)];
        let mut distances = vec![f64::INFINITY; self.weights.len()];
        while chosen.len() < count {
            let last = self.rates.column(chosen[chosen.len() - 1]);
            for (distance, row) in distances.iter_mut().zip(self.rates.column_iter()) {
                *distance = distance.min((row - last).norm_squared());
            }
            let masses = distances.iter().zip(&self.weights);
            let masses: Vec<f64> = masses.map(|(distance, w)| distance * w).collect();
            // All rows equal chosen ones, so that no further component can start apart from them.
            if masses.iter().sum::<f64>() <= f64::MIN_POSITIVE {
                break;
            }
            chosen.push(draw_by_mass(&masses, rng));
        }
        chosen
    }

    fn step(
        &self,
        mean: &DVector<f64>,
        shares: &[f64],
        means: &DMatrix<f64>,
    ) -> (Vec<f64>, DMatrix<f64>) {
        let offsets = shares.iter().zip(means.column_iter());
        let offsets: Vec<f64> = offsets
            .map(|(share, p)| share.ln() + p.iter().map(|p| (-p).ln_1p()).sum::<f64>())
            .collect();
        let logits = means.map(|p| (p / (1.0 - p)).ln());
        // (C x n): log densities, then parts of the rows' weights.
        let mut parts = logits.transpose() * &self.rates;
        for (mut column, weight) in parts.column_iter_mut().zip(&self.weights) {
            (column.iter_mut().zip(&offsets)).for_each(|(x, offset)| *x += offset);
            let norm = log_sum_exp(column.iter());
            column.apply(|x| *x = weight * (*x - norm).exp());
        }
        // Weight of one effective row, the unit of `LEAST_ROWS` and of the prior.
        let row = self.total() / self.effective();
        let sums = &self.rates * parts.transpose();
        let masses = parts.row_iter().map(|parts| parts.sum());
        let (mut kept, mut columns) = (Vec::new(), Vec::new());
        for (mass, sum) in masses.zip(sums.column_iter()) {
            // One component always stays: the largest has at least half of the mass, or four effective rows.
            if mass > LEAST_ROWS * row {
                kept.push(mass / self.total());
                let prior = PRIOR_ROWS * row;
                columns.push(clipped(&((sum + mean * prior) / (mass + prior))));
            }
        }
        (kept, DMatrix::from_columns(&columns))
    }
}

fn clipped(rates: &DVector<f64>) -> DVector<f64> {
    rates.map(|p| p.clamp(LEAST_RATE, 1.0 - LEAST_RATE))
}

fn draw_by_mass(masses: &[f64], rng: &mut impl Rng) -> usize {
    let total: f64 = masses.iter().sum();
    draw_index(masses.iter().map(|mass| mass / total), 1.0, rng)
}

#[cfg(test)]
mod tests {
    use nalgebra::dvector;

    use crate::ais::Ais;
    use crate::random::{Purpose, stream};
    use crate::rbm::lower_bound::Effort;
    use crate::rbm::{BlockGibbs, RbmPath};
    use crate::schedule::Schedule;

    use super::*;

    /// The pool has the model's mean rates if 1, 2 or 4 of the 8 configurations are known, so none is counted twice.
    #[test]
    fn the_pool_has_the_means_of_the_model() {
        let weights = DMatrix::from_fn(3, 5, |j, i| 2.0 * ((1 + i + 7 * j) as f64).sin());
        let rbm = Rbm::new(
            weights,
            DVector::from_vec(vec![0.3, -0.8, 0.5]),
            DVector::zeros(5),
        );
        let rbm = rbm.unwrap();
        let exact = rbm.exact_moments().unwrap().visible;
        let (_, all) = rbm.explore(&[], 16, 0, Effort::full(16)).unwrap();
        assert_eq!(all.len(), 8);
        let mut rng = stream(5, Purpose::TESTING, 0);
        let pilots: Vec<Drawn> = (0..2)
            .map(|seed| {
                let base = BaseRate::uniform(3, 5).unwrap();
                let path = RbmPath::new(base, rbm.clone()).unwrap();
                let ais = Ais::new(&path, BlockGibbs).chains(4_000).seed(seed);
                let run = ais.schedule(Schedule::linear(20).unwrap()).run().unwrap();
                Drawn::of(&rbm, &run, &mut rng)
            })
            .collect();
        for known in [&all[..1], &all[..2], &all[..4]] {
            let rows = pool(&rbm, &pilots, known, &mut rng);
            let total: f64 = rows.weights.iter().sum();
            let mean = &rows.rates * DVector::from_column_slice(&rows.weights) / total;
            assert!((mean - &exact).amax() < 0.02, "{exact}");
        }
    }

    /// Uses row weights instead of copies of rows. The fit has the shares and means of the two groups, up to the prior.
    #[test]
    fn two_groups_of_rows_are_two_components() {
        let near = dvector![0.9, 0.9, 0.1, 0.1, 0.1];
        let far = near.map(|p| 1.0 - p);
        let columns = Vec::from_iter((0..400).map(|i| {
            if i % 4 == 0 {
                near.clone()
            } else {
                far.clone()
            }
        }));
        let weights = (0..400).map(|i| if i % 4 == 0 { 9.0 } else { 1.0 });
        let rows = Rows {
            rates: DMatrix::from_columns(&columns),
            weights: weights.collect(),
        };
        let mut rng = stream(1, Purpose::TESTING, 0);
        let base = rows.fit::<f64>(2, 2, &mut rng).unwrap();
        let mut components: Vec<_> = base.components().collect();
        components.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!((components[0].0 - 0.25).abs() < 0.02 && (components[1].0 - 0.75).abs() < 0.02);
        for ((_, logits), rates) in components.iter().zip([&far, &near]) {
            let found = logits.map(crate::num::sigmoid);
            assert!((found - rates).amax() < 0.05, "{logits}");
        }
        let one = rows.fit::<f64>(2, 1, &mut rng).unwrap();
        let mean = &near * 0.75 + &far * 0.25;
        let found = one.visible_bias().map(crate::num::sigmoid);
        assert!((found - mean).amax() < 1e-12);
    }
}
