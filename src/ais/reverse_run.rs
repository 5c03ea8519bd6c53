//! The result of a run that reads its path backward.

use std::fmt;
use std::marker::PhantomData;

use super::run::Run;
use super::target_samples::{Exact, IsExact, Quality};
use crate::Result;
use crate::estimate::Headline;

/// The result of a run from the target to the base: log Z as seen from the other end.
///
/// Its chains estimate `Z_0/Z_K` by the mean of their weights. So `log Z_0 - log mean w` overestimates
/// `log Z_K` in expectation, where a forward run underestimates it, provided that the chains began at
/// [exact](Exact) samples of the target. [`Bridge`](super::Bridge) joins both directions.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct ReverseRun<S, Q = Exact, R = ()> {
    run: Run<S, R>,
    log_base_normalizer: f64,
    #[cfg_attr(feature = "serde", serde(skip))]
    quality: PhantomData<Q>,
}

impl<S, Q, R> ReverseRun<S, Q, R> {
    pub(super) fn new(run: Run<S, R>, log_base_normalizer: f64) -> Self {
        Self {
            run,
            log_base_normalizer,
            quality: PhantomData,
        }
    }

    /// The estimate of `log Z_K`: the base's log normaliser minus the log of the mean weight.
    pub fn log_z(&self) -> f64 {
        self.log_base_normalizer - self.run.log_z_ratio()
    }

    /// Standard error of [`log_z`](Self::log_z), for independent samples of the target's law: what approximate ones lack
    /// is not in it.
    pub fn standard_error(&self) -> f64 {
        self.run.standard_error()
    }

    /// The 95% confidence interval of `log Z_K`, lower and upper bound, for samples of the target's law. It is made as that of a forward run
    /// ([`Estimate::interval_at`](crate::estimate::Estimate::interval_at)) and mirrored.
    pub fn interval(&self) -> (f64, f64) {
        self.mirrored(self.run.interval())
    }

    /// The confidence interval of `log Z_K` at another level in (0, 1).
    ///
    /// # Errors
    /// A level outside (0, 1).
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Ok(self.mirrored(self.run.interval_at(level)?))
    }

    fn mirrored(&self, (lower, upper): (f64, f64)) -> (f64, f64) {
        let log_z_0 = self.log_base_normalizer;
        (log_z_0 - upper, log_z_0 - lower)
    }

    /// The run as such, from the target to the base: weights for `Z_0/Z_K`, of which its own `log_z` is
    /// the log of the mean, stages in the order passed, states at the base, and what the recorder saw.
    pub fn backward(&self) -> &Run<S, R> {
        &self.run
    }

    pub(super) fn log_base_normalizer(&self) -> f64 {
        self.log_base_normalizer
    }

    /// `log Z_0 - mean log w`, an upper bound in expectation if the samples were exact.
    pub(super) fn mean_bound(&self) -> f64 {
        self.log_base_normalizer - self.run.lower_bound()
    }
}

impl<S, Q: IsExact, R> ReverseRun<S, Q, R> {
    /// `log Z_0 - mean log w`, in expectation an upper bound on `log Z_K` (Jensen), and above
    /// [`log_z`](Self::log_z), which is one too; `+inf` where a chain has weight zero.
    pub fn upper_bound(&self) -> f64 {
        self.mean_bound()
    }
}

/// One line, as `log Z = 208.9 +- 0.2 (reverse; 95% interval 208.5 to 209.3, ESS 20 of 100)`, and a line
/// for each warning.
impl<S, Q: Quality, R> fmt::Display for ReverseRun<S, Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headline = Headline {
            log_z: self.log_z(),
            error: self.standard_error(),
            interval: self.interval(),
            kind: match Q::IS_EXACT {
                true => "reverse",
                false => "reverse, as if from samples of the target",
            },
            details: format!(
                "ESS {:.0} of {}",
                self.run.effective_sample_size(),
                self.run.chains()
            ),
            warnings: self.run.warnings(),
        };
        headline.fmt(f)
    }
}
