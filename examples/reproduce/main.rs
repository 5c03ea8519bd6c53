//! The tables and figures of T. Kiwaki, "Variational optimization of annealing schedules" (2015), and of R. Grosse,
//! C. Maddison and R. Salakhutdinov, "Annealing between distributions by averaging moments" (2013), beside the papers'
//! numbers.
//!
//! Each run of a row is kept as a line of JSON, and what is there is not run again: a table of hours is made in pieces.
//! Without a command the tables are printed from the lines that are there.
//!
//! ```text
//! cargo run --release --features full --example reproduce
//! cargo run --release --features full --example reproduce -- kiwaki pcd20
//! ```

mod kiwaki;
mod machines;
mod rows;
mod runs;

use std::path::PathBuf;

use annealed::Result;
use clap::{Parser, Subcommand};

use machines::{Folders, Machine};
use rows::Lines;
use runs::{Budget, Runs};

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    folders: Folders,
    #[command(flatten)]
    budget: Budget,
    /// Folder of the lines
    #[arg(long, global = true, default_value = "reproduction")]
    lines: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train the RBMs that are missing
    Train { machines: Vec<Machine> },
    /// Run what is missing of Kiwaki's Tables 1 and 2
    Kiwaki { machines: Vec<Machine> },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let folders = &arguments.folders;
    let mut runs = Runs {
        budget: &arguments.budget,
        rows: Lines::read(&arguments.lines.join("rows.jsonl"))?,
        costs: Lines::read(&arguments.lines.join("costs.jsonl"))?,
        build: runs::build(),
    };
    match arguments.command {
        Some(Command::Train { machines }) => machines
            .iter()
            .try_for_each(|machine| machine.train(folders)),
        Some(Command::Kiwaki { machines }) => machines
            .iter()
            .try_for_each(|&machine| kiwaki::run(machine, folders, &mut runs)),
        None => Ok(()),
    }
}
