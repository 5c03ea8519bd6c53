//! Log Z of many states from draws of them, by the multistate Bennett acceptance ratio.

mod data;
mod difference;
mod error;
mod fit;
mod mixture;
mod overlap;
mod solve;
#[cfg(test)]
mod tests;
mod weights;

use std::fmt::{self, Display, Formatter};

use nalgebra::DMatrix;

use super::log_z::{write_value, write_warnings};
use super::{LogZ, Warning, pareto_shape};
use crate::{Error, Result};
use data::{Data, check_rows};
use fit::{Fit, Laws};

pub use data::Dependence;
pub use difference::Difference;
pub use weights::StateWeights;

/// Number of independent draws of a chain, or of replicas, below which its batches do not show the error.
const FEW_DRAWS: f64 = 200.0;
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
    fit: Fit,
    /// Log Z of all laws, those without draws included, and their covariance.
    laws: Laws,
    warnings: Vec<Warning>,
}

impl Mbar {
    /// Creates the estimate from log densities `log f_k(x_n)`: a row for each draw n, a column for each state k. The
    /// draws are sorted by state, with `counts[k]` draws of state k. `-inf` is a density of 0.
    ///
    /// # Errors
    /// Fewer than two states, no draw, a state with a single draw; counts of another number than the columns, or of
    /// another sum than the rows; a NaN or `+inf`, or a draw of density 0 under its own state; states that the draws do
    /// not connect in both directions, whose log Z is unknown.
    pub fn from_log_densities(
        log_densities: DMatrix<f64>,
        counts: &[usize],
        dependence: Dependence,
    ) -> Result<Self> {
        let (rows, columns) = log_densities.shape();
        let total = counts
            .iter()
            .fold(0, |sum: usize, count| sum.saturating_add(*count));
        check_rows("counts", total, rows, columns)?;
        Error::check_dimension("counts (one for each state)", counts.len(), columns)?;
        let states = counts.iter().enumerate();
        let labels = states.flat_map(|(state, count)| std::iter::repeat_n(state, *count));
        Self::from_labels(log_densities, labels.collect(), dependence)
    }

    /// Creates the estimate from log densities as [`from_log_densities`](Self::from_log_densities), for draws in any
    /// order. `labels[n]` is the state of draw n.
    ///
    /// # Errors
    /// As [`from_log_densities`](Self::from_log_densities); a label that is no state.
    pub fn from_labels(
        log_densities: DMatrix<f64>,
        labels: Vec<usize>,
        dependence: Dependence,
    ) -> Result<Self> {
        Self::of(Data::new(log_densities, labels, dependence)?)
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
        dependence: Dependence,
    ) -> Result<Self> {
        Self::from_log_densities(-u_kn.transpose(), counts, dependence)
    }

    fn of(data: Data) -> Result<Self> {
        let fit = Fit::of(data)?;
        let laws = fit.laws(None)?;
        let mut found = Self {
            fit,
            laws,
            warnings: Vec::new(),
        };
        found.warnings = found.doubts();
        Ok(found)
    }

    /// Returns the number of states K.
    pub fn states(&self) -> usize {
        self.fit.data.counts.len()
    }

    /// Returns the number of draws of each state.
    pub fn counts(&self) -> &[usize] {
        &self.fit.data.counts
    }

    /// Returns log Z of each state less log Z of state 0.
    pub fn log_z(&self) -> Vec<f64> {
        let log_z = |state: usize| self.laws.log_z[self.fit.data.law_of[state]];
        (0..self.states())
            .map(|state| log_z(state) - log_z(0))
            .collect()
    }

    /// Returns log Z of state `i` less log Z of state `j`, with its error. It is exactly 0 for states of equal
    /// densities.
    ///
    /// # Errors
    /// An index that is no state.
    pub fn difference(&self, i: usize, j: usize) -> Result<Difference> {
        let [one, other] = [self.law("i", i)?, self.law("j", j)?];
        let mut found = self.fit.difference(&self.laws, one, other);
        found.warnings = self.doubts_between(&[i, j], &found);
        Ok(found)
    }

