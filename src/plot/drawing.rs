//! Finished drawings, and sheets of them.

use std::fmt::Write;

/// The elements of a drawing, and its size.
pub(super) struct Drawing {
    pub(super) svg: String,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Drawing {
    /// Creates an empty drawing of this width.
    pub(super) fn empty(width: f64) -> Self {
        let (svg, height) = (String::new(), 0.0);
        Self { svg, width, height }
    }

    /// Adds drawings side by side, below all that is there.
    pub(super) fn add_row(&mut self, row: &[Self]) {
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

    /// Returns the drawing as an SVG document.
    pub(super) fn document(&self) -> String {
        let (width, height, svg) = (self.width, self.height, &self.svg);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{svg}</svg>\n"
        )
    }
}
