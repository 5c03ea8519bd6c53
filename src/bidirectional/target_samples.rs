//! Samples of the target, from which a reverse run starts.

use std::marker::PhantomData;

use crate::Result;
use crate::ais::{Ais, Run};
use crate::kernel::TransitionKernel;
use crate::model::Sampleable;
use crate::path::AnnealingPath;
use crate::population::{Population, ResamplingScheme};
use crate::random::{Purpose, stream, successive};

/// Exact samples of the target: simulated data with the parameters that generated them, an enumerated model, or a
/// perfect sampler. A reverse run from them gives an upper bound on log Z in expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exact {}

/// Approximate samples of the target, such as persistent chains or states of a forward run. A reverse run from them
/// gives a second opinion, not a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approximate {}

/// Quality of samples of a target: [`Exact`] or [`Approximate`].
pub trait Quality {
    /// Whether the samples follow the target's distribution exactly.
    const IS_EXACT: bool;
}

impl Quality for Exact {
    const IS_EXACT: bool = true;
}

impl Quality for Approximate {
    const IS_EXACT: bool = false;
}

/// Quality of samples that bound log Z from above: [`Exact`].
#[diagnostic::on_unimplemented(
    message = "from approximate samples there is no upper bound",
    note = "only `TargetSamples::exact` gives bounds"
)]
pub trait IsExact: Quality {}

impl IsExact for Exact {}

/// States at which the chains of a reverse run start, one for each chain. Standard errors assume that the states are
/// independent.
///
/// The quality of the samples is part of the type: only results from `TargetSamples<S, Exact>` have an upper bound.
///
/// ```
/// use annealed::bidirectional::{Approximate, Exact, TargetSamples};
///
/// let drawn: TargetSamples<f64, Exact> = TargetSamples::exact(vec![0.3, -1.2]);
/// let from_a_chain: TargetSamples<f64, Approximate> = TargetSamples::approximate(vec![0.3, -1.2]);
/// assert_eq!(drawn.states(), from_a_chain.states());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TargetSamples<S, Q = Exact> {
    states: Vec<S>,
    quality: PhantomData<Q>,
}

impl<S> TargetSamples<S, Exact> {
    /// Creates samples that the caller knows to be exact. The crate cannot check this, and the bounds hold only if it
    /// is true.
    pub fn exact(states: Vec<S>) -> Self {
        Self {
            states,
            quality: PhantomData,
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
}

impl<S> TargetSamples<S, Approximate> {
    /// Creates samples that follow the target's distribution approximately.
    pub fn approximate(states: Vec<S>) -> Self {
        Self {
            states,
            quality: PhantomData,
        }
    }
}

impl<S, Q> TargetSamples<S, Q> {
    /// Returns the states.
    pub fn states(&self) -> &[S] {
        &self.states
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
    ) -> Result<TargetSamples<P::State, Approximate>> {
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
