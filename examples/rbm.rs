//! The log partition function of a restricted Boltzmann machine, with an interval.
//!
//! With no arguments: trains an RBM with 20 hidden units on embedded handwritten digits,
//! enumerates its exact log Z, estimates it by annealed importance sampling, and scores held-out
//! digits.
//!
//! ```text
//! cargo run --release --features full --example rbm
//! cargo run --release --features full --example rbm -- \
//!     --weights rbm.npz --base data-rate --chains 1000 --steps 10000 --json
//! cargo run --release --features full --example rbm -- \
//!     --weights rbm.npz --schedule friction --save-schedule betas.txt
//! ```

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use annealed::ais::{Ais, Run};
use annealed::model::{NormalizedModel, UnnormalizedModel};
use annealed::path::Engine;
use annealed::pilot::{
    BinnedSchedule, ConstantConditionalEss, Friction, KnotChains, Pilot, ScheduleOptimizer, VarOpt,
};
use annealed::rbm::{
    BaseRate, BlockGibbs, ContrastiveDivergence, ExactMatching, IdxArray, MAX_ENUMERATED_UNITS,
    MomentChains, PersistentMatching, Rbm, RbmFile, RbmPath,
};
use annealed::schedule::Schedule;
use annealed::{Error, Result, data};
use clap::{Parser, ValueEnum};

