//! Chain-steps per second of the kernels over vectors, on one thread: from N(0, I) to a diagonal
//! Gaussian with means +-1 and standard deviations 0.5, 1 and 1.5 in turn, through the runner.
//!
//! Criterion reports "elements per second": an element is one chain through one stage.

use std::hint::black_box;

use annealed::ais::Ais;
use annealed::kernel::{
    Hmc, Mala, PersistentHmc, RandomWalkMetropolis, TransitionKernel, UnadjustedLangevin,
};
use annealed::model::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, Intermediate};
use annealed::schedule::Schedule;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::DVector;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

const CHAINS: usize = 128;
const STAGES: usize = 200;

struct Base(usize);

struct Diagonal {
    base: Base,
    mean: DVector<f64>,
    precision: DVector<f64>,
}

#[derive(Clone, Copy)]
struct At<'a> {
    beta: f64,
    path: &'a Diagonal,
}

impl Diagonal {
    fn new(dimension: usize) -> Self {
        let deviation = |i: usize| 0.5 + 0.5 * (i % 3) as f64;
        Self {
            base: Base(dimension),
            mean: DVector::from_fn(dimension, |i, _| if i % 2 == 0 { 1.0 } else { -1.0 }),
            precision: DVector::from_fn(dimension, |i, _| deviation(i).powi(-2)),
        }
    }
}

impl UnnormalizedModel for Base {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        -0.5 * x.norm_squared()
    }
}

impl Sampleable for Base {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        DVector::from_fn(self.0, |_, _| rng.sample(StandardNormal))
    }
}

impl NormalizedModel for Base {
    fn log_normalizer(&self) -> f64 {
        0.5 * self.0 as f64 * std::f64::consts::TAU.ln()
    }
}

impl AnnealingPath for Diagonal {
    type State = DVector<f64>;
    type Base = Base;
    type At<'a> = At<'a>;

    fn base(&self) -> &Base {
        &self.base
    }

    fn at(&self, beta: f64) -> At<'_> {
        At { beta, path: self }
    }
}

impl At<'_> {
    /// Log densities of base and target.
    fn ends(&self, x: &DVector<f64>) -> (f64, f64) {
        let Diagonal {
            base,
            mean,
            precision,
        } = self.path;
        let mut target = 0.0;
        for ((x, m), p) in x
            .as_slice()
            .iter()
            .zip(mean.as_slice())
            .zip(precision.as_slice())
        {
            target -= 0.5 * (x - m) * (x - m) * p;
        }
        (base.log_density(x), target)
    }
}

impl UnnormalizedModel for At<'_> {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        let (base, target) = self.ends(x);
        (1.0 - self.beta) * base + self.beta * target
    }
}

impl Intermediate for At<'_> {
    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, previous: &Self, x: &DVector<f64>) -> f64 {
        let (base, target) = self.ends(x);
        (self.beta - previous.beta) * (target - base)
    }
}

impl Differentiable for At<'_> {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (mean, precision) = (self.path.mean.as_slice(), self.path.precision.as_slice());
        let terms = gradient.as_mut_slice().iter_mut().zip(x.as_slice());
        for ((gradient, x), (m, p)) in terms.zip(mean.iter().zip(precision)) {
            *gradient -= scale * ((1.0 - self.beta) * x + self.beta * (x - m) * p);
        }
        self.log_density(x)
    }
}

fn bench<'p, K>(criterion: &mut Criterion, path: &'p Diagonal, name: &str, kernel: K)
where
    K: TransitionKernel<At<'p>> + Sync,
{
    let dimension = path.mean.len();
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
        let path = Diagonal::new(dimension);
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
        let persistent = PersistentHmc::new(0.2, 1, 0.1).unwrap();
        bench(criterion, &path, "persistent HMC, 1 leapfrog", persistent);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = kernels
}
criterion_main!(benches);
