//! Pilots, levels and ladders say how far they are, stop when they are told to, and have the same bits all the same.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use annealed::adaptive::{FirstPass, Rounds};
use annealed::ais::{Ais, Execution, Merge, Progress, Recorder, StoppedBy};
use annealed::estimate::LogZ;
use annealed::kernel::{Block, Hmc, RandomWalkMetropolis, Stage};
use annealed::model::{FunctionModel, Gaussian};
use annealed::nested::NestedSmc;
use annealed::path::{GeometricPath, Intermediate, TemperedPath};
use annealed::pilot::{BinnedSchedule, Friction, KnotChains, Pilot, ScheduleOptimizer, VarOpt};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use annealed::{Error, Result};
use nalgebra::DVector;

type Path = GeometricPath<Gaussian, Gaussian>;

fn path() -> Path {
    let target = Gaussian::isotropic(DVector::from_element(3, 1.0), 0.3).unwrap();
    GeometricPath::new(Gaussian::standard(3).unwrap(), target)
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

/// A piece of work that is told of its progress, and the bits of its result.
type Work<'a> = &'a dyn Fn(&(dyn Fn(Progress) -> ControlFlow<()> + Sync)) -> Result<u64>;

/// Calls `check` with the name of each piece of work that reports its progress without a partial result.
fn each_pilot(mut check: impl FnMut(&str, Work<'_>)) {
    let (path, kernel) = (path(), walk());
    check("first pass", &|progress| {
        let pass = FirstPass::new(&path, Hmc::new(0.5, 3).unwrap());
        let pass = pass.chains(100).ess_share(0.97);
        let found = pass.progress(progress).run()?;
        Ok(found.log_z.to_bits())
    });
    let pilot = Pilot::new(100, 100).rounds(2);
    check("survey", &|progress| {
        let survey = pilot.survey_by(&path, &kernel, 1, &Execution::new().progress(progress))?;
        Ok(survey.points()[50].var_log_weight.to_bits())
    });
    let knots = BinnedSchedule::new(Schedule::linear(4).unwrap());
    let knots = knots.chains(KnotChains::default());
    let optimizers: [(&str, &dyn ScheduleOptimizer<_, _>); 3] = [
        ("VAROPT", &VarOpt::default().pilot(pilot)),
        ("friction", &Friction::default().pilot(pilot)),
        ("binned", &knots),
    ];
    for (name, optimizer) in optimizers {
        check(name, &|progress| {
            let by = Execution::new().progress(progress);
            let found = optimizer.optimize_by(&path, &kernel, 30, 1, &by)?;
            Ok(found.schedule.betas()[7].to_bits())
        });
    }
    let prior = Gaussian::standard(2).unwrap();
    let likelihood = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.1).unwrap();
    let problem = TemperedPath::new(prior, likelihood);
    check("levels", &|progress| {
        let levels = NestedSmc::new(&problem, walk()).islands(4).moves(10);
        Ok(levels.progress(progress).run()?.log_z().to_bits())
    });
}

#[test]
fn pilots_say_how_far_they_are_and_keep_their_bits() {
    each_pilot(|name, work| {
        let seen = Mutex::new(Vec::new());
        let watched = work(&|at| {
            seen.lock().unwrap().push(at);
            ControlFlow::Continue(())
        });
        let unwatched = work(&|_| ControlFlow::Continue(()));
        assert_eq!(watched.unwrap(), unwatched.unwrap(), "{name}");
        let mut seen = seen.into_inner().unwrap();
        seen.sort_by_key(|at: &Progress| at.done);
        assert!(seen.len() >= 10, "{name}: {}", seen.len());
        assert!(seen.iter().all(|at| at.done <= at.total), "{name}");
        let last = seen[seen.len() - 1];
        assert!(last.done * 100 >= last.total * 99, "{name}: {last:?}");
    });
}

#[test]
fn pilots_stop_when_they_are_told_to() {
    each_pilot(|name, work| {
        let calls = AtomicU64::new(0);
        let stopped = work(&|_| match calls.fetch_add(1, Ordering::Relaxed) {
            0..5 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        let error = stopped.unwrap_err();
        assert!(matches!(error, Error::Stopped { .. }), "{name}: {error}");
        let panics = work(&|_| panic!("no terminal")).unwrap_err();
        let Error::Panicked { message, .. } = &panics else {
            panic!("{name}: {panics}");
        };
        assert_eq!(message, "no terminal", "{name}");
    });
}

fn rounds(path: &Path) -> Rounds<'_, &Path, Hmc> {
    Rounds::new(path, Hmc::new(0.5, 3).unwrap()).chains(64)
}

#[test]
fn rounds_count_all_that_they_do() {
    let path = path();
    let fitted = || rounds(&path).fitted();
    for rounds in [
        rounds(&path).rounds(3),
        rounds(&path).budget(100_000),
        fitted().until_error(0.05),
        fitted().budget(100_000),
    ] {
        let last = Mutex::new((0, 0));
        let _ = rounds
            .progress(|at| {
                assert!(at.done <= at.total, "{at:?}");
                let mut last = last.lock().unwrap();
                *last = (*last).max((at.done, at.total));
            })
            .run()
            .unwrap();
        let (done, total) = last.into_inner().unwrap();
        assert!(done * 20 > total * 19, "{done} of {total}");
    }
}

#[test]
fn a_fit_counts_the_evaluations_of_a_random_walk() {
    let path = path();
    let done = AtomicU64::new(0);
    let rounds = Rounds::new(&path, walk()).fitted().until_error(0.05);
    let watch = |at: Progress| {
        done.fetch_max(at.done, Ordering::Relaxed);
    };
    let all = rounds.progress(watch).run().unwrap().evaluations();
    let done = done.load(Ordering::Relaxed);
    assert!(
        (0.85..=1.0).contains(&(done as f64 / all as f64)),
        "{done} of {all}"
    );
}

#[test]
fn rounds_that_are_stopped_are_those_before() {
    let path = path();
    for finished in 1..3 {
        let expected = rounds(&path).rounds(finished).run().unwrap();
        let (pass, later) = expected.rounds().split_first().unwrap();
        let of_later: usize = later.iter().map(|round| round.stages).sum();
        // Three moves at each stage of the first pass, and six at the base.
        let most = 64 * (6 + 3 * pass.stages + of_later) as u64;
        let stop = |at: Progress| match at.done > most {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let stopped = rounds(&path).rounds(4).progress(stop).run().unwrap();
        assert_eq!(stopped.rounds().len(), expected.rounds().len());
        assert_eq!(stopped.log_z().to_bits(), expected.log_z().to_bits());
        assert_eq!(stopped.barrier(), expected.barrier());
        assert_eq!(stopped.stopped_by(), StoppedBy::Callback);
        // The callback may have chosen by the weights.
        assert_eq!(stopped.certified_lower_bound(0.95), Ok(None));
    }
    let stop = |at: Progress| match at.done > 64 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let error = rounds(&path).progress(stop).run().unwrap_err();
    assert!(matches!(error, Error::Stopped { .. }), "{error}");
}

/// However far it is, a run from a fitted base ends soon after it is told to.
#[test]
fn a_fit_stops_when_it_is_told_to() {
    let evaluations = AtomicU64::new(0);
    let log_likelihood = |x: &[f64]| {
        evaluations.fetch_add(1, Ordering::Relaxed);
        -50.0 * x.iter().map(|x| (x - 1.0).powi(2)).sum::<f64>()
    };
    let likelihood = FunctionModel::of_slices(log_likelihood);
    let path = TemperedPath::new(Gaussian::standard(3).unwrap(), likelihood);
    let rounds = || {
        Rounds::new(&path, walk())
            .chains(128)
            .fitted()
            .until_error(0.05)
    };
    let all = rounds().run().unwrap().evaluations();
    for asked in (100..all).step_by(all as usize / 20) {
        evaluations.store(0, Ordering::Relaxed);
        let stop = || evaluations.load(Ordering::Relaxed) >= asked;
        let _ = rounds().stop_when(stop).run();
        let late = evaluations.load(Ordering::Relaxed).saturating_sub(asked);
        assert!(late <= 300, "{late} after {asked} of {all}");
    }
}

#[test]
fn tempering_stops_when_it_is_asked_to() {
    let path = path();
    let tempering = || Tempering::new(&path, walk()).seed(3).ladders(4);
    let asked = AtomicU64::new(0);
    // Rounds 1 to 4 have 2, 4, 8, 16 scans of four blocks.
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 4 * 31;
    let stopped = tempering().rounds(10).stop_when(stop).run().unwrap();
    assert_eq!(stopped.stopped_by(), StoppedBy::Callback);
    let expected = tempering().rounds(4).run().unwrap();
    assert_eq!(stopped.log_z().to_bits(), expected.log_z().to_bits());
    let error = tempering().stop_when(|| true).run().unwrap_err();
    assert!(matches!(error, Error::Stopped { .. }), "{error}");
}

/// Cannot be merged.
#[derive(Debug, Clone)]
struct Single;

impl Merge for Single {
    fn merge(&mut self, _right: Self) {
        panic!("there can be only one");
    }
}

impl<M: Intermediate> Recorder<M> for Single {
    fn record(&mut self, _stage: Stage<'_, M>, _block: &Block<M::State>) {}
}

#[test]
fn a_panic_in_merging_is_an_error() {
    let path = path();
    let schedule = Schedule::linear(10).unwrap();
    for (chains, threads) in [(80, 1), (80, 3), (30, 2)] {
        // Two blocks of different sizes in the tree are merged when the run ends.
        let ais = Ais::new(&path, walk()).schedule(schedule.clone());
        let ais = ais.chains(chains).block_size(10).threads(threads);
        let error = ais.recorder(Single).run().unwrap_err();
        let Error::Panicked {
            message,
            chains: at,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(message, "in merging: there can be only one");
        assert!(!at.is_empty() && at.end <= chains, "{at:?}");
    }
}
