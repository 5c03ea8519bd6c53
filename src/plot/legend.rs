//! The legend of a chart: samples of its lines with their names, in rows.

use std::fmt::Write;

use super::area::Style;
use super::text::{width_of, write_text};

/// Height of a row.
const ROW: f64 = 18.0;
/// Length of a line's sample.
const SAMPLE: f64 = 34.0;

/// One line: its place among all lines, which gives its style, its name, and whether it has markers.
pub(super) type Entry<'n> = (usize, &'n str, bool);

pub(super) struct Legend<'n> {
    rows: Vec<Vec<Entry<'n>>>,
}

impl<'n> Legend<'n> {
    /// Arranges the lines that have a name, as many side by side as this width holds.
    pub(super) fn new(lines: impl IntoIterator<Item = Entry<'n>>, width: f64) -> Self {
        let mut rows: Vec<Vec<Entry<'n>>> = Vec::new();
        let mut used = f64::INFINITY;
        for entry in lines.into_iter().filter(|entry| !entry.1.is_empty()) {
            used += room(&entry);
            if used > width {
                rows.push(Vec::new());
                used = room(&entry);
            }
            rows.last_mut().expect("a row was begun").push(entry);
        }
        Self { rows }
    }

    pub(super) fn height(&self) -> f64 {
        ROW * self.rows.len() as f64
    }

    /// Draws the rows below `top`, centred.
    pub(super) fn draw(&self, svg: &mut String, (center, top): (f64, f64)) {
        for (row, entries) in self.rows.iter().enumerate() {
            let wide: f64 = entries.iter().map(room).sum();
            let (mut x, y) = (center - wide / 2.0, top + ROW * (row as f64 + 0.5));
            for entry in entries {
                draw_entry(svg, (x, y), entry);
                x += room(entry);
            }
        }
    }
}

fn room((_, name, _): &Entry<'_>) -> f64 {
    SAMPLE + 24.0 + width_of(name)
}

fn draw_entry(svg: &mut String, (x, y): (f64, f64), &(index, name, marked): &Entry<'_>) {
    let style = Style::of(index);
    let stroke = style.stroke(1.6);
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<path d=\"m{x:.2} {y:.2}h{SAMPLE}\" {stroke}/>");
    if marked {
        style.marker(svg, (x + SAMPLE / 2.0, y));
    }
    write_text(svg, (x + SAMPLE + 6.0, y + 4.0), "start", "", name);
}
