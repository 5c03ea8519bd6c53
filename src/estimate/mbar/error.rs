//! Errors of log Z of many states, from the influence of each draw and from how draws depend.

use std::collections::BTreeMap;

use nalgebra::DMatrix;

use super::FEW_DRAWS;
use super::data::{Data, Dependence};
use super::mixture::{Chunk, Mixture, add_products};
use super::overlap::Pairs;
use super::solve::Weights;
use crate::estimate::Warning;
use crate::estimate::effective_draws::Correlation;
use crate::num::pairs;

/// Least and largest number of batches of a state.
const BATCHES: (usize, usize) = (20, 50);
/// Least length of a batch in autocorrelation times.
const LONG: f64 = 10.0;

/// Successive draws of one chain, or all draws at successive times, whose mean counts as independent of others.
#[derive(Debug, Clone)]
pub(super) struct Batches {
    /// Batch of each draw.
    pub(super) of_draw: Vec<usize>,
    /// State of each batch; 0 for all batches over several states.
    groups: Vec<usize>,
    /// Factor by which the squared sum of each batch counts.
    factors: Vec<f64>,
}

impl Batches {
    /// Divides the chains of each state, given as lists of draws. `times` are their autocorrelation times.
    fn of_chains(draws: usize, chains: &[Vec<Vec<usize>>], times: &[f64]) -> Self {
        let mut batches = Self {
            of_draw: vec![0; draws],
            groups: Vec::new(),
            factors: Vec::new(),
        };
        for (state, (chains, &time)) in chains.iter().zip(times).enumerate() {
            let lengths = Vec::from_iter(chains.iter().map(Vec::len));
            let parts = parts(&lengths, time);
            for (chain, part) in chains.iter().zip(parts) {
                let first = batches.groups.len();
                for (at, draw) in chain.iter().enumerate() {
                    batches.of_draw[*draw] = first + at * part / chain.len();
                }
                batches.groups.extend(vec![state; part]);
            }
            let count = batches.groups.len() - batches.factors.len();
            let factor = factor(lengths.iter().sum(), count, time);
            batches.factors.resize(batches.groups.len(), factor);
        }
        batches
    }
}

/// Returns the number of batches of each chain of a state.
fn parts(lengths: &[usize], time: f64) -> Vec<usize> {
    let draws = lengths.iter().sum::<usize>() as f64;
    let (least, most) = (BATCHES.0 as f64, BATCHES.1 as f64);
    let length = (LONG * time).max(draws / most).min(draws / least).max(1.0);
    let parts = lengths
        .iter()
        .map(|draws| ((*draws as f64 / length) as usize).max(1));
    parts.collect()
}

/// Returns the factor on the squared sums of `count` batches: for their common mean, and for the correlation between
/// neighbours, whose part of the variance is `(t^2 - 1) / (2 t b)` for batches of b draws with an exponential
/// correlation of time t.
fn factor(draws: usize, count: usize, time: f64) -> f64 {
    let (n, length) = (count as f64, draws as f64 / count.max(1) as f64);
    let lost = (time * time - 1.0) / (2.0 * time * length);
    n / (n - 1.0).max(1.0) / (1.0 - lost.min(0.5))
}

/// Returns the chains of each state, as lists of draws in their order.
fn chains(data: &Data) -> Vec<Vec<Vec<usize>>> {
    let mut chains = vec![BTreeMap::<usize, Vec<usize>>::new(); data.counts.len()];
    for (draw, &state) in data.labels.iter().enumerate() {
        let chain = match &data.dependence {
            Dependence::ManyChains(chains) => chains[draw],
            _ => 0,
        };
        chains[state].entry(chain).or_default().push(draw);
    }
    chains
        .into_iter()
        .map(|of_state| of_state.into_values().collect())
        .collect()
}

