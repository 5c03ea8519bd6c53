//! A challenge within the budget of rounds, whose states may have no rivals otherwise.

use super::judge::Second;
use super::path::RivalAt;
use super::proposal::Rivals;
use super::search::{Base, GradientOf, Search, SecondJob};
use crate::Result;
use crate::adaptive::tuner::Tuner;
use crate::estimate::LogZ;
use crate::kernel::{TransitionKernel, Workspace};
use crate::model::NormalizedModel;
use crate::path::AnnealingPath;

/// A challenge with kernel and settings of a runner over states of type `S`.
pub(in crate::adaptive) trait Challenges<S, K>: Send + Sync {
    /// Refuses kernels and settings that no challenge can have.
    fn check(&self, asked: Asked<K, S>) -> Result<()>;

    /// Challenges `first` at the stated cost.
    fn challenge(
        &self,
        first: &dyn LogZ,
        asked: Asked<K, S>,
        budget: u64,
        job: &mut SecondJob<'_, S>,
    ) -> Result<Second<S>>;
}

/// Kernel and settings of the challenged runner.
pub(in crate::adaptive) struct Asked<K, S> {
    pub(in crate::adaptive) kernel: K,
    pub(in crate::adaptive) tuner: Option<Tuner<K, S>>,
    pub(in crate::adaptive) log_base_normalizer: f64,
    pub(in crate::adaptive) seed: u64,
}

/// Probability with which the bounds hold.
const CONFIDENCE: f64 = 0.99;

struct ChallengeOfPath<'p, P: AnnealingPath> {
    path: P,
    own_log_z: f64,
    is_certain: bool,
    gradient: Option<GradientOf<'p, P::State>>,
}

/// Returns what challenges runs along `path`.
pub(in crate::adaptive) fn of_path<'p, P, K>(
    path: P,
    gradient: Option<GradientOf<'p, P::State>>,
) -> Box<dyn Challenges<P::State, K> + 'p>
where
    P: AnnealingPath<State: Rivals, Base: NormalizedModel> + Send + Sync + 'p,
    P::At: Send + Sync,
    K: TransitionKernel<RivalAt<P, Base<P>>, Workspace: Workspace<Memory = ()>>
        + Clone
        + Send
        + Sync,
{
    Box::new(ChallengeOfPath {
        own_log_z: path.base().log_normalizer(),
        is_certain: path.base().has_certain_normalizer(),
        path,
        gradient,
    })
}

impl<'p, P: AnnealingPath> ChallengeOfPath<'p, P> {
    fn search<K>(&self, asked: Asked<K, P::State>) -> Search<'p, P, K> {
        Search {
            path: self.path.clone(),
            kernel: asked.kernel,
            tuner: asked.tuner,
            gradient: self.gradient.clone(),
            own_log_z: self.own_log_z,
            is_certain: self.is_certain,
            log_base_normalizer: asked.log_base_normalizer,
            states: Vec::new(),
            seed: asked.seed,
        }
    }
}

impl<'p, P, K> Challenges<P::State, K> for ChallengeOfPath<'p, P>
where
    P: AnnealingPath<State: Rivals> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<RivalAt<P, Base<P>>, Workspace: Workspace<Memory = ()>>
        + Clone
        + Send
        + Sync,
{
    fn check(&self, asked: Asked<K, P::State>) -> Result<()> {
        self.search(asked).check()
    }

    fn challenge(
        &self,
        first: &dyn LogZ,
        asked: Asked<K, P::State>,
        budget: u64,
        job: &mut SecondJob<'_, P::State>,
    ) -> Result<Second<P::State>> {
        self.search(asked)
            .challenge(first, (budget, CONFIDENCE), None, job)
    }
}
