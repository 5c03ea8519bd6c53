//! Tempered runs on several processes that leave checkpoints.

use std::sync::Mutex;

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::checkpoint::Checkpoints;
use super::kept::Kept;
use super::on_ranks::OnRanks;
use super::run::TemperingRun;
use super::runner::Tempering;
use crate::Result;
use crate::ais::{Post, Share};
use crate::checkpoint::{Checkpointed, Courier, Parcel, Pieces, parcel, unpacked};
use crate::kernel::{Invariant, Workspace};
use crate::path::AnnealingPath;
use crate::ranks::Ranks;

/// What rank 0 tells another one of the blocks of its share: those that are finished in this round, and what the others
/// have reached.
type KeptOfRank = (Parcel, Parcel);

impl<'p, P, K> Checkpointed<'_, Tempering<'p, P, K>>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Sync,
    K: Invariant<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    /// Runs as [`Tempering::run_on`] does. Rank 0 leaves checkpoints of all ranks, as [`run`](Self::run) does: any
    /// number of ranks may go on from them, and so may [`resume`](Self::resume).
    ///
    /// File, interval and label are those of rank 0; the others write nothing. When the interval is over they send
    /// rank 0 what their blocks at work have reached, and at the end of each round where its blocks stand.
    ///
    /// # Errors
    /// As [`run`](Self::run) and [`Tempering::run_on`]; a path, kernel or machine that does something else than that of
    /// rank 0 does, as far as a fingerprint shows.
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<TemperingRun<P::State>>> {
        self.gather(world, |_, _| Ok(None))
    }

    /// Goes on from the last checkpoint, whatever number of processes has written it. Rank 0 alone reads the file, and
    /// has the result, which has the bits of a run that was never interrupted.
    ///
    /// # Errors
    /// As [`resume`](Self::resume) and [`run_on`](Self::run_on).
    pub fn resume_on(&self, world: &dyn Communicator) -> Result<Option<TemperingRun<P::State>>> {
        self.gather(world, |fingerprint, share| {
            self.read(fingerprint, share).map(Some)
        })
    }

    /// As [`resume_or_run`](Self::resume_or_run): rank 0 alone looks for the file.
    ///
    /// # Errors
    /// As [`resume_on`](Self::resume_on).
    pub fn resume_or_run_on(
        &self,
        world: &dyn Communicator,
    ) -> Result<Option<TemperingRun<P::State>>> {
        self.gather(world, |fingerprint, share| {
            self.read_if_there(fingerprint, share)
        })
    }

    /// Runs what is not kept. Rank 0 alone knows what is.
    fn gather(
        &self,
        world: &dyn Communicator,
        kept: impl FnOnce(u32, Share) -> Result<Option<Kept<P::State>>>,
    ) -> Result<Option<TemperingRun<P::State>>> {
        Ranks::together(world, |ranks| {
            let fingerprint = self.fingerprint()?;
            self.run.agree(ranks, Some(fingerprint))?;
            let share = Share::of(ranks);
            if share.rank > 0 {
                return self.follow(ranks);
            }
            let kept = kept(fingerprint, share)?;
            for rank in 1..share.size {
                let share = Share { rank, ..share };
                ranks.tell(rank, &kept.as_ref().map(|kept| kept.of(share)))?;
            }
            self.go_on(fingerprint, kept, |last, archive, keeper| {
                let keeper = Some(keeper);
                let post = Post {
                    keeper,
                    ..Post::default()
                };
                let company = &mut OnRanks { ranks, post };
                self.run
                    .rounds_after(last, |samples| samples, Some(archive), Some(company))
            })
        })
    }

    /// Does the share of another rank than rank 0.
    fn follow(&self, ranks: &mut Ranks) -> Result<Option<TemperingRun<P::State>>> {
        let (_, kept): (_, Option<KeptOfRank>) = ranks.hear()?;
        let (finished, under_way) = kept.unwrap_or_default();
        let courier = Courier::new(Pieces {
            finished: unpacked(finished),
            under_way: unpacked(under_way),
        });
        let archive = Checkpoints {
            run: self.run,
            chain_steps: 0,
            last: &Mutex::default(),
            recipient: &courier,
        };
        let courier = Some(&courier);
        let post = Post {
            courier,
            ..Post::default()
        };
        let company = &mut OnRanks { ranks, post };
        self.run
            .rounds_after(None, |samples| samples, Some(&archive), Some(company))
    }
}

impl<S> Kept<S> {
    fn of(&self, share: Share) -> KeptOfRank {
        let Pieces {
            finished,
            under_way,
        } = &self.pieces;
        let chosen = |pieces| parcel(pieces, |block| share.has(block));
        (chosen(finished), chosen(under_way))
    }
}
