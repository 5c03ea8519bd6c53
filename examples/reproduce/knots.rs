//! Joint costs of the segments of a geometric path by chains at the knots, with the engine of the runs.

use annealed::Result;
use annealed::path::BetaDerivative;
use annealed::population::Population;
use annealed::random::{Purpose, stream};
use annealed::rbm::{BlockGibbs, RbmPath};
use annealed::schedule::Schedule;

/// Chains that move together.
const BLOCK: usize = 125;
/// Sweeps per counted sweep.
const THINNING: usize = 10;

/// Estimates `F_j = 1/2 (theta_{j+1} - theta_j) . (s_{j+1} - s_j)` (Grosse et al., Equation 20) by chains that make
/// `updates` updates at each knot, the first sixth left out.
///
/// On the geometric path `(theta_{j+1} - theta_j) . s` is the step in beta times the mean of `d/dbeta log f(v)`.
pub fn joint_costs(
    path: &RbmPath,
    knots: &Schedule,
    chains: usize,
    updates: usize,
) -> Result<Vec<f64>> {
    let betas = knots.betas();
    let mut sums = vec![0.0; betas.len()];
    let mut counted = 0;
    for first in (0..chains).step_by(BLOCK) {
        let size = BLOCK.min(chains - first);
        let mut block = Population::start(path, first, size, stream(0, Purpose::Knots, first))?;
        for (sum, &beta) in sums.iter_mut().zip(betas) {
            block.place_at(beta)?;
            for update in 1..=updates {
                block.stay(&BlockGibbs)?;
                if update > updates / 6 && update % THINNING == 0 {
                    let model = block.stage().model;
                    let states = block.block().states().iter();
                    *sum += states
                        .map(|state| model.beta_derivative(state))
                        .sum::<f64>();
                }
            }
        }
        counted += size
            * (1..=updates)
                .filter(|u| *u > updates / 6 && u % THINNING == 0)
                .count();
    }
    let means: Vec<f64> = sums.iter().map(|sum| sum / counted as f64).collect();
    let segments = betas.windows(2).zip(means.windows(2));
    Ok(segments
        .map(|(beta, mean)| 0.5 * (beta[1] - beta[0]) * (mean[1] - mean[0]))
        .collect())
}
