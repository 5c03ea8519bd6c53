//! Runs that read a path backward.

use std::time::Instant;

use rand::Rng;

use super::partial::PartialRun;
use super::recorder::Recorder;
use super::reverse_run::ReverseRun;
use super::run::Run;
use super::runner::Ais;
use super::settings::Settings;
use super::target_samples::TargetSamples;
use super::task::{AisTask, BlockStreams};
use crate::chain::{Block, NonFinite, Stage, Step};
use crate::kernel::{Reversal, TransitionKernel};
use crate::path::{AnnealingPath, Intermediate};
use crate::random::Purpose;
use crate::work::{Counts, Forest, Job, Task};
use crate::{Error, Result};

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
            interaction: None,
            ..self.settings.clone()
        };
        settings.check()?;
        let blocks = settings.blocks_of(&(0..states.len()))?;
        let task = AisTask {
            path: self.path,
            kernel: Reversed(&self.kernel),
            streams: BlockStreams::new(&settings, blocks.start),
            settings: settings.clone(),
            blocks,
            recorder: self.recorder.clone(),
            copy: None,
            samples: Some(&|chains| states[chains].to_vec()),
            keep: |states| states,
        };
        let (begun, task) = (Instant::now(), task.checked()?);
        let mut job = Job::new(&self.execution)?;
        job.foresee(task.cost(task.blocks()));
        let closed = job.extend(&task, Forest::new())?;
        let part = PartialRun::of(settings, closed, begun.elapsed().as_secs_f64());
        match part.missing().is_empty() {
            true => PartialRun::merge([part.probed(self.probe())]),
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
}
