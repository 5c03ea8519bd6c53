//! Figures 3 to 5 of Grosse et al.

use std::path::Path;

use annealed::ais::{Ais, Merge, Recorder};
use annealed::estimate::{Estimate, LogZ};
use annealed::kernel::{Block, Stage};
use annealed::path::Intermediate;
use annealed::rbm::{BlockGibbs, RbmPath};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use annealed_measurements::image_sheet::image_sheet;
use annealed_plot::Chart;

use crate::base::Start;
use crate::bootstrap::{Bootstrap, interval};
use crate::grosse::{PathKind, STARTS, Source};
use crate::machines::{Folders, Machine};
use crate::rows::{Lines, Row, Setting};
use crate::runs::{Budget, SEGMENTS};

/// Draws Figure 3: log Z^ against K from the uniform start, with exact samples at each stage and with Gibbs sampling.
pub fn with_exact_samples(
    machine: Machine,
    folders: &Folders,
    budget: &Budget,
    figures: &Path,
) -> Result<()> {
    let chains = budget.chains;
    let file = machine.read(folders)?;
    let exact = file.rbm.exact_log_normalizer()?;
    let source = Source {
        machine,
        file: &file,
        start: Start::Uniform,
        folders,
        updates: budget.spline_updates,
    };
    let mut charts = ["exact samples", "Gibbs"].map(|kernel| {
        let title = format!("{}, uniform start, {kernel}: log Ẑ - log Z", machine.name());
        Chart::new(&title, "K", "nats").logarithmic_x()
    });
    println!("| path | K | exact samples: error [95%] | Gibbs: error [95%] |\n|---|---|---|---|");
    for kind in [PathKind::Ga, PathKind::Mas] {
        let path = source.path(kind)?;
        let mut lines = [Vec::new(), Vec::new()];
        for &steps in &budget.steps {
            let schedule = Schedule::linear(steps)?;
            let gibbs = Ais::new(&path, BlockGibbs)
                .schedule(schedule.clone())
                .chains(chains)
                .run()?;
            let log_z_0 = gibbs.log_z() - gibbs.log_z_ratio();
            let samples = [
                exact_log_weights(&path, &schedule, chains)?,
                gibbs.log_weights().to_vec(),
            ];
            let [perfect, moved] = samples.map(|log_weights| point(&log_weights, log_z_0 - exact));
            let points = [perfect?, moved?];
            let [first, second] =
                points.map(|(error, (low, high))| format!("{error:+.2} [{low:+.2}, {high:+.2}]"));
            println!("| {} | {steps} | {first} | {second} |", kind.name());
            for (line, (error, ends)) in lines.iter_mut().zip(points) {
                line.push((steps as f64, error, ends));
            }
        }
        charts = std::array::from_fn(|kernel| {
            charts[kernel]
                .clone()
                .line_with_errors(kind.name(), lines[kernel].clone())
        });
    }
    let stem = machine.stem();
    let [exact, gibbs] = charts;
    exact.save(figures.join(format!("grosse-{stem}-exact-samples.svg")))?;
    gibbs.save(figures.join(format!("grosse-{stem}-gibbs.svg")))
}

/// Returns the log weights of a run with perfect transitions: exact samples of each stage are weighed to the next.
fn exact_log_weights(path: &RbmPath, schedule: &Schedule, chains: usize) -> Result<Vec<f64>> {
    let mut log_weights = vec![0.0; chains];
    for (k, pair) in schedule.betas().windows(2).enumerate() {
        let (here, next) = (path.at(pair[0]), path.at(pair[1]));
        let samples = here.to_rbm()?.exact_samples(chains, k as u64)?;
        for (log_weight, sample) in log_weights.iter_mut().zip(&samples) {
            *log_weight += next.log_ratio(&here, sample);
        }
    }
    Ok(log_weights)
}

fn point(log_weights: &[f64], shift: f64) -> Result<(f64, (f64, f64))> {
    let log_z = Estimate::from_log_weights(log_weights)?.value();
    let (low, high) = interval(&Bootstrap::new(log_weights, log_z).log_z);
    Ok((log_z + shift, (low + shift, high + shift)))
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
        updates: budget.spline_updates,
    };
    let mut rows = Vec::new();
    for (seed, kind) in [(1, PathKind::Ga), (2, PathKind::Cheap)] {
        let path = source.path(kind)?;
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
        if drawn > 0 {
            chart.save(figures.join(format!("grosse-{}-log-z.svg", machine.stem())))?;
        }
    }
    Ok(())
}
