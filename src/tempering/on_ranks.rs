//! Tempered runs on several processes, by MPI.

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::round::{Outcome, Placed};
use super::rounds::{Company, Keep};
use super::run::TemperingRun;
use super::runner::Tempering;
use super::settings::Settings;
use crate::ais::{Post, Share, Site, Watch, check_engine, check_fingerprint, exchange};
use crate::kernel::Invariant;
use crate::path::AnnealingPath;
use crate::ranks::Ranks;
use crate::{Error, Result};

impl<'p, P, K> Tempering<'p, P, K>
where
    P: AnnealingPath + Sync,
    P::State: Clone + Send,
    K: Invariant<P::At<'p>> + Sync,
{
    /// Runs all ladders on all processes of an MPI communicator, which all call this. Rank 0 has the result, of the
    /// same bits as that of [`run`](Self::run), whatever the number of processes and threads; the others have `None`.
    ///
    /// Rank r of n takes the blocks b of ladders with `b mod n = r` through all rounds. After each round, rank 0
    /// gathers the figures, places the betas anew and tells the others. All wait for the slowest then, so that each
    /// rank should have the same number of blocks. For what is needed of MPI, for budgets, the progress callback and
    /// threads see [`Ais::run_on`](crate::ais::Ais::run_on).
    ///
    /// # Errors
    /// As [`run`](Self::run), and as [`Ais::run_on`](crate::ais::Ais::run_on).
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<TemperingRun<P::State>>>
    where
        P::State: Serialize + DeserializeOwned,
    {
        self.gather(world, |samples| samples)
    }

    /// As [`run_on`](Self::run_on), for states that serde cannot write, or that nobody needs: they stay where they
    /// are, and the result has `()` in their place. All else has the same bits.
    ///
    /// # Errors
    /// As [`run_on`](Self::run_on).
    pub fn run_on_without_states(
        &self,
        world: &dyn Communicator,
    ) -> Result<Option<TemperingRun<()>>> {
        self.gather(world, |samples| vec![(); samples.len()])
    }

    /// Runs all ladders, and brings what is kept of their samples to rank 0.
    fn gather<S: Send + Serialize + DeserializeOwned>(
        &self,
        world: &dyn Communicator,
        keep: Keep<P::State, S>,
    ) -> Result<Option<TemperingRun<S>>> {
        Ranks::together(world, |ranks| {
            self.check()?;
            self.agree(ranks, None)?;
            let post = Post::default();
            self.rounds_after(None, keep, None, Some(&mut OnRanks { ranks, post }))
        })
    }

    /// Sees to it that all ranks have the same settings, and the same fingerprint where they write checkpoints.
    pub(super) fn agree(&self, ranks: &mut Ranks, fingerprint: Option<u32>) -> Result<()> {
        let engine = self.path.engine();
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

/// The ranks of a run.
pub(super) struct OnRanks<'a> {
    pub(super) ranks: &'a mut Ranks,
    pub(super) post: Post<'a>,
}

impl<T: Send + Serialize + DeserializeOwned> Company<T> for OnRanks<'_> {
    fn share(&self) -> Share {
        Share::of(self.ranks)
    }

    fn tell(&mut self, placed: Option<Placed>) -> Result<Option<Placed>> {
        match self.ranks.rank() {
            0 => self.ranks.tell_all(&placed).map(|()| placed),
            _ => Ok(self.ranks.hear()?.1),
        }
    }

    fn exchange(&mut self, site: &Site<'_, Outcome<T>>, watch: Watch<'_>) -> Result<()> {
        exchange(self.ranks, site, watch, self.post)
    }
}
