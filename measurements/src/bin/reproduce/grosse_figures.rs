//! Figures 3 to 5 of Grosse et al.

use std::path::Path;

use annealed::ais::{Ais, Merge, Recorder};
use annealed::estimate::Estimate;
use annealed::kernel::{Block, Stage};
use annealed::model::NormalizedModel;
use annealed::path::Intermediate;
use annealed::rbm::BlockGibbs;
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use annealed_measurements::image_sheet::image_sheet;
use annealed_plot::Chart;

use crate::base::Start;
use crate::bootstrap::{Bootstrap, interval};
use crate::exact::ExactSampler;
use crate::grosse::{PathKind, STARTS, Source};
use crate::machines::{Folders, Machine};
use crate::papers::GROSSE;
use crate::perfect::exact_run;
use crate::rows::{Lines, Point, Row, Setting, log_weights, thousandths};
use crate::runs::{Budget, SEGMENTS};

const KERNELS: [&str; 2] = ["exact samples", "Gibbs"];
/// Log weights of the exact samples in the law of both layers, of which Theorem 2 is.
const JOINT: &str = "exact samples, both layers";
const PATHS: [PathKind; 2] = [PathKind::Ga, PathKind::Mas];

/// Runs the missing parts of Figure 3: both paths from the uniform start, with exact samples at each stage and with
/// Gibbs sampling.
pub fn run_exact_samples(
    machine: Machine,
    folders: &Folders,
    budget: &Budget,
    build: &str,
    points: &mut Lines<Point>,
) -> Result<()> {
    let file = machine.read(folders)?;
    let source = Source {
        machine,
        file: &file,
        start: Start::Uniform,
        folders,
        updates: budget.updates(),
    };
    for kind in PATHS {
        let (path, moment_error) = source.path(kind)?;
        for &steps in &budget.steps {
            let names = [
                &machine.name(),
                Start::Uniform.name(),
                kind.name(),
                "LINEAR",
            ];
            let setting = Setting::new(names, steps);
            let is_missing = |kernel: &str| {
                let mut kept = points.all.iter().filter(|point| point.setting == setting);
                kept.all(|point| point.kernel != kernel)
            };
            let schedule = Schedule::linear(steps)?;
            let mut found = Vec::new();
            if is_missing(KERNELS[0]) || is_missing(JOINT) {
                let mut sampler = ExactSampler::new(&path, 0);
                let exact = exact_run(&mut sampler, &schedule, budget.chains)?;
                found.extend([(KERNELS[0], exact.log_weights), (JOINT, exact.joint)]);
            }
            if is_missing(KERNELS[1]) {
                let ais = Ais::new(&path, BlockGibbs).schedule(schedule);
                let run = ais.chains(budget.chains).run()?;
                found.push((KERNELS[1], run.log_weights().to_vec()));
            }
            found.retain(|(kernel, _)| is_missing(kernel));
            for (kernel, weights) in found {
                let ratio = Estimate::from_log_weights(&weights)?.value();
                points.add(Point {
                    setting: setting.clone(),
                    kernel: kernel.into(),
                    chains: budget.chains,
                    moment_error,
                    log_z: path.base().log_normalizer() + ratio,
                    build: build.into(),
                    log_weights: thousandths(&weights, ratio),
                })?;
            }
        }
    }
    Ok(())
}

