//! Files of RBM parameters.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use annealed::nalgebra::DVector;
use annealed::rbm::{BaseRate, Rbm, Scalar};
use annealed::{Error, Result};
use zip::ZipWriter;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;

use crate::array::{Array, Kind};
use crate::parameters::{Square, vector, weights as read_weights};
use crate::{Arrays, check_size, npy};

/// The contents of an RBM file, as NumPy, scikit-learn, PyTorch, candle or burn
/// writes it.
///
/// | key | content |
/// |---|---|
/// | `W` or `components_` | weights, M x D or D x M as the biases' lengths show; M x D if M = D (must be set for burn) |
/// | `a` or `intercept_hidden_`, `b` or `intercept_visible_` | hidden biases (M), visible biases (D) |
/// | `b_base`, `log_z_exact`, `chains` (all optional) | base-rate visible biases (D), a number, states (N x D) |
///
/// [`RbmLayout`] sets other names. Python writes such files by
///
/// ```text
/// numpy.savez("rbm.npz", W=W, a=a, b=b)
/// numpy.savez("rbm.npz", components_=rbm.components_, intercept_hidden_=rbm.intercept_hidden_,
///             intercept_visible_=rbm.intercept_visible_)
/// safetensors.torch.save_file(module.state_dict(), "rbm.safetensors")
/// ```
///
/// Rust writes them by `VarMap::save` of candle or `SafetensorsStore` of burn.
#[derive(Debug, Clone, PartialEq)]
pub struct RbmFile<T: Scalar = f32> {
    /// The RBM.
    pub rbm: Rbm<T>,
    /// The base-rate model, from `b_base`.
    pub base: Option<BaseRate<T>>,
    /// The exact `log Z`, from `log_z_exact`.
    pub log_z_exact: Option<f64>,
    /// States of chains ([`TrainedRbm::chains`](annealed::rbm::TrainedRbm::chains)), from zeros and ones in `chains`.
    pub chains: Option<Vec<Vec<bool>>>,
}

impl<T: Scalar> RbmFile<T> {
    /// Reads a `.npz` or `.safetensors` file. The contents determine the format. Parameters are floats of 16, 32 or 64
    /// bits, or integers. A bias may have further dimensions of size 1.
    ///
    /// # Errors
    /// [`Error::File`] with path and key: a damaged file, a missing key, a wrong dtype or shape, a value that is not
    /// finite in `T`, or square weights of burn without [`RbmLayout::square_transposed`] or its opposite.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_as(path, &RbmLayout::default())
    }

    /// Reads a file whose parameters have the names of `layout`.
    ///
    /// # Errors
    /// Same as [`read`](Self::read).
    pub fn read_as(path: impl AsRef<Path>, layout: &RbmLayout) -> Result<Self> {
        let path = path.as_ref();
        let arrays = Arrays::read(path)?;
        Self::take(arrays, layout).map_err(|reason| Error::file(path, reason))
    }

    pub(super) fn take(mut arrays: Arrays, layout: &RbmLayout) -> Result<Self, String> {
        let rbm = rbm(&mut arrays, layout)?;
        let base = arrays.get("b_base")?;
        let log_z_exact = arrays.get("log_z_exact")?;
        let chains = arrays.get("chains")?;
        Ok(Self {
            base: base.map(|array| base_rate(&rbm, &array)).transpose()?,
            log_z_exact: log_z_exact.map(|array| number(&array)).transpose()?,
            chains: chains
                .map(|array| states(&array, rbm.visible_units()))
                .transpose()?,
            rbm,
        })
    }

    /// Writes all fields to a compressed `.npz` file, with parameters in the precision of `T`.
    ///
    /// # Errors
    /// A chain whose length is not D, a base that is a mixture, or [`Error::File`] if the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        for chain in self.chains.iter().flatten() {
            check_size("chain", chain.len(), self.rbm.visible_units())?;
        }
        if let Some(base) = &self.base {
            check_single(base)?;
        }
        self.write_archive(path).map_err(|error| match error {
            ZipError::Io(error) => Error::io(path, error),
            other => Error::file(path, other),
        })
    }

    fn write_archive(&self, path: &Path) -> Result<(), ZipError> {
        let mut archive = ZipWriter::new(BufWriter::new(File::create(path)?));
        let mut put = |key: &str, shape: &[usize], width, values: &mut dyn Iterator<Item = f64>| {
            archive.start_file(format!("{key}.npy"), SimpleFileOptions::default())?;
            archive.write_all(&npy::format(shape, width, values))
        };
        let rbm = &self.rbm;
        let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
        let (width, as_f64) = (size_of::<T>(), |x: &T| x.as_());
        let (w, a, b) = (rbm.weights(), rbm.hidden_bias(), rbm.visible_bias());
        put("W", &[hidden, visible], width, &mut w.iter().map(as_f64))?;
        put("a", &[hidden], width, &mut a.iter().map(as_f64))?;
        put("b", &[visible], width, &mut b.iter().map(as_f64))?;
        if let Some(base) = &self.base {
            let bias = base.visible_bias().iter();
            put("b_base", &[visible], width, &mut bias.map(as_f64))?;
        }
        if let Some(log_z) = self.log_z_exact {
            put("log_z_exact", &[], 8, &mut std::iter::once(log_z))?;
        }
        if let Some(chains) = &self.chains {
            let units = (0..visible).flat_map(|i| chains.iter().map(move |chain| chain[i]));
            let shape = [chains.len(), visible];
            put("chains", &shape, 4, &mut units.map(f64::from))?;
        }
        archive.finish()?.flush()?;
        Ok(())
    }
}

