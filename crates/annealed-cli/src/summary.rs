//! `annealed summary` describes draws of a sampler.

use std::path::PathBuf;

use annealed::Result;
use annealed::estimate::{SummaryRow, Warning};
use annealed::model::{Fit, Gaussian};
use annealed_files::Draws;
use clap::Args;
use serde_json::json;

use crate::figures::finite;

/// Effective draws below which the figures of a quantity are doubtful.
const FEW: f64 = 100.0;
/// R-hat above which chains disagree (Vehtari et al. 2021 ask for less than 1.01).
const APART: f64 = 1.05;

/// Print mean, quantiles, effective draws and R-hat of each parameter, and the reasons to doubt draws.
///
/// It reads files of CmdStan or RStan (one for each chain), CSV with a header, .npz and .npy. Log Z also needs the density:
/// call `BridgeSampling` in Rust, or `annealed.from_draws` in Python.
#[derive(Debug, Args)]
pub struct Options {
    /// Files of draws
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only these parameters; theta selects all elements of a vector
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    names: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Returns the text to print.
pub fn summary(options: &Options) -> Result<String> {
    let draws = match &options.names[..] {
        [] => Draws::read(&options.files)?,
        names => Draws::read_columns(&options.files, names)?,
    };
    let chains = draws.states_by(|row| Ok(row.to_vec()))?;
    let row = |(i, name): (usize, &String)| {
        let values = |chain: &Vec<Vec<f64>>| Vec::from_iter(chain.iter().map(|draw| draw[i]));
        SummaryRow::of_chains(name, &Vec::from_iter(chains.iter().map(values)))
    };
    let rows = draws
        .names()
        .iter()
        .enumerate()
        .map(row)
        .collect::<Result<Vec<_>>>()?;
    let doubts = doubts(&draws, &rows);
    let lengths = Vec::from_iter(chains.iter().map(Vec::len));
    if options.json {
        let row = |row: &SummaryRow| {
            json!({
                "name": row.name,
                "mean": row.mean,
                "sd": row.standard_deviation,
                "q5": row.q5,
                "median": row.median,
                "q95": row.q95,
                "standard_error": row.standard_error,
                "effective_draws": row.effective_draws,
                "r_hat": finite(row.r_hat),
            })
        };
        let rows = Vec::from_iter(rows.iter().map(row));
        let json = json!({"draws": lengths, "rows": rows, "doubts": doubts});
        return Ok(format!("{json}\n"));
    }
    let lengths = Vec::from_iter(lengths.iter().map(usize::to_string)).join(", ");
    let doubts = Vec::from_iter(doubts.iter().map(|doubt| format!("warning: {doubt}\n")));
    let table = SummaryRow::table(&rows);
    Ok(format!(
        "chains of {lengths} draws\n{table}\n{}",
        doubts.concat()
    ))
}

/// Returns the reasons to doubt the draws, a sentence each.
fn doubts(draws: &Draws, rows: &[SummaryRow]) -> Vec<String> {
    let slow = |row: &&SummaryRow| row.effective_draws < FEW || row.r_hat > APART;
    let slow = rows.iter().filter(slow).map(|row| {
        format!(
            "{} is worth {:.0} independent draws (R-hat {:.2}): its chains are too short, or disagree; draw longer chains",
            row.name, row.effective_draws, row.r_hat
        )
    });
    let count = draws.divergences();
    let diverged = (count > 0).then(|| Warning::Divergences { count }.to_string());
    let states = draws.states().concat();
    let bound = (rows.len() > 1).then(|| Gaussian::fit(&states, &vec![1.0; states.len()]).err());
    let named = |error: annealed::Error| {
        let names = draws.names().iter().enumerate();
        let names = Vec::from_iter(names.map(|(i, name)| format!("{i} = {name}"))).join(", ");
        format!("these parameters have no log Z together: {error} ({names})")
    };
    let bound = bound.flatten().map(named);
    slow.chain(diverged).chain(bound).collect()
}
