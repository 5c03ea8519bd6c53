//! Runs on several processes that are interrupted and go on, on as many processes or on one.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use annealed::ais::{Ais, Merge, Progress, Recorder, StoppedBy};
use annealed::estimate::Warning;
use annealed::kernel::{Block, PersistentHmc, RandomWalkMetropolis, Stage};
use annealed::mpi::topology::Communicator;
use annealed::path::Intermediate;
use annealed::population::Resampling;
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use annealed::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::{Path, annealing, expect_settings, path, tempering};

pub fn check(world: &dyn Communicator) {
    annealed_runs_go_on(world);
    a_finished_run_takes_more_chains(world);
    tempered_runs_go_on(world);
    what_other_ranks_have_reached_is_not_lost(world);
    a_checkpoint_holds_what_other_ranks_have_reached(world);
    a_file_that_cannot_be_read_ends_all(world);
    a_file_that_cannot_be_written(world);
    runs_that_differ(world);
    annealed_runs_go_on(world);
}

/// A file of rank 0 in a folder of its own. The others have none: what they would write has no place.
pub struct File(pub PathBuf);

impl File {
    pub fn new(world: &dyn Communicator) -> Self {
        let folder = match world.rank() {
            0 => std::env::temp_dir().join(format!("annealed-mpi-{}", std::process::id())),
            _ => "/no/such/folder".into(),
        };
        if world.rank() == 0 {
            fs::create_dir_all(&folder).unwrap();
        }
        Self(folder.join("run"))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.parent().unwrap());
    }
}

/// Who does a part of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    All,
    Rank0,
}

/// Stops a run once a share of it is done.
fn stop(share: f64) -> impl Fn(Progress) -> ControlFlow<()> + Sync {
    move |at| match at.done as f64 >= share * at.total as f64 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// A run that was stopped has nothing to say, or something.
fn expect_stopped<T>(outcome: Result<T>) {
    let Err(error) = outcome else { return };
    let message = error.to_string();
    assert!(message.contains("interrupted"), "{message}");
}

/// Interrupts a run three times, each part done by all processes or by rank 0 alone. Its end has the bits of a run of
/// one process without an interruption.
macro_rules! expect_goes_on {
    ($world:expr, $run:expr, $said:path) => {
        for turns in [[By::All, By::Rank0, By::All], [By::Rank0, By::All, By::All]] {
            let (world, file) = ($world, File::new($world));
            for (i, by) in turns.into_iter().enumerate() {
                let run = $run.progress(stop(0.25 * (i + 1) as f64));
                let checkpointed = run.checkpoint(&file.0).every(Duration::from_millis(2));
                match (by, i) {
                    (By::All, 0) => expect_stopped(checkpointed.run_on(world)),
                    (By::All, _) => expect_stopped(checkpointed.resume_on(world)),
                    (By::Rank0, _) if world.rank() > 0 => {}
                    (By::Rank0, 0) => expect_stopped(checkpointed.run()),
                    (By::Rank0, _) => expect_stopped(checkpointed.resume()),
                }
            }
            let done = Mutex::new((u64::MAX, 0, 0));
            let run = $run.progress(|at: Progress| {
                let mut done = done.lock().unwrap();
                *done = (done.0.min(at.done), done.1.max(at.done), at.total);
            });
            let found = run.checkpoint(&file.0).resume_on(world).unwrap();
            assert_eq!(found.is_some(), world.rank() == 0);
            if let Some(found) = found {
                let expected = $run.run().unwrap();
                assert!($said(&found) == $said(&expected) && found.states() == expected.states());
                // It is not called where other processes had done the rest before they heard of the stop.
                if let (first, last, total @ 1..) = *done.lock().unwrap() {
                    let goes_on = 4 * first > total && last == total;
                    assert!(goes_on, "{first} to {last} of {total}");
                }
                let again = $run.checkpoint(&file.0).resume().unwrap();
                assert!($said(&again) == $said(&expected) && again.states() == expected.states());
            }
        }
    };
}

fn annealed_runs_go_on(world: &dyn Communicator) {
    let path = path();
    for threads in [1, 4] {
        // The last block is not full.
        let plain = || annealing::ais(&path).chains(1_010).threads(threads);
        expect_goes_on!(world, plain(), annealing::said);
        let resampled = || plain().resampling(Resampling::every(3).unwrap());
        expect_goes_on!(world, resampled(), annealing::said);
        // Fewer blocks than processes.
        expect_goes_on!(world, plain().chains(70), annealing::said);
    }
    let until = || annealing::ais(&path).chains(100_000).until_error(0.05);
    let file = File::new(world);
    for goes_on in [false, true] {
        let found = match goes_on {
            true => until().checkpoint(&file.0).resume_on(world),
            false => until().checkpoint(&file.0).run_on(world),
        };
        let Some(found) = found.unwrap() else {
            continue;
        };
        assert_eq!(found.stopped_by(), StoppedBy::StandardError);
        assert!(annealing::said(&found) == annealing::said(&until().run().unwrap()));
    }
}

fn a_finished_run_takes_more_chains(world: &dyn Communicator) {
    let (path, file) = (path(), File::new(world));
    let ais = |chains| annealing::ais(&path).chains(chains);
    let few = ais(330).checkpoint(&file.0).run_on(world).unwrap();
    assert_eq!(few.is_some(), world.rank() == 0);
    let more = ais(1_000).checkpoint(&file.0).resume_on(world).unwrap();
    if let Some(more) = more {
        let expected = ais(1_000).run().unwrap();
        assert!(annealing::said(&more) == annealing::said(&expected));
    }
}

fn tempered_runs_go_on(world: &dyn Communicator) {
    let path = tempering::path();
    let kernel = PersistentHmc::new(0.3, 2, 0.4).unwrap();
    for (ladders, block_size) in [(2, 2), (5, 2), (8, 1)] {
        let run = || {
            Tempering::with_base_log_z(&path, &kernel, 0.0)
                .schedule(Schedule::linear(5).unwrap())
                .ladders(ladders)
                .block_size(block_size)
                .rounds(7)
                .threads(2)
        };
        expect_goes_on!(world, run(), tempering::said);
    }
    let run = || tempering::tempering(&path);
    expect_goes_on!(world, run(), tempering::said);
}

/// Stages that this process has passed.
static PASSED: AtomicUsize = AtomicUsize::new(0);

/// Takes two milliseconds for each stage, and counts it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slow;

impl<M: Intermediate> Recorder<M> for Slow {
    fn record(&mut self, _stage: Stage<'_, M>, _block: &Block<M::State>) {
        PASSED.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(2));
    }
}

