//! Annealed runs.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use annealed::ais::{Ais, Merge, Progress, Recorder, Run, StoppedBy};
use annealed::kernel::{Block, Metropolis, RandomWalkMetropolis, Stage};
use annealed::model::{FunctionModel, Gaussian};
use annealed::mpi::topology::Communicator;
use annealed::path::{AnnealingPath, GeometricPath, Intermediate, SimdLevel};
use annealed::population::{Resampling, WasteFree};
use annealed::rand::RngExt;
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use crate::{Angle, Turn, expect_failure, expect_settings, path, walk};

pub fn check(world: &dyn Communicator) {
    for threads in [1, 2, 8] {
        plain_runs(world, threads);
        islands(world, threads);
        runs_until_an_error(world, threads);
        recorders_and_states_without_serde(world, threads);
        the_leftmost_failure(world, threads);
    }
    progress(world);
    stops(world);
    panics(world);
    settings_that_differ(world);
    engines_that_differ(world);
    // Nothing is left over.
    plain_runs(world, 2);
}

pub fn ais<P>(path: P) -> Ais<'_, P, RandomWalkMetropolis>
where
    P: AnnealingPath<State = DVector<f64>>,
{
    Ais::with_base_log_z(path, walk(), 0.0)
        .schedule(Schedule::linear(20).unwrap())
        .chains(1_000)
        .block_size(50)
        .seed(3)
}

/// All that a run says but its states, its time and its recorder.
pub fn said<S, R>(run: &Run<S, R>) -> String {
    let log_z = [
        run.log_z(),
        run.standard_error(),
        run.effective_sample_size(),
    ];
    let weights: Vec<u64> = run.log_weights().iter().map(|w| w.to_bits()).collect();
    let integral = run.thermodynamic_log_z().map(f64::to_bits);
    format!(
        "{:?} {weights:?} {integral:?} {:?} {:?} {:?} {:?}",
        log_z.map(f64::to_bits),
        run.stages(),
        run.warnings(),
        run.surviving_ancestors(),
        run.stopped_by(),
    )
}

/// Rank 0 has a result that says what it should, the others none.
fn expect_same<S: PartialEq, R>(
    world: &dyn Communicator,
    found: Result<Option<Run<S, R>>>,
    expected: impl FnOnce() -> Run<S, R>,
) {
    let found = found.unwrap();
    assert_eq!(found.is_some(), world.rank() == 0);
    if let Some(found) = found {
        let expected = expected();
        assert!(said(&found) == said(&expected));
        assert!(found.states() == expected.states());
    }
}

/// Also with fewer blocks than ranks, and with a last block that is not full.
fn plain_runs(world: &dyn Communicator, threads: usize) {
    let path = path();
    for chains in [1, 50, 120, 1_010] {
        let ais = || ais(&path).chains(chains);
        let found = ais().threads(threads).run_on(world);
        expect_same(world, found, || ais().run().unwrap());
    }
    let found = ais(&path).run_on(world);
    expect_same(world, found, || ais(&path).run().unwrap());
}

fn islands(world: &dyn Communicator, threads: usize) {
    let path = path();
    let resampled = || ais(&path).resampling(Resampling::every(5).unwrap());
    let found = resampled().threads(threads).run_on(world);
    expect_same(world, found, || resampled().run().unwrap());
    let waste_free = || ais(&path).waste_free(WasteFree::new(10).unwrap());
    let found = waste_free().threads(threads).run_on(world);
    expect_same(world, found, || waste_free().run().unwrap());
}

fn runs_until_an_error(world: &dyn Communicator, threads: usize) {
    let path = path();
    for error in [0.1, 0.05] {
        let until = || ais(&path).chains(100_000).until_error(error);
        let found = until().threads(threads).run_on(world);
        if let Ok(Some(found)) = &found {
            assert_eq!(found.stopped_by(), StoppedBy::StandardError);
        }
        expect_same(world, found, || until().run().unwrap());
    }
    let resampled = || {
        let islands = ais(&path).resampling(Resampling::every(5).unwrap());
        islands.chains(100_000).until_error(0.04)
    };
    let found = resampled().threads(threads).run_on(world);
    expect_same(world, found, || resampled().run().unwrap());
}

