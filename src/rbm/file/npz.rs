//! Files of RBM parameters in NumPy's `.npz` format.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use nalgebra::{DMatrix, DVector};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::rbm::base_rate::BaseRate;
use crate::rbm::file::npy::{self, Array};
use crate::rbm::model::Rbm;
use crate::rbm::scalar::Scalar;
use crate::{Error, Result};

/// What a `.npz` file holds of an RBM (feature `npz`).
///
/// The keys are `W`, the weights (M x D), `a`, the hidden biases (M), and `b`, the visible biases
/// (D). There may also be `b_base`, the visible biases of the base-rate model (D), `log_z_exact`, a
/// number, which may be an integer, and `chains`, states of the visible units (N x D).
#[derive(Debug, Clone, PartialEq)]
pub struct RbmFile<T: Scalar = f32> {
    /// The RBM.
    pub rbm: Rbm<T>,
    /// The base-rate model, where the file has `b_base`.
    pub base: Option<BaseRate<T>>,
    /// The exact `log Z`, where the file has `log_z_exact`.
    pub log_z_exact: Option<f64>,
    /// States of chains, such as the persistent ones of training
    /// ([`TrainedRbm::chains`](crate::rbm::TrainedRbm::chains)), where the file has `chains`: an array
    /// of zeros and ones, which may be bytes or Booleans.
    pub chains: Option<Vec<Vec<bool>>>,
}

impl<T: Scalar> RbmFile<T> {
    /// Reads arrays of float32 or float64 in C or Fortran order, compressed or not.
    ///
    /// # Errors
    /// [`Error::File`] with the path and the key, where the file cannot be opened or is no whole
    /// archive, a key is missing, or an array has the wrong dtype or shape or a value that is
    /// not finite in `T`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| Error::io(path, error))?;
        Self::read_archive(file).map_err(|reason| Error::file(path, reason))
    }

    fn read_archive(file: File) -> Result<Self, String> {
        let mut archive = ZipArchive::new(BufReader::new(file))
            .map_err(|e| format!("not a whole .npz archive: {e}"))?;
        let weights = matrix(require(&mut archive, "W")?)?;
        let hidden_bias = vector("a", require(&mut archive, "a")?)?;
        let visible_bias = vector("b", require(&mut archive, "b")?)?;
        let hidden_units = hidden_bias.len();
        let base_bias = array(&mut archive, "b_base", &[])?;
        let base_bias = base_bias
            .map(|values| vector("b_base", values))
            .transpose()?;
        let rbm = Rbm::new(weights, hidden_bias, visible_bias).map_err(|e| name_keys(&e))?;
        let base = base_bias
            .map(|bias| base_rate(hidden_units, &rbm, bias))
            .transpose()?;
        let log_z_exact = array(&mut archive, "log_z_exact", &["<i4", ">i4", "<i8", ">i8"])?
            .map(number)
            .transpose()?;
        let units = rbm.visible_units();
        let chains = array(&mut archive, "chains", &["|b1", "|u1"])?
            .map(|values| states(values, units))
            .transpose()?;
        Ok(Self {
            rbm,
            base,
            log_z_exact,
            chains,
        })
    }

    /// Writes a compressed file of all fields, in the precision of `T`.
    ///
    /// # Errors
    /// A chain of another length than D; [`Error::File`] where the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        for chain in self.chains.iter().flatten() {
            Error::check_dimension("chain", chain.len(), self.rbm.visible_units())?;
        }
        self.write_archive(path).map_err(|error| match error {
            ZipError::Io(error) => Error::io(path, error),
            other => Error::file(path, other),
        })
    }

    fn write_archive(&self, path: &Path) -> Result<(), ZipError> {
        let mut archive = ZipWriter::new(BufWriter::new(File::create(path)?));
        let mut put = |key: &str, shape: &[usize], width, values: &[T]| {
            archive.start_file(format!("{key}.npy"), SimpleFileOptions::default())?;
            let values = values.iter().map(|x| x.as_());
            archive.write_all(&npy::format(shape, width, values))
        };
        let rbm = &self.rbm;
        let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
        let width = size_of::<T>();
        put("W", &[hidden, visible], width, rbm.weights().as_slice())?;
        put("a", &[hidden], width, rbm.hidden_bias().as_slice())?;
        put("b", &[visible], width, rbm.visible_bias().as_slice())?;
        if let Some(base) = &self.base {
            put("b_base", &[visible], width, base.visible_bias().as_slice())?;
        }
        if let Some(log_z) = self.log_z_exact {
            archive.start_file("log_z_exact.npy", SimpleFileOptions::default())?;
            archive.write_all(&npy::format(&[], 8, std::iter::once(log_z)))?;
        }
        if let Some(chains) = &self.chains {
            let units = (0..visible).flat_map(|i| chains.iter().map(move |chain| chain[i]));
            archive.start_file("chains.npy", SimpleFileOptions::default())?;
            archive.write_all(&npy::format(
                &[chains.len(), visible],
                4,
                units.map(f64::from),
            ))?;
        }
        archive.finish()?.flush()?;
        Ok(())
    }
}

