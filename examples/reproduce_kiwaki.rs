//! The experiments of T. Kiwaki, "Variational optimization of annealing schedules" (2015): RBMs
//! trained by CD1, CD25 and PCD, annealed from the base-rate model by linear, binned (GMS13) and
//! variationally optimised schedules.
//!
//! What came out at which setting, beside what the paper says: `docs/reproduction.md`.
//!
//! ```text
//! cargo run --release --features full --example reproduce_kiwaki -- \
//!     --mnist DIR --fast --figures DIR
//! ```

mod common;

use std::time::Instant;

use annealed::ais::{Ais, Run};
use annealed::pilot::{BinnedSchedule, Friction, KnotChains, Pilot, Survey, VarOpt};
use annealed::plot::Chart;
use annealed::rbm::{BaseRate, BlockGibbs, MAX_ENUMERATED_UNITS, RbmPath};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use clap::Parser;

use common::options::{Options, Setting};
use common::{Training, data, mean, numbers_of_stages, root_mean_square, save, stem};

/// The rows of the paper's tables, and one more.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Row {
    Linear,
    /// Grosse, Maddison and Salakhutdinov (2013): ten segments.
    Gms13,
    /// With the paper's limit of a step on its pilot of 1,000 steps, as thousandths: a limit of
    /// the speed.
    VarOpt(u32),
    /// Not in the paper.
    Friction,
}

const ROWS: [Row; 6] = [
    Row::Linear,
    Row::Gms13,
    Row::VarOpt(3),
    Row::VarOpt(6),
    Row::VarOpt(9),
    Row::Friction,
];

impl Row {
    fn name(self) -> String {
        match self {
            Self::Linear => "LINEAR".into(),
            Self::Gms13 => "GMS13".into(),
            Self::VarOpt(limit) => format!("VAROPT .{limit:03}"),
            Self::Friction => "(friction)".into(),
        }
    }

    fn schedule(self, pilots: &Pilots, steps: usize) -> Result<Schedule> {
        match self {
            Self::Linear => Schedule::linear(steps),
            Self::Gms13 => pilots.binned.with_costs(&pilots.costs, steps),
            Self::VarOpt(limit) => VarOpt::default()
                .schedule(&pilots.survey, steps)?
                .with_speed_limit(f64::from(limit)),
            Self::Friction => Friction::default().schedule(&pilots.survey, steps),
        }
    }
}

/// What the schedules are chosen by.
struct Pilots {
    survey: Survey,
    binned: BinnedSchedule,
    costs: Vec<f64>,
}

impl Pilots {
    /// The paper's pilot for VAROPT, 100 chains of 1,000 steps, and chains at eleven knots.
    fn new(path: &RbmPath, setting: &Setting, seed: u64) -> Result<Self> {
        let chains = if setting.long_pilots {
            KnotChains::paper()
        } else {
            KnotChains::default()
        };
        let binned = BinnedSchedule::new(Schedule::linear(10)?).chains(chains);
        Ok(Self {
            survey: Pilot::default().survey(path, &BlockGibbs, seed)?,
            costs: binned.estimate_costs(path, &BlockGibbs, seed)?,
            binned,
        })
    }
}

/// The runs of one row at one number of stages.
#[derive(Clone)]
struct Cell {
    schedule: Schedule,
    runs: Vec<Run<Vec<bool>>>,
}

impl Cell {
    fn log_z(&self) -> f64 {
        mean(&self.runs.iter().map(Run::log_z).collect::<Vec<_>>())
    }

    /// ESS as a share of the chains.
    fn share(&self) -> f64 {
        let share = |run: &Run<_>| run.effective_sample_size() / run.chains() as f64;
        mean(&self.runs.iter().map(share).collect::<Vec<_>>())
    }

    fn standard_error(&self) -> f64 {
        let errors: Vec<f64> = self.runs.iter().map(Run::standard_error).collect();
        root_mean_square(&errors) / (self.runs.len() as f64).sqrt()
    }
}

