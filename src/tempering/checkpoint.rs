//! Tempered runs that leave checkpoints.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kept::{Kept, ended_blocks};
use super::ladders::Ladders;
use super::round::{Finished, Plan};
use super::rounds::{Archive, EndedBlock, EndedBlocks};
use super::run::TemperingRun;
use super::runner::Tempering;
use super::snapshot::encode_start;
use crate::Result;
use crate::ais::{Share, fingerprint, guarded};
use crate::checkpoint::{Checkpointed, Encoder, Head, Keeper, Pieces, Recipient, read};
use crate::estimate::Warning;
use crate::kernel::{Invariant, Workspace};
use crate::path::AnnealingPath;

/// What the files are of.
const KIND: &str = "tempering";

impl<P: AnnealingPath, K> Tempering<'_, P, K> {
    /// The same run, which leaves checkpoints in a file: see the module [`checkpoint`](crate::checkpoint).
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }
}

impl<'p, P, K> Checkpointed<'_, Tempering<'p, P, K>>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Sync,
    K: Invariant<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    /// Runs as [`Tempering::run`] does, and leaves checkpoints. An older file is replaced at once.
    ///
    /// # Errors
    /// As [`Tempering::run`]; a first checkpoint that cannot be written; states or memories that serde cannot write, or
    /// does not read as they were written.
    pub fn run(&self) -> Result<TemperingRun<P::State>> {
        let fingerprint = self.fingerprint()?;
        self.go_on_alone(fingerprint, None)
    }

    /// Goes on from the last checkpoint. The result has the bits of a run that was never interrupted. There may be more
    /// rounds than before.
    ///
    /// # Errors
    /// As [`Tempering::run`]; a file that cannot be read, is damaged, or is of another run.
    pub fn resume(&self) -> Result<TemperingRun<P::State>> {
        let fingerprint = self.fingerprint()?;
        let kept = self.read(fingerprint, Share::WHOLE)?;
        self.go_on_alone(fingerprint, Some(kept))
    }

    /// [Resumes](Self::resume) if the file is there, and [runs](Self::run) otherwise: for a program that a batch system
    /// starts again.
    ///
    /// # Errors
    /// As both.
    pub fn resume_or_run(&self) -> Result<TemperingRun<P::State>> {
        let fingerprint = self.fingerprint()?;
        let kept = self.read_if_there(fingerprint, Share::WHOLE)?;
        self.go_on_alone(fingerprint, kept)
    }

    /// What the file holds, if there is one.
    pub(super) fn read_if_there(
        &self,
        fingerprint: u32,
        share: Share,
    ) -> Result<Option<Kept<P::State>>> {
        let is_there = self.file.try_exists().unwrap_or(true);
        is_there.then(|| self.read(fingerprint, share)).transpose()
    }

    /// What the file holds, for a process with this share of the blocks.
    pub(super) fn read(&self, fingerprint: u32, share: Share) -> Result<Kept<P::State>> {
        read(&self.file, &self.header(KIND), |payload| {
            guarded(|| Kept::decode(payload, self.run, fingerprint, share))
        })
    }

    pub(super) fn fingerprint(&self) -> Result<u32> {
        self.run.check()?;
        let (path, schedule) = (self.run.path, &self.run.settings.schedule);
        fingerprint(path, &self.run.kernel, schedule)
    }

    fn go_on_alone(
        &self,
        fingerprint: u32,
        kept: Option<Kept<P::State>>,
    ) -> Result<TemperingRun<P::State>> {
        let run = self.go_on(fingerprint, kept, |last, archive, _| {
            self.run
                .rounds_after(last, |samples| samples, Some(archive), None)
        })?;
        Ok(self.run.concluded(run.expect("there is no other process")))
    }

    /// Goes on from what was kept, or anew, and writes checkpoints while `work` does the rounds that are left.
    pub(super) fn go_on(
        &self,
        fingerprint: u32,
        kept: Option<Kept<P::State>>,
        work: impl FnOnce(
            Option<Finished<P::State>>,
            &dyn Archive<'p, P, K::Workspace, P::State>,
            &Keeper<'_>,
        ) -> Result<Option<TemperingRun<P::State>>>,
    ) -> Result<Option<TemperingRun<P::State>>> {
        let is_new = kept.is_none();
        let kept = kept.unwrap_or_default();
        let begun = Instant::now();
        let last = Mutex::new(encode_last(kept.last.as_ref())?);
        let head = || {
            let seconds = kept.seconds + begun.elapsed().as_secs_f64();
            self.head(fingerprint, seconds, &last)
        };
        let keeper = self.keeper(KIND, kept.pieces, &head);
        keeper.open(is_new)?;
        let archive = Checkpoints {
            run: self.run,
            chain_steps: kept.chain_steps,
            last: &last,
            recipient: &keeper,
        };
        let run = work(kept.last, &archive, &keeper);
        let failed = keeper.write_last();
        let mut run = run?;
        if let Some(run) = &mut run {
            run.add_seconds(kept.seconds);
            if let Some(reason) = failed {
                run.warn([Warning::CheckpointNotWritten { reason }]);
            }
        }
        Ok(run)
    }

    /// What a checkpoint says before the pieces, given the last finished round as bytes.
    fn head(&self, fingerprint: u32, seconds: f64, last: &Mutex<Vec<u8>>) -> Result<Head> {
        let mut encoder = Encoder::default();
        encoder.put("settings", &self.run.settings)?;
        encoder.put("fingerprint", &fingerprint)?;
        encoder.put("seconds", &seconds)?;
        let mut bytes = encoder.finish();
        bytes.extend(&*last.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Head {
            bytes,
            finished: (0..self.run.settings.blocks()).collect(),
        })
    }
}