/// A sum of floats, which feels the order of its terms.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Sum(Vec<f64>);

impl<M: Intermediate<State = Angle>> Recorder<M> for Sum {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<Angle>) {
        self.0.push(block.states().iter().map(|x| x.0).sum());
    }
}

impl Merge for Sum {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(right.0) {
            *mine += theirs;
        }
    }
}

fn recorders_and_states_without_serde(world: &dyn Communicator, threads: usize) {
    let target = FunctionModel::new(|x: &Angle| 3.0 * x.0.cos());
    let base = FunctionModel::new(|_: &Angle| 0.0).with_sampler(|rng| Angle(rng.random()));
    let path = GeometricPath::new(base, target);
    let ais = || {
        let ais = Ais::with_base_log_z(&path, Metropolis(Turn), 0.0);
        let ais = ais.schedule(Schedule::linear(20).unwrap()).block_size(50);
        ais.chains(730).recorder(Sum::default())
    };
    let found = ais().threads(threads).run_on_without_states(world).unwrap();
    assert_eq!(found.is_some(), world.rank() == 0);
    if let Some(found) = found {
        let expected = ais().run().unwrap();
        assert_eq!(said(&found), said(&expected));
        assert_eq!(found.states().len(), 730);
        assert_eq!(found.recorder().0.len(), 20);
        assert!(found.recorder().0 == expected.recorder().0);
    }
}

fn the_leftmost_failure(world: &dyn Communicator, threads: usize) {
    let mut at_fault = BTreeSet::new();
    let strange = |x: &DVector<f64>| if x[0] > 4.0 { f64::NAN } else { 0.0 };
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), FunctionModel::new(strange));
    for seed in 0..8 {
        let ais = || ais(&path).seed(seed).chains(2_000);
        let expected = ais().threads(1).run().unwrap_err();
        let Error::NonFinite { chain, .. } = expected else {
            panic!("{expected}");
        };
        let rank = chain / 50 % world.size() as usize;
        let found = ais().threads(threads).run_on(world);
        expect_failure(world, found, rank, &expected);
        at_fault.insert(rank);
    }
    assert!(at_fault.len() >= 2.min(world.size() as usize));
}

fn progress(world: &dyn Communicator) {
    let path = path();
    let most = std::sync::Mutex::new(0);
    let callback = |progress: Progress| {
        let mut most = most.lock().unwrap();
        *most = progress.done.max(*most);
        assert_eq!(progress.total, 20_000);
    };
    let run = ais(&path).progress(callback).run_on(world).unwrap();
    // The others stay silent.
    let expected = if run.is_some() { 20_000 } else { 0 };
    assert_eq!(*most.lock().unwrap(), expected);
}

/// Where rank 0 has long done its part, it still looks at the time and hears of the callback.
fn stops(world: &dyn Communicator) {
    let slow = world.rank() > 0;
    let model = move |x: &DVector<f64>| {
        if slow {
            thread::sleep(Duration::from_millis(1));
        }
        -x.norm_squared()
    };
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), FunctionModel::new(model));
    let ais = || ais(&path).chains(10_000).threads(1);
    let after = Duration::from_millis(200);
    let begun = Instant::now();
    let by_time = ais().time_limit(after).run_on(world);
    let at = |progress: Progress| match progress.seconds > after.as_secs_f64() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let by_callback = ais().progress(at).run_on(world);
    if world.size() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    for (run, by) in [
        (by_time, StoppedBy::TimeLimit),
        (by_callback, StoppedBy::Callback),
    ] {
        let Some(run) = run.unwrap() else { continue };
        if world.size() > 1 {
            assert_eq!((run.chains(), run.stopped_by()), (50, by));
        }
        let plain = ais().chains(run.chains()).run().unwrap();
        assert!(run.states() == plain.states() && run.log_weights() == plain.log_weights());
    }
}

