//! Models from closures that evaluate several states at once, as tensor libraries do.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use num_traits::{Float, Zero};

use crate::error::{Failure, demand_dimension};
use crate::model::{Differentiable, UnnormalizedModel};
use crate::{Error, Result};

/// The error of a closure. The operator `?` converts any error into it.
type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A model over `R^d` from a closure that evaluates a whole batch, for example with an array library, automatic
/// differentiation or a device. The numbers may be `f32`, `f64` or another [`Float`].
///
/// [`new`](Self::new) takes a closure with gradients, [`of_values`](Self::of_values) one without. Kernels that move
/// chains together call it once per stage and block, or once per leapfrog step. A single state is a batch of one.
///
/// The first rows of the first batch are evaluated once more in a smaller batch: a closure whose log densities depend on
/// other rows, as by a mean over the wrong axis, is an error.
///
/// The closure returns any error by `?`. The run then ends with an [`Error::Model`] that names chains, stage and beta.
/// The model never calls its closure again: create another model to go on.
///
/// ```
/// use annealed::prelude::*;
///
/// // exp(-|x|^4) in single precision; a library would compute all rows by a few calls.
/// let target = BatchModel::new(2, |states: &[f32], _n| {
///     let square = |x: &[f32]| x.iter().map(|x| x * x).sum::<f32>();
///     let log_densities = states.chunks(2).map(|x| -square(x).powi(2)).collect();
///     let slopes = |x: &[f32]| [x[0], x[1]].map(|xi| -4.0 * square(x) * xi);
///     let gradients = states.chunks(2).flat_map(slopes).collect();
///     Ok((log_densities, gradients))
/// })?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, target);
/// let run = Ais::new(&path, Hmc::new(0.3, 3)?).schedule(Schedule::linear(50)?).run()?;
/// # let exact = (std::f64::consts::PI.powf(1.5) / 2.0).ln();
/// # assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Clone)]
pub struct BatchModel<F, O> {
    dimension: usize,
    function: F,
    failure: OnceLock<Failure>,
    /// Set once some rows have been evaluated in a smaller batch, too.
    compared: OnceLock<()>,
    output: PhantomData<fn() -> O>,
}

/// The values that a closure of a [`BatchModel`] returns: log densities, or a pair of log densities and gradients.
pub trait BatchOutput: sealed::Sealed {
    /// The type of numbers.
    type Number: Float + Into<f64>;

    /// Returns log densities, and gradients if there are any.
    fn into_parts(self) -> (Vec<Self::Number>, Option<Vec<Self::Number>>);
}

impl<T: Float + Into<f64>> BatchOutput for Vec<T> {
    type Number = T;

    fn into_parts(self) -> (Vec<T>, Option<Vec<T>>) {
        (self, None)
    }
}

impl<T: Float + Into<f64>> BatchOutput for (Vec<T>, Vec<T>) {
    type Number = T;

    fn into_parts(self) -> (Vec<T>, Option<Vec<T>>) {
        (self.0, Some(self.1))
    }
}

mod sealed {
    pub trait Sealed {}

    impl<T> Sealed for Vec<T> {}

    impl<T> Sealed for (Vec<T>, Vec<T>) {}
}

impl<F, T> BatchModel<F, (Vec<T>, Vec<T>)>
where
    T: Float + Into<f64>,
    F: Fn(&[T], usize) -> Result<(Vec<T>, Vec<T>), Failed>,
{
    /// Creates a model over states of `dimension` coordinates d. The closure gets n states, row by row in one slice of
    /// n d numbers. It returns n log densities and the n d coordinates of their gradients in the same order.
    ///
    /// A log density may be `-inf`; its gradient then does not count. A state with a coordinate beyond the range of the
    /// number type counts as off the support. The closure gets a row of zeros in its place.
    ///
    /// # Errors
    /// A `dimension` of 0 or above 2^30.
    pub fn new(dimension: usize, function: F) -> Result<Self> {
        Self::of(dimension, function)
    }
}

