//! Tempered runs that leave checkpoints.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kept::{Kept, outcomes};
use super::ladders::Ladders;
use super::round::{Finished, Plan, Starts};
use super::rounds::{Archive, RoundOutcome};
use super::run::TemperingRun;
use super::runner::Tempering;
use super::snapshot::encode_start;
use crate::Result;
use crate::ais::{Forest, fingerprint, guarded};
use crate::checkpoint::{Checkpointed, Encoder, Head, Keeper, Pieces, read};
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
        self.go_on(fingerprint, None)
    }

    /// Goes on from the last checkpoint. The result has the bits of a run that was never interrupted. There may be more
    /// rounds than before.
    ///
    /// # Errors
    /// As [`Tempering::run`]; a file that cannot be read, is damaged, or is of another run.
    pub fn resume(&self) -> Result<TemperingRun<P::State>> {
        let fingerprint = self.fingerprint()?;
        let kept = read(&self.file, &self.header(KIND), |payload| {
            guarded(|| Kept::decode(payload, self.run, fingerprint))
        })?;
        self.go_on(fingerprint, Some(kept))
    }

    fn fingerprint(&self) -> Result<u32> {
        self.run.check()?;
        let (path, schedule) = (self.run.path, &self.run.settings.schedule);
        fingerprint(path, &self.run.kernel, schedule)
    }

    fn go_on(
        &self,
        fingerprint: u32,
        kept: Option<Kept<P::State>>,
    ) -> Result<TemperingRun<P::State>> {
        let is_new = kept.is_none();
        let kept = kept.unwrap_or_default();
        let mut checkpoints = Checkpoints {
            run: self.run,
            fingerprint,
            seconds: kept.seconds,
            begun: Instant::now(),
            chain_steps: kept.chain_steps,
            last: encode_last(kept.last.as_ref())?,
            keeper: self.keeper(KIND, kept.pieces),
        };
        if is_new {
            checkpoints.write();
            checkpoints.keeper.failed().map_or(Ok(()), Err)?;
        }
        let run = self.run.rounds_after(kept.last, Some(&mut checkpoints));
        if checkpoints.keeper.has_worked() {
            checkpoints.write();
        }
        let mut run = run?;
        run.add_seconds(kept.seconds);
        if let Some(error) = checkpoints.keeper.failed() {
            let reason = error.to_string();
            run.warn(Warning::CheckpointNotWritten { reason });
        }
        Ok(run)
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
struct Checkpoints<'a, 'p, P: AnnealingPath, K> {
    run: &'a Tempering<'p, P, K>,
    fingerprint: u32,
    /// Wall time of earlier calls.
    seconds: f64,
    begun: Instant,
    /// Of the round that was not finished when this call began.
    chain_steps: u64,
    /// The last finished round as bytes.
    last: Vec<u8>,
    keeper: Keeper<'a>,
}

impl<'p, P, K> Checkpoints<'_, 'p, P, K>
where
    P: AnnealingPath + Sync,
    K: Sync,
{
    fn head(&self) -> Result<Head> {
        let mut encoder = Encoder::default();
        encoder.put("settings", &self.run.settings)?;
        encoder.put("fingerprint", &self.fingerprint)?;
        let seconds = self.seconds + self.begun.elapsed().as_secs_f64();
        encoder.put("seconds", &seconds)?;
        let mut bytes = encoder.finish();
        bytes.extend(&self.last);
        Ok(Head {
            bytes,
            finished: (0..self.run.settings.blocks()).collect(),
        })
    }

    fn write(&self) {
        self.keeper.write(&|| self.head());
    }
}

impl<'p, P, K> Archive<'p, P, K::Workspace> for Checkpoints<'_, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Sync,
    K: Invariant<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    fn chain_steps(&self) -> u64 {
        self.chain_steps
    }

    fn finished(&self, plan: &Plan<'_>) -> Result<Forest<RoundOutcome<P::State, K::Workspace>>> {
        outcomes(&self.keeper.pieces(), self.run, plan)
    }

    fn begin(&self, block: usize, plan: &Plan<'_>) -> Option<Result<Ladders<'p, P, K::Workspace>>> {
        let piece = self.keeper.begin(block)?;
        let ladders = self.run.settings.ladders_of(block);
        Some(Ladders::decode(&piece, self.run.path, ladders, plan))
    }

    fn passed(&self, block: usize, at: &Ladders<'p, P, K::Workspace>, canceled: bool) {
        let piece = || guarded(|| at.encode());
        match canceled {
            true => self.keeper.leave(block, piece),
            false => self.keeper.passed(block, piece, &|| self.head()),
        }
    }

    fn end(&self, block: usize, outcome: Option<&RoundOutcome<P::State, K::Workspace>>) {
        if let Some(outcome) = outcome {
            self.keeper.finish(block, || guarded(|| outcome.encode()));
        }
        self.keeper.end(block);
    }

    fn turn(
        &mut self,
        last: &Finished<P::State>,
        starts: &[Starts<P::State, <K::Workspace as Workspace>::Memory>],
    ) {
        let start = |(block, starts)| Ok((block, Arc::new(encode_start(starts)?)));
        let pieces = guarded(|| {
            self.last = encode_last(Some(last))?;
            let under_way = starts.iter().enumerate().map(start);
            Ok(Pieces {
                under_way: under_way.collect::<Result<_>>()?,
                ..Pieces::default()
            })
        });
        self.keeper.replace(pieces);
    }
}
