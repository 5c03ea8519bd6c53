//! Rows of the tables, as lines of JSON. A row in a file is not run again.

use std::io::Write;
use std::path::{Path, PathBuf};

use annealed::estimate::Estimate;
use annealed::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::bootstrap::Bootstrap;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    pub machine: String,
    /// "base rates", "uniform" or "auto".
    pub start: String,
    /// "GA", or the way in which a moment-averaged spline was made.
    pub path: String,
    pub schedule: String,
    /// Number of stages K.
    pub steps: usize,
}

impl Setting {
    pub fn new([machine, start, path, schedule]: [&str; 4], steps: usize) -> Self {
        Self {
            machine: machine.into(),
            start: start.into(),
            path: path.into(),
            schedule: schedule.into(),
            steps,
        }
    }
}

/// One run, or a note that it would equal another run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    #[serde(flatten)]
    pub setting: Setting,
    pub seed: u64,
    /// Number of chains N.
    pub chains: usize,
    /// The schedule with the same betas. If it is set, nothing was run for this row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// Number of updates at a knot, if the path is a full moment-averaged spline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spline_updates: Option<usize>,
    /// Largest error of a moment at a knot, if the path is a spline that is matched exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment_error: Option<f64>,
    pub log_z: f64,
    pub standard_error: f64,
    pub ess: f64,
    /// The longest step of the schedule times K.
    pub top_speed: f64,
    pub seconds: f64,
    pub threads: usize,
    pub engine: String,
    pub build: String,
    pub warnings: Vec<String>,
    /// Betas of the schedule at 51 points, evenly spaced in k.
    pub betas: Vec<f64>,
    /// Shares of k and of ESS, at up to fifty stages along the run.
    pub along: Vec<(f64, f64)>,
    /// The log weight of each chain minus log Z^, in thousandths of a nat.
    pub log_weights: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    pub machine: String,
    pub start: String,
    pub path: String,
    /// "joint" or "marginal", by chains at the knots; "exact samples" is the marginal kind by exact samples.
    pub kind: String,
    pub by: String,
    pub costs: Vec<f64>,
    pub seconds: f64,
    pub build: String,
}

/// One run of Grosse et al.'s Figure 3.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    #[serde(flatten)]
    pub setting: Setting,
    /// "exact samples" at each stage, or "Gibbs".
    pub kernel: String,
    pub chains: usize,
    /// Largest error of a moment at a knot of the spline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment_error: Option<f64>,
    pub log_z: f64,
    pub build: String,
    /// The log weight of each chain minus log Z^, in thousandths of a nat.
    pub log_weights: Vec<i64>,
}

/// One run with exact samples at each stage, in place of transitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Perfect {
    #[serde(flatten)]
    pub setting: Setting,
    pub chains: usize,
    pub log_z: f64,
    /// The sum over stages of the variance of the log weight that a stage adds, and its standard error.
    pub variance: (f64, f64),
    pub seconds: f64,
    pub build: String,
    /// Betas of the schedule at 51 points, evenly spaced in k.
    pub betas: Vec<f64>,
    /// The log weight of each chain minus log Z^, in thousandths of a nat.
    pub log_weights: Vec<i64>,
}

/// All lines from which tables are made.
#[derive(Debug, Clone, Copy)]
pub struct Saved<'l> {
    pub rows: &'l Lines<Row>,
    pub costs: &'l Lines<Costs>,
    pub points: &'l Lines<Point>,
    pub perfect: &'l Lines<Perfect>,
}

/// Rounds log weights to thousandths of a nat above `log_z`.
pub fn thousandths(log_weights: &[f64], log_z: f64) -> Vec<i64> {
    let rounded = |log_weight: &f64| (1e3 * (log_weight - log_z)).round() as i64;
    log_weights.iter().map(rounded).collect()
}

/// Returns the log weights of a line.
pub fn log_weights(thousandths: &[i64], log_z: f64) -> impl Iterator<Item = f64> {
    thousandths.iter().map(move |&x| log_z + 1e-3 * x as f64)
}

/// A file with lines of one kind, read once. New lines are appended.
#[derive(Debug)]
pub struct Lines<T> {
    file: PathBuf,
    pub all: Vec<T>,
}

impl<T: Serialize + for<'a> Deserialize<'a>> Lines<T> {
    /// Reads the lines of a file. Returns no lines if there is no file.
    pub fn read(file: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::io(file, error)),
        };
        let lines = text.lines().enumerate().map(|(number, line)| {
            serde_json::from_str(line)
                .map_err(|error| Error::file(file, format!("line {}: {error}", number + 1)))
        });
        Ok(Self {
            file: file.into(),
            all: lines.collect::<Result<_>>()?,
        })
    }

    /// Appends a line at once, so that nothing is lost if the program is ended.
    pub fn add(&mut self, line: T) -> Result<()> {
        let text = serde_json::to_string(&line).expect("a row has no keys but strings") + "\n";
        let opened = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.file);
        opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| Error::io(&self.file, error))?;
        self.all.push(line);
        Ok(())
    }
}

impl Lines<Row> {
    /// Pools the chains of all runs of a setting, which have different seeds. Of splines that were matched by chains, those
    /// with the most updates count.
    pub fn pooled(&self, setting: &Setting) -> Result<Option<Pooled>> {
        let mut setting = setting.clone();
        if let Some(row) = self.all.iter().find(|row| row.setting == setting)
            && let Some(other) = &row.same_as
        {
            setting.schedule.clone_from(other);
        }
        let parts = self.all.iter().filter(|row| row.setting == setting);
        let mut parts: Vec<&Row> = parts.collect();
        let most_updates = parts.iter().map(|row| row.spline_updates).max();
        parts.retain(|row| Some(row.spline_updates) == most_updates);
        if parts.is_empty() {
            return Ok(None);
        }
        let of_part = |row: &&Row| log_weights(&row.log_weights, row.log_z).collect::<Vec<_>>();
        let log_weights: Vec<f64> = parts.iter().flat_map(of_part).collect();
        let estimate = Estimate::from_log_weights(&log_weights)?;
        Ok(Some(Pooled {
            bootstrap: Bootstrap::new(&log_weights, estimate.value()),
            estimate,
            seconds: parts
                .iter()
                .map(|row| row.seconds * row.threads as f64)
                .sum(),
            rows: parts.into_iter().cloned().collect(),
        }))
    }
}

#[derive(Debug, Clone)]
pub struct Pooled {
    pub estimate: Estimate,
    /// Seconds times threads.
    pub seconds: f64,
    pub rows: Vec<Row>,
    pub bootstrap: Bootstrap,
}

impl Pooled {
    pub fn ess(&self) -> f64 {
        self.estimate.effective_sample_size()
    }

    pub fn share(&self) -> f64 {
        self.ess() / self.estimate.chains() as f64
    }

    /// Returns true if the share of ESS is not significantly below the best row's share, at .05: the papers' bold type.
    pub fn is_as_good_as(&self, best: &Self) -> bool {
        let shares = |pooled: &Self| -> Vec<f64> {
            let chains = pooled.estimate.chains() as f64;
            pooled
                .bootstrap
                .ess
                .iter()
                .map(|ess| ess / chains)
                .collect()
        };
        let (mine, theirs) = (shares(self), shares(best));
        let wins: usize = mine
            .iter()
            .map(|x| theirs.partition_point(|y| y <= x))
            .sum();
        wins as f64 > 0.05 * (mine.len() * theirs.len()) as f64
    }
}
