//! The challenge at the end of rounds, behind a trait object: rounds without a challenge do not need `FindModes`.

use super::second::{Asked, Second, SecondJob, challenge};
use crate::Result;
use crate::adaptive::base_search::{FindModes, LawOf, MixtureAt, Search, SharedGradient};
use crate::adaptive::tuner::Tuner;
use crate::estimate::LogZ;
use crate::kernel::TransitionKernel;
use crate::model::NormalizedModel;
use crate::path::AnnealingPath;

/// A challenge to the result of a runner over states of type `S` with a kernel of type `K`.
pub(in crate::adaptive) trait Challenges<S, K>: Send + Sync {
    /// Refuses kernels and settings with which a challenge cannot run.
    fn check(&self, of: Challenged<K, S>) -> Result<()>;

    /// Challenges the result `first` within the budget of `asked`.
    fn challenge(
        &self,
        first: &dyn LogZ,
        of: Challenged<K, S>,
        asked: &Asked,
        job: &mut SecondJob<'_, S>,
    ) -> Result<Second<S>>;
}

/// Kernel, tuner and seed of the challenged runner.
pub(in crate::adaptive) struct Challenged<K, S> {
    pub(in crate::adaptive) kernel: K,
    pub(in crate::adaptive) tuner: Option<Tuner<K, S>>,
    pub(in crate::adaptive) seed: u64,
}

struct ChallengeOfPath<'p, P: AnnealingPath> {
    path: P,
    gradient: Option<SharedGradient<'p, P::State>>,
}

/// Returns the challenge to runs along `path`.
pub(in crate::adaptive) fn of_path<'p, P, K>(
    path: P,
    gradient: Option<SharedGradient<'p, P::State>>,
) -> Box<dyn Challenges<P::State, K> + 'p>
where
    P: AnnealingPath<State: FindModes, Base: NormalizedModel> + Send + Sync + 'p,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    Box::new(ChallengeOfPath { path, gradient })
}

impl<'p, P: AnnealingPath<Base: NormalizedModel>> ChallengeOfPath<'p, P> {
    fn search<K>(&self, of: Challenged<K, P::State>) -> Search<'p, P, K> {
        Search {
            tuner: of.tuner,
            gradient: self.gradient.clone(),
            seed: of.seed,
            ..Search::new(self.path.clone(), of.kernel)
        }
    }
}

impl<'p, P, K> Challenges<P::State, K> for ChallengeOfPath<'p, P>
where
    P: AnnealingPath<State: FindModes, Base: NormalizedModel> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    fn check(&self, of: Challenged<K, P::State>) -> Result<()> {
        self.search(of).check()
    }

    fn challenge(
        &self,
        first: &dyn LogZ,
        of: Challenged<K, P::State>,
        asked: &Asked,
        job: &mut SecondJob<'_, P::State>,
    ) -> Result<Second<P::State>> {
        challenge(&self.search(of), first, asked, None, job)
    }
}
