//! Sheets of scatter plots.

use std::fmt::Write;
use std::path::Path;

use super::escaped;
use crate::{Error, Result};

/// Width of a panel in the drawing.
const PANEL: f64 = 110.0;
const GAP: f64 = 8.0;
const LABEL_HEIGHT: f64 = 16.0;

/// Clouds of points in labelled rows of small panels with the same axes, as SVG: samples along a
/// path.
///
/// ```
/// use annealed::plot::ScatterSheet;
///
/// let panels = [vec![(0.0, 1.0), (-2.0, 0.5)], vec![(1.5, -1.0)]];
/// let svg = ScatterSheet::new((-3.0, 3.0), (-3.0, 3.0))?.row("samples", &panels).to_svg();
/// assert_eq!(svg.matches("<path").count(), 2);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct ScatterSheet {
    x: (f64, f64),
    y: (f64, f64),
    rows: Vec<(String, Vec<Points>)>,
}

type Points = Vec<(f64, f64)>;

impl ScatterSheet {
    /// With the ranges of the axes, lower and upper end.
    ///
    /// # Errors
    /// A range that is empty or not finite.
    pub fn new(x: (f64, f64), y: (f64, f64)) -> Result<Self> {
        for (argument, (low, high)) in [("range of x", x), ("range of y", y)] {
            let finite = low < high && low.is_finite() && high.is_finite();
            let found = format!("{low} to {high}");
            Error::check(finite, argument, found, "a finite range")?;
        }
        let rows = Vec::new();
        Ok(Self { x, y, rows })
    }

    /// Adds a row of panels, each of points `(x, y)`; points outside of the axes are left out.
    pub fn row(mut self, label: &str, panels: &[Points]) -> Self {
        self.rows.push((label.into(), panels.to_vec()));
        self
    }

    /// The sheet as an SVG document.
    pub fn to_svg(&self) -> String {
        let columns = self.rows.iter().map(|(_, panels)| panels.len()).max();
        let width = GAP + columns.unwrap_or(0) as f64 * (PANEL + GAP);
        let height = GAP + self.rows.len() as f64 * (LABEL_HEIGHT + PANEL + GAP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        for (index, (label, panels)) in self.rows.iter().enumerate() {
            let top = GAP + index as f64 * (LABEL_HEIGHT + PANEL + GAP) + LABEL_HEIGHT;
            let (base_line, label) = (top - 4.0, escaped(label));
            // Writing to a string cannot fail.
            let _ = writeln!(svg, "<text x=\"{GAP}\" y=\"{base_line}\">{label}</text>");
            for (column, points) in panels.iter().enumerate() {
                let left = GAP + column as f64 * (PANEL + GAP);
                let _ = writeln!(svg, "{}", self.panel(points, left, top));
            }
        }
        svg + "</svg>\n"
    }

    /// Writes the sheet to an SVG file.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        super::write(path.as_ref(), &self.to_svg())
    }

    /// A frame, and all points as one path of round dots.
    fn panel(&self, points: &[(f64, f64)], left: f64, top: f64) -> String {
        let mut dots = String::new();
        for &(x, y) in points {
            let across = (x - self.x.0) / (self.x.1 - self.x.0);
            let up = (y - self.y.0) / (self.y.1 - self.y.0);
            if (0.0..=1.0).contains(&across) && (0.0..=1.0).contains(&up) {
                let _ = write!(dots, "M{:.1} {:.1}h0", across * PANEL, (1.0 - up) * PANEL);
            }
        }
        format!(
            "<g transform=\"translate({left} {top})\"><rect width=\"{PANEL}\" height=\"{PANEL}\" \
             fill=\"none\" stroke=\"#bbb\"/><path d=\"{dots}\" stroke=\"#0072b2\" \
             stroke-width=\"1.6\" stroke-linecap=\"round\" stroke-opacity=\".5\"/></g>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_placed_with_y_upward_and_cut_at_the_axes() {
        let points = [(0.0, 1.0), (2.0, -1.0), (2.1, 0.0), (f64::NAN, 0.0)];
        let sheet = ScatterSheet::new((0.0, 2.0), (-1.0, 1.0)).unwrap();
        let svg = sheet.row("a < b", &[points.to_vec()]).to_svg();
        assert!(svg.contains("d=\"M0.0 0.0h0M110.0 110.0h0\""), "{svg}");
        assert!(svg.contains("a &lt; b"));
    }

    #[test]
    fn empty_ranges_are_refused() {
        assert!(ScatterSheet::new((1.0, 1.0), (0.0, 1.0)).is_err());
        assert!(ScatterSheet::new((0.0, 1.0), (0.0, f64::INFINITY)).is_err());
    }
}
