//! The options of `annealed rbm`.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use annealed::Result;
use annealed::ais::Execution;
use annealed::path::SimdLevel;
use annealed::pilot::{BinnedSchedule, Friction, KnotChains, Pilot, ScheduleOptimizer, VarOpt};
use annealed::rbm::{BlockGibbs, RbmPath};
use annealed::schedule::Schedule;
use annealed_files::DataLayout;
use clap::{Args, ValueEnum};

use super::part::Part;
use super::source::Source;

use crate::interrupt::Interrupt;
use crate::output;
use crate::seconds::seconds;

const AFTER: &str = "\
Units are 0 and 1. Convert a machine of spins of -1 and 1 first (see annealed manual).
The first Ctrl-C or SIGTERM ends the run with the finished chains (exit code 130 or 143), a second one ends it at once.
Example: annealed rbm rbm.npz --base-data train.npy --data test.npy --chains 1000 --plot run.svg
More: annealed manual";

/// Annealed importance sampling from a model of base rates to the RBM.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct Options {
    /// RBM to score: .npz (W, a hidden, b visible, or scikit-learn's names; optionally b_base) or .safetensors
    #[arg(help_heading = "Model", value_name = "RBM")]
    pub weights: PathBuf,
    /// Names of the weights, hidden and visible biases in the file
    #[arg(
        help_heading = "Model",
        long,
        value_delimiter = ',',
        num_args = 1,
        value_name = "W,A,B"
    )]
    pub names: Vec<String>,
    /// Score a deep Boltzmann machine with weights of these names, from the bottom to the top
    #[arg(
        help_heading = "Model",
        long,
        value_delimiter = ',',
        num_args = 1,
        value_name = "W1,W2,..",
        conflicts_with_all = ["names", "raise"]
    )]
    pub layers: Vec<String>,
    /// Names of the biases of --layers, those of the visible units first; by default b,a1,a2,..
    #[arg(
        help_heading = "Model",
        long,
        value_delimiter = ',',
        num_args = 1,
        value_name = "B,A1,A2,..",
        requires = "layers"
    )]
    pub biases: Vec<String>,
    /// Read square weights as visible by hidden, or with =false as hidden by visible; other shapes show it themselves
    #[arg(
        help_heading = "Model",
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub square_transposed: Option<bool>,
    /// Data to score: .npy, .npz or IDX, plain or .gz; FILE:ARRAY names an array
    #[arg(help_heading = "Data", long, value_name = "FILE")]
    pub data: Option<Source>,
    /// Training data, whose base rates chains start from
    #[arg(help_heading = "Data", long, value_name = "FILE")]
    pub base_data: Option<Source>,
    /// Units are on from this value; by default it follows from the data
    #[arg(
        help_heading = "Data",
        long,
        value_name = "VALUE",
        allow_negative_numbers = true
    )]
    pub threshold: Option<f64>,
    /// Draw units with their grey values as probabilities
    #[arg(
        help_heading = "Data",
        long,
        value_name = "SEED",
        conflicts_with = "threshold"
    )]
    pub draw: Option<u64>,
    /// Number of stages K
    #[arg(
        help_heading = "Run",
        long,
        value_name = "K",
        alias = "steps",
        default_value_t = 10_000
    )]
    pub stages: usize,
    /// Number of chains, or the largest number if --until-error or --time-limit is set; 4096 by default. The search for a start takes the time of up to 1024 chains, whatever N is
    #[arg(help_heading = "Run", long, value_name = "N")]
    pub chains: Option<usize>,
    /// Seed; the results are the same for any number of threads
    #[arg(help_heading = "Run", long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// End the run at this standard error; first looked at after 500 chains
    #[arg(help_heading = "Run", long, value_name = "NATS", value_parser = nats)]
    pub until_error: Option<f64>,
    /// End the run after this time
    #[arg(help_heading = "Run", long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<Duration>,
    /// Where chains start: auto searches by pilots and mixes all bases that found mass (with fewer --chains the search takes as long; if short pilots find a good base, it ends early); data-rate takes the rates of --base-data or of the file; uniform takes fair coins
    #[arg(
        help_heading = "Start",
        long,
        value_name = "BASE",
        value_enum,
        default_value = "auto"
    )]
    pub base: Base,
    /// Start from the base in this file, without a search
    #[arg(help_heading = "Start", long, value_name = "FILE", conflicts_with_all = ["base", "save_start"])]
    pub start: Option<PathBuf>,
    /// Save the base that --base auto found
    #[arg(help_heading = "Start", long, value_name = "FILE", value_parser = output::file)]
    pub save_start: Option<PathBuf>,
    /// Path from the base: mixed energies, or a spline through averaged moments
    #[arg(
        help_heading = "Path and schedule",
        long,
        value_enum,
        default_value = "geometric"
    )]
    pub path: PathKind,
    /// How the knots of a spline are found; by default exact up to 20 units in the smaller layer, chains above
    #[arg(help_heading = "Path and schedule", long, value_enum)]
    pub matching: Option<Matching>,
    /// How stages are placed: evenly, by Salakhutdinov and Murray, or by a pilot
    #[arg(
        help_heading = "Path and schedule",
        long,
        value_enum,
        default_value = "linear"
    )]
    pub schedule: ScheduleKind,
    /// Bound on the schedule's speed K (beta_k - beta_{k-1}), at least 1
    #[arg(help_heading = "Path and schedule", long, value_name = "SPEED")]
    pub speed_limit: Option<f64>,
    /// Read the schedule from a file
    #[arg(help_heading = "Path and schedule", long, value_name = "FILE", conflicts_with_all = ["schedule", "stages"])]
    pub load_schedule: Option<PathBuf>,
    /// Save the schedule, one beta a line
    #[arg(help_heading = "Path and schedule", long, value_name = "FILE", value_parser = output::file)]
    pub save_schedule: Option<PathBuf>,
    /// Number of chains of the pilot
    #[arg(
        help_heading = "Path and schedule",
        long,
        value_name = "N",
        default_value_t = 100
    )]
    pub pilot_chains: usize,
    /// Number of stages of the pilot; for binned, of updates at all knots together
    #[arg(
        help_heading = "Path and schedule",
        long,
        value_name = "K",
        alias = "pilot-steps",
        default_value_t = 1_000
    )]
    pub pilot_stages: usize,
    /// Number of pilots; each runs along the schedule that the one before found
    #[arg(
        help_heading = "Path and schedule",
        long,
        value_name = "N",
        default_value_t = 1
    )]
    pub pilot_rounds: usize,
    /// Enumerate log Z (up to 25 units in the smaller layer)
    #[arg(help_heading = "Checks", long)]
    pub exact: bool,
    /// Run backward, too, from exact samples, the forward chains' states, or the chains of an .npz file
    #[arg(help_heading = "Checks", long, value_name = "exact|resampled|FILE")]
    pub reverse: Option<Reverse>,
    /// Score the data by RAISE with this many reverse chains a row
    #[arg(help_heading = "Checks", long, value_name = "CHAINS")]
    pub raise: Option<usize>,
    /// Write checkpoints to this file, and continue from it if it exists
    #[arg(help_heading = "Files", long, value_name = "FILE", value_parser = output::file)]
    pub checkpoint: Option<PathBuf>,
    /// Time between checkpoints; 60 by default
    #[arg(help_heading = "Files", long, value_name = "SECONDS", value_parser = seconds)]
    pub checkpoint_every: Option<Duration>,
    /// The same as --checkpoint, but the file must exist
    #[arg(
        help_heading = "Files",
        long,
        value_name = "FILE",
        conflicts_with = "checkpoint"
    )]
    pub resume: Option<PathBuf>,
    /// Read saved runs or parts of this seed, and run the chains that they lack
    #[arg(help_heading = "Files", long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["part", "checkpoint", "checkpoint_every", "resume", "mpi"])]
    pub extend: Vec<PathBuf>,
    /// Save the run with its chains
    #[arg(help_heading = "Files", long, value_name = "FILE", value_parser = output::file)]
    pub save: Option<PathBuf>,
    /// Number of threads; by default all cores
    #[arg(help_heading = "Machine", long, value_name = "N")]
    pub threads: Option<usize>,
    /// Number of chains that move together
    #[arg(
        help_heading = "Machine",
        long,
        value_name = "N",
        default_value_t = 128
    )]
    pub block_size: usize,
    /// Instructions of the inner loops: portable, neon, avx2 or avx512; by default the best
    #[arg(help_heading = "Machine", long, value_name = "NAME")]
    pub engine: Option<SimdLevel>,
    /// Share the chains with the processes that mpirun has started
    #[arg(help_heading = "Machine", long, conflicts_with_all = ["reverse", "raise"])]
    pub mpi: bool,
    /// Run part I of N and save it, for `annealed merge`
    #[arg(help_heading = "Machine", long, value_name = "I/N", requires = "save",
          conflicts_with_all = ["until_error", "checkpoint", "checkpoint_every", "resume", "mpi", "data", "exact",
                                "reverse", "raise", "report", "plot", "json"])]
    pub part: Option<Part>,
    /// Draw the run as SVG
    #[arg(help_heading = "Output", long, value_name = "FILE", value_parser = output::picture)]
    pub plot: Option<PathBuf>,
    /// Write a report: JSON if the name ends in .json, otherwise text
    #[arg(help_heading = "Output", long, value_name = "FILE", value_parser = output::report)]
    pub report: Option<PathBuf>,
    /// Write the log likelihood of each row of --data, for `annealed scores`
    #[arg(help_heading = "Output", long, value_name = "FILE", value_parser = output::file, requires = "data",
          conflicts_with = "layers")]
    pub scores: Option<PathBuf>,
    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum Base {
    Auto,
    DataRate,
    Uniform,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum PathKind {
    Geometric,
    MomentSpline,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum Matching {
    Exact,
    Chains,
}

/// The source of the samples for a reverse run.
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
    Sm08,
    Varopt,
    Binned,
    Friction,
}

fn nats(text: &str) -> Result<f64, String> {
    let nats = text.parse().ok();
    let positive = nats.filter(|nats: &f64| nats.is_finite() && *nats > 0.0);
    positive.ok_or_else(|| "expected a positive number".to_owned())
}

impl Options {
    /// Returns the file of the checkpoints, if there is one.
    pub fn checkpoint_file(&self) -> Option<&Path> {
        self.checkpoint.as_deref().or(self.resume.as_deref())
    }

    /// Returns the settings by which numbers of data become zeros and ones.
    pub fn data_layout(&self) -> DataLayout {
        match (self.threshold, self.draw) {
            (_, Some(seed)) => DataLayout::default().drawn(seed),
            (Some(threshold), None) => DataLayout::default().threshold(threshold),
            (None, None) => DataLayout::default(),
        }
    }

    /// Returns the number of stages of the run.
    pub fn number_of_stages(&self) -> Result<usize> {
        match &self.load_schedule {
            Some(file) => Ok(Schedule::load(file)?.stages()),
            None => Ok(self.stages),
        }
    }

    /// Returns the schedule that the options request.
    pub fn schedule(&self, path: &RbmPath, interrupt: &Interrupt) -> Result<Schedule> {
        let mut schedule = match &self.load_schedule {
            Some(file) => Schedule::load(file)?,
            None => self.choose(path, interrupt)?,
        };
        if let Some(limit) = self.speed_limit {
            schedule = schedule.with_speed_limit(limit)?;
        }
        if let Some(file) = &self.save_schedule {
            schedule.save(file)?;
        }
        Ok(schedule)
    }

    fn choose(&self, path: &RbmPath, interrupt: &Interrupt) -> Result<Schedule> {
        let pilot = Pilot::new(self.pilot_chains, self.pilot_stages).rounds(self.pilot_rounds);
        let optimizer: &dyn ScheduleOptimizer<&RbmPath, BlockGibbs> = match self.schedule {
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
                    ..KnotChains::default()
                })
            }
            ScheduleKind::Friction => &Friction::default().pilot(pilot),
        };
        let (stages, seed) = (self.stages, self.seed);
        let mut by = Execution::new()
            .threads(self.threads)
            .stop_when(|| interrupt.is_asked());
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
