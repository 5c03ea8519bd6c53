//! The experiments of R. Grosse, C. Maddison and R. Salakhutdinov, "Annealing between
//! distributions by averaging moments" (2013): two Gaussians (section 5.1), then RBMs, annealed
//! along the geometric path (GA) and the moment-averaged one (MA; for RBMs its spline MAS), by
//! linear and optimal schedules.
//!
//! What came out at which setting, beside what the paper says: `docs/reproduction.md`.
//!
//! ```text
//! cargo run --release --features full --example reproduce_grosse -- \
//!     --mnist DIR --fast --figures DIR
//! ```

mod common;
#[path = "common/image_sheet.rs"]
mod image_sheet;

use std::path::Path;
use std::time::Instant;

use annealed::ais::{Ais, Merge, Recorder, Run};
use annealed::chain::{Block, Stage};
use annealed::kernel::{CoordinateGibbs, PerfectTransitions, TransitionKernel};
use annealed::model::{ExponentialFamily, Gaussian, NormalizedModel};
use annealed::path::{AnnealingPath, GaussianPath, Intermediate, MomentPath, linear_cost};
use annealed::pilot::{BinnedSchedule, KnotChains, allocate_steps};
use annealed::plot::Chart;
use annealed::rbm::{
    BaseRate, BlockGibbs, ExactMatching, MAX_ENUMERATED_UNITS, MomentChains, PersistentMatching,
    Rbm, RbmMatching, RbmMoments, RbmPath,
};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use clap::{Parser, ValueEnum};
use nalgebra::{DVector, dmatrix, dvector};

use common::data::Data;
use common::options::{Options, Setting};
use common::{Training, data, mean, numbers_of_stages, root_mean_square, save, stem};
use image_sheet::image_sheet;

/// Segments of the optimal schedules, and of the spline.
const SEGMENTS: usize = 10;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    shared: Options,
    /// How the knots of the moment-averaging spline are found
    #[arg(long, value_enum, default_value = "chains")]
    matching: Matching,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let options = &arguments.shared;
    let setting = options.setting();
    gaussians(&setting, options.figures.as_deref())?;
    let data = data::load(options.mnist.as_deref())?;
    println!(
        "K = {} stages, N = {} chains, {} run(s) a row",
        setting.steps, setting.chains, setting.repeats
    );
    for training in options.rbms_or(&[Training::Cd1, Training::Pcd]) {
        let rbm = training.run(&data, options.hidden, &setting, options.seed)?;
        let name = format!("{}({})", training.name(), options.hidden);
        table(&name, &rbm, &data, &setting, &arguments)?;
    }
    Ok(())
}

// Section 5.1: Gaussians.

/// The pair of section 5.1.
fn pair() -> Result<(Gaussian, Gaussian)> {
    Ok((
        Gaussian::new(dvector![-10.0, 0.0], dmatrix![1.0, -0.85; -0.85, 1.0])?,
        Gaussian::new(dvector![10.0, 0.0], dmatrix![1.0, 0.85; 0.85, 1.0])?,
    ))
}

/// Costs of the segments between members of the family.
fn costs(members: &[Gaussian]) -> Vec<f64> {
    let pairs = members.windows(2);
    pairs.map(|pair| linear_cost(&pair[0], &pair[1])).collect()
}

/// The members at the ends of the segments, on a path linear in `of` (natural parameters or
/// moments).
fn members(
    of: impl Fn(&Gaussian) -> DVector<f64>,
    with: impl Fn(&Gaussian, &DVector<f64>) -> Result<Gaussian>,
) -> Result<Vec<Gaussian>> {
    let (base, target) = pair()?;
    let (from, to) = (of(&base), of(&target));
    let at = |j: usize| {
        let beta = j as f64 / SEGMENTS as f64;
        with(&base, &(&from * (1.0 - beta) + &to * beta))
    };
    (0..=SEGMENTS).map(at).collect()
}

