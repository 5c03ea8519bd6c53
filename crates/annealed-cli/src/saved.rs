//! Saved runs and parts of runs: JSON, as `serde_json` writes a `RunPart` or a `Run` of the library, with facts that do
//! not follow from the chains.

use std::fs;
use std::path::{Path, PathBuf};

use annealed::ais::RunPart;
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::prelude::Run;
use annealed::rbm::{Rbm, Start};
use annealed::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A chain's state as unparsed JSON, so that runs with any type of states can be merged and drawn.
pub type State = Box<RawValue>;

/// Facts saved with a run that do not follow from its chains.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// A hash of the parameters of the RBM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<u32>,
    /// The start that a search found for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// The requested number of chains, if the run was stopped before it had them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<usize>,
    /// Lower bounds that contradict the run, as warnings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Warning>,
}

impl Known {
    pub fn new(rbm: &Rbm, start: Option<&Start>, warnings: &[Warning]) -> Self {
        Self {
            machine: Some(hash(rbm)),
            start: start.cloned(),
            asked: None,
            contradictions: bounds(warnings).cloned().collect(),
        }
    }

    /// Joins the facts from several files of one run.
    pub fn of_files(files: &[PathBuf]) -> Self {
        let mut all = Self::default();
        for known in files.iter().filter_map(|file| read_known(file)) {
            all.machine = all.machine.or(known.machine);
            all.start = all.start.or(known.start);
            all.asked = all.asked.max(known.asked);
            all.contradictions.extend(known.contradictions);
        }
        all
    }

    /// Returns warnings that the run does not contain: from the search for its start, and from the highest of `bounds`.
    pub fn doubts<S>(&self, run: &Run<S>, bounds: &[Warning]) -> Vec<Warning> {
        let bound = |warning: &Warning| match *warning {
            Warning::BelowBound {
                bound, confidence, ..
            } => Some((bound, confidence)),
            _ => None,
        };
        let bounds = bounds.iter().filter_map(bound);
        let highest = bounds.max_by(|one, other| one.0.total_cmp(&other.0));
        doubts(run, self.start.as_ref(), highest)
    }
}

/// Returns the warnings that the search for the start raises about a run. Adds `bound` with its confidence if it lies
/// above the run's interval and no warning contains a bound yet.
pub fn doubts<S>(run: &Run<S>, start: Option<&Start>, bound: Option<(f64, f64)>) -> Vec<Warning> {
    let mut doubts = start.map_or(Vec::new(), |start| start.warnings_of(run));
    let (_, upper) = run.interval();
    let told = bounds(&doubts).chain(bounds(run.warnings())).count() > 0;
    let above = bound.filter(|(bound, _)| !told && *bound > upper);
    doubts.extend(above.map(|(bound, confidence)| Warning::BelowBound {
        bound,
        confidence,
        upper,
    }));
    doubts
}

/// Returns the warnings that a lower bound lies above a run's log Z.
fn bounds(warnings: &[Warning]) -> impl Iterator<Item = &Warning> {
    let is_bound = |warning: &&Warning| matches!(warning, Warning::BelowBound { .. });
    warnings.iter().filter(is_bound)
}

fn read_known(file: &Path) -> Option<Known> {
    let text = fs::read_to_string(file).ok()?;
    serde_json::from_str(&text).ok()
}

fn hash(rbm: &Rbm) -> u32 {
    let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(format!("{hidden} x {visible}").as_bytes());
    let biases = rbm.hidden_bias().iter().chain(rbm.visible_bias());
    for parameter in rbm.weights().iter().chain(biases) {
        hasher.update(&parameter.to_le_bytes());
    }
    hasher.finalize()
}

/// Reads a run, or a part of one.
pub fn read<S: DeserializeOwned>(file: &Path) -> Result<RunPart<S>> {
    let bytes = fs::read(file).map_err(|error| Error::io(file, error))?;
    let other = |what: &str| {
        let expected = "expected the JSON that --save FILE writes";
        Error::file(file, format!("is {what}, {expected}"))
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| match bytes.starts_with(b"annealed") {
        true => other("a checkpoint (to continue it, run the command that wrote it)"),
        false => other("a binary file, such as those of RBMs and of data"),
    })?;
    if !text.trim_start().starts_with('{') {
        return Err(other("a text, such as a report printed without --json"));
    }
    if let Ok(run) = serde_json::from_str::<Run<S>>(text) {
        return Ok(run.into());
    }
    serde_json::from_str(text).map_err(|error| {
        let json: Value = serde_json::from_str(text).unwrap_or_default();
        let has = |key: &str| json.get(key).is_some();
        match has("settings") {
            false if has("log_z") => other("a report"),
            false if has("candidates") => other("a start, which --start reads"),
            _ => other(&format!("no saved run or part of one ({error})")),
        }
    })
}

/// Writes a run and its `known` facts as one JSON object.
pub fn write(file: &Path, part: &RunPart<impl Serialize>, known: &Known) -> Result<()> {
    let (part, known) = (text(file, part)?, text(file, known)?);
    let (fields, known) = (part.strip_prefix('{'), known.strip_suffix('}'));
    let (fields, known) = fields.zip(known).expect("both are objects");
    // Joins both as fields of one object.
    let comma = if known == "{" { "" } else { "," };
    put(file, &format!("{known}{comma}{fields}"))
}

/// Returns whether a file was saved by a run of another RBM. A file without this information is taken as one of `rbm`.
pub fn is_of_another(file: &Path, rbm: &Rbm) -> bool {
    let machine = read_known(file).and_then(|known| known.machine);
    machine.is_some_and(|machine| machine != hash(rbm))
}

/// Returns the start in a saved run, if there is one.
pub fn start_of(file: &Path) -> Option<Start> {
    read_known(file)?.start
}

/// Writes a value as JSON, and replaces an old file.
pub fn replace(file: &Path, value: &impl Serialize) -> Result<()> {
    put(file, &text(file, value)?)
}

/// Writes a file beside an old one, then replaces the old one. If the program is killed, a complete file remains. Each of several
/// processes that make the same file writes one of its own beside it.
fn put(file: &Path, text: &str) -> Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| Error::io(file, error))
}

fn text(file: &Path, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::file(file, error))
}
