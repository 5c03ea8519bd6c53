//! The area of a chart between its axes, and the lines in it.

use std::fmt::Write;

use super::axis::Scale;

/// Half the width of the ends of an error bar.
const CAP: f64 = 3.5;

/// Colours that differ for colour-blind readers too (Okabe and Ito 2008).
const COLOURS: [&str; 8] = [
    "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#949494",
];

/// Lengths of dashes and gaps in each style of line. A covered line shows through the gaps.
const DASHES: [&str; 5] = ["", "7 4", "2 3", "9 3 2 3", "4 7"];

/// The area between the axes: a rectangle in units of the drawing, with a scale for each axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

impl Area {
    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn across(&self, x: f64) -> f64 {
        self.left + self.x.at(x) * self.width
    }

    pub(super) fn up(&self, y: f64) -> f64 {
        self.bottom() - self.y.at(y) * self.height
    }

    /// Adds the elements `drawn`, clipped one pixel outside the edges, so that a line along an edge is drawn in full.
    pub(super) fn cut(&self, svg: &mut String, drawn: &str) {
        let (left, top) = (self.left - 1.0, self.top - 1.0);
        let (width, height) = (self.width + 2.0, self.height + 2.0);
        let sides = format!("width=\"{width:.2}\" height=\"{height:.2}\"");
        let _ = writeln!(
            svg,
            "<svg x=\"{left:.2}\" y=\"{top:.2}\" {sides} viewBox=\"{left:.2} {top:.2} {width:.2} {height:.2}\">\n{drawn}</svg>"
        );
    }

    pub(super) fn line(&self, svg: &mut String, points: &[(f64, f64)], style: Style) {
        let (points, stroke) = (self.places(points), style.stroke(1.6));
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" {stroke}/>"
        );
    }

    /// Draws markers at the points that lie in the area.
    pub(super) fn markers(&self, svg: &mut String, points: &[(f64, f64)], style: Style) {
        for &(x, y) in points {
            if inside(self.x.at(x)) && inside(self.y.at(y)) {
                style.marker(svg, (self.across(x), self.up(y)));
            }
        }
    }

    /// Draws error bars, each given by abscissa, lower and upper end.
    pub(super) fn bars(&self, svg: &mut String, spans: &[(f64, f64, f64)], style: Style) {
        for &(x, low, high) in spans.iter().filter(|span| inside(self.x.at(span.0))) {
            let (x, low, high) = (self.across(x), self.up(low), self.up(high));
            let (start, end, stroke) = (x - CAP, x + CAP, style.solid().stroke(1.0));
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.2} {low:.2}V{high:.2}M{start:.2} {low:.2}H{end:.2}M{start:.2} {high:.2}H{end:.2}\" \
                 fill=\"none\" {stroke}/>"
            );
        }
    }

    pub(super) fn band(&self, svg: &mut String, spans: &[(f64, f64, f64)], style: Style) {
        if spans.is_empty() {
            return;
        }
        let low = spans.iter().map(|&(x, low, _)| (x, low));
        let high = spans.iter().rev().map(|&(x, _, high)| (x, high));
        let points = self.places(&low.chain(high).collect::<Vec<_>>());
        let colour = style.colour();
        let _ = writeln!(
            svg,
            "<polygon points=\"{points}\" fill=\"{colour}\" fill-opacity=\".2\"/>"
        );
    }

    fn places(&self, points: &[(f64, f64)]) -> String {
        let place = |&(x, y): &(f64, f64)| format!("{:.2},{:.2}", self.across(x), self.up(y));
        points.iter().map(place).collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn inside(part: f64) -> bool {
    (0.0..=1.0).contains(&part)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Style {
    index: usize,
    dashed: bool,
}

impl Style {
    pub(super) fn of(index: usize) -> Self {
        let dashed = true;
        Self { index, dashed }
    }

    pub(super) fn solid(self) -> Self {
        let dashed = false;
        Self { dashed, ..self }
    }

    pub(super) fn colour(self) -> &'static str {
        COLOURS[self.index % COLOURS.len()]
    }

    pub(super) fn stroke(self, width: f64) -> String {
        let stroke = format!("stroke=\"{}\" stroke-width=\"{width}\"", self.colour());
        match DASHES[self.index % DASHES.len()] {
            "" => stroke,
            _ if !self.dashed => stroke,
            dashes => format!("{stroke} stroke-dasharray=\"{dashes}\""),
        }
    }

    /// Draws a hollow marker, so that a marker below it shows through.
    pub(super) fn marker(self, svg: &mut String, (x, y): (f64, f64)) {
        let outline = self.solid().stroke(1.2);
        let path = match self.index % 4 {
            0 => "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z",
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
