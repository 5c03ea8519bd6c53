//! The processes that share a run: the processes that `mpirun` has started, or only this one.

use annealed::Result;
use annealed::ranks::Ranks;

#[cfg(feature = "mpi")]
use annealed_mpi::{World, mpi};

use super::options::Options;

/// The processes of an MPI job, which end together. A program that runs as a single process has no job.
pub struct Processes {
    #[cfg(feature = "mpi")]
    job: Option<(World, mpi::environment::Universe)>,
}

impl Processes {
    /// Begins MPI if the options request it.
    #[cfg(feature = "mpi")]
    pub fn begin(options: &Options) -> Result<Self> {
        if !options.mpi {
            return Ok(Self { job: None });
        }
        let begun = mpi::initialize_with_threading(mpi::Threading::Funneled);
        let (universe, _) = begun.expect("MPI begins once in a process");
        let world = World::new(&universe.world())?;
        Ok(Self {
            job: Some((world, universe)),
        })
    }

    #[cfg(not(feature = "mpi"))]
    pub fn begin(options: &Options) -> Result<Self> {
        if options.mpi {
            let found = "a build without the feature mpi";
            let expected = "cargo build -p annealed-cli --features mpi";
            return Err(annealed::Error::invalid("--mpi", found, expected));
        }
        Ok(Self {})
    }

    #[cfg(feature = "mpi")]
    pub fn ranks(&self) -> Option<&dyn Ranks> {
        self.job.as_ref().map(|(world, _)| world as _)
    }

    #[cfg(not(feature = "mpi"))]
    pub fn ranks(&self) -> Option<&dyn Ranks> {
        None
    }

    /// Returns true if this process prints and writes files for all processes.
    pub fn speaks(&self) -> bool {
        self.ranks().is_none_or(|ranks| ranks.rank() == 0)
    }
}
