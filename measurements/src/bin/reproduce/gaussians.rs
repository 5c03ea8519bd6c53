//! Section 5.1 of Grosse et al.: two Gaussians in the plane, the geometric path (GA) and the moment-averaged one (MA).

use std::path::Path;

use annealed::ais::{Ais, Run};
use annealed::estimate::LogZ;
use annealed::kernel::{CoordinateGibbs, PerfectTransitions, TransitionKernel};
use annealed::model::{ExponentialFamily, Gaussian, NormalizedModel, Sampleable};
use annealed::path::{AnnealingPath, GaussianPath, MomentPath};
use annealed::pilot::{BinnedSchedule, allocate_stages};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use annealed_measurements::scatter_sheet::ScatterSheet;
use annealed_plot::Chart;
use nalgebra::{DVector, dmatrix, dvector};
use rand::SeedableRng;

use crate::bootstrap::{Bootstrap, interval};
use crate::runs::SEGMENTS;

const CHAINS: usize = 1_000;

/// Numbers of stages of Figure 2: the paper's intermediate distributions, plus one.
const STAGES: [usize; 7] = [10, 26, 51, 101, 251, 501, 1_001];

/// Prints both tables, and draws Figures 1 and 2.
pub fn run(figures: &Path) -> Result<()> {
    let (base, target) = pair()?;
    println!(
        "cost F = {:.7} of GA and of MA",
        linear_cost(&base, &target)
    );
    let geometric = GaussianPath::new(base.clone(), target.clone())?;
    let moment = MomentPath::new(base, target.clone())?;
    println!(
        "\n| K = 26, linear, perfect transitions, 200,000 chains | E[log w] | Var[log w] |\n|---|---|---|"
    );
    log_weights("GA", &geometric)?;
    log_weights("MA", &moment)?;
    let (ga, ma) = (
        ends(
            |m| m.natural_parameters(),
            Gaussian::with_natural_parameters,
        )?,
        ends(|m| m.moments(), Gaussian::with_moments)?,
    );
    println!(
        "\n| schedule of 1,000 stages | stages of the ten segments | expected bias |\n|---|---|---|"
    );
    let (ga, ma) = (allocation("GA", &ga)?, allocation("MA", &ma)?);

    println!(
        "\n| | K | perfect: error [95%] (ESS) | Gibbs: error [95%] (ESS) |\n|---|---|---|---|"
    );
    let exact = target.log_normalizer();
    let lines = [
        ("GA linear", line("GA linear", &geometric, None, exact)?),
        (
            "GA optimal",
            line("GA optimal", &geometric, Some(&ga), exact)?,
        ),
        ("MA linear", line("MA linear", &moment, None, exact)?),
        ("MA optimal", line("MA optimal", &moment, Some(&ma), exact)?),
    ];
    draw(&lines, figures)?;
    samples(figures)
}

/// Returns half the symmetrised divergence, `F = (eta_b - eta_a) . (s_b - s_a) / 2`: the cost of both paths under a
/// linear schedule.
fn linear_cost<M: ExponentialFamily>(a: &M, b: &M) -> f64 {
    let natural = b.natural_parameters() - a.natural_parameters();
    0.5 * natural.dot(&(b.moments() - a.moments()))
}

fn pair() -> Result<(Gaussian, Gaussian)> {
    Ok((
        Gaussian::new(dvector![-10.0, 0.0], dmatrix![1.0, -0.85; -0.85, 1.0])?,
        Gaussian::new(dvector![10.0, 0.0], dmatrix![1.0, 0.85; 0.85, 1.0])?,
    ))
}

/// Returns the members at the ends of the segments of a path on which the coordinates `of` are linear.
fn ends(
    of: impl Fn(&Gaussian) -> DVector<f64>,
    with: impl Fn(&Gaussian, &DVector<f64>) -> Result<Gaussian>,
) -> Result<Vec<Gaussian>> {
    let (base, target) = pair()?;
    let knots = Schedule::linear(SEGMENTS)?;
    let at = |&beta: &f64| with(&base, &(of(&base) * (1.0 - beta) + of(&target) * beta));
    knots.betas().iter().map(at).collect()
}

/// Returns the costs of the segments between members, and prints how the stages are allocated.
fn allocation(name: &str, members: &[Gaussian]) -> Result<Vec<f64>> {
    let costs: Vec<f64> = members
        .windows(2)
        .map(|pair| linear_cost(&pair[0], &pair[1]))
        .collect();
    let stages = allocate_stages(&costs, 1_000)?;
    let bias: f64 = costs
        .iter()
        .zip(&stages)
        .map(|(cost, &k)| cost / k as f64)
        .sum();
    println!("| {name} | {stages:?} | {bias:.4} |");
    Ok(costs)
}

