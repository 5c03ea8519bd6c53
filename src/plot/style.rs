//! How lines differ: by colour, dashes and markers, so that those that coincide are all seen.

use std::fmt::Write;

/// Colours that differ for colour-blind readers too (Okabe and Ito 2008).
const COLOURS: [&str; 8] = [
    "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#949494",
];

/// Lengths of dashes and gaps. The gaps show the line below.
const DASHES: [&str; 5] = ["", "7 4", "2 3", "9 3 2 3", "4 7"];

/// Half the size of a marker.
const MARKER: f64 = 3.2;

/// How a line of a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Style {
    index: usize,
    dashed: bool,
}

impl Style {
    /// Of the line of this index.
    pub(super) fn of(index: usize) -> Self {
        Self {
            index,
            dashed: true,
        }
    }

    /// The same without dashes.
    pub(super) fn solid(self) -> Self {
        Self {
            dashed: false,
            ..self
        }
    }

    pub(super) fn colour(self) -> &'static str {
        COLOURS[self.index % COLOURS.len()]
    }

    /// The attributes of a stroke of this width.
    pub(super) fn stroke(self, width: f64) -> String {
        let stroke = format!("stroke=\"{}\" stroke-width=\"{width}\"", self.colour());
        match DASHES[self.index % DASHES.len()] {
            "" => stroke,
            _ if !self.dashed => stroke,
            dashes => format!("{stroke} stroke-dasharray=\"{dashes}\""),
        }
    }

    /// Draws a marker, hollow, so that one below it is seen.
    pub(super) fn marker(self, svg: &mut String, (x, y): (f64, f64)) {
        let outline = self.solid().stroke(1.2);
        let path = match self.index % 4 {
            0 => {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{MARKER}\" fill=\"none\" {outline}/>"
                );
                return;
            }
            1 => "m-3 -3h6v6h-6z",
            2 => "m0 -4l3.8 6.6h-7.6z",
            _ => "m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z",
        };
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.2} {y:.2}{path}\" fill=\"none\" {outline}/>"
        );
    }
}
