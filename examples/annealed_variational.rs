//! Annealed variational objectives (Huang et al. 2018): learned transitions that find all modes of a target.
//!
//! The target has four Gaussian modes at (+-4, +-4). Six transitions are trained from `N(0, I)`. The annealed objective
//! trains each transition on the path's next distribution, and finds all modes. The hierarchical ELBO trains them
//! together on the target alone, with as many gradients, and loses some modes. An annealed run through the trained
//! transitions then estimates log Z, which is 0, from its weights.
//!
//! ```text
//! cargo run --release --example annealed_variational
//! ```

use annealed::learned::{LearnedTransitions, Mean, Noise, Objective, Training, mode_occupancy};
use annealed::prelude::*;
use nalgebra::dvector;

const TRANSITIONS: usize = 6;
/// Number of gradients of log densities for each objective, divided by the size of a batch.
const GRADIENTS: usize = 3_000;

fn main() -> annealed::Result<()> {
    let corners = [(-4.0, -4.0), (-4.0, 4.0), (4.0, -4.0), (4.0, 4.0)];
    let modes: Vec<DVector<f64>> = corners.iter().map(|&(x, y)| dvector![x, y]).collect();
    let component = |mode: &DVector<f64>| Ok((0.25, Gaussian::isotropic(mode.clone(), 0.6)?));
    let components: annealed::Result<Vec<_>> = modes.iter().map(component).collect();
    let path = GeometricPath::new(Gaussian::standard(2)?, GaussianMixture::new(components?)?);
    let schedule = Schedule::linear(TRANSITIONS)?;

    let mut found = Vec::new();
    for objective in [Objective::Annealed, Objective::Hierarchical] {
        let transitions = LearnedTransitions::new(Mean::Gated { hidden: 32 }, 2, TRANSITIONS, 1)?;
        let trained = Training::new(objective)
            .iterations(GRADIENTS / objective.gradients_per_sample(TRANSITIONS))
            .batch_size(64)
            .learning_rate(1e-2)
            .seed(1)
            .train(transitions, &path, &schedule)?;
        let flow = trained.flow;
        let last = flow.samples(&path, 4_000, 1)?.swap_remove(TRANSITIONS);
        let shares = mode_occupancy(&last, &modes)?;

        // Noise with heavier tails than in training bounds the variance of the weights.
        let sampler = flow.with_noise(Noise::Student {
            degrees_of_freedom: 5,
        })?;
        let ais = Ais::new(&path, sampler).schedule(schedule.clone());
        let run = ais.chains(20_000).seed(1).run()?;
        println!("{objective:?}: {run}");
        for (mode, share) in modes.iter().zip(&shares) {
            let percent = 100.0 * share;
            println!(
                "    {percent:.0}% of the samples at ({}, {})",
                mode[0], mode[1]
            );
        }
        found.push((shares.iter().filter(|&&share| share > 0.05).count(), run));
    }
    let (modes, run) = &found[0];
    assert_eq!(*modes, 4);
    assert!(run.log_z().abs() <= 4.0 * run.standard_error());
    Ok(())
}
