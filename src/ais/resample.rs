//! Samples of about the target's law from the weighted states of a run.

use rand::{Rng, RngExt};

use super::population::Population;
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
        let first = stream(run.seed(), Purpose::Resampling, 0);
        let mut rngs = successive(first);
        let mut choice = rngs.next().expect("streams without end");
        let chosen = systematic(run.log_weights(), run.log_z_ratio(), &mut choice);
        let states: Vec<_> = chosen.map(|i| run.states()[i].clone()).collect();
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

/// Systematic resampling: index i is drawn `N w_i / sum w` times, rounded up or down at random, in
/// ascending order. `log_mean` is the log of the mean weight.
fn systematic<R: Rng + ?Sized>(
    log_weights: &[f64],
    log_mean: f64,
    rng: &mut R,
) -> impl Iterator<Item = usize> {
    let offset = rng.random::<f64>();
    let last = log_weights.len() - 1;
    let shares = log_weights.iter().map(move |w| (w - log_mean).exp());
    let drawn = shares.scan((0.0, 0), move |(sum, before), share| {
        *sum += share;
        let upto = (*sum - offset).ceil().max(0.0) as usize;
        let count = upto.saturating_sub(*before);
        *before = upto;
        Some(count)
    });
    // Rounding may leave the sum of the shares beside N by an ulp.
    let drawn = drawn
        .enumerate()
        .flat_map(|(i, count)| std::iter::repeat_n(i, count));
    drawn.chain(std::iter::repeat(last)).take(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_drawn_in_proportion_to_its_weight() {
        let weights = [0.5_f64, 0.0, 2.0, 1.5, 1.0];
        let logs = weights.map(f64::ln);
        let mut rng = stream(1, Purpose::Testing, 0);
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            let drawn: Vec<usize> = systematic(&logs, 0.0, &mut rng).collect();
            assert_eq!(drawn.len(), 5);
            assert!(drawn.is_sorted());
            drawn.iter().for_each(|&i| counts[i] += 1);
        }
        for (count, weight) in counts.iter().zip(weights) {
            let error = f64::from(*count) / 10_000.0 - weight;
            assert!(error.abs() < 0.02, "{counts:?}");
        }
    }
}