impl<F, T> BatchModel<F, Vec<T>>
where
    T: Float + Into<f64>,
    F: Fn(&[T], usize) -> Result<Vec<T>, Failed>,
{
    /// Creates a model without gradients, for [`Metropolis`](crate::kernel::Metropolis) kernels. The closure returns
    /// the log densities alone; see [`new`](Self::new).
    ///
    /// ```
    /// use annealed::prelude::*;
    ///
    /// let sum = |x: &[f64]| -x.iter().map(|x| x.abs()).sum::<f64>();
    /// let target = BatchModel::of_values(2, move |states: &[f64], _n| {
    ///     Ok(states.chunks(2).map(sum).collect())
    /// })?;
    /// let path = GeometricPath::new(Gaussian::standard(2)?, target);
    /// let run = Ais::new(&path, RandomWalkMetropolis::new(1.0)?).run()?;
    /// # assert!((run.log_z() - 4f64.ln()).abs() < 4.0 * run.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_values(dimension: usize, function: F) -> Result<Self> {
        Self::of(dimension, function)
    }
}

impl<F, O> BatchModel<F, O> {
    fn of(dimension: usize, function: F) -> Result<Self> {
        Error::check_count("dimension", dimension, 1)?;
        Ok(Self {
            dimension,
            function,
            failure: OnceLock::new(),
            compared: OnceLock::new(),
            output: PhantomData,
        })
    }
}

impl<F, O> BatchModel<F, O>
where
    O: BatchOutput,
    F: Fn(&[O::Number], usize) -> Result<O, Failed>,
{
    /// Returns the gradients of states given row by row, and writes their log densities; NaN after a failure.
    fn evaluate(
        &self,
        mut states: Vec<O::Number>,
        log_densities: &mut [f64],
    ) -> Option<Vec<O::Number>> {
        let beyond = self.blank_overflows(&mut states);
        let found = match self.failure.get() {
            None => self.call(&states, log_densities.len()),
            Some(_) => None,
        };
        let Some((values, gradients)) = found else {
            log_densities.fill(f64::NAN);
            return None;
        };
        for (log_density, value) in log_densities.iter_mut().zip(values) {
            *log_density = value.into();
        }
        beyond
            .into_iter()
            .for_each(|row| log_densities[row] = f64::NEG_INFINITY);
        gradients
    }

    /// Sets to zero each row that overflowed when it was rounded, and returns the indices of these rows.
    fn blank_overflows(&self, states: &mut [O::Number]) -> Vec<usize> {
        let mut beyond = Vec::new();
        if states.iter().all(|x| x.is_finite()) {
            return beyond;
        }
        for (row, state) in states.chunks_exact_mut(self.dimension).enumerate() {
            if !state.iter().all(|x| x.is_finite()) {
                state.fill(<O::Number as Zero>::zero());
                beyond.push(row);
            }
        }
        beyond
    }

    /// Calls the closure. Stores the first failure; a wrong number of returned values is a failure too.
    fn call(&self, states: &[O::Number], n: usize) -> Option<Parts<O::Number>> {
        let checked = self.checked(states, n).and_then(|parts| {
            if n > 1 && self.compared.set(()).is_ok() {
                self.compare(states, &parts.0)?;
            }
            Ok(parts)
        });
        match checked {
            Ok(parts) => Some(parts),
            Err(failure) => {
                // Another thread may have failed before; the first failure stays.
                let _ = self.failure.set(Arc::from(failure));
                None
            }
        }
    }

    /// Calls the closure, and refuses a wrong number of returned values.
    fn checked(&self, states: &[O::Number], n: usize) -> Result<Parts<O::Number>, Failed> {
        let (values, gradients) = (self.function)(states, n)?.into_parts();
        Error::check_dimension("log densities of a batch", values.len(), n)?;
        if let Some(gradients) = &gradients {
            Error::check_dimension("gradients of a batch", gradients.len(), states.len())?;
        }
        Ok((values, gradients))
    }

    /// Refuses log densities of a batch that depend on its other rows: some rows are evaluated in a smaller batch.
    fn compare(&self, states: &[O::Number], values: &[O::Number]) -> Result<(), Failed> {
        let few = COMPARED.min(values.len() - 1);
        let (again, _) = self.checked(&states[..few * self.dimension], few)?;
        let tolerance = 10.0 * O::Number::epsilon().into().sqrt();
        for (row, (one, other)) in values.iter().zip(again).enumerate() {
            let (one, other): (f64, f64) = ((*one).into(), other.into());
            let apart = (one - other).abs() > tolerance * (1.0 + one.abs());
            let n = values.len();
            let found = format!("{one} in a batch of {n}, {other} in a batch of {few}");
            let expected = "log densities that do not depend on other rows of the batch";
            Error::check(!apart, "model", format!("row {row}: {found}"), expected)?;
        }
        Ok(())
    }

    fn row(&self, state: &DVector<f64>) -> impl Iterator<Item = O::Number> {
        demand_dimension("a state", state.len(), self.dimension);
        state.iter().map(|&x| rounded(x))
    }

    /// Evaluates one state, as a batch of one.
    fn evaluate_one(&self, state: &DVector<f64>) -> (f64, Option<Vec<O::Number>>) {
        SINGLE.set(SINGLE.get() + 1);
        let mut log_density = [0.0];
        let row = self.row(state).collect();
        let gradient = self.evaluate(row, &mut log_density);
        (log_density[0], gradient)
    }
}

