//! `annealed rbm`: the log partition function of a restricted Boltzmann machine, with an interval, and the
//! likelihood of data.

mod annealing;
mod bounds;
mod options;
mod part;
mod problem;
mod report;
mod reverse;
mod start;

use std::time::Instant;

use annealed::{Error, Result};

use crate::interrupt::Interrupt;
pub use options::Options;
use problem::Problem;
use report::Report;
use reverse::Backward;

/// Runs what the options ask for; returns what came of it.
pub fn score(options: &Options, interrupt: &Interrupt) -> Result<String> {
    let problem = Problem::read(options)?;
    let begun = Instant::now();
    let listens = interrupt.listen();
    listens.map_err(|error| Error::file("signals", error.to_string()))?;
    let (base, start) = start::choose(options, &problem, interrupt)?;
    let mut path = problem::anneal_along(options, base, problem.rbm.clone())?;
    if let Some(engine) = options.engine {
        path = path.with_simd_level(engine)?;
    }
    if let Some(start) = &start {
        path = path.with_start(start)?;
    }
    let schedule = options.schedule(&path, interrupt)?;
    let pilot_seconds = begun.elapsed().as_secs_f64();
    let done = annealing::read_done(options)?;
    let ais = annealing::describe(options, done.as_ref(), &path, schedule, interrupt)?;
    if let (Some(part), Some(file)) = (options.part, &options.save) {
        return part.run(&ais, file, start.as_ref());
    }
    let Some(run) = annealing::run(options, &ais, done)? else {
        return Ok(String::new());
    };
    let mut report = Report::of_forward(&problem, &path, &run, start.as_ref())?;
    report.pilot_seconds = pilot_seconds;
    report.continued = options.resume.is_some() || !options.extend.is_empty();
    if let Some(file) = &options.save {
        report.save_run(file)?;
    }
    if let Some(source) = &options.reverse {
        report.backward = Backward::run(&ais, &run, &problem, source)?;
    }
    report.score()?;
    if let Some(chains) = options.raise {
        report.raise = Some(ais.raise(&problem.held_out, chains)?);
    }
    report.write_files(options)?;
    match options.json {
        true => Ok(report.json().to_string() + "\n"),
        false => Ok(report.to_string()),
    }
}
