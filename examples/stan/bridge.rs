//! A Stan model as BridgeStan compiles it: a shared library with the functions of `bridgestan.h`.

// Calls into C are unsafe; `bridgestan.h` states what each demands.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use annealed::{Error, Result};
use libloading::Library;

/// Pointer to a `bs_model`.
type Model = *mut c_void;
/// Error text of Stan, which the caller frees.
type Message = *mut c_char;

struct Functions {
    construct: unsafe extern "C" fn(*const c_char, c_uint, *mut Message) -> Model,
    destruct: unsafe extern "C" fn(Model),
    free_message: unsafe extern "C" fn(Message),
    info: unsafe extern "C" fn(Model) -> *const c_char,
    dimension: unsafe extern "C" fn(Model) -> c_int,
    log_density_gradient: unsafe extern "C" fn(
        Model,
        bool,
        bool,
        *const f64,
        *mut f64,
        *mut f64,
        *mut Message,
    ) -> c_int,
}

impl Functions {
    fn load(file: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: loading runs code of a library that the user trusts; its functions have the types of `bridgestan.h`.
        // It is never unloaded: the threads of a run may hold what Stan keeps for each of them.
        unsafe {
            let library: &Library = Box::leak(Box::new(Library::new(file)?));
            Ok(Self {
                construct: *library.get(b"bs_model_construct")?,
                destruct: *library.get(b"bs_model_destruct")?,
                free_message: *library.get(b"bs_free_error_msg")?,
                info: *library.get(b"bs_model_info")?,
                dimension: *library.get(b"bs_param_unc_num")?,
                log_density_gradient: *library.get(b"bs_log_density_gradient")?,
            })
        }
    }

    fn take(&self, message: Message) -> String {
        if message.is_null() {
            return "failed without a message".into();
        }
        // SAFETY: not null, it is a C string of this library.
        unsafe {
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.free_message)(message);
            text
        }
    }
}

pub struct StanModel {
    functions: Functions,
    model: Model,
}

// SAFETY: a library with STAN_THREADS, which `load` demands, may be called by several threads.
unsafe impl Send for StanModel {}
unsafe impl Sync for StanModel {}

impl StanModel {
    /// Loads a library with its data: the path of a file that ends in `.json`, or JSON itself.
    ///
    /// # Errors
    /// A library that cannot be loaded, lacks a function, or was compiled without `STAN_THREADS=true`; data that the
    /// model refuses.
    pub fn load(file: &Path, data: &str) -> Result<Self> {
        let no_library = |error| Error::file(file, format!("is no library of BridgeStan: {error}"));
        let functions = Functions::load(file).map_err(no_library)?;
        let data = CString::new(data).map_err(|error| Error::file(file, error))?;
        let mut message = ptr::null_mut();
        // SAFETY: the string lives as long as the call.
        let model = unsafe { (functions.construct)(data.as_ptr(), 0, &mut message) };
        if model.is_null() {
            return Err(Error::file(file, functions.take(message)));
        }
        let model = Self { functions, model };
        match model.info().contains("STAN_THREADS=true") {
            true => Ok(model),
            false => Err(Error::file(file, "was compiled without STAN_THREADS=true")),
        }
    }

    fn info(&self) -> String {
        // SAFETY: the model is alive, and the text its own.
        let text = unsafe { CStr::from_ptr((self.functions.info)(self.model)) };
        text.to_string_lossy().into_owned()
    }

    /// Returns the number of unbounded parameters.
    pub fn dimension(&self) -> usize {
        // SAFETY: the model is alive.
        let dimension = unsafe { (self.functions.dimension)(self.model) };
        dimension.try_into().unwrap_or(0)
    }

    /// Returns `log f(x)` of the unbounded parameters, with all constants and the Jacobian, and writes its gradient.
    /// Where Stan throws an exception the density is 0, as for Stan's own sampler.
    ///
    /// # Panics
    /// If state or gradient have another dimension.
    pub fn log_density_gradient(&self, state: &[f64], gradient: &mut [f64]) -> f64 {
        let dimension = self.dimension();
        assert!(state.len() == dimension && gradient.len() == dimension);
        let (drop_constants, with_jacobian) = (false, true);
        let (mut log_density, mut message) = (0.0, ptr::null_mut());
        // SAFETY: both slices have the dimension of the model.
        let code = unsafe {
            (self.functions.log_density_gradient)(
                self.model,
                drop_constants,
                with_jacobian,
                state.as_ptr(),
                &mut log_density,
                gradient.as_mut_ptr(),
                &mut message,
            )
        };
        if code != 0 {
            self.functions.take(message);
            return f64::NEG_INFINITY;
        }
        log_density
    }
}

impl Drop for StanModel {
    fn drop(&mut self) {
        // SAFETY: nobody else has the model.
        unsafe { (self.functions.destruct)(self.model) }
    }
}
