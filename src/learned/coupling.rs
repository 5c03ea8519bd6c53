//! Invertible maps made of two coupling layers.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::learned::network::{Network, Pass, Sizes, Units, set_shape};
use crate::learned::spline::{self, Spline};
use crate::{Error, Result};

/// The form of a coupling layer: a network of rectified units moves one half b of the coordinates, given the other half
/// a.
///
/// `b' = g(b; a)` with a monotone rational-quadratic spline g for each coordinate of b, on `[-8, 8]`; outside it
/// `b' = b`. One layer can split a mode. Source: neural spline flows (Durkan, Bekasov, Murray and Papamakarios 2019).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Coupling {
    /// Number of hidden units.
    pub hidden: usize,
    /// Number K of a spline's bins. The network has 3 K - 1 outputs for each coordinate of b.
    pub bins: usize,
}

impl Coupling {
    /// Returns the sizes of the two layers' networks. The first moves the second half of the coordinates.
    pub(super) fn sizes(self, dimension: usize, context: usize) -> Result<[Sizes; 2]> {
        Error::check_count("bins", self.bins, 1)?;
        let expected = "at least 2, since one half of the coordinates moves the other";
        Error::check(dimension >= 2, "dimension", dimension, expected)?;
        Error::check_at_least("hidden units", self.hidden, 1)?;
        Ok([0, 1].map(|layer| {
            let (given, moved) = halves(dimension, layer);
            Sizes {
                inputs: given.len().saturating_add(context),
                hidden: self.hidden,
                outputs: spline::numbers(self.bins).saturating_mul(moved.len()),
            }
        }))
    }
}

/// Returns the coordinates that a layer reads, and the coordinates that it moves.
fn halves(dimension: usize, layer: usize) -> (Range<usize>, Range<usize>) {
    let (first, second) = (0..dimension / 2, dimension / 2..dimension);
    match layer {
        0 => (first, second),
        _ => (second, first),
    }
}

/// An invertible map T of `R^d`. One coupling layer moves the second half of the coordinates given the first half,
/// another moves the first half given the second. With T's Jacobian J, `log |det J|` is the sum of all log slopes.
#[derive(Debug, Clone, PartialEq)]
pub struct InvertibleMap {
    coupling: Coupling,
    dimension: usize,
    networks: [Network; 2],
}

impl InvertibleMap {
    /// Creates the identity, from which training starts. The hidden units are random, and their output weights are 0.
    ///
    /// # Errors
    /// A dimension below 2; no hidden units; no bins.
    pub fn new<R: Rng + ?Sized>(coupling: Coupling, dimension: usize, rng: &mut R) -> Result<Self> {
        Self::with_context(coupling, dimension, 0, rng)
    }

    pub(super) fn with_context<R: Rng + ?Sized>(
        coupling: Coupling,
        dimension: usize,
        context: usize,
        rng: &mut R,
    ) -> Result<Self> {
        let sizes = coupling.sizes(dimension, context)?;
        sizes[0].check_size(2)?;
        Ok(Self {
            coupling,
            dimension,
            networks: sizes.map(|sizes| sizes.initialize_to_zero(rng)),
        })
    }

    /// Creates the map with these `parameters` of its layers. The first layer moves the second half of the coordinates.
    ///
    /// # Errors
    /// As [`new`](Self::new); another number of parameters; parameters that are not finite.
    pub fn from_parameters(
        coupling: Coupling,
        dimension: usize,
        parameters: [Vec<f64>; 2],
    ) -> Result<Self> {
        Self::from_parts(coupling, dimension, 0, parameters)
    }

    fn from_parts(
        coupling: Coupling,
        dimension: usize,
        context: usize,
        [first, second]: [Vec<f64>; 2],
    ) -> Result<Self> {
        let sizes = coupling.sizes(dimension, context)?;
        Ok(Self {
            coupling,
            dimension,
            networks: [
                sizes[0].with_parameters(first)?,
                sizes[1].with_parameters(second)?,
            ],
        })
    }

