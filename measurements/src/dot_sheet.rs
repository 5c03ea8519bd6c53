//! Shares between 0 and 1 in labelled rows, as SVG: printed ones as rings, our own as dots with intervals.

use std::fmt::Write;

const ROW: f64 = 14.0;
const LABEL: f64 = 290.0;
const WIDTH: f64 = 420.0;
const MARGIN: f64 = 24.0;

/// A share and the ends of its interval.
pub type Interval = (f64, f64, f64);

pub struct DotSheet {
    title: String,
    rows: Vec<(String, Option<f64>, Option<Interval>)>,
}

impl DotSheet {
    pub fn new(title: &str) -> Self {
        let (title, rows) = (title.into(), Vec::new());
        Self { title, rows }
    }

    /// Adds a row with a printed share and one of our own.
    pub fn row(&mut self, label: &str, printed: Option<f64>, ours: Option<Interval>) {
        self.rows.push((label.into(), printed, ours));
    }

    pub fn to_svg(&self) -> String {
        let (width, height) = (
            LABEL + WIDTH + MARGIN,
            (self.rows.len() + 1) as f64 * ROW + 2.0 * MARGIN,
        );
        let bottom = height - MARGIN;
        let at = |share: f64| LABEL + share * WIDTH;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LABEL}\" y=\"15\" font-size=\"13\">{}</text>\n",
            escaped(&self.title)
        );
        // Writing to a string cannot fail.
        for tenth in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0] {
            let x = at(tenth);
            let _ = writeln!(
                svg,
                "<path d=\"M{x} {MARGIN}V{bottom}\" stroke=\"#ddd\"/>\
                 <text x=\"{x}\" y=\"{:.0}\" text-anchor=\"middle\">{tenth}</text>",
                bottom + 14.0
            );
        }
        for (index, (label, printed, ours)) in self.rows.iter().enumerate() {
            let y = MARGIN + (index as f64 + 1.0) * ROW;
            let (base_line, label, right) = (y + 4.0, escaped(label), LABEL - 10.0);
            let _ = writeln!(
                svg,
                "<text x=\"{right}\" y=\"{base_line}\" text-anchor=\"end\">{label}</text>"
            );
            if let &Some((share, low, high)) = ours {
                let [share, low, high] = [share, low, high].map(at);
                let _ = writeln!(
                    svg,
                    "<path d=\"M{low:.1} {y}H{high:.1}\" stroke=\"#0072b2\" stroke-width=\"2\"/>\
                     <circle cx=\"{share:.1}\" cy=\"{y}\" r=\"3\" fill=\"#0072b2\"/>"
                );
            }
            if let Some(printed) = printed {
                let x = at(*printed);
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"4\" fill=\"none\" stroke=\"#d55e00\" stroke-width=\"1.5\"/>"
                );
            }
        }
        svg + "</svg>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_and_dots_are_placed_by_their_shares() {
        let mut sheet = DotSheet::new("a < b");
        sheet.row("both", Some(0.5), Some((0.25, 0.0, 1.0)));
        sheet.row("printed", Some(1.0), None);
        let svg = sheet.to_svg();
        assert!(
            svg.contains("a &lt; b") && svg.contains("M290.0 38H710.0"),
            "{svg}"
        );
        assert!(
            svg.contains("cx=\"500.0\"") && svg.contains("cx=\"395.0\""),
            "{svg}"
        );
        assert_eq!(svg.matches("r=\"3\"").count(), 1);
    }
}
