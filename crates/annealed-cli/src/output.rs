//! Writes reports, and checks the names of all files to write before any work.

use std::env;
use std::fs;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};

use annealed::{Error, Result};
use serde_json::Value;

/// Parses the name of a file in a folder that exists.
pub fn file(text: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(text);
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => Err(format!("there is no folder {}", folder.display())),
        None => Ok(file),
    }
}

/// Parses the name of a picture's file.
pub fn picture(text: &str) -> Result<PathBuf, String> {
    with_ending(text, "pictures are SVG", &["svg"])
}

/// Parses the name of a report's file. The report is JSON if the name ends in .json, otherwise text.
pub fn report(text: &str) -> Result<PathBuf, String> {
    let rule = "reports are text, or JSON by the ending .json";
    with_ending(text, rule, &["txt", "json", "md", "log", ""])
}

fn with_ending(text: &str, rule: &str, endings: &[&str]) -> Result<PathBuf, String> {
    let file = file(text)?;
    let ending = file.extension().unwrap_or_default().to_string_lossy();
    if endings.contains(&ending.to_lowercase().as_str()) {
        return Ok(file);
    }
    let other = file.with_extension(endings[0]);
    Err(format!("{rule}: name the file {}", other.display()))
}

/// Returns true if printed text may have colours: on a terminal, unless <https://no-color.org> is requested.
pub fn has_colour() -> bool {
    stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Writes a report: JSON if the name ends in .json, otherwise text.
pub fn write_report(file: &Path, json: &Value, text: &str) -> Result<()> {
    let ending = file.extension().unwrap_or_default();
    let report = match ending.eq_ignore_ascii_case("json") {
        true => format!("{json:#}\n"),
        false => text.to_owned(),
    };
    fs::write(file, report).map_err(|error| Error::io(file, error))
}
