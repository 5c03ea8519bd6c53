//! The runner of a challenge.

use std::fmt;

use nalgebra::DVector;

use super::judge::CHALLENGE_CONFIDENCE;
use super::result::ChallengeRun;
use crate::Result;
use crate::adaptive::base_search::{FindModes, LawOf, MixtureAt, Search, gradient_of};
use crate::adaptive::tuner::Tuner;
use crate::estimate::LogZ;
use crate::kernel::{TransitionKernel, Tunable};
use crate::model::{Differentiable, NormalizedModel};
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::work::{Execution, Job, controls};

/// A second run that looks for mass that a first one missed.
///
/// A forward run cannot detect mass that none of its chains found, and repeated runs have the same error. The challenge
/// looks for [another base](crate::adaptive::BaseSearch) and runs *forward* from it to the same target.
/// [`Judgement`](super::Judgement) is the outcome.
///
/// ```
/// use annealed::adaptive::{Challenge, Judgement};
/// use annealed::prelude::*;
///
/// // Nine tenths of the mass in a spike forty times narrower than the rest.
/// let part = |deviation| Gaussian::isotropic(DVector::zeros(4), deviation);
/// let target = GaussianMixture::new([(0.1, part(1.0)?), (0.9, part(0.025)?)])?;
/// let path = GeometricPath::new(part(2.0)?, target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let run = Ais::new(&path, &kernel).schedule(Schedule::linear(200)?).chains(500).run()?;
/// let challenge = Challenge::new(&path, kernel, &run).run()?;
/// println!("{run}\n{challenge}"); // log Z = -2.31 +- .02; contradicts the first run: log Z is at least -.07
/// assert!(matches!(challenge.judgement(), Judgement::Contradicted { .. }));
/// assert!(challenge.log_z().abs() < 4.0 * challenge.standard_error()); // log Z = 0
/// # assert!(run.log_z() < -2.0 && challenge.standard_error() < 0.1, "{run}\n{challenge}");
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// The weights of the second run are unbiased, since its base comes from other chains. Its
/// [bound](crate::ais::Run::certified_lower_bound) can prove the first run too low. The first run is any result with
/// [`LogZ`] for the target of `path`. The challenge costs as much as the first run, or as rounds without `.fitted()`,
/// unless a [`budget`](Self::budget) is set.
///
/// The base's own [log normaliser](NormalizedModel::log_normalizer) must be right, since it determines the base's
/// density in the mixture. Unless it is [certain](NormalizedModel::has_certain_normalizer), it is compared with the
/// base's samples. If the samples cannot decide, as for a base of 300 dependent coordinates, a judgement that would
/// contradict or improve is [`Undecided`](super::Judgement::Undecided).
#[must_use]
pub struct Challenge<'p, P: AnnealingPath, K> {
    pub(in crate::adaptive) search: Search<'p, P, K>,
    pub(in crate::adaptive) first: &'p dyn LogZ,
    pub(in crate::adaptive) base_log_z: f64,
    pub(super) budget: Option<u64>,
    pub(in crate::adaptive) confidence: f64,
    pub(in crate::adaptive) execution: Execution<'p>,
}

impl<'p, P: AnnealingPath, K> Challenge<'p, P, K> {
    /// Creates a challenge to `first`, a result for the target of `path`, with a tuned kernel over `R^d`.
    pub fn new(path: P, kernel: K, first: &'p dyn LogZ) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
        K: Tunable,
    {
        let mut challenge = Self::fixed(path, kernel, first);
        challenge.search.tuner = Some(Tuner::new());
        challenge
    }

    /// Creates a challenge with a kernel that is not tuned, over any state that [finds modes](FindModes).
    pub fn fixed(path: P, kernel: K, first: &'p dyn LogZ) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self {
            base_log_z: path.base().log_normalizer(),
            search: Search::new(path, kernel),
            first,
            budget: None,
            confidence: CHALLENGE_CONFIDENCE,
            execution: Execution::default(),
        }
    }

    /// Lets climbs and Laplace's approximation use the gradient of the target, instead of random walks and finite
    /// differences.
    pub fn with_gradient(mut self) -> Self
    where
        P: AnnealingPath<State = DVector<f64>> + Send + Sync + 'p,
        P::At: Differentiable,
    {
        self.search.gradient = Some(gradient_of(self.search.path.clone()));
        self
    }

    /// Adds states that the search cools besides its own, such as data or draws of another sampler.
    pub fn states(mut self, states: impl IntoIterator<Item = P::State>) -> Self {
        self.search.states.extend(states);
        self
    }

    setters! {
        /// Sets the log normaliser of the base, in place of the base's own. With 0 the result is `log(Z_K / Z_0)`. The
        /// first run must use the same value.
        base_log_z: f64,
        /// Sets the number of density evaluations to spend; by default the first run's
        /// [`challenge_budget`](LogZ::challenge_budget), and at least 5,000 moves. A value with its gradient
        /// counts as one.
        budget in Some: u64,
        /// Sets the seed; 0 by default.
        seed of search: u64,
        /// Sets the confidence of intervals, and of all bounds together; 0.99 by default.
        confidence: f64,
    }

    controls! { 'p, "The result is that of a second run of the finished blocks; before it is an [`Error::Stopped`](crate::Error::Stopped)." }

    /// Returns the number of evaluations that the challenge may spend.
    pub(in crate::adaptive) fn allowance(&self) -> u64 {
        self.budget.unwrap_or(self.first.challenge_budget())
    }
}

impl<'p, P, K> Challenge<'p, P, K>
where
    P: AnnealingPath<State: FindModes> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    /// Looks for modes, runs from a mixture of the own base and distributions around modes, and judges the first run.
    ///
    /// # Errors
    /// Settings out of range; a budget that is too small; a log normaliser that the base's samples contradict;
    /// [states](Self::states) without a density; a wrong [gradient](Self::with_gradient); the errors of
    /// [`FirstPass::run`](crate::adaptive::FirstPass::run) and [`Ais::run`](crate::ais::Ais::run); [`Error::Stopped`](crate::Error::Stopped)
    /// before the second run has finished a block of chains.
    pub fn run(&self) -> Result<ChallengeRun<'p, P::State>> {
        self.go_with(None, &mut Job::new(&self.execution)?)
    }
}

impl<P: AnnealingPath, K: fmt::Debug> fmt::Debug for Challenge<'_, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge")
            .field("kernel", &self.search.kernel)
            .field("budget", &self.budget)
            .field("confidence", &self.confidence)
            .field("seed", &self.search.seed)
            .finish_non_exhaustive()
    }
}
