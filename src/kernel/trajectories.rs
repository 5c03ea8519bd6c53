//! Trajectories of several chains, which evaluate each gradient together.

use std::ops::Range;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use rand::RngExt;

use crate::Result;
use crate::kernel::graded::EndRows;
use crate::kernel::graded::end_weights;
use crate::kernel::leapfrog::Trajectory;
use crate::kernel::metropolis::acceptances;
use crate::kernel::preconditioner::Factor;
use crate::kernel::trajectory_faults::At;
use crate::kernel::vector::set_len;
use crate::kernel::{Block, Increment, NonFinite, Stage, Step};
use crate::model::Differentiable;
use crate::num::{VECTOR_WIDTH, add_scaled, all_finite, set_zero};
use crate::path::{Ends, Intermediate};
use crate::random::{StandardNormal, StreamRng};

/// Trajectories of the active chains of a block. Positions, momenta and gradients are matrices with a row per chain, stored by
/// columns, so that a register holds one coordinate of neighbours.
#[derive(Debug, Clone, Default)]
pub struct Trajectories {
    pub(super) chains: usize,
    pub(super) positions: Vec<f64>,
    pub(super) momenta: Vec<f64>,
    pub(super) gradients: Vec<f64>,
    pub(super) log_densities: Vec<f64>,
    /// Log densities at the points before the last drift.
    pub(super) left: Vec<f64>,
    log_ratios: Vec<f64>,
    /// `-H` at the start; `+inf` to refuse a trajectory that [`diverges`] to where the model is not finite.
    pub(super) here: Vec<f64>,
    /// `-H` at the end.
    there: Vec<f64>,
    acceptances: Vec<f64>,
    /// All bits of a chain that moves, none of one that stays.
    moved: Vec<u64>,
    uniforms: Vec<f64>,
    /// The lowest chain that met a non-finite number, with its first such number.
    pub(super) fault: Option<(usize, NonFinite)>,
    /// Log densities and gradients of the ends of the trajectories at the ends of the path.
    arrivals: EndRows,
    /// Buffer for a chain that is moved alone.
    pub(super) one: Trajectory,
}

/// Returns whether chains move together: the model evaluates batches, and the states have one dimension.
pub(super) fn moves_together<M>(stage: Stage<'_, M>, block: &Block<DVector<f64>>) -> bool
where
    M: Intermediate<State = DVector<f64>>,
{
    let first = block.states().first().map_or(0, DVector::len);
    stage.model.evaluates_batches() && block.states().iter().all(|state| state.len() == first)
}

/// Leapfrog steps at one stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Integration<'k> {
    pub(super) size: f64,
    pub(super) steps: usize,
    pub(super) factor: Option<&'k Factor>,
}

impl Integration<'_> {
    /// Moves the active chains of a block, all of one dimension, together by one evaluation a step. `draw`
    /// writes a chain's random numbers, given its index among the trajectories and in the block. `conclude` says whether
    /// it moves, and reports its step. Each chain uses the random numbers that it would use alone.
    pub(super) fn advance<M: Differentiable + Intermediate>(
        self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        trajectories: &mut Trajectories,
        mut draw: impl FnMut(&mut Trajectories, (usize, usize), &mut StreamRng),
        mut conclude: impl FnMut(&Trajectories, (usize, usize)) -> (bool, Step),
    ) -> Result<()> {
        let runs = block.active_runs();
        if runs.is_empty() {
            return Ok(());
        }
        trajectories.start(stage, self.factor, block, &runs);
        for (index, chain) in runs.iter().cloned().flatten().enumerate() {
            draw(trajectories, (index, chain), block.rng_mut(chain));
        }
        self.integrate(stage.model, trajectories);
        trajectories.conclude(stage, block, &runs, &mut conclude)
    }

    /// Integrates from the positions and momenta to the ends, and computes energies and acceptance probabilities.
    fn integrate<M: Differentiable + Intermediate>(
        self,
        model: &M,
        trajectories: &mut Trajectories,
    ) {
        trajectories.take_energies(true);
        trajectories.kick(0.5 * self.size);
        for step in 1..=self.steps {
            trajectories.drift(self.size, self.factor);
            let last = step == self.steps;
            trajectories.evaluate(At::Proposal, model, self.factor, last);
            trajectories.kick(if last { 0.5 * self.size } else { self.size });
        }
        trajectories.take_energies(false);
        trajectories.acceptances.clone_from(&trajectories.there);
        acceptances(&trajectories.here, &mut trajectories.acceptances);
    }
}

impl Trajectories {
    pub(super) fn one(&mut self) -> &mut Trajectory {
        &mut self.one
    }

