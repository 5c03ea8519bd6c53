//! Runs over levels with checkpoints, alone or on several processes.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::island_task::IslandsTask;
use super::path::{LevelAt, LevelPath};
use super::run::NestedSmcRun;
use super::runner::NestedSmc;
use super::search::Search;
use super::settings::Settings;
use crate::estimate::Warning;
use crate::kernel::{Invariant, Workspace};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::random::{Purpose, stream};
use crate::work::store::{Checkpointed, KeptJob, Resumable, checksum, encode, guarded};
use crate::work::{Execution, Persist};
use crate::{Error, Result};

/// The first pass is a small part of a run, and begins anew.
impl<'m, P, L, K> Persist for Search<'_, 'm, P, L, K>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
}

/// Unfinished islands begin anew.
impl<'m, P, L, K> Persist for IslandsTask<'_, 'm, P, L, K>
where
    P: Sampleable<State: Clone + Send + Serialize + DeserializeOwned> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
}

impl<P, L, K> NestedSmc<'_, P, L, K> {
    /// Returns the same run with checkpoints in a file, as described in [`checkpoint`](crate::checkpoint). They hold
    /// the levels and the finished islands; an island at work begins anew.
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }
}

impl<'m, P, L, K> NestedSmc<'m, P, L, K>
where
    P: Sampleable<State: Clone + Send + Serialize + DeserializeOwned> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    /// Runs on all processes of an MPI communicator, which all call this and share the islands. Rank 0 gets the
    /// result, with the bits of [`run`](Self::run); the others get `None`. MPI works as in
    /// [`Ais::run_on`](crate::ais::Ais::run_on).
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) and of [`Ais::run_on`](crate::ais::Ais::run_on).
    #[cfg(feature = "mpi")]
    pub fn run_on(
        &self,
        world: &dyn mpi::topology::Communicator,
    ) -> Result<Option<NestedSmcRun<P::State>>> {
        let ways = self.ways()?;
        let agree = |ranks: &mut crate::work::mpi::Ranks| Resumable::agree(self, ranks, None);
        crate::work::mpi::SharedJob::on(world, &self.execution, agree, |job| {
            self.go_with(&ways, job)
        })
    }

    /// Encodes likelihoods, and moves above a level, of a few prior samples, as a fingerprint.
    fn probed(&self) -> Result<Vec<u8>> {
        use crate::population::Population;
        let prior: LevelPath<'m, P, L> = LevelPath::new(self.problem, [])?;
        let first = || stream(0, Purpose::Probe, 0);
        let start: Population<_> = Population::start(&prior, 0, PROBES, first())?;
        let likelihood = self.problem.likelihood();
        let states = start.block().states().iter();
        let log_likelihoods: Vec<f64> = states.map(|x| x.log_likelihood(likelihood)).collect();
        let mut sorted = log_likelihoods.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let level = Some(sorted[PROBES / 2]).filter(|level| *level < f64::INFINITY);
        let path = LevelPath::new(self.problem, level)?;
        let mut moved: Population<_> = Population::start(&path, 0, PROBES, first())?;
        let met = moved
            .advance_to(&self.kernel, 1.0)
            .map_err(|error| error.to_string());
        let states = moved.block().states().iter();
        let after: Vec<f64> = states.map(|x| x.log_likelihood(likelihood)).collect();
        let tuning = self
            .tuning
            .as_ref()
            .map(|tuning| (tuning.first, tuning.acceptance));
        encode("probe", &(log_likelihoods, met.err(), after, tuning))
    }
}

/// Number of prior samples in a fingerprint.
const PROBES: usize = 8;

impl<'m, P, L, K> Resumable for NestedSmc<'m, P, L, K>
where
    P: Sampleable<State: Clone + Send + Serialize + DeserializeOwned> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>, Workspace: Workspace> + Sync,
{
    type Run = NestedSmcRun<P::State>;
    type Settings = Settings;

    const KIND: &'static str = "levels";

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn execution(&self) -> &Execution<'_> {
        &self.execution
    }

    fn fingerprint(&self) -> Result<u32> {
        self.ways()?;
        guarded(|| Ok(checksum(&self.probed()?)))
    }

    fn check_found(&self, found: &Settings) -> Result<usize> {
        Error::check_found("seed", &found.seed, &self.settings.seed)?;
        Error::check_found("settings", found, &self.settings)?;
        Ok(usize::MAX)
    }

    fn go(&self, job: &mut KeptJob<'_>) -> Result<Option<Self::Run>> {
        self.go_with(&self.ways()?, job)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.add_seconds(seconds);
        run.warn(failure.map(|reason| Warning::CheckpointNotWritten { reason }));
    }
}