fn gaussians(setting: &Setting, figures: Option<&Path>) -> Result<()> {
    let (base, target) = pair()?;
    println!(
        "two Gaussians of section 5.1: cost F = {:.4} of GA and of MA",
        linear_cost(&base, &target)
    );
    let natural = members(
        Gaussian::natural_parameters,
        Gaussian::with_natural_parameters,
    )?;
    let averaged = members(Gaussian::moments, Gaussian::with_moments)?;
    for (name, members) in [("GA", &natural), ("MA", &averaged)] {
        let costs = costs(members);
        let allocation = allocate_steps(&costs, 1_000)?;
        let bias: f64 = costs
            .iter()
            .zip(&allocation)
            .map(|(f, k)| f / *k as f64)
            .sum();
        println!(
            "{name}: 1,000 stages over {SEGMENTS} segments {allocation:?}, bias {bias:.4} \
             (linear {:.4})",
            linear_cost(&base, &target) / 1_000.0
        );
    }
    let geometric = GaussianPath::new(base.clone(), target.clone())?;
    let moment = MomentPath::new(base, target.clone())?;
    println!("\nK = 26, linear schedule, perfect transitions, 200,000 chains");
    report_weights("GA", &geometric)?;
    report_weights("MA", &moment)?;

    let exact = target.log_normalizer();
    let (ga, ma) = (costs(&natural), costs(&averaged));
    println!(
        "\nerror of log Z^ (ESS), perfect transitions | Gibbs, {} chains",
        GAUSSIAN_CHAINS
    );
    let lines = [
        (
            "GA linear",
            gaussian_line(&geometric, None, exact, setting)?,
        ),
        (
            "GA optimal",
            gaussian_line(&geometric, Some(&ga), exact, setting)?,
        ),
        ("MA linear", gaussian_line(&moment, None, exact, setting)?),
        (
            "MA optimal",
            gaussian_line(&moment, Some(&ma), exact, setting)?,
        ),
    ];
    for (name, line) in &lines {
        for [perfect, gibbs] in line {
            println!("{name:11} {perfect} | {gibbs}");
        }
    }
    match figures {
        Some(folder) => draw_gaussians(&lines, folder),
        None => Ok(()),
    }
}

const GAUSSIAN_CHAINS: usize = 1_000;

/// What one run between the Gaussians found.
#[derive(Debug, Clone, Copy)]
struct Point {
    steps: usize,
    error: f64,
    ess: f64,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "K = {:5} {:>+9.3} ({:>5.1})",
            self.steps, self.error, self.ess
        )
    }
}

impl Point {
    fn new<S>(run: &Run<S>, exact: f64) -> Self {
        Self {
            steps: run.schedule().steps(),
            error: run.log_z() - exact,
            ess: run.effective_sample_size(),
        }
    }
}

/// E and Var of log w, which the paper gives.
fn report_weights<'p, P>(name: &str, path: &'p P) -> Result<()>
where
    P: AnnealingPath<State = DVector<f64>, Base = Gaussian> + Sync,
    PerfectTransitions: TransitionKernel<P::At<'p>>,
{
    let run = Ais::new(path, PerfectTransitions)
        .schedule(Schedule::linear(26)?)
        .chains(200_000)
        .run()?;
    let estimate = run.estimate();
    let variance = estimate.var_log_weight();
    // The variance's error, were log w normal.
    println!(
        "{name}: E[log w] = {:.2} +- {:.2}, Var[log w] = {variance:.1} +- {:.1}",
        estimate.mean_log_weight(),
        (variance / 2e5).sqrt(),
        variance * (2.0_f64 / 2e5).sqrt()
    );
    Ok(())
}

/// Runs with perfect transitions and with Gibbs sampling for each number of stages; with a linear
/// schedule, or the optimal one for the costs of the segments.
fn gaussian_line<'p, P>(
    path: &'p P,
    costs: Option<&[f64]>,
    exact: f64,
    setting: &Setting,
) -> Result<Vec<[Point; 2]>>
where
    P: AnnealingPath<State = DVector<f64>, Base = Gaussian> + Sync,
    PerfectTransitions: TransitionKernel<P::At<'p>>,
    CoordinateGibbs: TransitionKernel<P::At<'p>>,
{
    let knots = Schedule::linear(SEGMENTS)?;
    let mut line = Vec::new();
    for steps in numbers_of_stages(setting.steps.min(10_000)) {
        let schedule = match costs {
            None => Schedule::linear(steps)?,
            Some(costs) => BinnedSchedule::new(knots.clone()).with_costs(costs, steps)?,
        };
        let perfect = Ais::new(path, PerfectTransitions)
            .schedule(schedule.clone())
            .chains(GAUSSIAN_CHAINS)
            .run()?;
        let gibbs = Ais::new(path, CoordinateGibbs::systematic())
            .schedule(schedule)
            .chains(GAUSSIAN_CHAINS)
            .run()?;
        line.push([Point::new(&perfect, exact), Point::new(&gibbs, exact)]);
    }
    Ok(line)
}

