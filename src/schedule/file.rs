//! Files of schedules: text with one beta in each line.

use std::fs;
use std::path::Path;

use crate::schedule::Schedule;
use crate::{Error, Result};

impl Schedule {
    /// Writes the betas as text, one in each line, with all digits that their bits need.
    ///
    /// # Errors
    /// [`Error::File`] where the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let lines: String = self
            .betas()
            .iter()
            .map(|beta| format!("{beta}\n"))
            .collect();
        fs::write(&path, lines).map_err(|error| Error::io(path, error))
    }

    /// Reads what [`save`](Self::save) wrote. It skips empty lines and lines that start with `#`.
    ///
    /// # Errors
    /// [`Error::File`] where the file cannot be read, a line is not a number, or the numbers are
    /// not a schedule.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
        let betas: Result<Vec<f64>> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
            .map(|(index, line)| {
                line.trim().parse().map_err(|_| {
                    let place = index + 1;
                    Error::file(path, format!("line {place} is {line:?}, expected a number"))
                })
            })
            .collect();
        Self::new(betas?).map_err(|error| Error::file(path, error))
    }
}
