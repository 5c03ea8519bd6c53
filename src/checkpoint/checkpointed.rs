//! A run that leaves checkpoints on its way.

use std::path::PathBuf;
use std::time::Duration;

use super::file::Header;
use super::keeper::{Keeper, MakeHead};
use super::pieces::Pieces;
use super::place::Place;

/// A run that leaves checkpoints in a file, made by [`Ais::checkpoint`](crate::ais::Ais::checkpoint) or
/// [`Tempering::checkpoint`](crate::tempering::Tempering::checkpoint).
#[derive(Debug, Clone)]
#[must_use]
pub struct Checkpointed<'a, A> {
    pub(crate) run: &'a A,
    pub(crate) file: PathBuf,
    every: Duration,
    label: Option<String>,
}

impl<'a, A> Checkpointed<'a, A> {
    pub(crate) fn new(run: &'a A, file: PathBuf) -> Self {
        Self {
            run,
            file,
            every: Duration::from_secs(60),
            label: None,
        }
    }

    /// The time between two checkpoints; a minute unless set. As much work, and what is done until each block at
    /// work has ended a stage, is lost at most where a process is killed.
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = interval;
        self
    }

    /// A name for what no fingerprint sees, such as the data of a likelihood, or the version of a program. A file of
    /// another name is refused.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    pub(crate) fn header<'h>(&'h self, kind: &'h str) -> Header<'h> {
        Header {
            kind,
            label: self.label.as_deref(),
        }
    }

    /// What writes checkpoints of this kind of run, going on from these pieces.
    pub(crate) fn keeper<'h>(
        &'h self,
        kind: &'h str,
        pieces: Pieces,
        head: MakeHead<'h>,
    ) -> Keeper<'h> {
        let place = Place::new(&self.file);
        Keeper::new((place, self.header(kind)), self.every, pieces, head)
    }
}