/// Estimate the log partition function of an RBM.
#[derive(Debug, Parser)]
struct Options {
    /// RBM to score: a NumPy .npz file with W (M, D), a (M), b (D) and optionally b_base (D);
    /// without it an RBM is trained on the embedded 8 x 8 digits
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Where chains start: the file's b_base (or the training data's base rates), or fair coins
    #[arg(long, value_enum, default_value = "data-rate")]
    base: Base,
    /// The path from the base: mixed energies, or a spline through averaged moments at nine inner
    /// knots
    #[arg(long, value_enum, default_value = "geometric")]
    path: PathKind,
    /// How the knots of a spline are found; exact up to 20 units in the smaller layer unless set,
    /// by chains beyond
    #[arg(long, value_enum)]
    matching: Option<Matching>,
    /// How the stages are placed
    #[arg(long, value_enum, default_value = "linear")]
    schedule: ScheduleKind,
    /// Bound on the schedule's speed K (beta_k - beta_{k-1}), at least 1
    #[arg(long)]
    speed_limit: Option<f64>,
    /// Number of chains of the pilot run by which a schedule is chosen
    #[arg(long, default_value_t = 100)]
    pilot_chains: usize,
    /// Number of steps of the pilot; for binned, of updates at all knots together
    #[arg(long, default_value_t = 1_000)]
    pilot_steps: usize,
    /// Number of pilots, each after the first on the schedule that the one before led to
    #[arg(long, default_value_t = 1)]
    pilot_rounds: usize,
    /// Write the schedule to a file, one beta a line
    #[arg(long)]
    save_schedule: Option<PathBuf>,
    /// Take the schedule from a file instead of choosing one; it fixes the number of stages
    #[arg(long, conflicts_with_all = ["schedule", "steps"])]
    load_schedule: Option<PathBuf>,
    /// Number of chains N
    #[arg(long, default_value_t = 1_000)]
    chains: usize,
    /// Number of stages K
    #[arg(long, default_value_t = 10_000)]
    steps: usize,
    /// Seed; one seed gives the same figures for any number of threads
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of chains that move together: more are faster, fewer give work to more threads
    #[arg(long, default_value_t = 128)]
    block_size: usize,
    /// Number of threads; all cores unless set
    #[arg(long)]
    threads: Option<usize>,

    /// Instructions of the inner loops: portable, avx2, avx512 or amx; the best ones of this machine
    /// unless set
    #[arg(long)]
    engine: Option<Engine>,
    /// Images to score besides, an uncompressed IDX file (MNIST's format); ink from grey 128 on
    #[arg(long)]
    data: Option<PathBuf>,
    /// Enumerate the exact log Z (up to 25 units in the smaller layer)
    #[arg(long)]
    exact: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Base {
    DataRate,
    Uniform,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum PathKind {
    Geometric,
    MomentSpline,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Matching {
    /// Moments and gradients by enumeration: minutes at 20 x 784 units
    Exact,
    /// Moments from 200 chains of 1,000 sweeps, and 5,000 updates of 100 persistent chains a knot
    Chains,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScheduleKind {
    Linear,
    /// Salakhutdinov and Murray (2008)
    Sm08,
    /// VAROPT (Kiwaki 2015), from a pilot run
    Varopt,
    /// Ten segments (Grosse, Maddison and Salakhutdinov 2013), from chains at their ends
    Binned,
    /// By the growth of the variance of log w along a pilot run
    Friction,
    /// Constant conditional effective sample size (Zhou, Johansen and Aston 2016)
    Cess,
}

impl Options {
    /// The schedule that the options ask for.
    fn schedule(&self, path: &RbmPath) -> Result<Schedule> {
        let mut schedule = match &self.load_schedule {
            Some(file) => Schedule::load(file)?,
            None => self.choose(path)?,
        };
        if let Some(limit) = self.speed_limit {
            schedule = schedule.with_speed_limit(limit)?;
        }
        if let Some(file) = &self.save_schedule {
            schedule.save(file)?;
        }
        Ok(schedule)
    }

    fn choose(&self, path: &RbmPath) -> Result<Schedule> {
        let mut pilot = Pilot::new(self.pilot_chains, self.pilot_steps).rounds(self.pilot_rounds);
        if let Some(threads) = self.threads {
            pilot = pilot.threads(threads);
        }
        let optimizer: &dyn ScheduleOptimizer<RbmPath, BlockGibbs> = match self.schedule {
            ScheduleKind::Linear => return Schedule::linear(self.steps),
            ScheduleKind::Sm08 => return Schedule::salakhutdinov_murray(self.steps),
            ScheduleKind::Varopt => &VarOpt::default().pilot(pilot),
            ScheduleKind::Binned => {
                let updates = self.pilot_steps / 11;
                &BinnedSchedule::new(Schedule::linear(10)?).chains(KnotChains {
                    chains: self.pilot_chains,
                    updates,
                    burn_in: updates / 2,
                    thinning: 10,
                })
            }
            ScheduleKind::Friction => &Friction::default().pilot(pilot),
            ScheduleKind::Cess => {
                // A stage is found by about five evaluations, in about three passes.
                let coarse = Pilot::new(self.pilot_chains, self.pilot_steps.div_ceil(5));
                &ConstantConditionalEss::default().pilot(coarse)
            }
        };
        let found = optimizer.optimize(path, &BlockGibbs, self.steps, self.seed)?;
        for warning in &found.warnings {
            eprintln!("schedule: {warning}");
        }
        Ok(found.schedule)
    }
}

/// An RBM, where to start from, and what is known of it.
struct Problem {
    rbm: Rbm,
    base: BaseRate,
    log_z_exact: Option<f64>,
    held_out: Vec<Vec<bool>>,
    /// How the RBM came about.
    note: String,
}

fn main() -> ExitCode {
    match score(&Options::parse()) {
        Ok(report) => {
            // A reader that has seen enough, as `head`, is no failure.
            let _ = std::io::stdout().write_all(report.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what the options ask for, and says what came of it.
fn score(options: &Options) -> Result<String> {
    let mut problem = match &options.weights {
        Some(path) => read(path, options)?,
        None => train(options)?,
    };
    if let Some(file) = &options.data {
        problem.held_out = images(file, problem.rbm.visible_units())?;
    }
    let begun = Instant::now();
    let mut path = anneal_along(options, &problem)?;
    if let Some(engine) = options.engine {
        path = path.with_engine(engine)?;
    }
    let schedule = options.schedule(&path)?;
    let pilot_seconds = begun.elapsed().as_secs_f64();
    let mut ais = Ais::new(&path, BlockGibbs)
        .schedule(schedule)
        .chains(options.chains)
        .seed(options.seed)
        .block_size(options.block_size);
    if let Some(threads) = options.threads {
        ais = ais.threads(threads);
    }
    if !options.json {
        ais = ais.progress_bar();
    }
    let run = ais.run()?;
    if options.json {
        return Ok(json(&run, &problem, pilot_seconds).to_string() + "\n");
    }
    Ok(report(&run, &problem, pilot_seconds))
}

fn anneal_along(options: &Options, problem: &Problem) -> Result<RbmPath> {
    let (base, rbm) = (problem.base.clone(), problem.rbm.clone());
    if options.path == PathKind::Geometric {
        return RbmPath::new(base, rbm);
    }
    let knots = Schedule::linear(10)?;
    let smaller = rbm.hidden_units().min(rbm.visible_units());
    let default = match smaller {
        0..=20 => Matching::Exact,
        _ => Matching::Chains,
    };
    match options.matching.unwrap_or(default) {
        Matching::Exact => {
            let moments = rbm.exact_moments()?;
            RbmPath::moment_spline(base, rbm, &moments, knots, &ExactMatching::default())
        }
        Matching::Chains => {
            let chains = MomentChains::full().chains(200).sweeps(1_000).burn_in(300);
            let moments = chains.seed(options.seed).moments(&rbm)?;
            let matching = PersistentMatching::full().updates(5_000).seed(options.seed);
            RbmPath::moment_spline(base, rbm, &moments, knots, &matching)
        }
    }
}

/// The images of an IDX file, for an RBM of that many visible units.
fn images(file: &Path, visible_units: usize) -> Result<Vec<Vec<bool>>> {
    let images = IdxArray::read(file)?.binarize(128);
    match images.first() {
        Some(image) if image.len() == visible_units => Ok(images),
        other => {
            let pixels = other.map_or(0, Vec::len);
            let reason = format!(
                "has images of {pixels} pixels, expected {visible_units}, the visible units of the RBM"
            );
            Err(Error::file(file, reason))
        }
    }
}

/// Reads the RBM of a file.
fn read(path: &PathBuf, options: &Options) -> Result<Problem> {
    let file = RbmFile::read(path)?;
    let (hidden, visible) = (file.rbm.hidden_units(), file.rbm.visible_units());
    let base = match (options.base, file.base) {
        (Base::Uniform, _) => BaseRate::uniform(hidden, visible)?,
        (Base::DataRate, Some(base)) => base,
        (Base::DataRate, None) => {
            let reason = "has no b_base, which --base data-rate starts from; expected the key \
                          b_base (D), or --base uniform";
            return Err(Error::file(path, reason));
        }
    };
    let log_z_exact = if options.exact {
        enumerate(&file.rbm)?
    } else {
        file.log_z_exact
    };
    Ok(Problem {
        rbm: file.rbm,
        base,
        log_z_exact,
        held_out: Vec::new(),
        note: String::new(),
    })
}

/// The exact log Z, or `None` where no layer is small enough.
fn enumerate(rbm: &Rbm) -> Result<Option<f64>> {
    let smaller = rbm.hidden_units().min(rbm.visible_units());
    if smaller > MAX_ENUMERATED_UNITS {
        eprintln!("{smaller} units in the smaller layer are too many to enumerate");
        return Ok(None);
    }
    rbm.exact_log_normalizer().map(Some)
}

/// Trains an RBM on four fifths of the digits and enumerates it.
fn train(options: &Options) -> Result<Problem> {
    let digits = data::digits().images;
    let (held_out, training): (Vec<_>, Vec<_>) = digits
        .into_iter()
        .enumerate()
        .partition(|(index, _)| index % 5 == 0);
    let images = |rows: Vec<(usize, Vec<bool>)>| -> Vec<Vec<bool>> {
        rows.into_iter().map(|(_, image)| image).collect()
    };
    let (held_out, training) = (images(held_out), images(training));

    let begun = Instant::now();
    let start = Rbm::from_data(20, &training, options.seed)?;
    let trained = ContrastiveDivergence::new(1)
        .persistent(true)
        .epochs(200)
        .learning_rate(0.05, 0.0)
        .seed(options.seed)
        .train(start, &training)?;
    let note = format!(
        "trained an RBM, 64 visible and 20 hidden units, on {} handwritten digits in {:.1} s\n",
        training.len(),
        begun.elapsed().as_secs_f64()
    );
    let base = match options.base {
        Base::DataRate => BaseRate::from_data(20, &training, 1.0)?,
        Base::Uniform => BaseRate::uniform(20, 64)?,
    };
    Ok(Problem {
        log_z_exact: enumerate(&trained.rbm)?,
        rbm: trained.rbm,
        base,
        held_out,
        note,
    })
}

/// `seconds` includes the schedule's pilot and the path's moment matching.
fn json(run: &Run<Vec<bool>>, problem: &Problem, pilot_seconds: f64) -> serde_json::Value {
    let (lower, upper) = run.interval();
    let warnings: Vec<String> = run.warnings().iter().map(ToString::to_string).collect();
    let mut json = serde_json::json!({
        "log_z": run.log_z(),
        "standard_error": run.standard_error(),
        "interval": [lower, upper],
        "ess": run.effective_sample_size(),
        "mean_log_weight": run.estimate().mean_log_weight(),
        "var_log_weight": run.estimate().var_log_weight(),
        "log_z_exact": problem.log_z_exact,
        "engine": run.engine().map(|engine| engine.to_string()),
        "seconds": pilot_seconds + run.seconds(),
        "chain_steps_per_second": run.chain_steps_per_second(),
        "warnings": warnings,
    });
    if !problem.held_out.is_empty() {
        json["log_likelihood"] = (mean_log_density(problem) - run.log_z()).into();
    }
    json
}

fn report(run: &Run<Vec<bool>>, problem: &Problem, pilot_seconds: f64) -> String {
    let mut lines = vec![format!("{}{run}", problem.note)];
    if let Some(exact) = problem.log_z_exact {
        let error = run.log_z() - exact;
        lines.push(format!("exact log Z = {exact:.3}, error {error:+.3}"));
    }
    if let Some(thermodynamic) = run.thermodynamic_log_z() {
        lines.push(format!("thermodynamic integration: {thermodynamic:.3}"));
    }
    if !problem.held_out.is_empty() {
        let log_likelihood = |log_z: f64| mean_log_density(problem) - log_z;
        let (lower, upper) = run.interval();
        lines.push(format!(
            "log likelihood of {} held-out images: {:.3} nats an image (95% interval {:.3} to \
             {:.3}); under the base-rate model {:.3}",
            problem.held_out.len(),
            log_likelihood(run.log_z()),
            log_likelihood(upper),
            log_likelihood(lower),
            base_log_likelihood(problem),
        ));
    }
    lines.push(format!(
        "{} chains of {} stages in {:.1} s ({:.1} s for path and schedule), {:.3e} chain-steps a \
         second ({})\n",
        run.chains(),
        run.schedule().steps(),
        pilot_seconds + run.seconds(),
        pilot_seconds,
        run.chain_steps_per_second(),
        run.engine()
            .map_or("generic".to_string(), |engine| engine.to_string()),
    ));
    lines.join("\n")
}

fn mean_log_density(problem: &Problem) -> f64 {
    mean_over(&problem.held_out, |image| problem.rbm.log_density(image))
}

fn base_log_likelihood(problem: &Problem) -> f64 {
    let base = &problem.base;
    mean_over(&problem.held_out, |image| base.log_density(image)) - base.log_normalizer()
}

fn mean_over(images: &[Vec<bool>], f: impl Fn(&Vec<bool>) -> f64) -> f64 {
    images.iter().map(f).sum::<f64>() / images.len() as f64
}
