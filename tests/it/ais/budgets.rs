//! Runs that end before all of their chains are done, go on later, or lack a part: the result is always that of
//! a run with the chains that count.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::shared::{
    self,
    gaussians::{GaussianPair, narrow_path},
};
use annealed::Error;
use annealed::ais::{Ais, Expectations, Progress, Run, RunPart, StoppedBy};
use annealed::bidirectional::{Bridge, TargetSamples};
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::NormalizedModel;
use annealed::population::{Resampling, WasteFree};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dvector};

fn ais(path: &GaussianPair) -> Ais<'_, &GaussianPair, RandomWalkMetropolis> {
    Ais::new(path, RandomWalkMetropolis::new(0.5).unwrap())
        .schedule(Schedule::linear(20).unwrap())
        .block_size(50)
        .seed(3)
}

/// A fingerprint of all that a run says, its time aside.
fn said<R>(run: &Run<DVector<f64>, R>) -> (usize, u64) {
    let log_z = [
        run.log_z(),
        run.standard_error(),
        run.effective_sample_size(),
    ]
    .map(f64::to_bits);
    let stages = format!("{:?} {:?}", run.stages(), run.warnings());
    let along = (
        run.thermodynamic_log_z().map(f64::to_bits),
        run.surviving_ancestors(),
    );
    let states = run
        .states()
        .iter()
        .flat_map(|x| x.iter().map(|x| x.to_bits()));
    let weights = run.log_weights().iter().map(|w| w.to_bits());
    let chains: Vec<u64> = weights.chain(states).collect();
    let mut hasher = DefaultHasher::new();
    (log_z, stages, along, chains).hash(&mut hasher);
    (run.chains(), hasher.finish())
}

#[test]
fn a_run_until_an_error_is_the_run_of_so_many_chains_on_any_number_of_threads() {
    let path = narrow_path();
    let until = |error: f64, threads| {
        let run = ais(&path)
            .chains(100_000)
            .until_error(error)
            .threads(threads);
        run.run().unwrap()
    };
    for error in [0.1, 0.05, 0.03] {
        let run = until(error, 1);
        assert_eq!(run.stopped_by(), StoppedBy::StandardError);
        assert!(run.standard_error() <= error);
        assert!(run.chains() < 100_000, "{}", run.chains());
        // Not much better than asked for: looks are a tenth apart.
        assert!(run.chains() == 500 || run.standard_error() > 0.9 * error);
        let plain = ais(&path).chains(run.chains()).run().unwrap();
        assert_eq!(plain.stopped_by(), StoppedBy::Chains);
        assert_eq!(said(&run), said(&plain));
        for threads in [2, 8] {
            assert_eq!(said(&until(error, threads)), said(&run));
        }
    }
    // The number of chains comes first.
    let run = ais(&path).chains(700).until_error(1e-9).run().unwrap();
    assert_eq!((run.chains(), run.stopped_by()), (700, StoppedBy::Chains));
}

#[test]
fn resampled_runs_have_budgets_too() {
    let path = narrow_path();
    for threads in [1, 2, 8] {
        let run = ais(&path)
            .chains(100_000)
            .resampling(Resampling::every(5).unwrap())
            .until_error(0.02)
            .threads(threads)
            .run()
            .unwrap();
        let plain = ais(&path).resampling(Resampling::every(5).unwrap());
        assert_eq!(said(&run), said(&plain.chains(run.chains()).run().unwrap()));
        assert_eq!(run.stopped_by(), StoppedBy::StandardError);
        assert!(run.chains() >= 500 && run.standard_error() <= 0.02);
    }
}

