//! `all --quick`: runs of small machines anew, with other seeds, beside the saved ones.

use std::fs;
use std::path::Path;

use annealed::{Error, Result};

use crate::base::Start::BaseRates;
use crate::grosse::{self, PathKind};
use crate::kiwaki;
use crate::machines::{Folders, Machine};
use crate::rows::{Lines, Pooled, Row};
use crate::runs::{Budget, Runs};
use crate::tables::share;

/// Number of stages. Fewer leave too few effective chains, and more take an hour.
const STEPS: usize = 10_000;
/// Saved runs have the seeds below.
const FIRST_SEED: u64 = 1_000;
/// Runs with fewer effective chains have errors that say nothing, and are not compared.
const FEWEST: f64 = 20.0;
/// Errors by which two runs may be apart.
const APART: f64 = 4.0;

/// Runs what is missing in `target/reproduction/quick` of the rows with 10,000 stages on machines with 20 hidden units, and
/// compares them with the lines in the folder `lines`.
///
/// # Errors
/// A row that is apart from the saved one by more than four errors.
pub fn run(folders: &Folders, saved: &Lines<Row>, lines: &Path, build: &str) -> Result<()> {
    let folder = Path::new("target/reproduction/quick");
    let costs = folder.join("costs.jsonl");
    let copied = fs::create_dir_all(folder).and_then(|()| match costs.exists() {
        true => Ok(0),
        false => fs::copy(lines.join("costs.jsonl"), &costs),
    });
    copied.map_err(|error| Error::io(folder, error))?;
    let budget = Budget {
        steps: vec![STEPS],
        ..Budget::default()
    };
    let mut runs = Runs {
        budget: &budget,
        first_seed: FIRST_SEED,
        rows: Lines::read(&folder.join("rows.jsonl"))?,
        costs: Lines::read(&costs)?,
        build: build.into(),
    };
    for machine in Machine::SMALL {
        kiwaki::run(machine, BaseRates, folders, &mut runs)?;
        // To match the knots of a spline takes minutes.
        let knots = format!("{}-uniform", machine.stem());
        let is_matched = folders.knots().join(knots).is_dir();
        let kinds = [Some(PathKind::Ga), is_matched.then_some(PathKind::Mas)];
        let kinds = Vec::from_iter(kinds.into_iter().flatten());
        grosse::run(machine, &kinds, folders, &mut runs)?;
    }
    compare(saved, &runs.rows)
}

fn compare(saved: &Lines<Row>, anew: &Lines<Row>) -> Result<()> {
    let run = anew.all.iter().filter(|row| row.same_as.is_none());
    let mut settings = Vec::from_iter(run.map(|row| &row.setting));
    settings.sort();
    settings.dedup();
    println!("# Runs of {STEPS} stages, with other seeds\n");
    println!(
        "| machine | start | path | schedule | saved: log Z^ (SE), ESS/N | anew | apart, in errors |"
    );
    println!("|---|---|---|---|---|---|---|");
    let (mut agree, mut differ, mut few) = (0, 0, 0);
    for setting in settings {
        let (Some(old), Some(new)) = (saved.pooled(setting)?, anew.pooled(setting)?) else {
            continue;
        };
        let error = old.estimate.standard_error();
        let error = error.hypot(new.estimate.standard_error());
        let apart = (new.estimate.value() - old.estimate.value()) / error;
        let verdict = match (old.ess().min(new.ess()) < FEWEST, apart.abs() > APART) {
            (true, _) => {
                few += 1;
                "few effective chains".into()
            }
            (false, true) => {
                differ += 1;
                format!("**{apart:.1}**")
            }
            (false, false) => {
                agree += 1;
                format!("{apart:.1}")
            }
        };
        println!(
            "| {} | {} | {} | {} | {} | {} | {verdict} |",
            setting.machine,
            setting.start,
            setting.path,
            setting.schedule,
            figures(&old),
            figures(&new)
        );
    }
    println!(
        "\n{agree} rows agree, {differ} are apart by more than {APART} errors, and {few} have fewer than {FEWEST} effective chains\n"
    );
    match differ {
        0 => Ok(()),
        _ => Err(Error::invalid(
            "rows that were run anew",
            format!("{differ} apart from the saved ones"),
            "all within four errors",
        )),
    }
}

fn figures(run: &Pooled) -> String {
    let (value, error) = (run.estimate.value(), run.estimate.standard_error());
    format!("{value:.3} ({error:.3}), {}", share(run.share()))
}
