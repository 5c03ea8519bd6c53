//! Runs that leave checkpoints.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fingerprint::{fingerprint, guarded};
use super::in_progress::InProgress;
use super::kept::Kept;
use super::ledger::{Ledger, Share};
use super::outcome::Outcome;
use super::passage::{Archive, Beside, closed};
use super::recorder::Recorder;
use super::run::Run;
use super::runner::Ais;
use super::tree::Node;
use crate::Result;
use crate::checkpoint::{Checkpointed, Encoder, Head, Keeper, Recipient, read};
use crate::estimate::Warning;
use crate::kernel::{TransitionKernel, Workspace, check_stages};
use crate::path::AnnealingPath;

/// What the files are of.
const KIND: &str = "ais";

impl<P: AnnealingPath, K, R> Ais<'_, P, K, R> {
    /// The same run, which leaves checkpoints in a file: see the module [`checkpoint`](crate::checkpoint).
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }
}

impl<'p, P, K, R> Checkpointed<'_, Ais<'p, P, K, R>>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned + Send> + Sync,
    K: TransitionKernel<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
    R: Recorder<P::At<'p>> + Serialize + DeserializeOwned + Send + Sync,
{
    /// Runs as [`Ais::run`] does, and leaves checkpoints. An older file is replaced at once.
    ///
    /// # Errors
    /// As [`Ais::run`]; a first checkpoint that cannot be written; states, memories or a recorder that serde cannot
    /// write, or does not read as they were written.
    pub fn run(&self) -> Result<Run<P::State, R>> {
        let fingerprint = self.fingerprint()?;
        self.go_on_alone(fingerprint, None)
    }

    /// Goes on from the last checkpoint. The result has the bits of a run that was never interrupted.
    ///
    /// # Errors
    /// As [`Ais::run`]; a file that cannot be read, is damaged, or is of another run.
    pub fn resume(&self) -> Result<Run<P::State, R>> {
        let fingerprint = self.fingerprint()?;
        let kept = self.read(fingerprint, Share::WHOLE)?;
        self.go_on_alone(fingerprint, Some(kept))
    }

    /// [Resumes](Self::resume) if the file is there, and [runs](Self::run) otherwise: for a program that a batch system
    /// starts again.
    ///
    /// # Errors
    /// As both.
    pub fn resume_or_run(&self) -> Result<Run<P::State, R>> {
        let fingerprint = self.fingerprint()?;
        let kept = self.read_if_there(fingerprint, Share::WHOLE)?;
        self.go_on_alone(fingerprint, kept)
    }

    /// What the file holds, if there is one.
    pub(super) fn read_if_there(
        &self,
        fingerprint: u32,
        share: Share,
    ) -> Result<Option<Kept<P::State, R>>> {
        let is_there = self.file.try_exists().unwrap_or(true);
        is_there.then(|| self.read(fingerprint, share)).transpose()
    }

    /// What the file holds, for a process with this share of the blocks.
    pub(super) fn read(&self, fingerprint: u32, share: Share) -> Result<Kept<P::State, R>> {
        read(&self.file, &self.header(KIND), |payload| {
            guarded(|| Kept::decode(payload, self.run, fingerprint, share))
        })
    }

    pub(super) fn fingerprint(&self) -> Result<u32> {
        let Ais { settings, .. } = self.run;
        self.run.check(settings)?;
        check_stages(
            "steps of the schedule",
            self.run.kernel.stages(),
            &settings.schedule,
        )?;
        fingerprint(self.run.path, &self.run.kernel, &settings.schedule)
    }

    fn go_on_alone(
        &self,
        fingerprint: u32,
        kept: Option<Kept<P::State, R>>,
    ) -> Result<Run<P::State, R>> {
        let begun = Instant::now();
        let route = (&self.run.settings, &self.run.forward());
        self.go_on(
            (fingerprint, begun),
            kept,
            Share::WHOLE,
            |ledger, archive, _| {
                let beside = Beside {
                    archive: Some(archive),
                    keep: |states| states,
                    meanwhile: None,
                    meter: None,
                };
                self.run.work(route, ledger, beside, begun)
            },
        )
    }

    /// Goes on from what was kept, or anew, and writes checkpoints while `work` does what the ledger hands out.
    pub(super) fn go_on(
        &self,
        (fingerprint, begun): (u32, Instant),
        kept: Option<Kept<P::State, R>>,
        share: Share,
        work: impl FnOnce(
            &Ledger<Outcome<P::State, R>>,
            &dyn Archive<'p, P, K::Workspace, R>,
            &Keeper<'_>,
        ) -> Result<()>,
    ) -> Result<Run<P::State, R>> {
        let (run, settings) = (self.run, &self.run.settings);
        let is_new = kept.is_none();
        let kept = kept.unwrap_or_default();
        let blocks = 0..settings.blocks();
        let ledger = Ledger::resumed(blocks, kept.nodes, settings.is_unfilled()).shared(share);
        let title = Title {
            run,
            fingerprint,
            seconds: kept.seconds,
            begun,
            ledger: &ledger,
        };
        let head = || guarded(|| title.head());
        let keeper = self.keeper(KIND, kept.pieces, &head);
        keeper.open(is_new)?;
        let archive = Checkpoints {
            run,
            chain_steps: kept.chain_steps,
            recipient: &keeper,
        };
        let worked = work(&ledger, &archive, &keeper);
        let failed = keeper.write_last();
        worked?;
        let mut run = self
            .run
            .concluded(closed(settings, ledger, begun)?.probed(self.run.probe()))?;
        run.add_seconds(kept.seconds);
        if let Some(reason) = failed {
            run.warn([Warning::CheckpointNotWritten { reason }]);
        }
        Ok(run)
    }
}

