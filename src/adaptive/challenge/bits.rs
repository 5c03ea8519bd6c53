//! Rival bases for bits: independent bits, by the states on their way to a mode.

use nalgebra::DVector;

use super::proposal::{Proposals, Rivals, Target, Trails};
use crate::Result;
use crate::model::Bernoulli;

/// Most modes.
const MODES: usize = 16;
/// Share of the bits in which the ends of two chains of one mode may differ.
const APART: f64 = 0.3;
/// Number of states that the present probabilities count for in a refit.
const PRIOR: f64 = 1.0;
/// Rungs whose states give a base.
const FITTED: [usize; 3] = [0, 4, 16];

impl Rivals for Vec<bool> {
    type Base = Bernoulli;

    /// Parts the chains by the states where they end, and takes the share of ones of each bit at several powers.
    fn propose(trails: &Trails<Self>, target: &Target<'_, Self>) -> Result<Proposals<Bernoulli>> {
        let modes = modes(trails.ends(), target);
        let mut bases = Vec::new();
        for chains in &modes {
            for (_, (_, states)) in trails
                .rungs()
                .enumerate()
                .filter(|(i, _)| FITTED.contains(i))
            {
                bases.push(fit(states, chains)?);
            }
        }
        Ok(Proposals {
            modes: modes.len(),
            bases,
        })
    }

    fn fit(samples: &[Self]) -> Option<Bernoulli> {
        fit(samples, &Vec::from_iter(0..samples.len())).ok()
    }

    fn refit(base: &Bernoulli, states: &[Self], weights: &[f64]) -> Option<Bernoulli> {
        let mut ones = base.logits().map(|logit| PRIOR / (1.0 + (-logit).exp()));
        for (state, weight) in states.iter().zip(weights) {
            for (ones, bit) in ones.iter_mut().zip(state) {
                *ones += if *bit { *weight } else { 0.0 };
            }
        }
        let count = PRIOR + weights.iter().sum::<f64>();
        Bernoulli::from_probabilities(&(ones / count)).ok()
    }
}

fn modes(ends: &[Vec<bool>], target: &Target<'_, Vec<bool>>) -> Vec<Vec<usize>> {
    let log_densities: Vec<f64> = ends.iter().map(|end| target.log_density(end)).collect();
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|&a, &b| log_densities[b].total_cmp(&log_densities[a]));
    let apart = |a: usize, b: usize| {
        let differ = ends[a].iter().zip(&ends[b]).filter(|(a, b)| a != b).count();
        differ as f64 > APART * ends[a].len() as f64
    };
    let mut modes: Vec<Vec<usize>> = Vec::new();
    for chain in order {
        match modes.iter().position(|mode| !apart(mode[0], chain)) {
            Some(mode) => modes[mode].push(chain),
            None if modes.len() < MODES => modes.push(vec![chain]),
            None => {}
        }
    }
    modes
}

/// Returns the bits' smoothed shares of ones, `(ones + 1/2) / (chains + 1)`.
fn fit(states: &[Vec<bool>], chains: &[usize]) -> Result<Bernoulli> {
    let mut probabilities = DVector::from_element(states[chains[0]].len(), 0.5);
    for &chain in chains {
        for (probability, bit) in probabilities.iter_mut().zip(&states[chain]) {
            *probability += f64::from(u8::from(*bit));
        }
    }
    Bernoulli::from_probabilities(&(probabilities / (chains.len() as f64 + 1.0)))
}
