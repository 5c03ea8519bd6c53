//! Block Gibbs annealing of RBMs with 784 visible units: the fused block step, the per-chain
//! reference beside it, and the exact log Z. Throughput is in chain-steps (states for log Z).

use annealed::ais::{Block, Purpose, stream};
use annealed::kernel::{BlockGibbs, NonFinite, Stage, Step, TransitionKernel};
use annealed::model::{BaseRate, Rbm, Sampleable};
use annealed::path::{AnnealingPath, RbmAt, RbmPath};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};

const VISIBLE: usize = 784;

/// Weights of the size of a trained machine's, base rates of ink on a page.
fn path(hidden: usize) -> RbmPath<f32> {
    let mut rng = stream(1, Purpose::Training, 0);
    let mut draw = |scale: f32, shift: f32| scale * (rng.random::<f32>() - 0.5) + shift;
    let target = Rbm::new(
        DMatrix::from_fn(hidden, VISIBLE, |_, _| draw(0.6, 0.0)),
        DVector::from_fn(hidden, |_, _| draw(1.0, 0.0)),
        DVector::from_fn(VISIBLE, |_, _| draw(2.0, -2.0)),
    );
    let base = BaseRate::new(hidden, DVector::from_fn(VISIBLE, |_, _| draw(2.0, -2.0)));
    RbmPath::new(base.expect("finite"), target.expect("finite")).expect("one shape")
}

/// [`BlockGibbs`] without its fused step.
struct PerChain;

impl<'a> TransitionKernel<RbmAt<'a>> for PerChain {
    type Workspace = <BlockGibbs as TransitionKernel<RbmAt<'a>>>::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<RbmAt<'a>>,
        chain: usize,
        state: &mut Vec<bool>,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        BlockGibbs.step(stage, chain, state, workspace, rng)
    }
}

/// One stage in the middle of a linear schedule of 1,000, again and again.
fn advance<'a, K>(
    criterion: &mut Criterion,
    name: &str,
    kernel: K,
    path: &'a RbmPath,
    chains: usize,
) where
    K: TransitionKernel<RbmAt<'a>>,
{
    let hidden = path.target().hidden_units();
    let mut rng = stream(1, Purpose::Pilot, 0);
    let states = (0..chains).map(|_| path.base().sample(&mut rng)).collect();
    let rngs = (0..chains)
        .map(|chain| stream(1, Purpose::Run, chain))
        .collect();
    let mut block = Block::new(0, states, rngs);
    let mut workspace = K::Workspace::default();
    let stage = Stage::new(1, path.at(0.5), path.at(0.501));
    let mut group = criterion.benchmark_group(format!("rbm {hidden} x {VISIBLE}"));
    group.throughput(Throughput::Elements(chains as u64));
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            kernel
                .advance(&stage, &mut block, &mut workspace)
                .expect("finite")
        });
    });
    group.finish();
}

fn gibbs(criterion: &mut Criterion) {
    for hidden in [20, 500] {
        let path = path(hidden);
        advance(criterion, "fused, 256 chains", BlockGibbs, &path, 256);
        advance(criterion, "per chain", PerChain, &path, 16);
    }
}

fn exact(criterion: &mut Criterion) {
    let rbm = path(14).target().clone();
    let mut group = criterion.benchmark_group("rbm 14 x 784");
    group.throughput(Throughput::Elements(1 << 14));
    group.bench_function("exact log Z", |bencher| {
        bencher.iter(|| rbm.exact_log_normalizer().expect("14 units"));
    });
    group.finish();
}

criterion_group!(benches, gibbs, exact);
criterion_main!(benches);
