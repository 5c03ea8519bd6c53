//! The solution for the states with draws, and what follows from it for others.

use nalgebra::DMatrix;

use super::cut::{Cut, EQUAL, cuts, first_estimate, likeness};
use super::data::{Data, Dependence};
use super::error::{Influence, Spread};
use super::mixture::{StateMixture, Weights};
use super::solve::{inverse, solve};
use crate::estimate::Warning;
use crate::estimate::effective_draws::Correlation;
use crate::estimate::log_sum_exp;
use crate::{Error, Result};

/// The solution of the equations, for states with draws.
#[derive(Debug, Clone)]
pub(super) struct Solution {
    pub(super) data: Data,
    weights: Weights,
    log_z: Vec<f64>,
    /// Inverse of the information.
    inverse: DMatrix<f64>,
    pub(super) cuts: Vec<Cut>,
    /// Logarithm of the weight of each draw over the density of the mixture.
    log_weights: Vec<f64>,
}

/// Estimates for all states, and perhaps for further ones after them.
#[derive(Debug, Clone)]
pub(super) struct Estimates {
    pub(super) log_z: Vec<f64>,
    pub(super) spread: Spread,
    /// Probability that a draw, weighted for state k (row), came from state l (column).
    pub(super) overlap: DMatrix<f64>,
    /// Number of independent draws that all draws, weighted for each state, are worth.
    pub(super) effective: Vec<f64>,
    /// State with draws that is most similar to each state: itself, or an equal one, if it has draws.
    pub(super) nearest: Vec<usize>,
    /// A contradiction between draws and log densities, if the estimates are without further states.
    pub(super) contradiction: Option<Warning>,
}

impl Solution {
    pub(super) fn of(data: Data) -> Result<Self> {
        let (start, none) = (first_estimate(&data), vec![None; data.counts.len()]);
        let first = Self::solved(data, start, &none)?;
        if first.data.how != Dependence::Chains {
            return Ok(first);
        }
        let mixture = first.mixture(&[])?;
        let influence = Influence::new(&mixture, &first.inverse);
        let states = 0..first.data.counts.len();
        let similar = |state: usize| {
            let differs = |other: &usize| likeness(&influence.products, state, *other) < EQUAL;
            let others = Vec::from_iter(states.clone().filter(differs));
            most_similar(&influence.products, state, &others).unwrap_or(state)
        };
        let found = influence.correlations(&Vec::from_iter(states.clone().map(similar)));
        let found = Vec::from_iter(found.into_iter().map(Some));
        Self::solved(first.data, first.log_z, &found)
    }

    /// Solves the equations with weights by the effective numbers of draws, from a start.
    fn solved(data: Data, start: Vec<f64>, found: &[Option<Correlation>]) -> Result<Self> {
        let weights = Weights::new(&data, found);
        let (mut log_z, products) = solve(&data, &weights, start)?;
        let cuts = cuts(&data, &products, &weights.times, &mut log_z)?;
        let (mut log_weights, mixture) = (Vec::new(), StateMixture::new(&data, &weights, &log_z));
        mixture.for_chunks(0..data.labels.len(), &mut |draws, _, logs| {
            let terms = data.labels[draws].iter().zip(logs);
            log_weights.extend(terms.map(|(state, log)| weights.of_draw[*state].ln() - log));
        });
        Ok(Self {
            inverse: inverse(&products, &weights.shares),
            data,
            weights,
            log_z,
            cuts,
            log_weights,
        })
    }

    /// Returns the log weights of all draws at a state with these log densities; the log of their sum is its log Z.
    pub(super) fn log_weights(&self, log_densities: &[f64]) -> Vec<f64> {
        let terms = log_densities.iter().zip(&self.log_weights);
        terms.map(|(density, weight)| density + weight).collect()
    }

    /// Returns the mixture with the values of all states and of further ones with these log densities.
    fn mixture<'a>(&'a self, further: &'a [Vec<f64>]) -> Result<StateMixture<'a>> {
        let mut mixture = StateMixture::new(&self.data, &self.weights, &self.log_z);
        mixture.further = further;
        mixture.log_z.extend(further.iter().map(|_| f64::INFINITY));
        for state in 0..mixture.log_z.len() {
            if !mixture.contains(state) {
                let found = log_sum_exp(self.log_weights(mixture.column(state)));
                let value = format!("0 at all draws for state {state}");
                let expected = "a density above 0 at some draws";
                Error::check(found.is_finite(), "densities", value, expected)?;
                mixture.log_z[state] = found;
            }
        }
        Ok(mixture)
    }

    /// Returns the estimates for all states, and for further ones with these log densities.
    ///
    /// # Errors
    /// A state without density at all draws.
    pub(super) fn estimates(&self, further: &[Vec<f64>]) -> Result<Estimates> {
        let (data, weights) = (&self.data, &self.weights);
        let mixture = self.mixture(further)?;
        let influence = Influence::new(&mixture, &self.inverse);
        let (products, spread) = (&influence.products, influence.spread());
        let states = mixture.log_z.len();
        // The weights allow for the times of states, but not of replicas.
        let effective = 1.0 / (weights.of_draw[0] * spread.times[0]);
        let square = |state| products[(state, state)] / weights.factor(state).powi(2);
        let nearest = |state| most_similar(products, state, &data.drawn);
        let overlap = |k, l| match mixture.contains(l) {
            true => products[(k, l)] / weights.factor(k),
            false => 0.0,
        };
        Ok(Estimates {
            overlap: DMatrix::from_fn(states, states, overlap),
            effective: (0..states).map(|state| effective / square(state)).collect(),
            nearest: (0..states).filter_map(nearest).collect(),
            contradiction: (further.is_empty())
                .then(|| influence.contradiction(&spread))
                .flatten(),
            log_z: mixture.log_z,
            spread,
        })
    }
}

/// Returns the most similar one of `others`.
fn most_similar(products: &DMatrix<f64>, state: usize, others: &[usize]) -> Option<usize> {
    let like = |other: &usize| likeness(products, state, *other);
    let others = others.iter().copied();
    others.max_by(|one, other| like(one).total_cmp(&like(other)))
}