/// One RBM's experiment.
struct Experiment {
    name: String,
    exact: Option<f64>,
    /// Numbers of stages.
    steps: Vec<usize>,
    /// For each row, a cell for each number of stages, or why there is none.
    cells: Vec<(Row, Result<Vec<Cell>>)>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let setting = options.setting();
    let data = data::load(options.mnist.as_deref())?;
    println!(
        "up to K = {} stages, N = {} chains, {} run(s) a row; base-rate start",
        setting.steps, setting.chains, setting.repeats
    );
    for training in options.rbms_or(&[Training::Cd1, Training::Cd25, Training::Pcd]) {
        let rbm = training.run(&data, options.hidden, &setting, options.seed)?;
        let exact = match options.hidden {
            0..=MAX_ENUMERATED_UNITS => Some(rbm.exact_log_normalizer()?),
            _ => None,
        };
        let name = format!("{}({})", training.name(), options.hidden);
        save(options.save_rbms.as_deref(), &name, &rbm, &data, exact)?;
        let base = BaseRate::from_data(options.hidden, &data.images, 1.0)?;
        let path = RbmPath::new(base, rbm)?;
        let experiment = Experiment::run(name, exact, &path, &setting, options.seed)?;
        experiment.print();
        if let Some(folder) = &options.figures {
            experiment.draw(&|name| folder.join(name))?;
        }
    }
    Ok(())
}

impl Experiment {
    fn run(
        name: String,
        exact: Option<f64>,
        path: &RbmPath,
        setting: &Setting,
        seed: u64,
    ) -> Result<Self> {
        let begun = Instant::now();
        let pilots = Pilots::new(path, setting, seed)?;
        println!("pilots in {:.1} s", begun.elapsed().as_secs_f64());
        for warning in pilots.survey.warnings() {
            println!("    warning of the pilot: {warning}");
        }
        let steps = numbers_of_stages(setting.steps);
        let mut done: Vec<(Row, Result<Vec<Cell>>)> = Vec::new();
        for row in ROWS {
            let run = |&steps: &usize| -> Result<Cell> {
                let schedule = row.schedule(&pilots, steps)?;
                // The same seeds on the same schedule would give the same runs.
                match known(&done, &schedule) {
                    Some(cell) => Ok(cell.clone()),
                    None => anneal(path, schedule, setting, seed),
                }
            };
            let cells: Result<Vec<Cell>> = steps.iter().map(run).collect();
            match cells {
                Err(error) if !is_of_schedule(&error) => return Err(error),
                cells => done.push((row, cells)),
            }
        }
        println!("all runs in {:.1} s", begun.elapsed().as_secs_f64());
        Ok(Self {
            name,
            exact,
            steps,
            cells: done,
        })
    }

    fn print(&self) {
        match self.exact {
            Some(log_z) => println!("{}: exact log Z = {log_z:.3}", self.name),
            None => println!("{}: too large for an exact log Z", self.name),
        }
        println!("row                K      log Z^     error       SE    ESS/N  top speed");
        for (row, cells) in &self.cells {
            let cells = match cells {
                Ok(cells) => cells,
                Err(error) => {
                    println!("{:12} {error}", row.name());
                    continue;
                }
            };
            for cell in cells.iter().filter(|cell| cell.schedule.steps() >= 1_000) {
                println!(
                    "{:12} {:>7}  {:>10.3}  {}  {:>7.3}   {:>6.3}     {:>6.2}",
                    row.name(),
                    cell.schedule.steps(),
                    cell.log_z(),
                    self.error(cell),
                    cell.standard_error(),
                    cell.share(),
                    top_speed(&cell.schedule)
                );
            }
        }
        self.say_equal_rows();
    }

    fn error(&self, cell: &Cell) -> String {
        let error = |exact| format!("{:>+8.3}", cell.log_z() - exact);
        self.exact.map_or("       -".into(), error)
    }

    /// A speed limit that no step reaches changes nothing.
    fn say_equal_rows(&self) {
        let drawn: Vec<_> = self.drawn().collect();
        for pair in drawn.windows(2) {
            let schedule = |(_, cells): (Row, &[Cell])| cells.last().map(|c| c.schedule.clone());
            if schedule(pair[0]) == schedule(pair[1]) {
                let (a, b) = (pair[0].0.name(), pair[1].0.name());
                println!("{b} is the schedule of {a}: no step is long enough to be limited");
            }
        }
    }