/// Panics in one block while an earlier one of the same rank, which it cancels, is under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Fuse {
    slow: usize,
    panics: usize,
}

impl<M: Intermediate> Recorder<M> for Fuse {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<M::State>) {
        if block.first_chain() == self.slow {
            thread::sleep(Duration::from_millis(20));
        }
        assert_ne!(block.first_chain(), self.panics, "the fuse");
    }
}

impl Merge for Fuse {
    fn merge(&mut self, _right: Self) {}
}

fn panics(world: &dyn Communicator) {
    let (last, size) = (world.size() as usize - 1, world.size() as usize);
    let fuse = Fuse {
        slow: 50 * last,
        panics: 50 * (last + size),
    };
    let path = path();
    let fused = ais(&path).threads(2).recorder(fuse);
    let found = fused.run_on(world).unwrap_err();
    let first = 50 * (last + size);
    let place = format!(
        "panic in chains {first}..{} at stage 1 (beta = 0.05)",
        first + 50
    );
    let found = found.to_string();
    assert!(found.contains(&place), "{found}");
    assert!(found.contains("the fuse"), "{found}");
    let last = world.rank() as usize == last;
    // A callback, which on rank 0 is called by the thread that waits for the others too.
    let model = move |x: &DVector<f64>| {
        thread::sleep(Duration::from_micros(if last { 1_000 } else { 0 }));
        -x.norm_squared()
    };
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), FunctionModel::new(model));
    let callback = |progress: Progress| assert!(progress.seconds < 0.3, "no patience");
    let found = ais(&path)
        .progress(callback)
        .run_on(world)
        .unwrap_err()
        .to_string();
    assert!(found.contains("no patience"), "{found}");
}

fn settings_that_differ(world: &dyn Communicator) {
    let rank = world.rank() as usize;
    let last = world.size() as usize - 1;
    let path = path();
    let steps = |steps| Schedule::linear(steps).unwrap();
    let odd = |odd: usize| if rank == last { odd } else { 0 };
    let runs: [(Result<_>, &str); 5] = [
        (
            ais(&path).seed(3 + odd(1) as u64).run_on(world),
            "of another run, which has seed 4; this run has 3",
        ),
        (
            ais(&path).chains(100 + odd(1)).run_on(world),
            "of another run, which has chains 101; this run has 100",
        ),
        (
            ais(&path).schedule(steps(20 + odd(5))).run_on(world),
            "of another run, which has a number of stages of 25; this run has 20",
        ),
        (
            ais(&path)
                .resampling(Resampling::every(5 + odd(1)).unwrap())
                .run_on(world),
            "of another run, which has resampling ",
        ),
        // Refused by itself.
        (
            ais(&path).block_size(1 - odd(1)).run_on(world),
            "invalid block_size: got 0, expected at least 1",
        ),
    ];
    for (i, (found, message)) in runs.into_iter().enumerate() {
        if last == 0 && i < 4 {
            assert!(found.is_ok());
            continue;
        }
        expect_settings(world, found, message);
    }
}

fn engines_that_differ(world: &dyn Communicator) {
    let rbm = Rbm::new(
        DMatrix::from_fn(3, 4, |i, j| (i + j) as f64 / 5.0),
        DVector::zeros(3),
        DVector::zeros(4),
    );
    let rbm = rbm.unwrap();
    let engine = match world.rank() + 1 == world.size() {
        true => SimdLevel::Portable,
        false => SimdLevel::best(),
    };
    let path = RbmPath::new(BaseRate::uniform(3, 4).unwrap(), rbm).unwrap();
    let path = path.with_simd_level(engine).unwrap();
    let found = Ais::new(&path, BlockGibbs).chains(10).run_on(world);
    match world.size() == 1 || SimdLevel::best() == SimdLevel::Portable {
        true => assert!(found.is_ok()),
        false => expect_settings(
            world,
            found,
            "invalid engine: got Some(Portable), expected Some(",
        ),
    }
}
