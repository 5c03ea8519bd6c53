//! Trains an energy model of burn on digits, and estimates its log Z along the way.

use std::path::Path;

use annealed_burn::Energy;
use annealed_burn::common::{Failed, report};

fn main() -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    report::run::<Energy>("burn", &folder)
}