    /// The rows that were run.
    fn drawn(&self) -> impl Iterator<Item = (Row, &[Cell])> {
        let cells = self.cells.iter();
        cells.filter_map(|(row, cells)| Some((*row, cells.as_deref().ok()?)))
    }

    /// Schedules; error and ESS against K; ESS along the longest run.
    fn draw(&self, file: &dyn Fn(String) -> std::path::PathBuf) -> Result<()> {
        let title = |what: &str| format!("{}: {what}", self.name);
        let mut schedules = Chart::new(&title("schedules"), "k / K", "beta");
        let mut along = Chart::new(&title("ESS along the run"), "k / K", "ESS / N");
        let mut shares = Chart::new(&title("ESS"), "K", "ESS / N").logarithmic_x();
        let estimated = match self.exact {
            Some(_) => "log Z^ - log Z",
            None => "log Z^",
        };
        let mut log_z = Chart::new(&title(estimated), "K", "nats").logarithmic_x();
        for (row, cells) in self.drawn() {
            let name = row.name();
            let against = |f: &dyn Fn(&Cell) -> f64| -> Vec<(f64, f64)> {
                let points = self.steps.iter().zip(cells);
                points
                    .map(|(&steps, cell)| (steps as f64, f(cell)))
                    .collect()
            };
            log_z = log_z.line(&name, against(&|c| c.log_z() - self.exact.unwrap_or(0.0)));
            shares = shares.line(&name, against(&Cell::share));
            if let Some(longest) = cells.last() {
                schedules = schedules.line(&name, thinned(&longest.schedule));
                along = along.line(&name, shares_along(&longest.runs[0]));
            }
        }
        let stem = stem(&self.name);
        for (chart, what) in [
            (schedules, "schedules"),
            (along, "ess-along"),
            (shares, "ess"),
            (log_z, "log-z"),
        ] {
            chart.save(file(format!("kiwaki-{stem}-{what}.svg")))?;
        }
        Ok(())
    }
}

/// The runs on a schedule, if an earlier row had the same.
fn known<'a>(done: &'a [(Row, Result<Vec<Cell>>)], schedule: &Schedule) -> Option<&'a Cell> {
    let cells = done.iter().filter_map(|(_, cells)| cells.as_ref().ok());
    cells.flatten().find(|cell| cell.schedule == *schedule)
}

/// Whether a row has no schedule, rather than the program a problem.
fn is_of_schedule(error: &Error) -> bool {
    matches!(error, Error::PilotCollapsed { .. })
}

fn anneal(path: &RbmPath, schedule: Schedule, setting: &Setting, seed: u64) -> Result<Cell> {
    let run = |repeat: u64| {
        Ais::new(path, BlockGibbs)
            .schedule(schedule.clone())
            .chains(setting.chains)
            .block_size(setting.chains.div_ceil(8).clamp(16, 128))
            .recorded_stages(200)
            // Repeats of neighbouring seeds of the program do not overlap.
            .seed(seed.wrapping_mul(1_000).wrapping_add(repeat))
            .run()
    };
    let runs: Result<Vec<_>> = (0..setting.repeats).map(run).collect();
    Ok(Cell {
        runs: runs?,
        schedule,
    })
}

/// `K` times the longest step: 1 for the linear schedule.
fn top_speed(schedule: &Schedule) -> f64 {
    let steps = schedule.betas().windows(2).map(|b| b[1] - b[0]);
    schedule.steps() as f64 * steps.fold(0.0, f64::max)
}

/// About a hundred points of a schedule.
fn thinned(schedule: &Schedule) -> Vec<(f64, f64)> {
    let points = (0..=100).map(|i| (i * schedule.steps()) / 100);
    let share = |k: usize| k as f64 / schedule.steps() as f64;
    points.map(|k| (share(k), schedule.betas()[k])).collect()
}

fn shares_along(run: &Run<Vec<bool>>) -> Vec<(f64, f64)> {
    let steps = run.schedule().steps() as f64;
    let stages = run.stages().iter();
    stages
        .map(|s| {
            (
                s.stage as f64 / steps,
                s.effective_sample_size / run.chains() as f64,
            )
        })
        .collect()
}
