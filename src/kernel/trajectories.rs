//! Trajectories of several chains that move together: one call of the model evaluates the gradients of all.

use std::ops::Range;
use std::slice::from_ref;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use rand::{Rng, RngExt};

use super::block::Graded;
use super::end_gradients::{EndGradients, blended, end_weights};
use super::metropolis::{PROPOSAL, acceptances};
use super::preconditioner::Factor;
use super::vector::set_len;
use super::{NonFinite, Stage, Step};
use crate::model::{Coordinates, Differentiable, Gradients};
use crate::num::{
    VECTOR_WIDTH, add_scaled, add_scaled_twice, all_finite, set_blend, set_zero, sum_of_squares,
};
use crate::path::{Ends, Intermediate};
use crate::random::StandardNormal;

/// Trajectories of one chain, or of several that move together. Positions, momenta and gradients are matrices with a
/// row for each chain, stored by columns, so that a register holds one coordinate of neighbouring chains.
#[derive(Debug, Clone, Default)]
pub struct Trajectories {
    pub(super) chains: usize,
    pub(super) positions: DVector<f64>,
    /// Index of each chain's datum.
    data: Vec<usize>,
    /// Length of each chain's leapfrog steps; empty if all are equally long.
    sizes: Vec<f64>,
    pub(super) momenta: DVector<f64>,
    pub(super) gradients: DVector<f64>,
    pub(super) log_densities: Vec<f64>,
    /// Log density of each chain at its point before the last drift.
    pub(super) left: Vec<f64>,
    log_ratios: Vec<f64>,
    /// `-H` at the start. `+inf` if the trajectory has ended, by a fault or because it
    /// [`diverges`](super::vector::diverges) to a point where the model is not finite.
    pub(super) here: Vec<f64>,
    /// `-H` at the end.
    pub(super) there: Vec<f64>,
    pub(super) acceptances: Vec<f64>,
    /// All bits set for a chain that moves, none for a chain that stays. [Noted](Self::note) for each chain before it
    /// [arrives](Self::arrive).
    moved: Vec<u64>,
    uniforms: Vec<f64>,
    /// The bit that each chain flips, for [`GibbsWithGradients`](super::GibbsWithGradients).
    pub(super) flips: Vec<usize>,
    /// The lowest chain that met a non-finite number, with its first such number.
    pub(super) fault: Option<(usize, NonFinite)>,
    /// Log densities and gradients under both ends of the path: of the trajectories' starts before the integration, of
    /// their last points after it.
    arrivals: EndGradients,
    /// Buffer for the row of a chain.
    pub(super) row: DVector<f64>,
}

/// Leapfrog steps at one stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Integration<'k> {
    pub(super) size: f64,
    pub(super) steps: usize,
    pub(super) factor: Option<&'k Factor>,
}

/// A point of a trajectory: its start, or a later one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum At {
    Start,
    Proposal,
}

impl At {
    pub(super) fn quantity(self) -> &'static str {
        match self {
            Self::Start => "log density",
            Self::Proposal => PROPOSAL,
        }
    }
}

