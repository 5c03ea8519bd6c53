//! Draws the results of [`annealed`] as SVG files.
//!
//! ```
//! use annealed::prelude::*;
//! use annealed_plot::Plot;
//!
//! let (base, target) = (Gaussian::standard(2)?, Gaussian::isotropic(DVector::repeat(2, 2.0), 0.5)?);
//! let path = GeometricPath::new(base, target);
//! let run = Ais::new(&path, RandomWalkMetropolis::new(0.5)?).chains(100).run()?;
//! # let file = std::env::temp_dir().join("annealed-first.svg");
//! run.plot(&file)?;
//! # std::fs::remove_file(&file).unwrap();
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`Plot::plot`] draws a run, rounds or a bridge. [`runs`] draws several runs, or one run with further results.
//! [`bridge()`] draws the weights of both directions, [`schedules`] draws schedules, and [`states`] free
//! energies and overlaps of many states. [`Chart`] draws lines and
//! histograms, and [`save_column`] writes several charts to one file.

mod area;
mod axis;
mod bridge;
mod chart;
#[cfg(test)]
mod examples;
mod frame;
mod histogram;
mod panels;
mod picture;
mod plot;
mod reference;
mod states;
mod text;

pub use bridge::bridge;
pub use chart::Chart;
pub use picture::{Picture, runs};
pub use plot::Plot;
pub use states::states;

use std::fmt::Write;
use std::path::Path;

use annealed::schedule::Schedule;
use annealed::{Error, Result};

use frame::WIDTH;

/// Writes charts, one above the other, to one SVG file.
///
/// # Errors
/// No chart, or an error of [`Chart::save`].
pub fn save_column(charts: &[Chart], path: impl AsRef<Path>) -> Result<()> {
    write(path.as_ref(), &column(charts)?.document())
}

fn column(charts: &[Chart]) -> Result<Drawing> {
    if charts.is_empty() {
        return Err(Error::invalid("charts", "none", "at least one"));
    }
    let mut column = Drawing::empty(WIDTH);
    for chart in charts {
        column.add_row(&[chart.drawing()?]);
    }
    Ok(column)
}

fn write(path: &Path, svg: &str) -> Result<()> {
    std::fs::write(path, svg).map_err(|error| Error::io(path, error))
}

/// Draws named schedules to an SVG file: beta along the stages, and the step of beta at each beta.
///
/// ```
/// use annealed::schedule::Schedule;
///
/// let (linear, power) = (Schedule::linear(100)?, Schedule::power(100, 3.0)?);
/// # let file = std::env::temp_dir().join("annealed-schedules.svg");
/// annealed_plot::schedules([("linear", &linear), ("power 3", &power)], &file)?;
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// # Errors
/// No schedule; [`Error::File`] if the file cannot be written.
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

/// A drawing: its SVG elements and its size.
struct Drawing {
    svg: String,
    width: f64,
    height: f64,
}

impl Drawing {
    fn empty(width: f64) -> Self {
        let (svg, height) = (String::new(), 0.0);
        Self { svg, width, height }
    }

    /// Adds drawings side by side, below everything drawn before.
    fn add_row(&mut self, row: &[Self]) {
        let mut left = 0.0;
        for drawing in row {
            let (top, svg) = (self.height, &drawing.svg);
            // Writing to a string cannot fail.
            let _ = writeln!(
                self.svg,
                "<g transform=\"translate({left} {top})\">\n{svg}</g>"
            );
            left += drawing.width;
        }
        let heights = row.iter().map(|drawing| drawing.height);
        self.height += heights.fold(0.0, f64::max);
    }

    fn document(&self) -> String {
        let (width, height, svg) = (self.width, self.height, &self.svg);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{svg}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_holds_every_chart_below_the_one_before() {
        let chart = |title: &str| Chart::new(title, "x", "y").line("", [(0.0, 0.0), (1.0, 1.0)]);
        let column = column(&[chart("first"), chart("second")]).unwrap();
        let alone = chart("first").drawing().unwrap().height;
        assert_eq!((column.width, column.height), (760.0, 2.0 * alone));
        let svg = column.document();
        let place = |text: &str| svg.find(text).unwrap();
        let below = format!("<g transform=\"translate(0 {alone})\">");
        assert!(place("first") < place(&below) && place(&below) < place("second"));
        for tag in ["svg", "g"] {
            let open = svg.matches(&format!("<{tag}")).count();
            assert_eq!(open, svg.matches(&format!("</{tag}>")).count());
        }
        assert!(super::column(&[]).is_err());
    }
}
