//! Tempered runs with checkpoints, with ladders saved between two scans, and on several processes.

use std::ops::Range;
use std::path::PathBuf;

#[cfg(feature = "mpi")]
use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ladders::{Ladder, Ladders};
#[cfg(feature = "mpi")]
use super::round::Keep;
use super::round::{Round, RoundResult};
use super::run::TemperingRun;
use super::runner::{Settings, Tempering};
use crate::ais::fingerprint;
use crate::estimate::Warning;
use crate::kernel::{Invariant, Workspace};
use crate::path::AnnealingPath;
use crate::population::{Population, SavedPopulation};
use crate::random::{StreamRng, is_stuck};
#[cfg(feature = "mpi")]
use crate::work::mpi::{Ranks, SharedJob, check_engine, check_fingerprint};
use crate::work::store::{Checkpointed, KeptJob, Resumable, decode, encode};
use crate::work::{Execution, Persist, Task};
use crate::{Error, Result};

/// A saved block: scans done, populations by beta, streams of the swaps, and statistics of the ladders.
type SavedLadders<S> = (
    usize,
    Vec<SavedPopulation<S>>,
    Vec<StreamRng>,
    Vec<Ladder<S>>,
);

impl<'p, P, K> Persist for Round<'_, 'p, P, K, P::State>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    K: Invariant<P::At> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    fn save(&self, at: &Self::Block) -> Result<Vec<u8>> {
        let populations = at.populations.iter();
        let populations: Result<Vec<_>> =
            populations.map(Population::saved::<K::Workspace>).collect();
        encode(
            "block under way",
            &(at.scans, populations?, &at.rngs, &at.ladders),
        )
    }

    fn restore(&self, block: usize, bytes: &[u8]) -> Result<Self::Block> {
        let saved: SavedLadders<_> = decode("block under way", bytes)?;
        let (scans, populations, rngs, ladders) = saved;
        let (range, plan) = (self.chains(block), &self.plan);
        let expected = format!("less than {}", plan.scans);
        Error::check(scans < plan.scans, "scans", scans, expected)?;
        let betas = plan.placed.schedule.betas();
        Error::check_dimension("populations", populations.len(), betas.len())?;
        Error::check_dimension("random streams of swaps", rngs.len(), range.len())?;
        Error::check_dimension("ladders", ladders.len(), range.len())?;
        let moving = !rngs.iter().any(is_stuck);
        let expected = "bits that are not all 0";
        Error::check(moving, "random streams of swaps", "zeros", expected)?;
        ladders
            .iter()
            .try_for_each(|ladder| ladder.check(plan, scans))?;
        let population = |(j, (population, &beta)): (usize, (_, &f64))| {
            let population = Population::restored::<K::Workspace>(
                self.run.path.clone(),
                beta,
                &range,
                population,
            )?;
            Ok(population.at_stage(j))
        };
        let populations = populations.into_iter().zip(betas).enumerate();
        Ok(Ladders {
            first: range.start,
            scans,
            populations: populations.map(population).collect::<Result<_>>()?,
            rngs,
            ladders,
            at_hand: 0,
        })
    }

    fn taken(&self, at: &Self::Block) -> u64 {
        (at.scans * at.populations.len() * at.ladders.len()) as u64
    }

    fn check(&self, blocks: Range<usize>, output: &Self::Output) -> Result<()> {
        let plan = &self.plan;
        let RoundResult {
            ladders,
            decisions,
            ends,
        } = output;
        let (first, last) = (self.chains(blocks.start), self.chains(blocks.end - 1));
        Error::check_dimension("ladders", ladders.len(), last.end - first.start)?;
        Error::check_dimension(
            "decisions",
            decisions.len(),
            plan.placed.schedule.betas().len(),
        )?;
        Error::check_dimension("blocks", ends.len(), blocks.len())?;
        ladders
            .iter()
            .try_for_each(|ladder| ladder.check(plan, plan.scans))
    }
}

impl<P: AnnealingPath, K> Tempering<'_, P, K> {
    /// Returns the same run with checkpoints in a file, as described in [`checkpoint`](crate::checkpoint).
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }
}

impl<'p, P, K> Resumable for Tempering<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    K: Invariant<P::At> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    type Run = TemperingRun<P::State>;
    type Settings = Settings;

    const KIND: &'static str = "tempering";

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn execution(&self) -> &Execution<'_> {
        &self.execution
    }

    fn fingerprint(&self) -> Result<u32> {
        self.check()?;
        fingerprint(self.path.clone(), &self.kernel, &self.settings.schedule)
    }

    /// Allows more rounds than before.
    fn check_found(&self, found: &Settings) -> Result<usize> {
        self.settings.check_found(found)?;
        Ok(usize::MAX)
    }

    #[cfg(feature = "mpi")]
    fn agree(&self, ranks: &mut crate::work::mpi::Ranks, fingerprint: Option<u32>) -> Result<()> {
        self.agree_on(ranks, fingerprint)
    }

    fn go(&self, job: &mut KeptJob<'_>) -> Result<Option<Self::Run>> {
        let run = self.go_with(job, |samples| samples)?;
        Ok(run.map(|run| self.concluded(run)))
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.add_seconds(seconds);
        run.warn(failure.map(|reason| Warning::CheckpointNotWritten { reason }));
    }
}

#[cfg(feature = "mpi")]
impl<'p, P, K> Tempering<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    K: Invariant<P::At> + Sync,
    <K::Workspace as Workspace>::Memory: Serialize + DeserializeOwned,
{
    /// Runs all ladders on all processes of an MPI communicator, which all call this. Rank 0 gets the result; the
    /// others get `None`. It has the same bits as [`run`](Self::run), for any number of processes and threads. Rank r
    /// of n runs the blocks b of ladders with `b mod n = r`. All wait for the slowest after each round, so give all
    /// ranks the same number of blocks. MPI, limits, callbacks and threads work as in
    /// [`Ais::run_on`](crate::ais::Ais::run_on).
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) and of [`Ais::run_on`](crate::ais::Ais::run_on).
    pub fn run_on(&self, world: &dyn Communicator) -> Result<Option<TemperingRun<P::State>>> {
        let run = self.shared(world, |samples| samples)?;
        Ok(run.map(|run| self.concluded(run)))
    }

    /// Runs all ladders as [`run_on`](Self::run_on), but with `()` in place of the samples.
    ///
    /// # Errors
    /// The errors of [`run_on`](Self::run_on).
    pub fn run_on_without_states(
        &self,
        world: &dyn Communicator,
    ) -> Result<Option<TemperingRun<()>>> {
        self.shared(world, |samples| vec![(); samples.len()])
    }

    /// Runs all ladders, and sends their kept samples to rank 0.
    fn shared<T: Send + Serialize + DeserializeOwned>(
        &self,
        world: &dyn Communicator,
        keep: Keep<P::State, T>,
    ) -> Result<Option<TemperingRun<T>>> {
        let agree = |ranks: &mut Ranks| {
            self.check()?;
            self.agree_on(ranks, None)
        };
        SharedJob::on(world, &self.execution, agree, |job| self.go_with(job, keep))
    }
}

#[cfg(feature = "mpi")]
impl<P: AnnealingPath, K> Tempering<'_, P, K> {
    /// Checks that all ranks have the same settings, engine and fingerprint.
    pub(super) fn agree_on(&self, ranks: &mut Ranks, fingerprint: Option<u32>) -> Result<()> {
        let engine = self.path.simd_level();
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
