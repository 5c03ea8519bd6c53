//! Trains an energy model of candle on digits, and estimates its log Z along the way.

use std::path::Path;

use annealed_candle::Energy;
use annealed_candle::common::{Failed, report};

fn main() -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    report::run::<Energy>("candle", &folder)
}
