//! Reference lines. Their names stand outside of the area, so that no curve crosses the names.

use std::fmt::Write;

use super::area::{Area, inside};
use super::text::{LINE, width_of, write_text};

pub(super) const GREY: &str = "#555";
/// Colour of results that contradict the drawn ones.
pub(super) const RED: &str = "#c00000";

/// A thin line across the area.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) at: f64,
    pub(super) colour: &'static str,
    dashes: &'static str,
}

impl Reference {
    pub(super) fn new(name: &str, at: f64, colour: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            at,
            colour,
            dashes: "3 3",
        }
    }

    /// Creates a solid black line, which tells an estimate from values beside it.
    pub(super) fn solid(name: &str, at: f64) -> Self {
        Self {
            dashes: "none",
            ..Self::new(name, at, "#000")
        }
    }

    fn line(&self, svg: &mut String, (x, y): (f64, f64), to: &str) {
        let Self { colour, dashes, .. } = self;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.2} {y:.2}{to}\" fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"/>"
        );
    }

    fn name(&self, svg: &mut String, at: (f64, f64), anchor: &str) {
        let colour = format!(" fill=\"{}\"", self.colour);
        write_text(svg, at, anchor, &colour, &self.name);
    }
}

/// Returns the width that the names of horizontal lines take to the right of the area.
pub(super) fn room_beside(references: &[Reference]) -> f64 {
    let widths = references.iter().map(|one| width_of(&one.name));
    widths.fold(0.0, f64::max)
}

/// Draws horizontal lines with their names beside the area. No name covers another.
pub(super) fn draw_horizontals(svg: &mut String, area: &Area, references: &[Reference]) {
    let mut seen: Vec<&Reference> = references
        .iter()
        .filter(|one| inside(area.y.at(one.at)))
        .collect();
    seen.sort_by(|one, other| other.at.total_cmp(&one.at));
    let places: Vec<f64> = seen.iter().map(|one| area.up(one.at)).collect();
    let right = area.right();
    for ((reference, y), label) in seen.iter().zip(&places).zip(apart(&places, area)) {
        reference.line(
            svg,
            (area.left, *y),
            &format!("H{right:.2}L{:.2} {label:.2}", right + 6.0),
        );
        reference.name(svg, (right + 9.0, label + 4.0), "start");
    }
}

/// Returns the `heights` of names, moved apart by at least a line of text within the area. They are sorted from the
/// top.
fn apart(heights: &[f64], area: &Area) -> Vec<f64> {
    let mut apart = heights.to_vec();
    let mut least = area.top;
    for height in &mut apart {
        *height = height.max(least);
        least = *height + LINE;
    }
    let mut most = area.bottom();
    for height in apart.iter_mut().rev() {
        *height = height.min(most);
        most = *height - LINE;
    }
    apart
}

/// The names of vertical lines above the area: left end and row of each name. Row 0 is next to the area.
pub(super) struct Above {
    places: Vec<(f64, usize)>,
}

impl Above {
    /// Places the names side by side, and starts further rows if there is no room.
    pub(super) fn of(references: &[Reference], area: &Area, width: f64) -> Self {
        let mut order: Vec<usize> = (0..references.len()).collect();
        order.sort_by(|&one, &other| references[one].at.total_cmp(&references[other].at));
        let mut taken: Vec<(f64, f64, usize)> = Vec::new();
        let mut places = vec![(0.0, 0); references.len()];
        for (rank, &index) in order.iter().enumerate() {
            let (x, long) = (
                area.across(references[index].at),
                width_of(&references[index].name),
            );
            let [left, middle, right] = [x - long, x - long / 2.0, x];
            let starts = match (references.len(), rank) {
                (1, _) => [middle, right, left],
                (_, 0) => [left, middle, right],
                _ => [right, middle, left],
            };
            let starts = starts.map(|start| start.clamp(2.0, (width - long - 2.0).max(2.0)));
            let free = |&(start, row): &(f64, usize)| {
                let mut taken = taken.iter().filter(|taken| taken.2 == row);
                taken.all(|&(from, to, _)| start + long + 6.0 < from || to + 6.0 < start)
            };
            let rows = 0..=references.len();
            let mut tries = rows.flat_map(|row| starts.map(|start| (start, row)));
            let (start, row) = tries.find(free).unwrap_or((middle, rank));
            taken.push((start, start + long, row));
            places[index] = (start, row);
        }
        Self { places }
    }

    /// Returns the height of all rows.
    pub(super) fn height(&self) -> f64 {
        let rows = self.places.iter().map(|place| place.1 + 1).max();
        LINE * rows.unwrap_or(0) as f64
    }

    /// Draws the vertical lines and their names.
    pub(super) fn draw(&self, svg: &mut String, area: &Area, references: &[Reference]) {
        for (reference, &(start, row)) in references.iter().zip(&self.places) {
            if inside(area.x.at(reference.at)) {
                let (x, top) = (area.across(reference.at), area.top);
                reference.line(svg, (x, area.bottom()), &format!("V{top:.2}"));
                let y = top - 4.0 - LINE * row as f64;
                reference.name(svg, (start, y), "start");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Axis;
    use super::*;

    fn area() -> Area {
        let scale = |low, high| {
            let mut axis = Axis::new("");
            axis.range = Some((low, high));
            axis.scale(std::iter::empty()).unwrap()
        };
        Area {
            left: 50.0,
            top: 100.0,
            width: 600.0,
            height: 200.0,
            x: scale(0.0, 10.0),
            y: scale(0.0, 10.0),
        }
    }

    fn references(places: &[f64]) -> Vec<Reference> {
        let named = |&at: &f64| Reference::new("a name of some length", at, GREY);
        places.iter().map(named).collect()
    }

    #[test]
    fn names_above_do_not_overlap() {
        let long = width_of("a name of some length");
        for places in [
            &[5.0, 5.0, 5.01, 5.1][..],
            &[0.0, 0.1],
            &[10.0, 9.9, 9.8],
            &[3.0],
        ] {
            let above = Above::of(&references(places), &area(), 760.0);
            for (i, (start, row)) in above.places.iter().enumerate() {
                assert!(*start >= 0.0 && start + long <= 760.0, "{start}");
                for (other, its_row) in &above.places[..i] {
                    let apart = (start - other).abs() >= long;
                    assert!(row != its_row || apart, "{places:?}: {start}, {other}");
                }
            }
        }
    }

    #[test]
    fn names_beside_keep_their_order_and_their_distance() {
        let area = area();
        let places = [101.0, 102.0, 200.0, 299.0, 300.0];
        let found = apart(&places, &area);
        assert!(
            found
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= LINE - 1e-9)
        );
        assert!(found[0] >= area.top && found[4] <= area.bottom());
        assert_eq!(found[2], 200.0);
        let mut svg = String::new();
        draw_horizontals(&mut svg, &area, &references(&[5.0, 5.1]));
        let right = svg.matches("<text x=\"659.00\"").count();
        assert_eq!(right, 2, "{svg}");
    }
}
