//! Solution of the equations of many states, by Newton's method in log space.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use super::data::Data;
use super::mixture::{Mixture, add_products};
use crate::estimate::BennettEstimate;
use crate::num::pairs;
use crate::{Error, Result};

/// Largest number of Newton steps.
const STEPS: usize = 60;
/// Step below which the next one would be below rounding, because each step squares the error.
const LAST: f64 = 1e-7;
/// Expected gain of the objective below which rounding decides about it. Between groups without overlap, rounding makes
/// longer steps than [`LAST`].
const LEAST_GAIN: f64 = 1e-20;
/// Expected gain of the last step that is accepted.
const SMALL_GAIN: f64 = 1e-15;
/// Addition to the diagonal of the information over the shares `a_k`. Groups of laws without overlap leave it regular, and
/// the rounding of their gradients moves them by less than [`LAST`].
const RIDGE: f64 = 1e-9;
/// Number of draws of each state in the starting estimates.
const FIRST_DRAWS: usize = 256;

/// Weights of the draws in the equations.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// Weight `a_s / N_s` of one draw of each state.
    pub(super) of_draw: Vec<f64>,
    /// Sum of the weights `a_s` of each law with draws.
    pub(super) of_law: Vec<f64>,
}

impl Weights {
    /// Returns weights in proportion to the effective numbers `N_s / time_s` of draws.
    pub(super) fn new(data: &Data, times: &[f64]) -> Self {
        let counts = data.counts.iter().zip(times);
        let effective = Vec::from_iter(counts.map(|(count, time)| *count as f64 / time));
        let total: f64 = effective.iter().sum();
        let mut of_law = vec![0.0; data.sampled];
        for (state, effective) in effective.iter().enumerate().filter(|(_, n)| **n > 0.0) {
            of_law[data.law_of[state]] += effective / total;
        }
        Self {
            of_draw: times.iter().map(|time| 1.0 / (time * total)).collect(),
            of_law,
        }
    }

    /// Returns `log (a_j / Z_j)` of each law with draws.
    pub(super) fn log_shares(&self, log_z: &[f64]) -> Vec<f64> {
        let pairs = self.of_law.iter().zip(log_z);
        pairs.map(|(share, c)| share.ln() - c).collect()
    }
}

/// The objective `sum_n w_n log p_s(n)(x_n)`, its gradient and its information, minus the second derivative.
#[derive(Debug, Clone)]
pub(super) struct Slope {
    objective: f64,
    gradient: Vec<f64>,
    /// `A_kl = -sum_n w_n p_k p_l` for k other than l, with rows that sum to 0.
    pub(super) information: DMatrix<f64>,
    /// `sum_n w_n p_k p_l`.
    pub(super) products: DMatrix<f64>,
}

impl Slope {
    pub(super) fn at(data: &Data, weights: &Weights, log_z: &[f64]) -> Self {
        let log_shares = weights.log_shares(log_z);
        let m = data.sampled;
        let mixture = Mixture {
            data,
            log_shares: &log_shares,
        };
        let found = mixture.sum(1 + m + m * (m + 1) / 2, &|chunk, sums| {
            let weight = |draw: usize| weights.of_draw[data.labels[draw]];
            let w = Vec::from_iter(chunk.draws.clone().map(weight));
            for ((draw, weight), log_mixture) in chunk.draws.clone().zip(&w).zip(&chunk.log_mixture)
            {
                let own = data.own(draw);
                sums[0] += weight * (data.column(own)[draw] + log_shares[own] - log_mixture);
            }
            for law in 0..m {
                let terms = chunk.of_law(law).iter().zip(&w);
                sums[1 + law] += terms.map(|(p, weight)| p * weight).sum::<f64>();
            }
            add_products(&chunk.p, &w, m, &mut sums[1 + m..]);
        });
        let mut products = DMatrix::zeros(m, m);
        for ((i, j), product) in pairs(m).zip(&found[1 + m..]) {
            (products[(i, j)], products[(j, i)]) = (*product, *product);
        }
        // Sums of positive numbers keep all digits, however small the overlap is.
        let mut information = -products.clone();
        for law in 0..m {
            let others = (0..m).filter(|other| *other != law);
            information[(law, law)] = others.map(|other| products[(law, other)]).sum();
        }
        let masses = found[1..].iter().zip(&weights.of_law);
        Self {
            objective: found[0],
            gradient: masses.map(|(mass, share)| mass - share).collect(),
            information,
            products,
        }
    }

    /// Returns the inverse of the information with `c_0` fixed. Its first row and column are 0.
    pub(super) fn inverse(&self, shares: &[f64]) -> DMatrix<f64> {
        let m = self.gradient.len();
        let mut inverse = DMatrix::zeros(m, m);
        if m > 1 {
            let reduced = Reduced::of(&self.information, shares);
            inverse
                .view_mut((1, 1), (m - 1, m - 1))
                .copy_from(&reduced.inverse());
        }
        inverse
    }

    fn step(&self, shares: &[f64]) -> Vec<f64> {
        match self.gradient.len() {
            1 => vec![0.0],
            _ => Reduced::of(&self.information, shares).solve(&self.gradient[1..]),
        }
    }
}

/// The information without its first row and column, scaled by the roots of the shares `a_k`.
struct Reduced {
    factor: Cholesky<f64, Dyn>,
    scale: DVector<f64>,
}

