//! Bennett's estimate from log weights of both directions.

use annealed::estimate::BennettEstimate;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::convert::numbers;
use crate::errors::OrRaise;
use crate::log_z::doubts;

/// Bennett's estimate: value, error, interval, overlap, effective sample size, warnings with their names.
type Bennett = (f64, f64, (f64, f64), f64, f64, Vec<(String, String)>);

/// Returns the estimate of `log Z_1/Z_0` from forward and reverse log weights.
#[pyfunction]
pub fn free_energy(
    forward: PyReadonlyArray1<'_, f64>,
    reverse: PyReadonlyArray1<'_, f64>,
) -> PyResult<Bennett> {
    let (forward, reverse) = (numbers(&forward), numbers(&reverse));
    let found = BennettEstimate::from_log_weights(&forward, &reverse).or_raise()?;
    let (value, error) = (found.value(), found.standard_error());
    let (overlap, ess) = (found.overlap(), found.effective_sample_size());
    let doubts = doubts("annealed.free_energy", &found.warnings());
    Ok((value, error, found.interval(), overlap, ess, doubts))
}