/// The standard error falls with the square root of the number of chains: so many as the warning says reach it.
#[test]
fn an_error_that_is_not_reached_is_named_with_the_chains_that_reach_it() {
    let path = narrow_path();
    let run = |chains, error| ais(&path).chains(chains).until_error(error).run().unwrap();
    let few = run(1_000, 0.03);
    assert_eq!(few.stopped_by(), StoppedBy::Chains);
    let reached = few.standard_error();
    let [warning] = few.warnings() else {
        panic!("{few}")
    };
    let Warning::ErrorNotReached {
        asked,
        chains,
        budget,
        ..
    } = warning
    else {
        panic!("{warning}")
    };
    assert_eq!((*asked, *chains, *budget), (0.03, Some(1_000), None));
    let needed = 1_000.0 * (reached / 0.03).powi(2);
    let text = warning.to_string();
    let said = text.split("about ").nth(1).unwrap().split(' ').next();
    let said: f64 = said.unwrap().parse().unwrap();
    assert!((1.0..1.1).contains(&(said / needed)), "{text}: {needed}");
    let error = ais(&path)
        .chains(said as usize)
        .run()
        .unwrap()
        .standard_error();
    assert!((0.024..0.036).contains(&error), "{error}");
    assert!(few.to_string().contains("that was asked for"), "{few}");
    assert!(run(100_000, 0.03).warnings().is_empty());
    // A run that is stopped before says it too, and so does one that goes on.
    let stop = |at: Progress| match at.done > 600 * 20 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let stopped = ais(&path).chains(1_000).until_error(1e-3).threads(1);
    let stopped = stopped.progress(stop).run().unwrap();
    assert_eq!(stopped.stopped_by(), StoppedBy::Callback);
    assert_eq!(stopped.warnings().len(), 1, "{stopped}");
    let more = ais(&path).chains(1_100).until_error(0.01).extend(few);
    let not_reached =
        |w: &Warning| matches!(w, Warning::ErrorNotReached { asked, .. } if *asked == 0.01);
    assert!(more.unwrap().warnings().iter().any(not_reached));
}

/// A run that reads its path backward has a chain for each sample.
#[test]
fn an_error_to_run_to_ends_no_run_backward() {
    let path = narrow_path();
    let ais = ais(&path).chains(100_000).until_error(0.1);
    let forward = ais.run().unwrap();
    assert!(forward.chains() < 2_000);
    let samples = TargetSamples::draw(path.target(), 2_000, 1);
    let reverse = ais.reverse(&samples).unwrap();
    assert_eq!(reverse.backward().chains(), 2_000);
    assert!(Bridge::new(&forward, &reverse).is_ok());
    assert!(ais.raise(&[dvector![1.0, -2.0]], 2_000).is_ok());
}

#[test]
fn errors_that_are_not_positive_are_refused_as_a_goal() {
    let path = narrow_path();
    for error in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let message = ais(&path).until_error(error).run().unwrap_err().to_string();
        assert!(
            message.contains("until_error") && message.contains("positive"),
            "{message}"
        );
    }
    let message = ais(&path).until_error(0.1).run_range(0..50).unwrap_err();
    assert!(
        message.to_string().contains("none for a part of a run"),
        "{message}"
    );
}

#[test]
fn a_callback_stops_a_run_and_what_is_done_counts() {
    let path = narrow_path();
    let stop = |after: u64| {
        move |progress: Progress| match progress.done >= after {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    // 20 stages of 50 chains are a block.
    let run = ais(&path).chains(1_000).threads(1).progress(stop(3_500));
    let run = run.run().unwrap();
    assert_eq!((run.chains(), run.stopped_by()), (150, StoppedBy::Callback));
    assert_eq!(said(&run), said(&ais(&path).chains(150).run().unwrap()));
    // With several threads a block to the left may be the last to end: what counts is the row without a gap.
    match ais(&path)
        .chains(1_000)
        .threads(4)
        .progress(stop(15_000))
        .run()
    {
        Ok(run) => {
            let plain = ais(&path).chains(run.chains()).run().unwrap();
            assert_eq!(said(&run), said(&plain));
        }
        Err(error) => assert!(matches!(error, Error::Stopped { .. }), "{error}"),
    }
    // Before the first block is done there is no result.
    let error = ais(&path)
        .chains(1_000)
        .progress(stop(1))
        .run()
        .unwrap_err();
    assert!(
        matches!(error, Error::Stopped { chains: 50, .. }),
        "{error}"
    );
    // A stop after the last stage stops nothing.
    let run = ais(&path)
        .chains(100)
        .threads(1)
        .progress(stop(2_000))
        .run()
        .unwrap();
    assert_eq!((run.chains(), run.stopped_by()), (100, StoppedBy::Chains));
}

#[test]
fn progress_reports_what_is_done_so_far() {
    let path = narrow_path();
    let seen = std::sync::Mutex::new(Vec::new());
    let run = ais(&path)
        .chains(1_000)
        .threads(1)
        .progress(|progress| seen.lock().unwrap().push(progress))
        .run()
        .unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() > 300 && seen.iter().all(|at| at.total == 20_000));
    assert_eq!(seen.last().unwrap().done, 20_000);
    assert!(seen[0].so_far.is_none());
    let last = seen.last().unwrap().so_far.unwrap();
    assert_eq!(last.chains, 950);
    let plain = ais(&path).chains(950).run().unwrap();
    assert!((last.log_z - plain.log_z()).abs() < 1e-9);
    assert!((last.effective_sample_size - plain.effective_sample_size()).abs() < 1e-6);
    let text = seen[300].to_string();
    assert!(
        text.contains("% done, log Z so far") && text.contains("s left"),
        "{text}"
    );
    assert!(run.log_z().is_finite());
}

#[test]
fn a_reverse_run_reports_no_log_z_on_its_way() {
    let path = narrow_path();
    let samples =
        TargetSamples::approximate(ais(&path).chains(300).run().unwrap().states().to_vec());
    let seen = std::sync::Mutex::new(Vec::new());
    let watched = ais(&path).progress(|at: Progress| seen.lock().unwrap().push(at.to_string()));
    assert!(watched.reverse(&samples).unwrap().log_z().is_finite());
    drop(watched);
    let seen = seen.into_inner().unwrap();
    assert!(
        seen.iter()
            .all(|text| text.starts_with("reverse run: ") && !text.contains("log Z"))
    );
}

#[test]
fn a_time_limit_ends_a_run() {
    let path = narrow_path();
    let run = ais(&path)
        .chains(1 << 30)
        .time_limit(Duration::from_millis(300))
        .run()
        .unwrap();
    assert_eq!(run.stopped_by(), StoppedBy::TimeLimit);
    assert!(run.seconds() < 10.0 && run.chains() >= 50);
    assert_eq!(
        said(&run),
        said(&ais(&path).chains(run.chains()).run().unwrap())
    );
    let error = ais(&path).time_limit(Duration::ZERO).run().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("time limit reached before the first block of 50 chains was done"),
        "{error}"
    );
    // A part says what it lacks.
    let part = ais(&path)
        .chains(200)
        .time_limit(Duration::ZERO)
        .run_range(0..100)
        .unwrap();
    assert_eq!(
        (part.finished(), part.stopped_by()),
        (0, StoppedBy::TimeLimit)
    );
    assert_eq!(part.missing(), vec![0..200; 1]);
}

