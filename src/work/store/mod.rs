//! Checkpoint files, from which an interrupted run can resume.
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
//! **Content.** A checkpoint holds the settings, the outputs of finished blocks, and the state of blocks in progress.
//! The resumed run has the bits of an uninterrupted run, for any number of threads and processes. States, recorders
//! and kernels must implement serde's traits. An unfinished first pass, which finds stages, begins anew, and
//! so does an island of [`NestedSmc`](crate::nested::NestedSmc). A finished run returns its result at once when
//! resumed.
//!
//! **Writing.** A run writes at [intervals](Checkpointed::every) and when it ends, for whatever reason. A new file is
//! first named with `.tmp`, and replaces the old one only when it is complete and on the disk. The file is locked
//! against other runs, if the system has locks. If several [processes](Checkpointed::ranks) share a run, each writes
//! its own file, with its rank behind a dot. Any number of processes may resume from these files and then replace them.
//! Only the first checkpoint must succeed. If a later one fails, the run tries again after the next interval. If the
//! last one failed, the run [warns](crate::estimate::Warning::CheckpointNotWritten).
//!
//! **Checks.** A file must have a valid checksum, and the crate version and settings of the resuming run. Threads,
//! time limits and callbacks may differ, and there may be more chains. A fingerprint compares path, kernel and schedule by
//! eight chains in the first, middle and last stage. It detects other weights, step sizes, engines and rounding. It
//! misses recorders and anything that these chains do not meet; a [label](Checkpointed::label) can cover them. States
//! that serde does not restore exactly are refused before the run begins.

mod checkpointed;
mod file;
mod keeper;
mod parts;
mod place;

#[cfg(test)]
use std::path::{Path, PathBuf};

pub use self::checkpointed::Checkpointed;
pub(crate) use self::checkpointed::Resumable;
pub(super) use self::checkpointed::run_shared;
pub(super) use self::keeper::Keeper;
pub(super) use self::parts::{Finished, Outbox, Saved};
pub(crate) use super::bytes::{checksum, decode, encode, guarded};

/// A temporary folder for a test, deleted on drop.
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
