//! Tables and a figure of the waves, with 95% intervals.

use std::path::Path;

use annealed::Result;
use annealed_plot::{Chart, save_column};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::waves::{Line, Method};

const SAMPLES: usize = 2_000;

/// A mean or a share, and its interval.
#[derive(Debug, Clone, Copy)]
struct Interval {
    value: f64,
    ends: (f64, f64),
}

impl Interval {
    /// Returns Wilson's interval of a probability.
    fn share(hits: usize, count: usize) -> Self {
        let (n, z) = (count as f64, 1.96_f64);
        let p = hits as f64 / n;
        let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        Self {
            value: p,
            ends: ((middle - half).max(0.0), (middle + half).min(1.0)),
        }
    }

    /// Returns the mean and the middle 95% of the means of bootstrap samples.
    fn mean(values: &[f64]) -> Self {
        let n = values.len();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
        let sample = |_| (0..n).map(|_| values[rng.random_range(0..n)]).sum::<f64>() / n as f64;
        let mut means: Vec<f64> = (0..SAMPLES).map(sample).collect();
        means.sort_by(f64::total_cmp);
        Self {
            value: values.iter().sum::<f64>() / n as f64,
            ends: (means[SAMPLES / 40], means[SAMPLES - 1 - SAMPLES / 40]),
        }
    }

    fn text(self) -> String {
        let [value, low, high] = [self.value, self.ends.0, self.ends.1].map(hundredths);
        format!("{value} [{low}, {high}]")
    }
}

/// Formats a number without the zero before the point.
fn hundredths(x: f64) -> String {
    let text = format!("{x:.2}");
    match text.strip_prefix("0.") {
        Some(digits) => format!(".{digits}"),
        None => text.replace("-0.", "-."),
    }
}

/// The results of a method in one dimension.
struct Cell {
    norm: f64,
    dimension: usize,
    method: Method,
    /// Seeds whose first unit has at least half of L*, and at least nine tenths.
    half: Interval,
    most: Interval,
    /// The first unit's L over L*.
    ratio: Interval,
    held_out: Interval,
    evaluations: f64,
    seconds: f64,
    seeds: usize,
}

