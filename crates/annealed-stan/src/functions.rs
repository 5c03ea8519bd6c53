//! The functions of `bridgestan.h`, version 2.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use libloading::Library;

/// Pointer to a `bs_model`.
pub(super) type Model = *mut c_void;
/// Error text of Stan. The caller must free it.
pub(super) type Message = *mut c_char;
/// Pointer to a `bs_rng`.
type Generator = *mut c_void;

#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) construct: unsafe extern "C" fn(*const c_char, c_uint, *mut Message) -> Model,
    pub(super) destruct: unsafe extern "C" fn(Model),
    free_message: unsafe extern "C" fn(Message),
    pub(super) info: unsafe extern "C" fn(Model) -> *const c_char,
    pub(super) dimension: unsafe extern "C" fn(Model) -> c_int,
    pub(super) count: unsafe extern "C" fn(Model, bool, bool) -> c_int,
    pub(super) names: unsafe extern "C" fn(Model, bool, bool) -> *const c_char,
    pub(super) unconstrain:
        unsafe extern "C" fn(Model, *const f64, *mut f64, *mut Message) -> c_int,
    pub(super) constrain: unsafe extern "C" fn(
        Model,
        bool,
        bool,
        *const f64,
        *mut f64,
        Generator,
        *mut Message,
    ) -> c_int,
    pub(super) log_density:
        unsafe extern "C" fn(Model, bool, bool, *const f64, *mut f64, *mut Message) -> c_int,
    pub(super) log_density_gradient: unsafe extern "C" fn(
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
    pub(super) fn load(file: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: loading runs code of a library that the user trusts; its functions have the types of `bridgestan.h`.
        // The library is never unloaded, because the threads of a run may hold data that Stan keeps for each thread.
        unsafe {
            let library: &Library = Box::leak(Box::new(Library::new(file)?));
            Ok(Self {
                construct: *library.get(b"bs_model_construct")?,
                destruct: *library.get(b"bs_model_destruct")?,
                free_message: *library.get(b"bs_free_error_msg")?,
                info: *library.get(b"bs_model_info")?,
                dimension: *library.get(b"bs_param_unc_num")?,
                count: *library.get(b"bs_param_num")?,
                names: *library.get(b"bs_param_names")?,
                unconstrain: *library.get(b"bs_param_unconstrain")?,
                constrain: *library.get(b"bs_param_constrain")?,
                log_density: *library.get(b"bs_log_density")?,
                log_density_gradient: *library.get(b"bs_log_density_gradient")?,
            })
        }
    }

    /// Copies and frees an error text.
    pub(super) fn take(&self, message: Message) -> String {
        if message.is_null() {
            return "failed without a message".into();
        }
        // SAFETY: if not null, it is a C string of this library.
        unsafe {
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.free_message)(message);
            text
        }
    }
}

/// Copies a text returned by a model.
///
/// # Safety
/// `text` is a C string or null.
pub(super) unsafe fn copied(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: if not null, it is a C string by the contract of this function.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
