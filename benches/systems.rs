//! The systems of the four papers, each on one small problem and one thread: a pilot with its schedule, the matching of a knot,
//! steps with a drift modifier, and the training of learned transitions.

use std::hint::black_box;
use std::time::Duration;

use annealed::ais::{Ais, Execution};
use annealed::drift::{DriftModifiedLangevin, QuadratureModifier};
use annealed::estimate::LogZ;
use annealed::kernel::RandomWalkMetropolis;
use annealed::learned::{LearnedTransitions, Mean, Objective, Training};
use annealed::model::Gaussian;
use annealed::path::{GaussianPath, GeometricPath};
use annealed::pilot::{Pilot, VarOpt};
use annealed::rbm::{BaseRate, ExactMatching, Rbm, RbmMatching};
use annealed::schedule::Schedule;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::{DMatrix, DVector};

fn ends(dimension: usize) -> [Gaussian; 2] {
    let target = Gaussian::isotropic(DVector::repeat(dimension, 1.0), 0.3).unwrap();
    [Gaussian::standard(dimension).unwrap(), target]
}

/// Chain-steps of a pilot, and the stages that VAROPT places.
fn pilots(criterion: &mut Criterion) {
    let [base, target] = ends(10);
    let path = GeometricPath::new(base, target);
    let kernel = RandomWalkMetropolis::new(0.2).unwrap();
    let (pilot, thread) = (Pilot::new(100, 200), Execution::new().threads(1));
    let survey = || pilot.survey_by(&path, &kernel, 1, &thread).unwrap();
    let mut group = criterion.benchmark_group("pilot, 10 dimensions");
    group.throughput(Throughput::Elements(20_000));
    group.bench_function("survey", |bencher| bencher.iter(|| black_box(survey())));
    let (survey, varopt) = (survey(), VarOpt::default());
    group.throughput(Throughput::Elements(10_000));
    group.bench_function("VAROPT", |bencher| {
        bencher.iter(|| black_box(varopt.schedule(&survey, 10_000).unwrap()))
    });
    group.finish();
}

/// A knot half way to an RBM, whose moments are matched by enumeration.
fn matching(criterion: &mut Criterion) {
    let weights = DMatrix::from_fn(8, 64, |i, j| ((3 * i + 5 * j) as f64).sin());
    let rbm = Rbm::new(weights, DVector::zeros(8), DVector::repeat(64, -1.0)).unwrap();
    let base = BaseRate::<f64>::uniform(8, 64).unwrap();
    let moments = base
        .moments()
        .average(&rbm.exact_moments().unwrap(), 0.5)
        .unwrap();
    let matching = ExactMatching::default();
    criterion.bench_function("exact matching, 8 x 64 units", |bencher| {
        bencher.iter(|| black_box(matching.match_moments(&rbm, &moments).unwrap()))
    });
}

/// The table of a drift modifier, and chain-steps with it.
fn drift(criterion: &mut Criterion) {
    let [base, target] = ends(1);
    let path = GaussianPath::new(base, target).unwrap();
    let schedule = Schedule::linear(100).unwrap();
    let table = || QuadratureModifier::new(&path, &schedule, (-8.0, 8.0), 1_601).unwrap();
    let mut group = criterion.benchmark_group("drift modifier, 1 dimension");
    group.throughput(Throughput::Elements(100 * 1_601));
    group.bench_function("quadrature", |bencher| bencher.iter(|| black_box(table())));
    let kernel = DriftModifiedLangevin::new(table(), 0.01).unwrap();
    let run = Ais::new(&path, &kernel)
        .schedule(schedule.clone())
        .chains(128)
        .threads(1);
    group.throughput(Throughput::Elements(128 * 100));
    group.bench_function("steps", |bencher| {
        bencher.iter(|| black_box(run.run().unwrap().log_z()))
    });
    group.finish();
}

/// Trajectories through four transitions with their gradients, by annealed objectives.
fn learned(criterion: &mut Criterion) {
    let [base, target] = ends(2);
    let path = GeometricPath::new(base, target);
    let schedule = Schedule::linear(4).unwrap();
    let flow = LearnedTransitions::new(Mean::Gated { hidden: 32 }, 2, 4, 1).unwrap();
    let training = Training::new(Objective::Annealed)
        .iterations(10)
        .batch_size(64);
    let mut group = criterion.benchmark_group("training, 4 gated transitions, 2 dimensions");
    group.throughput(Throughput::Elements(10 * 64));
    group.bench_function("AVO", |bencher| {
        bencher.iter(|| black_box(training.train(flow.clone(), &path, &schedule).unwrap()))
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = pilots, matching, drift, learned
}
criterion_main!(benches);
