//! Runs of one RBM side by side: the differences of their log Z, and of their settings.

use std::path::{Path, PathBuf};

use annealed::ais::RunPart;
use annealed::estimate::{Estimate, LogRatio, Warning};
use annealed::prelude::Run;
use annealed::{Error, Result};
use serde_json::{Value, json};

use crate::saved::{self, Known, State};

/// Two runs disagree if their difference exceeds this number of standard errors.
const MOST: f64 = 3.0;

/// Number of differences that are printed, the largest first.
const PRINTED: usize = 3;

/// A run read from its files.
pub struct Read {
    files: Vec<PathBuf>,
    pub run: Run<State>,
    pub known: Known,
    /// Warnings that the run does not contain: from the search for its start, and from the lower bounds of all runs.
    pub doubts: Vec<Warning>,
}

impl Read {
    fn new(files: Vec<PathBuf>, part: RunPart<State>) -> Result<Self> {
        let run = RunPart::merge([part]).map_err(|error| Error::file(&files[0], error))?;
        let (known, doubts) = (Known::of_files(&files), Vec::new());
        Ok(Self {
            files,
            run,
            known,
            doubts,
        })
    }

    /// Reads the files, and joins parts of one run.
    pub fn all(files: &[PathBuf]) -> Result<Vec<Self>> {
        let mut runs: Vec<(Vec<PathBuf>, RunPart<State>)> = Vec::new();
        'files: for file in files {
            let part = saved::read(file)?;
            for (files, whole) in &mut runs {
                match RunPart::join([whole.clone(), part.clone()]) {
                    Ok(joined) => {
                        files.push(file.clone());
                        *whole = joined;
                        continue 'files;
                    }
                    Err(Error::OtherRun { .. }) => {}
                    Err(error) => {
                        let beside = files[0].display();
                        let reason = format!(
                            "{error} (beside {beside}; leave out one file of the same chains)"
                        );
                        return Err(Error::file(file, reason));
                    }
                }
            }
            runs.push((vec![file.clone()], part));
        }
        let runs = runs.into_iter();
        let runs: Result<Vec<Self>> = runs.map(|(files, part)| Self::new(files, part)).collect();
        let mut runs = runs?;
        let bounds = runs
            .iter()
            .flat_map(|read| read.known.contradictions.clone());
        let bounds: Vec<Warning> = bounds.collect();
        for read in &mut runs {
            read.doubts = read.known.doubts(&read.run, &bounds);
        }
        Ok(runs)
    }

    /// Returns the name of the first file, and the number of other files.
    pub fn name(&self) -> String {
        let first = self.files[0].display();
        match self.files.len() {
            1 => first.to_string(),
            count => format!("{first} and {} more", count - 1),
        }
    }

    /// Returns the name of the first file without its folder and ending.
    pub fn short_name(&self) -> String {
        let file: &Path = &self.files[0];
        let stem = file.file_stem().unwrap_or(file.as_os_str());
        stem.to_string_lossy().into_owned()
    }
}

/// The comparison of runs in pairs.
pub struct Comparison {
    /// The differences, sorted by their number of standard errors, the largest first.
    pairs: Vec<Pair>,
    /// Reasons why the runs cannot be pooled or compared, one sentence each.
    notes: Vec<String>,
    /// The estimate from all chains together, if the runs differ only in their seeds.
    pub pooled: Option<Estimate>,
}

struct Pair {
    names: [String; 2],
    difference: f64,
    error: f64,
}

impl Pair {
    fn of(one: &Read, other: &Read) -> Self {
        let ratio = LogRatio::new(&one.run, &other.run);
        let (lower, upper) = ratio.interval;
        let towards_zero = (ratio.value - lower, upper - ratio.value);
        // If the weights are skewed, the interval is wider than the standard error suggests.
        let wide = if ratio.value > 0.0 {
            towards_zero.0
        } else {
            towards_zero.1
        };
        Self {
            names: [one.name(), other.name()],
            difference: ratio.value,
            error: ratio.standard_error.max(wide / 1.96),
        }
    }

    fn errors(&self) -> f64 {
        match self.difference {
            0.0 => 0.0,
            difference => difference.abs() / self.error,
        }
    }

    fn text(&self) -> String {
        let [one, other] = &self.names;
        let (difference, error, errors) = (self.difference, self.error, self.errors());
        let beyond = match errors > MOST {
            true => ": they disagree, and the lower one has probably missed a part",
            false => "",
        };
        format!("{one} - {other}: {difference:+.3} +- {error:.3}, {errors:.1} errors{beyond}")
    }
}

