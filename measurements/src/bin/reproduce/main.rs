//! Tables and figures of T. Kiwaki, "Variational optimization of annealing schedules" (2015), and of R. Grosse, C.
//! Maddison and R. Salakhutdinov, "Annealing between distributions by averaging moments" (2013), with our results
//! beside the papers' numbers.
//!
//! Each run is saved as a line of JSON and not repeated, so that a table that takes hours can be made in pieces.
//! Without a command the program prints the tables from these lines.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin reproduce
//! cargo run --release -p annealed-measurements --bin reproduce -- kiwaki pcd20 --steps 1000,10000,100000
//! cargo run --release -p annealed-measurements --bin reproduce -- all --quick
//! cargo run --release -p annealed-measurements --bin reproduce -- figures
//! ```

mod base;
mod bootstrap;
mod check;
mod claims;
mod exact;
mod figures;
mod gaussians;
mod grosse;
mod grosse_figures;
mod kiwaki;
mod machines;
mod papers;
mod perfect;
mod quick;
mod rows;
mod runs;
mod starts;
mod tables;
mod traps;

use std::path::PathBuf;

use annealed::Result;
use clap::{Parser, Subcommand};

use base::Start;
use grosse::PathKind;
use machines::{Folders, Machine};
use rows::{Lines, Perfect, Point, Saved};
use runs::{Budget, Runs};

