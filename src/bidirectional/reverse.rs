//! Runs that read a path backward, and their results.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rand::Rng;

use super::target_samples::{Exact, IsExact, Quality, TargetSamples};
use crate::ais::{Ais, AisTask, Along, Annealing, Keep, Recorder, Run, RunPart, Settings};
use crate::estimate::{Warning, log_z_by_methods, write_headline};
use crate::kernel::{Block, NonFinite, Reversal, Stage, Step, TransitionKernel};
use crate::path::{AnnealingPath, Intermediate};
use crate::random::Purpose;
use crate::work::{Counts, Forest, Job, Task};
use crate::{Error, Result};

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

    /// Returns `None`: the weights are unbiased estimates of `Z_0/Z_K`, which bound `log Z_K` from above only.
    ///
    /// # Errors
    /// A confidence outside (0, 1).
    pub fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        Error::check_inner_fraction("confidence", confidence).map(|()| None)
    }

    /// Returns reasons to doubt the result, those of [`backward`](Self::backward); none where the list is empty.
    pub fn warnings(&self) -> &[Warning] {
        self.run.warnings()
    }

    /// Returns the number of evaluations of the density, counted as those of a [forward run](Run::evaluations). The
    /// samples count for nothing.
    pub fn evaluations(&self) -> u64 {
        self.run.evaluations()
    }

    /// Returns the wall time in seconds.
    pub fn seconds(&self) -> f64 {
        self.run.seconds()
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
        let kind = match Q::IS_EXACT {
            true => "reverse",
            false => "reverse, as if from samples of the target",
        };
        let (ess, chains) = (self.run.effective_sample_size(), self.run.chains());
        write_headline(f, self, kind, format_args!("ESS {ess:.0} of {chains}"))
    }
}

log_z_by_methods! { [S, Q: Quality, R] ReverseRun<S, Q, R> }

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Sync,
    P::State: Clone + Send + Sync,
    K: Sync,
    R: Recorder<P::At<'p>> + Send + Sync,
{
    /// Runs the schedule backward, from samples of the target to the base, one chain for each sample.
    /// The settings are those of [`run`](Self::run), but for the number of chains, and without
    /// [`resampling`](Self::resampling) or [`waste_free`](Self::waste_free); the streams differ from those of all
    /// other runs of the same seed.
    ///
    /// For k = K to 1 a chain moves by the reversal of the kernel at `beta_k`, and then adds
    /// `log f_{k-1}(x) - log f_k(x)` to its log weight. From exact samples `E[w] = Z_0/Z_K`, and the
    /// paths are those of a forward run in equilibrium, read backward, so that [`Bridge`](super::Bridge)
    /// can join both.
    ///
    /// # Errors
    /// As [`run`](Self::run); no samples.
    pub fn reverse<Q>(
        &self,
        samples: &TargetSamples<P::State, Q>,
    ) -> Result<ReverseRun<P::State, Q, R>>
    where
        K: Reversal<P::At<'p>>,
    {
        Error::check_not_empty("samples", samples.states().len())?;
        let run = self.read_backward(Purpose::Reverse, samples.states())?;
        Ok(ReverseRun::new(run, self.settings.log_base_normalizer))
    }

    /// One chain from each state to the base, with the streams of a purpose that
    /// [reads backward](Purpose::reads_backward).
    pub(super) fn read_backward(
        &self,
        purpose: Purpose,
        states: &[P::State],
    ) -> Result<Run<P::State, R>>
    where
        K: Reversal<P::At<'p>>,
    {
        let settings = Settings {
            purpose,
            chains: states.len(),
            log_base_normalizer: 0.0,
            selection: None,
            ..self.settings.clone()
        };
        let along: Arc<dyn Annealing<'_, _, _>> =
            Arc::new(Along::new(self.path, Reversed(&self.kernel)));
        let probe = self.plan().probe();
        let kept: (_, _, Keep<_, _>) = (self.recorder.clone(), None, |states| states);
        let samples = |chains: Range<usize>| states[chains].to_vec();
        let task = AisTask::new(along, settings, &(0..states.len()), kept)?.starting_at(&samples);
        let begun = Instant::now();
        let mut job = Job::new(&self.execution)?;
        job.foresee(task.cost(task.blocks()));
        let closed = job.extend(&task, Forest::new())?;
        let part = task.result(closed, begun.elapsed().as_secs_f64());
        match part.missing().is_empty() {
            true => RunPart::merge([part.probed(probe)]),
            false => Err(part.stopped()),
        }
    }
}

/// The reversal of a kernel, made anew for each move: threads share the kernel, and not what its reversal may hold.
struct Reversed<'k, K>(&'k K);

impl<'k, M: Intermediate, K: Reversal<M>> TransitionKernel<M> for Reversed<'k, K> {
    type Workspace = <K::Reversed<'k> as TransitionKernel<M>>::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        self.0.reversal().step(stage, chain, state, workspace, rng)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        self.0.reversal().advance(stage, block, workspace)
    }

    fn stages(&self) -> Option<usize> {
        self.0.reversal().stages()
    }

    fn evaluations(&self, dimension: usize) -> usize {
        self.0.reversal().evaluations(dimension)
    }
}