/// Returns the table of Theorem 2: K times what the mean log weight of exact samples falls short of log Z.
pub fn shortfalls_table(
    machine: Machine,
    folders: &Folders,
    points: &Lines<Point>,
) -> Result<Vec<String>> {
    let exact = machine.log_z_exact(folders)?.unwrap_or_default();
    let mut lines = vec![
        "| path | K | K times the shortfall, visible units (SE) | both layers (SE) |".into(),
        "|---|---|---|---|".into(),
    ];
    let mut joint = points
        .all
        .iter()
        .filter(|point| point.kernel == JOINT)
        .collect::<Vec<_>>();
    joint.sort_by_key(|point| (&point.setting.path, point.setting.steps));
    for both in joint {
        let steps = both.setting.steps;
        let of_kernel = |kernel: &str| {
            let is = |point: &&Point| point.setting == both.setting && point.kernel == kernel;
            points
                .all
                .iter()
                .find(is)
                .map_or(String::new(), |point| shortfall(point, exact))
        };
        let cells = [of_kernel(KERNELS[0]), of_kernel(JOINT)].join(" | ");
        lines.push(format!("| {} | {steps} | {cells} |", both.setting.path));
    }
    Ok(lines)
}

/// Formats K times `log_z` less the mean log weight, and its standard error.
fn shortfall(point: &Point, log_z: f64) -> String {
    let short = log_weights(&point.log_weights, point.log_z).map(|x| log_z - x);
    let short: Vec<f64> = short.collect();
    let (n, steps) = (short.len() as f64, point.setting.steps as f64);
    let mean = short.iter().sum::<f64>() / n;
    let squares: f64 = short.iter().map(|x| (x - mean).powi(2)).sum();
    let error = (squares / (n - 1.0) / n).sqrt();
    format!("{:.0} ({:.0})", steps * mean, steps * error)
}

/// A point of Figure 3: K, error of log Z^ and its bootstrap interval.
type Plotted = (f64, f64, (f64, f64));

/// Returns Figure 3 as a table.
pub fn exact_samples_table(
    machine: Machine,
    folders: &Folders,
    points: &Lines<Point>,
) -> Result<Vec<String>> {
    let mut lines = vec![
        "| path | K | exact samples: error [95%] | Gibbs: error [95%] |".into(),
        "|---|---|---|---|".into(),
    ];
    for kind in PATHS {
        let [exact, gibbs] = curves(machine, kind, folders, points)?;
        let cell =
            |&(_, error, (low, high)): &Plotted| format!("{error:+.2} [{low:+.2}, {high:+.2}]");
        lines.extend(exact.iter().zip(&gibbs).map(|(exact, gibbs)| {
            let (path, steps) = (kind.name(), exact.0);
            format!("| {path} | {steps} | {} | {} |", cell(exact), cell(gibbs))
        }));
    }
    Ok(lines)
}

/// Draws Figure 3: log Z^ against K with exact samples, and with Gibbs sampling.
pub fn draw_exact_samples(
    machine: Machine,
    folders: &Folders,
    points: &Lines<Point>,
    figures: &Path,
) -> Result<()> {
    let mut charts = KERNELS.map(|kernel| {
        let title = format!("{}, uniform start, {kernel}: log Ẑ - log Z", machine.name());
        Chart::new(&title, "K", "nats").logarithmic_x()
    });
    for kind in PATHS {
        let curves = curves(machine, kind, folders, points)?;
        for (chart, curve) in charts.iter_mut().zip(curves) {
            *chart = chart.clone().line_with_errors(kind.name(), curve);
        }
    }
    for (chart, name) in charts.iter().zip(["exact-samples", "gibbs"]) {
        chart.save(figures.join(format!("grosse-{}-{name}.svg", machine.stem())))?;
    }
    Ok(())
}

/// Returns the points of a path, by exact samples and by Gibbs sampling.
fn curves(
    machine: Machine,
    kind: PathKind,
    folders: &Folders,
    points: &Lines<Point>,
) -> Result<[Vec<Plotted>; 2]> {
    let exact = machine.log_z_exact(folders)?.unwrap_or_default();
    let name = machine.name();
    let mut curves = [Vec::new(), Vec::new()];
    for (curve, kernel) in curves.iter_mut().zip(KERNELS) {
        let of_kernel = |point: &&Point| {
            let setting = &point.setting;
            setting.machine == name && setting.path == kind.name() && point.kernel == kernel
        };
        for point in points.all.iter().filter(of_kernel) {
            let log_weights: Vec<f64> = log_weights(&point.log_weights, point.log_z).collect();
            let (low, high) = interval(&Bootstrap::new(&log_weights, point.log_z).log_z);
            let ends = (low - exact, high - exact);
            curve.push((point.setting.steps as f64, point.log_z - exact, ends));
        }
        curve.sort_by(|a: &Plotted, b| a.0.total_cmp(&b.0));
    }
    Ok(curves)
}

