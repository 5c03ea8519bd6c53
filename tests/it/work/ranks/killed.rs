//! Shared runs that are killed or stopped: what is lost is little, whichever rank did it.

use std::fs;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use annealed::ais::{Ais, Merge, Progress, Recorder};
use annealed::kernel::{Block, RandomWalkMetropolis, Stage};
use annealed::path::Intermediate;
use annealed::schedule::Schedule;
use serde::{Deserialize, Serialize};

use super::checkpoints::{Disks, expect_stopped, stop};
use super::{Channels, ais, on_ranks, said};
use crate::shared::gaussians::{GaussianPair, narrow_path};

/// Takes a millisecond for each stage, and counts it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slow;

static PASSED: AtomicUsize = AtomicUsize::new(0);
static ALONE: Mutex<()> = Mutex::new(());

impl<M: Intermediate> Recorder<M> for Slow {
    fn record(&mut self, _stage: Stage<'_, M>, _block: &Block<M::State>) {
        PASSED.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(1));
    }
}

impl Merge for Slow {
    fn merge(&mut self, _right: Self) {}
}

/// Six blocks of 300 slow stages.
fn slow(path: &GaussianPair) -> Ais<'_, &GaussianPair, RandomWalkMetropolis, Slow> {
    let ais = ais(path).chains(300).threads(1).recorder(Slow);
    ais.schedule(Schedule::linear(300).unwrap())
}

/// No stage is passed twice, whichever rank it fell to, on one disk or on disks of their own.
#[test]
fn what_ranks_have_reached_is_not_lost() {
    let _alone = ALONE.lock();
    let path = narrow_path();
    for (are_local, sizes) in [
        (false, [3, 2]),
        (false, [2, 1]),
        (true, [2, 3]),
        (true, [3, 3]),
    ] {
        let disks = Disks::new("reached", are_local);
        PASSED.store(0, Ordering::Relaxed);
        on_ranks(sizes[0], |world: Channels| {
            let stopped = slow(&path).progress(stop(0.5));
            expect_stopped(stopped.checkpoint(disks.of(world.rank)).ranks(&world).run());
        });
        let before = PASSED.load(Ordering::Relaxed);
        assert!((300..1_700).contains(&before), "{before}");
        on_ranks(sizes[1], |world: Channels| {
            let run = slow(&path);
            let saved = run.checkpoint(disks.of(world.rank)).ranks(&world);
            let _ = saved.resume().unwrap();
        });
        let passed = PASSED.load(Ordering::Relaxed);
        assert_eq!(passed, 1_800, "{before} of them before the stop, {sizes:?}");
    }
}

/// Copies of the files stand for ranks that were all killed at once, when most was done: only the work of an interval is
/// lost.
#[test]
fn checkpoints_at_intervals_hold_what_ranks_have_reached() {
    let _alone = ALONE.lock();
    let path = narrow_path();
    let (disks, copies) = (Disks::new("killed", false), Disks::new("copies", false));
    on_ranks(2, |world: Channels| {
        let keep = |at: Progress| {
            if world.rank == 0
                && at.done as f64 >= 0.6 * at.total as f64
                && copies.names().is_empty()
            {
                disks.copy_to(&copies);
            }
        };
        let run = slow(&path).progress(keep);
        let saved = run.checkpoint(disks.of(0)).every(Duration::from_millis(20));
        let _ = saved.ranks(&world).run().unwrap();
    });
    PASSED.store(0, Ordering::Relaxed);
    let resumed = slow(&path).checkpoint(copies.of(0)).resume().unwrap();
    // About 800; all 1,800 where what another rank had reached was not in the files.
    let passed = PASSED.load(Ordering::Relaxed);
    assert!((1..1_300).contains(&passed), "{passed}");
    assert_eq!(said(&resumed), said(&slow(&path).run().unwrap()));
}

/// Takes two milliseconds for each stage of every second block, and none for the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Odd;

impl<M: Intermediate> Recorder<M> for Odd {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<M::State>) {
        PASSED.fetch_add(1, Ordering::Relaxed);
        let pause = 2 * (block.first_chain() / 50 % 2) as u64;
        thread::sleep(Duration::from_millis(pause));
    }
}

