//! Cost of a sweep of spin flips on an Ising lattice of 32 x 32 spins, on one thread: by energy differences and by
//! whole energies. An element in Criterion's report is a sweep of 1,024 proposals of one chain.

use std::hint::black_box;

use annealed::kernel::{LocalMetropolis, LocalProposal, SymmetricProposal};
use annealed::model::LocalDensity;
use annealed::path::GeometricAt;
use annealed::prelude::*;
use annealed::rand::{Rng, RngExt};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SIDE: usize = 32;
const SPINS: usize = SIDE * SIDE;
const CHAINS: usize = 8;
const STAGES: usize = 10;

type Spins = Vec<i8>;

/// The Ising model on a square lattice with periodic boundaries, row by row; holds the coupling over temperature.
struct Ising(f64);

type Path = GeometricPath<Ising, Ising>;
type At<'p> = GeometricAt<'p, Ising, Ising>;

impl UnnormalizedModel for Ising {
    type State = Spins;

    fn log_density(&self, spins: &Spins) -> f64 {
        let row = |i: usize| &spins[i % SIDE * SIDE..][..SIDE];
        let bonds = |i: usize| -> i32 {
            let (row, below) = (row(i), row(i + 1));
            (0..SIDE)
                .map(|j| i32::from(row[j]) * i32::from(row[(j + 1) % SIDE] + below[j]))
                .sum()
        };
        self.0 * f64::from((0..SIDE).map(bonds).sum::<i32>())
    }
}

impl LocalDensity<usize> for Ising {
    fn log_density_change(&self, spins: &Spins, &flipped: &usize) -> f64 {
        let (i, j) = (flipped / SIDE, flipped % SIDE);
        let at = |i: usize, j: usize| i32::from(spins[i % SIDE * SIDE + j % SIDE]);
        let field = at(i + 1, j) + at(i + SIDE - 1, j) + at(i, j + 1) + at(i, j + SIDE - 1);
        -2.0 * self.0 * f64::from(at(i, j) * field)
    }
}

impl Sampleable for Ising {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Spins {
        let mut spin = || if rng.random() { 1 } else { -1 };
        (0..SPINS).map(|_| spin()).collect()
    }
}

struct Flip;

impl LocalProposal<Spins> for Flip {
    type Change = usize;

    fn propose<R: Rng + ?Sized>(&self, _: f64, _: &Spins, rng: &mut R) -> usize {
        rng.random_range(..SPINS)
    }

    fn apply(&self, &flipped: &usize, spins: &mut Spins) {
        spins[flipped] = -spins[flipped];
    }
}

impl SymmetricProposal<Spins> for Flip {
    fn propose<R: Rng + ?Sized>(&self, _: f64, spins: &Spins, proposal: &mut Spins, rng: &mut R) {
        proposal.clone_from(spins);
        let flipped = rng.random_range(..SPINS);
        proposal[flipped] = -proposal[flipped];
    }
}

fn bench<'p, K>(criterion: &mut Criterion, path: &'p Path, name: &str, kernel: K)
where
    K: TransitionKernel<At<'p>> + Sync,
{
    let mut group = criterion.benchmark_group("Ising, 32 x 32");
    group.throughput(Throughput::Elements((CHAINS * STAGES) as u64));
    let run = Ais::with_base_log_z(path, kernel, SPINS as f64 * 2_f64.ln())
        .schedule(Schedule::linear(STAGES).unwrap())
        .chains(CHAINS)
        .threads(1);
    group.bench_function(name, |bencher| {
        bencher.iter(|| black_box(run.run().unwrap().log_z()))
    });
    group.finish();
}

fn flips(criterion: &mut Criterion) {
    let path = GeometricPath::new(Ising(0.0), Ising(0.44));
    let local = LocalMetropolis::new(Flip, SPINS).unwrap();
    bench(criterion, &path, "by differences", local);
    let whole = Repeat::new(Metropolis(Flip), SPINS).unwrap();
    bench(criterion, &path, "by whole energies", whole);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = flips
}
criterion_main!(benches);
