//! Modes among bits. Around each mode, distributions of independent bits are fitted to the states of its chains.

use super::cooling::RUNGS;
use super::find_modes::{FindModes, MOST_MODES, Target, Trails};
use crate::Result;
use crate::model::{Bernoulli, Fit};

/// Largest share of bits in which the final states of two chains may differ if both belong to one mode. Two states of
/// independent bits, each on with probability p, differ in less than this on average if p < .18 or p > .82.
const SHARE_OF_BITS_APART: f64 = 0.3;
/// Indices (in `Trails::rungs`) of the powers at which independent bits are fitted to the chains of a mode: 1, 1.7 and
/// 256. A further power adds a distribution to each mode, and population Monte Carlo has fewer draws for each.
const FITTED_RUNGS: [usize; 3] = [0, 4, RUNGS];

impl FindModes for Vec<bool> {
    type Law = Bernoulli;

    /// Groups the chains by their final states, and fits independent bits to each group's states at several powers.
    fn find_modes(trails: &Trails<Self>, target: &Target<'_, Self>) -> Result<Vec<Vec<Bernoulli>>> {
        let fitted = |chains: Vec<usize>| {
            let rungs = trails.rungs().enumerate();
            let rungs = rungs.filter(|(rung, _)| FITTED_RUNGS.contains(rung));
            let fit = |(_, (_, states)): (usize, (f64, &[Self]))| {
                let states = Vec::from_iter(chains.iter().map(|&chain| states[chain].clone()));
                Bernoulli::fit(&states, &vec![1.0; states.len()])
            };
            rungs.map(fit).collect()
        };
        modes(trails.ends(), target)
            .into_iter()
            .map(fitted)
            .collect()
    }
}

fn modes(ends: &[Vec<bool>], target: &Target<'_, Vec<bool>>) -> Vec<Vec<usize>> {
    let log_densities: Vec<f64> = ends.iter().map(|end| target.log_density(end)).collect();
    let mut order: Vec<usize> = (0..ends.len()).collect();
    // The first chain of a mode is then its highest, and the limit on modes leaves out the lowest.
    order.sort_by(|&a, &b| log_densities[b].total_cmp(&log_densities[a]));
    let apart = |a: usize, b: usize| {
        let differ = ends[a].iter().zip(&ends[b]).filter(|(a, b)| a != b).count();
        differ as f64 > SHARE_OF_BITS_APART * ends[a].len() as f64
    };
    let mut modes: Vec<Vec<usize>> = Vec::new();
    for chain in order {
        match modes.iter().position(|mode| !apart(mode[0], chain)) {
            Some(mode) => modes[mode].push(chain),
            None if modes.len() < MOST_MODES => modes.push(vec![chain]),
            None => {}
        }
    }
    modes
}
