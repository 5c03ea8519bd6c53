//! `annealed works` estimates a free-energy difference.

use std::path::PathBuf;

use annealed::Result;
use annealed::estimate::{BennettEstimate, WorkUnit};
use annealed_files::read_works;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::figures::{finite, of_warnings};

/// Estimate the free-energy difference dF from the works of switching processes in both directions, by Bennett's acceptance
/// ratio (BAR).
///
/// A file has one work a line, or is a .npy array. Works of the reverse process have the sign with which they were measured in
/// it, so that mean W >= dF >= -(mean W').
#[derive(Debug, Args)]
pub struct Options {
    /// Works of the processes from the first end to the second
    forward: PathBuf,
    /// Works of the processes from the second end to the first
    reverse: PathBuf,
    /// Unit of the works, and of the result
    #[arg(long, value_enum, ignore_case = true, default_value_t = Unit::Kt)]
    unit: Unit,
    /// Temperature for kJ/mol and kcal/mol
    #[arg(long, value_name = "KELVIN", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Unit {
    #[value(name = "kT")]
    Kt,
    #[value(name = "kJ/mol")]
    KilojoulesPerMole,
    #[value(name = "kcal/mol")]
    KilocaloriesPerMole,
}

impl Options {
    fn unit(&self) -> Result<WorkUnit> {
        let value = self.unit.to_possible_value();
        let name = value.as_ref().map_or("", |value| value.get_name());
        WorkUnit::named(name, self.temperature)
    }
}

/// Returns the text to print.
pub fn works(options: &Options) -> Result<String> {
    let unit = options.unit()?;
    let (forward, reverse) = (read_works(&options.forward)?, read_works(&options.reverse)?);
    let found = BennettEstimate::from_works(&forward, &reverse, unit)?;
    if !options.json {
        let counts = format!(
            "{} forward works, {} reverse works",
            forward.len(),
            reverse.len()
        );
        return Ok(format!("{counts}\n{found}\n"));
    }
    let (difference, error) = found.free_energy();
    let (lower, upper) = found.free_energy_interval();
    let json = json!({
        "delta_f": difference,
        "standard_error": finite(error),
        "interval": [lower, upper],
        "unit": unit.name(),
        "overlap": found.overlap(),
        "ess": found.effective_sample_size(),
        "forward_works": forward.len(),
        "reverse_works": reverse.len(),
        "warnings": of_warnings(&found.warnings()),
    });
    Ok(format!("{json}\n"))
}