#[test]
fn a_finished_run_takes_more_chains_to_the_bits_of_one_run() {
    let path = narrow_path();
    let recorded =
        || ais(&path).recorder(Expectations::new(shared::value(|x: &DVector<f64>| x[0])));
    let means =
        |run: &Run<DVector<f64>, Expectations<_>>| run.recorder().means().collect::<Vec<_>>();
    let whole = recorded().chains(1_234).run().unwrap();
    // Full blocks, blocks that are not full, and steps on the way.
    for steps in [
        vec![50],
        vec![130, 131, 700],
        vec![400, 450, 1_234],
        vec![1],
    ] {
        let mut run = recorded().chains(steps[0]).run().unwrap();
        for chains in steps.into_iter().skip(1).chain([1_234]) {
            run = recorded().chains(chains).extend(run).unwrap();
            let plain = recorded().chains(chains).run().unwrap();
            assert_eq!((said(&run), means(&run)), (said(&plain), means(&plain)));
        }
        assert_eq!((said(&run), means(&run)), (said(&whole), means(&whole)));
    }
    let resampled = || ais(&path).resampling(Resampling::every(3).unwrap());
    let run = resampled().chains(330).run().unwrap();
    let longer = resampled().chains(777).extend(run).unwrap();
    assert_eq!(said(&longer), said(&resampled().chains(777).run().unwrap()));
    let waste_free = || ais(&path).waste_free(WasteFree::new(7).unwrap());
    let run = waste_free().chains(30).run().unwrap();
    let longer = waste_free().chains(777).extend(run).unwrap();
    assert_eq!(
        said(&longer),
        said(&waste_free().chains(777).run().unwrap())
    );
}

#[test]
fn a_run_goes_on_only_from_its_own_chains() {
    let path = narrow_path();
    let run = || ais(&path).chains(200).run().unwrap();
    let message = |ais: Ais<'_, _, _>| ais.extend(run()).unwrap_err().to_string();
    assert!(message(ais(&path).chains(400).seed(4)).contains("of another run, which has seed"));
    assert!(
        message(ais(&path).chains(400).block_size(25))
            .contains("of another run, which has block_size")
    );
    assert!(message(ais(&path).chains(150)).contains("at least 200"));
}