impl Reduced {
    fn of(information: &DMatrix<f64>, shares: &[f64]) -> Self {
        let m = information.nrows() - 1;
        let scale = DVector::from_fn(m, |i, _| shares[i + 1].sqrt().recip());
        let scaled = |i: usize, j: usize| information[(i + 1, j + 1)] * scale[i] * scale[j];
        let mut ridge = RIDGE;
        loop {
            let entry = |i, j| scaled(i, j) + if i == j { ridge } else { 0.0 };
            if let Some(factor) = Cholesky::new(DMatrix::from_fn(m, m, entry)) {
                return Self { factor, scale };
            }
            ridge *= 10.0;
        }
    }

    /// Returns the solution, with the 0 of the first law before it.
    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let right = DVector::from_column_slice(right).component_mul(&self.scale);
        let found = self.factor.solve(&right).component_mul(&self.scale);
        std::iter::once(0.0).chain(found.iter().copied()).collect()
    }

    fn inverse(&self) -> DMatrix<f64> {
        let inverse = self.factor.inverse();
        let entry = |i, j| inverse[(i, j)] * self.scale[i] * self.scale[j];
        DMatrix::from_fn(inverse.nrows(), inverse.ncols(), entry)
    }
}

/// Maximises the objective from `log_z` on, by Newton steps that are halved if the objective falls. Returns the solution
/// and the slope there.
///
/// # Errors
/// Steps that do not converge.
pub(super) fn solve(
    data: &Data,
    weights: &Weights,
    mut log_z: Vec<f64>,
) -> Result<(Vec<f64>, Slope)> {
    let mut slope = Slope::at(data, weights, &log_z);
    for left in (0..STEPS).rev() {
        let step = slope.step(&weights.of_law);
        let gain: f64 = slope
            .gradient
            .iter()
            .zip(&step)
            .map(|(g, step)| g * step)
            .sum();
        let length = step
            .iter()
            .fold(0.0, |most: f64, step| most.max(step.abs()));
        let rounding = 1e-13 * (1.0 + slope.objective.abs());
        let mut factor = 1.0;
        loop {
            let moved = log_z.iter().zip(&step).map(|(c, step)| c + factor * step);
            let moved = Vec::from_iter(moved);
            let found = Slope::at(data, weights, &moved);
            if found.objective >= slope.objective - rounding || factor < 1e-9 {
                (log_z, slope) = (moved, found);
                break;
            }
            factor *= 0.5;
        }
        if length < LAST || gain < LEAST_GAIN || left == 0 && gain < SMALL_GAIN {
            return Ok((log_z, slope));
        }
    }
    let value = format!("no solution after {STEPS} Newton steps");
    Err(Error::invalid(
        "log densities",
        value,
        "states that overlap",
    ))
}

/// Returns a first estimate of `c` of each law with draws, by Bennett's estimates along a tree of close laws, from a few
/// draws of each.
pub(super) fn first_estimate(data: &Data) -> Vec<f64> {
    let draws = first_draws(data);
    let m = data.sampled;
    // The distance of two laws is the sum of their relative entropies. A density of 0 counts as far.
    let work = |from: usize, to: usize| {
        let terms = draws[from]
            .iter()
            .map(|&draw| data.column(from)[draw] - data.column(to)[draw]);
        terms.map(|work| work.min(1e9)).sum::<f64>() / draws[from].len() as f64
    };
    let works = DMatrix::from_fn(m, m, work);
    let tree = spanning_tree(m, |i, j| -(works[(i, j)] + works[(j, i)]));
    let mut log_z = vec![0.0; m];
    for (from, to) in tree {
        let ratios = |of: usize, other: usize| -> Vec<f64> {
            let ratio = |&draw: &usize| data.column(other)[draw] - data.column(of)[draw];
            draws[of].iter().map(ratio).collect()
        };
        let middle = 0.5 * (works[(to, from)] - works[(from, to)]);
        let found = BennettEstimate::of_independent(&ratios(from, to), &ratios(to, from));
        log_z[to] = log_z[from] + found.map_or(middle, |found| found.value());
    }
    log_z
}

/// Returns a few draws of each law, at equal distances.
fn first_draws(data: &Data) -> Vec<Vec<usize>> {
    let mut draws = vec![Vec::new(); data.sampled];
    (0..data.draws()).for_each(|draw| draws[data.own(draw)].push(draw));
    for of_law in &mut draws {
        let step = of_law.len().div_ceil(FIRST_DRAWS);
        *of_law = of_law.iter().copied().step_by(step).collect();
    }
    draws
}

/// Returns the edges of the spanning tree of `nodes` nodes with the largest weights, from node 0 on. Each edge joins a
/// node of the tree to a new one (Prim 1957).
pub(super) fn spanning_tree(
    nodes: usize,
    weight: impl Fn(usize, usize) -> f64,
) -> Vec<(usize, usize)> {
    let mut nearest = Vec::from_iter((0..nodes).map(|node| (weight(0, node), 0)));
    let mut left = Vec::from_iter(1..nodes);
    let mut edges = Vec::new();
    while let Some(at) = (0..left.len()).max_by(|i, j| {
        let [i, j] = [i, j].map(|at| nearest[left[*at]].0);
        i.total_cmp(&j)
    }) {
        let node = left.remove(at);
        edges.push((nearest[node].1, node));
        for &other in &left {
            let found = weight(node, other);
            if found > nearest[other].0 {
                nearest[other] = (found, node);
            }
        }
    }
    edges
}