/// What a checkpoint says but for chains: these are encoded as their blocks end.
struct Title<'a, 'p, P: AnnealingPath, K, R> {
    run: &'a Ais<'p, P, K, R>,
    fingerprint: u32,
    /// Wall time of earlier calls.
    seconds: f64,
    begun: Instant,
    ledger: &'a Ledger<Outcome<P::State, R>>,
}

impl<'p, P, K, R> Title<'_, 'p, P, K, R>
where
    P: AnnealingPath,
    R: Recorder<P::At<'p>> + Serialize,
{
    fn head(&self) -> Result<Head> {
        let mut encoder = Encoder::default();
        encoder.put("settings", &self.run.settings)?;
        encoder.put("fingerprint", &self.fingerprint)?;
        let seconds = self.seconds + self.begun.elapsed().as_secs_f64();
        encoder.put("seconds", &seconds)?;
        let tally = |node: &Node<Outcome<P::State, R>>| node.map_ref(|value| value.tally.clone());
        let tallies = self.ledger.look_at_all(tally);
        self.ledger.check_whole()?;
        encoder.put("number of nodes", &tallies.len())?;
        for node in &tallies {
            encoder.put("node", &node.map_ref(|_| ()))?;
            node.value.encode(&mut encoder)?;
        }
        // Of a recorder that cannot be written the first checkpoint is to tell.
        encoder.put("recorder", &self.run.recorder)?;
        Ok(Head {
            bytes: encoder.finish(),
            finished: tallies.iter().flat_map(Node::blocks).collect(),
        })
    }
}

/// The checkpoints of a run at work.
pub(super) struct Checkpoints<'a, 'p, P: AnnealingPath, K, R> {
    pub(super) run: &'a Ais<'p, P, K, R>,
    /// Of the blocks of this process that were under way when this call began.
    pub(super) chain_steps: u64,
    pub(super) recipient: &'a dyn Recipient,
}

impl<'p, P, K, R> Archive<'p, P, K::Workspace, R> for Checkpoints<'_, 'p, P, K, R>
where
    P: AnnealingPath<State: Serialize + DeserializeOwned + Send> + Sync,
    K: TransitionKernel<P::At<'p>> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
    R: Recorder<P::At<'p>> + Serialize + DeserializeOwned + Send + Sync,
{
    fn chain_steps(&self) -> u64 {
        self.chain_steps
    }

    fn age(&self) -> Option<f64> {
        self.recipient.age()
    }

    fn begin(&self, block: usize) -> Option<Result<InProgress<'p, P, K::Workspace, R>>> {
        let piece = self.recipient.begin(block)?;
        Some(self.run.decode(&piece, block))
    }

    fn passed(&self, block: usize, at: &InProgress<'p, P, K::Workspace, R>, canceled: bool) {
        if canceled || self.recipient.wants(block) {
            self.recipient.leave(block, guarded(|| at.encode()));
        }
        if !canceled {
            self.recipient.tick();
        }
    }

    fn end(&self, block: usize, outcome: Option<&Outcome<P::State, R>>) {
        if let Some(outcome) = outcome {
            let piece = guarded(|| outcome.chains.encode());
            self.recipient.finish(block, piece);
        }
        self.recipient.end(block);
    }
}
