//! Tempered runs.

use std::thread;
use std::time::Duration;

use annealed::ais::{Progress, StoppedBy};
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::{FunctionModel, Gaussian, GaussianMixture};
use annealed::mpi::topology::Communicator;
use annealed::path::{AnnealingPath, GeometricPath};
use annealed::schedule::Schedule;
use annealed::tempering::{Tempering, TemperingRun};
use annealed::{Error, Result};
use nalgebra::{DVector, dvector};

use crate::{expect_failure, expect_settings, walk};

pub fn check(world: &dyn Communicator) {
    for threads in [1, 2, 8] {
        runs(world, threads);
        without_states(world, threads);
        a_failure(world, threads);
    }
    progress(world);
    a_time_limit(world);
    settings_that_differ(world);
    runs(world, 2);
}

pub fn path() -> GeometricPath<Gaussian, GaussianMixture> {
    let mode = |x: f64| Gaussian::isotropic(dvector![x], 0.3).unwrap();
    let target = GaussianMixture::new([(0.8, mode(-2.0)), (0.2, mode(2.0))]).unwrap();
    GeometricPath::new(Gaussian::isotropic(dvector![0.0], 2.0).unwrap(), target)
}

pub fn tempering<P>(path: P) -> Tempering<'_, P, RandomWalkMetropolis>
where
    P: AnnealingPath<State = DVector<f64>>,
{
    Tempering::with_base_log_z(path, walk(), 0.0)
        .schedule(Schedule::linear(5).unwrap())
        .rounds(7)
        .seed(7)
}

/// All that a run says but its states and its time.
pub fn said<S>(run: &TemperingRun<S>) -> String {
    let numbers = [run.log_z(), run.standard_error()];
    let rejections: Vec<u64> = run.rejections().iter().map(|r| r.to_bits()).collect();
    format!(
        "{:?} {rejections:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        numbers.map(f64::to_bits),
        run.schedule(),
        run.acceptances(),
        run.round_trips(),
        run.rounds(),
        run.evaluations(),
        run.warnings(),
        run.stopped_by(),
    )
}

fn expect_same<S: PartialEq>(
    world: &dyn Communicator,
    found: Result<Option<TemperingRun<S>>>,
    expected: impl FnOnce() -> TemperingRun<S>,
) {
    let found = found.unwrap();
    assert_eq!(found.is_some(), world.rank() == 0);
    if let Some(found) = found {
        let expected = expected();
        assert_eq!(said(&found), said(&expected));
        assert!(found.states() == expected.states());
    }
}

/// Also with fewer blocks than ranks, with a last block that is not full, and until an error.
fn runs(world: &dyn Communicator, threads: usize) {
    let path = path();
    for (ladders, block_size) in [(2, 2), (5, 2), (8, 1)] {
        let run = || tempering(&path).ladders(ladders).block_size(block_size);
        expect_same(world, run().threads(threads).run_on(world), || {
            run().run().unwrap()
        });
    }
    let until = || tempering(&path).rounds(12).until_error(0.1);
    let found = until().threads(threads).run_on(world);
    if let Ok(Some(found)) = &found {
        assert_eq!(found.stopped_by(), StoppedBy::StandardError);
        assert!((5..12).contains(&found.rounds()));
    }
    expect_same(world, found, || until().run().unwrap());
}

fn without_states(world: &dyn Communicator, threads: usize) {
    let path = path();
    let run = || tempering(&path).rounds(5);
    let found = run().threads(threads).run_on_without_states(world).unwrap();
    assert_eq!(found.is_some(), world.rank() == 0);
    if let Some(found) = found {
        let expected = run().run().unwrap();
        assert_eq!(said(&found), said(&expected));
        assert_eq!(found.states().len(), expected.states().len());
    }
}

fn a_failure(world: &dyn Communicator, threads: usize) {
    let strange = |x: &DVector<f64>| if x[0] > 3.9 { f64::NAN } else { 0.0 };
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), FunctionModel::new(strange));
    for seed in 0..4 {
        let run = || tempering(&path).rounds(12).seed(seed);
        let expected = run().threads(1).run().unwrap_err();
        let Error::NonFinite { chain, .. } = expected else {
            panic!("{expected}");
        };
        let rank = chain % world.size() as usize;
        expect_failure(world, run().threads(threads).run_on(world), rank, &expected);
    }
}

fn progress(world: &dyn Communicator) {
    let path = path();
    let done = std::sync::Mutex::new((0, 0));
    let callback = |progress: Progress| {
        let mut done = done.lock().unwrap();
        *done = (done.0.max(progress.done), progress.total);
    };
    let run = tempering(&path).progress(callback).run_on(world).unwrap();
    let (done, total) = *done.lock().unwrap();
    assert_eq!(done, total);
    assert_eq!(total > 0, run.is_some());
}

/// Rank 0 looks at the time while it waits for the others.
fn a_time_limit(world: &dyn Communicator) {
    let slow = world.rank() > 0 || world.size() == 1;
    let model = move |x: &DVector<f64>| {
        if slow {
            thread::sleep(Duration::from_micros(200));
        }
        -x.norm_squared()
    };
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), FunctionModel::new(model));
    let run = || tempering(&path).ladders(4).rounds(25);
    let found = run().time_limit(Duration::from_millis(500)).run_on(world);
    let Some(found) = found.unwrap() else { return };
    assert_eq!(found.stopped_by(), StoppedBy::TimeLimit);
    let expected = run().rounds(found.rounds()).run().unwrap();
    assert!(found.states() == expected.states() && found.log_z() == expected.log_z());
}

fn settings_that_differ(world: &dyn Communicator) {
    let path = path();
    let odd = |odd: usize| odd * usize::from(world.rank() + 1 == world.size());
    let runs: [(Result<_>, &str); 3] = [
        (
            tempering(&path).seed(7 + odd(1) as u64).run_on(world),
            "of another run, which has seed 8; this run has 7",
        ),
        (
            tempering(&path).rounds(7 + odd(1)).run_on(world),
            "of another run, which has rounds 8; this run has 7",
        ),
        (
            tempering(&path).ladders(8 + odd(1)).run_on(world),
            "of another run, which has ladders 9; this run has 8",
        ),
    ];
    for (found, message) in runs {
        match world.size() {
            1 => assert!(found.is_ok()),
            _ => expect_settings(world, found, message),
        }
    }
}
