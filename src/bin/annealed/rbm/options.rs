//! What the command line asks for.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use annealed::Result;
use annealed::ais::Execution;
use annealed::path::SimdLevel;
use annealed::pilot::{
    BinnedSchedule, ConstantConditionalEss, Friction, KnotChains, Pilot, ScheduleOptimizer, VarOpt,
};
use annealed::rbm::{BlockGibbs, DataLayout, RbmPath};
use annealed::schedule::Schedule;
use clap::{Args, ValueEnum};

use super::part::Part;
use super::rows::Source;
use crate::seconds::seconds;

/// Annealed importance sampling from a model of base rates to the RBM.
#[derive(Debug, Args)]
pub struct Options {
    /// RBM to score: a file of NumPy (.npz) or PyTorch (.safetensors) with W, a (hidden), b (visible), or
    /// scikit-learn's components_, intercept_hidden_, intercept_visible_; optionally b_base (D)
    #[arg(value_name = "RBM")]
    pub weights: PathBuf,
    /// Other names of the weights, hidden and visible biases in the file
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "W,A,B")]
    pub names: Vec<String>,
    /// Take weights of as many hidden as visible units as visible by hidden; others tell by their shape
    #[arg(long)]
    pub square_transposed: bool,
    /// Where chains start: the base that short pilots find best; the base rates of --base-data, or else the file's b_base,
    /// whatever pilots would say; or fair coins
    #[arg(long, value_enum, default_value = "auto")]
    pub base: Base,
    /// Write the base that --base auto found to a file
    #[arg(long, value_name = "FILE")]
    pub save_start: Option<PathBuf>,
    /// Start from the base of such a file instead of searching: parts of one run on several machines, for example
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base", "save_start"])]
    pub start: Option<PathBuf>,
    /// The path from the base: mixed energies, or a spline through averaged moments at nine inner
    /// knots
    #[arg(long, value_enum, default_value = "geometric")]
    pub path: PathKind,
    /// How the knots of a spline are found; exact up to 20 units in the smaller layer unless set,
    /// by chains beyond
    #[arg(long, value_enum)]
    pub matching: Option<Matching>,
    /// How the stages are placed
    #[arg(long, value_enum, default_value = "linear")]
    pub schedule: ScheduleKind,
    /// Bound on the schedule's speed K (beta_k - beta_{k-1}), at least 1
    #[arg(long)]
    pub speed_limit: Option<f64>,
    /// Number of chains of the pilot run by which a schedule is chosen
    #[arg(long, default_value_t = 100)]
    pub pilot_chains: usize,
    /// Number of stages of the pilot; for binned, of updates at all knots together
    #[arg(long, alias = "pilot-steps", default_value_t = 1_000)]
    pub pilot_stages: usize,
    /// Number of pilots, each after the first on the schedule that the one before led to
    #[arg(long, default_value_t = 1)]
    pub pilot_rounds: usize,
    /// Write the schedule to a file, one beta a line
    #[arg(long)]
    pub save_schedule: Option<PathBuf>,
    /// Take the schedule from a file instead of choosing one; it fixes the number of stages
    #[arg(long, conflicts_with_all = ["schedule", "stages"])]
    pub load_schedule: Option<PathBuf>,
    /// Number of chains N, or the most where --until-error or --time-limit may end the run before; 4096 unless set, with
    /// --extend as many as the run was to have
    #[arg(long)]
    pub chains: Option<usize>,
    /// End the run when its standard error is so small, in nats
    #[arg(long, value_name = "NATS", value_parser = nats)]
    pub until_error: Option<f64>,
    /// End the run after so much time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<Duration>,
    /// Write checkpoints to a file, and go on from it where it is there already: after an interruption give the same command
    /// again
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// How often a checkpoint is written; every 60 seconds unless set
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub checkpoint_every: Option<Duration>,
    /// As --checkpoint, but the file must be there; the other options must be those of the run that wrote it, but for
    /// threads, limits and a larger number of chains
    #[arg(long, value_name = "FILE", conflicts_with = "checkpoint")]
    pub resume: Option<PathBuf>,
    /// Share the chains with the other processes that mpirun has started (a build with the feature mpi)
    #[arg(long, conflicts_with_all = ["reverse", "raise"])]
    pub mpi: bool,
    /// Run one of N parts of the chains, I from 1 to N, and save it; `annealed merge` takes the parts together, and
    /// --extend RUN --data FILE then scores data by them
    #[arg(long, value_name = "I/N", requires = "save",
          conflicts_with_all = ["until_error", "checkpoint", "checkpoint_every", "resume", "mpi", "data", "exact",
                                "reverse", "raise", "report", "plot", "json"])]
    pub part: Option<Part>,
    /// Take saved runs or parts of this seed, and run only the chains that they lack; the other options must be
    /// those of the run that they are of, but for threads, limits and a larger number of chains
    #[arg(long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["part", "checkpoint", "checkpoint_every", "resume", "mpi"])]
    pub extend: Vec<PathBuf>,
    /// Save the run to a file, with its chains
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Draw the run to an SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write a report: as JSON to a file that ends in .json, else as a page of text
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Number of stages K
    #[arg(long, alias = "steps", default_value_t = 10_000)]
    pub stages: usize,
    /// Seed; one seed gives the same figures for any number of threads
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of chains that move together: more are faster, fewer give work to more threads
    #[arg(long, default_value_t = 128)]
    pub block_size: usize,
    /// Number of threads; all cores unless set
    #[arg(long)]
    pub threads: Option<usize>,
    /// Instructions of the inner loops: portable, avx2, avx512 or amx; the best ones of this machine
    /// unless set
    #[arg(long)]
    pub engine: Option<SimdLevel>,
    /// Data to score, held-out images for instance: .npy, .npz or IDX (MNIST's format), plain or .gz; FILE:ARRAY where a .npz file has
    /// several arrays
    #[arg(long, value_name = "FILE")]
    pub data: Option<Source>,
    /// Training data, whose base rates chains start from; as --data
    #[arg(long, value_name = "FILE")]
    pub base_data: Option<Source>,
    /// Units of data are on from this number; unless set the data decide
    #[arg(long)]
    pub threshold: Option<f64>,
    /// Draw the units of data by this seed, with their grey values as probabilities
    #[arg(long, value_name = "SEED", conflicts_with = "threshold")]
    pub draw: Option<u64>,
    /// Enumerate the exact log Z (up to 25 units in the smaller layer)
    #[arg(long)]
    pub exact: bool,
    /// Run backward, too, from N samples of the RBM: exact ones by enumeration, the forward chains'
    /// states resampled and moved on, or the `chains` of an .npz file
    #[arg(long, value_name = "exact|resampled|FILE")]
    pub reverse: Option<Reverse>,
    /// Score the data by RAISE, too, with so many reverse chains a row
    #[arg(long, value_name = "CHAINS")]
    pub raise: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum Base {
    /// The base that pilots find best, from base rates where they are known, fair coins, modes, and the model itself
    Auto,
    /// Base rates
    DataRate,
    /// Fair coins
    Uniform,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum PathKind {
    Geometric,
    MomentSpline,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum Matching {
    /// Moments and gradients by enumeration: minutes at 20 x 784 units
    Exact,
    /// Moments from 200 chains of 1,000 sweeps, and 5,000 updates of 100 persistent chains a knot
    Chains,
}

/// Where the samples of a reverse run come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Reverse {
    Exact,
    Resampled,
    File(PathBuf),
}

impl FromStr for Reverse {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "exact" => Self::Exact,
            "resampled" => Self::Resampled,
            file => Self::File(file.into()),
        })
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ScheduleKind {
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

fn nats(text: &str) -> Result<f64, String> {
    let nats = text.parse().ok();
    let positive = nats.filter(|nats: &f64| nats.is_finite() && *nats > 0.0);
    positive.ok_or_else(|| "expected a positive number".to_owned())
}

impl Options {
    /// How the numbers of data become zeros and ones.
    pub fn data_layout(&self) -> DataLayout {
        match (self.threshold, self.draw) {
            (_, Some(seed)) => DataLayout::default().drawn(seed),
            (Some(threshold), None) => DataLayout::default().threshold(threshold),
            (None, None) => DataLayout::default(),
        }
    }

    /// The number of stages of the run.
    pub fn number_of_stages(&self) -> Result<usize> {
        match &self.load_schedule {
            Some(file) => Ok(Schedule::load(file)?.stages()),
            None => Ok(self.stages),
        }
    }

    /// The schedule that the options ask for.
    pub fn schedule(&self, path: &RbmPath) -> Result<Schedule> {
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
        let pilot = Pilot::new(self.pilot_chains, self.pilot_stages).rounds(self.pilot_rounds);
        let optimizer: &dyn ScheduleOptimizer<RbmPath, BlockGibbs> = match self.schedule {
            ScheduleKind::Linear => return Schedule::linear(self.stages),
            ScheduleKind::Sm08 => return Schedule::salakhutdinov_murray(self.stages),
            ScheduleKind::Varopt => &VarOpt::default().pilot(pilot),
            ScheduleKind::Binned => {
                let updates = self.pilot_stages / 11;
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
                let coarse = Pilot::new(self.pilot_chains, self.pilot_stages.div_ceil(5));
                &ConstantConditionalEss::default().pilot(coarse)
            }
        };
        let (stages, seed) = (self.stages, self.seed);
        let mut by = Execution::new().threads(self.threads);
        if !self.json {
            by = by.progress_bar();
        }
        let found = optimizer.optimize_by(path, &BlockGibbs, stages, seed, &by)?;
        for warning in &found.warnings {
            eprintln!("schedule: {warning}");
        }
        Ok(found.schedule)
    }
}
