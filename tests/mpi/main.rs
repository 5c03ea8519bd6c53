//! Runs on several processes. To be run as 1, 2 and 3 processes by `mpirun`, as a program of its own, since MPI
//! begins once in a process and a failure must end all of them.

mod annealing;
mod checkpoints;
mod sequences;
mod tempering;

use std::thread;

use annealed::ais::Ais;
use annealed::kernel::{RandomWalkMetropolis, SymmetricProposal};
use annealed::model::Gaussian;
use annealed::mpi::Threading;
use annealed::mpi::topology::{Communicator, SimpleCommunicator};
use annealed::path::GeometricPath;
use annealed::rand::{Rng, RngExt};
use annealed::{Error, Result};
use nalgebra::dvector;

fn main() {
    let (_universe, _) = annealed::mpi::initialize_with_threading(Threading::Funneled).unwrap();
    let world = SimpleCommunicator::world();
    let _ends = EndsAll(&world);
    annealing::check(&world);
    tempering::check(&world);
    checkpoints::check(&world);
    sequences::check(&world);
    a_thread_of_the_pool(&world);
}

/// The others would wait for a rank whose check has failed.
struct EndsAll<'w>(&'w SimpleCommunicator);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abort(1);
        }
    }
}

type Path = GeometricPath<Gaussian, Gaussian>;

fn path() -> Path {
    let target = Gaussian::isotropic(dvector![1.0, -2.0], 0.5).unwrap();
    GeometricPath::new(Gaussian::standard(2).unwrap(), target)
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

/// A state that serde does not know.
#[derive(Clone)]
struct Angle(f64);

struct Turn;

impl SymmetricProposal<Angle> for Turn {
    fn propose<G: Rng + ?Sized>(&self, _: f64, state: &Angle, to: &mut Angle, rng: &mut G) {
        to.0 = state.0 + rng.random::<f64>() - 0.5;
    }
}

/// What all ranks say of a failure that one process reports so: the rank at fault keeps its own error where it
/// is rank 0.
fn expect_failure<T>(world: &dyn Communicator, found: Result<T>, rank: usize, expected: &Error) {
    let found = found.err().expect("a failure");
    let message = expected.to_string();
    match (world.rank(), rank) {
        (0, 0) => assert_eq!(found, *expected),
        _ => assert_eq!(found, Error::Rank { rank, message }),
    }
}

/// The last rank has refused its settings.
fn expect_settings<T>(world: &dyn Communicator, found: Result<T>, message: &str) {
    let last = world.size() - 1;
    let expected = match world.rank() == last {
        true => message.to_owned(),
        false => format!("rank {last}: {message}"),
    };
    let found = found.err().expect("a failure").to_string();
    assert!(found.starts_with(&expected), "{found}");
}

/// Its work would wait for itself.
fn a_thread_of_the_pool(world: &dyn Communicator) {
    let path = path();
    // MPI may be called by this thread alone, so that the pool must borrow it.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread();
    let Ok(_pool) = pool.build() else { return };
    let found = Ais::new(&path, walk())
        .run_on(world)
        .unwrap_err()
        .to_string();
    assert!(found.contains("one from outside of the pool"), "{found}");
}
