//! Files that hold RBMs, and files of data to train them on.

mod idx;
#[cfg(feature = "npz")]
mod npy;
#[cfg(feature = "npz")]
mod npz;

pub use idx::IdxArray;
#[cfg(feature = "npz")]
pub use npz::RbmFile;
