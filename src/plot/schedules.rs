//! Charts of schedules.

use std::path::Path;

use super::frame::WIDTH;
use super::{Chart, save_column};
use crate::Result;
use crate::schedule::Schedule;

/// Draws named schedules to an SVG file: beta along the stages, and the step of beta at each beta.
///
/// ```
/// use annealed::plot;
/// use annealed::schedule::Schedule;
///
/// let (linear, power) = (Schedule::linear(100)?, Schedule::power(100, 3.0)?);
/// # let file = std::env::temp_dir().join("annealed-schedules.svg");
/// plot::schedules([("linear", &linear), ("power 3", &power)], &file)?;
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// # Errors
/// No schedule; [`Error::File`](crate::Error::File) where the file cannot be written.
pub fn schedules<'a>(
    schedules: impl IntoIterator<Item = (&'a str, &'a Schedule)>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let mut along = Chart::new("Schedules", "k / K", "β");
    let mut steps = Chart::new("Steps of β", "β", "β(k) - β(k-1)").logarithmic_y();
    for (name, schedule) in schedules {
        let (betas, last) = (schedule.betas(), schedule.stages() as f64);
        let points = betas.iter().enumerate();
        along = along.line(name, points.map(|(k, &beta)| (k as f64 / last, beta)));
        let pairs = betas.windows(2);
        steps = steps.line(name, pairs.map(|pair| (pair[1], pair[1] - pair[0])));
    }
    save_column(
        &[along, steps.with_size(WIDTH, 220.0).without_legend()],
        path,
    )
}
