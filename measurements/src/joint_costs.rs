//! Costs of the segments between knots by the joint law of visible and hidden units.

use annealed::Result;
use annealed::path::BetaDerivative;
use annealed::pilot::KnotChains;
use annealed::population::Population;
use annealed::random::{Purpose, stream};
use annealed::rbm::{BlockGibbs, RbmPath};

/// Estimates the costs `F_j = 1/2 (theta_{j+1} - theta_j) . (s_{j+1} - s_j)` of the segments of a straight path (Grosse
/// et al. 2013, Equation 20), with the parameters theta of the RBM at a knot and its moments s of both layers. On a
/// straight path this is `1/2 (beta_{j+1} - beta_j) (E_{j+1} - E_j)[d/dbeta log f(v)]`, and chains at the knots estimate
/// the means. Kiwaki (2015) calls the binned schedule by these costs GMS13.
pub fn joint_costs(path: &RbmPath, knots: &[f64], settings: &KnotChains) -> Result<Vec<f64>> {
    let first = stream(0, Purpose::PILOT, 0);
    let mut population = Population::start(path, 0, settings.chains, first)?;
    let counted = (settings.updates - settings.burn_in) / settings.thinning;
    let mut means = Vec::new();
    for &knot in knots {
        population.place_at(knot)?;
        (0..settings.burn_in).try_for_each(|_| population.stay(&BlockGibbs))?;
        let mut sum = 0.0;
        for _ in 0..counted {
            (0..settings.thinning).try_for_each(|_| population.stay(&BlockGibbs))?;
            let model = population.stage().model;
            let states = population.block().states().iter();
            sum += states.map(|v| model.beta_derivative(v)).sum::<f64>();
        }
        means.push(sum / (counted * settings.chains) as f64);
    }
    let segments = knots.windows(2).zip(means.windows(2));
    let cost =
        |(betas, means): (&[f64], &[f64])| 0.5 * (betas[1] - betas[0]) * (means[1] - means[0]);
    Ok(segments.map(cost).collect())
}
