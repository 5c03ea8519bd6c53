//! Figures as SVG files (feature `plot`).
//!
//! [`Run::plot`](crate::ais::Run::plot) draws a run; [`runs`] and [`schedules`] compare several. [`Chart`] draws lines,
//! and [`save_column`] writes several charts to one file.

mod area;
mod axis;
mod chart;
mod frame;
mod run;

pub use chart::Chart;
pub use run::{runs, schedules};

use std::path::Path;

use crate::{Error, Result};

/// Writes charts, one above the other, to one SVG file.
///
/// # Errors
/// No chart, or as [`Chart::save`].
pub fn save_column(charts: &[Chart], path: impl AsRef<Path>) -> Result<()> {
    write(path.as_ref(), &column(charts)?)
}

fn column(charts: &[Chart]) -> Result<String> {
    Error::check_not_empty("charts", charts.len())?;
    let (width, total) = (frame::WIDTH, charts.iter().map(Chart::height).sum::<f64>());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{total}\" viewBox=\"0 0 {width} {total}\">\n"
    );
    let mut top = 0.0;
    for chart in charts {
        let placed = format!("<svg y=\"{top}\" ");
        svg += &chart.to_svg()?.replacen("<svg ", &placed, 1);
        top += chart.height();
    }
    Ok(svg + "</svg>\n")
}

fn write(path: &Path, svg: &str) -> Result<()> {
    std::fs::write(path, svg).map_err(|error| Error::io(path, error))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_holds_every_chart_below_the_one_before() {
        let chart = |title: &str| Chart::new(title, "x", "y").line("", [(0.0, 0.0), (1.0, 1.0)]);
        let svg = column(&[chart("first"), chart("second")]).unwrap();
        let place = |text: &str| svg.find(text).unwrap();
        assert!(svg.starts_with("<svg ") && place("<svg y=\"0\"") < place("first"));
        assert!(
            place("first") < place("<svg y=\"420\"") && place("<svg y=\"420\"") < place("second")
        );
        assert!(svg.contains("height=\"840\""));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        assert!(column(&[]).is_err());
    }
}
