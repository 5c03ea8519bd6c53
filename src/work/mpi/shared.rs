//! Work that several processes share.

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Courier, Ranks};
use crate::num::SimdLevel;
use crate::work::execution::Execution;
use crate::work::job::{Carries, Counts, Job, Runs, Site};
use crate::work::ledger::{Closed, Ledger};
use crate::work::others::Others;
use crate::work::store::{
    Checkpointed, Destination, From, KeptJob, Resumable, Saved, check_same, decode, encode,
};
use crate::work::task::{Erased, Task};
use crate::work::tree::Forest;
use crate::{Error, Result};

/// The work of several processes, without checkpoints.
pub(crate) struct SharedJob<'e> {
    job: Job<'e>,
    ranks: &'e mut Ranks,
}

impl<'e> SharedJob<'e> {
    /// Runs the work on all processes, once they agree on it. Rank 0 has the result.
    pub(crate) fn on<R>(
        world: &dyn Communicator,
        by: &Execution<'_>,
        agree: impl FnOnce(&mut Ranks) -> Result<()>,
        go: impl FnOnce(&mut SharedJob<'_>) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        Ranks::together(world, |ranks| {
            agree(ranks)?;
            let job = Job::led(by, ranks.rank() == 0)?;
            go(&mut SharedJob { job, ranks })
        })
    }
}

impl<T> Runs<T> for SharedJob<'_>
where
    T: Task<Output: Serialize + DeserializeOwned>,
{
    fn run(&mut self, task: &T) -> Result<Option<Closed<T::Output>>> {
        let Self { job, ranks } = self;
        let share = ranks.share();
        let ledger = Ledger::resumed(task.blocks(), Forest::new(), task.last_is_unfilled());
        let ledger = ledger.shared(share);
        let exchange = &mut |site: &Site<'_, T::Output>| ranks.exchange(site, None);
        job.work(&Erased::new(task), &ledger, None, Some(exchange))?;
        let closed = ledger.close()?;
        Ok((share.rank == 0).then_some(closed))
    }
}

impl<C: Serialize + DeserializeOwned> Carries<C> for SharedJob<'_> {
    fn carried(&mut self, _: &dyn Fn(&C) -> Result<()>) -> Result<Option<C>> {
        Ok(None)
    }

    fn carry(&mut self, reached: Option<C>) -> Result<C> {
        let known = reached.map(|reached| encode("carried value", &reached));
        decode("carried value", &self.ranks.inform(known.transpose()?)?)
    }
}

impl Counts for SharedJob<'_> {
    fn alone(&self) -> &Job<'_> {
        &self.job
    }
}

impl<A: Resumable> Checkpointed<'_, A> {
    /// Runs on all processes of an MPI communicator. Rank 0 writes one file for all, by its own interval and label.
    /// Any number of ranks, or [`resume`](Self::resume), can go on from it.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) and [`Ais::run_on`](crate::ais::Ais::run_on); a fingerprint that differs from
    /// rank 0's.
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<A::Run>> {
        self.together(world, From::Nothing)
    }

    /// Resumes from the last checkpoint, by any number of processes. Only rank 0 reads the file and has the result,
    /// with the bits of an uninterrupted run.
    ///
    /// # Errors
    /// The errors of [`resume`](Self::resume) and [`run_on`](Self::run_on).
    pub fn resume_on(&self, world: &dyn Communicator) -> Result<Option<A::Run>> {
        self.together(world, From::File)
    }

    /// Resumes if rank 0 finds a checkpoint, and otherwise runs from the beginning, as
    /// [`resume_or_run`](Self::resume_or_run).
    ///
    /// # Errors
    /// The errors of [`resume_on`](Self::resume_on).
    pub fn resume_or_run_on(&self, world: &dyn Communicator) -> Result<Option<A::Run>> {
        self.together(world, From::FileIfThere)
    }

    fn together(&self, world: &dyn Communicator, from: From) -> Result<Option<A::Run>> {
        Ranks::together(world, |ranks| {
            let fingerprint = self.run.fingerprint()?;
            self.run.agree(ranks, Some(fingerprint))?;
            if ranks.rank() == 0 {
                let found = self.found(from, fingerprint)?;
                return self.go(fingerprint, found, Some(ranks));
            }
            self.run.go(&mut KeptJob {
                job: Job::led(self.run.execution(), false)?,
                destination: Destination::Courier(Courier::default()),
                saved: Saved::default(),
                usable: usize::MAX,
                others: Some(ranks),
            })
        })
    }
}

pub(crate) fn check_engine(mine: Option<SimdLevel>, first: Option<SimdLevel>) -> Result<()> {
    let expected = format!(
        "{first:?}, as on rank 0: engines round differently; set one that all machines have"
    );
    Error::check(mine == first, "engine", format!("{mine:?}"), expected)
}

pub(crate) fn check_fingerprint(mine: Option<u32>, first: Option<u32>) -> Result<()> {
    match (mine, first) {
        (Some(mine), Some(first)) => check_same(first, mine),
        _ => Error::check(
            mine.is_none() && first.is_none(),
            "checkpoint",
            "one on some ranks",
            "one on all ranks, or none",
        ),
    }
}
