//! How often intervals for log Z hold the true value: the tables of `docs/intervals.md`.
//!
//! `cargo run --release --example coverage` takes about two minutes on two cores; `--quick` runs
//! a twentieth of the seeds.

use std::time::Instant;

use annealed::ais::Ais;
use annealed::estimate::Estimate;
use annealed::kernel::{RandomWalkMetropolis, TransitionKernel};
use annealed::model::{Gaussian, GaussianMixture, NormalizedModel};
use annealed::path::{AnnealingPath, GeometricPath};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma, Normal, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;
type Interval = (f64, f64);
type Draw = Box<dyn Fn(u64) -> annealed::Result<Vec<f64>> + Sync>;

/// One way to get log weights whose mean weight is known.
struct Cell {
    problem: &'static str,
    setting: String,
    chains: usize,
    log_mean: f64,
    draw: Draw,
}

const METHODS: [&str; 5] = ["delta", "percentile", "log-normal", "skewness", "chosen"];
const CHOSEN: usize = METHODS.len() - 1;

/// What one run said.
#[derive(Clone)]
struct Trial {
    ess_ratio: f64,
    covers: [bool; METHODS.len()],
    widths: [f64; METHODS.len()],
    warned: bool,
}

fn main() -> Anyhow<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let seeds = if quick { 50 } else { 1_000 };
    let start = Instant::now();
    let cells = cells()?;
    let mut problems: Vec<(&str, Vec<Trial>)> = Vec::new();
    println!("Nominal 95% intervals, {seeds} seeds a row.\n");
    header("setting");
    for cell in &cells {
        let trials = run(cell, seeds)?;
        let name = format!("{} {}, N = {}", cell.problem, cell.setting, cell.chains);
        row(&name, &trials);
        match problems.last_mut() {
            Some((problem, all)) if *problem == cell.problem => all.extend(trials),
            _ => problems.push((cell.problem, trials)),
        }
    }
    println!();
    header("problem");
    for (problem, trials) in &problems {
        row(problem, trials);
    }
    println!();
    header("problem, ESS/N");
    for (problem, trials) in &problems {
        for (low, high) in [(0.05, 0.1), (0.1, 0.3), (0.3, 1.01)] {
            let within = |t: &&Trial| t.ess_ratio > low && t.ess_ratio <= high;
            let trials: Vec<Trial> = trials.iter().filter(within).cloned().collect();
            row(&format!("{problem}, {low} to {high:.1}"), &trials);
        }
    }
    println!("\n{:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn cells() -> Anyhow<Vec<Cell>> {
    let mut cells = Vec::new();
    for chains in [100, 300, 1_000] {
        for variance in [0.1, 1.0, 3.0, 5.0, 8.0] {
            cells.push(log_normal(variance, chains)?);
        }
    }
    for chains in [100, 300, 1_000] {
        for (shape, scale) in [(10.0, 0.3), (10.0, 1.0), (3.0, 3.0), (1.0, 10.0)] {
            cells.push(log_gamma("left-skewed", -1.0, shape, scale, chains)?);
        }
    }
    for chains in [100, 300, 1_000] {
        for (shape, scale) in [(1.0, 0.3), (1.0, 0.5), (10.0, 0.3), (10.0, 0.4)] {
            cells.push(log_gamma("right-skewed", 1.0, shape, scale, chains)?);
        }
    }
    for chains in [100, 300] {
        for steps in [1, 3, 10, 30] {
            cells.push(narrowing(steps, chains)?);
        }
        for steps in [1, 2, 4, 16] {
            cells.push(widening(steps, chains)?);
        }
        for steps in [3, 10, 30, 100] {
            cells.push(two_modes(
                "two modes",
                dvector![0.0, 0.0],
                4.0,
                steps,
                chains,
            )?);
        }
        for steps in [10, 30, 100] {
            cells.push(two_modes(
                "missed mode",
                dvector![-3.0, 0.0],
                1.5,
                steps,
                chains,
            )?);
        }
    }
    for chains in [100, 300] {
        for steps in [1, 3, 10, 30] {
            cells.push(boltzmann(steps, chains)?);
        }
    }
    cells.sort_by_key(|cell| PROBLEMS.iter().position(|&name| name == cell.problem));
    Ok(cells)
}

const PROBLEMS: [&str; 8] = [
    "log-normal",
    "left-skewed",
    "right-skewed",
    "Gaussian, narrowing",
    "Gaussian, widening",
    "two modes",
    "RBM",
    "missed mode",
];

/// `log w` normal.
fn log_normal(variance: f64, chains: usize) -> Anyhow<Cell> {
    let normal = Normal::new(0.0, f64::sqrt(variance))?;
    Ok(Cell {
        problem: "log-normal",
        setting: format!("variance {variance}"),
        chains,
        log_mean: 0.5 * variance,
        draw: independent(normal, 1.0, chains),
    })
}

