//! Line charts.

use std::path::Path;

use plotters::prelude::*;

use crate::{Error, Result};

/// Colours that differ for colour-blind readers too (Okabe and Ito 2008).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(148, 148, 148),
];

pub(super) const SIZE: (u32, u32) = (760, 420);
/// Width of the legend, right of the lines.
const LEGEND: u32 = 150;
/// Width of the ends of an error bar.
const BAR: u32 = 6;
/// The largest coordinate. Differences of larger ones may overflow.
const FARTHEST: f64 = 1e300;
/// The shortest axis beside its coordinates. On a shorter one rounding moves the ticks.
const SHORTEST: f64 = 1e-9;

/// A line chart with a legend, as SVG: schedules, the effective sample size along a run,
/// estimates against the number of stages.
///
/// ```
/// use annealed::plot::Chart;
/// use annealed::schedule::Schedule;
///
/// let schedule = Schedule::power(100, 2.0)?;
/// let points = schedule.betas().iter().enumerate().map(|(k, &beta)| (k as f64 / 100.0, beta));
/// let svg = Chart::new("Schedules", "t", "beta")
///     .line("power 2", points)
///     .line("linear", [(0.0, 0.0), (1.0, 1.0)])
///     .to_svg()?;
/// assert!(svg.contains("power 2"));
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Chart {
    title: String,
    x_label: String,
    y_label: String,
    logarithmic_x: bool,
    lines: Vec<Line>,
}

/// Points from left to right, and vertical bars: abscissa, lower end, the point's ordinate, upper end.
#[derive(Debug, Clone, PartialEq, Default)]
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    bars: Vec<[f64; 4]>,
}

impl Chart {
    /// An empty chart.
    pub fn new(title: &str, x_label: &str, y_label: &str) -> Self {
        Self {
            title: title.into(),
            x_label: x_label.into(),
            y_label: y_label.into(),
            logarithmic_x: false,
            lines: Vec::new(),
        }
    }

    /// Makes the horizontal axis logarithmic, as suits numbers of stages.
    pub fn logarithmic_x(self) -> Self {
        Self {
            logarithmic_x: true,
            ..self
        }
    }

    /// Adds a line through points from left to right. Points that are not finite (on a logarithmic
    /// axis: without a finite logarithm), or farther than 1e300 from 0, are left out, and the line goes
    /// on at the next.
    pub fn line(mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.lines.push(Line {
            name: name.into(),
            points: points.into_iter().collect(),
            bars: Vec::new(),
        });
        self
    }

    /// Adds a line whose points carry error bars: each is x, y and the ends of the bar. What holds
    /// for the points of a [`line`](Self::line) holds for them and for the ends of bars.
    pub fn line_with_errors(
        self,
        name: &str,
        points: impl IntoIterator<Item = (f64, f64, (f64, f64))>,
    ) -> Self {
        let points: Vec<_> = points.into_iter().collect();
        let mut chart = self.line(name, points.iter().map(|&(x, y, _)| (x, y)));
        if let Some(line) = chart.lines.last_mut() {
            let bars = points.iter().map(|&(x, y, (low, high))| [x, low, y, high]);
            line.bars = bars.collect();
        }
        chart
    }

    /// The chart as an SVG document.
    ///
    /// # Errors
    /// Where no line has a point to draw.
    pub fn to_svg(&self) -> Result<String> {
        let lines: Vec<_> = self.lines.iter().map(|line| self.drawn(line)).collect();
        let points = || lines.iter().flat_map(|line| &line.points);
        let bars = || lines.iter().flat_map(|line| &line.bars);
        let x = range(points().map(|point| point.0));
        let ends = bars().flat_map(|&[_, low, _, high]| [low, high]);
        let y = range(points().map(|point| point.1).chain(ends));
        let (Some(x), Some(y)) = (x, y) else {
            return Err(Error::invalid("lines", "nothing to draw", "a finite point"));
        };
        let mut svg = String::new();
        self.draw(&mut svg, &lines, x, y)
            .map_err(|error| Error::invalid("chart", error, "one that can be drawn"))?;
        Ok(svg)
    }

    /// Writes the chart to an SVG file.
    ///
    /// # Errors
    /// As [`to_svg`](Self::to_svg); [`Error::File`] where the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        super::write(path.as_ref(), &self.to_svg()?)
    }

    /// What of a line is drawn, in the coordinates of the drawing.
    fn drawn(&self, line: &Line) -> Line {
        let across = |x: f64| if self.logarithmic_x { x.log10() } else { x };
        let drawable = |values: &[f64]| values.iter().all(|value| value.abs() <= FARTHEST);
        let points = line.points.iter().map(|&(x, y)| (across(x), y));
        let bars = line.bars.iter();
        let bars = bars.map(|&[x, low, y, high]| [across(x), low, y, high]);
        Line {
            name: line.name.clone(),
            points: points.filter(|&(x, y)| drawable(&[x, y])).collect(),
            bars: bars.filter(|bar| drawable(bar)).collect(),
        }
    }

    fn draw(
        &self,
        svg: &mut String,
        lines: &[Line],
        x: (f64, f64),
        y: (f64, f64),
    ) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (area, legend) = root.split_horizontally(SIZE.0 - LEGEND);
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
        let logarithmic = self.logarithmic_x;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_labels(if logarithmic { decades(x) } else { 10 })
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_label_formatter(&|x| label(if logarithmic { 10_f64.powf(*x) } else { *x }))
            .y_label_formatter(&|y| label(*y))
            .draw()?;
        for (index, line) in lines.iter().enumerate() {
            let style = COLOURS[index % COLOURS.len()].stroke_width(2);
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
            let bars = line.bars.iter().map(|&[x, low, y, high]| {
                ErrorBar::new_vertical(x, low, y, high, style.stroke_width(1), BAR)
            });
            chart.draw_series(bars)?;
            let height = 50 + 18 * index as i32;
            let sample = PathElement::new(vec![(0, height), (18, height)], style);
            legend.draw(&sample)?;
            let text = Text::new(line.name.as_str(), (24, height - 6), ("sans-serif", 12));
            legend.draw(&text)?;
        }
        root.present()?;
        Ok(())
    }
}