fn draw_gaussians(lines: &[(&str, Vec<[Point; 2]>)], folder: &Path) -> Result<()> {
    for (kernel, name) in ["perfect transitions", "Gibbs"].into_iter().enumerate() {
        let title = format!("Two Gaussians, {name}");
        let mut chart = Chart::new(&title, "K", "log Z^ - log Z").logarithmic_x();
        for (label, line) in lines {
            let points = line.iter().map(|point| point[kernel]);
            chart = chart.line(label, points.map(|p| (p.steps as f64, p.error)));
        }
        let stem = name.split(' ').next().unwrap_or(name).to_lowercase();
        chart.save(folder.join(format!("grosse-gaussians-{stem}.svg")))?;
    }
    Ok(())
}

// RBMs.

/// One RBM's rows.
fn table(name: &str, rbm: &Rbm, data: &Data, setting: &Setting, options: &Arguments) -> Result<()> {
    let exact = match options.shared.hidden {
        0..=MAX_ENUMERATED_UNITS => Some(rbm.exact_log_normalizer()?),
        _ => None,
    };
    save(options.shared.save_rbms.as_deref(), name, rbm, data, exact)?;
    match exact {
        Some(log_z) => println!("{name}: exact log Z = {log_z:.3}"),
        None => println!("{name}: too large for an exact log Z"),
    }
    println!("start      path  schedule     log Z^     error       SE     ESS");
    let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
    for (start, base) in [
        ("uniform", BaseRate::uniform(hidden, visible)?),
        ("base rate", BaseRate::from_data(hidden, &data.images, 1.0)?),
    ] {
        let geometric = RbmPath::new(base.clone(), rbm.clone())?;
        let begun = Instant::now();
        let spline = moment_spline(base, rbm, data, options.matching, setting)?;
        println!(
            "{start:10} MAS   knots matched in {:.1} s",
            begun.elapsed().as_secs_f64()
        );
        for (label, path) in [("GA", &geometric), ("MAS", &spline)] {
            for optimal in [false, true] {
                let schedule = schedule(path, optimal, setting, options.shared.seed)?;
                let runs = runs(path, &schedule, setting, options.shared.seed)?;
                let kind = if optimal { "optimal" } else { "linear" };
                println!("{start:10} {label:5} {kind:8} {}", figures_of(&runs, exact));
            }
        }
        if let Some(folder) = &options.shared.figures {
            let file = stem(&format!("grosse-{name}-{start}-samples.svg"));
            draw_samples([&geometric, &spline], data.width, &folder.join(file))?;
        }
    }
    Ok(())
}

/// Where the moments of a spline's knots come from, and how they are matched.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Matching {
    /// Enumeration and exact gradients: the best knots, about 300 enumerations
    Exact,
    /// Gibbs chains and persistent chains, as in the paper
    Chains,
    /// The paper's "cheap" variant: moments of the data, 1,000 updates
    Cheap,
}

fn moment_spline(
    base: BaseRate,
    rbm: &Rbm,
    data: &Data,
    matching: Matching,
    setting: &Setting,
) -> Result<RbmPath> {
    match matching {
        Matching::Exact => {
            // A rough match leaves the weights unbiased: none is refused.
            let exact = ExactMatching::default().tolerance(1.0);
            through_knots(base, rbm, &rbm.exact_moments()?, &exact)
        }
        Matching::Chains if setting.long_pilots => {
            let moments = MomentChains::full().moments(rbm)?;
            through_knots(base, rbm, &moments, &PersistentMatching::full())
        }
        Matching::Chains => {
            let chains = MomentChains::full().chains(200).sweeps(1_000).burn_in(300);
            let short = PersistentMatching::full().updates(setting.updates.min(5_000));
            through_knots(base, rbm, &chains.moments(rbm)?, &short)
        }
        Matching::Cheap => {
            let moments = RbmMoments::from_data(rbm, &data.images)?;
            through_knots(base, rbm, &moments, &PersistentMatching::cheap())
        }
    }
}

