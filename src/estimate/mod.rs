//! Estimates of log Z from the weights of a run, with standard error, interval, bounds and warnings.
//!
//! ```
//! use annealed::prelude::*;
//!
//! let path = |deviation| -> annealed::Result<_> {
//!     let target = Gaussian::isotropic(DVector::zeros(2), deviation)?;
//!     Ok(GeometricPath::new(Gaussian::standard(2)?, target))
//! };
//! let log_z = |path: &GeometricPath<_, _>| {
//!     Ais::new(path, RandomWalkMetropolis::new(0.5)?).schedule(Schedule::linear(50)?).run()
//! };
//! let (one, other) = (log_z(&path(0.5)?)?, log_z(&path(0.25)?)?);
//! for result in [&one as &dyn LogZ, &other] {
//!     println!("{:.3} +- {:.3}, {:?}", result.log_z(), result.standard_error(), result.interval());
//!     result.warnings().iter().for_each(|warning| println!("{warning}"));
//! }
//! println!("{}", LogRatio::new(&one, &other)); // a Bayes factor, were these evidences
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`Estimate`] is made from log weights, by [`Ais`](crate::ais::Ais) or by hand. [`LogZ`] is the trait of all results.
//! [`WeightedSample`] is the trait of results that hold weighted states: it gives means, quantiles, equally weighted
//! draws and a [`Summary`] of parameters. [`LogRatio`] compares the results of two targets (a Bayes factor),
//! [`ModelComparison`] the results of several targets, and [`Agreement`] two results for one target. [`LogZSum`] adds
//! the log Z of several data sets. [`ScoreDifference`] compares the mean log likelihoods of two models on the same rows. [`Mbar`] gives log Z of many states from draws of them. [`certified_lower_bound`] is
//! valid for weights with any tails. [`log_sum_exp`] and [`log_mean_exp`] add weights without overflow.

mod advice;
mod bennett;
mod bound;
mod comparison;
mod doubts;
mod effective_draws;
mod equal_draws;
mod families;
mod interval;
mod jackknife;
mod log_z;
mod log_z_at;
mod log_z_sum;
mod mbar;
mod model_comparison;
mod quantities;
pub(crate) mod repeated;
mod score_difference;
mod sides;
mod summary;
mod tail;
mod warning;
mod weighted_sample;
mod weighted_states;
mod work_unit;

pub use crate::num::{WeightSums, log_mean_exp, log_sum_exp};
pub(crate) use advice::Remedy;
pub use bennett::BennettEstimate;
pub use bound::{certified_lower_bound, importance_weighted_bound};
pub use comparison::{Agreement, LogRatio, Pooled};
pub(crate) use effective_draws::{Mixing, effective_draws, ranks};
pub use equal_draws::EqualDraws;
pub(crate) use families::{effective_families, heavy_families};
pub use jackknife::jackknife;
pub(crate) use jackknife::jackknife_error;
pub use log_z::LogZ;
pub(crate) use log_z::{
    decimals, distinct, write_estimate, write_headline, write_value, write_warnings,
};
pub use log_z_at::LogZAt;
pub use log_z_sum::LogZSum;
pub use mbar::{Dependence, Difference, Mbar, StateWeights};
pub use model_comparison::{ComparedModel, ModelComparison};
pub use quantities::Quantities;
pub use score_difference::ScoreDifference;
pub use summary::{Summary, SummaryRow};
pub(crate) use tail::pareto_shape;
pub use warning::Warning;
pub use weighted_sample::WeightedSample;
pub use weighted_states::WeightedStates;
pub use work_unit::WorkUnit;

use std::fmt;
use std::ops::Range;

use crate::{Error, Result};

/// The log of a mean weight, with its error and diagnostics.
///
/// ```
/// use annealed::estimate::Estimate;
///
/// let estimate = Estimate::from_log_weights(&[1.0_f64, 2.0, 3.0, 4.0].map(f64::ln))?;
/// assert!((estimate.value() - 2.5_f64.ln()).abs() < 1e-15);
/// assert!((estimate.effective_sample_size() - 100.0 / 30.0).abs() < 1e-14);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Estimate {
    chains: usize,
    dead: usize,
    unit: Unit,
    /// Number of independent weights behind the standard error: chains, or families or islands of interacting chains.
    units: usize,
    /// Number of independent weights that are not 0.
    carrying: usize,
    /// The largest log weight, plus any shift. The other figures are relative to it and so keep their digits.
    largest: f64,
    largest_share: f64,
    /// Population variance of `w / mean(w)`.
    relative_variance: f64,
    /// Skewness of `w`; 0 if all weights are equal.
    skewness: f64,
    pareto_shape: Option<f64>,
    /// Mean of `log w` over the chains that are alive, relative to the largest log weight.
    mean_of_alive: f64,
    /// Sample variance of `log w` over the chains that are alive.
    variance_of_alive: f64,
}

