//! Tempered runs on several processes, by MPI.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::round::{Finished, Outcome};
use super::rounds::{Beside, Ends, Placed, RoundOutcome};
use super::run::TemperingRun;
use super::runner::Tempering;
use super::settings::Settings;
use crate::Result;
use crate::ais::{Ledger, Meter, Share, check_engine, exchange};
use crate::checkpoint::check_found;
use crate::kernel::Invariant;
use crate::path::AnnealingPath;
use crate::ranks::Ranks;

/// What is kept of the samples of a ladder.
type Keep<S, T> = fn(Vec<S>) -> Vec<T>;

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
            self.agree(ranks)?;
            let begun = Instant::now();
            let (settings, share) = (&self.settings, Share::of(ranks));
            let total = settings.chain_steps(settings.scans_of_all_rounds());
            let callback = self.conduct.progress.as_deref().filter(|_| share.rank == 0);
            let meter = Meter::new(callback, 0, total);
            let starts: Ends<_, K::Workspace> =
                (0..settings.blocks()).map(|_| Mutex::default()).collect();
            let kept = |block: usize, outcome: RoundOutcome<P::State, K::Workspace>| {
                let ends = outcome.ends.into_iter().next();
                *starts[block].lock().unwrap_or_else(PoisonError::into_inner) = ends;
                let ladders = outcome.ladders.into_iter();
                Outcome::<S, ()> {
                    ladders: ladders.map(|ladder| ladder.with_samples(keep)).collect(),
                    decisions: outcome.decisions,
                    ends: Vec::new(),
                }
            };
            let (mut round, mut last, mut stopped_by) = (0, None::<Finished<S>>, None);
            loop {
                stopped_by = stopped_by.or_else(|| self.ended_by(last.as_ref()));
                let goes_on = stopped_by.is_none();
                let placed = goes_on.then(|| self.placed_by(last.as_ref()));
                let Some(placed) = told(ranks, placed)? else {
                    break;
                };
                round += 1;
                let plan = self.plan(round, &placed);
                let ledger = Ledger::new(0..starts.len()).shared(share);
                let beside = Beside {
                    archive: None,
                    keep: &kept,
                    meanwhile: Some(&mut |site, watch| exchange(ranks, site, watch)),
                };
                match self.round(&plan, ledger, &starts, (&meter, begun), beside)? {
                    Ok(outcome) => last = outcome.map(|outcome| Finished::of(plan, outcome).0),
                    Err(by) => stopped_by = Some(by),
                }
            }
            // It is there on rank 0, which has ended the rounds.
            stopped_by
                .map(|by| self.result(last, by, begun))
                .transpose()
        })
    }

    /// Sees to it that all ranks have the same settings.
    fn agree(&self, ranks: &mut Ranks) -> Result<()> {
        let engine = self.path.engine();
        if ranks.rank() == 0 {
            return ranks.tell_all(&(&self.settings, engine));
        }
        let (_, (first, engine_of_first)): (_, (Settings, _)) = ranks.hear()?;
        check_engine(engine, engine_of_first)?;
        check_found("rounds", &self.settings.rounds, &first.rounds)?;
        first.check_found(&self.settings)
    }
}

/// What rank 0 has placed, or that there is no further round.
fn told(ranks: &mut Ranks, placed: Option<Placed>) -> Result<Option<Placed>> {
    match ranks.rank() {
        0 => ranks.tell_all(&placed).map(|()| placed),
        _ => Ok(ranks.hear()?.1),
    }
}
