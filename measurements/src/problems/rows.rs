//! Files of data: fields separated by commas.

use std::path::Path;

use annealed::{Error, Result};

/// Reads the fields of each line.
pub fn rows(file: &Path) -> Result<Vec<Vec<String>>> {
    let text = std::fs::read_to_string(file).map_err(|error| Error::io(file, error))?;
    let fields = |line: &str| {
        line.split(',')
            .map(|field| field.trim().to_owned())
            .collect()
    };
    Ok(text.lines().map(fields).collect())
}
