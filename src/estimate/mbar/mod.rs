//! Log Z of many states from draws of them, by the multistate Bennett acceptance ratio.

mod contradiction;
mod cut;
mod data;
mod difference;
mod error;
mod mixture;
mod profile;
mod solution;
mod solve;
mod state_weights;
#[cfg(test)]
mod tests;

use std::fmt::{self, Display, Formatter};

use nalgebra::DMatrix;

use super::log_z::{write_value, write_warnings};
use super::{LogZ, Warning, pareto_shape};
use crate::num::log_sigmoid;
use crate::{Error, Result};
use cut::Cut;
use data::Data;
use solution::{Estimates, Solution};

pub use data::Dependence;
pub use difference::Difference;
pub use state_weights::StateWeights;

/// Number of independent draws of a chain, or of replicas, below which its batches do not show the error.
const FEW_DRAWS: f64 = 200.0;
/// Number of draws of a chain below which no correlation is clear.
const UNCLEAR: usize = 50;
/// Accuracy of the solution.
const SOLVED: f64 = 1e-9;
/// Effective number of draws of a state, of all draws weighted for it, below which a warning appears.
const FEW_EFFECTIVE: f64 = 25.0;
/// Pareto shape of the weights of a state without draws above which a warning appears (Vehtari et al. 2024).
const HEAVY: f64 = 0.7;

/// Log Z of K states up to a common constant, from draws of them and the log density of each draw under each state: the
/// multistate Bennett acceptance ratio (MBAR).
///
/// With weights `a_k` of the states, let `p_k(x) = a_k f_k(x)/Z_k / sum_j a_j f_j(x)/Z_j`, the probability that a draw
/// at x comes from state k. The estimates `c_k = log Z_k` maximise the concave objective
///
/// `sum_s (a_s / N_s) sum_(n in s) log p_s(x_n)`
///
/// over the states s with `N_s` draws. For independent draws `a_s = N_s / N`, and this is pymbar's estimate; for two
/// states it is [Bennett's](super::BennettEstimate). For chains `a_s` is proportional to the effective number of draws.
/// A state without draws has `Z_k = sum_n (a_s / N_s) f_k(x_n) / mixture(x_n)`.
///
/// Errors are those of an M-estimator, `A^- B A^-` with the information A and the covariance B of the weighted sums of
/// p, over draws or over batches of autocorrelated draws. Where groups of states hardly overlap, they say nothing, and
/// the estimates from the draws of each group alone widen the interval.
///
/// ```
/// use annealed::estimate::{Dependence, LogZ, Mbar};
/// use nalgebra::DMatrix;
///
/// // Three draws of each of two harmonic springs, and their reduced potentials x^2 / 2 and 2 x^2.
/// let x = [-1.1_f64, 0.2, 0.9, -0.6, 0.1, 0.4];
/// let u_kn = DMatrix::from_fn(2, 6, |k, n| [0.5, 2.0][k] * x[n] * x[n]);
/// let found = Mbar::from_reduced_potentials(&u_kn, &[3, 3], Dependence::Independent)?;
/// let ratio = found.difference(1, 0)?; // log Z_1/Z_0, exactly -log 2
/// assert!((ratio.log_z() + 2.0_f64.ln()).abs() < 2.0 * ratio.standard_error());
/// println!("{found}");
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Sources: Geyer (1994); Kong, McCullagh, Meng, Nicolae and Tan (2003); Shirts and Chodera (2008); Doss and Tan (2014).
#[derive(Debug, Clone)]
#[must_use]
#[doc(alias("pymbar", "WHAM", "free energy", "reverse logistic regression"))]
pub struct Mbar {
    solution: Solution,
    all: Estimates,
    warnings: Vec<Warning>,
}