impl Comparison {
    /// Compares the runs in pairs, and pools them if they differ only in their seeds.
    pub fn of(runs: &[Read]) -> Result<Self> {
        let (mut pairs, mut notes) = (Vec::new(), Vec::new());
        for (index, other) in runs.iter().enumerate() {
            for (place, one) in runs[..index].iter().enumerate() {
                match Relation::of(one, other) {
                    Relation::None(why) => {
                        notes.push(format!("not compared: {why}"));
                        continue;
                    }
                    Relation::Comparable(why) if place == 0 => {
                        notes.push(format!("not pooled: {why}"));
                    }
                    _ => {}
                }
                pairs.push(Pair::of(one, other));
            }
        }
        pairs.sort_by(|one, other| other.errors().total_cmp(&one.errors()));
        let all = runs.iter().map(|read| &read.run);
        let pooled = notes.is_empty().then(|| Run::pooled(all)).transpose()?;
        if notes.iter().any(|note| note.ends_with(OWN_START)) {
            notes.push(ONE_START.to_owned());
        }
        Ok(Self {
            pairs,
            notes,
            pooled,
        })
    }

    /// Returns the text of the largest difference, if it exceeds [`MOST`] standard errors.
    fn contradiction(&self) -> Option<String> {
        let largest = self.pairs.first()?;
        (largest.errors() > MOST).then(|| largest.text())
    }

    /// Draws the runs, labelled by `names`.
    pub fn draw(&self, runs: &[Read], names: &[String], file: &Path) -> Result<()> {
        let named = names.iter().map(String::as_str);
        let named = named.zip(runs.iter().map(|read| &read.run));
        let doubts: Vec<Warning> = runs.iter().flat_map(|read| read.doubts.clone()).collect();
        let mut picture = annealed_plot::runs(named).warnings(&doubts);
        if let Some(text) = self.contradiction() {
            picture = picture.contradiction(text);
        }
        picture.save(file)
    }

    /// Returns a line for each difference and for each note. A difference of more than [`MOST`] standard errors is red
    /// if `colour` is true.
    pub fn text(&self, colour: bool) -> String {
        let mut text = String::new();
        for pair in self.pairs.iter().take(PRINTED) {
            let line = format!("difference {}", pair.text());
            text += &match colour && pair.errors() > MOST {
                true => format!("\x1b[31m{line}\x1b[0m\n"),
                false => format!("{line}\n"),
            };
        }
        let smaller = self.pairs.len().saturating_sub(PRINTED);
        if smaller > 0 {
            text += &format!("{smaller} other differences are smaller\n");
        }
        for note in &self.notes {
            text += &format!("{note}\n");
        }
        text
    }

    /// Adds the differences and the notes to a report.
    pub fn add_to(&self, json: &mut Value) {
        let difference = |pair: &Pair| {
            json!({
                "runs": pair.names,
                "difference": pair.difference,
                "standard_error": pair.error,
                "errors": pair.errors(),
            })
        };
        json["differences"] = self.pairs.iter().map(difference).collect();
        json["notes"] = self.notes.clone().into();
    }
}

const OWN_START: &str = "another start, found by its own search";
const ONE_START: &str = "each seed searches for a start of its own; to pool runs, save the start of one by --save-start \
                         FILE, and give it to the others by --start FILE";

/// A relation between two runs.
enum Relation {
    /// They differ only in their seeds.
    Alike,
    /// They estimate the same log Z, but differ in the settings that the text names.
    Comparable(String),
    /// They cannot be compared, for the reason in the text.
    None(String),
}

impl Relation {
    fn of(one: &Read, other: &Read) -> Self {
        let (a, b) = (one.name(), other.name());
        let machines = one.known.machine.zip(other.known.machine);
        if machines.is_some_and(|(one, other)| one != other) {
            return Self::None(format!(
                "{b} is a run of another RBM than {a}, or of the same weights read the other way round"
            ));
        }
        let same_seed = one.run.seed() == other.run.seed();
        let (setting, found, expected) = match Run::pooled([&one.run, &other.run]) {
            Ok(_) => return Self::Alike,
            Err(Error::OtherRun {
                setting,
                found,
                expected,
            }) => (setting, found, expected),
            Err(_) if same_seed => {
                return Self::None(format!(
                    "{b} has the same seed as {a}, and so the same chains; run it with another --seed"
                ));
            }
            Err(error) => return Self::Comparable(format!("{b} beside {a}: {error}")),
        };
        let found = found.split(" in the run").next().unwrap_or_default();
        let by_path = setting.starts_with("a path");
        let mut different = match setting {
            _ if by_path => Vec::new(),
            "a number of stages of" => vec![format!("{found} stages, not {expected}")],
            setting => vec![format!("{setting} {found}, not {expected}")],
        };
        if same_seed {
            let shown =
                "the same seed, so their agreement is weaker evidence than that of two seeds";
            different.push(shown.to_owned());
        }
        match (&one.known.start, &other.known.start) {
            (Some(one), Some(other)) if one.base() != other.base() => {
                different.push(OWN_START.to_owned());
            }
            (Some(_), Some(_)) | (None, None) if !by_path => {}
            _ if machines.is_some() => different.push("another base or path".to_owned()),
            _ => different.push("another base, path or target".to_owned()),
        }
        Self::Comparable(format!("{b} beside {a} has {}", different.join("; ")))
    }
}
