//! The runner of a search for a base.

use std::fmt;

use nalgebra::DVector;

use super::find_modes::FindModes;
use super::found_base::FoundBase;
use super::mixture_path::MixtureAt;
use super::search::{LawOf, Search, gradient_of};
use crate::Result;
use crate::adaptive::tuner::Tuner;
use crate::kernel::{TransitionKernel, Tunable};
use crate::model::{Differentiable, NormalizedModel};
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::work::{Execution, Job, controls};

/// A search for a base from which a run finds mass of a target that chains from the path's own base may miss.
///
/// The result is a mixture of the path's own base and [distributions](FindModes) around the modes that the search
/// finds. The own base keeps half of the mixture, so no mass that it covers is lost. A
/// [`Challenge`](crate::adaptive::Challenge) is this search, a run from its result, and the
/// [comparison](crate::adaptive::Judged) of that run with an earlier one:
///
/// ```
/// use annealed::adaptive::{BaseSearch, Judged};
/// use annealed::prelude::*;
///
/// // Nine tenths of the mass in a spike forty times narrower than the rest; log Z = 0.
/// let part = |deviation| Gaussian::isotropic(DVector::zeros(4), deviation);
/// let target = GaussianMixture::new([(0.1, part(1.0)?), (0.9, part(0.025)?)])?;
/// let path = GeometricPath::new(part(2.0)?, &target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let first = Rounds::new(&path, kernel.clone()).budget(100_000).run()?;
///
/// let found = BaseSearch::new(&path, kernel.clone(), 100_000).run()?;
/// let second = Rounds::new(&GeometricPath::new(found.base, &target), kernel).budget(100_000).run()?;
/// let both = Judged::new(&first, &second, 0.99)?;
/// println!("{both}");
/// assert!(first.log_z() < -2.0 && both.log_z().abs() < 4.0 * both.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// The search anneals a large population roughly, and cools some of its states: they move on under rising powers of the
/// target f, up to `f^256`. It climbs from draws of the base and around modes, by random walks or along a
/// [gradient](Self::with_gradient), and fits distributions around the modes. Population Monte Carlo moves these
/// distributions and their shares towards the target. A run from the mixture uses new chains, so its weights are
/// unbiased.
#[must_use]
pub struct BaseSearch<'p, P: AnnealingPath, K> {
    search: Search<'p, P, K>,
    budget: u64,
    execution: Execution<'p>,
}

impl<'p, P: AnnealingPath, K> BaseSearch<'p, P, K> {
    /// Creates a search with a tuned kernel over `R^d`, which spends about `budget` density evaluations. A value
    /// with its gradient counts as one.
    pub fn new(path: P, kernel: K, budget: u64) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
        K: Tunable,
    {
        let mut search = Self::fixed(path, kernel, budget);
        search.search.tuner = Some(Tuner::new());
        search
    }

    /// Creates a search with a kernel that is not tuned, over any state that [finds modes](FindModes).
    pub fn fixed(path: P, kernel: K, budget: u64) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self {
            search: Search::new(path, kernel),
            budget,
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
        /// Sets the seed; 0 by default.
        seed of search: u64,
    }

    controls! { 'p, "There is no result then: an [`Error::Stopped`](crate::Error::Stopped)." }
}

impl<P, K> BaseSearch<'_, P, K>
where
    P: AnnealingPath<State: FindModes> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    /// Looks for modes, and mixes distributions around them with the path's own base.
    ///
    /// # Errors
    /// A budget that is too small; a log normaliser of the base that its samples contradict; [states](Self::states)
    /// without a density; a wrong [gradient](Self::with_gradient); the errors of
    /// [`FirstPass::run`](crate::adaptive::FirstPass::run); [`Error::Stopped`](crate::Error::Stopped).
    pub fn run(&self) -> Result<FoundBase<P, LawOf<P>>> {
        let job = Job::new(&self.execution)?;
        let (left, checked) = self.search.begin(|_| self.budget, &job)?;
        let found = self.search.find(left, &job)?;
        Ok(FoundBase {
            evaluations: found.evaluations + checked,
            ..found
        })
    }
}

impl<P: AnnealingPath, K: fmt::Debug> fmt::Debug for BaseSearch<'_, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseSearch")
            .field("kernel", &self.search.kernel)
            .field("budget", &self.budget)
            .field("seed", &self.search.seed)
            .finish_non_exhaustive()
    }
}
