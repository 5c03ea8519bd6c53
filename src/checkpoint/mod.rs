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
//! [`Ais`](crate::ais::Ais) and for [`Tempering`](crate::tempering::Tempering), with states, recorders and memories that
//! implement serde's traits. A checkpoint is written at [intervals](Checkpointed::every), and when the run ends:
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
//! A file is untrusted: every count is compared with that of the run before anything of that number is read, and no
//! more is allocated than the file is long. The format is not kept across versions of this crate.

mod checkpointed;
mod codec;
#[cfg(feature = "mpi")]
mod courier;
mod file;
#[cfg(test)]
pub(crate) mod hostile;
mod keeper;
mod pieces;
mod place;
mod recipient;

pub use checkpointed::Checkpointed;
pub(crate) use codec::{Decoder, Encoder};
#[cfg(feature = "mpi")]
pub(crate) use courier::{Courier, Letter, Parcel, parcel, unpacked};
pub(crate) use crc32fast::hash as checksum;
pub(crate) use file::read;
#[cfg(test)]
pub(crate) use file::{Header, write};
pub(crate) use keeper::{Head, Keeper};
pub(crate) use pieces::{Piece, Pieces};
#[cfg(test)]
pub(crate) use place::Place;
pub(crate) use recipient::Recipient;
