//! A run with checkpoints.

use std::path::PathBuf;
use std::time::Duration;

use super::file::Header;
use super::keeper::Keeper;
use super::parts::{Saved, file_of, gathered, joined, remove_others};
use crate::num::setters;
use crate::work::bytes::{decode, encode, guarded};
use crate::work::execution::Execution;
use crate::work::identity::{Alike, Identity};
use crate::work::job::Job;
use crate::work::ledger::Share;
use crate::work::team::{Ranks, Team, gather};
use crate::{Error, Result};

/// A run that writes checkpoints to a file. The method `checkpoint` of a runner creates it, such as
/// [`Ais::checkpoint`](crate::ais::Ais::checkpoint).
#[derive(Clone)]
#[must_use]
pub struct Checkpointed<'a, A> {
    run: &'a A,
    file: PathBuf,
    every: Duration,
    label: Option<String>,
    ranks: Option<&'a dyn Ranks>,
}

/// A run whose blocks can be saved and sent.
pub trait Resumable {
    /// The result.
    type Run;

    /// Name of this kind of run in a file.
    const KIND: &'static str;

    /// Returns the threads, stopping rules and callbacks of the run.
    fn execution(&self) -> &Execution<'_>;

    /// Returns the standard error at which the run ends.
    fn until_error(&self) -> Option<f64> {
        self.execution().until_error
    }

    /// Checks the settings, and returns the identity that distinguishes this run from others.
    fn identity(&self) -> Result<Identity>;

    /// Returns how many blocks, from the first, this run can use from the file of the same run with another
    /// [`Identity::length`].
    fn usable(&self, _length: usize) -> Result<usize> {
        Ok(usize::MAX)
    }

    /// Runs all tasks of this run by `job`.
    fn go(&self, job: &mut Job<'_>) -> Result<Self::Run>;

    /// Adds to `run` the `seconds` of earlier calls, and a warning if the last checkpoint failed with `failure`.
    fn resumed(run: &mut Self::Run, seconds: f64, failure: Option<String>);
}

/// The starting point of a run: nothing, its checkpoint file, or this file if it exists.
#[derive(Debug, Clone, Copy)]
enum Origin {
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
            ranks: None,
        }
    }

    setters! {
        /// Sets the time between two checkpoints; a minute by default. A killed process loses at most this time and the
        /// stages in progress.
        every: Duration,
        /// Shares the run with other processes, which must all make the same call. If there are several, process r
        /// writes its own file, whose name ends in `.r`. Any number of processes may resume from these files. The files
        /// may be on one disk, or each on its own.
        ranks in Some: &'a dyn Ranks,
    }

    /// Sets a label for whatever the checks of path and kernel miss, such as data. A file with another label is
    /// refused.
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
        self.go(Origin::Nothing)
    }

    /// Resumes from the last checkpoint. The result has the bits of an uninterrupted run.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); [`Error::File`] without a checkpoint, or with one of another run.
    pub fn resume(&self) -> Result<A::Run> {
        self.go(Origin::File)
    }

    /// Resumes if there is a checkpoint, and otherwise runs from the beginning.
    ///
    /// # Errors
    /// The errors of [`resume`](Self::resume).
    pub fn resume_or_run(&self) -> Result<A::Run> {
        self.go(Origin::FileIfThere)
    }

    fn go(&self, origin: Origin) -> Result<A::Run> {
        match self.ranks {
            None => self.go_in(None, origin),
            Some(ranks) => Team::together(ranks, |team| self.go_in(Some(team), origin)),
        }
    }

    fn go_in(&self, team: Option<&Team<'_>>, origin: Origin) -> Result<A::Run> {
        let call = format!("{origin:?}, label {:?}", self.label);
        let identity = agreed_identity(self.run, team, &call)?;
        let share = team.map_or(Share::WHOLE, Team::share);
        let header = Header {
            kind: A::KIND,
            label: self.label.as_deref(),
            of: (share.rank, share.size),
        };
        let saved = self.saved(team, &header, origin, &identity)?;
        // Files of another number of processes are replaced at once, by files that each contain all blocks. Thus nothing
        // is lost if a process replaces its file again before the others do.
        let is_moved = saved.size != share.size;
        let saved = Saved {
            title: encode("identity", &identity)?,
            size: share.size,
            ..saved
        };
        let file = file_of(&self.file, share);
        let keeper = Keeper::new(&file, header, self.every, saved.without_blocks());
        gather(team, keeper.open(is_moved.then_some(&saved)))?;
        if is_moved {
            remove_others(&self.file, &header, share.size);
        }
        go_with(self.run, team, Some(keeper), saved)
    }

    /// Returns the content of the checkpoint if `origin` asks for it, otherwise nothing.
    fn saved(
        &self,
        team: Option<&Team<'_>>,
        header: &Header<'_>,
        origin: Origin,
        identity: &Identity,
    ) -> Result<Saved> {
        if matches!(origin, Origin::Nothing) {
            return Ok(Saved::default());
        }
        let parts = gathered(&self.file, header, team)?;
        if parts.is_empty() {
            let missing = || Error::file(&self.file, "there is no checkpoint to go on from");
            return match origin {
                Origin::File => Err(missing()),
                _ => Ok(Saved::default()),
            };
        }
        joined(parts, &|saved| {
            guarded(|| {
                let found: Identity = decode("identity", &saved.title)?;
                identity.check(&found, Alike::Exactly)?;
                Error::check_number("seconds", saved.seconds)?;
                self.run.usable(found.length)
            })
        })
    }
}

