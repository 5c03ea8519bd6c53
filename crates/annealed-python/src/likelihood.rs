//! A user's function as a model of batches.

use std::time::Instant;

use annealed::Result;
use annealed::model::{BatchModel, BatchOutput, Differentiable, UnnormalizedModel};
use annealed::nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::numbers;
use crate::desk::{Calls, Desk, Values};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A user's function. It returns log densities, and gradients if it has any.
pub struct PythonFunction {
    /// A function of the package. For states (n, d) it returns checked log densities (n,) and gradients (n, d) or None.
    pub function: Py<PyAny>,
    /// Number of coordinates of a state, d.
    pub dimension: usize,
}

impl PythonFunction {
    /// Calls the function.
    pub fn call(&self, py: Python<'_>, states: Vec<f64>, n: usize) -> PyResult<Values> {
        let states = PyArray1::from_vec(py, states).reshape([n, self.dimension])?;
        let found = self.function.bind(py).call1((states,))?;
        let (values, gradients): (PyReadonlyArray1<'_, f64>, Option<Bound<'_, PyArray2<f64>>>) =
            found.extract()?;
        let gradients: Option<PyReadonlyArray2<'_, f64>> = gradients.map(|array| array.readonly());
        let gradients = gradients.map_or(Vec::new(), |rows| match rows.as_slice() {
            Ok(rows) => rows.to_vec(),
            Err(_) => rows.as_array().iter().copied().collect(),
        });
        Ok((numbers(&values), gradients))
    }
}

type Function<'c, O> = Box<dyn Fn(&[f64], usize) -> Result<O, Failed> + Send + Sync + 'c>;

/// A model that evaluates batches of states by a user's function. `epsilon` is the machine epsilon of the function's
/// number type.
pub struct Likelihood<'c, O> {
    model: BatchModel<Function<'c, O>, O>,
    epsilon: f64,
    shift: f64,
}

impl<O> Likelihood<'_, O> {
    /// Adds a constant to all log densities.
    pub fn shifted(self, shift: f64) -> Self {
        Self { shift, ..self }
    }
}

impl<'c> Likelihood<'c, Vec<f64>> {
    /// Creates the model of a function without gradients.
    pub fn of_values(dimension: usize, epsilon: f64, calls: &'c Calls) -> Result<Self> {
        let function: Function<'c, _> =
            Box::new(|states, n| calls.call(states, n).map(|(values, _)| values));
        let model = BatchModel::of_values(dimension, function)?;
        let shift = 0.0;
        Ok(Self {
            model,
            epsilon,
            shift,
        })
    }
}

impl<'c> Likelihood<'c, Values> {
    /// Creates the model of a function with gradients.
    pub fn of_gradients(dimension: usize, epsilon: f64, calls: &'c Calls) -> Result<Self> {
        let function: Function<'c, _> = Box::new(|states, n| calls.call(states, n));
        let model = BatchModel::new(dimension, function)?;
        let shift = 0.0;
        Ok(Self {
            model,
            epsilon,
            shift,
        })
    }
}

impl<O: BatchOutput<Number = f64>> UnnormalizedModel for Likelihood<'_, O> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.shift + self.model.log_density(state)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.model.state_dimension()
    }

    fn evaluates_batches(&self) -> bool {
        true
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        self.model.log_densities(states, log_densities);
        add(self.shift, log_densities);
    }

    fn epsilon(&self) -> f64 {
        self.epsilon
    }

    fn failure(&self) -> Option<annealed::error::Failure> {
        self.model.failure()
    }
}

impl Differentiable for Likelihood<'_, Values> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.shift + self.model.accumulate_gradient(state, scale, gradient)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        (self.model).accumulate_gradients(states, scale, gradients, log_densities);
        add(self.shift, log_densities);
    }
}

fn add(shift: f64, values: &mut [f64]) {
    values.iter_mut().for_each(|value| *value += shift);
}

/// Calls the function `calls` times, as in a run, and returns the seconds of each call. Only tests use this.
#[pyfunction]
pub fn _time_calls<'py>(
    py: Python<'py>,
    function: Py<PyAny>,
    states: PyReadonlyArray2<'py, f64>,
    calls: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let (n, dimension) = (states.as_array().nrows(), states.as_array().ncols());
    let rows: Vec<f64> = states.as_array().iter().copied().collect();
    let function = PythonFunction {
        function,
        dimension,
    };
    let call = |py: Python<'_>, states, n| function.call(py, states, n);
    let work = |desk: &Calls| {
        let mut seconds = Vec::with_capacity(calls);
        for _ in 0..calls {
            let begun = Instant::now();
            if desk.call(&rows, n).is_err() {
                break;
            }
            seconds.push(begun.elapsed().as_secs_f64());
        }
        Ok(seconds)
    };
    Desk::new(Some(1), None)?.run(py, &call, work, |py, seconds| {
        Ok(PyArray1::from_vec(py, seconds).into_any())
    })
}
