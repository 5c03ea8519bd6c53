//! Parameters of a machine: biases, and weights between two layers in either orientation.

use annealed::nalgebra::{DMatrix, DVector};
use annealed::rbm::Scalar;

use crate::Arrays;
use crate::array::{Array, Kind};

/// The orientation of square weights in a file. The shape determines the orientation of other weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Square {
    /// The user set no orientation. Weights then count as upper by lower units, as NumPy, scikit-learn, PyTorch and
    /// candle write them. A file of burn is refused.
    #[default]
    Unsaid,
    Untransposed,
    Transposed,
}

impl Square {
    /// Returns the orientation of square weights. If it is not set, the shapes of the other weights determine it, if
    /// they agree. `layers` contains for each layer the shape of its weights, and its numbers of upper and lower units.
    pub(super) fn or_shown<'s>(
        self,
        layers: impl Iterator<Item = (&'s [usize], (usize, usize))> + Clone,
    ) -> Self {
        let mut others = layers.filter(|(_, (upper, lower))| upper != lower);
        let is_upper_first = |(shape, (upper, lower)): (&[usize], _)| shape == [upper, lower];
        match (self, others.next().map(is_upper_first)) {
            (Self::Unsaid, Some(first)) if others.all(|other| is_upper_first(other) == first) => {
                match first {
                    true => Self::Untransposed,
                    false => Self::Transposed,
                }
            }
            _ => self,
        }
    }
}

/// Text that asks for the orientation of square weights. In burn it depends on the layer's layout and the store's
/// adapter.
pub(super) const WHICH_WAY: &str = "expected which way round: visible by hidden (lower by upper), as a Linear of burn has \
    them by default (--square-transposed), or hidden by visible (--square-transposed=false)";

/// Reads weights as `upper` by `lower` units. In an error, `of` explains the two numbers.
pub(super) fn weights<T: Scalar>(
    arrays: &Arrays,
    (key, array): (&str, &Array),
    (upper, lower): (usize, usize),
    square: Square,
    of: impl FnOnce() -> String,
) -> Result<DMatrix<T>, String> {
    let numbers = parameters(key, array)?;
    let shape = array.shape();
    if shape == [upper, upper] && upper == lower && square == Square::Unsaid && arrays.are_of_burn()
    {
        return Err(format!(
            "key {key}: shape {shape:?} in a file of burn, {WHICH_WAY}"
        ));
    }
    let turned = upper == lower && square == Square::Transposed;
    match *shape {
        [rows, columns] if (rows, columns) == (upper, lower) && !turned => {
            Ok(DMatrix::from_row_iterator(upper, lower, numbers))
        }
        [rows, columns] if (rows, columns) == (lower, upper) => {
            Ok(DMatrix::from_iterator(upper, lower, numbers))
        }
        _ => Err(format!(
            "key {key}: shape {shape:?}, expected [{upper}, {lower}] or [{lower}, {upper}], {}",
            of()
        )),
    }
}

fn parameters<T: Scalar>(key: &str, array: &Array) -> Result<impl Iterator<Item = T>, String> {
    match array.dtype() {
        dtype if dtype.kind == Kind::Boolean => Err(format!(
            "key {key}: dtype {dtype}, expected floats or integers"
        )),
        _ => Ok(array.values().map(T::nearest)),
    }
}

/// Converts an array in which at most one dimension differs from 1.
pub(super) fn vector<T: Scalar>(key: &str, array: &Array) -> Result<DVector<T>, String> {
    let shape = array.shape();
    if shape.is_empty() {
        return Err(format!(
            "key {key}: a single number (shape []), expected one for each unit; if there is one unit, write it \
             with numpy.atleast_1d"
        ));
    }
    if shape.iter().filter(|size| **size != 1).count() > 1 {
        return Err(format!(
            "key {key}: shape {shape:?}, expected one dimension"
        ));
    }
    let values: Vec<T> = parameters(key, array)?.collect();
    Ok(values.into())
}
