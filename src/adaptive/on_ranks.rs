//! Adaptive runs on several processes, by MPI.

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::challenge::{AlongRivals, Base, Challenge, ChallengeRun, RivalAt, Rivals};
use super::rounds::Rounds;
use super::rounds_run::RoundsRun;
use super::smc::{AdaptiveSmc, AdaptiveSmcRun};
use crate::Result;
use crate::ais::Along;
use crate::kernel::{TransitionKernel, Workspace};
use crate::path::AnnealingPath;
use crate::work::mpi::SharedJob;
use crate::work::store::Resumable;

impl<'p, P, K> AdaptiveSmc<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Sync,
    P::At<'p>: Send + Sync,
    K: TransitionKernel<P::At<'p>> + Serialize + DeserializeOwned + Clone + Send + Sync,
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

impl<'p, P, K> Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Sync,
    P::At<'p>: Send + Sync,
    K: TransitionKernel<P::At<'p>> + Serialize + DeserializeOwned + Clone + Send + Sync,
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

impl<'p, P, K> Challenge<'p, P, K>
where
    P: AnnealingPath<State: Rivals + Serialize + DeserializeOwned> + Sync,
    P::At<'p>: Send + Sync,
    K: TransitionKernel<RivalAt<'p, P, Base<P>>> + Clone + Send + Sync,
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
        let along: AlongRivals<'p, P, K> = |path, kernel| Along::new(path, kernel);
        SharedJob::on(world, &self.execution, agree, |job| {
            self.go_with(along, job)
        })
    }
}
