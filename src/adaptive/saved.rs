//! Adaptive runs that leave checkpoints, alone or on several processes.

use std::fmt::Debug;
use std::path::PathBuf;

#[cfg(feature = "mpi")]
use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::challenge::{AlongRivals, Base, Challenge, ChallengeRun, RivalAt, Rivals};
use super::rounds::Rounds;
use super::rounds_run::RoundsRun;
use super::smc::{AdaptiveSmc, AdaptiveSmcRun, BLOCK};
use crate::ais::{Along, fingerprint};
use crate::estimate::Warning;
use crate::kernel::{TransitionKernel, Workspace};
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::Execution;
#[cfg(feature = "mpi")]
use crate::work::mpi::SharedJob;
use crate::work::store::{Checkpointed, KeptJob, Resumable, checksum, encode};
use crate::{Error, Result};

/// Number of stages along which a fingerprint is taken.
const STAGES: usize = 16;

type Named = Vec<(&'static str, String)>;

fn named(name: &'static str, value: &dyn Debug) -> (&'static str, String) {
    (name, format!("{value:?}"))
}

/// Refuses settings that differ, and names the first.
fn check_named(mine: Named, found: &[String]) -> Result<usize> {
    Error::check_dimension("settings", found.len(), mine.len())?;
    let mut pairs = mine.iter().zip(found);
    pairs.try_for_each(|((name, mine), found)| Error::check_found(name, found, mine))?;
    Ok(usize::MAX)
}

/// Implements the parts of [`Resumable`] that compare settings by name and value.
macro_rules! compared_by_name {
    () => {
        type Settings = Vec<String>;

        fn settings(&self) -> Vec<String> {
            self.named().into_iter().map(|(_, value)| value).collect()
        }

        fn check_found(&self, found: &Vec<String>) -> Result<usize> {
            check_named(self.named(), found)
        }

        fn execution(&self) -> &Execution<'_> {
            &self.execution
        }
    };
}

impl<P: AnnealingPath, K> AdaptiveSmc<'_, P, K> {
    /// Returns the same run with checkpoints in `file`; see the module [`checkpoint`](crate::checkpoint). An unfinished
    /// first pass begins anew.
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    fn named(&self) -> Named {
        vec![
            named("seed", &self.seed),
            named("chains", &self.chains),
            named("moves", &self.moves),
            named("ess_share", &self.ess_share),
            named("block_size", &self.block_size.unwrap_or(BLOCK)),
            named("log normalizer of the base", &self.log_base_normalizer),
            named("whether the kernel is tuned", &self.tuner.is_some()),
        ]
    }
}

impl<'p, P, K> Resumable for AdaptiveSmc<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Serialize + DeserializeOwned + Clone + Send + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    type Run = AdaptiveSmcRun<P::State, K>;

    const KIND: &'static str = "adaptive";

    compared_by_name! {}

    fn fingerprint(&self) -> Result<u32> {
        fingerprint(self.path.clone(), &self.kernel, &Schedule::linear(STAGES)?)
    }

    fn go(&self, job: &mut KeptJob<'_>) -> Result<Option<Self::Run>> {
        self.go_with(job, &self.second_pass(), Along::kept)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.second.add_seconds(seconds);
        let warning = failure.map(|reason| Warning::CheckpointNotWritten { reason });
        run.second.warn(warning);
    }
}

impl<P: AnnealingPath, K> Rounds<'_, P, K> {
    /// Returns the same run with checkpoints in `file`; see the module [`checkpoint`](crate::checkpoint). An unfinished
    /// first pass begins anew; a round goes on where it was.
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    fn named(&self) -> Named {
        vec![
            named("seed", &self.seed),
            named("chains", &self.chains),
            named("moves", &self.moves),
            named("block_size", &self.block_size.unwrap_or(BLOCK)),
            named("rounds", &self.rounds),
            named("budget", &self.budget),
            named("log normalizer of the base", &self.log_base_normalizer),
            named("whether the kernel is tuned", &self.tuner.is_some()),
            named("whether the base is refitted", &self.refitting.is_some()),
            named("number of equal parts of the budget", &self.parts()),
        ]
    }
}

impl<'p, P, K> Resumable for Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Serialize + DeserializeOwned + Clone + Send + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    type Run = RoundsRun<P::State, K>;

    const KIND: &'static str = "rounds";

    compared_by_name! {}

    fn fingerprint(&self) -> Result<u32> {
        fingerprint(self.path.clone(), &self.kernel, &Schedule::linear(STAGES)?)
    }

    fn go(&self, job: &mut KeptJob<'_>) -> Result<Option<Self::Run>> {
        let (first, later) = self.first()?;
        self.go_with(&first, &later, Along::kept, job)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.last.run.add_seconds(seconds);
        run.warn(failure.map(|reason| Warning::CheckpointNotWritten { reason }));
    }
}

