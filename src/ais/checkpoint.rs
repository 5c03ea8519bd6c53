//! Runs that leave checkpoints.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fingerprint::{fingerprint, guarded};
use super::in_progress::InProgress;
use super::kept::Kept;
use super::ledger::Ledger;
use super::outcome::Outcome;
use super::passage::{Archive, Beside, closed};
use super::recorder::Recorder;
use super::run::Run;
use super::runner::Ais;
use super::tree::Node;
use crate::Result;
use crate::checkpoint::{Checkpointed, Encoder, Head, Keeper, read};
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
        self.go_on(fingerprint, None)
    }

    /// Goes on from the last checkpoint. The result has the bits of a run that was never interrupted.
    ///
    /// # Errors
    /// As [`Ais::run`]; a file that cannot be read, is damaged, or is of another run.
    pub fn resume(&self) -> Result<Run<P::State, R>> {
        let fingerprint = self.fingerprint()?;
        let kept = read(&self.file, &self.header(KIND), |payload| {
            guarded(|| Kept::decode(payload, self.run, fingerprint))
        })?;
        self.go_on(fingerprint, Some(kept))
    }

    fn fingerprint(&self) -> Result<u32> {
        let Ais { settings, .. } = self.run;
        self.run.check(settings)?;
        check_stages(
            "steps of the schedule",
            self.run.kernel.stages(),
            &settings.schedule,
        )?;
        fingerprint(self.run.path, &self.run.kernel, &settings.schedule)
    }

    fn go_on(&self, fingerprint: u32, kept: Option<Kept<P::State, R>>) -> Result<Run<P::State, R>> {
        let (run, settings) = (self.run, &self.run.settings);
        let is_new = kept.is_none();
        let kept = kept.unwrap_or_default();
        let blocks = 0..settings.blocks();
        let ledger = Ledger::resumed(blocks.clone(), kept.nodes, settings.is_unfilled());
        let begun = Instant::now();
        let checkpoints = Checkpoints {
            run,
            fingerprint,
            seconds: kept.seconds,
            begun,
            chain_steps: kept.chain_steps,
            ledger: &ledger,
            keeper: self.keeper(KIND, kept.pieces),
        };
        if is_new {
            checkpoints.write();
            checkpoints.keeper.failed().map_or(Ok(()), Err)?;
        }
        let route = run.forward();
        let beside = Beside {
            archive: Some(&checkpoints),
            keep: |states| states,
            meanwhile: None,
            meter: None,
        };
        let worked = run.work((settings, &route), &ledger, beside, begun);
        if checkpoints.keeper.has_worked() {
            checkpoints.write();
        }
        let failed = checkpoints.keeper.failed();
        worked?;
        let mut run = closed(settings, ledger, begun)?.result()?;
        run.add_seconds(kept.seconds);
        if let Some(error) = failed {
            let reason = error.to_string();
            run.warn(Warning::CheckpointNotWritten { reason });
        }
        Ok(run)
    }
}

/// The checkpoints of a run at work.
struct Checkpoints<'a, 'p, P: AnnealingPath, K, R> {
    run: &'a Ais<'p, P, K, R>,
    fingerprint: u32,
    /// Wall time of earlier calls.
    seconds: f64,
    begun: Instant,
    /// Of the blocks that were under way when this call began.
    chain_steps: u64,
    ledger: &'a Ledger<Outcome<P::State, R>>,
    keeper: Keeper<'a>,
}

impl<'p, P, K, R> Checkpoints<'_, 'p, P, K, R>
where
    P: AnnealingPath<State: Serialize>,
    R: Recorder<P::At<'p>> + Serialize,
{
    /// What a checkpoint says but for chains: these are encoded as their blocks end.
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

    fn write(&self) {
        self.keeper.write(&|| guarded(|| self.head()));
    }
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

    fn begin(&self, block: usize) -> Option<Result<InProgress<'p, P, K::Workspace, R>>> {
        let piece = self.keeper.begin(block)?;
        Some(self.run.decode(&piece, block))
    }

    fn passed(&self, block: usize, at: &InProgress<'p, P, K::Workspace, R>, canceled: bool) {
        let piece = || guarded(|| at.encode());
        match canceled {
            true => self.keeper.leave(block, piece),
            false => self
                .keeper
                .passed(block, piece, &|| guarded(|| self.head())),
        }
    }

    fn end(&self, block: usize, outcome: Option<&Outcome<P::State, R>>) {
        if let Some(outcome) = outcome {
            self.keeper
                .finish(block, || guarded(|| outcome.chains.encode()));
        }
        self.keeper.end(block);
    }
}
