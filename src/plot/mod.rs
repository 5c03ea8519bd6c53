//! Figures as SVG files (feature `plot`).

mod chart;
mod scatter;
mod sheet;

pub use chart::Chart;
pub use scatter::ScatterSheet;
pub use sheet::ImageSheet;

use std::path::Path;

use crate::error::{Error, Result};

fn write(path: &Path, svg: &str) -> Result<()> {
    std::fs::write(path, svg).map_err(|error| Error::File {
        path: path.display().to_string(),
        reason: error.to_string(),
    })
}
