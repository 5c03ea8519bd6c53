//! A lower bound, which is certain to hold, on log Z of an RBM.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use nalgebra::{DMatrix, DVector, DVectorView};

use crate::num::{WeightSums, sigmoid, softplus};
use crate::rbm::enumerate::{check_log_normalizer, map_tasks};
use crate::rbm::mean_field::{BLOCK, Layer, MeanField, coin_blocks};
use crate::rbm::model::masked_sum_of;
use crate::rbm::{Rbm, Scalar};
use crate::{Error, Result};

/// Change of probabilities below which a mode counts as found.
const TOLERANCE: f64 = 1e-3;
/// Resolution of hidden means. Modes whose hidden means round to the same multiples count as one.
const RESOLUTION: f64 = 0.1;

/// A lower bound on log Z of an RBM or harmonium, certain up to rounding, and the modes found on the way.
///
/// An estimate below the bound has missed mass. If many configurations share the mass, as with hundreds of hidden
/// units, the bound lies far below log Z.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LogZBound {
    /// The bound: the larger of [`configurations`](Self::configurations) and the bound of the first mode.
    pub value: f64,
    /// Log of the sum of `f(h)` over the distinct hidden configurations found.
    pub configurations: f64,
    /// Distinct modes, highest bound first.
    pub modes: Vec<MeanFieldMode>,
}

/// A solution of the mean-field equations `mu = sigmoid(a + W m)`, `m = sigmoid(b + W^T mu)` of an RBM.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MeanFieldMode {
    /// Means `mu` of the hidden units.
    pub hidden: DVector<f64>,
    /// Means `m` of the visible units; for a harmonium, of their statistics.
    pub visible: DVector<f64>,
    /// `a.mu + H(mu) + A(W^T mu)`, at most log Z. A is the log normalizer of the visible units; for an RBM it is
    /// `sum_i softplus(b_i + (W^T mu)_i)`.
    pub bound: f64,
}

impl<T: Scalar> Rbm<T> {
    /// Computes a lower bound on log Z from visible `states`, which may be empty, and `starts` states of fair coins.
    ///
    /// It is the larger of the best mode's [bound](MeanFieldMode) and the log of the sum of
    /// `f(h) = exp(a.h) prod_i (1 + exp(b_i + (W^T h)_i))` over *distinct* hidden configurations. A search finds these
    /// configurations from the starts and modes, by flips of one unit. The number of threads does not change the bits.
    ///
    /// # Errors
    /// If there is no state and no start, there are too many, the length of a state is not D, or log Z overflows.
    ///
    /// ```
    /// use annealed::rbm::Rbm;
    /// use nalgebra::dmatrix;
    ///
    /// let weights = dmatrix![4.0, 4.0, -4.0; -2.0, 1.0, 0.0];
    /// let rbm = Rbm::<f64>::new(weights, vec![-2.0, 0.0].into(), vec![-1.0, -2.0, 2.0].into())?;
    /// let bound = rbm.lower_bound(&[], 10, 0)?;
    /// // The search finds all four hidden configurations; the mean field of the best mode is a bit lower.
    /// assert!((bound.value - rbm.exact_log_normalizer()?).abs() < 1e-12);
    /// assert!(bound.modes[0].bound < bound.value);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn lower_bound(&self, states: &[Vec<bool>], starts: usize, seed: u64) -> Result<LogZBound> {
        Ok(self.explore(states, starts, seed, Effort::full(starts))?.0)
    }

    /// Computes the bound, and the configurations of the smaller layer that it sums over, densest first.
    pub(super) fn explore(
        &self,
        states: &[Vec<bool>],
        starts: usize,
        seed: u64,
        effort: Effort,
    ) -> Result<(LogZBound, Vec<Configuration>)> {
        let units = self.visible_units();
        for state in states {
            Error::check_dimension("state", state.len(), units)?;
        }
        Error::check_count("states and starts", states.len().saturating_add(starts), 1)?;
        let equations = MeanField::new(self);
        let mut given = states.chunks(BLOCK).map(columns);
        let hidden = coin_blocks(self.hidden_units(), effort.hidden_starts, seed);
        let hidden = hidden.map(|coins| equations.visible_means(&coins));
        let random = coin_blocks(units, starts, seed).chain(hidden);
        // A short run affords few ascents: these begin at the first states, then at random.
        let blocks = Vec::from_iter(given.next().into_iter().chain(random).chain(given));
        if self.is_narrow() {
            return equations.explore(&blocks, seed, effort);
        }
        let modes = equations.ascend_all(&blocks, effort).0;
        let is_on = |mode: &MeanFieldMode| mode.visible.iter().map(|&p| p > 0.5).collect();
        let first = states.iter().cloned().chain(modes.iter().map(is_on));
        let found = MeanField::new(self).exchanged().find(first, seed, effort);
        equations.finish(modes, heaviest(&found), found, effort)
    }
}