impl Mbar {
    /// Creates the estimate from log densities `log f_k(x_n)`: a row for each draw n, a column for each state k. The
    /// draws are sorted by state, with `counts[k]` draws of state k. `-inf` is a density of 0. `how` says how the draws
    /// depend on each other.
    ///
    /// Draws must be in equilibrium. The states of annealed or resampled runs are weighted and are not, so no constructor
    /// takes them: use a [`Bridge`](crate::bidirectional::Bridge) or the run's own log Z. A tempered run has
    /// [`mbar`](crate::tempering::TemperingRun::mbar).
    ///
    /// # Errors
    /// Fewer than two states, no draw, a state with a single draw; counts of another number than the columns, or of
    /// another sum than the rows; a NaN or `+inf`, or a draw of density 0 under its own state; states that the draws do
    /// not connect in both directions, whose log Z is unknown.
    pub fn from_log_densities(
        log_f: DMatrix<f64>,
        counts: &[usize],
        how: Dependence,
    ) -> Result<Self> {
        let (rows, columns) = log_f.shape();
        let name = "counts (one for each state: a column of log densities, a row of u_kn)";
        Error::check_dimension(name, counts.len(), columns)?;
        let total = counts.iter().map(|count| *count as f64).sum::<f64>() as usize;
        Error::check_dimension("sum of counts (the number of draws)", total, rows)?;
        let states = counts.iter().enumerate();
        let labels = states.flat_map(|(state, count)| std::iter::repeat_n(state, *count));
        Self::from_labels(log_f, labels.collect(), how)
    }

    /// Creates the estimate from log densities as [`from_log_densities`](Self::from_log_densities), for draws in any
    /// order. `labels[n]` is the state of draw n.
    ///
    /// # Errors
    /// As [`from_log_densities`](Self::from_log_densities); a label that is no state.
    pub fn from_labels(log_f: DMatrix<f64>, labels: Vec<usize>, how: Dependence) -> Result<Self> {
        let solution = Solution::of(Data::new(log_f, labels, how)?)?;
        let mut found = Self {
            all: solution.estimates(&[])?,
            warnings: Vec::new(),
            solution,
        };
        found.warnings = found.doubts();
        Ok(found)
    }

    /// Creates the estimate from reduced potentials `u_k(x_n) = -log f_k(x_n)` in kT, as pymbar's `u_kn`: a row for each
    /// state, a column for each draw. The draws are sorted by state, with `counts[k]` (`N_k`) draws of state k. `+inf`
    /// is a density of 0. Values in errors have the sign of log densities.
    ///
    /// # Errors
    /// As [`from_log_densities`](Self::from_log_densities).
    pub fn from_reduced_potentials(
        u_kn: &DMatrix<f64>,
        counts: &[usize],
        how: Dependence,
    ) -> Result<Self> {
        Self::from_log_densities(-u_kn.transpose(), counts, how)
    }

    /// Returns log Z of each state less log Z of state 0.
    pub fn log_z(&self) -> Vec<f64> {
        let states = 0..self.all.log_z.len();
        states
            .map(|state| self.value(&self.all, state, 0))
            .collect()
    }

    fn value(&self, all: &Estimates, one: usize, other: usize) -> f64 {
        // A further state has no offset.
        let offset = |state: usize| self.solution.data.offsets.get(state).unwrap_or(&0.0);
        (all.log_z[one] - all.log_z[other]) + (offset(one) - offset(other))
    }

    /// Returns log Z of state `i` less log Z of state `j`, with its error. Both are 0 for equal states, but for the accuracy
    /// of the solution.
    ///
    /// # Errors
    /// An index that is no state.
    pub fn difference(&self, i: usize, j: usize) -> Result<Difference> {
        self.check_states(i, j)?;
        Ok(self.between(&self.all, i, j))
    }

    /// Returns Bennett's overlap of two states, `int 2 p q / (p + q)` of their densities p and q: 1 for equal states, 0 for
    /// states that share nothing. It does not depend on the counts.
    ///
    /// # Errors
    /// An index that is no state.
    pub fn overlap(&self, i: usize, j: usize) -> Result<f64> {
        self.check_states(i, j)?;
        let weights = [i, j].map(|state| {
            let weights = self.solution.log_weights(self.solution.data.column(state));
            (weights, self.all.log_z[state])
        });
        let [(one, log_z), (other, its)] = weights;
        let pairs = one
            .iter()
            .zip(&other)
            .filter(|(p, q)| p.min(**q).is_finite());
        let term = |(p, q): (&f64, &f64)| {
            let (p, q) = (p - log_z, q - its);
            2.0 * (p + log_sigmoid(q - p)).exp()
        };
        Ok(pairs.map(term).sum::<f64>().min(1.0))
    }

