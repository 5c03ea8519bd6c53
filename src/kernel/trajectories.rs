//! Trajectories of several chains, which evaluate each gradient together.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use crate::kernel::leapfrog::{Leapfrog, Trajectory};
use crate::kernel::metropolis::{PROPOSAL, acceptances};
use crate::kernel::preconditioner::Factor;
use crate::kernel::vector::{UNREACHABLE, check_gradient, diverges, evaluate, set_len};
use crate::kernel::{Increment, NonFinite, Stage, Step};
use crate::model::Differentiable;
use crate::num::{VECTOR_WIDTH, add_scaled, all_finite, set_zero};
use crate::path::Intermediate;

/// Trajectories of a run of chains. Positions, momenta and gradients are matrices with a row per chain, stored by
/// columns, so that a register holds one coordinate of neighbours.
#[derive(Debug, Clone, Default)]
pub struct Trajectories {
    chains: usize,
    positions: Vec<f64>,
    momenta: Vec<f64>,
    gradients: Vec<f64>,
    log_densities: Vec<f64>,
    /// Log densities at the points before the last drift.
    left: Vec<f64>,
    log_ratios: Vec<f64>,
    /// `-H` at the start; `+inf` to refuse a trajectory that [`diverges`] to where the model is not finite.
    here: Vec<f64>,
    /// `-H` at the end, and then the acceptance probability.
    there: Vec<f64>,
    uniforms: Vec<f64>,
    /// The lowest chain that met a non-finite number, with its first such number.
    fault: Option<(usize, NonFinite)>,
    /// Buffer for a chain that is moved alone.
    one: Trajectory,
}

impl Leapfrog {
    /// Integrates from the positions and momenta to the ends, and computes their acceptance probabilities.
    pub(super) fn integrate_all<M: Differentiable + Intermediate>(
        &self,
        stage: Stage<'_, M>,
        trajectories: &mut Trajectories,
    ) {
        let factor = self.preconditioner.as_ref().map(|l| l.at(stage.beta));
        let size = self.step_size.at(stage.beta);
        trajectories.evaluate(At::Start, stage.model, factor);
        trajectories.take_energies(true);
        trajectories.kick(0.5 * size);
        for step in 1..=self.steps.get() {
            trajectories.drift(size, factor);
            trajectories.evaluate(At::Proposal, stage.model, factor);
            let last = step == self.steps.get();
            trajectories.kick(if last { 0.5 * size } else { size });
        }
        trajectories.take_energies(false);
        acceptances(&trajectories.here, &mut trajectories.there);
    }
}

impl Trajectories {
    pub(super) fn one(&mut self) -> &mut Trajectory {
        &mut self.one
    }