impl Trajectories {
    /// Sets the positions to the `active` states, which agree in dimension, and weighs them by the known log densities.
    pub(super) fn start<M: Gradients + Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        factor: Option<&Factor>,
        known: Graded<'_, M::State>,
        active: &[Range<usize>],
    ) {
        self.set_positions(known.states, active);
        let finite = match end_weights(stage.model) {
            // Only `evaluate` keeps a position that overflowed from the model. Known values need no evaluation.
            Some(weights) if known.gradients.has(weights) || self.are_finite() => {
                self.recall(stage, weights, known, active)
            }
            _ => {
                let finite = self.evaluate(stage.model, self.are_finite(), false);
                self.weigh(stage, known, active);
                finite
            }
        };
        self.finish(At::Start, factor, finite);
    }

    /// Sets the position to the state of one chain, and evaluates the log density and gradient there.
    pub(super) fn start_unknown<M: Gradients + Intermediate>(
        &mut self,
        model: &M,
        factor: Option<&Factor>,
        state: &M::State,
    ) {
        self.set_positions(from_ref(state), from_ref(&(0..1)));
        let finite = self.evaluate(model, self.are_finite(), false);
        self.finish(At::Start, factor, finite);
    }

    /// Weighs the active chains, one range of neighbouring chains after another.
    fn weigh<M: Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        known: Graded<'_, M::State>,
        active: &[Range<usize>],
    ) {
        // `there` serves as a buffer here. It gets the energies later.
        let (mut log_ratios, mut here) = (&mut self.log_ratios[..], &mut self.there[..]);
        here.copy_from_slice(&self.log_densities);
        for run in active {
            let (ratios, other_ratios) = log_ratios.split_at_mut(run.len());
            let (densities, others) = here.split_at_mut(run.len());
            let (states, ends) = (&known.states[run.clone()], &mut known.ends[run.clone()]);
            match M::HAS_ENDS {
                true if stage.is_at_rest() => ratios.fill(0.0),
                true => stage.weigh_batch(states, ends, ratios, densities),
                false => stage.weigh_given(states, ends, densities, ratios),
            }
            (log_ratios, here) = (other_ratios, others);
        }
    }

    fn set_positions(&mut self, states: &[impl Coordinates], active: &[Range<usize>]) {
        let chains = active.iter().map(Range::len).sum();
        let dimension = states.first().map_or(0, |state| state.coordinates().len());
        self.data.clear();
        self.fault = None;
        self.set_size(chains, dimension);
        self.here.fill(0.0);
        for (index, state) in active.iter().cloned().flatten().enumerate() {
            let matrix = self.positions.as_mut_slice();
            write_row(
                matrix,
                chains,
                index,
                states[state].coordinates().as_slice(),
            );
            self.data.push(states[state].datum());
        }
    }

    fn set_size(&mut self, chains: usize, dimension: usize) {
        if (self.chains, self.positions.len()) == (chains, chains * dimension) {
            return;
        }
        self.chains = chains;
        for matrix in [&mut self.positions, &mut self.momenta, &mut self.gradients] {
            set_len(matrix, chains * dimension);
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
        self.moved.resize(chains, 0);
    }

    /// Computes log ratios and gradients of the active chains from the values known at the ends of the path. Evaluates
    /// the unknown values. Returns whether all gradients are finite.
    fn recall<M: Gradients + Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        weights: [f64; 2],
        known: Graded<'_, M::State>,
        active: &[Range<usize>],
    ) -> bool {
        let (chains, dimension) = (self.chains, self.dimension());
        let arrivals = &mut self.arrivals;
        let all_active = chains == known.gradients.len();
        let departures = match all_active {
            true => &mut *known.gradients,
            false => {
                arrivals.set_size(chains, dimension);
                arrivals.load(known.gradients, active);
                &mut *arrivals
            }
        };
        let learned = departures.complete(stage.model, weights, (&self.data, &self.positions));
        let to = (&mut self.log_densities[..], &mut self.gradients);
        let finite = blend_ends(stage.model, weights, departures, to);
        for (index, chain) in active.iter().cloned().flatten().enumerate() {
            let (found, ends) = (departures.ends_of(index), &mut known.ends[chain]);
            *ends = ends.or_base(|| found.base).or_target(|| found.target);
            self.log_ratios[index] = match stage.is_at_rest() {
                true => 0.0,
                false => stage.weigh(&known.states[chain], ends).0,
            };
        }
        // `store` writes only rows that count as moved, so all rows count here.
        if learned && !all_active {
            self.moved.fill(u64::MAX);
            known.gradients.store(arrivals, active, &self.moved);
        }
        finite
    }

    /// Integrates the trajectories from the positions and momenta, and computes energies and acceptance probabilities.
    pub(super) fn integrate<M: Gradients + Intermediate>(
        &mut self,
        model: &M,
        integration: Integration<'_>,
    ) {
        let (size, steps) = (integration.size, integration.steps);
        self.take_energies();
        // A chain with a fault at its start keeps `+inf`.
        for (here, there) in self.here.iter_mut().zip(&self.there) {
            *here = if *here < f64::INFINITY { *there } else { *here };
        }
        for step in 1..=steps {
            if self.here.iter().all(|&here| here == f64::INFINITY) {
                break;
            }
            // The half kicks at the end of one step and the start of the next are made as one.
            let share = if step == 1 { 0.5 } else { 1.0 };
            let within = self.kick_and_drift(share, size, integration.factor);
            std::mem::swap(&mut self.left, &mut self.log_densities);
            let finite = self.evaluate(model, within, step == steps);
            self.finish(At::Proposal, integration.factor, finite);
        }
        self.kick(0.5, size);
        self.take_energies();
        // A trajectory that has ended early has `here` at `+inf`, which gives acceptance 0.
        self.acceptances.clone_from(&self.there);
        acceptances(&self.here, &mut self.acceptances);
    }

    pub(super) fn dimension(&self) -> usize {
        self.positions.len() / self.chains
    }

    pub(super) fn are_finite(&self) -> bool {
        all_finite(self.positions.as_slice())
    }

    /// Decides whether a chain moves, by the uniform number that it drew.
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

    /// Draws a standard normal momentum.
    pub(super) fn draw_momentum<R: Rng + ?Sized>(&mut self, chain: usize, rng: &mut R) {
        let normal = StandardNormal::get();
        let momenta = self.momenta.as_mut_slice();
        if self.chains == 1 {
            return normal.fill(momenta, rng);
        }
        for column in momenta.chunks_exact_mut(self.chains) {
            column[chain] = normal.draw(rng);
        }
    }

    /// Draws the uniform number that decides whether a chain moves.
    pub(super) fn draw_uniform<R: Rng + ?Sized>(&mut self, chain: usize, rng: &mut R) {
        self.uniforms[chain] = rng.random();
    }

    /// Returns the log ratio of a chain, or its fault.
    pub(super) fn log_ratio(
        &self,
        chain: usize,
        state: &impl Coordinates,
    ) -> Result<f64, NonFinite> {
        let log_ratio = NonFinite::check_log_density("log ratio", self.log_ratios[chain])
            .map_err(|fault| fault.at_state(state.coordinates().as_slice()))?;
        self.check(chain)?;
        Ok(log_ratio)
    }

    /// Returns the fault of a chain, if it has one.
    pub(super) fn check(&self, chain: usize) -> Result<(), NonFinite> {
        match self.fault {
            Some((faulty, fault)) if faulty == chain => Err(fault),
            _ => Ok(()),
        }
    }

    /// Notes whether a chain moves.
    pub(super) fn note(&mut self, chain: usize, moves: bool) {
        self.moved[chain] = if moves { u64::MAX } else { 0 };
    }

    /// Moves the accepted chains to the ends of their trajectories. Stores the log densities and gradients found there.
    pub(super) fn arrive<M: Gradients + Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        known: Graded<'_, M::State>,
        active: &[Range<usize>],
    ) {
        let places = active.iter().cloned().flatten().enumerate();
        for (index, chain) in places.filter(|(index, _)| self.moved[*index] != 0) {
            let state = known.states[chain].coordinates_mut();
            match self.chains {
                1 => std::mem::swap(state, &mut self.positions),
                _ => {
                    let positions = self.positions.as_slice();
                    read_row(positions, self.chains, index, state);
                }
            }
            known.ends[chain] = match M::HAS_ENDS {
                true => self.arrivals.ends_of(index),
                false => Ends::at_beta(self.log_densities[index], stage.beta),
            };
        }
        if end_weights(stage.model).is_some() {
            let arrivals = &mut self.arrivals;
            known.gradients.store(arrivals, active, &self.moved);
        }
    }

    /// Writes the log densities and gradients at the positions. `within` says whether all positions are finite. Each
    /// chain gets the numbers that it would get alone. If the positions are the `last` of their trajectories, the
    /// values at the ends of the path are stored too. Returns whether all gradients are finite.
    pub(super) fn evaluate<M: Gradients + Intermediate>(
        &mut self,
        model: &M,
        within: bool,
        last: bool,
    ) -> bool {
        let beyond = match within {
            true => Vec::new(),
            false => self.set_aside_overflows(),
        };
        let (chains, dimension) = (self.chains, self.dimension());
        let weights = end_weights(model).filter(|_| last);
        if let Some(weights) = weights {
            self.arrivals.clear(chains, dimension, weights);
        }
        let finite = match weights {
            _ if beyond.len() == chains => {
                set_zero(self.gradients.as_mut_slice());
                self.log_densities.fill(f64::NEG_INFINITY);
                true
            }
            Some(weights) => {
                self.arrivals
                    .complete(model, weights, (&self.data, &self.positions));
                let to = (&mut self.log_densities[..], &mut self.gradients);
                blend_ends(model, weights, &self.arrivals, to)
            }
            None => {
                self.evaluate_whole(model);
                all_finite(self.gradients.as_slice())
            }
        };
        for (chain, position) in beyond {
            write_row(self.positions.as_mut_slice(), chains, chain, &position);
            self.log_densities[chain] = f64::NEG_INFINITY;
            self.arrivals.forget(chain);
        }
        finite
    }

    /// Writes the log densities and gradients at finite positions.
    fn evaluate_whole<M: Gradients>(&mut self, model: &M) {
        let (chains, dimension) = (self.chains, self.dimension());
        set_zero(self.gradients.as_mut_slice());
        if chains == 1 && !model.evaluates_batches() {
            let (position, gradient) = (&self.positions, &mut self.gradients);
            let rows = model.rows(&self.data);
            self.log_densities[0] = rows.accumulate_gradient(position, 1.0, gradient);
            return;
        }
        let (positions, gradients) = (self.positions.as_slice(), self.gradients.as_mut_slice());
        let positions = DMatrixView::from_slice(positions, chains, dimension);
        let gradients = DMatrixViewMut::from_slice(gradients, chains, dimension);
        let log_densities = &mut self.log_densities;
        let rows = model.rows(&self.data);
        rows.accumulate_gradients(positions, 1.0, gradients, log_densities);
    }

    /// Sets a length of the leapfrog steps for each chain, by its datum; one length for all if `size_of` returns `None`.
    pub(super) fn set_sizes(&mut self, size_of: impl Fn(usize) -> Option<f64>) {
        self.sizes.clear();
        self.sizes
            .extend(self.data.iter().map_while(|&datum| size_of(datum)));
    }

    /// Computes `p <- p + share size g`, with g the gradient and the chain's own size if it has one.
    fn kick(&mut self, share: f64, size: f64) {
        let (momenta, gradients) = (self.momenta.as_mut_slice(), self.gradients.as_slice());
        if self.sizes.is_empty() {
            return add_scaled(momenta, share * size, gradients);
        }
        let columns = momenta.chunks_exact_mut(self.chains);
        for (momenta, gradients) in columns.zip(gradients.chunks_exact(self.chains)) {
            for ((p, g), size) in momenta.iter_mut().zip(gradients).zip(&self.sizes) {
                *p += share * size * g;
            }
        }
    }

    /// Computes `p <- p + share size g`, with g the gradient, then `x <- x + size L p`. Returns whether all positions
    /// are finite.
    fn kick_and_drift(&mut self, share: f64, size: f64, factor: Option<&Factor>) -> bool {
        if factor.is_none() && self.sizes.is_empty() {
            let (momenta, gradients) = (self.momenta.as_mut_slice(), self.gradients.as_slice());
            let positions = self.positions.as_mut_slice();
            return add_scaled_twice((momenta, share * size, gradients), (positions, size));
        }
        self.kick(share, size);
        let (momenta, positions) = (self.momenta.as_slice(), self.positions.as_mut_slice());
        let Some(factor) = factor else {
            let columns = positions.chunks_exact_mut(self.chains);
            for (positions, momenta) in columns.zip(momenta.chunks_exact(self.chains)) {
                for ((x, p), size) in positions.iter_mut().zip(momenta).zip(&self.sizes) {
                    *x += size * p;
                }
            }
            return self.are_finite();
        };
        let velocity = &mut self.row;
        set_len(velocity, momenta.len() / self.chains);
        for chain in 0..self.chains {
            read_row(momenta, self.chains, chain, velocity);
            factor.times(velocity);
            let size = self.sizes.get(chain).copied().unwrap_or(size);
            let row = positions.iter_mut().skip(chain);
            for (x, v) in row.step_by(self.chains).zip(velocity.as_slice()) {
                *x += size * v;
            }
        }
        self.are_finite()
    }

    /// Computes `-H` of each chain from its log density and its momentum.
    fn take_energies(&mut self) {
        let (momenta, energies) = (self.momenta.as_slice(), &mut self.there);
        if momenta.len() < VECTOR_WIDTH * self.chains {
            // Sums in the order of a single chain.
            energies.fill(0.0);
            for column in momenta.chunks_exact(self.chains) {
                for (sum, p) in energies.iter_mut().zip(column) {
                    *sum += p * p;
                }
            }
        } else if self.chains == 1 {
            energies[0] = sum_of_squares(momenta);
        } else {
            set_len(&mut self.row, momenta.len() / self.chains);
            for (chain, energy) in energies.iter_mut().enumerate() {
                read_row(momenta, self.chains, chain, &mut self.row);
                *energy = sum_of_squares(self.row.as_slice());
            }
        }
        for (energy, log_density) in energies.iter_mut().zip(&self.log_densities) {
            *energy = log_density - 0.5 * *energy;
        }
    }
}

