//! The surroundings of a chart's lines: axes, titles, reference lines and the legend.

use std::fmt::Write;

use super::area::{Area, Style, inside};
use super::axis::{Scale, Ticks};
use super::escaped;

pub(super) const WIDTH: f64 = 760.0;
/// Mean width of a character of the font.
const CHARACTER: f64 = 7.0;
/// Height of a line of the legend.
const LINE: f64 = 18.0;
const GREY: &str = " fill=\"#555\"";
/// Length of a line's sample in the legend.
const SAMPLE: f64 = 34.0;

pub(super) struct Frame {
    area: Area,
    across: Ticks,
    up: Ticks,
}

impl Frame {
    /// Creates a frame for a chart of this height, beside a legend of `legend` characters.
    pub(super) fn new(height: f64, legend: usize, x: Scale, y: Scale) -> Self {
        let (top, below) = (34.0, 46.0);
        let tall = height - top - below;
        let up = y.ticks((tall / 32.0).max(3.0));
        let widest = up.labelled.iter().map(|(_, label)| label.chars().count());
        let left = 40.0 + CHARACTER * widest.max().unwrap_or(0).max(6) as f64;
        let legend = match legend {
            0 => 14.0,
            characters => SAMPLE + 20.0 + CHARACTER * characters as f64,
        };
        let width = (WIDTH - left - legend).max(240.0);
        let area = Area {
            left,
            top,
            width,
            height: tall,
            x,
            y,
        };
        let across = x.ticks(width / 80.0);
        Self { area, across, up }
    }

    pub(super) fn area(&self) -> &Area {
        &self.area
    }

    pub(super) fn draw(&self, svg: &mut String, [title, x, y]: [&str; 3]) {
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
        let (large, small) = (" font-size=\"15\"", " font-size=\"12\"");
        text(svg, (center, top - 12.0), "middle", large, title);
        text(svg, (center, bottom + 36.0), "middle", small, x);
        let turned = format!("{small} transform=\"rotate(-90 15 {middle:.2})\"");
        text(svg, (15.0, middle), "middle", &turned, y);
        if let Some(factor) = &self.across.factor {
            text(svg, (area.right(), bottom + 32.0), "end", "", factor);
        }
        if let Some(factor) = &self.up.factor {
            text(svg, (left, top - 6.0), "start", "", factor);
        }
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
            text(svg, (x, bottom + 17.0), "middle", "", label);
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
            text(svg, (left - 8.0, y + 4.0), "end", "", label);
        }
        for y in self.up.minor.iter().map(|&value| area.up(value)) {
            let _ = writeln!(svg, "<path d=\"m{left:.2} {y:.2}h-3\" stroke=\"#444\"/>");
        }
    }

    pub(super) fn horizontal(&self, svg: &mut String, name: &str, value: f64) {
        if !inside(self.area.y.at(value)) {
            return;
        }
        let (y, right) = (self.area.up(value), self.area.right());
        thin(svg, (self.area.left, y), &format!("H{right:.2}"));
        // Above the line, where there is room.
        let offset = if y < self.area.top + 18.0 { 13.0 } else { -4.0 };
        text(svg, (right - 5.0, y + offset), "end", GREY, name);
    }

    pub(super) fn vertical(&self, svg: &mut String, name: &str, value: f64) {
        if !inside(self.area.x.at(value)) {
            return;
        }
        let (x, top) = (self.area.across(value), self.area.top);
        thin(svg, (x, self.area.bottom()), &format!("V{top:.2}"));
        let room = self.area.right() - x > CHARACTER * name.chars().count() as f64 + 4.0;
        let (x, anchor) = match room {
            true => (x + 4.0, "start"),
            false => (x - 4.0, "end"),
        };
        text(svg, (x, top + 13.0), anchor, GREY, name);
    }

    /// Draws the names of `lines`, with a marker where the flag is true. A line without a name is left out.
    pub(super) fn legend<'a>(
        &self,
        svg: &mut String,
        lines: impl Iterator<Item = (&'a str, bool)>,
    ) {
        let left = self.area.right() + 12.0;
        let named = lines.enumerate().filter(|(_, (name, _))| !name.is_empty());
        for (row, (index, (name, marked))) in named.enumerate() {
            let (y, style) = (self.area.top + 10.0 + LINE * row as f64, Style::of(index));
            let stroke = style.stroke(1.6);
            let _ = writeln!(svg, "<path d=\"m{left:.2} {y:.2}h{SAMPLE}\" {stroke}/>");
            if marked {
                style.marker(svg, (left + SAMPLE / 2.0, y));
            }
            text(svg, (left + SAMPLE + 6.0, y + 4.0), "start", "", name);
        }
    }
}

fn thin(svg: &mut String, (x, y): (f64, f64), to: &str) {
    let _ = writeln!(
        svg,
        "<path d=\"m{x:.2} {y:.2}{to}\" stroke=\"#777\" stroke-dasharray=\"3 3\"/>"
    );
}

/// Writes a text at a place. Writing to a string cannot fail.
fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, attributes: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\"{attributes}>{text}</text>"
    );
}