crate::num::debug_by_fields! {
    Checkpointed for [A: std::fmt::Debug] Checkpointed<'_, A> { run, file, every, label }
}

/// Shares `run` among several processes, without checkpoints.
pub(in crate::work) fn run_shared<A: Resumable>(run: &A, ranks: &dyn Ranks) -> Result<A::Run> {
    Team::together(ranks, |team| {
        agreed_identity(run, Some(team), "without checkpoints")?;
        go_with(run, Some(team), None, Saved::default())
    })
}

/// Returns the run's identity, with probe and checksum of the first process. Refuses processes with another `call` or
/// another run.
fn agreed_identity<A: Resumable>(run: &A, team: Option<&Team<'_>>, call: &str) -> Result<Identity> {
    let identity = run.identity();
    let Some(team) = team else {
        return identity;
    };
    let call = format!("{} {call}", A::KIND);
    let known = |identity: &Identity| (call.clone(), run.until_error(), identity.clone());
    let all = team.gather(identity.as_ref().map(known).map_err(Clone::clone))?;
    let (call_of_first, until_error, first) = &all[0];
    let identity = identity?;
    let alike = || {
        Error::check_found("the call", &call, call_of_first)?;
        Error::check_found("until_error", &run.until_error(), until_error)?;
        first.check(&identity, Alike::ToRounding)
    };
    team.gather(alike())?;
    Ok(identity.rounded_as(first))
}

fn go_with<A: Resumable>(
    run: &A,
    team: Option<&Team<'_>>,
    keeper: Option<Keeper<'_>>,
    saved: Saved,
) -> Result<A::Run> {
    let mut job = Job {
        team,
        keeper,
        saved,
        ..Job::new(run.execution())?
    };
    let done = run.go(&mut job);
    let Some(keeper) = &job.keeper else {
        return done;
    };
    // All processes stop together, and have saved their work. Any other error ends this process at once.
    if !matches!(done, Ok(_) | Err(Error::Stopped { .. })) {
        return done;
    }
    let failures = gather(team, Ok(keeper.failure()))?;
    let mut done = done?;
    let failure = failures.into_iter().flatten().next();
    A::resumed(&mut done, keeper.seconds_before(), failure);
    Ok(done)
}
