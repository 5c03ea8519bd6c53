//! Learned transitions on targets with far modes: which objectives and transitions find them all.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin annealed_variational              # 4-mode grid, two objectives
//! cargo run --release -p annealed-measurements --bin annealed_variational -- --full    # all cases, objectives, 4 seeds
//! cargo run --release -p annealed-measurements --bin annealed_variational -- --table   # objectives x transitions, grid
//! cargo run --release -p annealed-measurements --bin annealed_variational -- --svg samples.svg
//! ```
//!
//! Every objective has the same network and the same number of gradients of log densities. All kinds of transitions have
//! about 590 parameters each in two dimensions, 320 in one. The rate of gated transitions was tuned on other seeds, by
//! `--cases grid --first-seed 101 --seeds 4 --rate R`: 1e-2 was best for every objective (docs/notes/variational.md).

mod case;
mod figure;
mod names;

use clap::{Parser, ValueEnum};
use serde_json::{Map, Value};

use case::{CHAINS, Outcome};
use names::{CaseName, ObjectiveName, TransitionName, name};

#[derive(Parser)]
struct Options {
    /// JSON output: per case and objective a list over transitions and seeds.
    #[arg(long)]
    json: bool,
    /// Table of the grid with AVO, the ELBO and the importance-weighted bound, for each kind of transitions.
    #[arg(long)]
    table: bool,
    /// All cases, all objectives and 4 seeds.
    #[arg(long)]
    full: bool,
    /// Cases; only the grid unless set.
    #[arg(long, value_delimiter = ',')]
    cases: Option<Vec<CaseName>>,
    /// Objectives; annealed and hierarchical unless set.
    #[arg(long, value_delimiter = ',')]
    objectives: Option<Vec<ObjectiveName>>,
    /// Kinds of transitions; gated unless set. Couplings without auxiliary variables need two dimensions.
    #[arg(long, value_delimiter = ',')]
    transitions: Option<Vec<TransitionName>>,
    /// Number of seeds; 1 unless set.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Iterations of the annealed objectives: 1,500 unless set, 500 with --table; the others have T times as many.
    #[arg(long)]
    iterations: Option<usize>,
    /// Weight a of the loss-calibrated objective.
    #[arg(long, default_value_t = 0.9)]
    weight: f64,
    /// Learning rate before its decay; 1e-2 unless set, 3e-3 for couplings.
    #[arg(long)]
    rate: Option<f64>,
    /// Figure of the samples after each transition beside the tempered targets (AVO, 4-mode grid).
    #[arg(long)]
    svg: Option<std::path::PathBuf>,
}

fn main() -> annealed::Result<()> {
    let options = Options::parse();
    let (cases, objectives, transitions, seeds) = options.choice();
    if let Some(file) = &options.svg {
        figure::save(file, &options)?;
    }
    let mut report = Map::new();
    for case in cases {
        let mut by_objective = Map::new();
        for &objective in &objectives {
            let mut outcomes = Vec::new();
            for &transition in &transitions {
                let of_seed = |seed| case.build().run(objective, transition, seed, &options);
                let seeds = options.first_seed..options.first_seed + seeds;
                let of_seeds: Vec<_> = seeds.map(of_seed).collect::<annealed::Result<_>>()?;
                options.print(case, objective, transition, &of_seeds);
                outcomes.extend(of_seeds.iter().map(|outcome| outcome.json(transition)));
            }
            by_objective.insert(name(objective), outcomes.into());
        }
        report.insert(name(case), by_objective.into());
    }
    if options.json {
        println!("{}", Value::from(report));
    }
    Ok(())
}

type Choice = (Vec<CaseName>, Vec<ObjectiveName>, Vec<TransitionName>, u64);

impl Options {
    fn choice(&self) -> Choice {
        let (annealed, bound) = (ObjectiveName::Annealed, ObjectiveName::Hierarchical);
        let (grid, gated) = (vec![CaseName::Grid], vec![TransitionName::Gated]);
        let (cases, objectives, transitions, seeds) = if self.full {
            let cases = CaseName::value_variants().to_vec();
            (cases, ObjectiveName::value_variants().to_vec(), gated, 4)
        } else if self.table {
            let objectives = vec![annealed, bound, ObjectiveName::ImportanceWeighted];
            let transitions = TransitionName::value_variants().to_vec();
            println!("| objective | transitions | modes | ELBO | log Z | ESS/N | seconds |");
            println!("|---|---|---|---|---|---|---|");
            (grid, objectives, transitions, 1)
        } else {
            (grid, vec![annealed, bound], gated, 1)
        };
        (
            self.cases.clone().unwrap_or(cases),
            self.objectives.clone().unwrap_or(objectives),
            self.transitions.clone().unwrap_or(transitions),
            self.seeds.unwrap_or(seeds),
        )
    }

    /// Prints a row of the table, or a line for each seed.
    fn print(
        &self,
        case: CaseName,
        objective: ObjectiveName,
        transition: TransitionName,
        outcomes: &[Outcome],
    ) {
        if self.table {
            let list = |of: &dyn Fn(&Outcome) -> String| {
                let entries: Vec<_> = outcomes.iter().map(of).collect();
                entries.join(" ")
            };
            println!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                name(objective),
                name(transition),
                list(&|o| o.modes().to_string()),
                list(&|o| format!("{:.2}", o.elbo)),
                list(&|o| format!("{:.2}", o.log_z)),
                list(&|o| format!("{:.2}", o.ess / CHAINS as f64)),
                list(&|o| format!("{:.0}", o.seconds)),
            );
        } else if !self.json {
            for (seed, outcome) in (self.first_seed..).zip(outcomes) {
                let what = [name(case), name(transition), name(objective)];
                outcome.print(what, seed);
            }
        }
    }
}
