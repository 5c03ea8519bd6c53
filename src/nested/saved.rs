//! Runs over levels with checkpoints, or that several processes share.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::path::{LevelAt, LevelPath};
use super::run::NestedSmcRun;
use super::runner::{Formats, NestedSmc};
use crate::Result;
use crate::estimate::Warning;
use crate::kernel::Invariant;
use crate::model::{Sampleable, UnnormalizedModel};
use crate::random::{Purpose, stream};
use crate::work::ranks::{OnRanks, Ranks};
use crate::work::store::{Checkpointed, Resumable, checksum, encode, guarded};
use crate::work::{Execution, Format, Identity, Job, Probe};

impl<P, L, K> NestedSmc<'_, P, L, K> {
    /// Returns the same run with checkpoints in a file, as described in [`checkpoint`](crate::checkpoint). Checkpoints
    /// contain the levels and the finished islands; an unfinished island begins anew.
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    /// Returns the same run shared with other processes, which must all make the same call; see the module
    /// [`ranks`](crate::ranks). Each process gets the result of [`run`](Self::run), bit for bit. Rank 0 finds the
    /// levels, and all share the islands.
    pub fn ranks<'a>(&'a self, ranks: &'a dyn Ranks) -> OnRanks<'a, Self> {
        OnRanks::new(self, ranks)
    }
}

impl<'m, P, L, K> NestedSmc<'m, P, L, K>
where
    P: Sampleable<State: Clone + Send + Serialize + DeserializeOwned> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    /// Returns log likelihoods of a few prior samples, before and after a move above a level, and the move's error.
    fn probed(&self) -> Result<(Vec<f64>, Vec<f64>, Option<String>)> {
        use crate::population::Population;
        let prior: LevelPath<'m, P, L> = LevelPath::new(self.problem, [])?;
        let first = || stream(0, Purpose::PROBE, 0);
        let start: Population<_> = Population::start(&prior, 0, PROBES, first())?;
        let likelihood = self.problem.likelihood();
        let states = start.block().states().iter();
        let log_likelihoods: Vec<f64> = states.map(|x| x.log_likelihood(likelihood)).collect();
        let mut sorted = log_likelihoods.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let level = Some(sorted[PROBES / 2]).filter(|level| *level < f64::INFINITY);
        let path = LevelPath::new(self.problem, level)?;
        // The same stream gives the same prior samples as above.
        let mut moved: Population<_> = Population::start(&path, 0, PROBES, first())?;
        let met = moved
            .advance_to(&self.kernel, 1.0)
            .map_err(|error| error.to_string());
        let states = moved.block().states().iter();
        let after: Vec<f64> = states.map(|x| x.log_likelihood(likelihood)).collect();
        Ok((log_likelihoods, after, met.err()))
    }
}

/// Number of prior samples in a fingerprint.
const PROBES: usize = 8;

impl<'m, P, L, K> Resumable for NestedSmc<'m, P, L, K>
where
    P: Sampleable<State: Clone + Send + Serialize + DeserializeOwned> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    type Run = NestedSmcRun<P::State>;

    const KIND: &'static str = "levels";

    fn execution(&self) -> &Execution<'_> {
        &self.execution
    }

    fn identity(&self) -> Result<Identity> {
        self.check()?;
        let tuning = self.tuning.as_ref();
        let tuning = tuning.map(|tuning| (tuning.first, tuning.acceptance));
        guarded(|| {
            let (drawn, moved, met) = self.probed()?;
            let checksum = checksum(&encode("probe", &(&drawn, &moved, &met, tuning))?);
            // The likelihoods of a run that meets an error are compared when it meets it.
            let starts = [vec![0.0; drawn.len()], drawn];
            let probe = met.is_none().then(|| Probe::of(&starts, &[moved], false));
            Ok(Identity::new(self.settings.named(), probe, checksum))
        })
    }

    fn go(&self, job: &mut Job<'_>) -> Result<Self::Run> {
        let formats = Formats {
            search: Format::serde(),
            found: Format::serde(),
            islands: Format::serde(),
        };
        self.go_with(Some(formats), job)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.add_seconds(seconds);
        run.warn(failure.map(|reason| Warning::CheckpointNotWritten { reason }));
    }
}
