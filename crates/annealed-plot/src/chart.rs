//! Line charts.

use std::path::Path;

use super::Drawing;
use super::area::Style;
use super::axis::Axis;
use super::frame::{Frame, Parts, WIDTH};
use super::histogram::outline;
use super::reference::{GREY, Reference};
use annealed::{Error, Result};

/// Height of the area between the axes.
const HEIGHT: f64 = 340.0;
/// A line with more points than this has no markers.
const MARKED: usize = 40;

/// A line chart with a legend, as SVG. [`runs`](super::runs) and [`schedules`](super::schedules) draw the usual ones.
///
/// Lines differ in colour, dashes and markers. Values without a place on an axis are left out: values that are not
/// finite, farther than 1e300 from 0, or below 1e-280 on a logarithmic axis.
///
/// ```
/// use annealed_plot::Chart;
///
/// let svg = Chart::new("Bias", "K", "log Ẑ - log Z")
///     .logarithmic_x()
///     .line_with_errors("linear", [(10.0, -2.0, (-3.0, -1.5)), (100.0, -0.1, (-0.3, 0.1))])
///     .horizontal("exact", 0.0)
///     .to_svg()?;
/// assert!(svg.contains("linear"));
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Chart {
    title: String,
    /// Width of the drawing, and height of the area between the axes.
    size: (f64, f64),
    x: Axis,
    y: Axis,
    lines: Vec<Line>,
    horizontals: Vec<Reference>,
    verticals: Vec<Reference>,
    has_legend: bool,
}

/// A line: points from left to right, with error bars or a band.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    /// Abscissa, lower end and upper end of each bar.
    spans: Spans,
    banded: bool,
    marked: bool,
}

impl Chart {
    /// Creates an empty chart.
    pub fn new(title: &str, x_label: &str, y_label: &str) -> Self {
        Self {
            title: title.into(),
            size: (WIDTH, HEIGHT),
            x: Axis::new(x_label),
            y: Axis::new(y_label),
            lines: Vec::new(),
            horizontals: Vec::new(),
            verticals: Vec::new(),
            has_legend: true,
        }
    }

    /// Makes the horizontal axis logarithmic.
    pub fn logarithmic_x(mut self) -> Self {
        self.x.logarithmic = true;
        self
    }

    /// Makes the vertical axis logarithmic.
    pub fn logarithmic_y(mut self) -> Self {
        self.y.logarithmic = true;
        self
    }

    /// Sets the range of the horizontal axis. By default it includes all points. Lines are cut at its ends.
    pub fn x_range(mut self, low: f64, high: f64) -> Self {
        self.x.range = Some((low, high));
        self
    }

    /// Sets the range of the vertical axis, same as [`x_range`](Self::x_range).
    pub fn y_range(mut self, low: f64, high: f64) -> Self {
        self.y.range = Some((low, high));
        self
    }

    /// Adds a line through points from left to right. Points without a place on the axes are skipped. A line without a
    /// name is not in the legend.
    pub fn line(self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.add(name, points.into_iter().collect(), Vec::new(), false)
    }

    /// Adds a histogram. Its bars have the given heights and equal widths between `ends`, and are filled down to 0.
    ///
    /// ```
    /// let chart = annealed_plot::Chart::new("Log weights", "log w", "share of chains");
    /// chart.histogram("linear", (-2.0, 1.0), &[0.25, 0.5, 0.25]).to_svg()?;
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn histogram(self, name: &str, ends: (f64, f64), heights: &[f64]) -> Self {
        let points = outline(ends, heights);
        let spans = points.iter().map(|&(x, y)| (x, 0.0, y)).collect();
        let mut chart = self.add(name, points, spans, true);
        if let Some(line) = chart.lines.last_mut() {
            line.marked = false;
        }
        chart
    }

    /// Adds a line with error bars: each point is x, y and the ends of its bar. Skips points as [`line`](Self::line)
    /// does.
    pub fn line_with_errors(
        self,
        name: &str,
        points: impl IntoIterator<Item = (f64, f64, (f64, f64))>,
    ) -> Self {
        let (points, bars) = split(points);
        self.add(name, points, bars, false)
    }

    /// Adds a line with a band. Each point is x, y and the ends of the band at x.
    pub fn line_with_band(
        self,
        name: &str,
        points: impl IntoIterator<Item = (f64, f64, (f64, f64))>,
    ) -> Self {
        let (points, band) = split(points);
        self.add(name, points, band, true)
    }

    fn add(mut self, name: &str, points: Vec<(f64, f64)>, spans: Spans, banded: bool) -> Self {
        let (name, marked) = (name.into(), points.len() <= MARKED);
        self.lines.push(Line {
            name,
            points,
            spans,
            banded,
            marked,
        });
        self
    }

    /// Adds a thin horizontal line at height `y`. Its name is to the right of the area.
    pub fn horizontal(mut self, name: &str, y: f64) -> Self {
        self.horizontals.push(Reference::new(name, y, GREY));
        self
    }

