//! Chain-steps per second of the kernels over vectors, on one thread. The path leads from N(0, I) to a diagonal
//! Gaussian with means +-1 and standard deviations 0.5, 1 and 1.5 in turn. An element in Criterion's report is one
//! chain through one stage.

use std::hint::black_box;

use annealed::ais::Ais;
use annealed::estimate::LogZ;
use annealed::kernel::{Hmc, Mala, RandomWalkMetropolis, TransitionKernel, UnadjustedLangevin};
use annealed::model::Gaussian;
use annealed::path::{GeometricAt, GeometricPath};
use annealed::schedule::Schedule;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::{DMatrix, DVector};

const CHAINS: usize = 128;
const STAGES: usize = 200;

type Path = GeometricPath<Gaussian, Gaussian>;
type At<'p> = GeometricAt<'p, Gaussian, Gaussian>;

fn path(dimension: usize) -> Path {
    let mean = DVector::from_fn(dimension, |i, _| if i % 2 == 0 { 1.0 } else { -1.0 });
    let variances = DVector::from_fn(dimension, |i, _| (0.5 + 0.5 * (i % 3) as f64).powi(2));
    let target = Gaussian::new(mean, DMatrix::from_diagonal(&variances)).unwrap();
    GeometricPath::new(Gaussian::standard(dimension).unwrap(), target)
}

fn bench<'p, K>(criterion: &mut Criterion, path: &'p Path, name: &str, kernel: K)
where
    K: TransitionKernel<At<'p>> + Sync,
{
    let dimension = path.base().dimension();
    let mut group = criterion.benchmark_group(format!("d = {dimension}"));
    group.throughput(Throughput::Elements((CHAINS * STAGES) as u64));
    let run = Ais::new(path, kernel)
        .schedule(Schedule::linear(STAGES).unwrap())
        .chains(CHAINS)
        .recorded_stages(1)
        .threads(1);
    group.bench_function(name, |bencher| {
        bencher.iter(|| black_box(run.run().unwrap().log_z()))
    });
    group.finish();
}

fn kernels(criterion: &mut Criterion) {
    for dimension in [2, 100] {
        let path = path(dimension);
        let scale = (dimension as f64).powf(-0.5);
        let variance = 0.4 * (dimension as f64).powf(-1.0 / 3.0);
        let walk = RandomWalkMetropolis::new(scale).unwrap();
        bench(criterion, &path, "random walk", walk);
        bench(criterion, &path, "MALA", Mala::new(variance).unwrap());
        let langevin = UnadjustedLangevin::new(0.1 * variance).unwrap();
        bench(criterion, &path, "unadjusted Langevin", langevin);
        bench(
            criterion,
            &path,
            "HMC, 5 leapfrogs",
            Hmc::new(0.2, 5).unwrap(),
        );
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = kernels
}
criterion_main!(benches);