impl Merge for Odd {
    fn merge(&mut self, _right: Self) {}
}

/// Copies of the files stand for two ranks that were killed long after one had done its share.
#[test]
fn a_rank_that_waits_for_others_keeps_what_it_has_done() {
    let _alone = ALONE.lock();
    let (path, copies) = (narrow_path(), Disks::new("waits", false));
    let disks = Disks::new("waits_for", false);
    let run = || slow(&path).chains(200).recorder(Odd);
    on_ranks(2, |world: Channels| {
        let keep = |at: Progress| {
            let is_late = world.rank == 1 && at.done as f64 >= 0.8 * at.total as f64;
            if is_late && copies.names().is_empty() {
                disks.copy_to(&copies);
            }
        };
        let run = run().progress(keep);
        let saved = run
            .checkpoint(disks.of(0))
            .every(Duration::from_millis(150));
        let _ = saved.ranks(&world).run().unwrap();
    });
    PASSED.store(0, Ordering::Relaxed);
    let _ = run().checkpoint(copies.of(0)).resume().unwrap();
    // About 250; 600 more where the blocks of rank 0 were not in its file.
    let passed = PASSED.load(Ordering::Relaxed);
    assert!((1..550).contains(&passed), "{passed}");
}

/// Killed when one rank had written its first file of a new number of ranks and the other had not.
#[test]
fn files_of_two_numbers_of_ranks_go_together() {
    let _alone = ALONE.lock();
    let (path, disks) = (narrow_path(), Disks::new("two_numbers", false));
    on_ranks(3, |world: Channels| {
        let stopped = slow(&path).progress(stop(0.5));
        expect_stopped(stopped.checkpoint(disks.of(0)).ranks(&world).run());
    });
    let old: Vec<_> = disks
        .names()
        .into_iter()
        .map(|name| {
            let bytes = fs::read(disks.folder.join(&name)).unwrap();
            (name, bytes)
        })
        .collect();
    on_ranks(2, |world: Channels| {
        let stopped = slow(&path).progress(stop(0.51));
        expect_stopped(stopped.checkpoint(disks.of(0)).ranks(&world).resume());
    });
    assert_eq!(disks.names(), ["run.0", "run.1"]);
    for (name, bytes) in old.iter().skip(1) {
        fs::write(disks.folder.join(name), bytes).unwrap();
    }
    let resumed = slow(&path).checkpoint(disks.of(0)).resume().unwrap();
    assert_eq!(said(&resumed), said(&slow(&path).run().unwrap()));
    assert_eq!(disks.names(), ["run"]);
}

/// Killed when one rank had replaced its first file of a new number of ranks, and the disk of the other was lost.
#[test]
fn each_first_file_of_another_number_of_ranks_holds_everything() {
    let _alone = ALONE.lock();
    let path = narrow_path();
    let (disks, copies) = (Disks::new("first", false), Disks::new("of_first", false));
    PASSED.store(0, Ordering::Relaxed);
    on_ranks(3, |world: Channels| {
        let stopped = slow(&path).progress(stop(0.5));
        expect_stopped(stopped.checkpoint(disks.of(0)).ranks(&world).run());
    });
    let before = PASSED.load(Ordering::Relaxed);
    on_ranks(2, |world: Channels| {
        let stopped = slow(&path).progress(|_| match world.rank {
            1 => ControlFlow::Continue(()),
            _ => {
                if copies.names().is_empty() {
                    disks.copy_to(&copies);
                }
                ControlFlow::Break(())
            }
        });
        expect_stopped(stopped.checkpoint(disks.of(0)).ranks(&world).resume());
    });
    fs::remove_file(copies.folder.join("run.1")).unwrap();
    PASSED.store(before, Ordering::Relaxed);
    let resumed = slow(&path).checkpoint(copies.of(0)).resume().unwrap();
    assert_eq!(PASSED.load(Ordering::Relaxed), 1_800, "{before}");
    assert_eq!(said(&resumed), said(&slow(&path).run().unwrap()));
}