    /// Sets the positions to the states of some chains, all of one dimension, and weighs them by what is known.
    fn start<M: Differentiable + Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        factor: Option<&Factor>,
        block: &mut Block<DVector<f64>>,
        runs: &[Range<usize>],
    ) {
        let dimension = block.states()[runs[0].start].len();
        let (states, ends, departures) = block.rows_mut(dimension);
        self.set_positions(states, runs);
        match end_weights(stage.model) {
            Some(weights) if all_finite(&self.positions) => {
                self.load(stage.model, weights, departures, runs);
                for (index, chain) in runs.iter().cloned().flatten().enumerate() {
                    let (found, known) = (self.arrivals.ends_of(index), &mut ends[chain]);
                    *known = known.or_base(|| found.base).or_target(|| found.target);
                    self.log_ratios[index] = match stage.is_at_rest() {
                        true => 0.0,
                        false => stage.weigh(&states[chain], known).0,
                    };
                }
                self.finish(At::Start, factor);
            }
            _ => {
                self.evaluate(At::Start, stage.model, factor, false);
                match stage.is_at_rest() {
                    true => self.log_ratios.fill(0.0),
                    false => self.weigh(stage, states, ends, runs),
                }
            }
        }
    }

    /// Weighs the chains of `runs` by calls for each run.
    fn weigh<M: Intermediate<State = DVector<f64>>>(
        &mut self,
        stage: Stage<'_, M>,
        states: &[DVector<f64>],
        ends: &mut [Ends],
        runs: &[Range<usize>],
    ) {
        let (mut log_ratios, mut here) = (&mut self.log_ratios[..], &mut self.there[..]);
        for run in runs {
            let (ratios, other_ratios) = log_ratios.split_at_mut(run.len());
            let (densities, others) = here.split_at_mut(run.len());
            stage.weigh_batch(
                &states[run.clone()],
                &mut ends[run.clone()],
                ratios,
                densities,
            );
            (log_ratios, here) = (other_ratios, others);
        }
    }

    fn set_positions(&mut self, states: &[DVector<f64>], runs: &[Range<usize>]) {
        let chains = runs.iter().map(Range::len).sum();
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
        for (index, chain) in runs.iter().cloned().flatten().enumerate() {
            write_row(&mut self.positions, chains, index, states[chain].as_slice());
        }
    }

    /// Takes the gradients of the states at the ends of the path from the block, or evaluates them.
    fn load<M: Differentiable + Intermediate>(
        &mut self,
        model: &M,
        weights: [f64; 2],
        departures: &mut EndRows,
        runs: &[Range<usize>],
    ) {
        let dimension = self.positions.len() / self.chains;
        self.arrivals.set_size(self.chains, dimension);
        self.arrivals.load(departures, runs);
        if !self.arrivals.know(weights) {
            self.evaluate_ends(model);
            self.moved.clear();
            self.moved.resize(self.chains, u64::MAX);
            departures.store(&self.arrivals, runs, &self.moved);
        }
        self.blend(model, weights);
    }

    fn evaluate_ends<M: Differentiable>(&mut self, model: &M) {
        let (chains, dimension) = (self.chains, self.positions.len() / self.chains);
        self.arrivals.set_size(chains, dimension);
        let states = DMatrixView::from_slice(&self.positions, chains, dimension);
        model.end_gradients_of_batch(states, self.arrivals.batches());
    }

    /// Blends the gradients at the ends of the path.
    fn blend<M: Intermediate>(&mut self, model: &M, weights: [f64; 2]) {
        set_zero(&mut self.gradients);
        for (weight, end) in weights.into_iter().zip(&self.arrivals.0) {
            if weight > 0.0 {
                add_scaled(&mut self.gradients, weight, &end.gradients);
            }
        }
        let [base, target] = &self.arrivals.0;
        let ends = base.log_densities.iter().zip(&target.log_densities);
        for (to, (base, target)) in self.log_densities.iter_mut().zip(ends) {
            *to = model.log_density_at(Ends {
                base: if weights[0] > 0.0 { *base } else { 0.0 },
                target: if weights[1] > 0.0 { *target } else { 0.0 },
            });
        }
    }

    /// Decides about a chain by the uniform number that it drew.
    pub(super) fn decide(&self, chain: usize) -> (bool, Step) {
        let acceptance = self.acceptances[chain];
        (
            self.uniforms[chain] < acceptance,
            Step::metropolis(acceptance),
        )
    }

    /// Returns `-H` of a chain at both ends of its trajectory.
    pub(super) fn energies(&self, chain: usize) -> (f64, f64) {
        (self.here[chain], self.there[chain])
    }

    /// Writes momentum and uniform number of a chain that draws both anew.
    pub(super) fn draw(&mut self, chain: usize, rng: &mut StreamRng) {
        self.draw_momentum(chain, rng);
        self.uniforms[chain] = rng.random();
    }

    /// Writes a standard normal momentum.
    pub(super) fn draw_momentum(&mut self, chain: usize, rng: &mut StreamRng) {
        let normal = StandardNormal::get();
        let momentum = self.momenta.iter_mut().skip(chain).step_by(self.chains);
        momentum.for_each(|p| *p = normal.draw(rng));
    }

    /// Writes the momentum that a chain keeps, and its uniform number.
    pub(super) fn set_momentum(&mut self, chain: usize, kept: &DVector<f64>, rng: &mut StreamRng) {
        write_row(&mut self.momenta, self.chains, chain, kept.as_slice());
        self.uniforms[chain] = rng.random();
    }

    /// Writes the momentum at the end of a chain's trajectory.
    pub(super) fn read_momentum(&self, chain: usize, momentum: &mut DVector<f64>) {
        read_row(&self.momenta, self.chains, chain, momentum);
    }

    /// Adds the increments of the chains in `runs`, and takes those that move to the ends of their trajectories.
    fn conclude<M: Differentiable + Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        runs: &[Range<usize>],
        conclude: &mut impl FnMut(&Self, (usize, usize)) -> (bool, Step),
    ) -> Result<()> {
        self.moved.clear();
        for (index, chain) in runs.iter().cloned().flatten().enumerate() {
            let increment = self
                .log_ratio(index, &block.states()[chain])
                .map(|log_ratio| {
                    let (moves, step) = conclude(self, (index, chain));
                    (moves, Increment::new(log_ratio, step))
                });
            let moves = increment.as_ref().is_ok_and(|(moves, _)| *moves);
            self.moved.push(if moves { u64::MAX } else { 0 });
            block.add(stage, chain, increment.map(|(_, increment)| increment))?;
        }
        self.arrive(stage, block, runs);
        Ok(())
    }

    /// Returns the log ratio of a chain, or its fault.
    fn log_ratio(&self, chain: usize, state: &DVector<f64>) -> Result<f64, NonFinite> {
        let log_ratio = NonFinite::check_log_density("log ratio", self.log_ratios[chain])
            .map_err(|fault| fault.at_state(state.as_slice()))?;
        match self.fault.filter(|fault| fault.0 == chain) {
            Some((_, fault)) => Err(fault),
            None => Ok(log_ratio),
        }
    }

    /// Takes the chains that moved to the ends of their trajectories, with all that is known there.
    fn arrive<M: Differentiable + Intermediate>(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        runs: &[Range<usize>],
    ) {
        let dimension = self.positions.len() / self.chains;
        let (states, ends, rows) = block.rows_mut(dimension);
        if end_weights(stage.model).is_some() {
            rows.store(&self.arrivals, runs, &self.moved);
        }
        let places = runs.iter().cloned().flatten().enumerate();
        for (index, chain) in places.filter(|(index, _)| self.moved[*index] != 0) {
            read_row(&self.positions, self.chains, index, &mut states[chain]);
            ends[chain] = match M::HAS_ENDS {
                true => self.arrivals.ends_of(index),
                false => Ends::at_beta(self.log_densities[index], stage.beta),
            };
        }
    }

    /// Writes log densities and gradients at the positions, equal to those of a chain that is moved alone. At the `last`
    /// point it keeps the gradients at the ends of the path.
    fn evaluate<M: Differentiable + Intermediate>(
        &mut self,
        at: At,
        model: &M,
        factor: Option<&Factor>,
        last: bool,
    ) {
        std::mem::swap(&mut self.left, &mut self.log_densities);
        set_zero(&mut self.gradients);
        let beyond = self.set_aside_overflows();
        let (chains, dimension) = (self.chains, self.positions.len() / self.chains);
        let weights = end_weights(model).filter(|_| last);
        if weights.is_some() {
            self.arrivals.set_size(chains, dimension);
            self.arrivals.forget_all();
        }
        if beyond.len() == chains {
            self.log_densities.fill(f64::NEG_INFINITY);
        } else if let Some(weights) = weights {
            self.evaluate_ends(model);
            self.blend(model, weights);
        } else {
            let states = DMatrixView::from_slice(&self.positions, chains, dimension);
            let gradients = DMatrixViewMut::from_slice(&mut self.gradients, chains, dimension);
            model.accumulate_gradients(states, 1.0, gradients, &mut self.log_densities);
        }
        for (chain, position) in beyond {
            write_row(&mut self.positions, chains, chain, &position);
            self.log_densities[chain] = f64::NEG_INFINITY;
            self.arrivals.forget(chain);
        }
        self.finish(at, factor);
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

#[inline]
pub(super) fn write_row(matrix: &mut [f64], rows: usize, row: usize, values: &[f64]) {
    for (column, value) in matrix.chunks_exact_mut(rows).zip(values) {
        column[row] = *value;
    }
}

#[inline]
pub(super) fn row(matrix: &[f64], rows: usize, index: usize) -> impl Iterator<Item = f64> {
    matrix.chunks_exact(rows).map(move |column| column[index])
}

#[inline]
pub(super) fn read_row(matrix: &[f64], rows: usize, index: usize, values: &mut DVector<f64>) {
    for (value, x) in values
        .as_mut_slice()
        .iter_mut()
        .zip(row(matrix, rows, index))
    {
        *value = x;
    }
}
