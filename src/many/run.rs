//! The result of many data: log p(x) of each, and their mean.

use std::collections::BTreeMap;
use std::fmt;

use crate::ais::RunPart;
use crate::estimate::{Estimate, Warning, jackknife, jackknife_error};
use crate::model::Latent;
use crate::num::{Moments, student_quantile};
use crate::population::check_alive;
use crate::{Error, Result};

/// The result of [`LogLikelihoods`](super::LogLikelihoods): log p(x) of each datum, and their mean.
#[derive(Debug, Clone)]
#[must_use]
pub struct LogLikelihoodsRun {
    pub(super) data: Vec<DatumLogZ>,
    pub(super) evaluations: u64,
    pub(super) seconds: f64,
}

/// Log p(x) of one datum.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DatumLogZ {
    /// Index of the datum.
    pub datum: usize,
    /// Estimate of log p(x) from the datum's chains, with its error and interval.
    pub estimate: Estimate,
    /// The estimate without its bias of order `1 / chains`, by the jackknife over chains.
    pub corrected: f64,
    /// Standard error of `corrected`, by the jackknife.
    pub corrected_error: f64,
    /// Part of the bias that `corrected` may still have: the difference of the jackknives of orders 2 and 1.
    remainder: f64,
    /// Reasons to doubt the estimate.
    pub warnings: Vec<Warning>,
}

/// The mean of log p(x) over data, corrected for the bias of each estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct MeanLogZ {
    /// The mean over data of the corrected estimates.
    pub value: f64,
    /// Estimated bias of the mean of the uncorrected estimates, mostly negative. `value` does not contain it.
    pub bias: f64,
    /// Standard error of `value` by the chains' randomness, for these data.
    pub standard_error: f64,
    /// Standard deviation of log p(x) over data, without the part that the chains' randomness adds.
    pub spread: f64,
    /// Number of data.
    pub data: usize,
    dof: f64,
    remainder: f64,
}

/// Least number of chains for which the intervals are calibrated. With fewer, each datum warns.
const FEWEST_CHAINS: usize = 16;
/// Median over data of the effective share of the chains below which all data warn. On linear decoders with 16 chains, the
/// median share was .39 where .9% of the estimates were off by four errors and .3 nats, and .35 where 1.7% were.
const LOW: f64 = 0.375;
/// Largest number of chains in a group for the jackknife of order 2, which takes all pairs of a group.
const GROUP: usize = 64;

impl DatumLogZ {
    pub(super) fn new(datum: usize, log_weights: &[f64]) -> Result<Self> {
        check_alive(log_weights, datum)?;
        let estimate = Estimate::from_log_weights(log_weights)?;
        let chains = log_weights.len();
        let (mut warnings, group) = (estimate.warnings(), chains.min(GROUP));
        warnings.retain(|warning| {
            chains < FEWEST_CHAINS || !matches!(warning, Warning::FewChains { .. })
        });
        let by = |k, order| jackknife(log_weights, k, order);
        // With fewer than three living chains there is no correction, and the error is large or infinite.
        let remainder = match (by(group, 1), by(group, 2)) {
            (Ok(first), Ok(second)) => second - first,
            _ => 0.0,
        };
        Ok(Self {
            datum,
            corrected: by(chains, 1).unwrap_or(estimate.value()),
            corrected_error: jackknife_error(log_weights),
            remainder,
            estimate,
            warnings,
        })
    }
}

/// Returns the log weights of the finished chains of each datum, by the data of their states.
pub(super) fn weights_by_datum(part: &RunPart<Latent>) -> BTreeMap<usize, Vec<f64>> {
    let mut weights = BTreeMap::<usize, Vec<f64>>::new();
    for chains in part.nodes.iter().map(|node| &node.value.chains) {
        for (state, &log_weight) in chains.states.iter().zip(&chains.log_weights) {
            weights.entry(state.datum()).or_default().push(log_weight);
        }
    }
    weights
}

/// Warns of all data if the median of their effective sample sizes is a small part of the chains.
fn low_sample_sizes(data: &[DatumLogZ]) -> Option<Warning> {
    let of = |datum: &DatumLogZ| datum.estimate.effective_sample_size();
    let mut sizes: Vec<f64> = data.iter().map(of).collect();
    sizes.sort_by(f64::total_cmp);
    let (median, chains) = (sizes[sizes.len() / 2], data[0].estimate.chains());
    (median < LOW * chains as f64).then_some(Warning::LowSampleSizes { median, chains })
}

/// Returns the number of density evaluations of the finished chains.
pub(super) fn evaluations(part: &RunPart<Latent>) -> u64 {
    let chains = part.nodes.iter().map(|node| node.value.chains.states.len());
    let steps = chains.sum::<usize>() * part.settings.schedule.stages();
    part.evaluations.saturating_mul(steps as u64)
}

