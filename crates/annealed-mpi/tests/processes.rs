//! Runs of the processes that `mpirun` has started: 1, 2 or 3. That all runners work on ranks is tested in `annealed`, with
//! threads; here that MPI is an engine for them.

#[path = "../src/gather.rs"]
mod gather;

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use annealed::adaptive::Rounds;
use annealed::prelude::*;
use annealed::ranks::Ranks;
use annealed::{Error, Result};
use annealed_mpi::{World, mpi};
use mpi::topology::{Communicator, SimpleCommunicator};

fn main() {
    let begun = mpi::initialize_with_threading(mpi::Threading::Funneled);
    let (universe, _) = begun.expect("MPI begins once");
    let communicator = universe.world();
    messages_longer_than_a_piece(&communicator);
    let world = World::new(&communicator).unwrap();
    runs_have_the_bits_of_one_process(&world);
    a_stop_asked_of_one_process_ends_all(&world);
    a_failure_ends_all(&world);
    settings_that_differ_are_refused(&world);
    checkpoints_go_on(&world);
    runs_have_the_bits_of_one_process(&world);
}

fn messages_longer_than_a_piece(world: &SimpleCommunicator) {
    let bytes = |rank: usize, length: usize| -> Vec<u8> {
        (0..length).map(|i| (i * 7 + rank * 31) as u8).collect()
    };
    let rank = world.rank() as usize;
    for lengths in [[0, 0, 0], [1, 0, 5], [100, 3, 64], [17, 1_000, 16]] {
        for piece in [0, 1, 16, 999, 1 << 20] {
            let all = gather::gathered(world, &bytes(rank, lengths[rank]), piece);
            assert_eq!(all.len(), world.size() as usize);
            for (rank, found) in all.iter().enumerate() {
                assert_eq!(*found, bytes(rank, lengths[rank]), "{lengths:?}, {piece}");
            }
        }
    }
}

type Path = GeometricPath<Gaussian, Gaussian>;

fn path() -> Path {
    let target = Gaussian::isotropic(DVector::repeat(2, 1.0), 0.5).unwrap();
    GeometricPath::new(Gaussian::standard(2).unwrap(), target)
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

fn ais(path: &Path) -> Ais<'_, &Path, RandomWalkMetropolis> {
    let schedule = Schedule::linear(20).unwrap();
    Ais::new(path, walk())
        .schedule(schedule)
        .chains(1_010)
        .block_size(50)
}

fn runs_have_the_bits_of_one_process(world: &World) {
    let path = path();
    let weights = |run: annealed::ais::Run<DVector<f64>>| run.log_weights().to_vec();
    let found = ais(&path).threads(2).ranks(world).run().unwrap();
    assert_eq!(weights(found), weights(ais(&path).run().unwrap()));
    let until = ais(&path).chains(100_000).until_error(0.05);
    let (found, alone) = (until.ranks(world).run().unwrap(), until.run().unwrap());
    assert_eq!(weights(found), weights(alone));
    let rounds = Rounds::new(&path, walk())
        .chains(60)
        .rounds(2)
        .block_size(20);
    let (found, alone) = (rounds.ranks(world).run().unwrap(), rounds.run().unwrap());
    assert_eq!(found.log_z(), alone.log_z());
    let tempering = annealed::tempering::Tempering::new(&path, walk()).rounds(5);
    let (found, alone) = (
        tempering.ranks(world).run().unwrap(),
        tempering.run().unwrap(),
    );
    assert_eq!(
        (found.log_z(), found.states()),
        (alone.log_z(), alone.states())
    );
}

/// A block of an hour a process; the last process is asked.
fn a_stop_asked_of_one_process_ends_all(world: &World) {
    let slow = |x: &DVector<f64>| {
        thread::sleep(Duration::from_millis(1));
        -x.norm_squared()
    };
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), FunctionModel::new(slow));
    let (begun, last) = (Instant::now(), world.rank() + 1 == world.size());
    let run = Ais::new(&path, walk())
        .schedule(Schedule::linear(500_000).unwrap())
        .chains(5 * world.size())
        .block_size(5)
        .threads(1)
        .stop_when(|| last && begun.elapsed() > Duration::from_millis(500));
    let stopped = run.ranks(world).run();
    assert!(matches!(stopped, Err(Error::Stopped { .. })));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// The last process fails with its own error, and the others name it.
fn expect_failure<T>(world: &World, found: Result<T>, part: &str) {
    let (error, at_fault) = (found.err().expect("a failure"), world.size() - 1);
    let named = matches!(&error, Error::Rank { rank, .. } if *rank == at_fault);
    assert!(named == (world.rank() != at_fault), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

fn a_failure_ends_all(world: &World) {
    let last = world.rank() + 1 == world.size();
    let model = move |x: &DVector<f64>| match last && x[0] > 2.0 {
        true => panic!("too far"),
        false => -x.norm_squared(),
    };
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), FunctionModel::new(model));
    let run = Ais::new(&path, walk()).chains(3_000).seed(5);
    expect_failure(world, run.ranks(world).run(), "too far");
}

fn settings_that_differ_are_refused(world: &World) {
    if world.size() == 1 {
        return;
    }
    let path = path();
    let odd = ais(&path).seed(u64::from(world.rank() + 1 == world.size()));
    expect_failure(
        world,
        odd.ranks(world).run(),
        "which has seed 1; this run has 0",
    );
}

/// In one folder, which rank 0 names and removes.
fn checkpoints_go_on(world: &World) {
    let name = format!("annealed-mpi-{}", std::process::id());
    let names = world.all_gather(name.into_bytes()).unwrap();
    let folder: PathBuf = std::env::temp_dir().join(str::from_utf8(&names[0]).unwrap());
    fs::create_dir_all(&folder).unwrap();
    let (path, file) = (path(), folder.join("run"));
    let stop = |at: annealed::ais::Progress| match 2 * at.done > at.total {
        true => std::ops::ControlFlow::Break(()),
        false => std::ops::ControlFlow::Continue(()),
    };
    let begun = ais(&path).progress(stop);
    let _ = begun.checkpoint(&file).ranks(world).run();
    let expected = ais(&path).run().unwrap();
    let found = ais(&path).checkpoint(&file).ranks(world).resume().unwrap();
    assert_eq!(found.log_weights(), expected.log_weights());
    world.all_gather(Vec::new()).unwrap();
    if world.rank() == 0 {
        let alone = ais(&path).checkpoint(&file).resume().unwrap();
        assert_eq!(alone.log_weights(), expected.log_weights());
        fs::remove_dir_all(&folder).unwrap();
    }
}