/// Sorts modes, highest bound first, and keeps the first of those that count as one.
fn distinct(mut modes: Vec<MeanFieldMode>) -> Vec<MeanFieldMode> {
    modes.sort_by(|one, other| other.bound.total_cmp(&one.bound));
    let mut distinct = BTreeSet::new();
    modes.retain(|mode| distinct.insert(Vec::from_iter(mode.hidden.iter().map(rounded))));
    modes
}

fn heaviest(found: &[Configuration]) -> DMatrix<f64> {
    let units = found.iter().take(BLOCK).map(|(_, units)| units.clone());
    columns(&Vec::from_iter(units))
}

fn rounded(mean: &f64) -> u8 {
    (mean / RESOLUTION).round() as u8
}

fn columns(states: &[Vec<bool>]) -> DMatrix<f64> {
    DMatrix::from_fn(states[0].len(), states.len(), |i, column| {
        f64::from(states[column][i])
    })
}

/// Modes, and hidden configurations.
type Ascended = (Vec<MeanFieldMode>, Vec<Vec<bool>>);

impl<L: Layer> MeanField<L> {
    /// Returns the bound, computed from `blocks` of columns of visible means, and the configurations that it sums over.
    pub(crate) fn explore(
        &self,
        blocks: &[DMatrix<f64>],
        seed: u64,
        effort: Effort,
    ) -> Result<(LogZBound, Vec<Configuration>)> {
        let (modes, ends) = self.ascend_all(blocks, effort);
        let found = self.find(ends, seed, effort);
        self.finish(modes, self.visible_means(&heaviest(&found)), found, effort)
    }

    /// Ascends from the best modes and from the columns `heaviest`: the search may have left the basins of the starts.
    fn finish(
        &self,
        modes: Vec<MeanFieldMode>,
        heaviest: DMatrix<f64>,
        found: Vec<Configuration>,
        effort: Effort,
    ) -> Result<(LogZBound, Vec<Configuration>)> {
        let mut modes = distinct(modes);
        let best = modes.iter().take(effort.refined).map(|mode| &mode.visible);
        let heaviest = heaviest.column_iter().map(|column| column.into_owned());
        let last = Vec::from_iter(heaviest.chain(best.cloned()));
        let last = self.ascend(&DMatrix::from_columns(&last), effort.tolerances[1]);
        modes.extend(last.0);
        let modes = distinct(modes);
        let configurations = check_log_normalizer(log_sum(&found))?;
        let bound = LogZBound {
            value: configurations.max(check_log_normalizer(modes[0].bound)?),
            configurations,
            modes,
        };
        Ok((bound, found))
    }

    /// Ascends from the first columns. Returns the modes, and hidden configurations near all columns.
    fn ascend_all(&self, blocks: &[DMatrix<f64>], effort: Effort) -> Ascended {
        let found = map_tasks(blocks.len(), |block| {
            let left = effort.ascents.saturating_sub(block * BLOCK);
            let block = &blocks[block];
            match left.min(block.ncols()) {
                0 => (Vec::new(), self.near(block)),
                count => self.ascend(&block.columns(0, count).into_owned(), effort.tolerances[0]),
            }
        });
        let (modes, ends): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        (modes.concat(), ends.concat())
    }

    /// Searches by flips from the configurations `first` and from final configurations of simulated annealing.
    fn find(
        &self,
        first: impl IntoIterator<Item = Vec<bool>>,
        seed: u64,
        effort: Effort,
    ) -> Vec<Configuration> {
        let cooled = self.cool(effort.cooled, effort.sweeps, seed);
        let first = BTreeSet::from_iter(first.into_iter().chain(cooled));
        self.search(&Vec::from_iter(first), effort.configurations)
    }

    /// Ascends from columns of visible means. Returns the modes, and the likeliest hidden configurations at both ends
    /// of ascents.
    fn ascend(&self, visible: &DMatrix<f64>, tolerance: f64) -> Ascended {
        let solutions = self.means_of(&self.solve(visible, tolerance));
        let ends = [self.near(visible), self.near(&solutions)].concat();
        let hidden = self.hidden_logits(&solutions);
        let visible = self.visible_fields(&hidden.map(sigmoid));
        let modes = hidden.column_iter().zip(visible.column_iter());
        let modes = modes.map(|(hidden, visible)| MeanFieldMode {
            bound: self.bound(hidden.as_slice(), visible.as_slice()),
            hidden: hidden.map(sigmoid),
            visible: self.layer.means(visible),
        });
        (modes.collect(), ends)
    }