impl<P: AnnealingPath, K> Challenge<'_, P, K> {
    /// Returns the same challenge with checkpoints in `file`; see the module [`checkpoint`](crate::checkpoint). The search
    /// for other bases begins anew; the second run goes on where it was.
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    fn named(&self) -> Named {
        let (confidence, budget) = self.confidence_and_budget();
        let search = &self.search;
        vec![
            named("seed", &search.seed),
            named("budget", &budget),
            named("confidence", &confidence),
            named("log normalizer of the base", &search.log_base_normalizer),
            named("whether the kernel is tuned", &search.tuner.is_some()),
            named("whether it uses a gradient", &search.gradient.is_some()),
            named("log Z of the first run", &self.first.log_z()),
        ]
    }
}

impl<'p, P, K> Resumable for Challenge<'p, P, K>
where
    P: AnnealingPath<State: Rivals + Serialize + DeserializeOwned> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<RivalAt<P, Base<P>>> + Clone + Send + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    type Run = ChallengeRun<'p, P::State>;

    const KIND: &'static str = "challenge";

    compared_by_name! {}

    fn fingerprint(&self) -> Result<u32> {
        let path = self.search.path_from_old();
        let of_path = fingerprint(path, &self.search.kernel, &Schedule::linear(STAGES)?)?;
        let all = encode("states", &(of_path, &self.search.states))?;
        Ok(checksum(&all))
    }

    fn go(&self, job: &mut KeptJob<'_>) -> Result<Option<Self::Run>> {
        let along: AlongRivals<'_, P, K> = |path, kernel| Along::kept(path, kernel);
        self.go_with(along, job)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.second.seconds += seconds;
        let warning = failure.map(|reason| Warning::CheckpointNotWritten { reason });
        run.second.warnings.extend(warning);
    }
}

#[cfg(feature = "mpi")]
impl<'p, P, K> AdaptiveSmc<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Serialize + DeserializeOwned + Clone + Send + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    /// Runs on all processes of an MPI communicator, which all call this, as [`Ais::run_on`](crate::ais::Ais::run_on).
    /// Rank 0 does the first pass and returns the result, with the bits of [`run`](Self::run); the others return
    /// `None`.
    ///
    /// # Errors
    /// As [`run`](Self::run), and as [`Ais::run_on`](crate::ais::Ais::run_on).
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<AdaptiveSmcRun<P::State, K>>> {
        let agree = |ranks: &mut _| self.agree(ranks, None);
        let later = self.second_pass();
        SharedJob::on(world, &self.execution, agree, |job| {
            self.go_with(job, &later, Along::new)
        })
    }
}

#[cfg(feature = "mpi")]
impl<'p, P, K> Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Serialize + DeserializeOwned + Clone + Send + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    /// Runs on all processes of an MPI communicator, which all call this, as [`Ais::run_on`](crate::ais::Ais::run_on).
    /// Rank 0 does the first pass and returns the result, with the bits of [`run`](Self::run); the others return
    /// `None`.
    ///
    /// # Errors
    /// As [`run`](Self::run), and as [`Ais::run_on`](crate::ais::Ais::run_on).
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<RoundsRun<P::State, K>>> {
        let agree = |ranks: &mut _| self.agree(ranks, None);
        let (first, later) = self.first()?;
        SharedJob::on(world, &self.execution, agree, |job| {
            self.go_with(&first, &later, Along::new, job)
        })
    }
}

#[cfg(feature = "mpi")]
impl<'p, P, K> Challenge<'p, P, K>
where
    P: AnnealingPath<State: Rivals + Serialize + DeserializeOwned> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<RivalAt<P, Base<P>>> + Clone + Send + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    /// Runs on all processes of an MPI communicator, which all call this, as [`Ais::run_on`](crate::ais::Ais::run_on).
    /// Each makes the search for other bases; they share the second run. Rank 0 returns the result, with the bits of
    /// [`run`](Self::run); the others return `None`.
    ///
    /// # Errors
    /// As [`run`](Self::run), and as [`Ais::run_on`](crate::ais::Ais::run_on).
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<ChallengeRun<'p, P::State>>> {
        let agree = |ranks: &mut _| self.agree(ranks, None);
        let along: AlongRivals<'_, P, K> = |path, kernel| Along::new(path, kernel);
        SharedJob::on(world, &self.execution, agree, |job| {
            self.go_with(along, job)
        })
    }
}