/// Refuses a mixture, because the format cannot contain one.
fn check_single<T: Scalar>(base: &BaseRate<T>) -> Result<()> {
    match base.components().len() {
        1 => Ok(()),
        count => Err(Error::invalid(
            "base",
            format!("a mixture of {count} components"),
            "one component, since a file holds no mixture",
        )),
    }
}

fn rbm<T: Scalar>(arrays: &mut Arrays, layout: &RbmLayout) -> Result<Rbm<T>, String> {
    if let Arrays::One(array) = arrays {
        return Err(format!(
            "a single array of shape {:?}, expected three in one file: numpy.savez(\"rbm.npz\", W=W, a=a, b=b), weights, \
             hidden biases, visible biases",
            array.shape()
        ));
    }
    let mut take = |given: &Option<String>, defaults: &[&str]| {
        let name = given.as_ref().map(|name| [name.as_str()]);
        let names = name.as_ref().map_or(defaults, |name| name.as_slice());
        let is_there = arrays
            .keys()
            .iter()
            .any(|key| names.contains(&key.as_str()));
        let found = arrays.first_of(names);
        found.map_err(|reason| match is_there {
            true => reason,
            false => format!("{reason}; {}", naming(arrays)),
        })
    };
    let (w, weights) = take(&layout.weights, &["W", "components_"])?;
    let (a, hidden) = take(&layout.hidden_bias, &["a", "intercept_hidden_"])?;
    let (b, visible) = take(&layout.visible_bias, &["b", "intercept_visible_"])?;
    let (hidden, visible) = (vector(&a, &hidden)?, vector(&b, &visible)?);
    let (m, d) = (hidden.len(), visible.len());
    let of = || format!("as {a} has {m} hidden biases and {b} has {d} visible ones");
    let weights = read_weights(arrays, (&w, &weights), (m, d), layout.square, of)?;
    Rbm::new(weights, hidden, visible).map_err(|error| named(&error, [&w, &a, &b]))
}

/// Returns advice on naming the parameters. In a file of few arrays the shapes distinguish weights from biases. If the
/// names do not show which biases are hidden, the advice lists both orders, starting with the shorter ones as hidden.
fn naming(arrays: &mut Arrays) -> String {
    let keys = arrays.keys();
    let (mut weights, mut biases) = (Vec::new(), Vec::new());
    // With many keys, reading every array would cost too much for a hint.
    for key in keys.iter().filter(|_| keys.len() <= 3) {
        if let Ok(Some(array)) = arrays.get(key) {
            let wide = array.shape().iter().filter(|size| **size > 1);
            match wide.count() {
                2 => weights.push(key),
                _ => biases.push((array.shape().iter().product::<usize>(), key)),
            }
        }
    }
    let ask = "name the weights, hidden and visible biases";
    let is_hidden = |key: &str| key.contains('h') && !key.contains("vis");
    biases.sort_by_cached_key(|(units, key)| (!is_hidden(&key.to_lowercase()), *units));
    match (weights.as_slice(), biases.as_slice()) {
        ([w], [(m, a), (d, b)]) => match [a, b].map(|key| is_hidden(&key.to_lowercase())) {
            [true, false] => format!("{ask} (--names {w},{a},{b})"),
            _ => format!(
                "{ask}: --names {w},{a},{b} if {a} ({m}) are those of the hidden units, --names {w},{b},{a} if {b} ({d}) are"
            ),
        },
        ([_], _) if keys.len() < 3 => format!(
            "{ask} (--names W,A,B), and write zeros for biases that the model lacks: a=numpy.zeros(hidden units), \
             b=numpy.zeros(visible units)"
        ),
        _ => format!("{ask} (--names W,A,B)"),
    }
}

