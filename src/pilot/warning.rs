//! Reasons to doubt what a pilot run found.

use crate::error::short;
use crate::estimate::Warning;

/// A reason to doubt a pilot run and the schedule chosen by it, with the figures behind it. Its text
/// says what to do about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PilotWarning {
    /// Few chains carry nearly all the weight at some point of the path.
    #[error(
        "the pilot's effective sample size falls to {ess:.1} of {chains} at beta = {}: \
         a schedule that relies on its weights is a guess from there on; use more pilot steps",
        short(*beta)
    )]
    NearCollapse {
        /// The lowest effective sample size along the pilot, a count.
        ess: f64,
        /// Number of pilot chains.
        chains: usize,
        /// Inverse temperature where it is lowest.
        beta: f64,
    },
    /// The chains are so few that the variances are little more than noise.
    #[error("too few pilot chains to choose a schedule by: {chains}, use 20 or more")]
    FewChains {
        /// Number of chains.
        chains: usize,
    },
    /// The steps are so few that the pilot saw hardly anything of the path.
    #[error(
        "a pilot of {steps} steps sees too little of the path to choose a schedule by: use 100 or more"
    )]
    FewSteps {
        /// Number of steps.
        steps: usize,
    },
    /// The chains saw no change at all at some point of the path.
    #[error(
        "nothing varied over the pilot's chains at stage {stage} (beta = {}): the schedule moves \
         there as fast as its floor allows; use more pilot chains",
        short(*beta)
    )]
    NothingVaries {
        /// Index of the pilot's stage; 0 is the base.
        stage: usize,
        /// Its inverse temperature.
        beta: f64,
    },
    /// The estimated cost of a segment is almost nothing or negative, and was raised to a floor.
    #[error(
        "segment {segment} (from 0) seems to cost {cost:.2e}, and counts as 0.1% of the mean: use \
         more chains or updates at the knots"
    )]
    NegligibleCost {
        /// Index of the segment, from 0.
        segment: usize,
        /// The estimate.
        cost: f64,
    },
    /// The pilot has a fault that any run can have: dead chains, a stage that adds most of the
    /// variance, a stage that accepts no proposal.
    #[error("in the pilot, {0}")]
    Run(#[from] Warning),
}

/// ESS below which a weighted variance is a rough guess.
const DOUBTFUL: f64 = 5.0;
/// Chains below which a variance has an error of half its size.
const FEW_CHAINS: usize = 10;
/// Steps below which a pilot leaps over most of the path.
const FEW_STEPS: usize = 20;

/// The warning of weights with this ESS, where it is low. A handful of chains has a low ESS anyway.
pub(crate) fn near_collapse(ess: f64, chains: usize, beta: f64) -> Option<PilotWarning> {
    let low = ess < DOUBTFUL.min(0.5 * chains as f64);
    low.then_some(PilotWarning::NearCollapse { ess, chains, beta })
}

/// The warning of dead chains, where there are any.
pub(crate) fn dead_chains(dead: usize, chains: usize) -> Option<PilotWarning> {
    (dead > 0).then_some(Warning::DeadChains { dead, chains }.into())
}

/// The warning of too few chains.
pub(crate) fn few_chains(chains: usize) -> Option<PilotWarning> {
    (chains < FEW_CHAINS).then_some(PilotWarning::FewChains { chains })
}

/// The warning of too few steps.
pub(crate) fn few_steps(steps: usize) -> Option<PilotWarning> {
    (steps < FEW_STEPS).then_some(PilotWarning::FewSteps { steps })
}
