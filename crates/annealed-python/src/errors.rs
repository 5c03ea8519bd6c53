//! Errors of the library as exceptions of Python.

use annealed::Error;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;

use crate::words::in_python;

pyo3::create_exception!(
    annealed,
    NonFinite,
    PyValueError,
    "A NaN or an infinity met during a run. The package names the function that returned it."
);

/// Returns the exception with the text of the library's error: an `OSError` if a file cannot be read or written, a
/// `TimeoutError` if a time limit stopped a run without a result, a `RuntimeError` for a panic, otherwise a
/// `ValueError`.
pub fn exception(error: Error) -> PyErr {
    let text = in_python("", &error.to_string());
    match error {
        Error::File {
            source: Some(_), ..
        } => PyOSError::new_err(text),
        Error::NonFinite { .. } => NonFinite::new_err(text),
        Error::Panicked { .. } => PyRuntimeError::new_err(text),
        Error::Stopped { .. } => PyTimeoutError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// A result whose error becomes an exception.
pub trait OrRaise<T> {
    /// Returns the value, or raises the error as an [`exception`].
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for annealed::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(exception)
    }
}