/// Kind of unit that has an independent weight: one chain, or a group of chains that interacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Unit {
    Chain,
    /// All descendants of one initial chain.
    Family,
    /// Chains of one block, or one population.
    Island,
}

impl Estimate {
    /// Creates the estimate from the log weights of the chains. A dead chain has `-inf`; its weight is zero and counts
    /// in every mean.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for no weights, a NaN or `+inf`; [`Error::AllWeightsZero`] if all are `-inf`.
    pub fn from_log_weights(log_weights: &[f64]) -> Result<Self> {
        let alive = check(log_weights)?;
        let chains = log_weights.len();
        let n = chains as f64;
        let weights = WeightSums::of(log_weights);
        let (largest, largest_share) = (weights.max, weights.share(weights.max));
        let log_mean = -(n * largest_share).ln();
        let (mut squares, mut cubes) = (0.0, 0.0);
        for log_weight in log_weights {
            // `w / mean - 1`, without cancellation if the weights are nearly equal.
            let deviation = (log_weight - largest - log_mean).exp_m1();
            squares += deviation.powi(2);
            cubes += deviation.powi(3);
        }
        let relative_variance = squares / n;
        let skewness = match relative_variance > 0.0 {
            true => cubes / n / relative_variance.powf(1.5),
            false => 0.0,
        };
        let (mean_of_alive, variance_of_alive) = mean_and_variance(&alive, largest);
        Ok(Self {
            chains,
            dead: chains - alive.len(),
            unit: Unit::Chain,
            units: chains,
            carrying: alive.len(),
            largest,
            largest_share,
            // The value of a single weight that carries all; rounding must not exceed it.
            relative_variance: relative_variance.min(n - 1.0),
            skewness,
            pareto_shape: tail::pareto_shape(log_weights),
            mean_of_alive,
            variance_of_alive,
        })
    }

    pub(crate) fn of_islands(log_estimates: &[f64]) -> Result<Self> {
        Ok(Self {
            unit: Unit::Island,
            ..Self::from_log_weights(log_estimates)?
        })
    }

    /// Creates the estimate from chains that interacted within blocks. `roots` lists the index of each chain's first
    /// ancestor. The error comes from the means over [`islands`]. If there are too few islands, it comes from the sums
    /// over families (Lee and Whiteley 2018).
    pub(crate) fn of_interacting(
        log_weights: &[f64],
        roots: &[usize],
        block_size: usize,
    ) -> Result<Self> {
        let chains = Self::from_log_weights(log_weights)?;
        let mean = |chains| log_mean_exp(&log_weights[chains]);
        let (unit, units) = match islands(log_weights.len(), block_size) {
            Some(islands) => (Unit::Island, islands.map(mean).collect()),
            None => (Unit::Family, families::family_sums(log_weights, roots)),
        };
        let units = Self::from_log_weights(&units)?;
        // The value is the log mean over all chains. The mean over islands differs if the last island is longer.
        let units = units.shifted(chains.value() - units.value());
        Ok(Self {
            chains: chains.chains,
            dead: chains.dead,
            unit,
            // Kept relative to `largest`, which is now the largest weight of a unit.
            mean_of_alive: chains.mean_of_alive + (chains.largest - units.largest),
            variance_of_alive: chains.variance_of_alive,
            ..units
        })
    }

    /// Adds `constant` to every log weight. With `log Z_0`, an estimate of `log Z_K/Z_0` becomes an estimate of
    /// `log Z_K`.
    pub fn shifted(self, constant: f64) -> Self {
        Self {
            largest: self.largest + constant,
            ..self
        }
    }

    /// Returns the estimate `log (1/N) sum w`, plus the sum of all [`shifted`](Self::shifted) constants.
    pub fn value(&self) -> f64 {
        self.largest - (self.units as f64 * self.largest_share).ln()
    }

    /// Returns the standard error of [`value`](Self::value) by the delta method,
    /// `sd(w) / (sqrt(N) mean(w)) = sqrt((N/ESS - 1) / (N - 1))`. It is infinite if all weight descends from one chain.
    /// If the largest weights were not drawn, the error and the value are both too small.
    pub fn standard_error(&self) -> f64 {
        if self.is_single() {
            return f64::INFINITY;
        }
        (self.relative_variance / (self.units - 1) as f64).sqrt()
    }

    /// Returns whether the estimate rests on a single independent weight, from which no error can be computed.
    fn is_single(&self) -> bool {
        self.units == 1 || self.unit != Unit::Chain && self.carrying == 1
    }

