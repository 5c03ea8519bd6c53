//! Where the chains start.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use annealed::rbm::{BaseRate, Start, StartSearch};
use annealed::{Error, Result};

use super::annealing::CHAINS;
use super::options::{Base, Options};
use super::problem::Problem;
use crate::saved;

/// The base of the options, and the search that found it, if there was one.
pub fn choose(options: &Options, problem: &Problem) -> Result<(BaseRate, Option<Start>)> {
    if options.base != Base::Auto {
        return Ok((problem.simple_base()?, None));
    }
    let start = match found_before(options)? {
        Some(start) => start,
        None => search(options, problem)?,
    };
    let units = (problem.rbm.hidden_units(), problem.rbm.visible_units());
    let of_start = (start.base().hidden_units(), start.base().visible_units());
    if let (Some(file), false) = (&options.start, units == of_start) {
        let reason = format!("is of {of_start:?} hidden and visible units, expected {units:?}");
        return Err(Error::file(file, reason));
    }
    for file in options.save_start.iter().chain(&beside_checkpoint(options)) {
        saved::replace(file, &start)?;
    }
    Ok((start.base().clone(), Some(start)))
}

/// The start of --start, of a saved run that is extended, or beside a checkpoint.
fn found_before(options: &Options) -> Result<Option<Start>> {
    if let Some(file) = &options.start {
        let text = fs::read_to_string(file).map_err(|error| Error::io(file, error))?;
        let start = serde_json::from_str(&text);
        return start
            .map(Some)
            .map_err(|error| Error::file(file, format!("is no saved start: {error}")));
    }
    if let Some(start) = options.extend.iter().find_map(|file| saved::start_of(file)) {
        return Ok(Some(start));
    }
    let beside =
        beside_checkpoint(options).filter(|file| file.exists() && checkpoint(options).exists());
    let text = beside.and_then(|file| fs::read_to_string(file).ok());
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

fn search(options: &Options, problem: &Problem) -> Result<Start> {
    let chains = options.chains.unwrap_or(CHAINS);
    let mut search = StartSearch::new(chains, options.stages()?)
        .seed(options.seed)
        .engine(options.engine)
        .threads(options.threads);
    if let Some(base_rates) = &problem.base_rates {
        search = search.given(base_rates.clone());
    }
    if !options.json {
        search = search.progress_bar();
    }
    search.run(&problem.rbm)
}

/// The checkpoint of the options; a name that is no file where they have none.
fn checkpoint(options: &Options) -> &Path {
    let file = options.checkpoint.as_ref().or(options.resume.as_ref());
    file.map_or(Path::new(""), PathBuf::as_path)
}

/// `FILE.start`, where a run of the checkpoint FILE keeps its start.
fn beside_checkpoint(options: &Options) -> Option<PathBuf> {
    let file = options.checkpoint.as_ref().or(options.resume.as_ref())?;
    let mut beside = OsString::from(file);
    beside.push(".start");
    Some(beside.into())
}
