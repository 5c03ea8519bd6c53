//! Charts of runs and of schedules.

use std::path::Path;

use super::{Chart, save_column};
use crate::Result;
use crate::ais::{Run, StageSummary};
use crate::estimate::LogZ;
use crate::schedule::Schedule;

/// Height of a panel in the drawing.
const PANEL: f64 = 240.0;

impl<S, R> Run<S, R> {
    /// Draws the run to an SVG file: log Z with its 95% band, effective sample size, variance and acceptance by stage,
    /// and the distribution of log weights. [`plot::runs`](runs) draws several in one.
    ///
    /// ```
    /// # use annealed::prelude::*;
    /// # let (base, target) = (Gaussian::standard(3)?, Gaussian::isotropic(DVector::repeat(3, 2.0), 0.5)?);
    /// # let path = GeometricPath::new(base, target);
    /// # let kernel = RandomWalkMetropolis::new(0.5)?;
    /// let run = Ais::new(&path, kernel).chains(100).run()?;
    /// # let file = std::env::temp_dir().join("annealed-run.svg");
    /// run.plot(&file)?;
    /// # std::fs::remove_file(&file).unwrap();
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) where the file cannot be written.
    pub fn plot(&self, path: impl AsRef<Path>) -> Result<()> {
        runs([("", self)], path)
    }
}

/// Draws named runs to one SVG file, as [`Run::plot`] draws one; stages are scaled to 1 where their numbers differ.
///
/// The band of log Z assumes independent chains: [resampled](crate::ais::Ais::resampling) runs have none.
///
/// ```
/// # use annealed::prelude::*;
/// # let (base, target) = (Gaussian::standard(3)?, Gaussian::isotropic(DVector::repeat(3, 2.0), 0.5)?);
/// # let path = GeometricPath::new(base, target);
/// # let kernel = RandomWalkMetropolis::new(0.5)?;
/// let ais = |schedule| Ais::new(&path, &kernel).schedule(schedule).chains(100);
/// let linear = ais(Schedule::linear(50)?).run()?;
/// let power = ais(Schedule::power(50, 2.0)?).run()?;
/// # let file = std::env::temp_dir().join("annealed-runs.svg");
/// annealed::plot::runs([("linear", &linear), ("power 2", &power)], &file)?;
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// # Errors
/// No run; [`Error::File`](crate::Error::File) where the file cannot be written.
pub fn runs<'a, S: 'a, R: 'a>(
    runs: impl IntoIterator<Item = (&'a str, &'a Run<S, R>)>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let runs: Vec<_> = runs.into_iter().collect();
    save_column(&charts(&runs), path)
}

type Named<'a, S, R> = (&'a str, &'a Run<S, R>);

