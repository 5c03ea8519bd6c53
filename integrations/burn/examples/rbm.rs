//! Writes the RBMs that `tests/files/rust_files.rs` of `annealed-files` reads: `cargo run --release --example rbm`.

use std::path::Path;

use annealed_burn::common::{Failed, rbm::parameters};
use annealed_burn::rbm::Rbm;

fn main() -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/annealed-files/tests/data/rust");
    Rbm::with(&parameters(6, 4)).save_to(&folder.join("burn.safetensors"))?;
    Rbm::with(&parameters(6, 6)).save_to(&folder.join("burn_square.safetensors"))
}
