//! Thirty problems with a known log Z, each run by the advice of the guide. A row for each problem shows how often the
//! interval contains the exact value, how far off the estimates are, and which warnings appear (docs/intervals.md).
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin reference    # 400 seeds: a quarter of an hour on two cores
//! cargo run --release -p annealed-measurements --bin reference -- --quick --json
//! ```

use annealed::Result;
use annealed_measurements::problems::advice::Advice;
use annealed_measurements::problems::seeds::over_seeds;
use annealed_measurements::problems::table::{HEADER, Row, verdict};
use annealed_measurements::problems::{ALL, Entry, published};
use clap::Parser;

/// How often intervals for log Z hold the exact value, over problems where it is known.
#[derive(Debug, Parser)]
struct Options {
    /// A fortieth of the seeds
    #[arg(long)]
    quick: bool,
    /// Number of seeds a problem; 400 unless set, 40 where a run takes seconds
    #[arg(long, conflicts_with = "quick")]
    seeds: Option<u64>,
    /// Number of chains a run
    #[arg(long, default_value_t = 500)]
    chains: usize,
    /// Only the problems whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// JSON list of objects, one a problem
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if !options.json {
        println!("{HEADER}");
    }
    let mut rows = Vec::new();
    let chosen = ALL.into_iter().chain(published());
    for entry in chosen.filter(|entry| entry.name.contains(&options.only)) {
        let row = row(entry, &options)?;
        if !options.json {
            println!("{}", row.line());
        }
        rows.push(row);
    }
    if options.json {
        let objects: Vec<_> = rows.iter().map(Row::json).collect();
        println!("{:#}", serde_json::Value::from(objects));
    } else {
        println!("\n{}", verdict(&rows));
    }
    Ok(())
}

fn row(entry: Entry, options: &Options) -> Result<Row> {
    let problem = (entry.make)(&Advice {
        chains: options.chains,
        stages: None,
        rounds: None,
    })?;
    let share = if options.quick { 40 } else { 1 };
    let seeds = options.seeds.unwrap_or(entry.seeds / share);
    Ok(Row {
        outcomes: over_seeds(seeds.max(1), |seed| problem.run(seed))?,
        problem,
        entry,
    })
}