impl Merge for Slow {
    fn merge(&mut self, _right: Self) {}
}

/// One block a process, of 300 slow stages.
fn slow<'p>(
    world: &dyn Communicator,
    path: &'p Path,
) -> Ais<'p, &'p Path, RandomWalkMetropolis, Slow> {
    let ais = annealing::ais(path).chains(50 * world.size() as usize);
    let ais = ais.schedule(Schedule::linear(300).unwrap()).threads(1);
    ais.recorder(Slow)
}

/// No stage is passed twice, whichever process it fell to.
fn what_other_ranks_have_reached_is_not_lost(world: &dyn Communicator) {
    let (path, file) = (path(), File::new(world));
    PASSED.store(0, Ordering::Relaxed);
    let stopped = slow(world, &path).progress(stop(0.4 / f64::from(world.size())));
    expect_stopped(stopped.checkpoint(&file.0).run_on(world));
    let before = PASSED.load(Ordering::Relaxed);
    assert!(before < 300, "{before}");
    let found = slow(world, &path).checkpoint(&file.0).resume_on(world);
    let passed = PASSED.load(Ordering::Relaxed);
    assert_eq!(passed, 300, "{before} of them before the stop");
    if let Some(found) = found.unwrap() {
        let expected = slow(world, &path).run().unwrap();
        assert!(annealing::said(&found) == annealing::said(&expected));
    }
}

/// As if the processes had been killed when two thirds were done: what they lose is the work of an interval.
fn a_checkpoint_holds_what_other_ranks_have_reached(world: &dyn Communicator) {
    let (path, file) = (path(), File::new(world));
    let copy = file.0.with_extension("copy");
    let two_thirds = 2.0 / 3.0 / f64::from(world.size());
    let keep = |at: Progress| {
        if at.done as f64 >= two_thirds * at.total as f64 && !copy.exists() {
            fs::copy(&file.0, &copy).unwrap();
        }
    };
    let ais = slow(world, &path).progress(keep);
    let every = Duration::from_millis(10);
    ais.checkpoint(&file.0).every(every).run_on(world).unwrap();
    PASSED.store(0, Ordering::Relaxed);
    let found = slow(world, &path).checkpoint(&copy).resume_on(world);
    // About 110; all 300 where what another process had reached was not in the file.
    let passed = PASSED.load(Ordering::Relaxed);
    assert!(passed < 290, "{passed}");
    if let Some(found) = found.unwrap() {
        let expected = slow(world, &path).run().unwrap();
        assert!(annealing::said(&found) == annealing::said(&expected));
    }
}

