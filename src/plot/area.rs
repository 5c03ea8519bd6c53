//! The area of a chart in which lines are drawn, between its axes.

use std::fmt::Write;

use super::axis::Scale;
use super::style::Style;

/// The area between the axes: a rectangle of the drawing, in its units, with a scale for each axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

/// Half the width of the ends of an error bar.
const CAP: f64 = 3.5;

impl Area {
    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    /// A point of the drawing from parts of width and height.
    fn place(&self, (across, up): (f64, f64)) -> (f64, f64) {
        (
            self.left + across * self.width,
            self.bottom() - up * self.height,
        )
    }

    /// Parts of width and height.
    fn parts(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.at(x), self.y.at(y))
    }

    pub(super) fn across(&self, x: f64) -> f64 {
        self.place((self.x.at(x), 0.0)).0
    }

    pub(super) fn up(&self, y: f64) -> f64 {
        self.place((0.0, self.y.at(y))).1
    }

    /// A line through points, as far as it lies in the area.
    pub(super) fn line(&self, svg: &mut String, points: &[(f64, f64)], style: Style) {
        for piece in clipped(points.iter().map(|&point| self.parts(point))) {
            let places: Vec<String> = piece.iter().map(|&part| self.text_of(part)).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" {}/>",
                places.join(" "),
                style.stroke(1.6)
            );
        }
    }

    /// Markers at the points that lie in the area.
    pub(super) fn markers(&self, svg: &mut String, points: &[(f64, f64)], style: Style) {
        for &point in points {
            let (across, up) = self.parts(point);
            if inside(across) && inside(up) {
                style.marker(svg, self.place((across, up)));
            }
        }
    }

    /// Vertical bars with ends: abscissa, lower and upper end.
    pub(super) fn bars(&self, svg: &mut String, spans: &[(f64, f64, f64)], style: Style) {
        for &(x, low, high) in spans {
            let (low, high) = (self.y.at(low), self.y.at(high));
            if !inside(self.x.at(x)) || high < 0.0 || low > 1.0 {
                continue;
            }
            let x = self.across(x);
            let cap = |part: f64| match inside(part) {
                true => {
                    let y = self.place((0.0, part)).1;
                    format!("M{:.2} {y:.2}H{:.2}", x - CAP, x + CAP)
                }
                false => String::new(),
            };
            let ends = [low, high].map(|part| self.place((0.0, part.clamp(0.0, 1.0))).1);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.2} {:.2}V{:.2}{}{}\" fill=\"none\" {}/>",
                ends[0],
                ends[1],
                cap(low),
                cap(high),
                style.solid().stroke(1.0)
            );
        }
    }

    /// The surface between lower and upper ends.
    pub(super) fn band(&self, svg: &mut String, spans: &[(f64, f64, f64)], style: Style) {
        if spans.is_empty() {
            return;
        }
        let seen = || spans.iter().filter(|span| inside(self.x.at(span.0)));
        let limited = |(x, y)| {
            let (across, up) = self.parts((x, y));
            self.text_of((across, up.clamp(0.0, 1.0)))
        };
        let low = seen().map(|&(x, low, _)| limited((x, low)));
        let high = seen().rev().map(|&(x, _, high)| limited((x, high)));
        let points: Vec<String> = low.chain(high).collect();
        let (points, colour) = (points.join(" "), style.colour());
        let _ = writeln!(
            svg,
            "<polygon points=\"{points}\" fill=\"{colour}\" fill-opacity=\".2\"/>"
        );
    }

    fn text_of(&self, part: (f64, f64)) -> String {
        let (x, y) = self.place(part);
        format!("{x:.2},{y:.2}")
    }
}

pub(super) fn inside(part: f64) -> bool {
    (0.0..=1.0).contains(&part)
}

/// The pieces of a line through points that lie in the unit square. A point alone is a piece too.
fn clipped(points: impl Iterator<Item = (f64, f64)>) -> Vec<Vec<(f64, f64)>> {
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut before = None;
    for point in points {
        let segment = clip(before.unwrap_or(point), point);
        before = Some(point);
        let Some((from, to)) = segment else {
            continue;
        };
        match pieces.last_mut() {
            Some(piece) if piece.last() == Some(&from) => piece.push(to),
            _ if from == to => pieces.push(vec![from]),
            _ => pieces.push(vec![from, to]),
        }
    }
    pieces
}

/// The part of a segment that lies in the unit square (Liang and Barsky 1984).
fn clip(from: (f64, f64), to: (f64, f64)) -> Option<((f64, f64), (f64, f64))> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut start, mut end) = (0.0_f64, 1.0_f64);
    let sides = [
        (-dx, from.0),
        (dx, 1.0 - from.0),
        (-dy, from.1),
        (dy, 1.0 - from.1),
    ];
    for (outward, room) in sides {
        match outward {
            0.0 if room < 0.0 => return None,
            0.0 => {}
            _ if outward < 0.0 => start = start.max(room / outward),
            _ => end = end.min(room / outward),
        }
    }
    let at = |t: f64| match t {
        0.0 => from,
        1.0 => to,
        _ => (from.0 + t * dx, from.1 + t * dy),
    };
    (start <= end).then(|| (at(start), at(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_edges_of_the_area() {
        let pieces = clipped([(-1.0, 0.5), (0.5, 0.5), (0.5, 2.0), (0.6, 0.5)].into_iter());
        let crossed = 0.5 + 0.1 * (1.0 / 1.5);
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces[0], [(0.0, 0.5), (0.5, 0.5), (0.5, 1.0)]);
        assert!((pieces[1][0].0 - crossed).abs() < 1e-12 && pieces[1][0].1 == 1.0);
        assert_eq!(pieces[1][1], (0.6, 0.5));
        assert!(clipped([(-1.0, 0.5), (0.5, 3.0)].into_iter()).is_empty());
    }
}
