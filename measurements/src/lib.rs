//! Parts shared by several measuring programs: problems with a known log Z, a variational autoencoder, images of bars,
//! joint costs of an RBM's path, and three kinds of pictures. The programs are in `src/bin`; `README.md` lists them.

#![allow(missing_docs, missing_debug_implementations)] // The programs beside it are its only users.

#[path = "../../tests/it/shared/autoencoder.rs"]
pub mod autoencoder;
pub mod bars;
pub mod dot_sheet;
pub mod image_sheet;
mod joint_costs;
pub mod problems;
pub mod scatter_sheet;

use std::path::PathBuf;

pub use joint_costs::joint_costs;

/// Returns the folder of data that are not in the repository: `shared/data`, beside the clone.
pub fn shared_data() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"))
}