fn through_knots(
    base: BaseRate,
    rbm: &Rbm,
    moments: &RbmMoments,
    matching: &impl RbmMatching,
) -> Result<RbmPath> {
    let knots = Schedule::linear(SEGMENTS)?;
    RbmPath::moment_spline(base, rbm.clone(), moments, knots, matching)
}

fn schedule(path: &RbmPath, optimal: bool, setting: &Setting, seed: u64) -> Result<Schedule> {
    if !optimal {
        return Schedule::linear(setting.steps);
    }
    let chains = if setting.long_pilots {
        KnotChains::paper()
    } else {
        KnotChains::default()
    };
    let binned = BinnedSchedule::new(Schedule::linear(SEGMENTS)?).chains(chains);
    let costs = binned.estimate_costs(path, &BlockGibbs, seed)?;
    binned.with_costs(&costs, setting.steps)
}

fn runs(
    path: &RbmPath,
    schedule: &Schedule,
    setting: &Setting,
    seed: u64,
) -> Result<Vec<Run<Vec<bool>>>> {
    let run = |repeat: u64| {
        Ais::new(path, BlockGibbs)
            .schedule(schedule.clone())
            .chains(setting.chains)
            .block_size(setting.chains.div_ceil(8).clamp(16, 128))
            .recorded_stages(100)
            // Repeats of neighbouring seeds of the program do not overlap.
            .seed(seed.wrapping_mul(1_000).wrapping_add(repeat))
            .run()
    };
    (0..setting.repeats).map(run).collect()
}

/// Mean estimate, its error, standard error, mean ESS.
fn figures_of(runs: &[Run<Vec<bool>>], exact: Option<f64>) -> String {
    let over = |f: fn(&Run<Vec<bool>>) -> f64| runs.iter().map(f).collect::<Vec<f64>>();
    let log_z = mean(&over(Run::log_z));
    let error = exact.map_or("       -".into(), |exact| {
        format!("{:>+8.3}", log_z - exact)
    });
    format!(
        "{log_z:>10.3}  {error}  {:>7.3}  {:>6.1}",
        root_mean_square(&over(Run::standard_error)) / (runs.len() as f64).sqrt(),
        mean(&over(Run::effective_sample_size))
    )
}

/// Three chains along each path.
fn draw_samples(paths: [&RbmPath; 2], width: usize, file: &Path) -> Result<()> {
    let mut rows = Vec::new();
    for (name, path) in ["geometric path", "moment path"].into_iter().zip(paths) {
        let run = Ais::new(path, BlockGibbs)
            .chains(3)
            .recorded_stages(SEGMENTS)
            .recorder(Snapshots::default())
            .run()?;
        for chain in 0..3 {
            let images: Vec<_> = run
                .recorder()
                .stages
                .iter()
                .map(|s| s[chain].clone())
                .collect();
            let label = match chain {
                0 => format!("{name}, beta = .1, .2, ... 1"),
                _ => String::new(),
            };
            rows.push((label, images));
        }
    }
    std::fs::write(file, image_sheet(width, &rows)).map_err(|error| {
        let expected = format!("a file that can be written ({error})");
        Error::invalid("figure", file.display(), expected)
    })
}

/// The states of the chains at the recorded stages.
#[derive(Debug, Clone, Default)]
struct Snapshots {
    stages: Vec<Vec<Vec<bool>>>,
}

impl<M: Intermediate<State = Vec<bool>>> Recorder<M> for Snapshots {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<Vec<bool>>) {
        self.stages.push(block.states().to_vec());
    }
}

impl Merge for Snapshots {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.stages.iter_mut().zip(right.stages) {
            mine.extend(theirs);
        }
    }
}
