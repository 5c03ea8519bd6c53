//! Coverage of `Mbar` on harmonic oscillators and on replica exchange, where log Z of each state is known.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin states -- --seeds 400 --rows FILE
//! ```

mod cell;
mod ladders;
mod oscillators;
mod replicas;
mod tally;

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;

use tally::{Count, Tally};

/// How often the intervals of free energies of many states hold, and what the warnings say.
#[derive(Debug, Parser)]
struct Options {
    /// Number of seeds
    #[arg(long, default_value_t = 400)]
    seeds: u64,
    /// Only the cells whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// File of counts, a line a cell: cells of this number of seeds that have a line are not run again
    #[arg(long)]
    rows: Option<PathBuf>,
    /// The states of tempered runs instead, beside the runs' own log Z
    #[arg(long)]
    ladders: bool,
}

/// Names of pooled rows, and what a cell's name with a comma contains that belongs to it.
const POOLS: [(&str, &str); 13] = [
    ("all oscillators", "K = "),
    ("K = 5", "K = 5,"),
    ("K = 20", "K = 20,"),
    ("good overlap", "good overlap,"),
    ("poor overlap", "poor overlap,"),
    ("no overlap", "no overlap,"),
    ("independent, equal counts", "independent,"),
    ("tau 5", "tau 5,"),
    ("tau 50", "tau 50,"),
    ("counts 100 : 1", "counts 100 : 1,"),
    ("half without draws", "half without draws,"),
    ("replicas", "replicas,"),
    ("all", ","),
];

/// Reads the lines of counts.
fn read(file: &Path) -> Result<Vec<Tally>, Box<dyn Error>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(file)?;
    let tallies = text.lines().map(serde_json::from_str);
    Ok(tallies.collect::<Result<_, _>>()?)
}

fn append(file: &Path, tally: &Tally) -> Result<(), Box<dyn Error>> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    Ok(writeln!(file, "{}", serde_json::to_string(tally)?)?)
}

fn share(part: usize, all: usize) -> String {
    match all {
        0 => "-".to_owned(),
        _ => format!("{:.1}% of {all}", 100.0 * part as f64 / all as f64),
    }
}

fn print_row(name: &str, tally: &Tally) {
    let Count { all, silent, .. } = tally.near;
    let names = tally.names.iter();
    let names = Vec::from_iter(names.map(|(name, count)| format!("{name} {count}")));
    let (near, ends, crossing) = (&tally.near, &tally.ends, &tally.crossing);
    println!(
        "| {name} | {} | {} | {} | {} | {:.2} | {} | {} | {} |",
        share(all - silent, all),
        share(near.held, silent),
        share(ends.held, ends.silent),
        near.far,
        near.ratio(),
        share(crossing.all - crossing.silent, crossing.all),
        tally
            .least
            .map_or("-".to_owned(), |least| format!("{least:.3}")),
        names.join(", "),
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.ladders {
        return ladders::table(options.seeds);
    }
    let kept = options.rows.as_deref().map_or(Ok(Vec::new()), read)?;
    println!(
        "| cell | warned | silent intervals that hold | those of last and first state | silent and off by 4 errors \
         | root mean square error over standard error | crossing differences that warn \
         | least standard error over the one-sided gap | warnings |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|---|");
    let mut tallies = Vec::new();
    let cells = oscillators::cells().into_iter().chain(replicas::cells());
    for cell in cells.filter(|cell| cell.name.contains(&options.only)) {
        let is_it = |tally: &&Tally| tally.name == cell.name && tally.seeds == options.seeds;
        let tally = match kept.iter().find(is_it) {
            Some(tally) => tally.clone(),
            None => {
                let tally = Tally::of(&cell, options.seeds)?;
                if let Some(file) = &options.rows {
                    append(file, &tally)?;
                }
                tally
            }
        };
        print_row(&cell.name, &tally);
        tallies.push(tally);
    }
    for (name, part) in POOLS {
        let of_pool = |tally: &&Tally| format!("{},", tally.name).contains(part);
        let mut pooled = Tally::default();
        tallies
            .iter()
            .filter(of_pool)
            .for_each(|tally| pooled.add(tally));
        if pooled.near.all > 0 {
            print_row(name, &pooled);
        }
    }
    Ok(())
}
