//! Conditions of the warnings of a pilot.

use crate::estimate::Warning;

/// Effective sample size below which a weighted variance is a rough guess.
const DOUBTFUL: f64 = 5.0;
/// Number of chains below which a variance has an error of half its size.
const FEW_CHAINS: usize = 10;
/// Number of stages below which a pilot leaps over most of the path.
const FEW_STEPS: usize = 20;

/// Returns the warning of a low effective sample size. Few chains have a low one anyway.
pub(crate) fn near_collapse(ess: f64, chains: usize, beta: f64) -> Option<Warning> {
    let low = ess < DOUBTFUL.min(0.5 * chains as f64);
    low.then_some(Warning::PilotNearCollapse { ess, chains, beta })
}

pub(crate) fn dead_chains(dead: usize, chains: usize) -> Option<Warning> {
    (dead > 0).then_some(Warning::PilotDeadChains { dead, chains })
}

pub(crate) fn few_chains(chains: usize) -> Option<Warning> {
    (chains < FEW_CHAINS).then_some(Warning::PilotFewChains { chains })
}

pub(crate) fn few_steps(steps: usize) -> Option<Warning> {
    (steps < FEW_STEPS).then_some(Warning::PilotFewSteps { steps })
}
