//! Stores results as bytes in pickles of Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The content of a result that can be pickled.
pub trait Kept: Serialize + DeserializeOwned {
    /// Creates the Python object with this content.
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

/// The value of `__reduce__`: a function that unpickling calls, and its argument.
pub type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>,));

/// Returns the value for `__reduce__`: the static method `_restore` of a class, and bytes.
pub fn reduce<'py, C: pyo3::PyTypeInfo>(
    py: Python<'py>,
    kept: &impl Kept,
) -> PyResult<Reduced<'py>> {
    let bytes = rmp_serde::to_vec_named(kept);
    let bytes = bytes.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let restore = py.get_type::<C>().getattr("_restore")?;
    Ok((restore, (PyBytes::new(py, &bytes),)))
}

/// Returns the object of a pickle.
pub fn restore<'py, K: Kept>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let kept: Result<K, _> = rmp_serde::from_slice(bytes);
    kept.map_err(|error| PyValueError::new_err(format!("a damaged pickle: {error}")))?
        .object(py)
}
