//! Machines for which a start chosen from several loses mass.

use std::path::Path;

use annealed::Result;
use annealed::rbm::{BaseRate, ContrastiveDivergence, Rbm};
use annealed_files::RbmFile;
use annealed_measurements::bars::bars;
use nalgebra::{DMatrix, DVector};

const SIDE: usize = 28;
const ROWS: usize = 4_000;
/// Hidden units of the machine of bars.
const HIDDEN: usize = 200;

/// Trains a machine by PCD on images of one to three bars with 3% noise.
///
/// Training depends on the processor. The tables use the machine in `measurements/reproduction/machines/bars-200.npz`.
pub fn train_bars(file: &Path) -> Result<()> {
    let images = bars(SIDE, ROWS, 0);
    let trained = ContrastiveDivergence::new(1)
        .persistent(true)
        .epochs(20)
        .batch_size(20)
        .learning_rate(0.1, 0.0)
        .seed(1)
        .train(Rbm::<f32>::from_data(HIDDEN, &images, 1)?, &images)?;
    let file_of = RbmFile {
        log_z_exact: None,
        base: Some(BaseRate::from_data(HIDDEN, &images, 1.0)?),
        rbm: trained.rbm,
        chains: None,
    };
    file_of.write(file)
}

/// Size of the pattern: its hidden units, and the pixels that they all share.
const PATTERN: (usize, usize) = (8, 200);
/// Number of hidden units beside the pattern, and of pixels of each.
const OTHERS: (usize, usize) = (92, 6);
/// Visible biases of the pattern's pixels and of the others.
const BIASES: [f32; 2] = [-3.0, -1.0];
/// Log odds that a hidden unit beside the pattern is on.
const ODDS: f64 = -6.0;

/// Writes a machine of 100 hidden units, with log Z in closed form. In 94% of its mass the whole pattern is on.
///
/// A single unit of the pattern costs hundreds of nats, so chains reach the mode only from states near it.
pub fn write_pattern(file: &Path) -> Result<()> {
    let ((units, pixels), (others, size)) = (PATTERN, OTHERS);
    // The weight for which a bias of `-0.6 weight pixels` leaves 94% of the mass to the pattern.
    let (weight, bias) = (0.953_954_16_f32, -114.474_5_f32);
    let mut weights = DMatrix::zeros(units + others, pixels + others * size);
    weights.view_mut((0, 0), (units, pixels)).fill(weight);
    let mut hidden = DVector::repeat(units + others, bias);
    let visible = DVector::from_fn(weights.ncols(), |i, _| BIASES[usize::from(i >= pixels)]);
    let gain = |fields: f64, weight: f64| softplus(fields + weight) - softplus(fields);
    let mut log_z = log_z_of_pattern(weight.into(), bias.into());
    for other in 0..others {
        let weight = 0.5 + 2.0 * other as f32 / others as f32;
        let (unit, first) = (units + other, pixels + other * size);
        weights.view_mut((unit, first), (1, size)).fill(weight);
        let pull = size as f64 * gain(BIASES[1].into(), weight.into());
        hidden[unit] = (ODDS - pull) as f32;
        log_z += size as f64 * softplus(BIASES[1].into());
        log_z += softplus(f64::from(hidden[unit]) + pull);
    }
    let file_of = RbmFile {
        log_z_exact: Some(log_z),
        base: Some(BaseRate::new(units + others, visible.clone())?),
        rbm: Rbm::<f32>::new(weights, hidden, visible)?,
        chains: None,
    };
    file_of.write(file)
}

/// Returns the log of the sum over the pattern's hidden units. There are `(n choose k)` ways to have k units on.
fn log_z_of_pattern(weight: f64, bias: f64) -> f64 {
    let (units, pixels) = PATTERN;
    let mut ways = 1.0_f64;
    let term = |k: usize| {
        let on = k as f64;
        if k > 0 {
            ways *= (units + 1 - k) as f64 / on;
        }
        ways.ln() + on * bias + pixels as f64 * softplus(f64::from(BIASES[0]) + on * weight)
    };
    let terms = Vec::from_iter((0..=units).map(term));
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + terms.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
