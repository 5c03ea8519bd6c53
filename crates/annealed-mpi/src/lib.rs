#![doc = include_str!("../README.md")]

mod gather;

use std::fmt;
use std::thread;

use annealed::ranks::Ranks;
use annealed::{Error, Result};
pub use mpi;
use mpi::Threading;
use mpi::topology::{Communicator, SimpleCommunicator};

/// Largest number of bytes that one process sends at once. MPI counts the bytes of all processes in 31 bits.
const PIECE: usize = 1 << 28;

/// The processes of an MPI communicator. Only the thread that began MPI may use it.
pub struct World {
    communicator: SimpleCommunicator,
}

impl World {
    /// Creates a world of the processes of a communicator. All of these processes must call this function. Messages of
    /// the world are separate from the program's own messages.
    ///
    /// # Errors
    /// A call before MPI begins or after it ends; threads without `Threading::Funneled`; an intercommunicator.
    pub fn new(of: &dyn Communicator) -> Result<Self> {
        let refused = |found: &str, expected: &str| Error::invalid("world", found, expected);
        if !mpi::is_initialized() || mpi::is_finalized() {
            let expected = "one between the start and the end of MPI";
            return Err(refused("a communicator without MPI", expected));
        }
        let level = mpi::environment::threading_support();
        if level < Threading::Funneled {
            let expected = "Funneled, by `mpi::initialize_with_threading(Threading::Funneled)`";
            return Err(refused(&format!("threading level {level:?}"), expected));
        }
        if of.test_inter() {
            return Err(refused("two groups of processes", "one group"));
        }
        let communicator = of.duplicate();
        Ok(Self { communicator })
    }
}

impl Ranks for World {
    fn rank(&self) -> usize {
        self.communicator.rank() as usize
    }

    fn size(&self) -> usize {
        self.communicator.size() as usize
    }

    fn all_gather(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        Ok(gather::gathered(&self.communicator, &mine, PIECE))
    }
}

/// Ends all processes if this process panics, because the others would wait for it forever.
impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            self.communicator.abort(101);
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, size) = (self.rank(), self.size());
        let mut fields = f.debug_struct("World");
        fields.field("rank", &rank).field("size", &size).finish()
    }
}
