//! `annealed rbm`: the log partition function of a restricted Boltzmann machine, with an interval, and the
//! likelihood of data.

mod annealing;
mod bounds;
mod options;
mod part;
mod problem;
mod processes;
mod report;
mod reverse;
mod source;
mod start;
mod stopped;

use std::error::Error as AnyError;
use std::time::Instant;

use annealed::Error;

use crate::interrupt::Interrupt;
use crate::saved::Known;
pub use options::Options;
use problem::Problem;
use processes::Processes;
use report::Report;
use reverse::Backward;
use stopped::Phase;

/// Runs what the options request, and returns the text to print.
pub fn score(options: &Options, interrupt: &Interrupt) -> Result<String, Box<dyn AnyError>> {
    let problem = Problem::read(options)?;
    let begun = Instant::now();
    let listens = interrupt.listen();
    listens.map_err(|error| Error::file("signals", error.to_string()))?;
    let stopped = |phase| move |error| stopped::before_a_result(error, options, phase);
    let (base, start) =
        start::choose(options, &problem, interrupt).map_err(stopped(Phase::Search))?;
    let mut path = problem::anneal_along(options, base, &problem)?;
    if let Some(engine) = options.engine {
        path = path.with_simd_level(engine)?;
    }
    if let Some(start) = &start {
        path = path.with_start(start)?;
    }
    let schedule = options.schedule(&path, interrupt);
    let schedule = schedule.map_err(stopped(Phase::Schedule))?;
    let pilot_seconds = begun.elapsed().as_secs_f64();
    let done = annealing::read_done(options, &problem.rbm)?;
    let chains = annealing::chains(options, done.as_ref());
    let processes = Processes::begin(options)?;
    let by = (interrupt, &processes);
    let ais = annealing::describe(options, chains, &path, schedule, by)?;
    if let (Some(part), Some(file)) = (options.part, &options.save) {
        let known = Known::new(&problem.rbm, start.as_ref(), &[]);
        return Ok(part.run(&ais, file, &known)?);
    }
    let run = annealing::run(options, &ais, done, &processes);
    let run = run.map_err(stopped(Phase::Run))?;
    if !processes.speaks() {
        return Ok(String::new());
    }
    let mut report = Report::of_forward(&problem, &path, &run, start.as_ref())?;
    report.pilot_seconds = pilot_seconds;
    report.continued = options.resume.is_some() || !options.extend.is_empty();
    if let Some(file) = &options.save {
        report.save_run(file, stopped::asked(&run, chains))?;
    }
    if let Some(text) = stopped::to_go_on(options, &run, chains) {
        eprintln!("{text}");
    }
    if let Some(source) = &options.reverse {
        report.backward = Backward::run(&ais, &run, &problem, source)?;
    }
    report.score()?;
    if let Some(chains) = options.raise {
        report.raise = match ais.raise(&problem.held_out, chains) {
            Err(Error::Stopped { .. }) => {
                eprintln!("RAISE was interrupted, and is left out");
                None
            }
            found => Some(found?),
        };
    }
    report.write_files(options)?;
    match options.json {
        true => Ok(report.json().to_string() + "\n"),
        false => Ok(report.to_string()),
    }
}
