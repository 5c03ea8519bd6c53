//! Runs that several processes share.
//!
//! [`Ranks`] is the only interface that a run needs from MPI, or from any other way to gather bytes. All processes run
//! the same program with the same settings and seeds. All get the result, with the bits of a run of one process:
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
//! **Work.** Rank r of n runs the blocks b with `b mod n = r` on its own threads. Meanwhile the calling thread meets
//! the other processes, at most a second apart: they gather finished blocks, failures, and requests to stop. A first
//! pass, which finds stages, is one block: rank 0 runs it. All reach the same decisions. If the callback, `stop_when`
//! or time limit of one process asks to stop, all stop at the end of a step.
//!
//! **Failures** end all processes. The process at fault returns its own error, the others return
//! [`Error::Rank`](crate::Error::Rank) with the same text. Processes whose settings, paths or kernels differ fail in
//! the same way, as far as a few chains detect the difference.
//!
//! The package `annealed-mpi` implements `Ranks` by MPI. `docs/many-machines.md` shows how to write your own engine,
//! how to use checkpoints, and what sharing costs.

use std::fmt;

use super::store::{Resumable, run_shared};
pub use super::team::Ranks;
use crate::Result;

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
    /// Runs in all processes and returns the result in each. All processes must call this.
    ///
    /// # Errors
    /// The errors of the run in one process; [`Error::Rank`](crate::Error::Rank) if another process failed, has other
    /// settings, or another path or kernel; states or recorders that serde does not restore exactly; a call
    /// from a thread of rayon's pool; an error of [`Ranks::all_gather`].
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