    /// Adds a thin vertical line at `x`. Its name is above the area.
    pub fn vertical(self, name: &str, x: f64) -> Self {
        self.vertical_in(GREY, name, x)
    }

    pub(super) fn vertical_in(mut self, colour: &'static str, name: &str, x: f64) -> Self {
        self.verticals.push(Reference::new(name, x, colour));
        self
    }

    /// Adds an estimate: a solid vertical line at `x`, with its name above the area.
    pub(super) fn estimate(mut self, name: &str, x: f64) -> Self {
        self.verticals.push(Reference::solid(name, x));
        self
    }

    /// Sets the width of the drawing and the height of the area between the axes.
    pub(super) fn with_size(mut self, width: f64, height: f64) -> Self {
        self.size = (width, height);
        self
    }

    pub(super) fn with_title(mut self, title: &str) -> Self {
        self.title = title.into();
        self
    }

    pub(super) fn without_legend(mut self) -> Self {
        self.has_legend = false;
        self
    }

    /// Returns true if a line has a point with a place on both axes.
    pub(super) fn has_points(&self) -> bool {
        self.drawn().iter().any(|line| !line.points.is_empty())
    }

    /// Returns the chart as an SVG document.
    ///
    /// # Errors
    /// No line with a point to draw, or an empty range.
    pub fn to_svg(&self) -> Result<String> {
        Ok(self.drawing()?.document())
    }

    pub(super) fn drawing(&self) -> Result<Drawing> {
        let lines = self.drawn();
        let frame = self.frame(&lines)?;
        let mut svg = String::new();
        frame.draw(&mut svg);
        let area = frame.area();
        for (index, line) in lines.iter().enumerate() {
            let (style, mut drawn) = (Style::of(index), String::new());
            if line.banded {
                area.band(&mut drawn, &line.spans, style);
            }
            area.line(&mut drawn, &line.points, style);
            if !line.banded {
                area.bars(&mut drawn, &line.spans, style);
            }
            area.cut(&mut svg, &drawn);
            if line.marked {
                area.markers(&mut svg, &line.points, style);
            }
        }
        frame.draw_references(&mut svg);
        Ok(Drawing {
            svg,
            width: self.size.0,
            height: frame.height(),
        })
    }

    /// Writes the chart to an SVG file.
    ///
    /// # Errors
    /// Same as [`to_svg`](Self::to_svg); [`Error::File`](annealed::Error::File) if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        super::write(path.as_ref(), &self.to_svg()?)
    }

    /// Returns the lines without the points and spans that have no place on the axes.
    fn drawn(&self) -> Vec<Line> {
        let has = |x: f64, y: f64| self.x.has(x) && self.y.has(y);
        let mut lines = self.lines.clone();
        for line in &mut lines {
            line.points.retain(|&(x, y)| has(x, y));
            let spans = &mut line.spans;
            spans.retain(|&(x, low, high)| has(x, low) && has(x, high));
        }
        lines
    }

    fn frame<'c>(&'c self, lines: &'c [Line]) -> Result<Frame<'c>> {
        let points = || lines.iter().flat_map(|line| &line.points);
        if points().next().is_none() {
            let expected = "a point on both axes";
            return Err(Error::invalid("lines", "nothing to draw", expected));
        }
        let at = |reference: &Reference| reference.at;
        let spans = lines.iter().flat_map(|line| &line.spans);
        let x = points().map(|point| point.0);
        let x = x.chain(self.verticals.iter().map(at));
        let y = points().map(|point| point.1);
        let y = y.chain(spans.flat_map(|&(_, low, high)| [low, high]));
        let y = y.chain(self.horizontals.iter().map(at));
        let parts = Parts {
            titles: [&self.title, &self.x.label, &self.y.label],
            size: self.size,
            scales: (self.x.scale(x)?, self.y.scale(y)?),
            horizontals: &self.horizontals,
            verticals: &self.verticals,
        };
        let named = lines.iter().enumerate();
        let named = named.map(|(index, line)| (index, line.name.as_str(), line.marked));
        Ok(Frame::new(parts, named.filter(|_| self.has_legend)))
    }
}

type Spans = Vec<(f64, f64, f64)>;

