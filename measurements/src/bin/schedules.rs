//! Schedules compared on targets with a known log Z, by the root mean square error over seeds. The number of
//! chain-steps is equal and includes the pilot's.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin schedules -- --target mixture
//! cargo run --release -p annealed-measurements --bin schedules -- \
//!     --weights tests/data/rbm20_pcd.npz --chains 1000 --steps 10000 --seeds 5
//! ```

use std::path::PathBuf;
use std::time::Instant;

use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, Execution};
use annealed::estimate::LogZ;
use annealed::kernel::{Hmc, RandomWalkMetropolis, TransitionKernel};
use annealed::model::{
    FunctionModel, Gaussian, GaussianMixture, NormalizedModel, UnnormalizedModel,
};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath, TemperedPath};
use annealed::pilot::{BinnedSchedule, Friction, Pilot, ScheduleOptimizer, VarOpt};
use annealed::rand::RngExt;
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, RbmPath};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use annealed_files::RbmFile;
use clap::{Parser, ValueEnum};
use nalgebra::{DMatrix, DVector, dvector};

/// Compare schedules on a target with a known log Z.
#[derive(Debug, Parser)]
struct Options {
    /// Target to anneal to
    #[arg(long, value_enum, default_value = "rbm")]
    target: Target,
    /// For an RBM: a NumPy .npz file with W, a, b and b_base
    #[arg(long, default_value = "tests/data/rbm20_pcd.npz")]
    weights: PathBuf,
    /// For an RBM: start from fair coins instead of the base rates
    #[arg(long)]
    uniform: bool,
    /// Number of chains N
    #[arg(long, default_value_t = 200)]
    chains: usize,
    /// Number of stages K of a schedule that needs no pilot; the others get less
    #[arg(long, default_value_t = 5_000)]
    steps: usize,
    /// Number of seeds
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// First seed; tune on some seeds and report on others
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Chains of the pilots of VAROPT and friction
    #[arg(long, default_value_t = 100)]
    pilot_chains: usize,
    /// Steps of the pilots of VAROPT and friction
    #[arg(long, default_value_t = 1_000)]
    pilot_steps: usize,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Schedules; all unless set
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Method>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Target {
    /// A restricted Boltzmann machine, block Gibbs
    Rbm,
    /// Gaussians in 10 dimensions, precision ratio 1000, random walk
    Gaussian,
    /// Two modes in 5 dimensions, Hamiltonian Monte Carlo
    Mixture,
    /// The evidence of a linear regression, Hamiltonian Monte Carlo
    Regression,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Method {
    Linear,
    Sm08,
    Varopt,
    Binned,
    Friction,
    VaroptThrice,
    FrictionThrice,
}

impl Method {
    /// Returns the number of chain-steps that the choice of a schedule costs.
    fn pilot_cost(self, pilot: Pilot) -> usize {
        match self {
            Self::Linear | Self::Sm08 => 0,
            Self::Varopt | Self::Friction => pilot.chains() * pilot.stages(),
            Self::Binned => 110_000,
            Self::VaroptThrice | Self::FrictionThrice => 3 * pilot.chains() * pilot.stages(),
        }
    }

    fn choose<P, K>(
        self,
        path: P,
        kernel: &K,
        (pilot, by): (Pilot, &Execution<'_>),
        steps: usize,
        seed: u64,
    ) -> Result<Schedule>
    where
        P: AnnealingPath<At: Send + Sync> + Send + Sync,
        P::State: Send,
        K: TransitionKernel<P::At> + Sync,
    {
        let optimizer: &dyn ScheduleOptimizer<P, K> = match self {
            Self::Linear => return Schedule::linear(steps),
            Self::Sm08 => return Schedule::salakhutdinov_murray(steps),
            Self::Varopt => &VarOpt::default().pilot(pilot),
            Self::Binned => &BinnedSchedule::new(Schedule::linear(10)?),
            Self::Friction => &Friction::default().pilot(pilot),
            Self::VaroptThrice => &VarOpt::default().pilot(pilot.rounds(3)),
            Self::FrictionThrice => &Friction::default().pilot(pilot.rounds(3)),
        };
        Ok(optimizer
            .optimize_by(path, kernel, steps, seed, by)?
            .schedule)
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    match options.target {
        Target::Rbm => rbm(&options),
        Target::Gaussian => gaussian(&options),
        Target::Mixture => mixture(&options),
        Target::Regression => regression(&options),
    }
}

fn rbm(options: &Options) -> Result<()> {
    let file: RbmFile = RbmFile::read(&options.weights)?;
    let exact = match file.log_z_exact {
        Some(log_z) => log_z,
        None => file.rbm.exact_log_normalizer()?,
    };
    let base = match file.base {
        Some(base) if !options.uniform => base,
        _ => BaseRate::uniform(file.rbm.hidden_units(), file.rbm.visible_units())?,
    };
    table(options, &RbmPath::new(base, file.rbm)?, &BlockGibbs, exact)
}

fn gaussian(options: &Options) -> Result<()> {
    let base = Gaussian::standard(10)?;
    let target = Gaussian::isotropic(DVector::from_element(10, 0.5), 1000f64.sqrt().recip())?;
    let exact = target.log_normalizer();
    let path = GaussianPath::new(base, target)?;
    let pass = FirstPass::new(&path, RandomWalkMetropolis::new(0.5)?);
    let kernel = pass.seed(1).run()?.kernel;
    table(options, &path, &kernel, exact)
}

fn mixture(options: &Options) -> Result<()> {
    let mode = |at: f64, scale| Gaussian::isotropic(DVector::from_element(5, at), scale);
    let target = GaussianMixture::new([(0.3, mode(1.5, 0.4)?), (0.7, mode(-1.0, 0.6)?)])?;
    let exact = target.log_normalizer();
    let path = GeometricPath::new(mode(0.0, 2.0)?, target);
    table(options, &path, &Hmc::new(0.25, 3)?, exact)
}

/// Compares on 50 noisy values of a cubic; the prior is a thousand times as wide as the posterior.
fn regression(options: &Options) -> Result<()> {
    const NOISE: f64 = 0.02;
    let at = |i: usize| i as f64 / 25.0 - 1.0;
    let x = DMatrix::from_fn(50, 4, |i, j| at(i).powi(j as i32));
    // Residuals from a fixed irregular sequence.
    let y = &x * dvector![0.4, -0.9, 0.3, 1.1]
        + DVector::from_fn(50, |i, _| NOISE * 1.4 * (17.0 * (i * i) as f64).sin());
    let marginal = &x * x.transpose() + DMatrix::identity(50, 50) * (NOISE * NOISE);
    let evidence = Gaussian::new(DVector::zeros(50), marginal)?;
    let exact = evidence.log_density(&y) - evidence.log_normalizer();
    let constant = -25.0 * (2.0 * std::f64::consts::PI * NOISE * NOISE).ln();
    let residuals = |w: &DVector<f64>| (&y - &x * w) / (NOISE * NOISE);
    let likelihood = FunctionModel::new(|w: &DVector<f64>| {
        constant - 0.5 * NOISE * NOISE * residuals(w).norm_squared()
    })
    .with_gradient(|w: &DVector<f64>| x.tr_mul(&residuals(w)));
    let path = TemperedPath::new(Gaussian::standard(4)?, likelihood);
    let pass = FirstPass::new(&path, Hmc::new(0.5, 3)?);
    let kernel = pass.seed(1).run()?.kernel;
    table(options, &path, &kernel, exact)
}

/// Prints a line for each schedule, then compares friction with each other schedule.
fn table<P, K>(options: &Options, path: P, kernel: &K, exact: f64) -> Result<()>
where
    P: AnnealingPath<At: Send + Sync> + Send + Sync,
    P::Base: NormalizedModel,
    P::State: Send,
    K: TransitionKernel<P::At> + Sync,
{
    println!("schedule         RMSE (se)        bias   ESS/N (sd)     Var log w  seconds");
    let methods = match &options.only[..] {
        [] => Method::value_variants(),
        chosen => chosen,
    };
    let mut rows = Vec::new();
    for &method in methods {
        let row = Row::run(options, &path, kernel, exact, method)?;
        println!("{row}");
        rows.push(row);
    }
    if let Some(friction) = rows.iter().find(|row| row.method == Method::Friction) {
        for other in rows.iter().filter(|row| row.method != Method::Friction) {
            friction.compare(other);
        }
    }
    Ok(())
}

struct Row {
    method: Method,
    /// Errors of log Z. `None` if the pilot led to no schedule.
    errors: Vec<Option<f64>>,
    shares: Vec<f64>,
    variances: Vec<f64>,
    seconds: f64,
}

impl Row {
    fn run<P, K>(options: &Options, path: P, kernel: &K, exact: f64, method: Method) -> Result<Self>
    where
        P: AnnealingPath<At: Send + Sync> + Send + Sync,
        P::Base: NormalizedModel,
        P::State: Send,
        K: TransitionKernel<P::At> + Sync,
    {
        let begun = Instant::now();
        let pilot = Pilot::new(options.pilot_chains, options.pilot_steps);
        let by = Execution::new().threads(options.threads);
        let steps = options
            .steps
            .saturating_sub(method.pilot_cost(pilot) / options.chains);
        let mut row = Self {
            method,
            errors: Vec::new(),
            shares: Vec::new(),
            variances: Vec::new(),
            seconds: 0.0,
        };
        for seed in options.first_seed..options.first_seed.saturating_add(options.seeds) {
            let schedule = match method.choose(&path, kernel, (pilot, &by), steps, seed) {
                Err(error @ (Error::PilotCollapsed { .. } | Error::NotConverged { .. })) => {
                    println!("{method:?}, seed {seed}: {error}");
                    row.errors.push(None);
                    continue;
                }
                other => other?,
            };
            let run = Ais::new(&path, kernel)
                .schedule(schedule)
                .chains(options.chains)
                .threads(options.threads)
                .seed(seed)
                .run()?;
            row.errors.push(Some(run.log_z() - exact));
            row.shares
                .push(run.effective_sample_size() / options.chains as f64);
            row.variances.push(run.estimate().var_log_weight());
        }
        row.seconds = begun.elapsed().as_secs_f64();
        Ok(row)
    }

    /// Prints the log ratio of the root mean square errors, over the seeds for which both methods have a schedule.
    fn compare(&self, other: &Self) {
        let pairs = self.errors.iter().zip(&other.errors);
        let pairs: Vec<(f64, f64)> = pairs.filter_map(|(&a, &b)| a.zip(b)).collect();
        if pairs.len() < 2 {
            return;
        }
        let log_ratio = |pairs: &[(f64, f64)]| {
            let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            (root_mean_square(&ours) / root_mean_square(&theirs)).ln()
        };
        println!(
            "log RMSE, friction less {:?}: {:+.3} (se {:.3}, {} pairs)",
            other.method,
            log_ratio(&pairs),
            bootstrap(&pairs, log_ratio),
            pairs.len()
        );
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let errors: Vec<f64> = self.errors.iter().copied().flatten().collect();
        let share = mean(&self.shares);
        let spread: Vec<f64> = self.shares.iter().map(|x| x - share).collect();
        write!(
            f,
            "{:<14} {:>7.4} ({:.4}) {:>+8.4}  {share:.3} ({:.3})  {:>9.3}  {:>7.1}",
            format!("{:?}", self.method),
            root_mean_square(&errors),
            bootstrap(&errors, root_mean_square),
            mean(&errors),
            root_mean_square(&spread),
            mean(&self.variances),
            self.seconds
        )
    }
}

/// Returns the standard error of a figure, over a thousand bootstrap samples.
fn bootstrap<T: Copy>(values: &[T], figure: impl Fn(&[T]) -> f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let mut rng = stream(0, Purpose::RUN, 0);
    let mut resampled = || -> Vec<T> {
        let draw = |_: &T| values[rng.random_range(0..values.len())];
        values.iter().map(draw).collect()
    };
    let figures: Vec<f64> = (0..1_000).map(|_| figure(&resampled())).collect();
    let centre = mean(&figures);
    let deviations: Vec<f64> = figures.iter().map(|x| x - centre).collect();
    root_mean_square(&deviations)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
}