fn charts<S, R>(runs: &[Named<'_, S, R>]) -> Vec<Chart> {
    let share = |run: &Run<S, R>, count: f64| count / run.chains() as f64;
    let charts = [
        log_z(runs),
        panel(runs, &ess_title(runs), "ESS / N", |run, stage| {
            Some(share(run, stage.effective_sample_size))
        })
        .y_range(0.0, 1.02),
        panel(runs, VARIANCE, "variance", |_, stage| {
            Some(stage.var_increment)
        })
        .logarithmic_y(),
        panel(runs, "Acceptance", "mean", |_, stage| stage.acceptance).y_range(0.0, 1.02),
        weights(runs),
    ];
    let drawable = charts.into_iter().filter(Chart::has_points);
    drawable.map(|chart| chart.with_height(PANEL)).collect()
}

const VARIANCE: &str = "Variance added to the log weights";

/// Returns a run's name and result for the legend.
fn full_name<S, R>((name, run): &Named<'_, S, R>) -> String {
    match name.is_empty() {
        true => String::new(),
        false => format!("{name}: {}", value_of(run)),
    }
}

/// Returns the title of the effective sample size; of one run with its value.
fn ess_title<S, R>(runs: &[Named<'_, S, R>]) -> String {
    let title = "Effective sample size";
    match runs {
        [(_, run)] => format!(
            "{title}: {:.0} of {}",
            run.effective_sample_size(),
            run.chains()
        ),
        _ => title.into(),
    }
}

/// Writes log Z with its error, or with its 95% interval where this is [skewed](LogZ::is_skewed).
fn value_of<S, R>(run: &Run<S, R>) -> String {
    let (lower, upper) = run.interval();
    match run.is_skewed() {
        true => format!("{:.2} ({lower:.2} to {upper:.2})", run.log_z()),
        false => concise(run.log_z(), run.standard_error()),
    }
}

/// Writes a value with its error in units of the last digit, as 192.266(21).
fn concise(value: f64, error: f64) -> String {
    if !(error > 0.0 && error < 1e15 && value.is_finite()) {
        return format!("{value:.4}");
    }
    let digits = |error: f64| (1.0 - error.log10().floor()).clamp(0.0, 15.0);
    let units = |digits: f64| (error * 10_f64.powf(digits)).round();
    // 0.0996 rounds to 0.10.
    let digits = digits(units(digits(error)) / 10_f64.powf(digits(error)));
    let units = units(digits);
    format!("{value:.*}({units})", digits as usize)
}

/// Returns the title of a picture: of one run its result, what was run, and how many warnings it has.
fn headline<S, R>(runs: &[Named<'_, S, R>]) -> String {
    let [(name, run)] = runs else {
        return "log Ẑ along the path".into();
    };
    let value = value_of(run);
    let (chains, stages) = (run.chains(), run.schedule().stages());
    let name = if name.is_empty() {
        String::new()
    } else {
        format!("{name}: ")
    };
    let warnings = match run.warnings().len() {
        0 => String::new(),
        1 => ", 1 warning".into(),
        count => format!(", {count} warnings"),
    };
    format!("{name}log Z = {value}, {chains} chains × {stages} stages{warnings}")
}

/// Returns the axis label, and a function from a run's stage to its place on the axis.
fn places<S, R>(runs: &[Named<'_, S, R>]) -> (&'static str, impl Fn(&Run<S, R>, usize) -> f64) {
    let steps = |run: &Run<S, R>| run.schedule().stages();
    let same = runs
        .windows(2)
        .all(|pair| steps(pair[0].1) == steps(pair[1].1));
    let scaled = move |run: &Run<S, R>, stage: usize| match same {
        true => stage as f64,
        false => stage as f64 / steps(run) as f64,
    };
    (if same { "stage k" } else { "k / K" }, scaled)
}

/// Creates a chart of a figure along the recorded stages of each run.
fn panel<S, R>(
    runs: &[Named<'_, S, R>],
    title: &str,
    label: &str,
    figure: impl Fn(&Run<S, R>, &StageSummary) -> Option<f64>,
) -> Chart {
    let (across, place) = places(runs);
    let mut chart = Chart::new(title, across, label);
    for named in runs {
        let (run, name) = (named.1, full_name(named));
        let points = run.stages().iter();
        let points =
            points.filter_map(|stage| Some((place(run, stage.stage), figure(run, stage)?)));
        chart = chart.line(&name, points);
    }
    chart
}

/// Creates a chart of `log Z_0 + log(Z_k / Z_0)` along the stages of each run.
fn log_z<S, R>(runs: &[Named<'_, S, R>]) -> Chart {
    let (across, place) = places(runs);
    let mut chart = Chart::new(&headline(runs), across, "log Ẑ");
    for named in runs {
        let (run, name) = (named.1, full_name(named));
        let start = run.log_z() - run.log_z_ratio();
        let point = |stage: &StageSummary| {
            let (x, log_z) = (place(run, stage.stage), start + stage.log_z_ratio);
            let half = 1.96 * error_at(run, stage);
            (x, log_z, (log_z - half, log_z + half))
        };
        let points = run.stages().iter().map(point);
        chart = match run.surviving_ancestors() {
            None => chart.line_with_band(&name, points),
            Some(_) => chart.line(&name, points.map(|(x, y, _)| (x, y))),
        };
    }
    chart
}

/// Returns the standard error of log Z_k for independent chains: the error of the mean of N weights.
fn error_at<S, R>(run: &Run<S, R>, stage: &StageSummary) -> f64 {
    let chains = run.chains() as f64;
    let spread = chains / stage.effective_sample_size - 1.0;
    (spread.max(0.0) / (chains - 1.0)).sqrt()
}

/// Creates a chart of the distributions of the log weights, each less the log of the run's mean weight.
fn weights<S, R>(runs: &[Named<'_, S, R>]) -> Chart {
    let relative = |run: &Run<S, R>| -> Vec<f64> {
        let log_weights = run.log_weights().iter().map(|w| w - run.log_z_ratio());
        log_weights.filter(|w| w.is_finite()).collect()
    };
    let all: Vec<_> = runs.iter().map(|(_, run)| relative(run)).collect();
    let values = || all.iter().flatten();
    let low = values().copied().fold(f64::INFINITY, f64::min);
    let high = values().copied().fold(f64::NEG_INFINITY, f64::max);
    let most = all.iter().map(Vec::len).max().unwrap_or(0);
    // Twice the cube root of N, as Rice's rule has it.
    let bins = (2.0 * (most as f64).cbrt()).ceil().clamp(1.0, 60.0) as usize;
    let width = ((high - low) / bins as f64).max(1e-9);
    let mut chart = Chart::new(
        "Log weights",
        "log w - log of the mean weight",
        "share of chains",
    );
    for (values, named) in all.iter().zip(runs) {
        let (run, name) = (named.1, full_name(named));
        let mut counts = vec![0.0; bins];
        for value in values {
            counts[(((value - low) / width) as usize).min(bins - 1)] += 1.0 / run.chains() as f64;
        }
        chart = chart.filled_line(&name, outline(&counts, low, width));
    }
    chart.vertical("mean weight", 0.0)
}

fn outline(counts: &[f64], low: f64, width: f64) -> Vec<(f64, f64)> {
    let edge = |bin: usize| low + width * bin as f64;
    let tops = counts.iter().enumerate();
    let tops = tops.flat_map(|(bin, &count)| [(edge(bin), count), (edge(bin + 1), count)]);
    let ends = |bin| std::iter::once((edge(bin), 0.0));
    ends(0).chain(tops).chain(ends(counts.len())).collect()
}

/// Draws named schedules to an SVG file: beta along the stages, and the step of beta at each beta.
///
/// ```
/// use annealed::plot;
/// use annealed::schedule::Schedule;
///
/// let (linear, power) = (Schedule::linear(100)?, Schedule::power(100, 3.0)?);
/// # let file = std::env::temp_dir().join("annealed-schedules.svg");
/// plot::schedules([("linear", &linear), ("power 3", &power)], &file)?;
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// # Errors
/// No schedule; [`Error::File`](crate::Error::File) where the file cannot be written.
pub fn schedules<'a>(
    schedules: impl IntoIterator<Item = (&'a str, &'a Schedule)>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let mut along = Chart::new("Schedules", "k / K", "β");
    let mut steps = Chart::new("Steps of β", "β", "β(k) - β(k-1)").logarithmic_y();
    for (name, schedule) in schedules {
        let (betas, last) = (schedule.betas(), schedule.stages() as f64);
        let points = betas.iter().enumerate();
        along = along.line(name, points.map(|(k, &beta)| (k as f64 / last, beta)));
        let pairs = betas.windows(2);
        steps = steps.line(name, pairs.map(|pair| (pair[1], pair[1] - pair[0])));
    }
    save_column(&[along, steps.with_height(300.0)], path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ais::Ais;
    use crate::kernel::{CoordinateGibbs, RandomWalkMetropolis};
    use crate::model::Gaussian;
    use crate::path::{GaussianPath, GeometricPath};
    use crate::population::Resampling;
    use nalgebra::dvector;

    fn ends() -> (Gaussian, Gaussian) {
        let target = Gaussian::isotropic(dvector![1.0, 2.0], 0.5).unwrap();
        (Gaussian::standard(2).unwrap(), target)
    }

    #[test]
    fn the_band_ends_at_the_error_of_the_run() {
        let (base, target) = ends();
        let path = GeometricPath::new(base, target);
        let kernel = RandomWalkMetropolis::new(0.7).unwrap();
        let ais = || {
            let ais = Ais::new(&path, &kernel).chains(50).seed(3);
            ais.schedule(Schedule::linear(20).unwrap())
        };
        let run = ais().run().unwrap();
        let error = error_at(&run, run.stages().last().unwrap());
        assert!((error - run.standard_error()).abs() < 1e-12, "{error}");
        let resampled = ais().resampling(Resampling::when_ess_below(0.9).unwrap());
        let resampled = resampled.run().unwrap();
        let bands = |chart: &Chart| chart.to_svg().unwrap().matches("<polygon").count();
        let [alone, both] = [
            charts(&[("", &run)]),
            charts(&[("ais", &run), ("smc", &resampled)]),
        ];
        assert_eq!([alone.len(), both.len()], [5, 5]);
        assert_eq!([bands(&alone[0]), bands(&both[0])], [1, 1]);
        assert!(both[4].to_svg().unwrap().contains("smc: "));
    }

    #[test]
    fn what_a_run_does_not_have_is_left_out() {
        let (base, target) = ends();
        let path = GaussianPath::new(base, target).unwrap();
        let run = Ais::new(&path, CoordinateGibbs::systematic()).chains(20);
        let charts = charts(&[("", &run.run().unwrap())]);
        let acceptance = |chart: &Chart| chart.to_svg().unwrap().contains("Acceptance");
        assert!(charts.len() == 4 && !charts.iter().any(acceptance));
    }

    #[test]
    fn a_value_has_two_digits_of_its_error() {
        for (value, error, expected) in [
            (192.26604, 0.0213, "192.266(21)"),
            (46.84931, 0.0012, "46.8493(12)"),
            (-7.03, 0.0996, "-7.03(10)"),
            (1234.6, 31.4, "1235(31)"),
            (5.0, 0.0, "5.0000"),
            (5.0, f64::INFINITY, "5.0000"),
        ] {
            assert_eq!(concise(value, error), expected);
        }
    }

    #[test]
    fn one_run_is_named_by_its_result() {
        let (base, target) = ends();
        let path = GaussianPath::new(base, target).unwrap();
        let run = Ais::new(&path, CoordinateGibbs::systematic()).chains(20);
        let run = run.run().unwrap();
        let title = headline(&[("", &run)]);
        let value = concise(run.log_z(), run.standard_error());
        assert!(title.starts_with(&format!("log Z = {value}, 20 chains × 1000 stages")));
        assert_eq!(title.contains("warning"), !run.warnings().is_empty());
        let svg = charts(&[("", &run)])[0].to_svg().unwrap();
        assert!(svg.contains(&title), "{title}");
    }

    #[test]
    fn the_outline_of_a_histogram_is_closed() {
        let outline = outline(&[0.25, 0.75], -1.0, 0.5);
        let left = [(-1.0, 0.0), (-1.0, 0.25), (-0.5, 0.25)];
        let right = [(-0.5, 0.75), (0.0, 0.75), (0.0, 0.0)];
        assert_eq!(outline, [left, right].concat());
    }
}
