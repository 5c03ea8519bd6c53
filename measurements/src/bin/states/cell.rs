//! Harmonic oscillators and draws of them.

use annealed::estimate::{Dependence, log_mean_exp, log_sum_exp};
use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

/// How far the states are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlap {
    Good,
    Poor,
    /// None between two halves of the states.
    None,
}

/// A state with the log density `-stiffness (x - mean)^2 / 2`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oscillator {
    mean: f64,
    stiffness: f64,
}

impl Oscillator {
    fn log_density(&self, x: f64) -> f64 {
        -0.5 * self.stiffness * (x - self.mean).powi(2)
    }
}

/// States, and the numbers of draws of them with their autocorrelation time.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) states: Vec<Oscillator>,
    pub(crate) overlap: Overlap,
    pub(crate) tau: usize,
    counts: Vec<usize>,
}

/// Number of independent draws of a state, and number of autocorrelation times of a chain.
const DRAWS: (usize, usize) = (200, 300);

impl Cell {
    fn new(k: usize, overlap: Overlap, tau: usize) -> Self {
        let state = |index: usize| {
            let beyond = overlap == Overlap::None && index >= k / 2;
            let apart = if overlap == Overlap::Poor { 2.0 } else { 0.8 };
            Oscillator {
                mean: apart * index as f64 + if beyond { 30.0 } else { 0.0 },
                stiffness: 1.0 + 2.0 * index as f64 / (k - 1) as f64,
            }
        };
        let (kind, count) = match tau {
            1 => ("independent".to_owned(), DRAWS.0),
            _ => (format!("tau {tau}"), DRAWS.1 * tau),
        };
        let overlaps = format!("{overlap:?}").to_lowercase();
        Self {
            name: format!("K = {k}, overlap {overlaps}, {kind}"),
            states: (0..k).map(state).collect(),
            overlap,
            tau,
            counts: vec![count; k],
        }
    }

    fn with_counts(mut self, kind: &str, count: impl Fn(usize) -> usize) -> Self {
        self.counts = (0..self.states.len()).map(count).collect();
        self.name = format!("{}, {kind}", self.name);
        self
    }

    /// Returns the cell with more draws of each state.
    pub(crate) fn more(&self, factor: usize) -> Self {
        Self {
            name: self.name.clone(),
            states: self.states.clone(),
            counts: self.counts.iter().map(|count| factor * count).collect(),
            ..*self
        }
    }

    pub(crate) fn dependence(&self) -> Dependence {
        match self.tau {
            1 => Dependence::Independent,
            _ => Dependence::Chains,
        }
    }

    /// Returns the exact log Z of state `one` less log Z of state `other`.
    pub(crate) fn exact(&self, one: usize, other: usize) -> f64 {
        0.5 * (self.states[other].stiffness / self.states[one].stiffness).ln()
    }

    /// Returns draws of all states, and the state of each.
    pub(crate) fn draws(&self, seed: u64) -> (Vec<f64>, Vec<usize>) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let correlation = (self.tau - 1) as f64 / (self.tau + 1) as f64;
        let noise = (1.0 - correlation * correlation).sqrt();
        let (mut draws, mut labels) = (Vec::new(), Vec::new());
        for (label, (state, &count)) in self.states.iter().zip(&self.counts).enumerate() {
            let mut x: f64 = rng.sample(StandardNormal);
            for _ in 0..count {
                x = correlation * x + noise * rng.sample::<f64, _>(StandardNormal);
                draws.push(state.mean + x / state.stiffness.sqrt());
                labels.push(label);
            }
        }
        (draws, labels)
    }

    pub(crate) fn log_densities(&self, draws: &[f64]) -> DMatrix<f64> {
        let density = |draw: usize, state: usize| self.states[state].log_density(draws[draw]);
        DMatrix::from_fn(draws.len(), self.states.len(), density)
    }

    /// Returns the distance of the estimates of log Z between both halves of the states, from the draws of each half
    /// alone, at the given log Z within the halves.
    pub(crate) fn one_sided_gap(&self, draws: &[f64], labels: &[usize], log_z: &[f64]) -> f64 {
        let half = self.states.len() / 2;
        let density = |second: bool, x: f64| {
            let states = if second {
                half..self.states.len()
            } else {
                0..half
            };
            let total: usize = self.counts[states.clone()].iter().sum();
            let term = |state: usize| {
                let share = self.counts[state] as f64 / total as f64;
                share.ln() - log_z[state] + self.states[state].log_density(x)
            };
            log_sum_exp(states.map(term))
        };
        let estimate = |second: bool| {
            let of_half = draws
                .iter()
                .zip(labels)
                .filter(|(_, label)| (**label >= half) == second);
            let ratio = |(x, _): (&f64, &usize)| density(!second, *x) - density(second, *x);
            log_mean_exp(&Vec::from_iter(of_half.map(ratio)))
        };
        (estimate(false) + estimate(true)).abs()
    }
}

/// Returns all cells.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for k in [5, 20] {
        for overlap in [Overlap::Good, Overlap::Poor, Overlap::None] {
            let times = if k == 5 { &[1, 5, 50][..] } else { &[1, 5] };
            cells.extend(times.iter().map(|tau| Cell::new(k, overlap, *tau)));
        }
        for overlap in [Overlap::Good, Overlap::Poor] {
            let uneven = |state: usize| if state.is_multiple_of(2) { 2_000 } else { 20 };
            cells.push(Cell::new(k, overlap, 1).with_counts("counts 100 to 1", uneven));
            let without = |state: usize| if state.is_multiple_of(2) { 200 } else { 0 };
            let name = "every second state without draws";
            cells.push(Cell::new(k, overlap, 1).with_counts(name, without));
        }
    }
    cells
}
