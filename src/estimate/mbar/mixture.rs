//! Probabilities that a draw came from each state, and sums over all draws in an order that no thread changes.

use std::ops::Range;

use nalgebra::DMatrix;

use super::data::Data;
use crate::estimate::effective_draws::Correlation;
use crate::num::{exp_of_negative, over_vectors};
use crate::work::join;

/// Number of draws of a piece of work that one thread does.
const BLOCK: usize = 4_096;
/// Number of draws whose probabilities are in memory together.
const CHUNK: usize = 256;

/// Work on a chunk: its draws, their values and the log density of the mixture at each.
pub(super) type OnChunk<'a> = dyn FnMut(Range<usize>, &DMatrix<f64>, &[f64]) + 'a;

/// Weights of the draws in the equations, in proportion to the effective numbers `N_s / t_s` of draws.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// Autocorrelation time `t_s` of the draws of each state.
    pub(super) times: Vec<f64>,
    /// Whether the draws of each state are correlated beyond chance.
    pub(super) is_clear: Vec<bool>,
    /// Weight `a_s / N_s` of one draw of each state.
    pub(super) of_draw: Vec<f64>,
    /// Weights `a_s` of all draws of each state, with the sum 1.
    pub(super) shares: Vec<f64>,
}

impl Weights {
    pub(super) fn new(data: &Data, correlations: &[Option<Correlation>]) -> Self {
        let time = |found: &Option<Correlation>| found.map_or(1.0, |found| found.time);
        let times = Vec::from_iter(correlations.iter().map(time));
        let counts = data.counts.iter().zip(&times);
        let effective = Vec::from_iter(counts.map(|(count, time)| *count as f64 / time));
        let total: f64 = effective.iter().sum();
        Self {
            of_draw: times.iter().map(|time| 1.0 / (time * total)).collect(),
            shares: effective.iter().map(|count| count / total).collect(),
            is_clear: (correlations.iter())
                .map(|found| found.is_some_and(|found| found.is_clear))
                .collect(),
            times,
        }
    }

    /// Returns the factor `b_k` of the values of a state, as in [`StateMixture`].
    pub(super) fn factor(&self, state: usize) -> f64 {
        let share = self.shares.get(state).copied();
        share.filter(|share| *share > 0.0).unwrap_or(1.0)
    }
}

/// The mixture `sum_j a_j f_j(x) / Z_j` of the states with draws, and values at each draw,
/// `p_k(x) = b_k f_k(x) / Z_k / mixture(x)`. For a state with draws, `b_k = a_k`, so that p is the probability that x came
/// from it. For another state b is 1, and p is at most the inverse of the smallest weight of a draw.
#[derive(Debug)]
pub(super) struct StateMixture<'a> {
    pub(super) data: &'a Data,
    pub(super) weights: &'a Weights,
    /// Log Z of each state; `inf` for a state whose values are not needed.
    pub(super) log_z: Vec<f64>,
    /// Log densities of all draws under each further state, after the others.
    pub(super) further: &'a [Vec<f64>],
}

impl<'a> StateMixture<'a> {
    /// Creates the mixture at log Z of the states with draws. The values of others are 0.
    pub(super) fn new(data: &'a Data, weights: &'a Weights, log_z: &[f64]) -> Self {
        let terms = log_z.iter().zip(&data.counts);
        let log_z = terms.map(|(c, count)| if *count > 0 { *c } else { f64::INFINITY });
        Self {
            log_z: log_z.collect(),
            further: &[],
            data,
            weights,
        }
    }

    /// Returns the log densities of all draws under a state.
    pub(super) fn column(&self, state: usize) -> &[f64] {
        match state.checked_sub(self.data.counts.len()) {
            Some(further) => &self.further[further],
            None => self.data.column(state),
        }
    }

    /// Returns whether a state has draws.
    pub(super) fn contains(&self, state: usize) -> bool {
        self.data.counts.get(state).is_some_and(|count| *count > 0)
    }

