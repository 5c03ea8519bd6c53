//! Samples of the target, from which a reverse run starts.

use crate::Result;
use crate::ais::{Ais, Run};
use crate::kernel::TransitionKernel;
use crate::model::Sampleable;
use crate::path::AnnealingPath;
use crate::population::{Population, ResamplingScheme};
use crate::random::{Purpose, stream, successive};

/// States at which the chains of a reverse run start, one for each chain. Standard errors assume that the states are
/// independent.
///
/// Samples are exact or approximate. Only results from exact samples have an upper bound on log Z.
///
/// ```
/// use annealed::bidirectional::TargetSamples;
///
/// let drawn = TargetSamples::exact(vec![0.3, -1.2]);
/// let from_a_chain = TargetSamples::approximate(vec![0.3, -1.2]);
/// assert!(drawn.is_exact() && !from_a_chain.is_exact());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TargetSamples<S> {
    states: Vec<S>,
    is_exact: bool,
}

impl<S> TargetSamples<S> {
    /// Creates samples that the caller knows to be exact: simulated data with the parameters that generated them, an
    /// enumerated model, or a perfect sampler. The crate cannot check this, and the bounds hold only if it is true.
    pub fn exact(states: Vec<S>) -> Self {
        Self {
            states,
            is_exact: true,
        }
    }

    /// Creates samples that follow the target's distribution approximately, such as persistent chains or states of a
    /// forward run. A reverse run from them gives a second opinion, not a bound.
    pub fn approximate(states: Vec<S>) -> Self {
        Self {
            states,
            is_exact: false,
        }
    }

    /// Draws `count` samples of a model. No run uses the stream of `seed` from which they come.
    ///
    /// ```
    /// use annealed::bidirectional::TargetSamples;
    /// use annealed::model::Gaussian;
    ///
    /// let samples = TargetSamples::draw(&Gaussian::standard(2)?, 100, 7);
    /// assert_eq!(samples.states().len(), 100);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Panics
    /// If memory has no room for `count` samples.
    pub fn draw<M: Sampleable<State = S>>(model: &M, count: usize, seed: u64) -> Self {
        let mut rng = stream(seed, Purpose::EXACT_SAMPLES, 0);
        Self::exact((0..count).map(|_| model.sample(&mut rng)).collect())
    }

    /// Returns the states.
    pub fn states(&self) -> &[S] {
        &self.states
    }

    /// Returns whether the samples follow the target's distribution exactly.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }
}

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath,
    P::State: Clone,
    K: TransitionKernel<P::At>,
{
    /// Returns approximate samples of the target, as many as `run` has chains: its final states, resampled by weight,
    /// then moved `moves` times by the kernel at the target. Regions that the run did not find are missing from them.
    ///
    /// # Errors
    /// Errors of the kernel, with chain and move.
    pub fn resampled<S>(
        &self,
        run: &Run<P::State, S>,
        moves: usize,
    ) -> Result<TargetSamples<P::State>> {
        let mut choice = stream(run.seed(), Purpose::RESAMPLING, 0);
        // The first stream chooses the states, and each of the next ones moves a chain.
        let rngs = successive(choice.clone()).skip(1);
        let copies =
            ResamplingScheme::Systematic.copies(run.chains(), run.log_weights(), &mut choice);
        let chosen = run.states().iter().zip(copies);
        let states: Vec<_> = chosen
            .flat_map(|(state, copies)| std::iter::repeat_n(state.clone(), copies))
            .collect();
        let rngs = rngs.take(states.len()).collect();
        let mut population: Population<P> =
            Population::from_states(self.path.clone(), 1.0, 0, states, rngs)?;
        for _ in 0..moves {
            population.stay(&self.kernel)?;
        }
        let states = population.block().states().to_vec();
        Ok(TargetSamples::approximate(states))
    }
}