/// Smallest and largest value, apart even where all values are one or nearly so.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    if low > high {
        return None;
    }
    let margin = if low < high {
        (0.02 * (high - low)).max(SHORTEST * low.abs().max(high.abs()))
    } else {
        0.5 * low.abs().max(1.0)
    };
    Some((low - margin, high + margin))
}

/// As many ticks as there are powers of ten between two logarithms, for one tick at each.
fn decades((low, high): (f64, f64)) -> usize {
    ((high.floor() - low.ceil()).max(0.0) as usize)
        .saturating_add(1)
        .clamp(2, 20)
}

/// A tick label of three significant digits.
fn label(value: f64) -> String {
    // What rounding leaves of the tick at 0.
    let value = if value.abs() < 1e-12 { 0.0 } else { value };
    if value != 0.0 && !(1e-2..1e5).contains(&value.abs()) {
        return format!("{value:.0e}");
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_in_its_place_and_named() {
        let svg = Chart::new("a < b", "K", "log Z")
            .logarithmic_x()
            .line("GA & linear", [(10.0, 1.0), (1_000.0, 3.0)])
            .line("MA", [(0.0, 5.0), (100.0, 2.0), (1_000.0, f64::NAN)])
            .to_svg()
            .unwrap();
        assert!(svg.contains("a &lt; b") && svg.contains("GA &amp; linear"));
        let points = |colour: &str| -> Vec<(f64, f64)> {
            let line = svg.split("<polyline").find(|part| part.contains(colour));
            let list = line.unwrap().split("points=\"").nth(1).unwrap();
            let list = list.split('"').next().unwrap();
            list.split_whitespace()
                .map(|pair| {
                    let (x, y) = pair.split_once(',').unwrap();
                    (x.parse().unwrap(), y.parse().unwrap())
                })
                .collect()
        };
        let first = points("#000000\" stroke-width=\"2\"");
        assert_eq!(first.len(), 2, "{first:?}");
        // Were 0 or NaN not left out, there would be no axis to draw on.
        assert!(
            first[0].0 < first[1].0 && first[0].1 > first[1].1,
            "{first:?}"
        );
    }

    #[test]
    fn no_range_keeps_the_axes_from_ending() {
        let draw = |points: &[(f64, f64)]| {
            let chart = Chart::new("", "", "").line("", points.iter().copied());
            chart.to_svg()
        };
        for far in [1e308, 1.7e308, f64::MAX] {
            assert!(draw(&[(far, far)]).is_err());
            assert!(draw(&[(0.0, 0.0), (1.0, far), (-far, 1.0), (far, 1.0)]).is_ok());
        }
        for magnitude in [1e300, 1e100, 1e16, 1.0, 1e-16, 1e-200, 5e-324] {
            for part in [-1.0, 0.0, 0.9, 1.0 - 1e-6, 1.0 - 1e-12, 1.0 - 1e-16] {
                let other = part * magnitude;
                assert!(draw(&[(0.0, magnitude), (1.0, other)]).is_ok());
                assert!(draw(&[(-magnitude, 0.0), (-other, 1.0)]).is_ok());
            }
        }
    }

    #[test]
    fn error_bars_reach_their_ends_and_widen_the_axis() {
        let chart = |low: f64| {
            let points = [(1.0, 0.0, (low, 1.0)), (2.0, 0.5, (f64::NAN, 2.0))];
            Chart::new("", "", "")
                .line_with_errors("", points)
                .to_svg()
                .unwrap()
        };
        let ticks = |svg: &str, label: &str| svg.lines().any(|line| line.trim() == label);
        let bars = |svg: &str| svg.matches("<circle").count();
        // The bar that is not a number is not drawn.
        assert_eq!([chart(-5.0), chart(-0.5)].map(|svg| bars(&svg)), [1, 1]);
        assert!(ticks(&chart(-5.0), "-5") && !ticks(&chart(-0.5), "-5"));
    }

    #[test]
    fn a_constant_line_can_be_drawn_and_an_empty_chart_cannot() {
        let chart = Chart::new("", "", "");
        assert!(chart.to_svg().is_err());
        assert!(chart.clone().line("", [(f64::NAN, 1.0)]).to_svg().is_err());
        assert!(chart.line("", [(1.0, 1.0), (1.0, 1.0)]).to_svg().is_ok());
    }
}