/// Returns the number of draws of each state that is worth one independent draw: the larger autocorrelation time of two
/// quantities along its chains, the probability of the own state, and the acceptance at the neighbour where it varies
/// most. It is 1 for independent draws and for replicas.
pub(super) fn times(data: &Data, weights: &Weights, log_z: &[f64], pairs: &Pairs) -> Vec<f64> {
    if !matches!(
        data.dependence,
        Dependence::Chains | Dependence::ManyChains(_)
    ) {
        return vec![1.0; data.counts.len()];
    }
    let neighbours = Vec::from_iter((0..data.sampled).map(|law| pairs.most_varied(law)));
    let log_shares = weights.log_shares(log_z);
    let mixture = Mixture {
        data,
        log_shares: &log_shares,
    };
    let mut quantities = [vec![0.0; data.draws()], vec![0.0; data.draws()]];
    mixture.for_chunks(0..data.draws(), |chunk| {
        for (at, draw) in chunk.draws.clone().enumerate() {
            let own = data.own(draw);
            let of = |law: usize| chunk.of_law(law)[at];
            quantities[0][draw] = of(own);
            quantities[1][draw] = of(own) / (of(own) + of(neighbours[own]));
        }
    });
    // With a single law, all probabilities are 1. The weights of other states then show the correlation.
    for (quantity, law) in quantities.iter_mut().zip(data.sampled..data.laws()) {
        if data.sampled == 1 {
            let ratios = data.column(law).iter().zip(data.column(0));
            *quantity = ratios.map(|(other, own)| (other - own).max(-1e3)).collect();
        }
    }
    let time = |chains: &Vec<Vec<usize>>| {
        let time = |quantity: &Vec<f64>| {
            let values = |chain: &Vec<usize>| chain.iter().map(|draw| quantity[*draw]).collect();
            Correlation::of(&Vec::from_iter(chains.iter().map(values))).time
        };
        match chains.is_empty() {
            true => 1.0,
            false => quantities.iter().map(time).fold(1.0, f64::max),
        }
    };
    chains(data).iter().map(time).collect()
}

/// The covariance of the estimates of log Z.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    covariance: DMatrix<f64>,
    /// Influence of each batch (column) on each estimate (row), and the state of each batch; `None` for independent
    /// draws.
    batches: Option<(DMatrix<f64>, Vec<usize>)>,
    /// Autocorrelation time of the sums over all states, for replicas.
    pub(super) time: Option<f64>,
    /// Number of different times of replicas.
    times: usize,
    /// Batch of each draw; `None` for independent draws.
    pub(super) units: Option<Vec<usize>>,
}

impl Spread {
    /// Returns the variance of the difference of two estimates.
    pub(super) fn variance(&self, one: usize, other: usize) -> f64 {
        let v = &self.covariance;
        (v[(one, one)] + v[(other, other)] - 2.0 * v[(one, other)]).max(0.0)
    }

    /// Returns the degrees of freedom of the difference of two estimates, by the numbers of batches of each state (Welch
    /// and Satterthwaite); infinite for independent draws.
    pub(super) fn freedom(&self, one: usize, other: usize) -> f64 {
        let Some((influences, groups)) = &self.batches else {
            return f64::INFINITY;
        };
        let mut parts = BTreeMap::new();
        for (batch, group) in groups.iter().enumerate() {
            let part = parts.entry(group).or_insert((0.0, -1.0));
            let influence = influences[(one, batch)] - influences[(other, batch)];
            *part = (part.0 + influence * influence, part.1 + 1.0);
        }
        let total: f64 = parts.values().map(|(variance, _)| variance).sum();
        let squares = parts
            .values()
            .map(|(variance, freedom)| variance * variance / f64::max(*freedom, 1.0));
        match squares.sum::<f64>() {
            squares if squares > 0.0 => total * total / squares,
            _ => f64::INFINITY,
        }
    }
}

/// The estimates of log Z as functions of the draws: laws with draws by the equations, and further densities by weights.
#[derive(Debug)]
pub(super) struct Influence<'a> {
    pub(super) mixture: Mixture<'a>,
    pub(super) weights: &'a Weights,
    /// Inverse of the information.
    pub(super) inverse: &'a DMatrix<f64>,
    /// Log densities of all draws under further states, and log Z of these.
    pub(super) further: &'a [(&'a [f64], f64)],
}

