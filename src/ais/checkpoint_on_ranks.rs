//! Runs on several processes that leave checkpoints.

use std::ops::Range;
use std::time::Instant;

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::checkpoint::Checkpoints;
use super::exchange::{Post, exchange};
use super::kept::Kept;
use super::ledger::{Ledger, Share};
use super::passage::Beside;
use super::recorder::Recorder;
use super::run::Run;
use super::runner::Ais;
use super::tree::{Forest, Node};
use crate::Result;
use crate::checkpoint::{Checkpointed, Courier, Parcel, Pieces, parcel, unpacked};
use crate::kernel::{TransitionKernel, Workspace};
use crate::path::AnnealingPath;
use crate::ranks::Ranks;

/// What rank 0 tells another one: the finished blocks of all ranks, and what those of its share have reached.
type KeptOfRank = (Vec<Range<usize>>, Parcel);

impl<'p, P, K, R> Checkpointed<'_, Ais<'p, P, K, R>>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned + Send> + Sync,
    K: TransitionKernel<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
    R: Recorder<P::At<'p>> + Serialize + DeserializeOwned + Send + Sync,
{
    /// Runs as [`Ais::run_on`] does. Rank 0 leaves checkpoints of all ranks, as [`run`](Self::run) does: any
    /// number of ranks may go on from them, and so may [`resume`](Self::resume).
    ///
    /// File, interval and label are those of rank 0; the others write nothing. When the interval is over they send
    /// rank 0 what their blocks at work have reached.
    ///
    /// # Errors
    /// As [`run`](Self::run) and [`Ais::run_on`]; a path, kernel or machine that does something else than that of rank
    /// 0 does, as far as a fingerprint shows.
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<Run<P::State, R>>> {
        self.gather(world, |_, _| Ok(None))
    }

    /// Goes on from the last checkpoint, whatever number of processes has written it. Rank 0 alone reads the file, and
    /// has the result, which has the bits of a run that was never interrupted.
    ///
    /// # Errors
    /// As [`resume`](Self::resume) and [`run_on`](Self::run_on).
    pub fn resume_on(&self, world: &dyn Communicator) -> Result<Option<Run<P::State, R>>> {
        self.gather(world, |fingerprint, share| {
            self.read(fingerprint, share).map(Some)
        })
    }

    /// As [`resume_or_run`](Self::resume_or_run): rank 0 alone looks for the file.
    ///
    /// # Errors
    /// As [`resume_on`](Self::resume_on).
    pub fn resume_or_run_on(&self, world: &dyn Communicator) -> Result<Option<Run<P::State, R>>> {
        self.gather(world, |fingerprint, share| {
            self.read_if_there(fingerprint, share)
        })
    }

    /// Runs what is not kept. Rank 0 alone knows what is.
    fn gather(
        &self,
        world: &dyn Communicator,
        kept: impl FnOnce(u32, Share) -> Result<Option<Kept<P::State, R>>>,
    ) -> Result<Option<Run<P::State, R>>> {
        Ranks::together(world, |ranks| {
            let fingerprint = self.fingerprint()?;
            self.run.settings.agree(ranks, Some(fingerprint), None)?;
            let (begun, share) = (Instant::now(), Share::of(ranks));
            if share.rank > 0 {
                return self.follow(ranks, begun).map(|()| None);
            }
            let kept = kept(fingerprint, share)?;
            for rank in 1..share.size {
                let share = Share { rank, ..share };
                ranks.tell(rank, &kept.as_ref().map(|kept| kept.of(share)))?;
            }
            let route = (&self.run.settings, &self.run.forward());
            let run = self.go_on(
                (fingerprint, begun),
                kept,
                share,
                |ledger, archive, keeper| {
                    let keeper = Some(keeper);
                    let post = Post {
                        keeper,
                        ..Post::default()
                    };
                    let beside = Beside {
                        archive: Some(archive),
                        keep: |states| states,
                        meanwhile: Some(&mut |site, watch| exchange(ranks, site, watch, post)),
                        meter: None,
                    };
                    self.run.work(route, ledger, beside, begun)
                },
            );
            run.map(Some)
        })
    }

    /// Does the share of another rank than rank 0.
    fn follow(&self, ranks: &mut Ranks, begun: Instant) -> Result<()> {
        let (run, settings) = (self.run, &self.run.settings);
        let (_, kept): (_, Option<KeptOfRank>) = ranks.hear()?;
        let (finished, under_way) = kept.unwrap_or_default();
        let ledger = Ledger::resumed(0..settings.blocks(), Forest::new(), settings.is_unfilled());
        let ledger = ledger.shared(Share::of(ranks)).without(finished);
        let courier = Courier::new(Pieces {
            under_way: unpacked(under_way),
            ..Pieces::default()
        });
        let archive = Checkpoints {
            run,
            chain_steps: 0,
            recipient: &courier,
        };
        let courier = Some(&courier);
        let post = Post {
            courier,
            ..Post::default()
        };
        let beside = Beside {
            archive: Some(&archive),
            keep: |states| states,
            meanwhile: Some(&mut |site, watch| exchange(ranks, site, watch, post)),
            meter: None,
        };
        run.work((settings, &run.forward()), &ledger, beside, begun)
    }
}

impl<S, R> Kept<S, R> {
    fn of(&self, share: Share) -> KeptOfRank {
        let finished = self.nodes.iter().map(Node::blocks).collect();
        (
            finished,
            parcel(&self.pieces.under_way, |block| share.has(block)),
        )
    }
}
