//! Training by persistent chains: data pull the energy down, samples of the model push it up.

use annealed::model::{Gaussian, Sampleable};
use annealed::nalgebra::DVector;
use annealed::rand::RngExt;
use annealed::random::{Purpose, StreamRng, stream};

use super::digits::PIXELS;
use super::{Failed, Network};

/// Number of chains, and of images in a batch.
const CHAINS: usize = 100;
/// Langevin steps of each chain an update, and their size.
const STEPS: usize = 20;
const STEP: f32 = 0.3;
/// Learning rate of the first update; it falls evenly to 0.
const RATE: f64 = 2e-3;

/// Trains for as many updates as the last of `looks`. `watch` sees the network at each of these numbers of updates.
pub fn train<N: Network>(
    network: &mut N,
    (images, base): (&[f32], &Gaussian),
    looks: &[usize],
    mut watch: impl FnMut(usize, &N) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let mut rng = stream(0, Purpose::DATA, 2);
    let noise = Gaussian::standard(CHAINS * PIXELS)?;
    let mut chains: Vec<f32> = (0..CHAINS)
        .flat_map(|_| {
            base.sample(&mut rng)
                .iter()
                .map(|x| *x as f32)
                .collect::<Vec<_>>()
        })
        .collect();
    let last = looks.last().copied().unwrap_or(0);
    for update in 0..=last {
        if looks.contains(&update) {
            watch(update, network)?;
        }
        let rate = RATE * (1.0 - update as f64 / last as f64);
        for _ in 0..STEPS {
            langevin(network, &mut chains, &noise.sample(&mut rng))?;
        }
        network.learn(&batch(images, &mut rng), &chains, rate)?;
    }
    Ok(())
}

/// Moves all chains by a step of Langevin dynamics, without an accept test.
fn langevin<N: Network>(
    network: &N,
    chains: &mut [f32],
    noise: &DVector<f64>,
) -> Result<(), Failed> {
    let (_, gradients) = network.log_densities(chains, CHAINS)?;
    for ((x, slope), noise) in chains.iter_mut().zip(gradients).zip(noise.iter()) {
        *x += 0.5 * STEP * STEP * slope + STEP * *noise as f32;
    }
    Ok(())
}

/// Draws images with replacement.
fn batch(images: &[f32], rng: &mut StreamRng) -> Vec<f32> {
    let count = images.len() / PIXELS;
    (0..CHAINS)
        .flat_map(|_| {
            let first = rng.random_range(0..count) * PIXELS;
            &images[first..first + PIXELS]
        })
        .copied()
        .collect()
}
