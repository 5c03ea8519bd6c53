//! Conversion of NumPy arrays to vectors of the library.

use annealed::nalgebra::{DMatrix, DVector};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};

/// Returns the numbers of an array with any memory layout.
pub fn numbers(array: &PyReadonlyArray1<'_, f64>) -> Vec<f64> {
    array.as_array().iter().copied().collect()
}

/// Returns an array as a matrix.
pub fn matrix(array: &PyReadonlyArray2<'_, f64>) -> DMatrix<f64> {
    let array = array.as_array();
    DMatrix::from_row_iterator(array.nrows(), array.ncols(), array.iter().copied())
}

/// Returns the rows of an array of Booleans.
pub fn bits(array: &PyReadonlyArray2<'_, bool>) -> Vec<Vec<bool>> {
    let rows = array.as_array();
    let rows = rows.rows().into_iter();
    rows.map(|row| row.iter().copied().collect()).collect()
}

/// Returns the rows of an array as states.
pub fn states(array: &PyReadonlyArray2<'_, f64>) -> Vec<DVector<f64>> {
    let rows = array.as_array();
    let rows = rows.rows().into_iter();
    rows.map(|row| DVector::from_iterator(row.len(), row.iter().copied()))
        .collect()
}
