//! A run with checkpoints.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::file::{Header, read};
use super::keeper::{Keeper, Saved};
use super::kept::{Destination, KeptJob};
use super::place::Place;
use super::{check_same, decode, encode, guarded};
use crate::work::execution::Execution;
use crate::work::job::Job;
use crate::work::others::Others;
use crate::{Error, Result};

/// A run that writes checkpoints to a file. The method `checkpoint` of a runner creates it, such as
/// [`Ais::checkpoint`](crate::ais::Ais::checkpoint).
#[derive(Debug, Clone)]
#[must_use]
pub struct Checkpointed<'a, A> {
    pub(in crate::work) run: &'a A,
    pub(in crate::work) file: PathBuf,
    every: Duration,
    label: Option<String>,
}

/// A run whose blocks can be saved.
pub trait Resumable {
    /// The result.
    type Run;
    /// All that fixes the bits of the result, except path and kernel.
    type Settings: Serialize + DeserializeOwned;

    /// Name of this kind of run in a file.
    const KIND: &'static str;

    /// Returns the settings.
    fn settings(&self) -> Self::Settings;

    /// Returns how the run is carried out.
    fn execution(&self) -> &Execution<'_>;

    /// Checks the settings, and returns a fingerprint of path and kernel.
    fn fingerprint(&self) -> Result<u32>;

    /// Refuses the settings of another run. Returns the number of its blocks that are of use.
    fn check_found(&self, found: &Self::Settings) -> Result<usize>;

    /// Refuses settings, path or kernel that differ from rank 0's.
    #[cfg(feature = "mpi")]
    fn agree(&self, ranks: &mut crate::work::mpi::Ranks, fingerprint: Option<u32>) -> Result<()> {
        if ranks.rank() == 0 {
            return ranks.tell_all(&(self.settings(), fingerprint));
        }
        let (_, (first, of_first)): (_, (Self::Settings, _)) = ranks.hear()?;
        self.check_found(&first)?;
        crate::work::mpi::check_fingerprint(fingerprint, of_first)
    }

    /// Runs the job. Returns `None` in a process that does not lead.
    fn go(&self, job: &mut KeptJob<'_>) -> Result<Option<Self::Run>>;

    /// Adds the seconds of earlier calls, and a warning if the last checkpoint failed.
    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>);
}

/// The start of a run.
#[derive(Debug, Clone, Copy)]
pub(in crate::work) enum From {
    Nothing,
    File,
    FileIfThere,
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

    /// Sets the time between two checkpoints; a minute by default. A killed process loses no more, plus stages at
    /// work.
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = interval;
        self
    }

    /// Sets a name for what no fingerprint sees, such as data. A file with another label is refused.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
}

impl<A: Resumable> Checkpointed<'_, A> {
    /// Runs from the beginning, and replaces an existing file.
    ///
    /// # Errors
    /// The errors of the run without checkpoints; [`Error::File`] if the first checkpoint cannot be written or another
    /// run is writing the file; states that serde does not restore exactly.
    pub fn run(&self) -> Result<A::Run> {
        self.alone(From::Nothing)
    }

    /// Resumes from the last checkpoint. The result has the bits of an uninterrupted run.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); [`Error::File`] without a checkpoint, or with one of another run.
    pub fn resume(&self) -> Result<A::Run> {
        self.alone(From::File)
    }

    /// Resumes if there is a checkpoint, and otherwise runs from the beginning.
    ///
    /// # Errors
    /// The errors of [`resume`](Self::resume).
    pub fn resume_or_run(&self) -> Result<A::Run> {
        self.alone(From::FileIfThere)
    }

    fn alone(&self, from: From) -> Result<A::Run> {
        let fingerprint = self.run.fingerprint()?;
        let found = self.found(from, fingerprint)?;
        let run = self.go(fingerprint, found, None)?;
        Ok(run.expect("the only process leads"))
    }

    fn header(&self) -> Header<'_> {
        Header {
            kind: A::KIND,
            label: self.label.as_deref(),
        }
    }

    /// Reads the checkpoint, if `from` asks for it, with the number of its blocks that are of use.
    pub(in crate::work) fn found(
        &self,
        from: From,
        fingerprint: u32,
    ) -> Result<Option<(Saved, usize)>> {
        let is_there = || self.file.try_exists().unwrap_or(true);
        let reads = match from {
            From::Nothing => false,
            From::File => true,
            From::FileIfThere => is_there(),
        };
        let found = |payload: &[u8]| {
            guarded(|| {
                let saved: Saved = decode("checkpoint", payload)?;
                let (settings, theirs): (A::Settings, u32) = decode("settings", &saved.title)?;
                let usable = self.run.check_found(&settings)?;
                check_same(theirs, fingerprint)?;
                Error::check_number("seconds", saved.seconds)?;
                Ok((saved, usable))
            })
        };
        reads
            .then(|| read(&self.file, &self.header(), found))
            .transpose()
    }

    /// Runs the job in the process that writes the file.
    pub(in crate::work) fn go<'s>(
        &'s self,
        fingerprint: u32,
        found: Option<(Saved, usize)>,
        others: Option<&'s mut dyn Others>,
    ) -> Result<Option<A::Run>> {
        let is_new = found.is_none();
        let (saved, usable) = found.unwrap_or((Saved::default(), usize::MAX));
        let title = encode("settings", &(self.run.settings(), fingerprint))?;
        let place = (Place::new(&self.file), self.header());
        let keeper = Keeper::new(place, self.every, title, &saved);
        keeper.open(is_new)?;
        let mut job = KeptJob {
            job: Job::new(self.run.execution())?,
            destination: Destination::Keeper(Box::new(keeper)),
            saved,
            usable,
            others,
        };
        let run = self.run.go(&mut job)?;
        let keeper = job.destination.keeper().expect("it was made above");
        Ok(run.map(|mut run| {
            A::resumed(&mut run, keeper.seconds_before(), keeper.failure());
            run
        }))
    }
}
