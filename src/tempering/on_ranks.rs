//! Tempered runs on several processes, by MPI.

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::round::Keep;
use super::run::TemperingRun;
use super::runner::Settings;
use super::runner::Tempering;
use crate::kernel::{Invariant, Workspace};
use crate::path::AnnealingPath;
use crate::work::mpi::{Ranks, SharedJob, check_engine, check_fingerprint};
use crate::{Error, Result};

impl<'p, P, K> Tempering<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Sync,
    K: Invariant<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    /// Runs all ladders on all processes of an MPI communicator, which all call this. Rank 0 gets the result; the
    /// others get `None`. It has the same bits as [`run`](Self::run), for any number of processes and threads. Rank r
    /// of n runs the blocks b of ladders with `b mod n = r`. All wait for the slowest after each round, so give all
    /// ranks the same number of blocks. MPI, limits, callbacks and threads work as in
    /// [`Ais::run_on`](crate::ais::Ais::run_on).
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) and of [`Ais::run_on`](crate::ais::Ais::run_on).
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<TemperingRun<P::State>>> {
        let run = self.shared(world, |samples| samples)?;
        Ok(run.map(|run| self.concluded(run)))
    }

    /// Runs all ladders as [`run_on`](Self::run_on), but with `()` in place of the samples.
    ///
    /// # Errors
    /// The errors of [`run_on`](Self::run_on).
    pub fn run_on_without_states(
        &self,
        world: &dyn Communicator,
    ) -> Result<Option<TemperingRun<()>>> {
        self.shared(world, |samples| vec![(); samples.len()])
    }

    /// Runs all ladders, and sends their kept samples to rank 0.
    fn shared<T: Send + Serialize + DeserializeOwned>(
        &self,
        world: &dyn Communicator,
        keep: Keep<P::State, T>,
    ) -> Result<Option<TemperingRun<T>>> {
        let agree = |ranks: &mut Ranks| {
            self.check()?;
            self.agree_on(ranks, None)
        };
        SharedJob::on(world, &self.execution, agree, |job| self.go_with(job, keep))
    }
}

impl<P: AnnealingPath, K> Tempering<'_, P, K> {
    /// Checks that all ranks have the same settings, engine and fingerprint.
    pub(super) fn agree_on(&self, ranks: &mut Ranks, fingerprint: Option<u32>) -> Result<()> {
        let engine = self.path.simd_level();
        if ranks.rank() == 0 {
            return ranks.tell_all(&(&self.settings, engine, fingerprint));
        }
        let (_, first): (_, (Settings, _, _)) = ranks.hear()?;
        let (first, engine_of_first, fingerprint_of_first) = first;
        check_engine(engine, engine_of_first)?;
        Error::check_found("rounds", &self.settings.rounds, &first.rounds)?;
        first.check_found(&self.settings)?;
        check_fingerprint(fingerprint, fingerprint_of_first)
    }
}