/// Means over the draws.
#[derive(Debug)]
pub(super) struct Means {
    /// Mean of each value (row) over the draws of each state (column).
    of_states: DMatrix<f64>,
    /// Mean of `p_l`, for law l (column) and each further state (row), over draws weighted for the further state.
    pub(super) shares: DMatrix<f64>,
}

impl Influence<'_> {
    fn length(&self) -> usize {
        self.mixture.log_shares.len() + self.further.len()
    }

    /// Returns the probabilities `p_l(x)` of each law, and below them the weights `f(x) / (Z mixture(x))` of each
    /// further state.
    fn values(&self, chunk: &Chunk) -> Vec<f64> {
        let mut values = chunk.p.clone();
        for (densities, log_z) in self.further {
            let pairs = densities[chunk.draws.clone()]
                .iter()
                .zip(&chunk.log_mixture);
            values.extend(pairs.map(|(density, mixture)| (density - log_z - mixture).exp()));
        }
        values
    }

    pub(super) fn means(&self) -> Means {
        let (data, m, rows) = (
            self.mixture.data,
            self.mixture.log_shares.len(),
            self.length(),
        );
        let states = data.counts.len();
        let sums = self
            .mixture
            .sum(states * rows + self.further.len() * m, &|chunk, sums| {
                let (values, length) = (self.values(chunk), chunk.draws.len());
                let (means, shares) = sums.split_at_mut(states * rows);
                for (at, draw) in chunk.draws.clone().enumerate() {
                    let state = data.labels[draw];
                    let slots = means[state * rows..(state + 1) * rows].iter_mut();
                    slots
                        .enumerate()
                        .for_each(|(row, sum)| *sum += values[row * length + at]);
                    for further in 0..self.further.len() {
                        let weight =
                            self.weights.of_draw[state] * values[(m + further) * length + at];
                        let slots = shares[further * m..(further + 1) * m].iter_mut();
                        slots
                            .enumerate()
                            .for_each(|(law, sum)| *sum += weight * values[law * length + at]);
                    }
                }
            });
        let of_state =
            |row, state: usize| sums[state * rows + row] / (data.counts[state] as f64).max(1.0);
        let share = |further, law| sums[states * rows + further * m + law];
        Means {
            of_states: DMatrix::from_fn(rows, states, of_state),
            shares: DMatrix::from_fn(self.further.len(), m, share),
        }
    }

    /// Returns the matrix that takes sums of weighted values to their influence on the estimates. With the inverse
    /// information `A^-` and the shares R of a further state, it is `A^-` for laws with draws, `R A^-` plus the weight
    /// itself for a further state.
    fn transform(&self, means: &Means) -> DMatrix<f64> {
        let (m, rows) = (self.inverse.nrows(), self.length());
        let mut transform = DMatrix::identity(rows, rows);
        transform.view_mut((0, 0), (m, m)).copy_from(self.inverse);
        let further = &means.shares * self.inverse;
        transform
            .view_mut((m, 0), (rows - m, m))
            .copy_from(&further);
        transform
    }

    /// Returns the covariance of all estimates, by the sandwich `A^- B A^-` with the covariance B of the weighted sums
    /// of values. Each state's values are centred by their mean. `times` are the autocorrelation times of the states.
    pub(super) fn spread(&self, means: &Means, times: &[f64]) -> Spread {
        let data = self.mixture.data;
        let transform = self.transform(means);
        match &data.dependence {
            Dependence::Independent => {
                let covariance = &transform * self.products(means) * transform.transpose();
                Spread {
                    covariance,
                    batches: None,
                    time: None,
                    times: 0,
                    units: None,
                }
            }
            Dependence::Chains | Dependence::ManyChains(_) => {
                let batches = Batches::of_chains(data.draws(), &chains(data), times);
                let sums =
                    &transform * self.batch_sums(means, &batches.of_draw, batches.groups.len());
                Spread::of_batches(sums, batches)
            }
            Dependence::Replicas(at) => self.spread_over_times(means, &transform, at),
        }
    }

    /// Returns the covariance by batches of times, over all states at once.
    fn spread_over_times(&self, means: &Means, transform: &DMatrix<f64>, at: &[usize]) -> Spread {
        let mut times = at.to_vec();
        times.sort_unstable();
        times.dedup();
        let place = |time: &usize| times.partition_point(|other| other < time);
        let of_draw = Vec::from_iter(at.iter().map(place));
        let sums = transform * self.batch_sums(means, &of_draw, times.len());
        // The estimates are relative to the first one.
        let series = |row: usize| {
            let moved = sums.row(row) - sums.row(0);
            Correlation::of(&[moved.iter().copied().collect()]).time
        };
        let slowest = (1..sums.nrows()).map(series).fold(1.0, f64::max);
        let all = vec![vec![Vec::from_iter(0..times.len())]];
        let mut batches = Batches::of_chains(times.len(), &all, &[slowest]);
        let mut joined = DMatrix::zeros(sums.nrows(), batches.groups.len());
        for (time, &batch) in batches.of_draw.iter().enumerate() {
            let mut column = joined.column_mut(batch);
            column += sums.column(time);
        }
        batches.of_draw = of_draw.iter().map(|time| batches.of_draw[*time]).collect();
        Spread {
            time: Some(slowest),
            times: times.len(),
            ..Spread::of_batches(joined, batches)
        }
    }

    /// Returns the values of a chunk, less the means of their states, times the weights of the draws.
    fn centred(&self, chunk: &Chunk, means: &Means) -> Vec<f64> {
        let mut values = self.values(chunk);
        let labels = &self.mixture.data.labels[chunk.draws.clone()];
        for (row, values) in values.chunks_exact_mut(labels.len()).enumerate() {
            for (value, &state) in values.iter_mut().zip(labels) {
                *value = (*value - means.of_states[(row, state)]) * self.weights.of_draw[state];
            }
        }
        values
    }

    /// Returns the sum of products of the centred, weighted values of independent draws.
    fn products(&self, means: &Means) -> DMatrix<f64> {
        let (data, rows) = (self.mixture.data, self.length());
        let sums = self.mixture.sum(rows * (rows + 1) / 2, &|chunk, sums| {
            let factor = |draw| {
                let n = data.counts[data.labels[draw]] as f64;
                n / (n - 1.0)
            };
            let factors = Vec::from_iter(chunk.draws.clone().map(factor));
            add_products(&self.centred(chunk, means), &factors, rows, sums);
        });
        let mut products = DMatrix::zeros(rows, rows);
        for ((i, j), sum) in pairs(rows).zip(sums) {
            (products[(i, j)], products[(j, i)]) = (sum, sum);
        }
        products
    }

    /// Returns the sum of the centred, weighted values (rows) over each batch (columns).
    fn batch_sums(&self, means: &Means, of_draw: &[usize], batches: usize) -> DMatrix<f64> {
        let mut sums = DMatrix::zeros(self.length(), batches);
        self.mixture.for_chunks(0..of_draw.len(), |chunk| {
            let (values, length) = (self.centred(chunk, means), chunk.draws.len());
            for (at, draw) in chunk.draws.clone().enumerate() {
                let mut column = sums.column_mut(of_draw[draw]);
                let slots = values.iter().skip(at).step_by(length);
                slots
                    .zip(column.iter_mut())
                    .for_each(|(value, sum)| *sum += value);
            }
        });
        sums
    }
}

impl Spread {
    /// Returns a warning if the times of replicas are few autocorrelation times.
    pub(super) fn too_few_times(&self) -> Option<Warning> {
        let (time, draws) = (self.time?, self.times);
        let effective = draws as f64 / time;
        (effective < FEW_DRAWS).then_some(Warning::FewDraws { effective, draws })
    }

    fn of_batches(mut sums: DMatrix<f64>, batches: Batches) -> Self {
        for (mut column, factor) in sums.column_iter_mut().zip(&batches.factors) {
            column *= factor.sqrt();
        }
        Self {
            covariance: &sums * sums.transpose(),
            batches: Some((sums, batches.groups)),
            time: None,
            times: 0,
            units: Some(batches.of_draw),
        }
    }
}
