//! Stan models for [`annealed`], compiled with [BridgeStan](https://roualdes.us/bridgestan).
//!
//! ```text
//! make -C bridgestan STAN_THREADS=true $PWD/my_model.so     # my_model.stan
//! ```
//!
//! A [`StanModel`] is the density of prior and likelihood over unconstrained parameters. Bridge sampling computes log
//! Z from draws of CmdStan:
//!
//! ```no_run
//! use annealed::bidirectional::BridgeSampling;
//! use annealed::model::StudentT;
//! use annealed_files::Draws;
//! use annealed_stan::StanModel;
//!
//! let stan = StanModel::open("my_model.so", "my.data.json")?;
//! let draws = Draws::read_columns(["output_1.csv", "output_2.csv"], stan.param_names())?;
//! let chains = draws.states_by(|parameters| stan.unconstrain(parameters))?;
//! println!("log evidence: {}", BridgeSampling::<StudentT>::new(&stan, &chains, 1)?);
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! If you have no draws, anneal towards the model, as in `examples/evidence.rs`.

// Calls into C are unsafe. `bridgestan.h` states what each function requires.
#![allow(unsafe_code)]

mod functions;

use std::ffi::{CString, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;

use annealed::model::{Differentiable, UnnormalizedModel};
use annealed::nalgebra::DVector;
use annealed::{Error, Result};

use functions::{Functions, Message, Model, copied};

/// Keeps the constants of `~` statements.
const PROPTO: bool = false;
/// Adds the Jacobian of parameters with bounds.
const JACOBIAN: bool = true;
/// Leaves out transformed parameters and generated quantities.
const PARAMETERS_ALONE: [bool; 2] = [false, false];

/// A Stan model with its data.
///
/// States are unconstrained parameters, in Stan's own coordinates: the state of a `sigma` above 0 is its logarithm.
/// The log density has all constants and the Jacobian, so log Z is the log evidence of the program as written. This
/// requires priors that integrate to 1: write `normal(0, 1) T[0, ]` for a `sigma` above 0.
///
/// If Stan throws an exception, the density is 0, as in Stan's own sampler.
pub struct StanModel {
    file: PathBuf,
    functions: Functions,
    model: Model,
    dimension: usize,
    names: Vec<String>,
}

// SAFETY: a library with STAN_THREADS, which `open` demands, may be called by several threads.
unsafe impl Send for StanModel {}
// SAFETY: as above; no function that takes the model changes it.
unsafe impl Sync for StanModel {}

impl StanModel {
    /// Loads a library with its data. `data` is the path of a file that ends in `.json`, JSON itself, or empty.
    ///
    /// Opening a library runs its code. Open only libraries that you trust.
    ///
    /// # Errors
    /// [`Error::File`]: a library that cannot be loaded, lacks a function of BridgeStan 2, or was compiled without
    /// `STAN_THREADS=true`; data that the model refuses.
    pub fn open(library: impl AsRef<Path>, data: &str) -> Result<Self> {
        let file = library.as_ref();
        // The system searches other folders for a name without a folder, so the path must be absolute.
        let path = file
            .canonicalize()
            .map_err(|error| Error::io(file, error))?;
        let no_library =
            |error| Error::file(file, format!("is no library of BridgeStan 2: {error}"));
        let functions = Functions::load(&path).map_err(no_library)?;
        let data = CString::new(data).map_err(|error| Error::file(file, error))?;
        let mut message = ptr::null_mut();
        // SAFETY: the string lives as long as the call.
        let model = unsafe { (functions.construct)(data.as_ptr(), 0, &mut message) };
        if model.is_null() {
            return Err(Error::file(file, functions.take(message)));
        }
        let mut opened = Self {
            file: file.to_owned(),
            functions,
            model,
            dimension: 0,
            names: Vec::new(),
        };
        // SAFETY: the model is alive and owns the text.
        if !unsafe { copied((functions.info)(model)) }.contains("STAN_THREADS=true") {
            return Err(Error::file(file, "was compiled without STAN_THREADS=true"));
        }
        opened.describe()?;
        Ok(opened)
    }

    /// Reads the dimension and the parameters' names from the model.
    fn describe(&mut self) -> Result<()> {
        let (functions, [tp, gq]) = (self.functions, PARAMETERS_ALONE);
        // SAFETY: the model is alive and owns the text.
        let (dimension, count, names) = unsafe {
            (
                (functions.dimension)(self.model),
                (functions.count)(self.model, tp, gq),
                copied((functions.names)(self.model, tp, gq)),
            )
        };
        let names = names.split(',').filter(|name| !name.is_empty());
        self.names = names.map(str::to_owned).collect();
        self.dimension = usize::try_from(dimension).unwrap_or(0);
        // The lengths of the slices passed to Stan rely on these numbers.
        match usize::try_from(count) == Ok(self.names.len()) && self.dimension > 0 {
            true => Ok(()),
            false => {
                let names = self.names.len();
                let reason = format!(
                    "{dimension} free of {count} parameters with {names} names, expected a name each"
                );
                Err(Error::file(&self.file, reason))
            }
        }
    }

    /// Returns the names of the parameters as CmdStan writes them, such as `theta.1`. Transformed parameters and
    /// generated quantities are left out.
    pub fn param_names(&self) -> &[String] {
        &self.names
    }

    /// Converts parameters to a state. Their order is the order of [`param_names`](Self::param_names) and Stan's files.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`], and [`Error::File`] if the parameters violate a bound or lie at it.
    pub fn unconstrain(&self, parameters: &[f64]) -> Result<DVector<f64>> {
        check_dimension("parameters", parameters.len(), self.names.len())?;
        let mut state = DVector::zeros(self.dimension);
        // SAFETY: both slices have the lengths that the model reported.
        self.checked(|message| unsafe {
            (self.functions.unconstrain)(
                self.model,
                parameters.as_ptr(),
                state.as_mut_ptr(),
                message,
            )
        })?;
        match state.iter().all(|x| x.is_finite()) {
            true => Ok(state),
            false => {
                let reason = format!(
                    "{parameters:?} is at a bound, expected parameters within; rounding may cause it (sig_figs)"
                );
                Err(Error::file(&self.file, reason))
            }
        }
    }

    /// Returns the parameters of the Stan program at a state.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`], and [`Error::File`] if Stan refuses the state.
    pub fn constrain(&self, state: &DVector<f64>) -> Result<Vec<f64>> {
        check_dimension("state", state.len(), self.dimension)?;
        let (mut parameters, [tp, gq]) = (vec![0.0; self.names.len()], PARAMETERS_ALONE);
        // SAFETY: both slices have the lengths that the model reported; no generator is needed without generated
        // quantities.
        self.checked(|message| unsafe {
            let (model, theta) = (self.model, parameters.as_mut_ptr());
            (self.functions.constrain)(
                model,
                tp,
                gq,
                state.as_ptr(),
                theta,
                ptr::null_mut(),
                message,
            )
        })?;
        Ok(parameters)
    }

    /// Calls a function of Stan and turns its exception into an error.
    fn checked(&self, call: impl FnOnce(*mut Message) -> c_int) -> Result<()> {
        let mut message = ptr::null_mut();
        match call(&mut message) {
            0 => Ok(()),
            _ => Err(Error::file(&self.file, self.functions.take(message))),
        }
    }

    /// Returns the log density that `call` writes, or `-inf` if Stan throws an exception.
    fn density(
        &self,
        state: &DVector<f64>,
        call: impl FnOnce(*mut f64, *mut Message) -> c_int,
    ) -> f64 {
        assert_eq!(state.len(), self.dimension, "dimension of a state");
        let mut log_density = f64::NAN;
        match self.checked(|message| call(&mut log_density, message)) {
            Ok(()) => log_density,
            Err(_) => f64::NEG_INFINITY,
        }
    }
}

fn check_dimension(argument: &'static str, found: usize, expected: usize) -> Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(Error::DimensionMismatch {
            argument,
            found,
            expected,
        }),
    }
}

impl UnnormalizedModel for StanModel {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        // SAFETY: the state has the dimension of the model.
        self.density(state, |log_density, message| unsafe {
            let (model, theta) = (self.model, state.as_ptr());
            (self.functions.log_density)(model, PROPTO, JACOBIAN, theta, log_density, message)
        })
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.dimension)
    }
}

impl Differentiable for StanModel {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut own = DVector::zeros(self.dimension);
        // SAFETY: state and gradient have the dimension of the model.
        let log_density = self.density(state, |log_density, message| unsafe {
            let (model, theta, slope) = (self.model, state.as_ptr(), own.as_mut_ptr());
            (self.functions.log_density_gradient)(
                model,
                PROPTO,
                JACOBIAN,
                theta,
                log_density,
                slope,
                message,
            )
        });
        if log_density > f64::NEG_INFINITY {
            gradient.axpy(scale, &own, 1.0);
        }
        log_density
    }
}

impl Drop for StanModel {
    fn drop(&mut self) {
        // SAFETY: no other code has the model.
        unsafe { (self.functions.destruct)(self.model) }
    }
}

impl fmt::Debug for StanModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("StanModel");
        fields.field("file", &self.file).field("names", &self.names);
        fields.finish_non_exhaustive()
    }
}
