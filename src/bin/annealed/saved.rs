//! Saved runs and parts of runs: JSON, as `serde_json` writes a `RunPart` or a `Run` of the library.

use std::fs;
use std::path::Path;

use annealed::ais::RunPart;
use annealed::prelude::Run;
use annealed::rbm::Start;
use annealed::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A state of a chain as it stands in the file: runs over any states can be merged and drawn.
pub type State = Box<RawValue>;

/// Reads a run, or a part of one.
pub fn read<S: DeserializeOwned>(file: &Path) -> Result<RunPart<S>> {
    let text = fs::read_to_string(file).map_err(|error| Error::io(file, error))?;
    if let Ok(run) = serde_json::from_str::<Run<S>>(&text) {
        return Ok(run.into());
    }
    serde_json::from_str(&text)
        .map_err(|error| Error::file(file, format!("is no saved run or part of one: {error}")))
}

/// Writes a run, with the start that a search found for it.
pub fn write(file: &Path, part: &RunPart<impl Serialize>, start: Option<&Start>) -> Result<()> {
    let part = text(file, part)?;
    let Some(start) = start else {
        return put(file, &part);
    };
    // One more field of the same object.
    let start = text(file, start)?;
    let fields = part.strip_prefix('{').expect("a run is an object");
    put(file, &format!("{{\"start\":{start},{fields}"))
}

/// The start in a saved run, where there is one.
pub fn start_of(file: &Path) -> Option<Start> {
    #[derive(Deserialize)]
    struct Started {
        start: Start,
    }
    let text = fs::read_to_string(file).ok()?;
    let started: Started = serde_json::from_str(&text).ok()?;
    Some(started.start)
}

/// Writes a value as JSON in the place of an old file.
pub fn replace(file: &Path, value: &impl Serialize) -> Result<()> {
    put(file, &text(file, value)?)
}

/// Writes a file beside an old one, and then puts it in its place: a program that is killed leaves a whole file.
fn put(file: &Path, text: &str) -> Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".tmp");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| Error::io(file, error))
}

fn text(file: &Path, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::file(file, error))
}
