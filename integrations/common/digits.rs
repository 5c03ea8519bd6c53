//! The digits that `annealed` embeds, made continuous.

use annealed::model::{Gaussian, Sampleable};
use annealed::nalgebra::DVector;
use annealed::random::{Purpose, stream};

/// Pixels of an image.
pub const PIXELS: usize = 64;
/// Standard deviation of the noise on each pixel.
const NOISE: f64 = 0.5;
/// Number of images that the training does not see.
const HELD_OUT: usize = 297;

/// Images row after row: ink is 1, paper -1, each with Gaussian noise. Without it pixels would be discrete and have no
/// density.
pub struct Digits {
    pub training: Vec<f32>,
    pub held_out: Vec<f32>,
}

/// Returns the embedded digits with noise that a seed gives.
pub fn noisy(seed: u64) -> annealed::Result<Digits> {
    let mut rng = stream(seed, Purpose::DATA, 1);
    let law = Gaussian::isotropic(DVector::zeros(PIXELS), NOISE)?;
    let mut rows = Vec::new();
    for image in annealed::data::digits().images {
        let noise = law.sample(&mut rng);
        let grey = image.iter().zip(noise.iter());
        rows.extend(grey.map(|(&ink, noise)| {
            if ink {
                1.0 + *noise as f32
            } else {
                -1.0 + *noise as f32
            }
        }));
    }
    let held_out = rows.split_off(rows.len() - HELD_OUT * PIXELS);
    Ok(Digits {
        training: rows,
        held_out,
    })
}

/// Fits a Gaussian to rows, without covariances.
pub fn base_of(rows: &[f32]) -> annealed::Result<Gaussian> {
    let n = (rows.len() / PIXELS) as f64;
    let column = |i: usize| rows.iter().skip(i).step_by(PIXELS).map(|x| f64::from(*x));
    let mean = DVector::from_fn(PIXELS, |i, _| column(i).sum::<f64>() / n);
    let square = |i: usize| column(i).map(|x| (x - mean[i]).powi(2)).sum::<f64>();
    let variances = DVector::from_fn(PIXELS, |i, _| square(i) / n);
    Gaussian::diagonal(mean, variances)
}
