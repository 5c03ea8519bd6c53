//! Files that hold RBMs, and files of data to train and score them on.

// Each file uses only those above it.
mod dtype;

mod array;

mod idx;

mod inflate;

mod npy;

mod npz;

#[cfg(feature = "safetensors")]
mod safetensors;

mod arrays;

mod binarization;

mod data_layout;

mod binary_data;

mod rbm_layout;

mod rbm_file;

#[cfg(test)]
mod tests;

pub use binarization::Binarization;
pub use binary_data::BinaryData;
pub use data_layout::DataLayout;
pub use rbm_file::RbmFile;
pub use rbm_layout::RbmLayout;