    /// Returns the likeliest hidden configuration for each column of visible means.
    fn near(&self, visible: &DMatrix<f64>) -> Vec<Vec<bool>> {
        let logits = self.hidden_logits(visible);
        let is_on = |logits: DVectorView<'_, f64>| logits.iter().map(|&x| x > 0.0).collect();
        logits.column_iter().map(is_on).collect()
    }

    /// Returns the bound at hidden logits x and their visible fields, by `a mu + H(mu) = softplus(x) + (a - x) mu`.
    fn bound(&self, hidden: &[f64], visible: &[f64]) -> f64 {
        let units = hidden.iter().zip(&self.hidden_bias);
        let hidden = units.map(|(&x, a)| softplus(x) + (a - x) * sigmoid(x));
        hidden.sum::<f64>() + self.layer.log_normalizer(visible, 0.0, visible)
    }
}

/// Number of configurations in a wave, whose neighbours are evaluated together. It is fixed, so the number of threads
/// does not change the result.
const WAVE: usize = 16;
/// Number of configurations at which a search ends at the latest.
const MOST: usize = 20_000;
/// A search ends if a wave of configurations increases the log of the sum by less than this.
const GAIN: f64 = 1e-3;

/// Number of random starts for the lower bound of a run.
pub(crate) const STARTS: usize = 64;

/// Pair of `log f(h) = a.h + A(b + W^T h)` and h, with A the log normalizer of the visible layer.
pub(crate) type Configuration = (f64, Vec<bool>);

/// Returns `log sum f(h)` over configurations sorted densest first. Adds the smallest first, to keep digits.
pub(super) fn log_sum(configurations: &[Configuration]) -> f64 {
    let largest = configurations[0].0;
    let others = configurations[1..].iter().rev();
    let others: f64 = others.map(|(log_f, _)| (log_f - largest).exp()).sum();
    largest + others.ln_1p()
}

/// Work of a search for configurations. It is counted, never timed, so all computers give the same bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Number of starts at coins of the hidden units.
    hidden_starts: usize,
    /// Largest number of mean-field ascents.
    ascents: usize,
    /// Change of probabilities below which these ascents end, and below which the last ones end.
    tolerances: [f64; 2],
    /// Number of modes from which the last ascents begin, beside the heaviest configurations.
    refined: usize,
    /// Number of configurations at which the search by flips ends.
    configurations: usize,
    /// Number of chains of simulated annealing, and number of sweeps of each.
    cooled: usize,
    sweeps: usize,
}

/// Number of chain-steps of a run for each mean-field ascent of its lower bound. A run has two blocks of them at least.
const STEPS_PER_ASCENT_OF_RUN: u64 = 5_000;
/// Number of chain-steps of the pilots for each mean-field ascent of a search for starts.
const STEPS_PER_ASCENT: u64 = 2_500;
/// The same for each sweep of a cooled chain. For each sweep, the search by flips may also find one configuration per
/// unit of the smaller layer.
const STEPS_PER_UNIT: u64 = 500;
/// Smallest and largest number of sweeps of a cooled chain. More work adds chains, up to `MOST_COOLED`, then sweeps.
const SWEEPS: [usize; 2] = [25, 200];
const MOST_COOLED: usize = 256;

impl Effort {
    /// Returns the effort for `starts` random starts if time does not matter.
    pub(crate) fn full(starts: usize) -> Self {
        Self {
            hidden_starts: 0,
            ascents: usize::MAX,
            tolerances: [TOLERANCE; 2],
            refined: 0,
            configurations: MOST,
            cooled: starts,
            sweeps: 2 * SWEEPS[0],
        }
    }

    /// Returns the effort of a search for starts whose pilots take `chain_steps`.
    pub(super) fn of_search(chain_steps: u64, units: usize) -> Self {
        let sweeps = (chain_steps / STEPS_PER_UNIT) as usize;
        let cooled = (sweeps / SWEEPS[0]).min(MOST_COOLED);
        let of_one = sweeps.checked_div(cooled).unwrap_or(0);
        Self {
            ascents: (chain_steps / STEPS_PER_ASCENT).max(1) as usize,
            configurations: sweeps.saturating_mul(units).clamp(WAVE, MOST),
            cooled,
            sweeps: of_one.min(SWEEPS[1]),
            ..Self::full(0)
        }
    }

    /// Returns the effort that costs about a twentieth of a run of a million `chain_steps`. It cools no chains: ascents
    /// from coins find about as many modes in a fraction of the time.
    pub(crate) fn of_run(chain_steps: u64, units: usize) -> Self {
        Self {
            hidden_starts: STARTS,
            ascents: ((chain_steps / STEPS_PER_ASCENT_OF_RUN) as usize).max(2 * BLOCK),
            tolerances: [0.3, 0.01],
            refined: BLOCK,
            configurations: Self::of_search(chain_steps, units).configurations,
            ..Self::full(0)
        }
    }
}