/// `log w = sign * G`, G from a gamma distribution: `E exp(t G) = (1 - scale t)^-shape`.
fn log_gamma(
    problem: &'static str,
    sign: f64,
    shape: f64,
    scale: f64,
    chains: usize,
) -> Anyhow<Cell> {
    Ok(Cell {
        problem,
        setting: format!("Gamma({shape}, {scale})"),
        chains,
        log_mean: -shape * (-sign * scale).ln_1p(),
        draw: independent(Gamma::new(shape, scale)?, sign, chains),
    })
}

fn independent(
    distribution: impl Distribution<f64> + Sync + 'static,
    sign: f64,
    chains: usize,
) -> Draw {
    Box::new(move |seed| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Ok((0..chains)
            .map(|_| sign * distribution.sample(&mut rng))
            .collect())
    })
}

/// A broad base to a narrow target in four dimensions: the weights are bounded.
fn narrowing(steps: usize, chains: usize) -> Anyhow<Cell> {
    let base = Gaussian::isotropic(DVector::zeros(4), 2.0)?;
    let covariance = dmatrix![
        0.5, 0.2, 0.0, 0.0; 0.2, 0.4, 0.1, 0.0; 0.0, 0.1, 0.8, -0.2; 0.0, 0.0, -0.2, 1.0
    ];
    let target = Gaussian::new(dvector![1.0, -1.0, 0.5, 0.0], covariance)?;
    walk("Gaussian, narrowing", base, target, steps, chains)
}

/// A base narrower than the target: one stage gives weights of infinite variance.
fn widening(steps: usize, chains: usize) -> Anyhow<Cell> {
    let base = Gaussian::standard(2)?;
    let target = Gaussian::new(dvector![0.5, -0.5], dmatrix![3.0, 0.5; 0.5, 1.5])?;
    walk("Gaussian, widening", base, target, steps, chains)
}

/// An RBM of 16 visible and 8 hidden units with random weights, enumerated, from the uniform
/// distribution.
fn boltzmann(steps: usize, chains: usize) -> Anyhow<Cell> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(16);
    let mut normals = |_, _| rng.sample(StandardNormal);
    let target: Rbm<f64> = Rbm::new(
        DMatrix::from_fn(8, 16, &mut normals),
        DVector::from_fn(8, &mut normals),
        DVector::from_fn(16, &mut normals),
    )?;
    let log_z = target.exact_log_normalizer()?;
    let path = RbmPath::new(BaseRate::uniform(8, 16)?, target)?;
    let linear = Schedule::linear(steps)?;
    annealed("RBM", path, log_z, BlockGibbs, linear, chains)
}

/// 70% of the mass at (-4, 0), 30% at (4, 2).
fn two_modes(
    problem: &'static str,
    mean: DVector<f64>,
    deviation: f64,
    steps: usize,
    chains: usize,
) -> Anyhow<Cell> {
    let base = Gaussian::isotropic(mean, deviation)?;
    let target = GaussianMixture::new([
        (0.7, Gaussian::isotropic(dvector![-4.0, 0.0], 0.5)?),
        (0.3, Gaussian::isotropic(dvector![4.0, 2.0], 0.4)?),
    ])?;
    walk(problem, base, target, steps, chains)
}

fn walk<T>(
    problem: &'static str,
    base: Gaussian,
    target: T,
    steps: usize,
    chains: usize,
) -> Anyhow<Cell>
where
    T: NormalizedModel<State = DVector<f64>> + Sync + 'static,
{
    let log_z = target.log_normalizer();
    let path = GeometricPath::new(base, target);
    let kernel = RandomWalkMetropolis::new(0.8)?;
    let quadratic = Schedule::power(steps, 2.0)?;
    annealed(problem, path, log_z, kernel, quadratic, chains)
}

fn annealed<P, K>(
    problem: &'static str,
    path: P,
    log_z: f64,
    kernel: K,
    schedule: Schedule,
    chains: usize,
) -> Anyhow<Cell>
where
    P: AnnealingPath<Base: NormalizedModel, State: Clone + Send> + Sync + 'static,
    K: for<'a> TransitionKernel<P::At<'a>> + Clone + Sync + 'static,
{
    let log_mean = log_z - path.base().log_normalizer();
    let setting = format!("K = {}", schedule.steps());
    let draw = move |seed| {
        let run = Ais::new(&path, kernel.clone())
            .schedule(schedule.clone())
            .chains(chains)
            .threads(1)
            .seed(seed)
            .run()?;
        Ok(run.log_weights().to_vec())
    };
    Ok(Cell {
        problem,
        setting,
        chains,
        log_mean,
        draw: Box::new(draw),
    })
}

/// All seeds of a cell, on two threads.
fn run(cell: &Cell, seeds: u64) -> annealed::Result<Vec<Trial>> {
    let half = |seeds: std::ops::Range<u64>| seeds.map(|seed| trial(cell, seed)).collect();
    let (first, second): (annealed::Result<Vec<_>>, annealed::Result<Vec<_>>) =
        std::thread::scope(|scope| {
            let first = scope.spawn(|| half(0..seeds / 2));
            let second = half(seeds / 2..seeds);
            (first.join().expect("no panic in a trial"), second)
        });
    let mut trials = first?;
    trials.extend(second?);
    Ok(trials)
}

