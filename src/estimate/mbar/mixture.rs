//! Probabilities that a draw came from each state, and sums over all draws in an order that no thread changes.

use std::ops::Range;

use super::data::Data;
use crate::num::{VECTOR_WIDTH, exp_of_negative, over_vectors};
use crate::work::{Merge, join};

/// Number of draws of a piece of work that one thread does.
const BLOCK: usize = 4_096;
/// Number of draws whose probabilities are in memory together.
const CHUNK: usize = 256;

/// Sums over draws.
#[derive(Debug, Clone)]
pub(super) struct Sums(pub(super) Vec<f64>);

impl Merge for Sums {
    fn merge(&mut self, right: Self) {
        let pairs = self.0.iter_mut().zip(right.0);
        pairs.for_each(|(sum, other)| *sum += other);
    }
}

/// The mixture `sum_j a_j f_j(x) / Z_j` of the laws with draws, at an estimate of their `c_j = log Z_j`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mixture<'a> {
    pub(super) data: &'a Data,
    /// Logarithm of `a_j / Z_j` for each law with draws.
    pub(super) log_shares: &'a [f64],
}

/// Probabilities `p_j(x) = a_j f_j(x) / Z_j / mixture(x)` of a few successive draws.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) draws: Range<usize>,
    /// Probabilities of all draws for law 0, then for law 1, and so on.
    pub(super) p: Vec<f64>,
    /// Log density of the mixture at each draw.
    pub(super) log_mixture: Vec<f64>,
    buffer: Vec<f64>,
}

impl Chunk {
    /// Returns the probabilities of all draws for a law.
    pub(super) fn of_law(&self, law: usize) -> &[f64] {
        let length = self.draws.len();
        &self.p[law * length..(law + 1) * length]
    }
}

impl Mixture<'_> {
    /// Returns sums over all draws. `add` adds the draws of a chunk to a list of `length` sums that begin at 0.
    pub(super) fn sum(&self, length: usize, add: &(dyn Fn(&Chunk, &mut [f64]) + Sync)) -> Vec<f64> {
        self.sum_within(0..self.data.draws(), length, add).0
    }

    fn sum_within(
        &self,
        draws: Range<usize>,
        length: usize,
        add: &(dyn Fn(&Chunk, &mut [f64]) + Sync),
    ) -> Sums {
        let blocks = draws.len().div_ceil(BLOCK);
        if blocks <= 1 {
            let mut sums = vec![0.0; length];
            self.for_chunks(draws, |chunk| add(chunk, &mut sums));
            return Sums(sums);
        }
        let middle = draws.start + blocks.next_power_of_two() / 2 * BLOCK;
        let (mut left, mut right) = (None, None);
        join(
            &mut || left = Some(self.sum_within(draws.start..middle, length, add)),
            &mut || right = Some(self.sum_within(middle..draws.end, length, add)),
        );
        let (mut left, right) = left.zip(right).expect("both halves have run");
        left.merge(right);
        left
    }

    /// Calls `work` with the probabilities of the given draws, chunk by chunk.
    pub(super) fn for_chunks(&self, draws: Range<usize>, mut work: impl FnMut(&Chunk)) {
        let mut chunk = Chunk::default();
        for start in draws.clone().step_by(CHUNK) {
            self.fill(start..(start + CHUNK).min(draws.end), &mut chunk);
            work(&chunk);
        }
    }

    fn fill(&self, draws: Range<usize>, chunk: &mut Chunk) {
        let length = draws.len();
        chunk.draws = draws.clone();
        chunk.p.resize(self.log_shares.len() * length, 0.0);
        chunk.buffer.resize(length, 0.0);
        chunk.log_mixture.resize(length, 0.0);
        let Chunk {
            p,
            log_mixture,
            buffer,
            ..
        } = chunk;
        log_mixture.fill(f64::NEG_INFINITY);
        buffer.fill(0.0);
        over_vectors(
            #[inline(always)]
            || {
                for (law, p) in p.chunks_exact_mut(length).enumerate() {
                    let share = self.log_shares[law];
                    let densities = &self.data.column(law)[draws.clone()];
                    for ((p, density), most) in p.iter_mut().zip(densities).zip(&mut *log_mixture) {
                        *p = density + share;
                        *most = if *p > *most { *p } else { *most };
                    }
                }
                for p in p.chunks_exact_mut(length) {
                    for ((p, most), sum) in p.iter_mut().zip(&*log_mixture).zip(&mut *buffer) {
                        *p = exp_of_negative(*p - most);
                        *sum += *p;
                    }
                }
                for (most, sum) in log_mixture.iter_mut().zip(&mut *buffer) {
                    *most += sum.ln();
                    *sum = sum.recip();
                }
                for p in p.chunks_exact_mut(length) {
                    p.iter_mut()
                        .zip(&*buffer)
                        .for_each(|(p, factor)| *p *= factor);
                }
            },
        );
    }
}

/// Adds the weighted products `sum_n w_n x_n y_n` of all pairs `i <= j` of `rows` lists in `values`, row by row.
pub(super) fn add_products(values: &[f64], weights: &[f64], rows: usize, sums: &mut [f64]) {
    let length = weights.len();
    let row = |i: usize| &values[i * length..(i + 1) * length];
    let mut weighted = vec![0.0; length];
    over_vectors(
        #[inline(always)]
        || {
            let mut at = 0;
            for i in 0..rows {
                let pairs = weighted.iter_mut().zip(weights.iter().zip(row(i)));
                pairs.for_each(|(product, (weight, x))| *product = weight * x);
                let mut j = i;
                while j + 4 <= rows {
                    let found = products(&weighted, [row(j), row(j + 1), row(j + 2), row(j + 3)]);
                    let slots = sums[at..at + 4].iter_mut().zip(found);
                    slots.for_each(|(sum, found)| *sum += found);
                    (at, j) = (at + 4, j + 4);
                }
                for j in j..rows {
                    sums[at] += products(&weighted, [row(j)])[0];
                    at += 1;
                }
            }
        },
    );
}

/// Returns the scalar products of `x` and each of `others`.
#[inline(always)]
fn products<const N: usize>(x: &[f64], others: [&[f64]; N]) -> [f64; N] {
    let mut lanes = [[0.0; VECTOR_WIDTH]; N];
    let whole = x.len() / VECTOR_WIDTH * VECTOR_WIDTH;
    for start in (0..whole).step_by(VECTOR_WIDTH) {
        let of = |values: &[f64]| -> [f64; VECTOR_WIDTH] {
            std::array::from_fn(|lane| values[start..start + VECTOR_WIDTH][lane])
        };
        let xs = of(x);
        for (lanes, other) in lanes.iter_mut().zip(others) {
            let ys = of(other);
            for lane in 0..VECTOR_WIDTH {
                lanes[lane] += xs[lane] * ys[lane];
            }
        }
    }
    std::array::from_fn(|n| {
        let rest = x[whole..].iter().zip(&others[n][whole..]);
        lanes[n].iter().sum::<f64>() + rest.map(|(x, y)| x * y).sum::<f64>()
    })
}
