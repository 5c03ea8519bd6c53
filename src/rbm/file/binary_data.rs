//! Data sets of zeros and ones.

use std::path::Path;

use crate::rbm::file::array::Array;
use crate::rbm::file::arrays::{Arrays, listed};
use crate::rbm::file::binarization::Binarization;
use crate::rbm::file::data_layout::{DataLayout, Rule};
use crate::{Error, Result};

/// Data for an RBM, from a file (feature `npz`).
///
/// ```no_run
/// use annealed::rbm::{BaseRate, BinaryData};
///
/// let training = BinaryData::read("train-images-idx3-ubyte.gz")?;
/// println!("{}", training.assumed()); // integers from 0 to 255, on from 128
/// let base = BaseRate::<f32>::from_data(500, training.rows(), 1.0)?;
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BinaryData {
    rows: Vec<Vec<bool>>,
    assumed: Binarization,
}

impl BinaryData {
    /// Reads a `.npy` file, a `.npz` file of one array, or a file in the IDX format of MNIST, each plain or compressed
    /// by gzip (below 4 GiB). The contents tell the format, not the name.
    ///
    /// The first dimension counts the rows; the others are taken together as their units. The numbers decide how they
    /// become zeros and ones ([`Binarization`]).
    ///
    /// # Errors
    /// [`Error::File`] where the file cannot be read, is of another format or not whole, has several arrays or
    /// none, or holds no rows, or where it is in doubt which numbers are ones.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path, &DataLayout::default())
    }

    /// As [`read`](Self::read), with the name of the array, a threshold or a seed to draw by given.
    ///
    /// # Errors
    /// As [`read`](Self::read), and where there is no array of this name or the threshold is not finite.
    pub fn read_as(path: impl AsRef<Path>, layout: &DataLayout) -> Result<Self> {
        if let Some(Rule::From(threshold)) = layout.rule {
            Error::check_number("threshold", threshold)?;
        }
        let path = path.as_ref();
        let arrays = Arrays::read(path)?;
        Self::take(arrays, layout).map_err(|reason| Error::file(path, reason))
    }

    pub(super) fn take(arrays: Arrays, layout: &DataLayout) -> Result<Self, String> {
        let array = choose(arrays, layout.array.as_deref())?;
        let rows = array.rows()?;
        let of_data = || Binarization::of(array.values());
        let assumed = match layout.rule {
            Some(_) if array.values().any(f64::is_nan) => return Err("NaN among the data".into()),
            Some(Rule::From(threshold)) => Binarization::Given(threshold),
            Some(Rule::Drawn(seed)) => of_data()?.drawn(seed),
            None => of_data()?,
        };
        let mut threshold = assumed.thresholds();
        let rows = rows.map(|row| row.map(|x| x >= threshold()).collect());
        Ok(Self {
            rows: rows.collect(),
            assumed,
        })
    }

    /// The rows, with the units that are on as true.
    pub fn rows(&self) -> &[Vec<bool>] {
        &self.rows
    }

    /// As [`rows`](Self::rows), without a copy.
    pub fn into_rows(self) -> Vec<Vec<bool>> {
        self.rows
    }

    /// How the file's numbers became zeros and ones, for a program to print.
    pub fn assumed(&self) -> Binarization {
        self.assumed
    }
}

/// The array of a name, or the only one.
fn choose(mut arrays: Arrays, name: Option<&str>) -> Result<Array, String> {
    let keys = arrays.keys();
    match (name, keys.as_slice()) {
        (Some(name), _) => Ok(arrays.first_of(&[name])?.1),
        (None, [key]) => Ok(arrays.first_of(&[key])?.1),
        (None, keys) => match arrays {
            Arrays::One(array) => Ok(array),
            _ => Err(format!(
                "has {}, expected one array, or the name of one",
                listed(keys)
            )),
        },
    }
}
