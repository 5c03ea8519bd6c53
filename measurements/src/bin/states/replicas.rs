//! Replica exchange over temperatures: a double well, and spins on a square lattice.

use annealed::estimate::Dependence;
use annealed_measurements::problems::exact::{kaufman, log_integral};
use nalgebra::DMatrix;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cell::{Cell, Table};

/// Number of times that are recorded, and of earlier ones that are left out.
const TIMES: (usize, usize) = (4_000, 400);

/// Moves all replicas at each time, tries exchanges of neighbours, and records the energy of each state. `walk` moves a
/// replica at an inverse temperature and returns its energy.
fn exchange<S>(
    mut replicas: Vec<S>,
    betas: &[f64],
    rng: &mut Xoshiro256PlusPlus,
    walk: impl Fn(&mut S, f64, &mut Xoshiro256PlusPlus) -> f64,
) -> Table {
    let mut energies = Vec::new();
    for time in 0..TIMES.0 + TIMES.1 {
        let walkers = replicas.iter_mut().zip(betas);
        let mut now = Vec::from_iter(walkers.map(|(replica, beta)| walk(replica, *beta, rng)));
        for state in (time % 2..betas.len() - 1).step_by(2) {
            let gain = (betas[state + 1] - betas[state]) * (now[state + 1] - now[state]);
            if rng.random::<f64>().ln() < gain {
                replicas.swap(state, state + 1);
                now.swap(state, state + 1);
            }
        }
        if time >= TIMES.1 {
            energies.extend(now);
        }
    }
    let states = betas.len();
    let density = |draw: usize, state: usize| -betas[state] * energies[draw];
    Table {
        log_densities: DMatrix::from_fn(energies.len(), states, density),
        labels: (0..energies.len()).map(|draw| draw % states).collect(),
        how: Dependence::Replicas((0..energies.len()).map(|draw| draw / states).collect()),
    }
}

/// A tilted double well with a barrier of 8 kT at the coldest of six temperatures.
fn double_well() -> Cell {
    let energy = |x: f64| 8.0 * (x * x - 1.0).powi(2) + 0.5 * x;
    let betas = Vec::from_iter((0..6).map(|state| 10f64.powf(0.2 * f64::from(state) - 1.0)));
    let log_z = |beta: &f64| log_integral(-4.0, 4.0, 4_000, |x| -beta * energy(x));
    let walk = move |x: &mut f64, beta: f64, rng: &mut Xoshiro256PlusPlus| {
        for _ in 0..5 {
            let to = *x + 0.3 / beta.sqrt() * rng.sample::<f64, _>(StandardNormal);
            if rng.random::<f64>().ln() < beta * (energy(*x) - energy(to)) {
                *x = to;
            }
        }
        energy(*x)
    };
    Cell {
        name: "double well, replicas".to_owned(),
        log_z: betas.iter().map(log_z).collect(),
        gap: None,
        draw: Box::new(move |rng| exchange(vec![1.0; betas.len()], &betas, rng, walk)),
    }
}

pub(crate) const SIDE: usize = 16;
pub(crate) const SPINS: usize = SIDE * SIDE;

/// Moves each spin by a heat-bath move.
pub(crate) fn move_spins(spins: &mut [i8; SPINS], beta: f64, rng: &mut (impl Rng + ?Sized)) {
    // The probability of a spin up, by the sum of its four neighbours.
    let up = [-4, -2, 0, 2, 4].map(|field| 1.0 / (1.0 + (-2.0 * beta * f64::from(field)).exp()));
    for i in 0..SPINS {
        let row = i - i % SIDE;
        let beside = spins[row + (i + 1) % SIDE] + spins[row + (i + SIDE - 1) % SIDE];
        let field = beside + spins[(i + SIDE) % SPINS] + spins[(i + SPINS - SIDE) % SPINS];
        let is_up = rng.random::<f64>() < up[(field + 4) as usize / 2];
        spins[i] = if is_up { 1 } else { -1 };
    }
}

/// Returns minus the sum over bonds of `s s'`.
pub(crate) fn energy(spins: &[i8; SPINS]) -> f64 {
    let bond = |i: usize| {
        let next = spins[i - i % SIDE + (i + 1) % SIDE] + spins[(i + SIDE) % SPINS];
        f64::from(spins[i] * next)
    };
    -(0..SPINS).map(bond).sum::<f64>()
}

/// Moves all spins three times. Returns the energy.
fn sweep(spins: &mut [i8; SPINS], beta: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    (0..3).for_each(|_| move_spins(spins, beta, rng));
    energy(spins)
}

/// Ising spins at sixteen temperatures on both sides of the critical one (beta .4407), against Kaufman's formula.
fn spins() -> Cell {
    let betas = Vec::from_iter((0..16).map(|state| 0.28 + 0.02 * f64::from(state)));
    Cell {
        name: "16 x 16 spins, replicas".to_owned(),
        log_z: betas
            .iter()
            .map(|beta| kaufman(SIDE, SIDE, *beta))
            .collect(),
        gap: None,
        draw: Box::new(move |rng| exchange(vec![[1; SPINS]; betas.len()], &betas, rng, sweep)),
    }
}

/// Returns all cells.
pub(crate) fn cells() -> Vec<Cell> {
    vec![double_well(), spins()]
}