/// The tables and figures of Kiwaki (2015) and of Grosse et al. (2013) beside ours
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    folders: Folders,
    #[command(flatten)]
    budget: Budget,
    /// Folder of the figures
    #[arg(long, global = true, default_value = "docs/figures")]
    figures: PathBuf,
    /// Folder of the lines
    #[arg(long, global = true, default_value = "measurements/reproduction")]
    lines: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all that is missing of both papers' tables, then check the pages and print the claims
    All {
        /// Run only small machines' rows of 10,000 stages, anew with other seeds, beside the saved ones: some minutes
        #[arg(long)]
        quick: bool,
        /// Folder of the pages
        #[arg(long, default_value = "docs/notes")]
        pages: PathBuf,
    },
    /// Train the RBMs that are missing
    Train { machines: Vec<Machine> },
    /// Run what is missing of Kiwaki's Tables 1 and 2
    Kiwaki {
        machines: Vec<Machine>,
        /// Where the chains start
        #[arg(long, value_enum, value_delimiter = ',', default_value = "base-rates")]
        starts: Vec<Start>,
    },
    /// Run what is missing of Grosse et al.'s Tables 1 and 2
    Grosse {
        machines: Vec<Machine>,
        /// The paths whose rows are run
        #[arg(
            long,
            value_enum,
            value_delimiter = ',',
            default_value = "ga,mas,cheap"
        )]
        paths: Vec<PathKind>,
    },
    /// Run what is missing of the rows from the base that a search finds
    Searched { machines: Vec<Machine> },
    /// Run what is missing of the comparison of starts, and print its tables
    Starts(#[command(flatten)] starts::Options),
    /// Draw Kiwaki's Figures 1 to 6, Grosse et al.'s Figure 5 and the cells of both papers' tables from the lines
    Figures,
    /// Recompute all cells of the tables of both pages from the lines, and print those that differ
    Check {
        /// Folder of the pages
        #[arg(long, default_value = "docs/notes")]
        pages: PathBuf,
    },
    /// Run what is missing of Grosse et al.'s Figure 3, with --chains at --steps, and draw it
    ExactSamples { machine: Machine },
    /// Run what is missing of the schedules with exact samples at each stage, with --chains at --steps
    Perfect { machine: Machine },
    /// Estimate Kiwaki's g by exact samples, from which J follows
    ExactCosts {
        machine: Machine,
        /// Where the paths start
        #[arg(long, value_enum, value_delimiter = ',', default_value = "base-rates")]
        starts: Vec<Start>,
    },
    /// Run and draw Grosse et al.'s Figure 4, with the first number of --steps
    Samples { machine: Machine },
    /// Run the Gaussians of Grosse et al.'s Section 5.1, and draw Figures 1 and 2
    Gaussians,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let (folders, figures) = (&arguments.folders, &arguments.figures);
    let mut runs = Runs {
        budget: &arguments.budget,
        first_seed: 0,
        rows: Lines::read(&arguments.lines.join("rows.jsonl"))?,
        costs: Lines::read(&arguments.lines.join("costs.jsonl"))?,
        build: runs::build(),
    };
    let mut points = Lines::read(&arguments.lines.join("figure-3.jsonl"))?;
    let mut perfect = Lines::read(&arguments.lines.join("perfect.jsonl"))?;
    match arguments.command {
        Some(Command::All { quick, pages }) => {
            if quick {
                quick::run(folders, &runs.rows, &arguments.lines, &runs.build)?;
            } else {
                run_all(folders, &mut runs)?;
            }
            let saved = saved(&runs, &points, &perfect);
            check::run(folders, &saved, &pages)?;
            tables::print_claims(folders, &saved)
        }
        Some(Command::Train { machines }) => machines
            .iter()
            .try_for_each(|machine| machine.train(folders)),
        Some(Command::Kiwaki { machines, starts }) => {
            let of_machine = |&machine: &Machine| {
                let mut of_start = |&start: &Start| kiwaki::run(machine, start, folders, &mut runs);
                starts.iter().try_for_each(&mut of_start)
            };
            machines.iter().try_for_each(of_machine)
        }
        Some(Command::Grosse { machines, paths }) => machines
            .iter()
            .try_for_each(|&machine| grosse::run(machine, &paths, folders, &mut runs)),
        Some(Command::Searched { machines }) => machines
            .iter()
            .try_for_each(|&machine| grosse::run_searched(machine, folders, &mut runs)),
        Some(Command::Starts(options)) => starts::run(&options, folders, &arguments.lines, figures),
        Some(Command::Gaussians) => gaussians::run(figures),
        Some(Command::Figures) => {
            figures::draw(folders, &runs.rows, figures)?;
            figures::cells(&runs.rows, figures)?;
            grosse_figures::against_steps(&runs.rows, figures)
        }
        Some(Command::ExactSamples { machine }) => {
            let (budget, build) = (&arguments.budget, &runs.build);
            grosse_figures::run_exact_samples(machine, folders, budget, build, &mut points)?;
            grosse_figures::draw_exact_samples(machine, folders, &points, figures)
        }
        Some(Command::Samples { machine }) => {
            grosse_figures::samples(machine, folders, &arguments.budget, figures)
        }
        Some(Command::Perfect { machine }) => {
            perfect::run(machine, folders, &mut runs, &mut perfect)
        }
        Some(Command::ExactCosts { machine, starts }) => {
            perfect::run_costs(machine, &starts, folders, &mut runs)
        }
        Some(Command::Check { pages }) => {
            check::run(folders, &saved(&runs, &points, &perfect), &pages)
        }
        None => tables::print(folders, &saved(&runs, &points, &perfect)),
    }
}

/// Runs the missing rows of all machines' tables.
fn run_all(folders: &Folders, runs: &mut Runs<'_>) -> Result<()> {
    let kinds = [PathKind::Ga, PathKind::Mas, PathKind::Cheap];
    for machine in [Machine::SMALL, Machine::LARGE].concat() {
        machine.train(folders)?;
        kiwaki::run(machine, Start::BaseRates, folders, runs)?;
        grosse::run(machine, &kinds, folders, runs)?;
        grosse::run_searched(machine, folders, runs)?;
    }
    Ok(())
}

fn saved<'l>(
    runs: &'l Runs<'_>,
    points: &'l Lines<Point>,
    perfect: &'l Lines<Perfect>,
) -> Saved<'l> {
    Saved {
        rows: &runs.rows,
        costs: &runs.costs,
        points,
        perfect,
    }
}
