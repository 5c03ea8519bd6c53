//! `annealed scores` compares two machines by the log likelihoods of the same rows.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use annealed::estimate::{LogZ, ScoreDifference, Warning};
use annealed::{Error, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::figures::{finite, of_warnings};
use crate::saved;

/// Compare the log likelihoods of the same rows under two machines, in pairs. The files are those of `annealed rbm` with --data
/// and --scores.
///
/// The difference is that of the first machine minus the second. Its error joins the error of the mean over the rows with the
/// errors of both log Z, so give each run its own --seed.
#[derive(Debug, Args)]
pub struct Options {
    /// Scores of the first machine
    first: PathBuf,
    /// Scores of the second machine
    second: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The log likelihoods of rows under a machine, and the log Z by which they are normalised. It is the form of the file.
#[derive(Serialize, Deserialize)]
pub struct Scores {
    log_z: f64,
    standard_error: f64,
    interval: (f64, f64),
    warnings: Vec<Warning>,
    seed: u64,
    /// A hash of the rows.
    data: u32,
    by_row: Vec<f64>,
}

impl Scores {
    /// Creates the scores of `rows` by a log Z, given with the ends of its interval and its standard error. An exact log Z has
    /// an error of 0.
    pub fn new(
        [log_z, lower, upper, standard_error]: [f64; 4],
        warnings: &[Warning],
        seed: u64,
        (rows, by_row): (&[Vec<bool>], &[f64]),
    ) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        for row in rows {
            hasher.update(&Vec::from_iter(row.iter().map(|&on| u8::from(on))));
        }
        Self {
            log_z,
            standard_error,
            interval: (lower, upper),
            warnings: warnings.to_vec(),
            seed,
            data: hasher.finalize(),
            by_row: by_row.to_vec(),
        }
    }

    /// Writes the file.
    pub fn save(&self, file: &Path) -> Result<()> {
        saved::replace(file, self)
    }

    fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(|error| Error::io(file, error))?;
        serde_json::from_str(&text).map_err(|error| {
            let expected = "expected the file that annealed rbm writes with --data and --scores";
            Error::file(file, format!("holds no scores ({error}), {expected}"))
        })
    }

    /// Returns whether log Z, and so the scores, depend on random numbers.
    fn is_random(&self) -> bool {
        self.standard_error > 0.0
    }
}

impl Display for Scores {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mean = self.by_row.iter().sum::<f64>() / self.by_row.len() as f64;
        let (log_z, error) = (self.log_z, self.standard_error);
        write!(
            f,
            "{mean:.3} nats a row, by log Z = {log_z:.3} +- {error:.3}"
        )
    }
}

impl LogZ for Scores {
    fn log_z(&self) -> f64 {
        self.log_z
    }

    fn standard_error(&self) -> f64 {
        self.standard_error
    }

    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        match level == 0.95 {
            true => Ok(self.interval),
            false => Err(Error::invalid("level", level, "0.95")),
        }
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn evaluations(&self) -> u64 {
        0
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

/// Returns the text to print.
pub fn scores(options: &Options) -> Result<String> {
    let (one, other) = (
        Scores::read(&options.first)?,
        Scores::read(&options.second)?,
    );
    let (rows, expected) = (other.by_row.len(), one.by_row.len());
    if rows != expected || other.data != one.data {
        let first = options.first.display();
        let what = match rows == expected {
            true => format!("scores other rows than {first}"),
            false => format!("scores {rows} rows, and {first} {expected}"),
        };
        let expected = "expected the same --data, read by the same threshold";
        return Err(Error::file(&options.second, format!("{what}; {expected}")));
    }
    let found = ScoreDifference::new([&one.by_row, &other.by_row], [Some(&one), Some(&other)])?;
    let shared = (one.seed == other.seed && one.is_random() && other.is_random()).then(|| {
        let seed = one.seed;
        format!("both runs have --seed {seed}, so they share random numbers, and the error assumes that they do not")
    });
    if !options.json {
        let lines = |file: &Path, scores: &Scores| {
            let warnings = scores.warnings.iter();
            let warnings = warnings.map(|warning| format!("warning: {warning}\n"));
            format!("{}: {scores}\n", file.display()) + &String::from_iter(warnings)
        };
        let both = lines(&options.first, &one) + &lines(&options.second, &other);
        let text = found.to_string();
        let difference = text.lines().next().unwrap_or_default();
        let note = shared.map_or(String::new(), |text| format!("note: {text}\n"));
        return Ok(format!("{both}{difference}\n{note}"));
    }
    let json = json!({
        "difference": found.value,
        "standard_error": finite(found.standard_error),
        "interval": [finite(found.interval.0), finite(found.interval.1)],
        "error_over_rows": finite(found.error_over_rows),
        "error_of_log_z": found.error_of_log_z,
        "rows": found.rows,
        "warnings": of_warnings(&found.warnings),
        "notes": Vec::from_iter(shared),
    });
    Ok(format!("{json}\n"))
}
