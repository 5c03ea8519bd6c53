//! Samples of about the target's law from the weighted states of a run.

use super::population::Population;
use super::resampling::ResamplingScheme;
use super::run::Run;
use super::runner::Ais;
use super::target_samples::{Approximate, TargetSamples};
use crate::Result;
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::random::{Purpose, stream, successive};

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath,
    P::State: Clone,
    K: TransitionKernel<P::At<'p>>,
{
    /// As many samples of about the target's law as `run` has chains: its final states, resampled by
    /// their weights, and then moved so many times by the kernel at the target.
    ///
    /// They know of nothing that the run did not find. So they are [`Approximate`]: a reverse run from
    /// them gives no bound, and Bennett's estimate inherits what they lack.
    ///
    /// # Errors
    /// What the kernel meets, with chain and move.
    pub fn resampled<S>(
        &self,
        run: &Run<P::State, S>,
        moves: usize,
    ) -> Result<TargetSamples<P::State, Approximate>> {
        let mut choice = stream(run.seed(), Purpose::Resampling, 0);
        let rngs = successive(choice.clone()).skip(1);
        let copies =
            ResamplingScheme::Systematic.copies(run.chains(), run.log_weights(), &mut choice);
        let chosen = run.states().iter().zip(copies);
        let states: Vec<_> = chosen
            .flat_map(|(state, copies)| std::iter::repeat_n(state.clone(), copies))
            .collect();
        let rngs = rngs.take(states.len()).collect();
        let mut population: Population<'p, P, K::Workspace> =
            Population::from_states(self.path, 1.0, 0, states, rngs)?;
        for _ in 0..moves {
            population.stay(&self.kernel)?;
        }
        let states = population.block().states().to_vec();
        Ok(TargetSamples::approximate(states))
    }
}
