//! The frame of a chart: axes and title, the legend, and the names of reference lines.

use std::fmt::Write;

use super::area::{Area, Style};
use super::axis::{Scale, Ticks};
use super::reference::{Above, Reference, draw_horizontals, room_beside};
use super::text::{width_of, write_text};

pub(super) const WIDTH: f64 = 760.0;
/// Height of the horizontal axis with its labels, below the area.
const BELOW: f64 = 46.0;

pub(super) struct Frame<'c> {
    area: Area,
    /// Title of the chart and labels of its axes.
    titles: [&'c str; 3],
    horizontals: &'c [Reference],
    verticals: &'c [Reference],
    across: Ticks,
    up: Ticks,
    legend: Legend<'c>,
    above: Above,
    width: f64,
}

/// The parts of a chart from which its frame is created.
pub(super) struct Parts<'c> {
    pub(super) titles: [&'c str; 3],
    /// Width of the drawing, and height of the area between the axes.
    pub(super) size: (f64, f64),
    pub(super) scales: (Scale, Scale),
    pub(super) horizontals: &'c [Reference],
    pub(super) verticals: &'c [Reference],
}

impl<'c> Frame<'c> {
    /// Creates a frame around an area, with a legend of `lines`.
    pub(super) fn new(parts: Parts<'c>, lines: impl IntoIterator<Item = Entry<'c>>) -> Self {
        let ((width, height), (x, y)) = (parts.size, parts.scales);
        let up = y.ticks((height / 32.0).max(3.0));
        let widest = up.labelled.iter().map(|(_, label)| width_of(label));
        let left = 36.0 + widest.fold(28.0, f64::max);
        let right = match room_beside(parts.horizontals) {
            0.0 => 14.0,
            room => room + 16.0,
        };
        let wide = (width - left - right).max(160.0);
        let mut area = Area {
            left,
            top: 0.0,
            width: wide,
            height,
            x,
            y,
        };
        let across = x.ticks(wide / 80.0);
        let above = Above::of(parts.verticals, &area, width);
        let legend = Legend::new(lines, width - 20.0);
        let title = if parts.titles[0].is_empty() {
            0.0
        } else {
            22.0
        };
        area.top = title + legend.height() + above.height() + 12.0;
        Self {
            area,
            titles: parts.titles,
            horizontals: parts.horizontals,
            verticals: parts.verticals,
            across,
            up,
            legend,
            above,
            width,
        }
    }

    pub(super) fn area(&self) -> &Area {
        &self.area
    }

    /// Returns the height of the whole drawing.
    pub(super) fn height(&self) -> f64 {
        self.area.bottom() + BELOW
    }

    /// Draws the parts of the frame over which the chart's lines are drawn: ticks, edges, labels, title and legend.
    pub(super) fn draw(&self, svg: &mut String) {
        self.ticks_across(svg);
        self.ticks_up(svg);
        let area = &self.area;
        let (left, top, width, height) = (area.left, area.top, area.width, area.height);
        let (center, bottom, middle) = (left + width / 2.0, area.bottom(), top + height / 2.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
             fill=\"none\" stroke=\"#444\"/>"
        );
        let ([title, x, y], small) = (self.titles, " font-size=\"12\"");
        if !title.is_empty() {
            write_text(svg, (center, 20.0), "middle", " font-size=\"14\"", title);
        }
        write_text(svg, (center, bottom + 36.0), "middle", small, x);
        let turned = format!("{small} transform=\"rotate(-90 15 {middle:.2})\"");
        write_text(svg, (15.0, middle), "middle", &turned, y);
        if let Some(factor) = &self.across.factor {
            write_text(svg, (area.right(), bottom + 32.0), "end", "", factor);
        }
        if let Some(factor) = &self.up.factor {
            write_text(svg, (left, top - 6.0), "end", "", factor);
        }
        let row = top - self.above.height() - self.legend.height() - 6.0;
        self.legend.draw(svg, (self.width / 2.0, row));
    }

    /// Draws the reference lines and their names.
    pub(super) fn draw_references(&self, svg: &mut String) {
        draw_horizontals(svg, &self.area, self.horizontals);
        self.above.draw(svg, &self.area, self.verticals);
    }

    fn ticks_across(&self, svg: &mut String) {
        let (area, bottom) = (&self.area, self.area.bottom());
        for (value, label) in &self.across.labelled {
            let x = area.across(*value);
            let _ = writeln!(
                svg,
                "<path d=\"m{x:.2} {bottom:.2}v5\" stroke=\"#444\"/>\
                 <path d=\"m{x:.2} {bottom:.2}V{:.2}\" stroke=\"#e4e4e4\"/>",
                area.top
            );
            write_text(svg, (x, bottom + 17.0), "middle", "", label);
        }
        for x in self.across.minor.iter().map(|&value| area.across(value)) {
            let _ = writeln!(svg, "<path d=\"m{x:.2} {bottom:.2}v3\" stroke=\"#444\"/>");
        }
    }

    fn ticks_up(&self, svg: &mut String) {
        let (area, left) = (&self.area, self.area.left);
        for (value, label) in &self.up.labelled {
            let y = area.up(*value);
            let _ = writeln!(
                svg,
                "<path d=\"m{left:.2} {y:.2}h-5\" stroke=\"#444\"/>\
                 <path d=\"m{left:.2} {y:.2}H{:.2}\" stroke=\"#e4e4e4\"/>",
                area.right()
            );
            write_text(svg, (left - 8.0, y + 4.0), "end", "", label);
        }
        for y in self.up.minor.iter().map(|&value| area.up(value)) {
            let _ = writeln!(svg, "<path d=\"m{left:.2} {y:.2}h-3\" stroke=\"#444\"/>");
        }
    }
}

/// Height of a row of the legend.
const ROW: f64 = 18.0;
/// Length of the sample of a line beside its name in the legend.
const SAMPLE: f64 = 34.0;

/// A line in the legend: its index, from which its style follows, its name, and whether it has markers.
pub(super) type Entry<'n> = (usize, &'n str, bool);

pub(super) struct Legend<'n> {
    rows: Vec<Vec<Entry<'n>>>,
}

impl<'n> Legend<'n> {
    /// Arranges the lines that have a name, with as many side by side as `width` allows.
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

    /// Draws the rows below `top`, centred at `center`.
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