/// The error that rank 0 has, and of which it tells the others.
fn expect_error_of_first<T>(world: &dyn Communicator, found: Result<T>, part: &str) {
    let error = found.err().expect("a failure");
    let of_first = match (&error, world.rank()) {
        (Error::File { .. }, 0) => true,
        (Error::Rank { rank, .. }, 1..) => *rank == 0,
        _ => false,
    };
    let message = error.to_string();
    assert!(of_first && message.contains(part), "{message}");
}

fn a_file_that_cannot_be_read_ends_all(world: &dyn Communicator) {
    let (path, file) = (path(), File::new(world));
    let ais = annealing::ais(&path);
    let run = ais.checkpoint(&file.0);
    let tempered_path = tempering::path();
    let tempered = tempering::tempering(&tempered_path);
    expect_error_of_first(
        world,
        run.resume_on(world),
        "there is no checkpoint to go on from",
    );
    expect_error_of_first(
        world,
        tempered.checkpoint(&file.0).resume_on(world),
        "there is no checkpoint to go on from",
    );
    let _ = run.run_on(world).unwrap();
    expect_error_of_first(
        world,
        tempered.checkpoint(&file.0).resume_on(world),
        "is a checkpoint of \"ais\"",
    );
    if world.rank() == 0 {
        let mut bytes = fs::read(&file.0).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&file.0, bytes).unwrap();
    }
    expect_error_of_first(world, run.resume_on(world), "it is damaged");
}

fn a_file_that_cannot_be_written(world: &dyn Communicator) {
    let path = path();
    let ais = annealing::ais(&path);
    let nowhere = ais.checkpoint("/no/such/folder/run").run_on(world);
    expect_error_of_first(world, nowhere, "there is no folder");
    let file = File::new(world);
    let lost = ais.progress(|_| {
        let _ = fs::remove_dir_all(file.0.parent().unwrap());
    });
    if let Some(run) = lost.checkpoint(&file.0).run_on(world).unwrap() {
        let warned = |warning: &Warning| matches!(warning, Warning::CheckpointNotWritten { .. });
        assert!(run.warnings().iter().any(warned), "{:?}", run.warnings());
    }
}

/// Settings are compared as without checkpoints, and besides what path and kernel do.
fn runs_that_differ(world: &dyn Communicator) {
    let (path, file) = (path(), File::new(world));
    let odd = world.rank() + 1 == world.size();
    let kernel = RandomWalkMetropolis::new(if odd { 0.6 } else { 0.5 }).unwrap();
    let ais = || Ais::with_base_log_z(&path, &kernel, 0.0).chains(100);
    let tempered = Tempering::with_base_log_z(&path, &kernel, 0.0).rounds(2);
    let other_seed = annealing::ais(&path).seed(3 + u64::from(odd));
    let (plain, same) = (annealing::ais(&path), annealing::ais(&path));
    let (checkpointed, of_other_seed) = (same.checkpoint(&file.0), other_seed.checkpoint(&file.0));
    let runs = [
        (
            ais().checkpoint(&file.0).run_on(world).map(|_| ()),
            "of another run, which has a path and kernel that do something else",
        ),
        (
            tempered.checkpoint(&file.0).run_on(world).map(|_| ()),
            "of another run, which has a path and kernel that do something else",
        ),
        (
            of_other_seed.run_on(world).map(|_| ()),
            "of another run, which has seed 4; this run has 3",
        ),
        (
            match odd {
                true => plain.run_on(world).map(|_| ()),
                false => checkpointed.run_on(world).map(|_| ()),
            },
            "invalid checkpoint: got one on some ranks",
        ),
    ];
    for (found, message) in runs {
        match world.size() {
            1 => found.unwrap(),
            _ => expect_settings(world, found, message),
        }
    }
}
