//! Saved runs and parts of runs: JSON, as `serde_json` writes a `PartialRun` or a `Run` of the library.

use std::fs;
use std::path::Path;

use annealed::ais::PartialRun;
use annealed::prelude::Run;
use annealed::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A state of a chain as it stands in the file: runs over any states can be merged and drawn.
pub type State = Box<RawValue>;

/// Reads a run, or a part of one.
pub fn read<S: DeserializeOwned>(file: &Path) -> Result<PartialRun<S>> {
    let text = fs::read_to_string(file).map_err(|error| Error::io(file, error))?;
    if let Ok(run) = serde_json::from_str::<Run<S>>(&text) {
        return Ok(run.into());
    }
    serde_json::from_str(&text)
        .map_err(|error| Error::file(file, format!("is no saved run or part of one: {error}")))
}

/// Writes a file beside an old one, and then puts it in its place: a program that is killed leaves a whole file.
pub fn write(file: &Path, part: &PartialRun<impl Serialize>) -> Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".tmp");
    let text = serde_json::to_string(part).map_err(|error| Error::file(file, error))?;
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| Error::io(file, error))
}