    /// Returns whether chains interacted, in which case the error is not computed from the weights of single chains.
    pub(crate) fn is_of_interacting(&self) -> bool {
        self.unit != Unit::Chain
    }

    /// Returns whether the error is computed from the weights of islands.
    pub(crate) fn is_of_islands(&self) -> bool {
        self.unit == Unit::Island
    }

    /// Returns the lower and upper bound of the 95% confidence interval, as [`interval_at`](Self::interval_at). It is
    /// infinite for a single chain.
    pub fn interval(&self) -> (f64, f64) {
        self.bounds(0.95)
    }

    /// Returns bounds that contain the true value with probability `level`. They are infinite for a single chain.
    ///
    /// The lower bound is `value - t SE`, with Student's quantile t for `ESS - 1` degrees of freedom. The upper bound
    /// is `value + log(1 + c SE h)`, where h is t corrected for skewness (Hall 1992).
    /// `c = (1 + 2 u) (1 + (15 / ESS)^2)` allows for large weights that no chain drew: u rises from 0 to 1 as
    /// `k + 1.5 / sqrt N` rises from 0.35 to 0.65, and k is the [`pareto_shape`](Self::pareto_shape). No interval
    /// covers a mode that every chain missed. See `docs/intervals.md`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `0 < level < 1`.
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("level", level)?;
        Ok(self.bounds(level))
    }

    /// Returns whether the weights are so skewed that the standard error misleads and only the interval is printed, as
    /// [`LogZ::is_skewed`].
    pub fn is_skewed(&self) -> bool {
        log_z::is_skewed(self.value(), self.interval())
    }

    fn bounds(&self, level: f64) -> (f64, f64) {
        if self.is_single() {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        let (below, above) = self.offsets(level);
        (self.value() - below, self.value() + above)
    }

    /// Returns the number of chains N.
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// Returns the number of chains of weight zero.
    pub fn dead_chains(&self) -> usize {
        self.dead
    }

    /// Returns `(sum w)^2 / sum w^2`, a count between 1 and N. In a resampled run, w are the weights of families or
    /// islands.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        self.units as f64 / (1.0 + self.relative_variance)
    }

    /// Returns the mean of `log w`. Its expectation is a lower bound on the true value. It is `-inf` if a chain is
    /// dead.
    pub fn mean_log_weight(&self) -> f64 {
        match self.dead {
            0 => self.largest + self.mean_of_alive,
            _ => f64::NEG_INFINITY,
        }
    }

    /// Returns the sample variance (over `n - 1`) of `log w` over the living chains; 0 for a single one.
    pub fn var_log_weight(&self) -> f64 {
        self.variance_of_alive
    }

    /// Returns the largest weight's share of the sum of weights.
    pub fn largest_share(&self) -> f64 {
        self.largest_share
    }

    /// Returns the Pareto shape k fitted to the largest weights (Zhang and Stephens 2009; Vehtari et al. 2024), or
    /// `None` if too few weights differ. The weights have a variance if k is below 0.5, and a mean if it is below 1. If
    /// the largest weights were not drawn, k is too small.
    #[doc(alias = "k_hat")]
    pub fn pareto_shape(&self) -> Option<f64> {
        self.pareto_shape
    }

    /// Returns reasons to doubt the estimate that its weights show: [`FewChains`](Warning::FewChains) below 25, any
    /// [`DeadChains`](Warning::DeadChains), [`LowEffectiveSampleSize`](Warning::LowEffectiveSampleSize) below 1% of the
    /// chains or below 3, [`DominantWeight`](Warning::DominantWeight) above a share of 1/2,
    /// [`HeavyTail`](Warning::HeavyTail) above a Pareto shape of `1 + 1.5 / sqrt N`. In a resampled run,
    /// [`FewFamilies`](Warning::FewFamilies) replaces the warnings on few chains, low sample size and dominant weight:
    /// it appears below 10 families or islands, or below an effective number of 5. The run itself judges the tail of
    /// families ([`HeavyFamilies`](Warning::HeavyFamilies)).
    pub fn warnings(&self) -> Vec<Warning> {
        let (chains, dead, share) = (self.chains, self.dead, self.largest_share);
        let ess = self.effective_sample_size();
        let alone = self.unit == Unit::Chain;
        let few = alone && chains < tail::MIN_CHAINS;
        let few_families = !alone && (self.carrying < FEW_UNITS || ess < 0.5 * FEW_UNITS as f64);
        let low = alone && ess < (0.01 * chains as f64).max(3.0);
        let margin = interval::margin(self.units);
        let families = self.unit == Unit::Family;
        let heavy = self.pareto_shape.filter(|&k| !families && k > 1.0 + margin);
        let found = [
            few.then_some(Warning::FewChains { chains }),
            (dead > 0).then_some(Warning::DeadChains { dead, chains }),
            few_families.then_some(Warning::FewFamilies { effective: ess }),
            low.then_some(Warning::LowEffectiveSampleSize { ess, chains }),
            (alone && share > 0.5).then_some(Warning::DominantWeight { share }),
            heavy.map(|k_hat| Warning::HeavyTail { k_hat }),
        ];
        found.into_iter().flatten().collect()
    }
}