fn trial(cell: &Cell, seed: u64) -> annealed::Result<Trial> {
    let log_weights = (cell.draw)(seed)?;
    let estimate = Estimate::from_log_weights(&log_weights)?;
    let intervals: [Interval; METHODS.len()] = [
        delta(&estimate),
        percentile(&log_weights, &estimate),
        cox(&estimate),
        skewness_corrected(&log_weights, &estimate),
        estimate.interval(),
    ];
    Ok(Trial {
        ess_ratio: estimate.effective_sample_size() / cell.chains as f64,
        covers: intervals.map(|(low, high)| low <= cell.log_mean && cell.log_mean <= high),
        widths: intervals.map(|(low, high)| high - low),
        warned: !estimate.warnings().is_empty(),
    })
}

const Z: f64 = 1.959964;

fn delta(estimate: &Estimate) -> Interval {
    let half_width = Z * estimate.standard_error();
    (estimate.value() - half_width, estimate.value() + half_width)
}

/// Percentile bootstrap of the log mean weight.
fn percentile(log_weights: &[f64], estimate: &Estimate) -> Interval {
    const RESAMPLES: usize = 400;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let n = log_weights.len();
    let weights: Vec<f64> = log_weights
        .iter()
        .map(|x| (x - estimate.value()).exp())
        .collect();
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..n).map(|_| weights[rng.random_range(0..n)]).sum::<f64>() / n as f64)
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| estimate.value() + means[index].ln();
    (at(RESAMPLES / 40 - 1), at(RESAMPLES - RESAMPLES / 40))
}

/// Cox's interval for a log-normal mean (Zhou and Gao 1997).
fn cox(estimate: &Estimate) -> Interval {
    let (n, variance) = (estimate.chains() as f64, estimate.var_log_weight());
    let centre = estimate.mean_log_weight() + 0.5 * variance;
    let half_width = Z * (variance / n + variance * variance / (2.0 * (n - 1.0))).sqrt();
    (centre - half_width, centre + half_width)
}

/// Hall's (1992) skewness-corrected interval for the mean weight, below by the delta method.
fn skewness_corrected(log_weights: &[f64], estimate: &Estimate) -> Interval {
    let n = log_weights.len() as f64;
    let centred = log_weights.iter().map(|x| (x - estimate.value()).exp_m1());
    let (square, cube) = centred.fold((0.0, 0.0), |(s, c), x| (s + x * x, c + x * x * x));
    let a = (cube / n) / (square / n).powf(1.5) / (3.0 * n.sqrt());
    let above = (1.0 - (1.0 - 3.0 * a * (Z + 0.5 * a)).cbrt()) / a;
    let (low, _) = delta(estimate);
    (
        low,
        estimate.value() + (above * estimate.standard_error()).ln_1p(),
    )
}

fn header(first: &str) {
    println!(
        "| {first} | ESS/N | runs with ESS/N > .05 | {} | width / delta's | warned | misses warned \
         | other runs: {} | misses warned |",
        METHODS.join(" | "),
        METHODS[CHOSEN]
    );
    println!("|---|{}", "--:|".repeat(METHODS.len() + 7));
}

/// Coverage where ESS/N > .05, then what happens in the remaining runs.
fn row(name: &str, trials: &[Trial]) {
    if trials.is_empty() {
        return;
    }
    let (good, poor): (Vec<&Trial>, Vec<&Trial>) = trials.iter().partition(|t| t.ess_ratio > 0.05);
    let coverage = METHODS
        .iter()
        .enumerate()
        .map(|(m, _)| share(&good, |t| t.covers[m]));
    let width = |m: usize| good.iter().map(|t| t.widths[m]).sum::<f64>();
    let relative_width = match good.len() {
        0 => "-".to_owned(),
        _ => format!("{:.2}", width(CHOSEN) / width(0)),
    };
    println!(
        "| {name} | {:.3} | {} | {} | {relative_width} | {} | {} | {} | {} |",
        median(trials.iter().map(|t| t.ess_ratio)),
        good.len(),
        coverage.collect::<Vec<_>>().join(" | "),
        share(&good, |t| t.warned),
        misses_warned(&good),
        share(&poor, |t| t.covers[CHOSEN]),
        misses_warned(&poor),
    );
}

fn misses_warned(trials: &[&Trial]) -> String {
    let missed: Vec<&Trial> = trials
        .iter()
        .copied()
        .filter(|t| !t.covers[CHOSEN])
        .collect();
    match missed.len() {
        0 => "-".to_owned(),
        n => format!("{} of {n}", missed.iter().filter(|t| t.warned).count()),
    }
}

fn share(trials: &[&Trial], holds: impl Fn(&Trial) -> bool) -> String {
    match trials.len() {
        0 => "-".to_owned(),
        n => format!(
            "{:.3}",
            trials.iter().filter(|t| holds(t)).count() as f64 / n as f64
        ),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