fn split(points: impl IntoIterator<Item = (f64, f64, (f64, f64))>) -> (Vec<(f64, f64)>, Spans) {
    let points = points.into_iter();
    points
        .map(|(x, y, (low, high))| ((x, y), (x, low, high)))
        .unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(svg: &str) -> Vec<Vec<(f64, f64)>> {
        let lines = svg.split("<polyline points=\"").skip(1);
        let pair = |pair: &str| {
            let (x, y) = pair.split_once(',').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        lines
            .map(|line| line.split('"').next().unwrap())
            .map(|line| line.split_whitespace().map(pair).collect())
            .collect()
    }

    #[test]
    fn every_line_is_drawn_in_its_place_and_named() {
        let svg = Chart::new("a < b", "K", "log Z")
            .logarithmic_x()
            .line("GA & linear", [(10.0, 1.0), (100.0, 2.0), (1_000.0, 3.0)])
            .line("MA", [(0.0, 5.0), (100.0, 2.0), (1_000.0, f64::NAN)])
            .to_svg()
            .unwrap();
        assert!(svg.contains("a &lt; b") && svg.contains("GA &amp; linear"));
        let lines = lines(&svg);
        // If 0 or NaN were not left out, there would be no axis to draw on.
        assert_eq!([lines[0].len(), lines[1].len()], [3, 1]);
        let [first, middle, last] = lines[0][..] else {
            panic!("three points")
        };
        // On a logarithmic and a linear axis these points are on a straight line.
        assert!(first.0 < middle.0 && first.1 > middle.1);
        assert!((first.0 + last.0 - 2.0 * middle.0).abs() < 0.02);
        assert!((first.1 + last.1 - 2.0 * middle.1).abs() < 0.02);
        assert_eq!(lines[1][0], middle);
    }

    #[test]
    fn no_range_keeps_the_axes_from_ending() {
        let draw = |points: &[(f64, f64)]| {
            let chart = Chart::new("", "", "").line("", points.iter().copied());
            (chart.to_svg(), chart.logarithmic_y().to_svg())
        };
        for far in [1e308, 1.7e308, f64::MAX] {
            assert!(draw(&[(far, far)]).0.is_err());
            let points = [(0.0, 0.0), (1.0, far), (-far, 1.0), (far, 1.0), (1.0, 1.0)];
            assert!(draw(&points).0.is_ok() && draw(&points).1.is_ok());
        }
        for magnitude in [1e300, 1e100, 1e16, 1.0, 1e-16, 1e-200, 1e-279, 5e-324] {
            for part in [-1.0, 0.0, 0.9, 1.0 - 1e-6, 1.0 - 1e-12, 1.0 - 1e-16] {
                let other = part * magnitude;
                let (linear, logarithmic) = draw(&[(0.0, magnitude), (1.0, other)]);
                assert!(linear.is_ok() && logarithmic.is_ok() == (magnitude >= 1e-280));
                assert!(draw(&[(-magnitude, 0.0), (-other, 1.0)]).0.is_ok());
            }
        }
    }

    #[test]
    fn what_is_around_points_widens_the_axis() {
        let chart = |low: f64| {
            let points = [(1.0, 0.0, (low, 1.0)), (2.0, 0.5, (f64::NAN, 2.0))];
            let chart = Chart::new("", "", "");
            let bars = chart.clone().line_with_errors("", points).to_svg().unwrap();
            let band = chart.line_with_band("", points).to_svg().unwrap();
            (bars, band)
        };
        let (far, near) = (chart(-5.0), chart(-0.5));
        // The bar that is not a number is not drawn.
        assert_eq!(
            far.0.matches("<path d=\"M").count(),
            1 + far.1.matches("<path d=\"M").count()
        );
        assert_eq!(far.1.matches("<polygon").count(), 1);
        for (svg, wide) in [
            (far.0, true),
            (far.1, true),
            (near.0, false),
            (near.1, false),
        ] {
            assert_eq!(svg.contains(">−5</text>"), wide, "{svg}");
        }
    }

    #[test]
    fn a_given_range_cuts_lines_and_references_widen_one_that_is_not_given() {
        let chart = || Chart::new("", "", "").line("", [(0.0, 0.0), (10.0, 10.0)]);
        let cut = chart()
            .x_range(0.0, 5.0)
            .y_range(0.0, 20.0)
            .to_svg()
            .unwrap();
        // The line continues beyond the right edge. The inner drawing is as wide as the area.
        let line = &lines(&cut)[0];
        let frame = cut.split("<rect x=\"").nth(1).unwrap();
        let inner = cut.split("<svg x=\"").nth(1).unwrap();
        let numbers = |text: &str| -> Vec<f64> {
            let numbers = text.split('"').step_by(2).take(4);
            numbers.map(|number| number.parse().unwrap()).collect()
        };
        let (frame, inner) = (numbers(frame), numbers(inner));
        assert!(inner.iter().zip(&frame).all(|(a, b)| (a - b).abs() <= 2.01));
        assert!((line[1].0 - line[0].0 - 2.0 * frame[2]).abs() < 0.02);
        assert!((line[0].1 - line[1].1 - 0.5 * frame[3]).abs() < 0.02);
        assert!(chart().y_range(1.0, 1.0).to_svg().is_err());
        let referred = chart().horizontal("exact", 40.0).to_svg().unwrap();
        assert!(referred.contains("exact") && referred.contains(">40</text>"));
        assert!(!chart().to_svg().unwrap().contains(">40</text>"));
    }

    #[test]
    fn a_constant_line_can_be_drawn_and_an_empty_chart_cannot() {
        let chart = Chart::new("", "", "");
        assert!(chart.to_svg().is_err());
        assert!(chart.clone().line("", [(f64::NAN, 1.0)]).to_svg().is_err());
        assert!(chart.line("", [(1.0, 1.0), (1.0, 1.0)]).to_svg().is_ok());
    }
}