crate::num::deserialize_checked! {
    Estimate {
        chains: usize,
        dead: usize,
        unit: Unit,
        units: usize,
        carrying: usize,
        largest: f64,
        largest_share: f64,
        relative_variance: f64,
        skewness: f64,
        pareto_shape: Option<f64>,
        mean_of_alive: f64,
        variance_of_alive: f64,
    } => self.checked()
}

#[cfg(feature = "serde")]
impl Estimate {
    /// Refuses an estimate from a file whose figures cannot come from any weights.
    fn checked(self) -> Result<Self> {
        let expected = format!("fewer than the {} chains", self.chains);
        Error::check(self.dead < self.chains, "dead", self.dead, expected)?;
        let figures = [self.largest, self.skewness, self.mean_of_alive];
        Error::check_finite("estimate", figures.into_iter().chain(self.pareto_shape))?;
        let counts = [
            ("units", self.units, self.chains),
            ("carrying", self.carrying, self.units),
        ];
        for (name, count, most) in counts {
            let expected = format!("1 to {most}");
            Error::check((1..=most).contains(&count), name, count, expected)?;
        }
        let n = self.units as f64;
        for (name, value, least, most) in [
            // The share of equal weights may round to less than 1/n.
            ("largest_share", self.largest_share, (1.0 - 1e-9) / n, 1.0),
            ("relative_variance", self.relative_variance, 0.0, n - 1.0),
            ("variance_of_alive", self.variance_of_alive, 0.0, f64::MAX),
        ] {
            let within = (least..=most).contains(&value);
            Error::check(within, name, value, format!("{least} to {most}"))?;
        }
        Ok(self)
    }
}

impl fmt::Display for Estimate {
    /// Writes the estimate as `208.631 +- 0.021 (95% interval 208.590 to 208.672, ESS 809 of 1000)`. The error is left
    /// out if the interval is [skewed](LogZ::is_skewed).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = (self.value(), self.standard_error(), self.interval());
        log_z::write_figures(f, figures, self.is_skewed(), "")?;
        write!(f, ", {})", self.sample_size_text())
    }
}

impl Estimate {
    /// Returns `ESS 809 of 1000`, or `ESS 19 of 20 islands`.
    pub(crate) fn sample_size_text(&self) -> String {
        let (ess, units) = (self.effective_sample_size(), self.units);
        let islands = if self.is_of_islands() { " islands" } else { "" };
        format!("ESS {ess:.0} of {units}{islands}")
    }
}

/// Least number of independent weights from which an error is computed.
const FEW_UNITS: usize = 10;

/// Returns the index range of the chains of each island, or `None` if there are too few islands to compute an error
/// from. An island is a block of chains. A shorter last block joins the island before it.
pub(crate) fn islands(
    chains: usize,
    block_size: usize,
) -> Option<impl Iterator<Item = Range<usize>>> {
    let islands = chains / block_size;
    let start = move |island: usize| match island == islands {
        true => chains,
        false => island * block_size,
    };
    (islands >= FEW_UNITS).then(|| (0..islands).map(move |i| start(i)..start(i + 1)))
}

/// Returns the finite log weights. Fails if there are none, or if one is NaN or `+inf`.
fn check(log_weights: &[f64]) -> Result<Vec<f64>> {
    Error::check_not_empty("log_weights", log_weights.len())?;
    let (values, chains) = (log_weights.iter().copied(), log_weights.len());
    let (below, expected) = (|x| x < f64::INFINITY, "numbers below +inf");
    let indexed = values.clone().enumerate();
    Error::check_each("log_weights", "index", indexed, below, expected)?;
    let alive: Vec<f64> = values.filter(|x| x.is_finite()).collect();
    match alive.is_empty() {
        true => Err(Error::AllWeightsZero { chains }),
        false => Ok(alive),
    }
}

fn mean_and_variance(values: &[f64], origin: f64) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|x| x - origin).sum::<f64>() / n;
    let squares = values.iter().map(|x| (x - origin - mean).powi(2));
    (mean, squares.sum::<f64>() / (n - 1.0).max(1.0))
}