#[test]
fn an_incomplete_set_of_parts_gives_the_estimate_of_what_is_there_and_says_so() {
    let path = narrow_path();
    let ais = || ais(&path).chains(1_030);
    let ranges = ais().ranges(8).unwrap();
    let parts: Vec<_> = ranges
        .iter()
        .map(|range| ais().run_range(range.clone()).unwrap())
        .collect();
    let some = [7, 2, 0, 5, 3].map(|i| parts[i].clone());
    let joined = RunPart::join(some.clone()).unwrap();
    let missing = joined.missing();
    assert_eq!(
        missing,
        [ranges[1].clone(), ranges[4].clone(), ranges[6].clone()]
    );
    let run = RunPart::merge(some).unwrap();
    assert_eq!(run.missing(), missing);
    let lacking: usize = missing.iter().map(|range| range.len()).sum();
    let warning = Warning::MissingChains {
        missing: lacking,
        of: 1_030,
    };
    assert!(run.warnings().contains(&warning), "{run}");
    assert_eq!(
        (run.chains(), run.states().len()),
        (1_030 - lacking, 1_030 - lacking)
    );
    assert!((run.log_z() - path.target().log_normalizer()).abs() < 4.0 * run.standard_error());
    // The rest makes it whole, by parts or in one go.
    let whole = ais().run().unwrap();
    let rest = missing
        .into_iter()
        .map(|range| ais().run_range(range).unwrap());
    let merged = RunPart::merge(rest.chain([joined])).unwrap();
    assert_eq!(said(&merged), said(&whole));
    assert!(merged.missing().is_empty());
    assert_eq!(said(&ais().extend(run).unwrap()), said(&whole));
}

#[test]
fn families_survive_a_gap_between_parts() {
    let path = narrow_path();
    let ais = || {
        ais(&path)
            .chains(300)
            .resampling(Resampling::every(1).unwrap())
    };
    let parts = [0..100, 200..300].map(|range| ais().run_range(range).unwrap());
    let run = RunPart::merge(parts).unwrap();
    assert_eq!(run.chains(), 200);
    assert!(run.surviving_ancestors().unwrap() <= 200);
    assert_eq!(
        said(&ais().extend(run).unwrap()),
        said(&ais().run().unwrap())
    );
}

#[test]
fn pooled_seeds_are_one_run_of_all_their_chains() {
    let path = narrow_path();
    let run = |seed, chains| ais(&path).seed(seed).chains(chains).run().unwrap();
    let runs = [run(1, 500), run(2, 730), run(3, 100)];
    let pooled = Run::pooled(&runs).unwrap();
    let weights: f64 = runs
        .iter()
        .flat_map(|run| run.log_weights())
        .map(|w| w.exp())
        .sum();
    let expected = (weights / 1_330.0).ln() + path.base().log_normalizer();
    assert!((pooled.value() - expected).abs() < 1e-12);
    assert!(
        (pooled.value() - path.target().log_normalizer()).abs() < 4.0 * pooled.standard_error()
    );
    let message = |runs: &[Run<DVector<f64>>]| Run::pooled(runs).unwrap_err().to_string();
    assert!(message(&[]).contains("at least one"));
    assert!(message(&[run(1, 500), run(1, 400)]).contains("seed 1 twice"));
    let other = ais(&path)
        .seed(9)
        .schedule(Schedule::linear(3).unwrap())
        .run()
        .unwrap();
    assert!(
        message(&[run(1, 500), other]).contains("a number of stages of 3 in the run with index 1")
    );
    let resampled = |seed, chains| {
        let resampling = Resampling::every(4).unwrap();
        ais(&path)
            .resampling(resampling)
            .seed(seed)
            .chains(chains)
            .run()
            .unwrap()
    };
    let pooled = Run::pooled(&[resampled(1, 500), resampled(2, 730)]).unwrap();
    assert!(
        (pooled.value() - path.target().log_normalizer()).abs() < 4.0 * pooled.standard_error()
    );
    assert!(pooled.standard_error() < resampled(1, 500).standard_error());
    assert!(message(&[resampled(2, 730), resampled(1, 500)]).contains("not full"));
}

#[test]
fn each_block_is_worked_on_once() {
    let path = narrow_path();
    let calls = AtomicUsize::new(0);
    let run = ais(&path).chains(1_000).progress(|progress: Progress| {
        calls.fetch_max(progress.done as usize, Ordering::Relaxed);
    });
    let done = ais(&path).chains(500).run().unwrap();
    assert_eq!(run.extend(done).unwrap().chains(), 1_000);
    assert_eq!(calls.load(Ordering::Relaxed), 20_000);
}
