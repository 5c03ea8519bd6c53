//! Harmonic oscillators: independent draws of them, and chains.

use annealed::estimate::Dependence;
use nalgebra::DMatrix;
use rand::RngExt;
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cell::{Cell, Table};

/// How far the states are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlap {
    Good,
    Poor,
    /// None between two halves of the states.
    None,
}

/// A state with the log density `-stiffness (x - mean)^2 / 2`.
#[derive(Debug, Clone, Copy)]
struct Oscillator {
    mean: f64,
    stiffness: f64,
}

impl Oscillator {
    fn log_density(&self, x: f64) -> f64 {
        -0.5 * self.stiffness * (x - self.mean).powi(2)
    }
}

/// Number of independent draws of a state, and number of autocorrelation times of a chain.
const DRAWS: (usize, usize) = (200, 300);

/// Returns `k` states.
fn states(k: usize, overlap: Overlap) -> Vec<Oscillator> {
    let state = |index: usize| {
        let beyond = overlap == Overlap::None && index >= k / 2;
        let apart = if overlap == Overlap::Poor { 2.0 } else { 0.8 };
        Oscillator {
            mean: apart * index as f64 + if beyond { 30.0 } else { 0.0 },
            stiffness: 1.0 + 2.0 * index as f64 / (k - 1) as f64,
        }
    };
    (0..k).map(state).collect()
}

/// Draws a chain of each state with the autocorrelation time `tau`; independent draws if it is 1.
fn table(
    states: &[Oscillator],
    counts: &[usize],
    tau: usize,
    rng: &mut Xoshiro256PlusPlus,
) -> Table {
    let correlation = (tau - 1) as f64 / (tau + 1) as f64;
    let noise = (1.0 - correlation * correlation).sqrt();
    let (mut draws, mut labels) = (Vec::new(), Vec::new());
    for (label, (state, &count)) in states.iter().zip(counts).enumerate() {
        let mut x: f64 = rng.sample(StandardNormal);
        for _ in 0..count {
            x = correlation * x + noise * rng.sample::<f64, _>(StandardNormal);
            draws.push(state.mean + x / state.stiffness.sqrt());
            labels.push(label);
        }
    }
    let density = |draw: usize, state: usize| states[state].log_density(draws[draw]);
    Table {
        log_densities: DMatrix::from_fn(draws.len(), states.len(), density),
        labels,
        how: match tau {
            1 => Dependence::Independent,
            _ => Dependence::Chains,
        },
    }
}

fn cell(
    k: usize,
    overlap: Overlap,
    tau: usize,
    kind: &str,
    count: impl Fn(usize) -> usize,
) -> Cell {
    let (states, counts) = (states(k, overlap), Vec::from_iter((0..k).map(count)));
    let words = format!("{overlap:?}").to_lowercase();
    Cell {
        name: format!("K = {k}, {words} overlap, {kind}").replace("none", "no"),
        log_z: Vec::from_iter(states.iter().map(|state| -0.5 * state.stiffness.ln())),
        gap: (overlap == Overlap::None).then_some(k / 2),
        draw: Box::new(move |rng| table(&states, &counts, tau, rng)),
    }
}

/// Returns all cells.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for k in [5, 20] {
        for overlap in [Overlap::Good, Overlap::Poor, Overlap::None] {
            cells.push(cell(k, overlap, 1, "independent", |_| DRAWS.0));
            for tau in if k == 5 { &[5, 50][..] } else { &[5] } {
                let kind = format!("tau {tau}");
                cells.push(cell(k, overlap, *tau, &kind, |_| DRAWS.1 * tau));
            }
        }
        for overlap in [Overlap::Good, Overlap::Poor] {
            let uneven = |state: usize| if state.is_multiple_of(2) { 2_000 } else { 20 };
            cells.push(cell(k, overlap, 1, "counts 100 : 1", uneven));
            let without = |state: usize| if state.is_multiple_of(2) { DRAWS.0 } else { 0 };
            cells.push(cell(k, overlap, 1, "half without draws", without));
        }
    }
    cells
}
