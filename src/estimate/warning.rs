//! Warnings as values: what a result says of its own weakness.

use std::fmt;

/// A reason to doubt a result, with the figures behind it; `Display` says what to do.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Warning {
    /// Too few chains for an error estimate to be trusted.
    FewChains {
        /// Number of chains.
        chains: usize,
    },
    /// Chains that lost the target's support and count as weight zero.
    DeadChains {
        /// Number of chains of weight zero.
        dead: usize,
        /// Number of chains.
        chains: usize,
    },
    /// Few chains carry nearly all the weight.
    LowEffectiveSampleSize {
        /// Effective sample size, a count.
        ess: f64,
        /// Number of chains.
        chains: usize,
    },
    /// One chain carries a large part of the weight.
    DominantWeight {
        /// Its share of the sum of weights.
        share: f64,
    },
    /// The largest weights fall off so slowly that their mean and variance are unreliable.
    HeavyTail {
        /// Shape of the generalised Pareto distribution fitted to the largest weights.
        k_hat: f64,
    },
    /// One stage adds most of the variance of the log weight.
    ConcentratedVariance {
        /// Index of the stage, 1 to K.
        stage: usize,
        /// Inverse temperature it reaches.
        beta: f64,
        /// Its share of the variance added by all stages.
        share: f64,
    },
    /// A stage in which no proposal was accepted.
    ZeroAcceptance {
        /// Index of the stage, 1 to K.
        stage: usize,
        /// Inverse temperature it reaches.
        beta: f64,
    },
    /// Drift modifiers too long for the schedule, cut to the kernel's bound.
    ShiftsCut {
        /// Index of the stage with most cuts, 1 to K.
        stage: usize,
        /// Inverse temperature it reaches.
        beta: f64,
        /// Share of its chains whose shift was cut.
        share: f64,
        /// The longest shift before the cut, in units of the state.
        longest: f64,
    },
    /// A pilot of which few chains carry nearly all the weight at some point of the path.
    PilotNearCollapse {
        /// The lowest effective sample size along the pilot, a count.
        ess: f64,
        /// Number of pilot chains.
        chains: usize,
        /// Inverse temperature where it is lowest.
        beta: f64,
    },
    /// A pilot of so few chains that its variances are little more than noise.
    FewPilotChains {
        /// Number of chains.
        chains: usize,
    },
    /// A pilot of so few steps that hardly anything of the path was seen.
    FewPilotSteps {
        /// Number of steps.
        steps: usize,
    },
    /// A point of a pilot's path at which the chains saw no change at all.
    NothingVaries {
        /// Index of the pilot's stage; 0 is the base.
        stage: usize,
        /// Its inverse temperature.
        beta: f64,
    },
    /// A segment whose estimated cost is almost nothing or negative, and was raised to a floor.
    NegligibleCost {
        /// Index of the segment, from 0.
        segment: usize,
        /// The estimate.
        cost: f64,
    },
    /// States with density under the target, none under the base.
    BaseMissesTarget {
        /// Number of chains that met such a state.
        chains: usize,
    },
    /// Thermodynamic integration of the same run disagrees with the weights.
    ThermodynamicDisagreement {
        /// The estimate of thermodynamic integration.
        thermodynamic: f64,
        /// The estimate from the weights.
        log_z: f64,
        /// Standard error of the estimate from the weights.
        standard_error: f64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewChains { chains } => write!(
                f,
                "{chains} chains are too few to judge the error: run at least 100"
            ),
            Self::DeadChains { dead, chains } => write!(
                f,
                "{dead} of {chains} chains have weight zero, having left the target's support: \
                 choose a base closer to the target, or more stages if it moves along the path"
            ),
            Self::LowEffectiveSampleSize { ess, chains } => write!(
                f,
                "the effective sample size is {ess:.1} of {chains} chains: the interval may miss; \
                 use more stages or a better mixing kernel"
            ),
            Self::DominantWeight { share } => write!(
                f,
                "one chain carries {:.0}% of the weight: use more stages or more chains",
                100.0 * share
            ),
            Self::HeavyTail { k_hat } => write!(
                f,
                "the largest weights have a heavy tail (Pareto shape {k_hat:.2}): the estimate is \
                 likely too low and its error understated; use more stages"
            ),
            Self::ConcentratedVariance { stage, beta, share } => write!(
                f,
                "stage {stage} (beta = {beta}) adds {:.0}% of the variance of the log weight: \
                 place more stages there",
                100.0 * share
            ),
            Self::ZeroAcceptance { stage, beta } => write!(
                f,
                "no proposal was accepted at stage {stage} (beta = {beta}): use smaller steps"
            ),
            Self::ShiftsCut {
                stage,
                beta,
                share,
                longest,
            } => write!(
                f,
                "{:.1}% of the shifts were cut at stage {stage} (beta = {beta}), the longest from \
                 {longest:.3}: modes may be left behind, which the effective sample size does not \
                 show; use more stages",
                100.0 * share
            ),
            Self::PilotNearCollapse { ess, chains, beta } => write!(
                f,
                "the pilot's effective sample size falls to {ess:.1} of {chains} chains at beta = \
                 {beta:.3e}: a schedule that relies on its weights is a guess from there on; use more \
                 pilot steps"
            ),
            Self::FewPilotChains { chains } => write!(
                f,
                "{chains} pilot chains are too few to choose a schedule by: use 20 or more"
            ),
            Self::FewPilotSteps { steps } => write!(
                f,
                "a pilot of {steps} steps sees too little of the path to choose a schedule by: use 100 \
                 or more"
            ),
            Self::NothingVaries { stage, beta } => write!(
                f,
                "nothing varied over the pilot's chains at stage {stage} (beta = {beta}): the \
                 schedule moves there as fast as its floor allows; use more pilot chains"
            ),
            Self::NegligibleCost { segment, cost } => write!(
                f,
                "segment {segment} (from 0) seems to cost {cost:.2e}, and counts as 0.1% of the mean: use \
                 more chains or updates at the knots"
            ),
            Self::BaseMissesTarget { chains } => write!(
                f,
                "{chains} chains met states that the target allows and the base excludes: the \
                 estimate is biased; choose a base that covers the target"
            ),
            Self::ThermodynamicDisagreement {
                thermodynamic,
                log_z,
                standard_error,
            } => write!(
                f,
                "thermodynamic integration gives {thermodynamic:.3}, the weights give {log_z:.3} \
                 +- {standard_error:.3}: use more stages or a better mixing kernel"
            ),
        }
    }
}
