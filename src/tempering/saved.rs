//! Tempered runs with checkpoints, with ladders saved between two scans, and on several processes.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ladders::{Ladder, Ladders};
use super::round::{Codec, RoundTask};
use super::run::TemperingRun;
use super::runner::Tempering;
use crate::ais::identity;
use crate::estimate::Warning;
use crate::kernel::{Invariant, SavedBlock};
use crate::path::AnnealingPath;
use crate::population::Population;
use crate::random::{StreamRng, is_stuck};
use crate::work::ranks::{OnRanks, Ranks};
use crate::work::store::{Checkpointed, Resumable, decode, encode};
use crate::work::{Execution, Format, Identity, Job, named_engine};
use crate::{Error, Result};

/// A saved block of ladders: scans done, chains by beta, streams of the swaps, and statistics of the ladders.
type SavedLadders<S> = (usize, Vec<SavedBlock<S>>, Vec<StreamRng>, Vec<Ladder<S>>);

fn write_ladders<P>(at: &Ladders<P>) -> Result<Vec<u8>>
where
    P: AnnealingPath<State: Serialize>,
{
    let blocks = at.populations.iter().map(|at| at.block().saved());
    let blocks: Vec<_> = blocks.collect();
    encode(
        "block under way",
        &(at.scans, blocks, &at.rngs, &at.ladders),
    )
}

/// Reads ladders that [`write_ladders`] wrote, and refuses other bytes.
fn read_ladders<P, K>(
    task: &RoundTask<'_, '_, P, K>,
    block: usize,
    bytes: &[u8],
) -> Result<Ladders<P>>
where
    P: AnnealingPath<State: Clone + DeserializeOwned>,
    K: Invariant<P::At>,
{
    let saved: SavedLadders<_> = decode("block under way", bytes)?;
    let (scans, blocks, rngs, ladders) = saved;
    let (range, plan) = (task.run.settings.ladders_of(block), &task.plan);
    let expected = format!("less than {}", plan.scans);
    Error::check(scans < plan.scans, "scans", scans, expected)?;
    let betas = plan.placed.schedule.betas();
    Error::check_dimension("populations", blocks.len(), betas.len())?;
    Error::check_dimension("random streams of swaps", rngs.len(), range.len())?;
    Error::check_dimension("ladders", ladders.len(), range.len())?;
    let moving = !rngs.iter().any(is_stuck);
    let expected = "bits that are not all 0";
    Error::check(moving, "random streams of swaps", "zeros", expected)?;
    ladders
        .iter()
        .try_for_each(|ladder| ladder.check(plan, scans))?;
    let population = |(j, (block, &beta)): (usize, (_, &f64))| {
        let population = Population::restored(task.run.path.clone(), beta, &range, block)?;
        Ok(population.at_stage(j))
    };
    let populations = blocks.into_iter().zip(betas).enumerate();
    Ok(Ladders {
        scans,
        populations: populations.map(population).collect::<Result<_>>()?,
        rngs,
        ladders,
    })
}

impl<P: AnnealingPath, K> Tempering<'_, P, K> {
    /// Returns the same run with checkpoints in a file, as described in [`checkpoint`](crate::checkpoint).
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    /// Returns the same run shared with other processes, which must all make the same call; see the module
    /// [`ranks`](crate::ranks). Each process gets the result of [`run`](Self::run), bit for bit. Rank r of n runs the
    /// blocks b of ladders with `b mod n = r`. After each round all ranks wait for the slowest, so give them the same
    /// number of blocks.
    pub fn ranks<'a>(&'a self, ranks: &'a dyn Ranks) -> OnRanks<'a, Self> {
        OnRanks::new(self, ranks)
    }
}

impl<'p, P, K> Resumable for Tempering<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    K: Invariant<P::At> + Sync,
{
    type Run = TemperingRun<P::State>;

    const KIND: &'static str = "tempering";

    fn execution(&self) -> &Execution<'_> {
        &self.execution
    }

    fn identity(&self) -> Result<Identity> {
        self.check()?;
        let (settings, path) = (&self.settings, self.path.clone());
        let mut named = settings.named();
        // Ladders stay at the exact models, without surrogates.
        named.push(named_engine(path.simd_level(), false));
        let identity = identity(path, &self.kernel, &settings.schedule, named)?;
        Ok(identity
            .with_schedule(&settings.schedule)
            .with_length("rounds", settings.rounds))
    }

    fn go(&self, job: &mut Job<'_>) -> Result<Self::Run> {
        let codec = Codec {
            write: write_ladders,
            read: read_ladders,
            output: Format::serde(),
            reached: Format::serde(),
        };
        self.go_with(Some(codec), job)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.add_seconds(seconds);
        run.warn(failure.map(|reason| Warning::CheckpointNotWritten { reason }));
    }
}
