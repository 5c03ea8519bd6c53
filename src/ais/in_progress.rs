//! A block of chains on its way through the schedule.

use super::lineage::Lineage;
use super::outcome::{Chains, Outcome, Tally};
use super::population::Population;
use super::recorder::Recorder;
use super::route::Route;
use super::stages::{StageRecorder, Windows};
use crate::Result;
use crate::kernel::Workspace;
use crate::path::AnnealingPath;

/// A block that has passed some stages of its schedule, with all that its further way depends on.
pub(super) struct InProgress<'p, P: AnnealingPath, W, R> {
    /// Number of stages passed.
    pub(super) passed: usize,
    pub(super) population: Population<'p, P, W>,
    pub(super) stages: StageRecorder,
    pub(super) recorder: R,
    /// Where the chains interact.
    pub(super) lineage: Option<Lineage<P::State>>,
}

impl<'p, P: AnnealingPath, W: Workspace, R> InProgress<'p, P, W, R> {
    /// Before the first stage.
    pub(super) fn new(
        population: Population<'p, P, W>,
        windows: Windows,
        recorder: R,
        lineage: Option<Lineage<P::State>>,
    ) -> Self {
        Self {
            passed: 0,
            stages: StageRecorder::new(windows, population.block().len()),
            population,
            recorder,
            lineage,
        }
    }

    /// Whether all stages are passed.
    pub(super) fn is_done(&self) -> bool {
        self.passed == self.stages.windows.steps()
    }

    /// Takes the chains through the next stage. They do not interact after the last one.
    pub(super) fn pass(&mut self, route: &impl Route<'p, P, Workspace = W>) -> Result<()>
    where
        R: Recorder<P::At<'p>>,
    {
        let (k, windows) = (self.passed + 1, self.stages.windows);
        let Self {
            population,
            stages,
            recorder,
            lineage,
            ..
        } = self;
        route.pass(population, k)?;
        stages.after(k, population.block());
        if windows.ends_at(k) {
            recorder.record(population.stage(), population.block());
        }
        if let Some(lineage) = lineage.as_mut().filter(|_| k < windows.steps()) {
            lineage.resample(k, population, stages, route)?;
        }
        stages.moved(k, population.block());
        self.passed = k;
        Ok(())
    }

    /// What a block leaves that has passed all stages. Of its chains so many ended where the base has no density.
    pub(super) fn finish(mut self, uncovered: usize) -> Outcome<P::State, R> {
        let (states, log_weights) = self.population.block_mut().take_states_and_log_weights();
        Outcome {
            chains: Chains {
                states,
                log_weights,
                roots: self.lineage.map_or(Vec::new(), Lineage::into_roots),
            },
            tally: Tally {
                windows: self.stages.finish(),
                recorder: self.recorder,
                uncovered,
            },
        }
    }
}
