//! Runs from the target back to the base, and their results.

use std::fmt;
use std::ops::Range;

use super::target_samples::TargetSamples;
use crate::ais::{Ais, Recorder, Run, RunPart, Settings};
use crate::estimate::{LogZ, Warning, write_headline};
use crate::kernel::{Reversal, TransitionKernel, forward_kernel};
use crate::path::{AnnealingPath, Intermediate};
use crate::random::Purpose;
use crate::work::{Job, Task};
use crate::{Error, Result};

/// The result of a run from the target to the base.
///
/// Its mean weight estimates `Z_0/Z_K`. From exact samples, `log Z_0 - log mean w` overestimates `log Z_K` in
/// expectation, while a forward run underestimates it. [`Bridge`](super::Bridge) joins both directions.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct ReverseRun<S, R = ()> {
    run: Run<S, R>,
    log_base_normalizer: f64,
    /// Whether the samples are exact.
    is_exact: bool,
}

impl<S, R> ReverseRun<S, R> {
    /// Returns the run itself, from the target to the base. Its weights are for `Z_0/Z_K`, and its own `log_z` is the
    /// log of their mean. Its stages are in the order in which chains pass them, and its states are at the base.
    pub fn backward(&self) -> &Run<S, R> {
        &self.run
    }

    pub(super) fn log_base_normalizer(&self) -> f64 {
        self.log_base_normalizer
    }

    pub(super) fn is_exact(&self) -> bool {
        self.is_exact
    }

    pub(super) fn mean_bound(&self) -> f64 {
        self.log_base_normalizer - self.run.lower_bound()
    }

    /// Returns `log Z_0 - mean log w`; `None` if the samples are approximate. Its expectation is an upper bound on
    /// `log Z_K` (Jensen), and [`log_z`](Self::log_z) is a tighter one. It is `+inf` if a chain has weight zero.
    pub fn upper_bound(&self) -> Option<f64> {
        self.is_exact.then(|| self.mean_bound())
    }
}

/// Writes `log Z = 208.9 +- 0.2 (reverse; 95% interval 208.5 to 209.3, ESS 20 of 100, ...)` and any warnings.
impl<S, R> fmt::Display for ReverseRun<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.is_exact {
            true => "reverse",
            false => "reverse, from approximate samples",
        };
        let (ess, chains) = (self.run.effective_sample_size(), self.run.chains());
        write_headline(f, self, kind, format_args!("ESS {ess:.0} of {chains}"))
    }
}

/// No lower bound is certified: the weights are unbiased for `Z_0/Z_K`, which only bounds `log Z_K` from above.
impl<S, R> LogZ for ReverseRun<S, R> {
    /// Returns the estimate of `log Z_K`: the base's log normaliser minus the log of the mean weight.
    fn log_z(&self) -> f64 {
        self.log_base_normalizer - self.run.log_z_ratio()
    }

    /// Returns the standard error of [`log_z`](Self::log_z), assuming independent samples of the target.
    fn standard_error(&self) -> f64 {
        self.run.standard_error()
    }

    /// Returns the confidence interval of `log Z_K`, assuming independent samples of the target. It is the
    /// [interval](crate::estimate::Estimate::interval_at) of a forward run, mirrored.
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        let (lower, upper) = self.run.interval_at(level)?;
        let log_z_0 = self.log_base_normalizer;
        Ok((log_z_0 - upper, log_z_0 - lower))
    }

    /// Returns reasons to doubt the result, from [`backward`](Self::backward).
    fn warnings(&self) -> &[Warning] {
        self.run.warnings()
    }

    /// Returns the number of density evaluations, as in a [forward run](Run::evaluations), without the evaluations for
    /// drawing samples.
    fn evaluations(&self) -> u64 {
        self.run.evaluations()
    }

    fn seconds(&self) -> f64 {
        self.run.seconds()
    }
}

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Send + Sync,
    P::State: Clone + Send + Sync,
    K: Sync,
    R: Recorder<P::At> + Send + Sync,
{
    /// Runs the schedule backward, one chain from each sample of the target to the base. Settings are as in
    /// [`run`](Self::run), without [`resampling`](Self::resampling) and [`waste_free`](Self::waste_free). The streams
    /// differ from a forward run's.
    ///
    /// For k = K to 1 a chain moves by the kernel's reversal at `beta_k`, then adds `log f_{k-1}(x) - log f_k(x)` to
    /// its log weight. From exact samples `E[w] = Z_0/Z_K`. [`Bridge`](super::Bridge) joins both directions.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); no samples.
    pub fn reverse(&self, samples: &TargetSamples<P::State>) -> Result<ReverseRun<P::State, R>>
    where
        K: Reversal<P::At>,
    {
        Error::check_not_empty("samples", samples.states().len())?;
        Ok(ReverseRun {
            run: self.read_backward(Purpose::REVERSE, samples.states())?,
            log_base_normalizer: self.settings.log_base_normalizer,
            is_exact: samples.is_exact(),
        })
    }

    /// Runs one chain from each state to the base. `purpose` selects the streams; [`Purpose::reads_backward`] must be
    /// true for it.
    pub(super) fn read_backward(
        &self,
        purpose: Purpose,
        states: &[P::State],
    ) -> Result<Run<P::State, R>>
    where
        K: Reversal<P::At>,
    {
        // The probe goes forward, so that `Bridge::new` can compare it with a forward run's probe.
        let probe = self.task().ok().and_then(|task| task.probe());
        let name = match purpose {
            Purpose::RAISE => "RAISE",
            _ => "reverse run",
        };
        let mut job = Job::new(&self.execution)?.named(name);
        let part = self.read_backward_by(&mut job, purpose, states)?;
        RunPart::merge([RunPart { probe, ..part }])
    }

    /// Runs one chain from each state to the base, as a part of a job.
    pub(crate) fn read_backward_by(
        &self,
        job: &mut Job<'_>,
        purpose: Purpose,
        states: &[P::State],
    ) -> Result<RunPart<P::State, R>>
    where
        K: Reversal<P::At>,
    {
        let settings = Settings {
            purpose,
            chains: states.len(),
            // This run estimates log(Z_0/Z_K). The callers take log Z_0 into account themselves.
            log_base_normalizer: 0.0,
            selection: None,
            ..self.settings.clone()
        };
        let samples = |chains: Range<usize>| states[chains].to_vec();
        let task = self.task_by(Reversed(&self.kernel), settings, &(0..states.len()))?;
        let task = task.starting_at(&samples);
        job.foresee(task.cost(task.blocks()));
        let part = task.run_by(job)?;
        match part.missing().is_empty() {
            true => Ok(part),
            false => Err(part.stopped()),
        }
    }
}

/// The reversal of a kernel, made anew for each move, because threads share the kernel but not its reversal's state.
struct Reversed<'k, K>(&'k K);

impl<'k, M: Intermediate, K: Reversal<M>> TransitionKernel<M> for Reversed<'k, K> {
    type Workspace = <K::Reversed<'k> as TransitionKernel<M>>::Workspace;

    forward_kernel! { self => self.0.reversal() }
}
