//! Chain-steps per second of the fused block-Gibbs stage on one thread, for each SIMD level of this machine and each
//! size, and the rate of training. An element in Criterion's report is one chain through one stage, or one data row.

use std::hint::black_box;
use std::time::Duration;

use annealed::ais::Ais;
use annealed::estimate::LogZ;
use annealed::path::SimdLevel;
use annealed::rbm::{BaseRate, BlockGibbs, ContrastiveDivergence, Rbm, RbmPath};
use annealed::schedule::Schedule;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

const CHAINS: usize = 128;
const STAGES: usize = 50;

/// Returns a path to an RBM with weights of trained size. An eighth of its visible units are on, as in digits.
fn path(hidden: usize, visible: usize) -> RbmPath<f32> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut normal = |scale: f64| (scale * rng.sample::<f64, _>(StandardNormal)) as f32;
    let scale = 0.5 / (hidden as f64).sqrt();
    let weights = DMatrix::from_fn(hidden, visible, |_, _| normal(scale));
    let biases = DVector::repeat(visible, -2.0);
    let target = Rbm::new(weights, DVector::zeros(hidden), biases.clone()).unwrap();
    RbmPath::new(BaseRate::new(hidden, biases).unwrap(), target).unwrap()
}

fn engines() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::ALL
        .into_iter()
        .filter(|engine| engine.is_available())
}

fn stages(criterion: &mut Criterion) {
    for visible in [64, 784] {
        for hidden in [20, 100, 500, 2000] {
            let mut group = criterion.benchmark_group(format!("D = {visible}, M = {hidden}"));
            group.throughput(Throughput::Elements((CHAINS * STAGES) as u64));
            for engine in engines() {
                let path = path(hidden, visible).with_simd_level(engine).unwrap();
                let run = Ais::new(&path, BlockGibbs)
                    .schedule(Schedule::linear(STAGES).unwrap())
                    .chains(CHAINS)
                    .recorded_stages(1)
                    .threads(1);
                group.bench_function(BenchmarkId::from_parameter(engine), |bencher| {
                    bencher.iter(|| black_box(run.run().unwrap().log_z()))
                });
            }
            group.finish();
        }
    }
}

fn training(criterion: &mut Criterion) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let row = |_| (0..784).map(|_| rng.random::<f64>() < 0.13).collect();
    let rows: Vec<Vec<bool>> = (0..1000).map(row).collect();
    let mut group = criterion.benchmark_group("CD-1, D = 784, M = 500, mini-batches of 100");
    group.throughput(Throughput::Elements(rows.len() as u64));
    let start = Rbm::<f32>::from_data(500, &rows, 1).unwrap();
    let training = ContrastiveDivergence::new(1).epochs(1).batch_size(100);
    group.bench_function("one epoch", |bencher| {
        bencher.iter(|| black_box(training.train(start.clone(), &rows).unwrap()))
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = stages, training
}
criterion_main!(benches);
