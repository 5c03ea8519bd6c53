//! One seed, one result: bit for bit, on any number of threads, however the chains are split.

use crate::shared::{
    self,
    gaussians::{GaussianPair, correlated_path},
};
use annealed::Error;
use annealed::adaptive::{FirstPass, Rounds};
use annealed::ais::{Ais, Execution, Expectations, Run, RunPart};
use annealed::estimate::LogZ;
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::Gaussian;
use annealed::path::TemperedPath;
use annealed::pilot::{BinnedSchedule, Friction, Pilot, ScheduleOptimizer, VarOpt};
use annealed::schedule::Schedule;
use nalgebra::DVector;

/// 1,000 chains in blocks of 64: the last block is partial and the tree is not a full one.
fn ais(path: &GaussianPair) -> Ais<'_, &GaussianPair, RandomWalkMetropolis> {
    Ais::new(path, RandomWalkMetropolis::new(0.8).unwrap())
        .schedule(Schedule::linear(50).unwrap())
        .chains(1_000)
        .block_size(64)
        .seed(42)
}

/// Everything in a result but its wall time, as bits.
fn bits<R>(run: &Run<DVector<f64>, R>) -> Vec<u64> {
    let scalars = [
        run.log_z(),
        run.standard_error(),
        run.thermodynamic_log_z().unwrap(),
    ];
    let stages = run.stages().iter().flat_map(|s| {
        let acceptance = s.acceptance.unwrap();
        [
            s.log_z_ratio,
            s.effective_sample_size,
            s.var_log_weight,
            s.var_increment,
            acceptance,
        ]
    });
    let states = run.states().iter().flat_map(|x| x.iter().copied());
    let floats = scalars.into_iter().chain(stages).chain(states);
    floats
        .chain(run.log_weights().iter().copied())
        .map(f64::to_bits)
        .collect()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let path = correlated_path();
    let one = bits(&ais(&path).threads(1).run().unwrap());
    for threads in [2, 8] {
        assert_eq!(bits(&ais(&path).threads(threads).run().unwrap()), one);
    }
    assert_eq!(bits(&ais(&path).run().unwrap()), one);
}

#[test]
fn a_run_split_in_three_and_merged_gives_the_same_bits() {
    let path = correlated_path();
    let whole = bits(&ais(&path).run().unwrap());
    let part = |range| ais(&path).run_range(range).unwrap();
    let parts = [part(704..1_000), part(0..192), part(192..704)];
    assert_eq!(bits(&RunPart::merge(parts).unwrap()), whole);
}

#[test]
fn a_recorder_merges_the_same_way() {
    let path = correlated_path();
    let means = |threads| {
        let mean = |x: &DVector<f64>| x[0];
        let run = ais(&path)
            .recorder(Expectations::new(shared::value(mean)))
            .threads(threads)
            .run()
            .unwrap();
        run.recorder()
            .means()
            .map(|(_, m)| m.to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(means(1).len(), 50);
    assert_eq!(means(1), means(8));
}

#[test]
fn neighbouring_seeds_share_no_chain() {
    let path = correlated_path();
    let weights = |seed| ais(&path).seed(seed).run().unwrap().log_weights().to_vec();
    let (a, b) = (weights(42), weights(43));
    assert!(a.iter().all(|x| !b.contains(x)));
}

#[test]
fn a_pilot_shares_no_chain_with_the_run_of_the_same_seed() {
    let path = correlated_path();
    let run = ais(&path).run().unwrap();
    let pilot = ais(&path).pilot().run().unwrap();
    assert!(
        run.log_weights()
            .iter()
            .all(|x| !pilot.log_weights().contains(x))
    );
}

#[test]
fn parts_that_do_not_make_one_run_are_refused() {
    let path = correlated_path();
    let part = |range| ais(&path).run_range(range).unwrap();
    let refused =
        |parts: Vec<RunPart<DVector<f64>>>| RunPart::merge(parts).unwrap_err().to_string();
    assert!(refused(vec![]).contains("at least one"));
    assert!(refused(vec![part(0..192), part(0..192), part(192..1_000)]).contains("repeated"));
    assert!(refused(vec![part(0..192), part(128..1_000)]).contains("chain 128 is there twice"));
    let other = ais(&path).seed(43).run_range(192..1_000).unwrap();
    let message = refused(vec![part(0..192), other]);
    assert!(
        message.contains("seed 43 in the part with index 1"),
        "{message}"
    );
    let error = ais(&path).run_range(0..100).unwrap_err().to_string();
    assert!(
        error.contains("0..100") && error.contains("multiple of the block size 64"),
        "{error}"
    );
    assert!(ais(&path).run_range(64..64).is_err());
    assert!(ais(&path).run_range(64..2_000).is_err());
}

/// Prints the result of each pilot on this number of threads.
fn found(threads: Option<usize>) -> Vec<String> {
    fn print(value: impl std::fmt::Debug) -> String {
        format!("{value:?}")
    }
    let path = correlated_path();
    let walk = || RandomWalkMetropolis::new(0.8).unwrap();
    let pilot = Pilot::new(100, 50);
    let by = Execution::new().threads(threads);
    let optimizers: [&dyn ScheduleOptimizer<&GaussianPair, RandomWalkMetropolis>; 3] = [
        &Friction::default().pilot(pilot),
        &VarOpt::default().pilot(pilot),
        &BinnedSchedule::new(Schedule::linear(5).unwrap()),
    ];
    let schedule = |optimizer: &dyn ScheduleOptimizer<_, _>| {
        let found = optimizer.optimize_by(&path, &walk(), 60, 3, &by).unwrap();
        assert!(found.evaluations > 0 && found.seconds > 0.0);
        print((found.schedule, found.warnings, found.evaluations))
    };
    let mut all: Vec<String> = optimizers.into_iter().map(schedule).collect();
    let pass = FirstPass::new(&path, walk()).chains(300).seed(3);
    let first = pass.threads(threads).run().unwrap();
    let figures = (first.log_z, first.evaluations);
    all.push(print((first.schedule, first.kernel, figures)));
    let rounds = Rounds::new(&path, walk()).rounds(2).seed(3);
    let last = rounds.threads(threads).run().unwrap();
    all.push(print((last.kernel(), bits(last.run()))));
    all
}

#[test]
fn any_number_of_threads_finds_the_same_by_each_pilot() {
    let one = found(Some(1));
    for threads in [Some(2), Some(8), None] {
        assert_eq!(found(threads), one, "{threads:?}");
    }
}

#[test]
fn a_pilot_without_threads_is_refused_and_a_panic_names_its_place() {
    let path = correlated_path();
    let walk = || RandomWalkMetropolis::new(0.8).unwrap();
    let none = FirstPass::new(&path, walk()).threads(0).run();
    let none = none.unwrap_err().to_string();
    assert!(none.contains("threads: got 0"), "{none}");
    let likelihood = shared::function(|x: &DVector<f64>| match x[0] > 2.5 {
        true => panic!("of the likelihood"),
        false => 0.0,
    });
    let path = TemperedPath::new(Gaussian::standard(1).unwrap(), likelihood);
    let binned = BinnedSchedule::new(Schedule::linear(5).unwrap());
    let errors = [
        FirstPass::new(&path, walk()).run().unwrap_err(),
        binned.optimize(&path, &walk(), 60, 3).unwrap_err(),
    ];
    for error in errors {
        let Error::Panicked { message, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(message, "of the likelihood");
    }
}
