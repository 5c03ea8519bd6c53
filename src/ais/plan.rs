//! A run with the types of path and kernel erased.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::along::Annealing;
use super::block_result::BlockResult;
use super::partial::RunPart;
use super::probe::Probe;
use super::run::Run;
use super::settings::Settings;
use super::task::AisTask;
use crate::population::CopyState;
use crate::work::{Counts, Execution, Forest, Job, Merge, Runs, Task};
use crate::{Error, Result};

/// The work of an [`Ais`](super::Ais), compiled once per type of states and recorders.
pub(crate) struct Plan<'t, S, R> {
    pub(crate) along: Arc<dyn Annealing<'t, S, R> + 't>,
    pub(crate) settings: &'t Settings,
    pub(crate) execution: &'t Execution<'t>,
    pub(crate) recorder: &'t R,
    /// Function that copies a state; `None` unless chains interact.
    pub(crate) copy: Option<CopyState<S>>,
}

impl<'t, S: Send + 't, R: Merge + Clone + Send + Sync> Plan<'t, S, R> {
    pub(crate) fn probe(&self) -> Option<Probe> {
        Probe::of(&self.along, self.settings)
    }

    pub(crate) fn task(&self, chains: &Range<usize>) -> Result<AisTask<'t, S, R>> {
        let kept = (self.recorder.clone(), self.copy);
        AisTask::new(Arc::clone(&self.along), self.settings.clone(), chains, kept)
    }

    pub(crate) fn run(&self) -> Result<Run<S, R>> {
        self.go_with(&mut Job::new(self.execution)?)
    }

    /// Runs all chains.
    pub(crate) fn go_with(&self, job: &mut impl Runs<AisTask<'t, S, R>>) -> Result<Run<S, R>> {
        let begun = Instant::now();
        let task = self.task(&(0..self.settings.chains))?;
        job.foresee(task.cost(task.blocks()));
        let closed = job.run(&task)?;
        self.concluded(task.result(closed, begun.elapsed().as_secs_f64()))
    }

    /// Runs as part of a longer `job`, which counts the work and may stop it.
    pub(crate) fn run_within(&self, job: &mut Job<'_>) -> Result<Run<S, R>> {
        let begun = Instant::now();
        let task = self.task(&(0..self.settings.chains))?;
        let closed = job.extend(&task, Forest::new())?;
        task.result(closed, begun.elapsed().as_secs_f64()).result()
    }

    /// Runs the chains of a range, except those already `done`.
    pub(crate) fn extended(
        &self,
        chains: &Range<usize>,
        done: Forest<BlockResult<S, R>>,
    ) -> Result<RunPart<S, R>> {
        let begun = Instant::now();
        let task = self.task(chains)?;
        let mut job = Job::new(self.execution)?;
        job.foresee(task.cost(task.blocks()));
        let closed = job.extend(&task, done)?;
        Ok(task.result(closed, begun.elapsed().as_secs_f64()))
    }

    pub(crate) fn extend(&self, mut done: RunPart<S, R>) -> Result<Run<S, R>> {
        self.settings.check()?;
        done.check()?;
        done.check_order()?;
        let (seconds, found) = (done.seconds, done.probe.take());
        let done = done.continued(self.settings)?;
        Probe::check_found(self.probe().as_ref(), found.as_ref())?;
        let mut run = self.concluded(self.extended(&(0..self.settings.chains), done)?)?;
        run.add_seconds(seconds);
        Ok(run)
    }

    pub(crate) fn run_range(&self, chains: &Range<usize>) -> Result<RunPart<S, R>> {
        if let Some(found) = self.execution.until_error {
            let expected = "none for a part of a run, which does not know the error of all";
            return Err(Error::invalid("until_error", found, expected));
        }
        let part = self.extended(chains, Forest::new())?;
        Ok(part.probed(self.probe()))
    }

    /// Returns the result, with the path's doubts, and a warning where the error asked for was not reached.
    pub(crate) fn concluded(&self, part: RunPart<S, R>) -> Result<Run<S, R>> {
        let until_error = self.execution.until_error;
        let mut run = part.probed(self.probe()).reached(until_error)?;
        run.doubt(&|states, steps, interval| self.along.doubts(states, steps, interval));
        Ok(run)
    }
}
