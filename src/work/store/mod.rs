//! Files that a run leaves on its way, to go on from after an interruption.
//!
//! ```
//! use annealed::prelude::*;
//! use std::time::Duration;
//!
//! # let folder = std::env::temp_dir().join(format!("annealed-docs-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # let file = folder.join("run.ckpt");
//! let path = GeometricPath::new(Gaussian::standard(1)?, Gaussian::isotropic(DVector::zeros(1), 0.5)?);
//! let ais = Ais::new(&path, RandomWalkMetropolis::new(0.7)?).chains(300);
//! let checkpointed = ais.checkpoint(&file).every(Duration::from_secs(300));
//! let run = checkpointed.resume_or_run()?; // goes on, if the program was interrupted
//! assert_eq!(run.log_z(), ais.run()?.log_z());
//! assert_eq!(run.log_z(), checkpointed.resume()?.log_z()); // at once: nothing is left to do
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! **What is saved.** The settings, what finished blocks of chains have left, and what blocks at work need to go on:
//! states, random streams, weights, sums, recorders and the memories of kernels. A resumed run has the bits of one that
//! was never interrupted, whatever its number of threads. With MPI rank 0 writes the same file for all processes, and
//! any number of them goes on from it. It works for plain, resampled and waste-free runs of
//! [`Ais`](crate::ais::Ais), for [`Tempering`](crate::tempering::Tempering), [`NestedSmc`](crate::nested::NestedSmc),
//! [`AdaptiveSmc`](crate::adaptive::AdaptiveSmc) and [`Rounds`](crate::adaptive::Rounds), with states, recorders, kernels and
//! memories that implement serde's traits. First passes, and islands of levels that are not finished, begin anew. A checkpoint is written at [intervals](Checkpointed::every), and when the run ends:
//! finished, stopped by a time limit or the progress callback, or failed. That of a finished run resumes to its result at
//! once.
//!
//! **How it is written.** The bytes go to a file of the same name and `.tmp` first, which takes the place of the older
//! one when it is on the disk. So at every moment there is a whole checkpoint. A run whose first checkpoint cannot be
//! written is an error. Where a later one cannot, on a full disk for instance, the run goes on, tries again after the
//! next interval, and [warns](crate::estimate::Warning::CheckpointNotWritten) if the last one of all failed;
//! [`Progress::checkpoint_age`](crate::ais::Progress::checkpoint_age) tells before. A link is followed. The file is locked
//! while a run writes it, where the system has locks: another run is refused.
//!
//! **What is checked.** A file must have its checksum, be written by the same version of this crate, and hold the
//! settings of the run that resumes it; an error names the first that differs. Threads, budgets and the progress callback
//! may be others, and there may be more chains than before. Path, kernel and schedule are compared by a fingerprint: what
//! becomes of eight chains in the first, the middle and the last stage. It sees another weight or step size, another
//! engine or machine that rounds differently. It does not see what these few chains do not meet, such as a mode far from
//! the base, nor a recorder, nor what a path or kernel holds but does not use there. A [label](Checkpointed::label) says
//! what it cannot see. States whose serde traits do not give back what was written are refused before the run begins.
//!
//! The format is not kept across versions of this crate.

mod checkpointed;
mod file;
mod keeper;
mod kept;
mod place;

#[cfg(test)]
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::checkpointed::Checkpointed;
#[cfg(feature = "mpi")]
pub(super) use self::checkpointed::From;
pub(crate) use self::checkpointed::Resumable;
pub(super) use self::keeper::{Finish, Piece};
#[cfg(feature = "mpi")]
pub(super) use self::keeper::{Keeper, Recipient, Saved};
pub(super) use self::kept::Desk;
pub(crate) use self::kept::KeptJob;
use super::job::caught;
use crate::{Error, Result};

/// Returns a value as bytes, in postcard's format; `what` names it in an error.
///
/// # Errors
/// A value that the format cannot hold: a list or map of unknown length, or what serde's `flatten` makes.
pub(crate) fn encode<T: Serialize + ?Sized>(what: &'static str, value: &T) -> Result<Vec<u8>> {
    let written = postcard::to_extend(value, Vec::new());
    written.map_err(|error| Error::invalid(what, error, "values that postcard can write"))
}

/// Reads a value that [`encode`] wrote.
///
/// # Errors
/// Bytes that are none, or too many.
pub(crate) fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T> {
    let read = postcard::take_from_bytes(bytes);
    let (value, rest) = read.map_err(|error| Error::invalid(what, error, "what was written"))?;
    let found = format!("{} bytes after it", rest.len());
    Error::check(rest.is_empty(), what, found, "none")?;
    Ok(value)
}

/// Turns a panic of serde's traits into an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let panic = |message| Error::invalid("states", format!("a panic: {message}"), "none");
    caught(work).unwrap_or_else(|message| Err(panic(message)))
}

/// Returns the checksum of what a few chains do, as bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Refuses the fingerprint of another path or kernel.
pub(crate) fn check_same(found: u32, mine: u32) -> Result<()> {
    let other = || Error::OtherRun {
        setting: "a path and kernel",
        found: "that do something else".to_owned(),
        expected: "other parameters, data, machine or build".to_owned(),
    };
    if found == mine { Ok(()) } else { Err(other()) }
}

/// For tests: a folder of its own, which goes with this value.
#[cfg(test)]
struct Folder(PathBuf);

#[cfg(test)]
impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("annealed-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the names of the files in it.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

#[cfg(test)]
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
