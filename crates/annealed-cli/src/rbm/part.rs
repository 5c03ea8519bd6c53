//! One part of a run, computed by one job among many.

use std::path::Path;
use std::str::FromStr;

use annealed::Result;
use annealed::ais::Ais;
use annealed::rbm::{BlockGibbs, RbmPath};

use crate::saved::{self, Known};

/// Part `number` of `parts`, counted from 1, as in `3/8`.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    number: usize,
    parts: usize,
}

impl FromStr for Part {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let split = text.split_once('/');
        let counts = split.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let inside = counts.filter(|&(number, parts)| (1..=parts).contains(&number));
        let part = inside.map(|(number, parts)| Self { number, parts });
        part.ok_or("expected I/N with I from 1 to N, as 3/8")
    }
}

impl Part {
    /// Runs the part, saves it, and returns the text to print.
    pub fn run(
        self,
        ais: &Ais<'_, &RbmPath, BlockGibbs>,
        file: &Path,
        known: &Known,
    ) -> Result<String> {
        let Self { number, parts } = self;
        let ranges = ais.ranges(parts)?;
        let Some(range) = ranges.get(number - 1) else {
            let enough = ranges.len();
            return Ok(format!(
                "part {number} of {parts} has nothing to do: the blocks of chains make only {enough} parts; use at most \
                 {enough}, or a smaller --block-size\n"
            ));
        };
        let part = ais.run_range(range.clone())?;
        saved::write(file, &part, known)?;
        let (done, of, file) = (part.finished(), range.len(), file.display());
        if done < of {
            eprintln!(
                "{}: run the same command again; it starts this part from the beginning",
                part.stopped_by()
            );
        }
        Ok(format!(
            "part {number} of {parts}: {done} of {of} chains in {file}\n"
        ))
    }
}