    /// Returns `sum_n w_n p_k(x_n) p_l(x_n)` and `sum_n w_n log mixture(x_n)`, with a weight for the draws of each state.
    pub(super) fn sums(&self, weights: &[f64]) -> (DMatrix<f64>, f64) {
        self.sums_within(0..self.data.labels.len(), weights)
    }

    fn sums_within(&self, draws: Range<usize>, weights: &[f64]) -> (DMatrix<f64>, f64) {
        if draws.len() > BLOCK {
            let middle = draws.start + draws.len().div_ceil(2).next_multiple_of(BLOCK);
            let (mut left, mut right) = (None, None);
            join(
                &mut || left = Some(self.sums_within(draws.start..middle, weights)),
                &mut || right = Some(self.sums_within(middle..draws.end, weights)),
            );
            let (left, right) = left.zip(right).expect("both halves have run");
            return (left.0 + right.0, left.1 + right.1);
        }
        let states = self.log_z.len();
        let (mut products, mut log_mixture) = (DMatrix::zeros(states, states), 0.0);
        self.for_chunks(draws, &mut |draws, p, logs| {
            let w = Vec::from_iter(self.data.labels[draws].iter().map(|state| weights[*state]));
            let weighted = DMatrix::from_fn(states, w.len(), |k, n| w[n] * p[(n, k)]);
            products.gemm(1.0, &weighted, p, 1.0);
            log_mixture += logs.iter().zip(w).map(|(log, w)| w * log).sum::<f64>();
        });
        (products, log_mixture)
    }

    /// Returns the weighted sums of the values of each state (row) over the draws of each group (column).
    pub(super) fn sums_by(&self, groups: &[usize], weights: &[f64]) -> DMatrix<f64> {
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let mut sums = DMatrix::zeros(self.log_z.len(), count);
        self.for_chunks(0..groups.len(), &mut |draws, p, _| {
            for (at, draw) in draws.enumerate() {
                let weight = weights[self.data.labels[draw]];
                let mut column = sums.column_mut(groups[draw]);
                (0..column.len()).for_each(|state| column[state] += weight * p[(at, state)]);
            }
        });
        sums
    }

    /// Calls `work` chunk by chunk, with the draws, their values (a row for each draw, a column for each state) and the log
    /// density of the mixture at each of them.
    pub(super) fn for_chunks(&self, draws: Range<usize>, work: &mut OnChunk<'_>) {
        let states = self.log_z.iter().enumerate();
        let log_shares = Vec::from_iter(states.map(|(k, c)| self.weights.factor(k).ln() - c));
        for start in draws.clone().step_by(CHUNK) {
            let draws = start..(start + CHUNK).min(draws.end);
            let mut p = DMatrix::zeros(draws.len(), log_shares.len());
            let log_mixture = self.fill(draws.clone(), &log_shares, p.as_mut_slice());
            work(draws.clone(), &p, &log_mixture[..draws.len()]);
        }
    }

    fn fill(&self, draws: Range<usize>, log_shares: &[f64], p: &mut [f64]) -> [f64; CHUNK] {
        let (mut most, mut sums) = ([f64::NEG_INFINITY; CHUNK], [0.0; CHUNK]);
        over_vectors(
            #[inline(always)]
            || {
                for (state, p) in p.chunks_exact_mut(draws.len()).enumerate() {
                    let column = &self.column(state)[draws.clone()];
                    for ((p, density), most) in p.iter_mut().zip(column).zip(&mut most) {
                        *p = density + log_shares[state];
                        *most = if *p > *most { *p } else { *most };
                    }
                }
                for (state, p) in p.chunks_exact_mut(draws.len()).enumerate() {
                    let within = f64::from(u8::from(self.contains(state)));
                    for ((p, most), sum) in p.iter_mut().zip(&most).zip(&mut sums) {
                        *p = exp_of_negative(*p - most);
                        *sum += within * *p;
                    }
                }
                for p in p.chunks_exact_mut(draws.len()) {
                    p.iter_mut().zip(&sums).for_each(|(p, sum)| *p /= sum);
                }
            },
        );
        std::array::from_fn(|n| most[n] + sums[n].ln())
    }
}
