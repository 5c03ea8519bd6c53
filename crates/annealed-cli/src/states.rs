//! `annealed states` estimates the free energies of many states.

use std::path::PathBuf;

use annealed::estimate::{Dependence, LogZ, Mbar};
use annealed::{Error, Result};
use annealed_files::StateTable;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::figures::of_warnings;

/// Estimate the free energies of many states from the reduced potentials of draws (MBAR): a line for each state with its free
/// energy in kT relative to the first one, the difference to the next state, and their overlap.
///
/// A CSV has a column for each state, a row for each draw, and a column `state` with the state from which the draw is; or it is
/// a table that alchemlyb wrote. A .npz has pymbar's u_kn and N_k, a .npy has u_kn.
#[derive(Debug, Args)]
pub struct Options {
    /// File of reduced potentials, in kT
    file: PathBuf,
    /// Number of draws of each state, if the file does not tell
    #[arg(long, value_name = "N_K", value_delimiter = ',')]
    counts: Vec<usize>,
    /// How draws depend on each other
    #[arg(long, value_enum, default_value_t = Draws::Chains)]
    draws: Draws,
    /// Draw free energies and overlaps to an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Draws {
    /// Not at all: they were thinned, or drawn anew each time
    Independent,
    /// The draws of a state, in the order of the file, are one chain
    Chains,
    /// Replica exchange: draws of all states at near times; the file has a column time
    Replicas,
}

/// Returns the text to print.
pub fn states(options: &Options) -> Result<String> {
    let mut table = StateTable::read(&options.file)?;
    if !options.counts.is_empty() {
        table = table.with_counts(&options.counts)?;
    }
    let dependence = match options.draws {
        Draws::Independent => Dependence::Independent,
        Draws::Chains => Dependence::Chains,
        Draws::Replicas => Dependence::replicas(table.times().ok_or_else(|| {
            Error::invalid("time", "none", "a column of this name for --draws replicas")
        })?)?,
    };
    let found = table.mbar(dependence)?;
    if let Some(path) = &options.plot {
        annealed_plot::states(&found, table.names(), path)?;
    }
    match options.json {
        true => of_json(&table, &found),
        false => text(&table, &found),
    }
}

/// Returns the free energy of state `i` less that of state `j` over kT, its standard error and its 95% interval.
fn free_energy(found: &Mbar, i: usize, j: usize) -> Result<(f64, f64, [f64; 2])> {
    let log_z = found.difference(j, i)?;
    let (lower, upper) = log_z.interval();
    Ok((log_z.log_z(), log_z.standard_error(), [lower, upper]))
}

fn text(table: &StateTable, found: &Mbar) -> Result<String> {
    let counts = table.counts();
    let last = counts.len() - 1;
    let width = table
        .names()
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .max(5);
    let draws = counts.iter().sum::<usize>();
    let mut lines = vec![
        format!(
            "{} states, {draws} draws; free energies F in kT",
            counts.len()
        ),
        format!(
            "{:>5}  {:<width$}  {:>8}  {:>9}  {:>18}  {:>18}  {:>7}",
            "index", "state", "draws", "effective", "F", "F of next - F", "overlap"
        ),
    ];
    let value = |(value, error, _): (f64, f64, [f64; 2])| format!("{value:.3} +- {error:.3}");
    for (state, name) in table.names().iter().enumerate() {
        let of_next = match state < last {
            true => (
                value(free_energy(found, state + 1, state)?),
                format!("{:.3}", found.overlap(state, state + 1)?),
            ),
            false => Default::default(),
        };
        let line = format!(
            "{state:>5}  {name:<width$}  {:>8}  {:>9.0}  {:>18}  {:>18}  {:>7}",
            counts[state],
            found.effective_draws()[state],
            value(free_energy(found, state, 0)?),
            of_next.0,
            of_next.1,
        );
        lines.push(line.trim_end().to_owned());
    }
    let (total, error, [lower, upper]) = free_energy(found, last, 0)?;
    lines.push(format!("F of the last state less F of the first: {total:.3} +- {error:.3} (95% interval {lower:.3} to {upper:.3})"));
    lines.extend(
        found
            .warnings()
            .iter()
            .map(|warning| format!("warning: {warning}")),
    );
    Ok(lines.join("\n") + "\n")
}

fn of_json(table: &StateTable, found: &Mbar) -> Result<String> {
    let counts = table.counts();
    let last = counts.len() - 1;
    let figures = |(value, error, interval): (f64, f64, [f64; 2])| json!({"delta_f": value, "standard_error": error, "interval": interval});
    let state = |state: usize| {
        Ok(json!({
            "name": table.names()[state],
            "draws": counts[state],
            "effective_draws": found.effective_draws()[state],
            "autocorrelation_time": found.autocorrelation_times()[state],
            "from_first": figures(free_energy(found, state, 0)?),
        }))
    };
    let states = (0..=last).map(state).collect::<Result<Vec<_>>>()?;
    let next = |state: usize| {
        let mut next = figures(free_energy(found, state + 1, state)?);
        next["overlap"] = json!(found.overlap(state, state + 1)?);
        Ok(next)
    };
    let neighbours = (0..last).map(next).collect::<Result<Vec<_>>>()?;
    let overlap = found.overlap_matrix();
    let json = json!({
        "states": states,
        "neighbours": neighbours,
        "total": figures(free_energy(found, last, 0)?),
        "overlap": Vec::from_iter(overlap.row_iter().map(|row| Vec::from_iter(row.iter().copied()))),
        "unit": "kT",
        "warnings": of_warnings(found.warnings()),
    });
    Ok(format!("{json}\n"))
}