    pub(super) fn given(&self, observation: &[f64]) -> Self {
        let networks = self.networks.each_ref();
        Self {
            networks: networks.map(|network| network.given(observation)),
            ..*self
        }
    }

    /// Returns the form of the layers.
    pub fn coupling(&self) -> Coupling {
        self.coupling
    }

    /// Returns the dimension d of the states.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    pub(super) fn context(&self) -> usize {
        self.networks[0].sizes.inputs - self.dimension / 2
    }

    /// Returns the weights and biases of both layers.
    pub fn parameters(&self) -> [&[f64]; 2] {
        self.networks
            .each_ref()
            .map(|network| &network.parameters[..])
    }

    pub(super) fn parameters_mut(&mut self) -> [&mut [f64]; 2] {
        self.networks
            .each_mut()
            .map(|network| &mut network.parameters[..])
    }

    /// Returns `T(z)` and `log |det J|`, with T's Jacobian J at z.
    ///
    /// # Errors
    /// A state of another length; a map of amortised transitions, which needs an observation too.
    pub fn apply(&self, state: &DVector<f64>) -> Result<(DVector<f64>, f64)> {
        self.check_state(state)?;
        let left = DMatrix::from_column_slice(state.len(), 1, state.as_slice());
        let (mut reached, mut passes) = (left.clone(), <[Pass; 2]>::default());
        self.forward(&left, &mut reached, &mut passes);
        let log_det = passes.iter().map(|pass| pass.log_volume(0)).sum();
        Ok((reached.column(0).into_owned(), log_det))
    }

    /// Returns the z with `T(z)` equal to `reached`.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn invert(&self, reached: &DVector<f64>) -> Result<DVector<f64>> {
        self.check_state(reached)?;
        let mut state = DMatrix::from_column_slice(reached.len(), 1, reached.as_slice());
        let (mut units, mut numbers) = (Units::default(), Vec::new());
        for layer in [1, 0] {
            self.read(layer, &state, &mut units);
            let (_, moved) = halves(self.dimension, layer);
            for (row, i) in moved.enumerate() {
                let spline = self.spline(layer, &units, (row, 0), &mut numbers);
                state[i] = spline.invert(state[i]);
            }
        }
        Ok(state.column(0).into_owned())
    }

    fn check_state(&self, state: &DVector<f64>) -> Result<()> {
        Error::check_dimension("observation of the map", self.context(), 0)?;
        Error::check_dimension("state", state.len(), self.dimension)
    }

    /// Writes `T(z)` for each column z of `left` to the first d rows of `reached`. The rows below, which contain an
    /// observation, stay unchanged.
    pub(super) fn forward(
        &self,
        left: &DMatrix<f64>,
        reached: &mut DMatrix<f64>,
        passes: &mut [Pass],
    ) {
        let d = self.dimension;
        let mut numbers = Vec::new();
        reached.rows_mut(0, d).copy_from(&left.rows(0, d));
        for (layer, pass) in passes.iter_mut().enumerate() {
            self.read(layer, reached, &mut pass.units);
            let (_, moved) = halves(d, layer);
            set_shape(&mut pass.log_deviations, moved.len(), left.ncols());
            for (k, log_slope) in pass.log_deviations.iter_mut().enumerate() {
                let (row, j) = (k % moved.len(), k / moved.len());
                let state = &mut reached[(moved.start + row, j)];
                let spline = self.spline(layer, &pass.units, (row, j), &mut numbers);
                (*state, *log_slope) = spline.apply(*state);
            }
        }
    }

    /// Backpropagates from `T(z)`, and from `log |det J|` with a weight for each column. Adds the parameters'
    /// derivatives to `gradient` and returns the derivatives by z.
    pub(super) fn backward(
        &self,
        [left, reached]: [&DMatrix<f64>; 2],
        passes: &[Pass],
        mut by_state: DMatrix<f64>,
        weights: &[f64],
        gradient: &mut [Vec<f64>],
    ) -> DMatrix<f64> {
        for layer in [1, 0] {
            let (given, _) = halves(self.dimension, layer);
            let units = &passes[layer].units;
            let by_outputs = self.by_outputs(layer, left, units, &mut by_state, weights);
            // The second layer reads what the first one moved.
            let inputs = self.inputs(layer, if layer == 0 { left } else { reached });
            let by_given = self.networks[layer].backward(
                &inputs,
                units,
                &by_outputs,
                &mut gradient[layer],
                given.len(),
            );
            let mut by_read = by_state.rows_range_mut(given);
            by_read += by_given;
        }
        by_state
    }

    /// Computes the parameters of a layer's splines, from the half of the coordinates that the layer reads.
    fn read(&self, layer: usize, states: &DMatrix<f64>, units: &mut Units) {
        let inputs = self.inputs(layer, states);
        self.networks[layer].forward(&inputs, units);
    }

    /// Returns the inputs of a layer's network: the half of the coordinates that it reads, then the observation.
    fn inputs(&self, layer: usize, states: &DMatrix<f64>) -> DMatrix<f64> {
        let (given, _) = halves(self.dimension, layer);
        let context = self.context();
        let half = given.len();
        let mut inputs = DMatrix::zeros(half + context, states.ncols());
        inputs
            .rows_mut(0, half)
            .copy_from(&states.rows_range(given));
        let observed = states.rows(self.dimension, context);
        inputs.rows_mut(half, context).copy_from(&observed);
        inputs
    }

    /// Returns the spline of one moved coordinate (`row`, `column`), and writes its parameters to `numbers`. The
    /// network's outputs have a block for each parameter of a spline, with a row for each moved coordinate.
    fn spline<'n>(
        &self,
        layer: usize,
        units: &Units,
        (row, column): (usize, usize),
        numbers: &'n mut Vec<f64>,
    ) -> Spline<'n> {
        let bins = self.coupling.bins;
        let moved = halves(self.dimension, layer).1.len();
        let outputs = units.outputs.column(column);
        numbers.clear();
        numbers.extend((0..spline::numbers(bins)).map(|k| outputs[k * moved + row]));
        Spline::new(bins, numbers)
    }

    /// Backpropagates `by_state`, the derivatives by the states after a layer, in place through the layer's splines.
    /// Returns the derivatives by the outputs of the layer's network.
    fn by_outputs(
        &self,
        layer: usize,
        left: &DMatrix<f64>,
        units: &Units,
        by_state: &mut DMatrix<f64>,
        weights: &[f64],
    ) -> DMatrix<f64> {
        let (_, moved) = halves(self.dimension, layer);
        let (outputs, columns) = units.outputs.shape();
        let mut by_outputs = DMatrix::zeros(outputs, columns);
        let (mut numbers, mut by_numbers) = (Vec::new(), vec![0.0; outputs / moved.len()]);
        for (j, weight) in weights.iter().enumerate() {
            for row in 0..moved.len() {
                let i = moved.start + row;
                let spline = self.spline(layer, units, (row, j), &mut numbers);
                let by = [by_state[(i, j)], *weight];
                by_state[(i, j)] = spline.differentiate(left[(i, j)], by, &mut by_numbers);
                for (k, by_number) in by_numbers.iter().enumerate() {
                    by_outputs[(k * moved.len() + row, j)] = *by_number;
                }
            }
        }
        by_outputs
    }
}

crate::num::serialize_as! {
    InvertibleMap as map {
        coupling: map.coupling, dimension: map.dimension, context: map.context(),
        parameters: map.parameters(),
    }
}
crate::num::deserialize_checked! {
    InvertibleMap {
        coupling: Coupling,
        dimension: usize,
        context: usize,
        parameters: [Vec<f64>; 2],
    } => Self::from_parts(coupling, dimension, context, parameters)
}

#[cfg(test)]
mod tests;