#[inline]
pub(super) fn write_row(matrix: &mut [f64], rows: usize, row: usize, values: &[f64]) {
    if rows == 1 {
        return matrix.copy_from_slice(values);
    }
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
    let values = values.as_mut_slice();
    if rows == 1 {
        return values.copy_from_slice(matrix);
    }
    for (value, x) in values.iter_mut().zip(row(matrix, rows, index)) {
        *value = x;
    }
}

/// Sets log densities and `gradients` to the weighted sums of the values `known` at the ends of the path. Returns
/// whether all gradients are finite.
fn blend_ends<M: Intermediate>(
    model: &M,
    weights: [f64; 2],
    known: &EndGradients,
    (log_densities, gradients): (&mut [f64], &mut DVector<f64>),
) -> bool {
    let [bases, targets] = known.0.each_ref().map(|end| &end.log_densities);
    let ends = bases.iter().zip(targets);
    for (to, (&base, &target)) in log_densities.iter_mut().zip(ends) {
        *to = blended(model, weights, Ends { base, target });
    }
    let gradients = gradients.as_mut_slice();
    let ends = known.0.each_ref().map(|end| end.gradients.as_slice());
    if weights.iter().all(|&weight| weight > 0.0) {
        return set_blend(gradients, weights, ends);
    }
    set_zero(gradients);
    let weighs = |(weight, _): &(f64, _)| *weight > 0.0;
    for (weight, end) in weights.into_iter().zip(ends).filter(weighs) {
        add_scaled(gradients, weight, end);
    }
    all_finite(gradients)
}