fn states(array: &Array, units: usize) -> Result<Vec<Vec<bool>>, String> {
    let shape = array.shape();
    if !matches!(shape, &[_, columns] if columns == units) {
        return Err(format!(
            "key chains: shape {shape:?}, expected (N, {units})"
        ));
    }
    if let Some(x) = array.values().find(|x| !matches!(*x, 0.0 | 1.0)) {
        return Err(format!("key chains: {x}, expected 0 or 1"));
    }
    array
        .check_rows()
        .map_err(|reason| format!("key chains: {reason}"))?;
    let units: Vec<bool> = array.values().map(|x| x == 1.0).collect();
    Ok(units.chunks(shape[1]).map(<[bool]>::to_vec).collect())
}

fn number(array: &Array) -> Result<f64, String> {
    let values: Vec<f64> = array.values().take(2).collect();
    match values.as_slice() {
        [value] if value.is_finite() && array.dtype().kind != Kind::Boolean => Ok(*value),
        _ => Err("key log_z_exact: expected one finite number".into()),
    }
}

fn base_rate<T: Scalar>(rbm: &Rbm<T>, array: &Array) -> Result<BaseRate<T>, String> {
    let bias: DVector<T> = vector("b_base", array)?;
    check_size("b_base", bias.len(), rbm.visible_units())
        .and_then(|()| BaseRate::new(rbm.hidden_units(), bias))
        .map_err(|e| format!("key b_base: {e}"))
}

/// Rewords an error of [`Rbm::new`] to name the file's keys of W, a and b.
fn named(error: &Error, [weights, hidden_bias, visible_bias]: [&str; 3]) -> String {
    let argument = match error {
        Error::InvalidArgument { argument, .. } | Error::DimensionMismatch { argument, .. } => {
            *argument
        }
        _ => "",
    };
    let key = match argument {
        "hidden_bias" => hidden_bias,
        "visible_bias" => visible_bias,
        _ => weights,
    };
    format!("key {key}: {error}")
}

/// Names of the RBM's parameters in a file, and the orientation of square weights. Default names are `W`, `a`, `b`, or
/// scikit-learn's `components_`, `intercept_hidden_`, `intercept_visible_`.
///
/// ```no_run
/// use annealed_files::{RbmFile, RbmLayout};
///
/// // A module of PyTorch, candle or burn, whose `Linear` from visible to hidden units has `weight` and `bias`.
/// let layout = RbmLayout::default()
///     .weights("hidden.weight")
///     .hidden_bias("hidden.bias")
///     .visible_bias("visible_bias");
/// let rbm = RbmFile::<f32>::read_as("rbm.safetensors", &layout)?.rbm;
/// # drop(rbm);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RbmLayout {
    pub(super) weights: Option<String>,
    pub(super) hidden_bias: Option<String>,
    pub(super) visible_bias: Option<String>,
    pub(super) square: Square,
}

impl RbmLayout {
    /// Sets the name of the weights.
    #[must_use]
    pub fn weights(mut self, name: impl Into<String>) -> Self {
        self.weights = Some(name.into());
        self
    }

    /// Sets the name of the hidden biases.
    #[must_use]
    pub fn hidden_bias(mut self, name: impl Into<String>) -> Self {
        self.hidden_bias = Some(name.into());
        self
    }

    /// Sets the name of the visible biases.
    #[must_use]
    pub fn visible_bias(mut self, name: impl Into<String>) -> Self {
        self.visible_bias = Some(name.into());
        self
    }

    /// Sets the orientation of square weights to visible by hidden, D x M, as in a `Linear` of burn from visible to
    /// hidden units; the default is M x D. If the orientation is wrong,
    /// [`Warning::BelowBaseRate`](annealed::estimate::Warning::BelowBaseRate) appears when the RBM scores data.
    #[must_use]
    pub fn square_transposed(mut self) -> Self {
        self.square = Square::Transposed;
        self
    }

    /// Sets the orientation of square weights to hidden by visible, M x D. Only a file of burn needs this.
    #[must_use]
    pub fn square_untransposed(mut self) -> Self {
        self.square = Square::Untransposed;
        self
    }
}