impl LogLikelihoodsRun {
    /// Groups the weights of the finished chains by the data of their states.
    pub(super) fn of(part: RunPart<Latent>) -> Result<Self> {
        let weights = weights_by_datum(&part);
        if weights.is_empty() {
            return Err(part.stopped());
        }
        let data = weights
            .iter()
            .map(|(&datum, weights)| DatumLogZ::new(datum, weights));
        let mut data: Vec<_> = data.collect::<Result<_>>()?;
        if let Some(warning) = low_sample_sizes(&data) {
            let all = data.iter_mut();
            all.for_each(|datum| datum.warnings.push(warning.clone()));
        }
        Ok(Self {
            data,
            evaluations: evaluations(&part),
            seconds: part.seconds,
        })
    }

    /// Returns the results of the data, in the order of their indices. A stopped run lacks some.
    pub fn data(&self) -> &[DatumLogZ] {
        &self.data
    }

    /// Returns the data that warn.
    pub fn doubtful(&self) -> impl Iterator<Item = &DatumLogZ> {
        self.data.iter().filter(|datum| !datum.warnings.is_empty())
    }

    /// Returns the mean of log p(x) over the data.
    pub fn mean(&self) -> MeanLogZ {
        let n = self.data.len() as f64;
        let mean = |of: fn(&DatumLogZ) -> f64| self.data.iter().map(of).sum::<f64>() / n;
        let variance = mean(|datum| datum.corrected_error.powi(2));
        let over_data = Moments::from_iter(self.data.iter().map(|datum| datum.corrected));
        let chains: usize = self.data.iter().map(|datum| datum.estimate.chains()).sum();
        MeanLogZ {
            value: over_data.mean(),
            bias: mean(|datum| datum.estimate.value() - datum.corrected),
            standard_error: (variance / n).sqrt(),
            spread: (over_data.variance() - variance).max(0.0).sqrt(),
            data: self.data.len(),
            dof: chains as f64 - n,
            remainder: mean(|datum| datum.remainder),
        }
    }

    /// Returns the number of density evaluations, with those of the first pass.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Returns the wall time in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

impl MeanLogZ {
    /// Returns bounds that contain the mean of the data's log p(x) with probability `level`.
    ///
    /// They are `value -+ t SE`, with Student's quantile t. One side is wider by twice the bias that the correction may
    /// have left, as far as jackknives of orders 1 and 2 differ.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `0 < level < 1`.
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("level", level)?;
        let side = student_quantile(0.5 + 0.5 * level, self.dof.max(1.0)) * self.standard_error;
        let left = 2.0 * self.remainder;
        let (lower, upper) = (side - left.min(0.0), side + left.max(0.0));
        Ok((self.value - lower, self.value + upper))
    }
}

/// Writes `-12.310 +- 0.012 (95% interval -12.334 to -12.285, 1000 data, bias -0.041 corrected, deviation over data 3.1)`.
impl fmt::Display for MeanLogZ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lower, upper) = self.interval_at(0.95).map_err(|_| fmt::Error)?;
        let (value, error, data) = (self.value, self.standard_error, self.data);
        let (bias, spread) = (self.bias, self.spread);
        write!(
            f,
            "{value:.3} +- {error:.3} (95% interval {lower:.3} to {upper:.3}, {data} data, \
             bias {bias:.3} corrected, deviation over data {spread:.3})"
        )
    }
}

/// Most data that the text lists by their indices.
const LISTED: usize = 20;

/// Advice if few data warn. By chance, 40 of 1,000 warned with 16 chains, 10 coordinates and 50 stages, 2 with 100 stages.
const APART: &str = "run them apart with four times the stages, because the betas here follow the others. Up to 4 in 100 \
     data warn by chance, others in each run; one that warns again needs more stages still, or its p(x) may be infinite";

/// Writes the mean, and the number and indices of the data that warn.
impl fmt::Display for LogLikelihoodsRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mean, evaluations) = (self.mean(), self.evaluations);
        write!(f, "mean log p(x) = {mean}, {evaluations:.1e} evaluations")?;
        let (count, all) = (self.doubtful().count(), self.data.len());
        if count == 0 {
            return Ok(());
        }
        let of_all = |warning: &Warning| matches!(warning, Warning::LowSampleSizes { .. });
        let own = |datum: &&DatumLogZ| !datum.warnings.iter().all(of_all);
        let own = Vec::from_iter(self.data.iter().filter(own).map(|datum| datum.datum));
        let listed = &own[..own.len().min(LISTED)];
        let which = match own.len() {
            0 => String::new(),
            few if few < count => format!(", most of all those with the indices {listed:?}"),
            few if few > LISTED => format!(", the first with the indices {listed:?}"),
            _ => format!(", with the indices {listed:?}"),
        };
        // The first pass leaves out as many of the worst data.
        let advice = match all > 2 && count <= (all / 10).max(1) {
            true => APART,
            false => {
                "the mean is likely too low, too; use more stages. If they do not help, p(x) may be infinite"
            }
        };
        write!(
            f,
            "\nwarning: {count} of {all} data are in doubt{which}: {advice}"
        )
    }
}