    /// Sets the positions to these states, all of one dimension, and weighs them.
    pub(super) fn start<M>(&mut self, stage: Stage<'_, M>, states: &[DVector<f64>])
    where
        M: Intermediate<State = DVector<f64>>,
    {
        let chains = states.len();
        let dimension = states.first().map_or(0, DVector::len);
        self.chains = chains;
        self.fault = None;
        for matrix in [&mut self.positions, &mut self.momenta, &mut self.gradients] {
            matrix.resize(chains * dimension, 0.0);
        }
        let numbers = [
            &mut self.log_ratios,
            &mut self.log_densities,
            &mut self.left,
            &mut self.uniforms,
        ];
        for numbers in numbers.into_iter().chain([&mut self.here, &mut self.there]) {
            numbers.resize(chains, 0.0);
        }
        for (chain, state) in states.iter().enumerate() {
            write_row(&mut self.positions, chains, chain, state.as_slice());
        }
        if stage.is_at_rest() {
            self.log_ratios.fill(0.0);
        } else {
            let (log_ratios, here) = (&mut self.log_ratios, &mut self.here);
            stage
                .model
                .log_ratios_and_densities(stage.previous, states, log_ratios, here);
        }
    }

    /// Returns the places for a chain's random numbers: its momentum and its uniform number.
    pub(super) fn random_of(&mut self, chain: usize) -> (impl Iterator<Item = &mut f64>, &mut f64) {
        let momentum = self.momenta.iter_mut().skip(chain).step_by(self.chains);
        (momentum, &mut self.uniforms[chain])
    }

    /// Decides about a chain, or returns its fault. If it moves, `state` becomes the end of its trajectory.
    pub(super) fn decide(
        &self,
        chain: usize,
        state: &mut DVector<f64>,
    ) -> Result<Increment, NonFinite> {
        let log_ratio = NonFinite::check_log_density("log ratio", self.log_ratios[chain])
            .map_err(|fault| fault.at_state(state.as_slice()))?;
        if let Some((_, fault)) = self.fault.filter(|fault| fault.0 == chain) {
            return Err(fault);
        }
        let acceptance = self.there[chain];
        if self.uniforms[chain] < acceptance {
            read_row(&self.positions, self.chains, chain, state);
        }
        Ok(Increment::new(log_ratio, Step::metropolis(acceptance)))
    }

    /// Writes log densities and gradients at the positions, equal to those of [`evaluate`] for one chain.
    fn evaluate<M: Differentiable>(&mut self, at: At, model: &M, factor: Option<&Factor>) {
        std::mem::swap(&mut self.left, &mut self.log_densities);
        set_zero(&mut self.gradients);
        let within = all_finite(&self.positions);
        if within {
            let (chains, dimension) = (self.chains, self.positions.len() / self.chains);
            let states = DMatrixView::from_slice(&self.positions, chains, dimension);
            let gradients = DMatrixViewMut::from_slice(&mut self.gradients, chains, dimension);
            model.accumulate_gradients(states, 1.0, gradients, &mut self.log_densities);
        }
        let mut log_densities = self.log_densities.iter();
        let usual = within && log_densities.all(is_usual) && all_finite(&self.gradients);
        if !usual {
            self.evaluate_unusual(within, at, model);
        }
        if let Some(factor) = factor {
            self.turn_gradients(at, factor);
        }
    }

    /// Evaluates one by one the chains that are off the support, diverge or have a fault.
    #[cold]
    fn evaluate_unusual<M: Differentiable>(&mut self, within: bool, at: At, model: &M) {
        let dimension = self.positions.len() / self.chains;
        let (mut position, mut gradient) = (DVector::zeros(dimension), DVector::zeros(dimension));
        for chain in 0..self.chains {
            read_row(&self.gradients, self.chains, chain, &mut gradient);
            let usual = is_usual(&self.log_densities[chain]) && all_finite(gradient.as_slice());
            if within && usual {
                continue;
            }
            read_row(&self.positions, self.chains, chain, &mut position);
            let found = evaluate(at.quantity(), model, &position, &mut gradient);
            let found = self.noted(chain, at, found);
            self.log_densities[chain] = found.unwrap_or(f64::NEG_INFINITY);
            if found.is_none() {
                gradient.fill(0.0);
            }
            write_row(&mut self.gradients, self.chains, chain, gradient.as_slice());
        }
    }

    /// Multiplies the gradients by the transposed factor.
    fn turn_gradients(&mut self, at: At, factor: &Factor) {
        let dimension = self.positions.len() / self.chains;
        let mut gradient = std::mem::take(&mut self.one.gradient);
        set_len(&mut gradient, dimension);
        for chain in 0..self.chains {
            read_row(&self.gradients, self.chains, chain, &mut gradient);
            factor.transpose_times(&mut gradient);
            if let Err(fault) = check_gradient(&gradient) {
                let position: Vec<f64> = row(&self.positions, self.chains, chain).collect();
                self.noted::<()>(chain, at, Err(fault.at_state(&position)));
                gradient.fill(0.0);
            }
            write_row(&mut self.gradients, self.chains, chain, gradient.as_slice());
        }
        self.one.gradient = gradient;
    }

    /// Records the first fault of the lowest chain. A trajectory that diverges is refused without a fault.
    fn noted<T>(&mut self, chain: usize, at: At, found: Result<T, NonFinite>) -> Option<T> {
        match found {
            Ok(value) => Some(value),
            Err(fault) => {
                if at == At::Proposal && self.diverges(chain) {
                    self.here[chain] = f64::INFINITY;
                } else if self.fault.is_none_or(|(first, _)| chain < first) {
                    self.fault = Some((chain, fault));
                }
                None
            }
        }
    }

    /// Returns whether the trajectory had diverged at the point before the last drift.
    fn diverges(&self, chain: usize) -> bool {
        let squares = row(&self.momenta, self.chains, chain).map(|p| p * p);
        let energy = 0.5 * squares.sum::<f64>() - self.left[chain];
        diverges(-self.here[chain], energy)
    }

    fn kick(&mut self, size: f64) {
        add_scaled(&mut self.momenta, size, &self.gradients);
    }

    fn drift(&mut self, size: f64, factor: Option<&Factor>) {
        let Some(factor) = factor else {
            return add_scaled(&mut self.positions, size, &self.momenta);
        };
        let dimension = self.positions.len() / self.chains;
        let velocity = &mut self.one.velocity;
        set_len(velocity, dimension);
        for chain in 0..self.chains {
            read_row(&self.momenta, self.chains, chain, velocity);
            factor.times(velocity);
            let row = self.positions.iter_mut().skip(chain);
            for (x, v) in row.step_by(self.chains).zip(velocity.as_slice()) {
                *x += size * v;
            }
        }
    }

    /// Computes `-H` from the log densities and the momenta, at the start or at the end.
    fn take_energies(&mut self, at_start: bool) {
        let energies = match at_start {
            true => &mut self.here,
            false => &mut self.there,
        };
        if self.momenta.len() < VECTOR_WIDTH * self.chains {
            // Sums in the order of a single chain.
            energies.fill(0.0);
            for column in self.momenta.chunks_exact(self.chains) {
                for (sum, p) in energies.iter_mut().zip(column) {
                    *sum += p * p;
                }
            }
            for (energy, log_density) in energies.iter_mut().zip(&self.log_densities) {
                *energy = log_density - 0.5 * *energy;
            }
            return;
        }
        let momentum = &mut self.one.momentum;
        set_len(momentum, self.momenta.len() / self.chains);
        for (chain, energy) in energies.iter_mut().enumerate() {
            read_row(&self.momenta, self.chains, chain, momentum);
            *energy = self.log_densities[chain] - 0.5 * momentum.norm_squared();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    Start,
    Proposal,
}

impl At {
    fn quantity(self) -> &'static str {
        match self {
            Self::Start => "log density",
            Self::Proposal => PROPOSAL,
        }
    }
}

/// Returns whether the log density is neither out of reach nor a fault.
#[inline]
fn is_usual(log_density: &f64) -> bool {
    (UNREACHABLE..f64::INFINITY).contains(log_density)
}

#[inline]
fn write_row(matrix: &mut [f64], rows: usize, row: usize, values: &[f64]) {
    for (column, value) in matrix.chunks_exact_mut(rows).zip(values) {
        column[row] = *value;
    }
}

#[inline]
fn row(matrix: &[f64], rows: usize, index: usize) -> impl Iterator<Item = f64> {
    matrix.chunks_exact(rows).map(move |column| column[index])
}

#[inline]
fn read_row(matrix: &[f64], rows: usize, index: usize, values: &mut DVector<f64>) {
    for (value, x) in values
        .as_mut_slice()
        .iter_mut()
        .zip(row(matrix, rows, index))
    {
        *value = x;
    }
}