/// Returns L* of each seed: the largest L of the first unit in any line.
fn highest(lines: &[Line], own: &Line) -> f64 {
    let is = |line: &&Line| {
        let key = |line: &Line| (line.norm, line.dimension, line.seed);
        key(line) == key(own)
    };
    let of_seed = lines.iter().filter(is);
    let first = of_seed.flat_map(|line| match line.method {
        Method::Best => &line.objectives[..],
        _ => &line.objectives[..1],
    });
    first.copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the norms and dimensions of the lines, in order.
fn cases(lines: &[Line]) -> Vec<(f64, usize)> {
    let mut cases: Vec<_> = lines
        .iter()
        .map(|line| (line.norm, line.dimension))
        .collect();
    cases.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    cases.dedup();
    cases
}

fn of_case(lines: &[Line], case: (f64, usize), method: Method) -> Vec<&Line> {
    let is = |line: &&Line| (line.norm, line.dimension) == case && line.method == method;
    lines.iter().filter(is).collect()
}

fn cells(lines: &[Line]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (norm, dimension) in cases(lines) {
        for method in Method::COMPARED {
            let own = of_case(lines, (norm, dimension), method);
            if own.is_empty() {
                continue;
            }
            let ratio = |line: &&Line| line.objectives[0] / highest(lines, line);
            let ratios: Vec<f64> = own.iter().map(ratio).collect();
            let at_least = |bound: f64| {
                let hits = ratios.iter().filter(|&&ratio| ratio >= bound).count();
                Interval::share(hits, ratios.len())
            };
            let last = |line: &&Line| line.held_out.last().copied().unwrap_or(1.0);
            let mean = |of: fn(&Line) -> f64| {
                own.iter().map(|line| of(line)).sum::<f64>() / own.len() as f64
            };
            cells.push(Cell {
                norm,
                dimension,
                method,
                half: at_least(0.5),
                most: at_least(0.9),
                ratio: Interval::mean(&ratios),
                held_out: Interval::mean(&own.iter().map(last).collect::<Vec<_>>()),
                evaluations: mean(|line| line.evaluations),
                seconds: mean(|line| line.seconds),
                seeds: own.len(),
            });
        }
    }
    cells
}

/// A quantity with its title.
type Quantity = (&'static str, fn(&Cell) -> String);

const QUANTITIES: [Quantity; 5] = [
    ("seeds with L >= L*/2", |cell| cell.half.text()),
    ("seeds with L >= .9 L*", |cell| cell.most.text()),
    ("L / L*", |cell| cell.ratio.text()),
    ("held-out error", |cell| cell.held_out.text()),
    ("evaluations a unit, core seconds a fit, seeds", |cell| {
        format!(
            "{:.0}, {:.2}, {}",
            cell.evaluations, cell.seconds, cell.seeds
        )
    }),
];

/// Returns for each norm a table of each quantity, with a row for each method and a column for each dimension, and a
/// table of L*.
pub fn markdown(lines: &[Line]) -> String {
    let (cells, cases) = (cells(lines), cases(lines));
    let mut norms: Vec<f64> = cases.iter().map(|case| case.0).collect();
    norms.dedup();
    let mut text = String::new();
    for norm in norms {
        let of_norm = cases.iter().filter(|case| case.0 == norm);
        let dimensions: Vec<usize> = of_norm.map(|case| case.1).collect();
        for (title, of) in QUANTITIES {
            text += &head(&format!("norm {norm}: {title}"), &dimensions);
            for method in Method::COMPARED {
                let cell = |d: &usize| {
                    let is = |cell: &&Cell| {
                        (cell.norm, cell.dimension, cell.method) == (norm, *d, method)
                    };
                    cells.iter().find(is).map_or(String::new(), of)
                };
                let row: Vec<String> = dimensions.iter().map(cell).collect();
                if row.iter().any(|cell| !cell.is_empty()) {
                    text += &format!("| {} | {} |\n", method.name(), row.join(" | "));
                }
            }
        }
        text += &head(&format!("norm {norm}"), &dimensions);
        let highest = dimensions.iter().map(|&d| highest_of(lines, (norm, d)));
        let (highest, truth): (Vec<String>, Vec<String>) = highest.unzip();
        text += &format!("| L* | {} |\n", highest.join(" | "));
        text += &format!(
            "| seeds whose L* is reached from a true direction | {} |\n",
            truth.join(" | ")
        );
    }
    text
}

fn head(title: &str, dimensions: &[usize]) -> String {
    let columns: Vec<String> = dimensions.iter().map(|d| format!("d = {d}")).collect();
    let rule = "---|".repeat(dimensions.len());
    format!("\n| {title} | {} |\n|---|{rule}\n", columns.join(" | "))
}

/// Returns the mean of L*, and the share of seeds in which a climb from a true direction reaches it.
fn highest_of(lines: &[Line], case: (f64, usize)) -> (String, String) {
    let own = of_case(lines, case, Method::Best);
    if own.is_empty() {
        return Default::default();
    }
    let highest: Vec<f64> = own.iter().map(|line| highest(lines, line)).collect();
    let pairs = own.iter().zip(&highest);
    let hits = pairs.filter(|(line, highest)| line.objectives[0] > **highest - 1e-3);
    let share = Interval::share(hits.count(), own.len());
    (Interval::mean(&highest).text(), share.text())
}

/// A quantity that is drawn against the dimension.
type Drawn = fn(&Cell) -> Interval;

/// Draws the shares of seeds, L over L*, and the held-out errors against the dimension, for the largest norm.
pub fn draw(lines: &[Line], folder: &Path) -> Result<()> {
    let cells = cells(lines);
    let quantities: [(&str, Drawn); 3] = [
        ("Share of seeds with L ≥ .9 L*", |cell| cell.most),
        ("L / L*", |cell| cell.ratio),
        ("Held-out error after four units", |cell| cell.held_out),
    ];
    let norm = cells.last().map_or(0.0, |cell| cell.norm);
    let charts = quantities.map(|(title, of)| {
        let title = &format!("{title}, norm {norm}");
        let mut chart = Chart::new(title, "d", "").logarithmic_x();
        for method in Method::COMPARED {
            let own = cells
                .iter()
                .filter(|cell| (cell.norm, cell.method) == (norm, method));
            let points = own.map(|cell| (cell.dimension as f64, of(cell).value, of(cell).ends));
            chart = chart.line_with_errors(method.name(), points);
        }
        chart
    });
    save_column(&charts, folder.join("ridge-dimensions.svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_known_ends() {
        // Wilson's interval of 2 of 20 by hand: 0.02787 to 0.30104.
        let share = Interval::share(2, 20);
        assert!((share.ends.0 - 0.02787).abs() < 1e-4 && (share.ends.1 - 0.30104).abs() < 1e-4);
        let certain = Interval::mean(&[3.0; 5]);
        assert_eq!((certain.value, certain.ends), (3.0, (3.0, 3.0)));
    }
}
