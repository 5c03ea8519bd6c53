//! The base from which the chains start.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use annealed::rbm::{BaseRate, Start, StartSearch};
use annealed::{Error, Result};

use super::options::{Base, Options};
use super::problem::Problem;
use crate::interrupt::Interrupt;
use crate::saved;

/// Returns the base that the options select, and the search that found it, if there was one.
pub fn choose(
    options: &Options,
    problem: &Problem,
    interrupt: &Interrupt,
) -> Result<(BaseRate, Option<Start>)> {
    if options.base != Base::Auto {
        if let Some(file) = &options.save_start {
            let expected = "--base auto, which searches for a start";
            return Err(Error::invalid("--save-start", file.display(), expected));
        }
        return Ok((problem.simple_base(options.base)?, None));
    }
    let start = match found_before(options, problem)? {
        Some(start) => start,
        None => search(options, problem, interrupt)?,
    };
    let beside = options.checkpoint_file().map(beside);
    for file in options.save_start.iter().chain(&beside) {
        saved::replace(file, &start)?;
    }
    Ok((start.base().clone(), Some(start)))
}

/// Returns the start from --start, from a saved run that is extended, or from the file beside a checkpoint.
fn found_before(options: &Options, problem: &Problem) -> Result<Option<Start>> {
    let mut saved = options.extend.iter();
    if let Some((file, start)) = saved.find_map(|file| Some((file, saved::start_of(file)?))) {
        return check(start, file, problem).map(Some);
    }
    let checkpoint = options.checkpoint_file().filter(|file| file.exists());
    let Some(file) = options.start.clone().or(checkpoint.map(beside)) else {
        return Ok(None);
    };
    if options.start.is_none() && !file.exists() {
        eprintln!(
            "{} is missing: searching again for the start",
            file.display()
        );
        return Ok(None);
    }
    let bytes = fs::read(&file).map_err(|error| Error::io(&file, error))?;
    let start: Start = serde_json::from_slice(&bytes)
        .map_err(|error| Error::file(&file, format!("is no saved start: {error}")))?;
    check(start, &file, problem).map(Some)
}

/// Returns `start`, or an error that names `file` if the start was found for another RBM.
fn check(start: Start, file: &Path, problem: &Problem) -> Result<Start> {
    let checked = start.check(&problem.rbm);
    checked
        .map(|()| start)
        .map_err(|error| Error::file(file, error))
}

fn search(options: &Options, problem: &Problem, interrupt: &Interrupt) -> Result<Start> {
    let mut search = StartSearch::new(options.number_of_stages()?)
        .seed(options.seed)
        .simd_level(options.engine)
        .threads(options.threads)
        .stop_when(|| interrupt.is_asked());
    if let Some(base_rates) = &problem.base_rates {
        search = search.given(base_rates.clone());
    }
    if !options.json {
        search = search.progress_bar();
    }
    search.run(&problem.rbm)
}

/// Returns `FILE.start`, the file in which a run with the checkpoint FILE keeps its start.
fn beside(file: &Path) -> PathBuf {
    let mut beside = OsString::from(file);
    beside.push(".start");
    beside.into()
}