/// Draws Figure 4: three chains along the geometric path and three along the cheap spline, of different seeds.
pub fn samples(machine: Machine, folders: &Folders, budget: &Budget, figures: &Path) -> Result<()> {
    let steps = budget.steps[0];
    let file = machine.read(folders)?;
    let source = Source {
        machine,
        file: &file,
        start: Start::BaseRates,
        folders,
        updates: budget.updates(),
    };
    let mut rows = Vec::new();
    for (seed, kind) in [(1, PathKind::Ga), (2, PathKind::Cheap)] {
        let (path, _) = source.path(kind)?;
        let run = Ais::new(&path, BlockGibbs)
            .schedule(Schedule::linear(steps)?)
            .chains(3)
            .recorded_stages(SEGMENTS)
            .recorder(Snapshots::default())
            .seed(seed)
            .run()?;
        for chain in 0..3 {
            let images = run
                .recorder()
                .0
                .iter()
                .map(|states| states[chain].clone())
                .collect();
            let label = format!("{}, K = {steps}, beta = .1, .2, ... 1", kind.name());
            rows.push((if chain == 0 { label } else { String::new() }, images));
        }
    }
    let name = figures.join(format!("grosse-{}-samples.svg", machine.stem()));
    std::fs::write(&name, image_sheet(28, &rows)).map_err(|error| Error::io(&name, error))
}

#[derive(Debug, Clone, Default)]
struct Snapshots(Vec<Vec<Vec<bool>>>);

impl<M: Intermediate<State = Vec<bool>>> Recorder<M> for Snapshots {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<Vec<bool>>) {
        self.0.push(block.states().to_vec());
    }
}

impl Merge for Snapshots {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(right.0) {
            mine.extend(theirs);
        }
    }
}

/// Draws Figure 5: log Z^ against K on the large machines, from the saved lines.
pub fn against_steps(lines: &Lines<Row>, figures: &Path) -> Result<()> {
    for machine in Machine::LARGE {
        let title = format!("{}: log Ẑ", machine.name());
        let mut chart = Chart::new(&title, "K", "nats").logarithmic_x();
        let mut drawn = 0;
        for start in STARTS {
            for kind in [PathKind::Ga, PathKind::Mas, PathKind::Cheap] {
                let label = format!("{}, {}", start.name(), kind.name());
                let mut points = Vec::new();
                for steps in [1_000, 10_000, 100_000] {
                    let names = [&machine.name(), start.name(), kind.name(), "LINEAR"];
                    let setting = Setting::new(names, steps);
                    if let Some(pooled) = lines.pooled(&setting)? {
                        let ends = interval(&pooled.bootstrap.log_z);
                        points.push((steps as f64, pooled.estimate.value(), ends));
                    }
                }
                drawn += points.len();
                chart = chart.line_with_errors(&label, points);
            }
        }
        if machine == Machine::Cd25_500 {
            // Other machines have another log Z than the paper's.
            for &(_, start, path, _, log_z, _) in
                GROSSE.iter().filter(|row| row.0 == machine.name())
            {
                let point = (1e5, log_z, (log_z, log_z));
                chart = chart.line_with_errors(&format!("paper: {start}, {path}"), [point]);
            }
        }
        if drawn > 0 {
            chart.save(figures.join(format!("grosse-{}-log-z.svg", machine.stem())))?;
        }
    }
    Ok(())
}
