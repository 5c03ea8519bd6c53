//! Reads and writes files for [`annealed`]: RBMs, data to train and score them, and draws of a posterior.
//!
//! [`RbmFile`] reads and writes machines, [`read_deep`] reads deep ones, and [`BinaryData`] reads data. Formats are
//! `.npz` and `.npy` (NumPy, scikit-learn), `.safetensors` (PyTorch, candle, burn) and IDX (MNIST), plain or gzipped.
//! [`Draws`] reads draws of Stan, PyMC and other samplers: CSV, `.npz`, `.npy`. [`read_works`] reads the works of
//! switching processes, and [`StateTable`] reduced potentials under many states. The contents determine the format.
//!
//! ```no_run
//! use annealed::rbm::BaseRate;
//! use annealed_files::{BinaryData, RbmFile};
//!
//! let rbm = RbmFile::<f32>::read("rbm.npz")?.rbm;
//! let data = BinaryData::read("train-images-idx3-ubyte.gz")?;
//! println!("{}", data.assumed()); // integers from 0 to 255, on from 128
//! let base = BaseRate::from_data(rbm.hidden_units(), data.rows(), 1.0)?;
//! # drop::<BaseRate<f32>>(base);
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`PosteriorFile`] writes equally weighted draws of a run, for R's posterior, ArviZ and NumPy.
//!
//! No file causes a panic. The size of a file limits the memory that reading it takes.

#[cfg(test)]
mod allocation;
mod array;
mod array_draws;
mod binary_data;
mod cmdstan;
mod column;
mod csv;
mod deep;
mod draws;
mod gzip;
mod npy;
mod npz;
mod parameters;
mod posterior_file;
mod rbm_file;
mod safetensors;
mod state_table;
#[cfg(test)]
mod tests;
mod works;

use std::path::Path;
use std::string::FromUtf8Error;

use annealed::{Error, Result};
use array::Array;
use npz::Npz;
use safetensors::Safetensors;

pub use binary_data::{Binarization, BinaryData, DataLayout};
pub use deep::{DeepLayout, read_deep};
pub use draws::Draws;
pub use posterior_file::PosteriorFile;
pub use rbm_file::{RbmFile, RbmLayout};
pub use state_table::StateTable;
pub use works::read_works;

/// Returns the bytes as text; the bytes themselves if they are not UTF-8, or contain a zero.
fn text_of(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => Err(text.into_bytes()),
        text => text.map_err(FromUtf8Error::into_bytes),
    }
}

/// Refuses a size that differs from the expected one.
fn check_size(argument: &'static str, found: usize, expected: usize) -> Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(Error::DimensionMismatch {
            argument,
            found,
            expected,
        }),
    }
}

/// The arrays of a file; its contents determine the format.
enum Arrays {
    One(Array),
    Npz(Box<Npz>),
    Safetensors(Safetensors),
}

impl Arrays {
    fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        Self::parse(bytes).map_err(|reason| Error::file(path, reason))
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.starts_with(gzip::MAGIC) {
            return gzip::read(&bytes).map(Self::One);
        }
        if safetensors::begins(&bytes) {
            return Safetensors::parse(bytes).map(Self::Safetensors);
        }
        if bytes.starts_with(npz::MAGIC) {
            return Ok(Self::Npz(Npz::parse(bytes)?.into()));
        }
        if bytes.starts_with(npy::MAGIC) || bytes.starts_with(npy::IDX_MAGIC) {
            return npy::read(&mut &bytes[..], bytes.len() as u64).map(Self::One);
        }
        Err(format!(
            "{}, expected .npz, .npy, IDX of bytes or .safetensors",
            kind_of(&bytes)
        ))
    }

    fn keys(&self) -> Vec<String> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Npz(npz) => npz.keys(),
            Self::Safetensors(file) => file.keys(),
        }
    }

    /// Returns true if burn wrote the file. Burn's `Linear` stores weights as lower by upper units, other libraries as
    /// upper by lower.
    fn are_of_burn(&self) -> bool {
        match self {
            Self::Safetensors(file) => file.producer() == Some("burn"),
            _ => false,
        }
    }

    /// Returns the array at `key`, or `None` if there is no such key. Errors name the key.
    fn get(&mut self, key: &str) -> Result<Option<Array>, String> {
        let array = match self {
            Self::One(_) => Ok(None),
            Self::Npz(npz) => npz.get(key),
            Self::Safetensors(file) => file.get(key),
        };
        array.map_err(|reason| format!("key {key}: {reason}"))
    }

    /// Returns the first of `keys` that is in the file, with its array.
    fn first_of(&mut self, keys: &[&str]) -> Result<(String, Array), String> {
        for &key in keys {
            if let Some(array) = self.get(key)? {
                return Ok((key.to_owned(), array));
            }
        }
        Err(format!(
            "no key {}; the file has {}",
            keys.join(" or "),
            listed(&self.keys())
        ))
    }
}

fn listed(keys: &[String]) -> String {
    match keys {
        [] => "no keys".into(),
        [.., _] if keys.len() > 12 => {
            format!("{} and {} more", keys[..12].join(", "), keys.len() - 12)
        }
        _ => keys.join(", "),
    }
}

fn kind_of(bytes: &[u8]) -> &'static str {
    match bytes {
        [] => "an empty file",
        [0x89, b'H', b'D', b'F', ..] => {
            "a file of HDF5 (h5py reads it, and numpy.savez writes its arrays to an .npz)"
        }
        [b'M', b'A', b'T', b'L', b'A', b'B', b' ', b'7', ..] => {
            "a file of MATLAB 7.3 (h5py reads it, and numpy.savez writes its arrays to an .npz)"
        }
        [b'M', b'A', b'T', b'L', b'A', b'B', ..] => {
            "a file of MATLAB (scipy.io.loadmat reads it, and numpy.savez writes its arrays to an .npz)"
        }
        [0x80, 2..=5, ..] => {
            "a file of pickle or joblib (numpy.savez writes its arrays to an .npz)"
        }
        [b'0'..=b'9' | b'-' | b'+' | b'.' | b' ', next, ..]
            if b"0123456789., \t\r\n;e".contains(next) =>
        {
            "a text of numbers (numpy.loadtxt reads it, with delimiter=\",\" if it has commas, and numpy.save writes an .npy)"
        }
        _ => "a file of another format",
    }
}
