//! Coverage of `Mbar` on harmonic oscillators, whose log Z is known.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin states -- --seeds 400
//! ```
//!
//! `--peer FOLDER` writes data of independent draws with the estimates of them, for `measurements/peers/states.py`.

mod cell;

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use annealed::Result;
use annealed::estimate::{Dependence, LogZ, Mbar};
use annealed_measurements::problems::seeds::over_seeds;
use clap::Parser;

use cell::{Cell, Overlap, cells};

/// How often the intervals of free energies of many states hold, and what the warnings say.
#[derive(Debug, Parser)]
struct Options {
    /// Number of seeds
    #[arg(long, default_value_t = 400)]
    seeds: u64,
    /// Only the cells whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Writes the data and estimates of one seed to this folder
    #[arg(long)]
    peer: Option<PathBuf>,
}

/// One seed: the last state less the first one, and how many of the neighbours' unwarned intervals hold.
struct Seen {
    off: f64,
    error: f64,
    holds: bool,
    warned: bool,
    neighbours: usize,
    neighbours_held: usize,
    neighbours_far: usize,
    /// Half the distance of the estimates from the draws of each half of the states alone.
    half_gap: f64,
}

fn seen(cell: &Cell, seed: u64) -> Result<Seen> {
    let (draws, labels) = cell.draws(seed);
    let mbar = Mbar::from_labels(
        cell.log_densities(&draws),
        labels.clone(),
        cell.dependence(),
    )?;
    let last = cell.states.len() - 1;
    let whole = mbar.difference(last, 0)?;
    let holds = |found: &dyn LogZ, exact: f64| {
        let (lower, upper) = found.interval();
        lower <= exact && exact <= upper
    };
    let off = |found: &dyn LogZ, exact: f64| found.log_z() - exact;
    let (mut neighbours, mut neighbours_held, mut neighbours_far) = (0, 0, 0);
    for state in 1..=last {
        let (found, exact) = (
            mbar.difference(state, state - 1)?,
            cell.exact(state, state - 1),
        );
        if found.warnings().is_empty() {
            neighbours += 1;
            neighbours_held += usize::from(holds(&found, exact));
            let is_far = off(&found, exact).abs() > 4.0 * found.standard_error();
            neighbours_far += usize::from(is_far);
        }
    }
    let exact = cell.exact(last, 0);
    Ok(Seen {
        off: off(&whole, exact),
        error: whole.standard_error(),
        holds: holds(&whole, exact),
        warned: !whole.warnings().is_empty(),
        neighbours,
        neighbours_held,
        neighbours_far,
        half_gap: 0.5 * cell.one_sided_gap(&draws, &labels, &mbar.log_z()),
    })
}

/// Runs all seeds of a cell, and prints its line.
fn report(cell: &Cell, seeds: u64) -> Result<[usize; 3]> {
    let all = over_seeds(seeds, |seed| seen(cell, seed))?;
    let silent = Vec::from_iter(all.iter().filter(|one| !one.warned));
    let held = silent.iter().filter(|one| one.holds).count();
    let far = silent.iter().filter(|one| one.off.abs() > 4.0 * one.error);
    let of_silent = silent.len().max(1) as f64;
    let squares = silent.iter().map(|one| (one.off / one.error).powi(2));
    let sum = |of: fn(&Seen) -> usize| all.iter().map(of).sum::<usize>();
    let (neighbours, its_held) = (sum(|one| one.neighbours), sum(|one| one.neighbours_held));
    let small = all.iter().filter(|one| one.error < one.half_gap).count();
    println!(
        "| {} | {} | {held} of {} | {} | {:.4} | {:.2} | {its_held} of {neighbours} ({:.1}%) | {} | {} |",
        cell.name,
        all.len() - silent.len(),
        silent.len(),
        far.count(),
        all.iter().map(|one| one.error).sum::<f64>() / all.len() as f64,
        (squares.sum::<f64>() / of_silent).sqrt(),
        100.0 * its_held as f64 / neighbours.max(1) as f64,
        sum(|one| one.neighbours_far),
        if cell.overlap == Overlap::None {
            small.to_string()
        } else {
            String::new()
        },
    );
    Ok([held, silent.len(), all.len()])
}

/// Factor on the numbers of draws for the comparison of errors, which are estimates.
const FOR_PEER: usize = 20;

/// Writes counts and reduced potentials of one seed, and log Z with the standard errors of all differences to state 0.
fn write_for_peer(cell: &Cell, folder: &Path) -> std::result::Result<(), Box<dyn Error>> {
    let (draws, labels) = cell.more(FOR_PEER).draws(1);
    let matrix = cell.log_densities(&draws);
    let mbar = Mbar::from_labels(matrix.clone(), labels.clone(), Dependence::Independent)?;
    let mut text = String::new();
    for (row, label) in matrix.row_iter().zip(&labels) {
        let values = Vec::from_iter(row.iter().map(|value| format!("{:?}", -value)));
        writeln!(text, "{label},{}", values.join(","))?;
    }
    let name = cell.name.replace([' ', ','], "_");
    fs::write(folder.join(format!("{name}.data.csv")), text)?;
    let mut text = String::new();
    for state in 0..cell.states.len() {
        let found = mbar.difference(state, 0)?;
        writeln!(text, "{:?},{:?}", found.log_z(), found.standard_error())?;
    }
    fs::write(folder.join(format!("{name}.annealed.csv")), text)?;
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let cells = cells()
        .into_iter()
        .filter(|cell| cell.name.contains(&options.only));
    if let Some(folder) = &options.peer {
        let mut good = cells.filter(|cell| cell.tau == 1 && cell.overlap != Overlap::None);
        return good.try_for_each(|cell| write_for_peer(&cell, folder));
    }
    println!(
        "| cell | warned of {} | silent ones that hold | silent and off by 4 errors | mean standard error \
         | root mean square error over standard error | neighbours' silent ones that hold | silent and off by 4 errors \
         | errors below half the one-sided gap |",
        options.seeds
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut pooled = [0; 3];
    for cell in cells {
        let found = report(&cell, options.seeds)?;
        pooled
            .iter_mut()
            .zip(found)
            .for_each(|(sum, found)| *sum += found);
    }
    let [held, silent, all] = pooled;
    println!(
        "\n{held} of {silent} silent intervals hold ({:.1}%), of {all} seeds",
        100.0 * held as f64 / silent as f64
    );
    Ok(())
}