    /// Returns log Z of each state (row) less log Z of each state (column), and the standard errors.
    pub fn differences(&self) -> (DMatrix<f64>, DMatrix<f64>) {
        let (k, laws) = (self.states(), &self.fit.data.law_of);
        let found = DMatrix::from_fn(k, k, |i, j| {
            self.fit.difference(&self.laws, laws[i], laws[j])
        });
        (
            found.map(|found| found.log_z()),
            found.map(|found| found.standard_error()),
        )
    }

    /// Returns log Z of `state`, given the exact log Z of the state `reference`.
    ///
    /// # Errors
    /// An index that is no state; a known log Z that is not finite.
    pub fn log_z_against(&self, state: usize, reference: usize, known: f64) -> Result<Difference> {
        Error::check_number("known log Z", known)?;
        Ok(self.difference(state, reference)?.shifted(known))
    }

    /// Returns the weights of all draws at a further state with these log densities, one for each draw. The state may
    /// lie between others, or be one of them. Its log Z is relative to state 0.
    ///
    /// # Errors
    /// Another number of log densities than of draws; a NaN or `+inf`; a density of 0 at all draws.
    pub fn weights_at(&self, log_densities: &[f64]) -> Result<StateWeights> {
        let draws = self.fit.data.draws();
        Error::check_dimension(
            "log densities of a further state",
            log_densities.len(),
            draws,
        )?;
        let indexed = log_densities.iter().copied().enumerate();
        let below = |x| x < f64::INFINITY;
        Error::check_each(
            "log densities",
            "draw",
            indexed,
            below,
            "numbers below +inf",
        )?;
        let laws = self.fit.laws(Some(log_densities))?;
        let first = self.fit.data.law_of[0];
        let mut log_z = self.fit.difference(&laws, laws.log_z.len() - 1, first);
        log_z.warnings = self.doubts_between(&[0], &log_z);
        let log_weights = self.fit.log_weights(log_densities);
        let origin = laws.log_z[first];
        Ok(StateWeights {
            draws: (0..draws).collect(),
            log_weights: log_weights.iter().map(|weight| weight - origin).collect(),
            units: weights::in_random_order(
                laws.spread.units.unwrap_or_else(|| (0..draws).collect()),
            ),
            log_z,
        })
    }

    /// Returns pymbar's overlap matrix, `O_kl = N_l sum_n W_nk W_nl` with the weights `W_nk` of draw n for state k: the
    /// probability that a draw weighted for state k (row) came from state l (column). Its rows sum to 1. It depends on
    /// the counts: `O_01 = 0.0099` for two equal states with counts 100 : 1. For chains, effective counts replace
    /// counts.
    pub fn overlap_matrix(&self) -> DMatrix<f64> {
        let k = self.states();
        DMatrix::from_fn(k, k, |k, l| self.fit.overlap(&self.laws, k, l))
    }

    /// Returns the number of independent draws of `state` that all draws, weighted for it, are worth:
    /// `(sum w)^2 / sum t w^2`, where t is the autocorrelation time of each draw's state.
    ///
    /// # Errors
    /// An index that is no state.
    #[doc(alias = "ess")]
    pub fn effective_draws(&self, state: usize) -> Result<f64> {
        let law = self.law("state", state)?;
        Ok(self
            .fit
            .effective_draws(self.fit.data.column(law), &self.laws))
    }

    /// Returns the autocorrelation time of the draws of each state, 1 for independent draws; of replicas, the time of
    /// sums over all states.
    pub fn autocorrelation_times(&self) -> Vec<f64> {
        let time = |time: &f64| self.laws.spread.time.unwrap_or(*time);
        self.fit.times.iter().map(time).collect()
    }

