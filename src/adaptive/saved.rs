//! Adaptive runs that leave checkpoints, or that several processes share.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::base_search::{FindModes, LawOf, MixtureAt};
use super::challenge::{Challenge, ChallengeRun};
use super::rounds::{Rounds, RoundsCodec};
use super::rounds_run::RoundsRun;
use crate::Result;
use crate::ais::{block_codec, identity};
use crate::estimate::Warning;
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::ranks::{OnRanks, Ranks};
use crate::work::store::{Checkpointed, Resumable, encode};
use crate::work::{Execution, Format, Identity, Job, Named, named, named_engine};

/// Returns the schedule of the probe chains that identify a run's path and kernel. It is fixed, because these
/// runs find their own stages only later.
fn stages() -> Schedule {
    Schedule::linear(16).expect("16 stages are a schedule")
}

impl<P: AnnealingPath, K> Rounds<'_, P, K> {
    /// Returns the same run with checkpoints in `file`; see the module [`checkpoint`](crate::checkpoint). An unfinished
    /// first pass begins anew; an unfinished round continues.
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    /// Returns the same run shared with other processes, which must all make the same call; see the module
    /// [`ranks`](crate::ranks). Each process gets the result of [`run`](Self::run), bit for bit. Rank 0 makes the first
    /// pass, and all share the rounds.
    pub fn ranks<'a>(&'a self, ranks: &'a dyn Ranks) -> OnRanks<'a, Self> {
        OnRanks::new(self, ranks)
    }

    fn named(&self) -> Named {
        let has_surrogates = self.path.surrogate_at(1.0).is_some();
        vec![
            named("seed", &self.seed),
            named("chains", &self.most_chains()),
            named("moves", &self.moves),
            named("block_size", &self.block_size),
            named("rounds", &self.rounds),
            named("budget", &self.budget),
            named("log normalizer of the base", &self.base_log_z),
            named("whether the kernel is tuned", &self.tuner.is_some()),
            named_engine(self.path.simd_level(), has_surrogates),
            named("whether the base is fitted", &self.fitting.is_some()),
        ]
    }
}

impl<'p, P, K> Resumable for Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Serialize + DeserializeOwned + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Serialize + DeserializeOwned + Clone + Send + Sync,
{
    type Run = RoundsRun<P::State, K>;

    const KIND: &'static str = "rounds";

    fn execution(&self) -> &Execution<'_> {
        &self.execution
    }

    fn until_error(&self) -> Option<f64> {
        self.until_error
    }

    fn identity(&self) -> Result<Identity> {
        identity(self.path.clone(), &self.kernel, &stages(), self.named())
    }

    fn go(&self, job: &mut Job<'_>) -> Result<Self::Run> {
        let codec = RoundsCodec {
            pass: Format::serde(),
            fit: Format::serde(),
            block: block_codec(),
            reached: Format::serde(),
        };
        self.go_with(Some(codec), job)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.last.run.add_seconds(seconds);
        let warning = failure.map(|reason| Warning::CheckpointNotWritten { reason });
        run.last.run.warn(warning);
    }
}

impl<P: AnnealingPath, K> Challenge<'_, P, K> {
    /// Returns the same challenge with checkpoints in `file`; see the module [`checkpoint`](crate::checkpoint). The
    /// search for other bases begins anew; an unfinished second run continues.
    pub fn checkpoint(&self, file: impl Into<PathBuf>) -> Checkpointed<'_, Self> {
        Checkpointed::new(self, file.into())
    }

    /// Returns the same challenge shared with other processes, which must all make the same call; see the module
    /// [`ranks`](crate::ranks). Each process gets the result of [`run`](Self::run), bit for bit. Each makes the whole
    /// search for other bases; they share the second run.
    pub fn ranks<'a>(&'a self, ranks: &'a dyn Ranks) -> OnRanks<'a, Self> {
        OnRanks::new(self, ranks)
    }

    fn named(&self) -> Named {
        let search = &self.search;
        vec![
            named("seed", &search.seed),
            named("budget", &self.allowance()),
            named("confidence", &self.confidence),
            named("log normalizer of the base", &self.base_log_z),
            named("whether the kernel is tuned", &search.tuner.is_some()),
            // The path from a mixture has no surrogates.
            named_engine(search.path.simd_level(), false),
            named("whether it uses a gradient", &search.gradient.is_some()),
            named("log Z of the first run", &self.first.log_z()),
        ]
    }
}

impl<'p, P, K> Resumable for Challenge<'p, P, K>
where
    P: AnnealingPath<State: FindModes + Serialize + DeserializeOwned> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    type Run = ChallengeRun<'p, P::State>;

    const KIND: &'static str = "challenge";

    fn execution(&self) -> &Execution<'_> {
        &self.execution
    }

    fn identity(&self) -> Result<Identity> {
        let path = self.search.path_from_own();
        let identity = identity(path, &self.search.kernel, &stages(), self.named())?;
        Ok(identity.with_checksum_of(&encode("states", &self.search.states)?))
    }

    fn go(&self, job: &mut Job<'_>) -> Result<Self::Run> {
        self.go_with(Some(block_codec()), job)
    }

    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>) {
        run.seconds += seconds;
        let warning = failure.map(|reason| Warning::CheckpointNotWritten { reason });
        run.warnings.extend(warning);
    }
}