    /// Returns the weights of all draws at a further state with these log densities, one for each draw. The state may
    /// lie between others, or be one of them. Its log Z is relative to state 0, and warns
    /// ([`FewWeightedDraws`](Warning::FewWeightedDraws)) of a state that few draws reach.
    ///
    /// # Errors
    /// Another number of log densities than of draws; a NaN or `+inf`; a density of 0 at all draws.
    pub fn weights_at(&self, log_densities: &[f64]) -> Result<StateWeights> {
        self.check_further(log_densities)?;
        let all = self.solution.estimates(&[log_densities.to_vec()])?;
        let further = self.solution.data.counts.len();
        let mut log_z = self.between(&all, further, 0);
        let log_weights = self.solution.log_weights(log_densities);
        let effective = all.effective[further];
        log_z.warnings.extend(few_weighted(effective, &log_weights));
        Ok(StateWeights::new(
            log_z,
            log_weights,
            all.spread.units,
            effective,
        ))
    }

    /// Returns pymbar's overlap matrix, `O_kl = N_l sum_n W_nk W_nl` with the weights `W_nk` of draw n for state k: the
    /// probability that a draw weighted for state k (row) came from state l (column). Its rows sum to 1. It depends on
    /// the counts: `O_01 = 0.0099` for two equal states with counts 100 : 1. For chains, effective counts replace
    /// counts.
    pub fn overlap_matrix(&self) -> &DMatrix<f64> {
        &self.all.overlap
    }

    /// Returns the number of independent draws of each state that all draws, weighted for it, are worth:
    /// `(sum w)^2 / sum t w^2`, where t is the autocorrelation time of each draw's state.
    #[doc(alias = "ess")]
    pub fn effective_draws(&self) -> &[f64] {
        &self.all.effective
    }

    /// Returns the autocorrelation time of the draws of each state, 1 for independent draws and states without draws; of
    /// replicas, the time of sums over all states.
    pub fn autocorrelation_times(&self) -> &[f64] {
        &self.all.spread.times
    }

    /// Returns the reasons to doubt the estimates:
    ///
    /// - [`LittleOverlap`](Warning::LittleOverlap) with two groups of states whose overlap is below 0.03 (Bennett's, at
    ///   equal weights of the groups or of their closest states), or whose acceptances are worth fewer than 10.
    /// - [`DrawsContradict`](Warning::DrawsContradict) if the draws of a state are not draws of it by the log densities, as
    ///   after a wrong sign or a wrong order.
    /// - [`Rounding`](Warning::Rounding) if the log densities have too few digits for the smallest error.
    /// - [`ShortChain`](Warning::ShortChain), [in a state](Warning::InState), if its draws, or replicas, are clearly
    ///   correlated and span fewer than 200 autocorrelation times, or if they are fewer than 50.
    /// - [`FewWeightedDraws`](Warning::FewWeightedDraws), in a state, if all draws weighted for it are worth fewer than 25, or
    ///   if it has no draws and the Pareto shape of its weights is above 0.7.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns log Z of state `one` less log Z of state `other`.
    fn between(&self, all: &Estimates, one: usize, other: usize) -> Difference {
        let near = [one, other].map(|state| all.nearest[state]);
        let cuts = self.solution.cuts.iter();
        let sign = |cut: &Cut| cut.sign([one, other], &all.overlap);
        let crossed = cuts.filter(|cut| sign(cut) != 0.0);
        let freedoms = crossed.clone().map(|cut| cut.bennett.degrees_of_freedom());
        let effective = [one, other].map(|state| (all.effective[state] - 1.0).max(1.0));
        let v = |i, j| all.spread.covariance[(i, j)];
        let terms = f64::max(v(one, one) + v(other, other), 0.0);
        let variance = (terms - 2.0 * v(one, other)).max(0.0);
        // Terms that cancel leave rounding.
        let accuracy = SOLVED + self.solution.data.rounding + 1e-7 * terms.sqrt();
        let error = match variance.sqrt() {
            _ if one == other => 0.0,
            error => error.max(accuracy),
        };
        let states = [[one, other], near].concat();
        let concerns = |warning: &&Warning| match warning {
            Warning::InState { state, .. } => states.contains(state),
            Warning::DrawsContradict { .. } => true,
            _ => false,
        };
        let gaps = crossed.filter(|cut| cut.is_gap());
        let warnings = gaps.clone().map(Cut::warning);
        let others = self.warnings.iter().filter(concerns).cloned();
        let others = others.chain(Warning::rounding(self.solution.data.rounding, error));
        Difference {
            value: self.value(all, one, other),
            error,
            freedom: freedoms.chain(effective).fold(all.spread.freedom, f64::min),
            gaps: gaps.map(|cut| (sign(cut), cut.bennett)).collect(),
            warnings: warnings.chain(others).collect(),
        }
    }

