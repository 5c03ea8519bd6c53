//! The solution for the laws with draws, and what follows from it for others.

use nalgebra::DMatrix;

use super::Difference;
use super::data::Data;
use super::error::{self, Influence, Spread};
use super::mixture::Mixture;
use super::overlap::{self, Edge, Gap, Pairs};
use super::solve::{self, Slope, Weights};
use crate::estimate::{WeightSums, log_sum_exp};
use crate::{Error, Result};

/// The solution of the equations.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pub(super) data: Data,
    weights: Weights,
    /// Number of draws of each state that is worth one independent draw.
    pub(super) times: Vec<f64>,
    /// Log Z of the laws with draws.
    log_z: Vec<f64>,
    /// `sum_n w_n p_k p_l`.
    products: DMatrix<f64>,
    /// Inverse of the information.
    inverse: DMatrix<f64>,
    tree: Vec<Edge>,
    pub(super) gaps: Vec<Gap>,
    /// Log density of the mixture at each draw.
    log_mixture: Vec<f64>,
}

/// Log Z of the laws with draws and, after them, of further ones, with their covariance.
#[derive(Debug, Clone)]
pub(super) struct Laws {
    pub(super) log_z: Vec<f64>,
    pub(super) spread: Spread,
    /// Mean of `p_l` (column) over the draws, weighted for each further law (row).
    shares: DMatrix<f64>,
    /// Degrees of freedom by the effective draws of each further law.
    freedoms: Vec<f64>,
}

impl Fit {
    pub(super) fn of(data: Data) -> Result<Self> {
        let times = vec![1.0; data.counts.len()];
        let first = Solved::of(&data, times, solve::first_estimate(&data))?;
        let times = error::times(&data, &first.weights, &first.log_z, &first.pairs);
        let solved = match times == first.times {
            true => first,
            // Once more, with weights by the effective numbers of draws.
            false => Solved::of(&data, times, first.log_z)?,
        };
        let Solved {
            weights,
            times,
            mut log_z,
            slope,
            pairs,
        } = solved;
        let mut tree = pairs.tree(&law_times(&data, &times));
        let gaps = overlap::gaps(&data, &mut tree, &mut log_z)?;
        let mut found = Self {
            inverse: slope.inverse(&weights.of_law),
            products: slope.products,
            log_mixture: Vec::new(),
            data,
            weights,
            times,
            log_z,
            tree,
            gaps,
        };
        let (mut log_mixture, log_shares) = (Vec::new(), found.weights.log_shares(&found.log_z));
        let mixture = found.mixture(&log_shares);
        mixture.for_chunks(0..found.data.draws(), |chunk| {
            log_mixture.extend(&chunk.log_mixture)
        });
        found.log_mixture = log_mixture;
        Ok(found)
    }

    fn mixture<'a>(&'a self, log_shares: &'a [f64]) -> Mixture<'a> {
        let data = &self.data;
        Mixture { data, log_shares }
    }

    /// Returns the log weights of all draws at a state with these log densities; the log of their sum is its log Z.
    pub(super) fn log_weights(&self, log_densities: &[f64]) -> Vec<f64> {
        let logs = Vec::from_iter(self.weights.of_draw.iter().map(|weight| weight.ln()));
        let draws = log_densities
            .iter()
            .zip(&self.log_mixture)
            .zip(&self.data.labels);
        draws
            .map(|((density, mixture), label)| density - mixture + logs[*label])
            .collect()
    }

    /// Returns log Z of all laws, and of one more with these log densities.
    ///
    /// # Errors
    /// A law without density at all draws.
    pub(super) fn laws(&self, further: Option<&[f64]>) -> Result<Laws> {
        let (data, mut log_z, mut freedoms) = (&self.data, self.log_z.clone(), Vec::new());
        let columns = (data.sampled..data.laws()).map(|law| data.column(law));
        let mut densities = Vec::new();
        for (at, column) in columns.chain(further).enumerate() {
            let weights = WeightSums::of(self.log_weights(column));
            let value = format!("0 at all draws for state {at} of those without draws");
            let holds = weights.log_sum() > f64::NEG_INFINITY;
            Error::check(holds, "densities", value, "a density above 0 at some draws")?;
            log_z.push(weights.log_sum());
            densities.push((column, weights.log_sum()));
            freedoms.push((weights.effective_sample_size() - 1.0).max(1.0));
        }
        let log_shares = self.weights.log_shares(&self.log_z);
        let influence = Influence {
            mixture: self.mixture(&log_shares),
            weights: &self.weights,
            inverse: &self.inverse,
            further: &densities,
        };
        let means = influence.means();
        Ok(Laws {
            spread: influence.spread(&means, &self.times),
            shares: means.shares,
            log_z,
            freedoms,
        })
    }