fn log_weights<P>(name: &str, path: P) -> Result<()>
where
    P: AnnealingPath<State = DVector<f64>, Base = Gaussian> + Send + Sync,
    PerfectTransitions: TransitionKernel<P::At>,
{
    let chains = 200_000;
    let run = Ais::new(path, PerfectTransitions)
        .schedule(Schedule::linear(26)?)
        .chains(chains)
        .run()?;
    let (mean, variance) = (
        run.estimate().mean_log_weight(),
        run.estimate().var_log_weight(),
    );
    // Standard errors. The second one assumes that log w is normal.
    let errors = [
        (variance / chains as f64).sqrt(),
        variance * (2.0 / chains as f64).sqrt(),
    ];
    println!(
        "| {name} | {mean:.2} +- {:.2} | {variance:.1} +- {:.1} |",
        errors[0], errors[1]
    );
    Ok(())
}

/// Number of stages, error of log Z^ and its bootstrap interval.
type Point = (f64, f64, (f64, f64));

/// Runs with perfect transitions and with Gibbs sampling at each number of stages.
fn line<P>(name: &str, path: P, costs: Option<&[f64]>, exact: f64) -> Result<[Vec<Point>; 2]>
where
    P: AnnealingPath<State = DVector<f64>, Base = Gaussian> + Send + Sync,
    PerfectTransitions: TransitionKernel<P::At>,
    CoordinateGibbs: TransitionKernel<P::At>,
{
    let mut points = [Vec::new(), Vec::new()];
    for steps in STAGES {
        let schedule = match costs {
            None => Schedule::linear(steps)?,
            Some(costs) => {
                BinnedSchedule::new(Schedule::linear(SEGMENTS)?).with_costs(costs, steps)?
            }
        };
        let perfect = Ais::new(&path, PerfectTransitions)
            .schedule(schedule.clone())
            .chains(CHAINS)
            .run()?;
        let gibbs = Ais::new(&path, CoordinateGibbs::systematic())
            .schedule(schedule)
            .chains(CHAINS)
            .run()?;
        let cells = [&perfect, &gibbs].map(|run| (point(run, exact), run.effective_sample_size()));
        let shown = cells.map(|((_, error, (low, high)), ess)| {
            format!("{error:+.2} [{low:+.2}, {high:+.2}] ({ess:.0})")
        });
        println!("| {name} | {steps} | {} | {} |", shown[0], shown[1]);
        for (points, (point, _)) in points.iter_mut().zip(cells) {
            points.push(point);
        }
    }
    Ok(points)
}

fn point<S>(run: &Run<S>, exact: f64) -> Point {
    let bootstrap = Bootstrap::new(run.log_weights(), run.log_z_ratio());
    let (low, high) = interval(&bootstrap.log_z);
    let shift = run.log_z() - run.log_z_ratio() - exact;
    (
        run.schedule().stages() as f64,
        run.log_z() - exact,
        (low + shift, high + shift),
    )
}

/// Draws Figure 2: log Z^ against the number of stages, with the middle 95% of bootstrap samples.
fn draw(lines: &[(&str, [Vec<Point>; 2])], figures: &Path) -> Result<()> {
    for (kernel, name) in ["perfect transitions", "Gibbs"].into_iter().enumerate() {
        let title = format!("Two Gaussians, {name}: log Ẑ - log Z");
        let mut chart = Chart::new(&title, "K", "nats").logarithmic_x();
        for (label, line) in lines {
            chart = chart.line_with_errors(label, line[kernel].iter().copied());
        }
        let stem = if kernel == 0 { "perfect" } else { "gibbs" };
        chart.save(figures.join(format!("grosse-gaussians-{stem}.svg")))?;
    }
    Ok(())
}

/// Draws Figure 1: samples of both paths' intermediate distributions.
fn samples(figures: &Path) -> Result<()> {
    let betas = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0];
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(0);
    let mut panel = |model: Gaussian| -> Vec<(f64, f64)> {
        let draws = (0..300).map(|_| model.sample(&mut rng));
        draws.map(|x| (x[0], x[1])).collect()
    };
    let (base, target) = pair()?;
    let mix = |of: &dyn Fn(&Gaussian) -> DVector<f64>, beta: f64| {
        of(&base) * (1.0 - beta) + of(&target) * beta
    };
    let mut rows = [Vec::new(), Vec::new()];
    for beta in betas {
        rows[0].push(panel(
            base.with_natural_parameters(&mix(&|m| m.natural_parameters(), beta))?,
        ));
        rows[1].push(panel(base.with_moments(&mix(&|m| m.moments(), beta))?));
    }
    let sheet = ScatterSheet::new((-15.0, 15.0), (-13.0, 6.0))
        .row(
            "geometric path, beta = 0, .1, .25, .5, .75, .9, 1",
            &rows[0],
        )
        .row("moment-averaged path", &rows[1]);
    let name = figures.join("grosse-gaussians-paths.svg");
    std::fs::write(&name, sheet.to_svg()).map_err(|error| Error::io(&name, error))
}
