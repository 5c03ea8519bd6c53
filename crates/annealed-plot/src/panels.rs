//! The panels of a picture of runs: one chart for each kind of figure.

use super::Chart;
use super::frame::WIDTH;
use super::histogram::Bins;
use super::text::{counted, log_z_of};
use annealed::ais::{Run, StageSummary};
use annealed::estimate::LogZ;

/// A run and its name, which is empty for a single run.
pub(super) type Named<'a, S, R> = (&'a str, &'a Run<S, R>);

/// Heights of the areas of tall and low panels.
const TALL: f64 = 165.0;
const LOW: f64 = 125.0;

/// Returns the panels for which the runs have figures, in rows: the error of log Z with the legend, then figures by stage,
/// then the weights.
pub(super) fn panels<S, R>(runs: &[Named<'_, S, R>], weights: Chart) -> Vec<Vec<Chart>> {
    let share = |run: &Run<S, R>, count: f64| count / run.chains() as f64;
    let small = [
        panel(runs, &ess_title(runs), "ESS / N", |run, stage| {
            Some(share(run, stage.effective_sample_size))
        })
        .y_range(0.0, 1.02),
        panel(
            runs,
            "Variance added to the log weights",
            "variance",
            |_, stage| Some(stage.var_increment),
        )
        .logarithmic_y(),
        panel(runs, "Acceptance", "mean", |_, stage| stage.acceptance).y_range(0.0, 1.02),
    ];
    let small = small.into_iter().filter(Chart::has_points);
    let mut small: Vec<Chart> = small.collect();
    let mut rows = vec![vec![along_the_path(runs).with_size(WIDTH, TALL)]];
    while !small.is_empty() {
        let row = small.drain(..small.len().min(2));
        let row: Vec<Chart> = row.collect();
        let width = WIDTH / row.len() as f64;
        let sized = row.into_iter().map(|chart| chart.with_size(width, LOW));
        rows.push(sized.collect());
    }
    rows.push(vec![weights.with_size(WIDTH, TALL)]);
    for row in &mut rows {
        row.retain(Chart::has_points);
    }
    rows
}

/// Returns the names and results of the runs for the legend, or an empty name for a single run.
fn full_names<S, R>(runs: &[Named<'_, S, R>]) -> Vec<String> {
    let full = |(name, run): &Named<'_, S, R>| format!("{name}: {}", log_z_of(*run));
    match runs {
        [_] => vec![String::new()],
        runs => runs.iter().map(full).collect(),
    }
}

/// Returns the title of the panel of effective sample sizes, with the value if there is only one run.
fn ess_title<S, R>(runs: &[Named<'_, S, R>]) -> String {
    let title = "Effective sample size";
    match runs {
        [(_, run)] => {
            let (ess, chains) = (run.effective_sample_size(), run.chains());
            format!("{title}: {ess:.0} of {chains}")
        }
        _ => title.into(),
    }
}

/// Returns the axis label, and a function that maps a run's stage to its place on the axis.
fn places<S, R>(runs: &[Named<'_, S, R>]) -> (&'static str, impl Fn(&Run<S, R>, usize) -> f64) {
    let stages = |run: &Run<S, R>| run.schedule().stages();
    let same = runs
        .windows(2)
        .all(|pair| stages(pair[0].1) == stages(pair[1].1));
    let scaled = move |run: &Run<S, R>, stage: usize| match same {
        true => stage as f64,
        false => stage as f64 / stages(run) as f64,
    };
    (if same { "stage k" } else { "k / K" }, scaled)
}

/// Creates a chart of the value `figure` along the recorded stages of each run.
fn panel<S, R>(
    runs: &[Named<'_, S, R>],
    title: &str,
    label: &str,
    figure: impl Fn(&Run<S, R>, &StageSummary) -> Option<f64>,
) -> Chart {
    let (across, place) = places(runs);
    let mut chart = Chart::new(title, across, label);
    for (_, run) in runs {
        let points = run.stages().iter();
        let points =
            points.filter_map(|stage| Some((place(run, stage.stage), figure(run, stage)?)));
        chart = chart.line("", points);
    }
    chart
}

/// Creates a chart of the standard error of log Z_k along the stages of each run. The error of a resampled run is not known
/// along its path. If a run is resampled, the chart shows log Z_k less a straight line from log Z_0 to log Z_K instead.
fn along_the_path<S, R>(runs: &[Named<'_, S, R>]) -> Chart {
    let (across, place) = places(runs);
    let is_resampled = runs
        .iter()
        .any(|(_, run)| run.surviving_ancestors().is_some());
    let (title, label) = match is_resampled {
        true => ("log Z along the path, less a straight line", "nats"),
        false => ("Standard error of log Z along the path", "error, nats"),
    };
    let mut chart = Chart::new(title, across, label);
    for ((_, run), name) in runs.iter().zip(full_names(runs)) {
        let figure = |stage: &StageSummary| {
            let share = stage.stage as f64 / run.schedule().stages() as f64;
            match is_resampled {
                true => stage.log_z_ratio - share * run.log_z_ratio(),
                false => error_at(run, stage),
            }
        };
        let points = run.stages().iter();
        let points = points.map(|stage| (place(run, stage.stage), figure(stage)));
        chart = chart.line(&name, points);
    }
    chart
}

/// Returns the standard error of log Z_k for independent chains: the error of the mean of N weights.
fn error_at<S, R>(run: &Run<S, R>, stage: &StageSummary) -> f64 {
    let chains = run.chains() as f64;
    let spread = chains / stage.effective_sample_size - 1.0;
    (spread.max(0.0) / (chains - 1.0)).sqrt()
}

/// Creates a chart of the distributions of `log Z_0 + log w`. For a single run it marks the log of the mean weight.
pub(super) fn weights<S, R>(runs: &[Named<'_, S, R>]) -> Chart {
    let of_run = |run: &Run<S, R>| -> Vec<f64> {
        let start = run.log_z() - run.log_z_ratio();
        run.log_weights().iter().map(|w| start + w).collect()
    };
    let samples: Vec<_> = runs.iter().map(|(_, run)| of_run(run)).collect();
    let bins = Bins::without_tail(&samples);
    let title = match bins.below(&samples) {
        0 => "Log weights".to_owned(),
        lost => format!(
            "Log weights ({} further to the left)",
            counted(lost, "chain")
        ),
    };
    let mut chart = Chart::new(&title, "log Z by one chain, nats", "share of chains");
    for sample in &samples {
        chart = chart.histogram("", bins.ends(), &bins.shares(sample));
    }
    match runs {
        [(_, run)] => {
            let name = format!("mean weight: {}", log_z_of(*run));
            chart.estimate(&name, run.log_z())
        }
        _ => chart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{ais, path};

    #[test]
    fn the_error_ends_at_the_error_of_the_run() {
        let run = ais(&path(), 20).chains(50).run().unwrap();
        let error = error_at(&run, run.stages().last().unwrap());
        assert!((error - run.standard_error()).abs() < 1e-12, "{error}");
        // The rows have one, two, one and one panel, because acceptance has no partner.
        let runs = [("", &run)];
        let rows = panels(&runs, weights(&runs));
        let counts: Vec<usize> = rows.iter().map(Vec::len).collect();
        assert_eq!(counts, [1, 2, 1, 1]);
    }
}