/// Most rows that are evaluated in a smaller batch, too.
const COMPARED: usize = 3;

thread_local! {
    static SINGLE: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of states that batch models have evaluated one at a time on this thread.
pub(crate) fn single_states() -> u64 {
    SINGLE.get()
}

type Parts<T> = (Vec<T>, Option<Vec<T>>);

/// Returns the nearest number of the type; infinite if `x` is beyond its range.
fn rounded<T: Float>(x: f64) -> T {
    T::from(x).unwrap_or_else(T::nan)
}

impl<F, O> UnnormalizedModel for BatchModel<F, O>
where
    O: BatchOutput,
    F: Fn(&[O::Number], usize) -> Result<O, Failed>,
{
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.evaluate_one(state).0
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.dimension)
    }

    fn evaluates_batches(&self) -> bool {
        true
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        let mut rows = Vec::with_capacity(states.len() * self.dimension);
        for state in states {
            rows.extend(self.row(state));
        }
        self.evaluate(rows, log_densities);
    }

    /// Returns the epsilon of the closure's number type.
    fn epsilon(&self) -> f64 {
        O::Number::epsilon().into()
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }
}

impl<F, T> Differentiable for BatchModel<F, (Vec<T>, Vec<T>)>
where
    T: Float + Into<f64>,
    F: Fn(&[T], usize) -> Result<(Vec<T>, Vec<T>), Failed>,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (log_density, found) = self.evaluate_one(state);
        if let Some(found) = found.filter(|_| log_density > f64::NEG_INFINITY) {
            for (to, slope) in gradient.iter_mut().zip(found) {
                *to += scale * slope.into();
            }
        }
        log_density
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let d = self.dimension;
        demand_dimension("a state", states.ncols(), d);
        let found = self.evaluate(rows_of(states), log_densities);
        let Some(mut found) = found else {
            return;
        };
        for (row, log_density) in found.chunks_exact_mut(d).zip(log_densities) {
            if *log_density == f64::NEG_INFINITY {
                row.fill(T::zero());
            }
        }
        for rows in tiles(states.nrows()) {
            for (coordinate, mut column) in gradients.column_iter_mut().enumerate() {
                let column = &mut column.as_mut_slice()[rows.clone()];
                for (row, to) in rows.clone().zip(column) {
                    *to += scale * found[row * d + coordinate].into();
                }
            }
        }
    }
}

/// Returns the numbers of a matrix row after row, rounded.
fn rows_of<T: Float>(states: DMatrixView<'_, f64>) -> Vec<T> {
    let d = states.ncols();
    let mut rows = vec![T::zero(); states.len()];
    for tile in tiles(states.nrows()) {
        for (coordinate, column) in states.column_iter().enumerate() {
            let column = &column.as_slice()[tile.clone()];
            for (row, &x) in tile.clone().zip(column) {
                rows[row * d + coordinate] = rounded(x);
            }
        }
    }
    rows
}

/// Cuts rows into ranges of a few rows, so that a transposition writes to few places at a time.
fn tiles(rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    const ROWS: usize = 16;
    (0..rows)
        .step_by(ROWS)
        .map(move |first| first..rows.min(first + ROWS))
}

crate::num::debug_by_fields! { BatchModel for [F, O] BatchModel<F, O> { dimension, failure } }
