//! Bennett's estimate from works of both directions.

use annealed::estimate::{BennettEstimate, WorkUnit};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::convert::numbers;
use crate::errors::OrRaise;
use crate::log_z::doubts;

/// Bennett's estimate: value, error, interval, overlap, effective sample size, warnings with their names.
type Bennett = (f64, f64, (f64, f64), f64, f64, Vec<(String, String)>);

/// Returns the estimate from forward and reverse works in `unit`, at a temperature in kelvin unless the unit is kT.
#[pyfunction]
pub fn free_energy(
    forward: PyReadonlyArray1<'_, f64>,
    reverse: PyReadonlyArray1<'_, f64>,
    unit: &str,
    temperature: Option<f64>,
) -> PyResult<Bennett> {
    let unit = WorkUnit::named(unit, temperature).or_raise()?;
    let (forward, reverse) = (numbers(&forward), numbers(&reverse));
    let found = BennettEstimate::from_works(&forward, &reverse, unit).or_raise()?;
    let (value, error) = found.free_energy();
    let (overlap, ess) = (found.overlap(), found.effective_sample_size());
    let doubts = doubts("annealed.free_energy", &found.warnings());
    let interval = found.free_energy_interval();
    Ok((value, error, interval, overlap, ess, doubts))
}
