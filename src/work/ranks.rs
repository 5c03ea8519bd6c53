//! Runs that several processes share.
//!
//! [`Ranks`] is all that a run asks of MPI, or of any other way to gather bytes. All processes run the same program with the
//! same settings and seeds, and all have the result, with the bits of a run of one process:
//!
//! ```no_run
//! use annealed::prelude::*;
//! use annealed::ranks::Ranks;
//!
//! # struct World;
//! # impl Ranks for World {
//! #     fn rank(&self) -> usize { 0 }
//! #     fn size(&self) -> usize { 1 }
//! #     fn all_gather(&self, mine: Vec<u8>) -> annealed::Result<Vec<Vec<u8>>> { Ok(vec![mine]) }
//! # }
//! # let world = World;
//! # let path = GeometricPath::new(Gaussian::standard(1)?, Gaussian::isotropic(DVector::zeros(1), 0.5)?);
//! let ais = Ais::new(&path, RandomWalkMetropolis::new(0.7)?).chains(100_000);
//! let run = ais.ranks(&world).run()?;
//! if world.rank() == 0 {
//!     println!("{run}");
//! }
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! **Work.** Rank r of n does the blocks b with `b mod n = r` on its own threads. Meanwhile the calling thread meets the
//! other processes, at most a second apart: they gather the blocks that are finished, failures, and requests to stop. A
//! first pass is one block, which rank 0 does. All come to the same decisions. A process whose callback, `stop_when` or time
//! limit asks for it stops all at the end of a step.
//!
//! **Failures** end all processes. A process at fault returns its own error, the others
//! [`Error::Rank`](crate::Error::Rank) with the same text. So do other settings, or another path or kernel, as far as a few
//! chains show it.
//!
//! The package `annealed-mpi` implements `Ranks` by MPI. `docs/many-machines.md` has an engine of one's own, checkpoints, and
//! what it costs.

use std::fmt;

use super::store::{Resumable, run_shared};
use crate::Result;

/// The processes of a run, as one of them sees them.
///
/// All call [`all_gather`](Self::all_gather) in the same order, each from the thread that began the run. A process that
/// cannot reach the others any more returns an error, after which it does not call again.
pub trait Ranks {
    /// Returns the index of this process, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Gives the bytes of this process to all, and returns those of all processes, by rank. Waits for the slowest.
    ///
    /// # Errors
    /// A connection that is lost, for instance.
    fn all_gather(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>>;
}

/// A run that several processes share. The method `ranks` of a runner creates it, such as
/// [`Ais::ranks`](crate::ais::Ais::ranks).
#[derive(Clone, Copy)]
#[must_use]
pub struct OnRanks<'a, A> {
    run: &'a A,
    ranks: &'a dyn Ranks,
}

impl<'a, A> OnRanks<'a, A> {
    pub(crate) fn new(run: &'a A, ranks: &'a dyn Ranks) -> Self {
        Self { run, ranks }
    }
}

impl<A: Resumable> OnRanks<'_, A> {
    /// Runs in all processes, which must all call this, and returns the result in each.
    ///
    /// # Errors
    /// The errors of the run in one process; [`Error::Rank`](crate::Error::Rank) if another process failed, has other
    /// settings, or another path or kernel; states, recorders or memories that serde does not restore exactly; a call from
    /// a thread of rayon's pool; an error of [`Ranks::all_gather`].
    pub fn run(&self) -> Result<A::Run> {
        run_shared(self.run, self.ranks)
    }
}

impl<A: fmt::Debug> fmt::Debug for OnRanks<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, size) = (self.ranks.rank(), self.ranks.size());
        let mut fields = f.debug_struct("OnRanks");
        fields.field("run", self.run).field("rank", &rank);
        fields.field("size", &size).finish()
    }
}
