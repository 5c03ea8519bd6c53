//! Clouds of points in labelled rows of small panels, as SVG: samples along a path.

use std::fmt::Write;

const PANEL: f64 = 110.0;
const GAP: f64 = 8.0;
const LABEL_HEIGHT: f64 = 16.0;

pub struct ScatterSheet {
    x: (f64, f64),
    y: (f64, f64),
    rows: Vec<(String, Vec<Points>)>,
}

type Points = Vec<(f64, f64)>;

impl ScatterSheet {
    /// Creates an empty sheet with the lower and upper end of both axes.
    pub fn new(x: (f64, f64), y: (f64, f64)) -> Self {
        let rows = Vec::new();
        Self { x, y, rows }
    }

    /// Adds a row of panels with points `(x, y)`. Points outside of the axes are left out.
    pub fn row(mut self, label: &str, panels: &[Points]) -> Self {
        self.rows.push((label.into(), panels.to_vec()));
        self
    }

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
            let (base_line, label) = (top - 4.0, label.replace('&', "&amp;").replace('<', "&lt;"));
            // Writing to a string cannot fail.
            let _ = writeln!(svg, "<text x=\"{GAP}\" y=\"{base_line}\">{label}</text>");
            for (column, points) in panels.iter().enumerate() {
                let left = GAP + column as f64 * (PANEL + GAP);
                let _ = writeln!(svg, "{}", self.panel(points, left, top));
            }
        }
        svg + "</svg>\n"
    }

    /// Draws a frame, and all points as one path of round dots.
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
        let sheet = ScatterSheet::new((0.0, 2.0), (-1.0, 1.0));
        let svg = sheet.row("a < b", &[points.to_vec()]).to_svg();
        assert!(svg.contains("d=\"M0.0 0.0h0M110.0 110.0h0\""), "{svg}");
        assert!(svg.contains("a &lt; b"));
    }
}
