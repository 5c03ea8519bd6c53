//! Writes the RBMs that `tests/files/rust_files.rs` of `annealed-files` reads: `cargo run --release --example rbm`.

use std::path::Path;

use annealed_candle::common::rbm::parameters;
use annealed_candle::rbm::Rbm;

fn main() -> candle_core::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/annealed-files/tests/data/rust");
    Rbm::new(&parameters(6, 4))?.save(&folder.join("candle.safetensors"))?;
    Rbm::new(&parameters(6, 6))?.save(&folder.join("candle_square.safetensors"))
}