    /// Returns the reasons to doubt the estimates:
    ///
    /// - [`LittleOverlap`](Warning::LittleOverlap) with two groups of states whose overlap is below 0.03 (Bennett's, at
    ///   equal weights of the groups or of their closest states), or whose acceptances are worth fewer than 10.
    /// - [`FewDraws`](Warning::FewDraws), [in a state](Warning::InState), if its chains have fewer than 200
    ///   autocorrelation times, or if all draws weighted for it are worth fewer than 25.
    /// - [`HeavyTail`](Warning::HeavyTail), in a state without draws, for a Pareto shape of its weights above 0.7.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn law(&self, argument: &'static str, state: usize) -> Result<usize> {
        let expected = format!("a state, 0 to {}", self.states() - 1);
        let law = self.fit.data.law_of.get(state);
        law.copied()
            .ok_or_else(|| Error::invalid(argument, state, expected))
    }

    fn doubts(&self) -> Vec<Warning> {
        let gaps = self.fit.gaps.iter().map(|gap| gap.warning(&self.fit.data));
        let replicas = self.laws.spread.too_few_times();
        let states = (0..self.states()).flat_map(|state| {
            let of_state = self.doubt_of(state).map(Box::new);
            of_state.map(|warning| Warning::InState { state, warning })
        });
        gaps.chain(replicas).chain(states).collect()
    }

    fn doubt_of(&self, state: usize) -> Option<Warning> {
        let (draws, column) = (
            self.counts()[state],
            self.fit.data.column(self.fit.data.law_of[state]),
        );
        let effective = draws as f64 / self.fit.times[state];
        if draws > 0 && self.fit.times[state] > 1.0 && effective < FEW_DRAWS {
            return Some(Warning::FewDraws { effective, draws });
        }
        let effective = self.fit.effective_draws(column, &self.laws);
        if effective < FEW_EFFECTIVE {
            let draws = self.fit.data.draws();
            return Some(Warning::FewDraws { effective, draws });
        }
        let shape = match draws {
            0 => pareto_shape(&self.fit.log_weights(column)),
            _ => None,
        };
        let heavy = shape.filter(|shape| *shape > HEAVY);
        heavy.map(|k_hat| Warning::HeavyTail { k_hat })
    }

    /// Returns the warnings that concern a difference of these states.
    fn doubts_between(&self, states: &[usize], difference: &Difference) -> Vec<Warning> {
        let concerns = |warning: &&Warning| match warning {
            Warning::InState { state, .. } => states.contains(state),
            Warning::LittleOverlap { .. } => false,
            _ => true,
        };
        let gaps = self.fit.gaps.iter().filter(|gap| {
            difference
                .gaps
                .iter()
                .any(|(_, bennett)| *bennett == gap.bennett)
        });
        let gaps = gaps.map(|gap| gap.warning(&self.fit.data));
        gaps.chain(self.warnings.iter().filter(concerns).cloned())
            .collect()
    }
}

/// Writes a line for each state, with its draws, effective draws, log Z less log Z of state 0 and overlap with its
/// neighbour in the list, and any warnings.
impl Display for Mbar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (draws, overlap) = (self.fit.data.draws(), self.overlap_matrix());
        write!(f, "{} states, {draws} draws", self.states())?;
        write!(
            f,
            "\nstate  draws  effective  overlap with next  log Z - log Z of state 0"
        )?;
        let laws = &self.fit.data.law_of;
        for (state, count) in self.counts().iter().enumerate() {
            let column = self.fit.data.column(laws[state]);
            let effective = self.fit.effective_draws(column, &self.laws);
            write!(f, "\n{state:>5}  {count:>5}  {effective:>9.0}  ")?;
            match state + 1 < self.states() {
                true => write!(f, "{:>17.4}  ", overlap[(state, state + 1)])?,
                false => write!(f, "{:>17}  ", "")?,
            }
            let found = self.fit.difference(&self.laws, laws[state], laws[0]);
            write_value(f, found.log_z(), found.standard_error())?;
        }
        write_warnings(f, &self.warnings)
    }
}