    fn doubts(&self) -> Vec<Warning> {
        let gaps = self.solution.cuts.iter().filter(|cut| cut.is_gap());
        let states = (0..self.solution.data.counts.len()).filter_map(|state| {
            let warning = Box::new(self.doubt_of(state)?);
            Some(Warning::InState { state, warning })
        });
        let rounding = Warning::rounding(self.solution.data.rounding, self.least_error());
        let of_all = self.all.contradiction.clone().into_iter().chain(rounding);
        of_all.chain(gaps.map(Cut::warning)).chain(states).collect()
    }

    /// Returns the smallest error of log Z of a state less log Z of state 0.
    fn least_error(&self) -> f64 {
        let others = 1..self.solution.data.counts.len();
        let errors = others.map(|state| self.between(&self.all, state, 0).error);
        errors.fold(f64::INFINITY, f64::min)
    }

    fn doubt_of(&self, state: usize) -> Option<Warning> {
        let (data, time) = (&self.solution.data, self.all.spread.times[state]);
        let draws = data.counts[state];
        let is_short = match data.how {
            Dependence::Independent => false,
            _ if self.all.spread.is_clear[state] => (draws as f64) < FEW_DRAWS * time,
            _ => draws < UNCLEAR,
        };
        let effective = self.all.effective[state];
        match (draws, is_short) {
            (1.., true) => Some(Warning::ShortChain { draws, time }),
            (1.., false) => few_weighted(effective, &[]),
            (0, _) => few_weighted(effective, &self.solution.log_weights(data.column(state))),
        }
    }

    /// Refuses log densities of a further state that are not one number below `+inf` for each draw.
    fn check_further(&self, log_densities: &[f64]) -> Result<()> {
        let (name, count) = ("log densities of a further state", log_densities.len());
        Error::check_dimension(name, count, self.solution.data.labels.len())?;
        let indexed = log_densities.iter().copied().enumerate();
        let (below, expected) = (|x| x < f64::INFINITY, "numbers below +inf");
        Error::check_each("log densities", "draw", indexed, below, expected)
    }

    fn check_states(&self, i: usize, j: usize) -> Result<()> {
        let k = self.solution.data.counts.len();
        for (name, state) in [("i", i), ("j", j)] {
            Error::check(state < k, name, state, format!("a state below {k}"))?;
        }
        Ok(())
    }
}

/// Returns [`FewWeightedDraws`](Warning::FewWeightedDraws) for a small number of draws, or for log weights with a heavy
/// tail.
fn few_weighted(effective: f64, log_weights: &[f64]) -> Option<Warning> {
    let k_hat = pareto_shape(log_weights);
    let is_heavy = k_hat.is_some_and(|k_hat| k_hat > HEAVY);
    (effective < FEW_EFFECTIVE || is_heavy)
        .then_some(Warning::FewWeightedDraws { effective, k_hat })
}

/// Writes a line for each state, with log Z less log Z of state 0 and effective draws, and any warnings.
impl Display for Mbar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let data = &self.solution.data;
        let (states, draws) = (data.counts.len(), data.labels.len());
        write!(f, "{states} states, {draws} draws")?;
        for (state, effective) in self.all.effective.iter().enumerate() {
            write!(f, "\nstate {state}: log Z - log Z_0 = ")?;
            let found = self.between(&self.all, state, 0);
            write_value(f, found.value, found.standard_error())?;
            write!(f, " ({effective:.0} effective draws)")?;
        }
        write_warnings(f, &self.warnings)
    }
}