impl<L: Layer> MeanField<L> {
    /// Extends `first` to about `most` configurations, by flips of one unit in the densest. Returns the densest first.
    pub(super) fn search(&self, first: &[Vec<bool>], most: usize) -> Vec<Configuration> {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        // A configuration counts as met by its key. If two had the same key, the bound would be lower, and still hold.
        let key_of = |units: &[bool]| {
            let on = (0..units.len()).filter(|&j| units[j]);
            on.fold(0, |key, j| key ^ hasher.hash_one(j))
        };
        let (mut met, mut sums) = (HashSet::new(), WeightSums::default());
        let (mut open, mut expanded) = (Vec::new(), Vec::new());
        let first = first.iter().filter(|units| met.insert(key_of(units)));
        let first: Vec<&Vec<bool>> = first.collect();
        let mut fresh = map_tasks(first.len(), |i| self.configuration(first[i]));
        loop {
            let before = sums.log_sum();
            fresh.iter().for_each(|(log_f, _)| sums.add(*log_f));
            open.append(&mut fresh);
            open.sort_by(falling);
            let grows = sums.log_sum() - before >= GAIN;
            if met.len() >= most || !grows {
                expanded.append(&mut open);
                expanded.sort_by(falling);
                return expanded;
            }
            let heaviest: Vec<Configuration> = open.drain(..WAVE.min(open.len())).collect();
            // One thread lists all flips, so that timing does not decide which configuration owns a shared neighbour.
            let flips = Vec::from_iter(heaviest.iter().map(|(_, units)| {
                let key = key_of(units);
                let is_new = |j: &usize| met.insert(key ^ hasher.hash_one(j));
                Vec::from_iter((0..units.len()).filter(is_new))
            }));
            let evaluated = map_tasks(heaviest.len(), |i| self.evaluate(&heaviest[i].1, &flips[i]));
            fresh.extend(evaluated.into_iter().flatten());
            expanded.extend(heaviest);
        }
    }

    fn configuration(&self, units: &[bool]) -> Configuration {
        let (linear, fields) = self.given(units);
        let fields = fields.as_slice();
        let log_f = linear + self.layer.log_normalizer(fields, 0.0, fields);
        (log_f, units.to_vec())
    }

    fn evaluate(&self, units: &[bool], flips: &[usize]) -> Vec<Configuration> {
        let (linear, fields) = self.given(units);
        let (layer, fields) = (&self.layer, fields.as_slice());
        let evaluate = |&j: &usize| {
            let sign = if units[j] { -1.0 } else { 1.0 };
            let weights = self.transposed.column(j);
            let after = layer.log_normalizer(fields, sign, weights.as_slice());
            let mut neighbour = units.to_vec();
            neighbour[j] = !neighbour[j];
            (linear + sign * self.hidden_bias[j] + after, neighbour)
        };
        flips.iter().map(evaluate).collect()
    }

    /// Returns `a.h` and the fields `b + W^T h`, where h are the `units`.
    pub(super) fn given(&self, units: &[bool]) -> (f64, DVector<f64>) {
        let mut fields = self.visible_bias.clone();
        let columns = self.transposed.column_iter().zip(units);
        for (column, _) in columns.filter(|(_, on)| **on) {
            fields += column;
        }
        (masked_sum_of(self.hidden_bias.as_slice(), units), fields)
    }
}

fn falling(one: &Configuration, other: &Configuration) -> std::cmp::Ordering {
    other.0.total_cmp(&one.0)
}

#[cfg(all(test, feature = "rayon"))]
mod tests {
    use rand::RngExt;

    use crate::random::{Purpose, stream};

    use super::*;

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let mut rng = stream(1, Purpose::TESTING, 0);
        let mut weights = || DMatrix::from_fn(40, 30, |_, _| rng.random_range(-1.0..1.0_f32));
        let (weights, biases) = (weights(), weights());
        let [a, b] = [30, 40].map(|units| DVector::from_fn(units, |i, _| biases[i]));
        let rbm = Rbm::new(weights.transpose(), a, b).unwrap();
        let states = vec![vec![true; 40]; 50];
        let on_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let bound = || rbm.lower_bound(&states, 50, 3).unwrap();
            pool.build().unwrap().install(bound)
        };
        let one = on_threads(1);
        assert!(one.modes.len() > 1);
        for threads in [2, 5] {
            assert_eq!(on_threads(threads), one);
        }
    }
}