/// The array of a key, of floats or of other dtypes that may stand for them; nothing where the archive does not have
/// the key.
fn array<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    key: &str,
    others: &[&str],
) -> Result<Option<Array>, String> {
    let named = |error: &dyn Display| format!("key {key}: {error}");
    let mut bytes = Vec::new();
    match archive.by_name(&format!("{key}.npy")) {
        Ok(mut entry) => entry.read_to_end(&mut bytes).map_err(|e| named(&e))?,
        Err(ZipError::FileNotFound) => return Ok(None),
        Err(error) => return Err(named(&error)),
    };
    Array::parse(&bytes, others)
        .map(Some)
        .map_err(|e| named(&e))
}

fn require<R: Read + Seek>(archive: &mut ZipArchive<R>, key: &str) -> Result<Array, String> {
    let missing = || format!("key {key} is missing, expected W, a and b");
    array(archive, key, &[])?.ok_or_else(missing)
}

fn matrix<T: Scalar>(array: Array) -> Result<DMatrix<T>, String> {
    let &[rows, columns] = array.shape.as_slice() else {
        return Err(format!("key W: shape {:?}, expected (M, D)", array.shape));
    };
    let values = array.values.into_iter().map(T::nearest);
    Ok(if array.fortran_order {
        DMatrix::from_iterator(rows, columns, values)
    } else {
        DMatrix::from_row_iterator(rows, columns, values)
    })
}

fn vector<T: Scalar>(key: &str, array: Array) -> Result<DVector<T>, String> {
    let &[length] = array.shape.as_slice() else {
        let shape = array.shape;
        return Err(format!(
            "key {key}: shape {shape:?}, expected one dimension"
        ));
    };
    let values = array.values.into_iter().map(T::nearest);
    Ok(DVector::from_iterator(length, values))
}

/// A state for each row of zeros and ones.
fn states(array: Array, units: usize) -> Result<Vec<Vec<bool>>, String> {
    let shape = &array.shape;
    let count = match shape.as_slice() {
        &[count, columns] if columns == units => count,
        _ => {
            return Err(format!(
                "key chains: shape {shape:?}, expected (N, {units})"
            ));
        }
    };
    if let Some(x) = array.values.iter().find(|x| !matches!(**x, 0.0 | 1.0)) {
        return Err(format!("key chains: {x}, expected 0 or 1"));
    }
    let (chain, unit) = if array.fortran_order {
        (1, count)
    } else {
        (units, 1)
    };
    let is_on = |c: usize, i: usize| array.values[c * chain + i * unit] == 1.0;
    let state = |c| (0..units).map(|i| is_on(c, i)).collect();
    Ok((0..count).map(state).collect())
}

fn number(array: Array) -> Result<f64, String> {
    match array.values.as_slice() {
        [value] if value.is_finite() => Ok(*value),
        _ => Err("key log_z_exact: expected one finite number".into()),
    }
}

fn base_rate<T: Scalar>(
    hidden_units: usize,
    rbm: &Rbm<T>,
    bias: DVector<T>,
) -> Result<BaseRate<T>, String> {
    Error::check_dimension("b_base", bias.len(), rbm.visible_units())
        .and_then(|()| BaseRate::new(hidden_units, bias))
        .map_err(|e| format!("key b_base: {e}"))
}

/// An error of [`Rbm::new`] in the words of the file.
fn name_keys(error: &Error) -> String {
    let argument = match error {
        Error::InvalidArgument { argument, .. } | Error::DimensionMismatch { argument, .. } => {
            *argument
        }
        _ => "",
    };
    let key = match argument {
        "hidden_bias" => "a",
        "visible_bias" => "b",
        _ => "W",
    };
    format!("key {key}: {error}")
}