/// The last finished round as bytes, and whether there is one.
fn encode_last<S: Serialize>(last: Option<&Finished<S>>) -> Result<Vec<u8>> {
    guarded(|| {
        let mut encoder = Encoder::default();
        encoder.put("whether a round is finished", &last.is_some())?;
        last.map_or(Ok(()), |last| last.encode(&mut encoder))?;
        Ok(encoder.finish())
    })
}

/// The checkpoints of a tempered run at work.
pub(super) struct Checkpoints<'a, 'p, P: AnnealingPath, K> {
    pub(super) run: &'a Tempering<'p, P, K>,
    /// Of the round that was not finished when this call began.
    pub(super) chain_steps: u64,
    /// The last finished round as bytes.
    pub(super) last: &'a Mutex<Vec<u8>>,
    pub(super) recipient: &'a dyn Recipient,
}

impl<'p, P, K> Archive<'p, P, K::Workspace, P::State> for Checkpoints<'_, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Sync,
    K: Invariant<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    fn chain_steps(&self) -> u64 {
        self.chain_steps
    }

    fn age(&self) -> Option<f64> {
        self.recipient.age()
    }

    fn finished(&self, plan: &Plan<'_>) -> Result<EndedBlocks<P::State, K::Workspace>> {
        ended_blocks(&self.recipient.pieces(), self.run, plan)
    }

    fn begin(&self, block: usize, plan: &Plan<'_>) -> Option<Result<Ladders<'p, P, K::Workspace>>> {
        let piece = self.recipient.begin(block)?;
        let ladders = self.run.settings.ladders_of(block);
        Some(Ladders::decode(&piece, self.run.path, ladders, plan))
    }

    fn passed(&self, block: usize, at: &Ladders<'p, P, K::Workspace>, canceled: bool) {
        if canceled || self.recipient.wants(block) {
            self.recipient.leave(block, guarded(|| at.encode()));
        }
        if !canceled {
            self.recipient.tick();
        }
    }

    fn end(&self, block: usize, ended: Option<&EndedBlock<P::State, K::Workspace>>) {
        if let Some(ended) = ended {
            self.recipient.finish(block, guarded(|| ended.encode()));
        }
        self.recipient.end(block);
    }

    /// The pieces of all blocks are on rank 0, which has the outcome.
    fn turn(&self, last: Option<&Finished<P::State>>, plan: &Plan<'_>) {
        let Some(last) = last else {
            return self.recipient.replace(Ok(Pieces::default()));
        };
        let start = |(block, ended): (usize, EndedBlock<P::State, K::Workspace>)| {
            Ok((block, Arc::new(encode_start(&ended.ends)?)))
        };
        let pieces = guarded(|| {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = encode_last(Some(last))?;
            let ended = ended_blocks(&self.recipient.pieces(), self.run, plan)?;
            Ok(Pieces {
                under_way: ended.into_iter().map(start).collect::<Result<_>>()?,
                ..Pieces::default()
            })
        });
        self.recipient.replace(pieces);
    }
}