    /// Returns the group, 0 or 1, to which a law belongs, a law without draws by the larger part of its weights.
    fn side(&self, laws: &Laws, groups: &[Vec<usize>; 2], law: usize) -> i32 {
        let second = match law.checked_sub(self.data.sampled) {
            None => groups[1].contains(&law),
            Some(further) => {
                let share = |law: &usize| laws.shares[(further, *law)];
                groups[1].iter().map(share).sum::<f64>() > 0.5
            }
        };
        i32::from(second)
    }

    /// Returns log Z of one law less log Z of another one, without warnings.
    pub(super) fn difference(&self, laws: &Laws, one: usize, other: usize) -> Difference {
        let crossing = |groups| self.side(laws, groups, one) - self.side(laws, groups, other);
        let crossed = self.tree.iter().filter(|edge| crossing(&edge.groups) != 0);
        let freedoms = crossed.map(|edge| edge.freedom);
        let further = |law: usize| {
            law.checked_sub(self.data.sampled)
                .map(|law| laws.freedoms[law])
        };
        let freedoms = freedoms.chain(further(one)).chain(further(other));
        let gaps = self
            .gaps
            .iter()
            .map(|gap| (crossing(&gap.groups), gap.bennett));
        Difference {
            value: laws.log_z[one] - laws.log_z[other],
            error: laws.spread.variance(one, other).sqrt(),
            freedom: freedoms.fold(laws.spread.freedom(one, other), f64::min),
            gaps: gaps.filter(|(sign, _)| *sign != 0).collect(),
            warnings: Vec::new(),
        }
    }

    /// Returns the mean probability that a draw, weighted for state k, comes from state l.
    pub(super) fn overlap(&self, laws: &Laws, k: usize, l: usize) -> f64 {
        let data = &self.data;
        if data.counts[l] == 0 {
            return 0.0;
        }
        let (one, other) = (data.law_of[k], data.law_of[l]);
        let of_law = match one.checked_sub(data.sampled) {
            None => self.products[(one, other)] / self.weights.of_law[one],
            Some(further) => laws.shares[(further, other)],
        };
        let share = data.counts[l] as f64 * self.weights.of_draw[l];
        of_law * share / self.weights.of_law[other]
    }

    /// Returns the number of independent draws that all draws, weighted for these densities, are worth.
    pub(super) fn effective_draws(&self, log_densities: &[f64], laws: &Laws) -> f64 {
        let weights = self.log_weights(log_densities);
        let time = |label: &usize| laws.spread.time.unwrap_or(self.times[*label]);
        let squares = weights.iter().zip(&self.data.labels);
        let squares = squares.map(|(weight, label)| 2.0 * weight + time(label).ln());
        (2.0 * log_sum_exp(&weights) - log_sum_exp(squares)).exp()
    }
}

/// The solution of the equations for given autocorrelation times of the states.
struct Solved {
    weights: Weights,
    times: Vec<f64>,
    log_z: Vec<f64>,
    slope: Slope,
    pairs: Pairs,
}

impl Solved {
    fn of(data: &Data, times: Vec<f64>, first: Vec<f64>) -> Result<Self> {
        let weights = Weights::new(data, &times);
        let (log_z, slope) = solve::solve(data, &weights, first)?;
        Ok(Self {
            pairs: Pairs::of(data, &weights, &log_z),
            weights,
            times,
            log_z,
            slope,
        })
    }
}

/// Returns the number of draws of each law with draws that is worth one independent draw.
fn law_times(data: &Data, times: &[f64]) -> Vec<f64> {
    let mut effective = vec![0.0; data.sampled];
    let states = data.counts.iter().zip(times).enumerate();
    for (state, (count, time)) in states.filter(|(_, (count, _))| **count > 0) {
        effective[data.law_of[state]] += *count as f64 / time;
    }
    let counts = data.law_counts().into_iter().zip(effective);
    counts.map(|(count, effective)| count / effective).collect()
}
