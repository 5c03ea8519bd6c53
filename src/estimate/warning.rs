//! Reasons to doubt the result of a run, as values.

/// A reason to doubt a result, with the figures behind it.
///
/// Its text says what to do about it. It implements `Error`, so that a strict program can return it as
/// one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Warning {
    /// Too few chains for an error estimate to be trusted.
    #[error("{chains} chains are too few to judge the error: run at least 100")]
    FewChains {
        /// Number of chains.
        chains: usize,
    },
    /// Chains that lost the target's support and count as weight zero.
    #[error(
        "{dead} of {chains} chains have weight zero, having left the target's support: choose a base \
         closer to the target, or more stages if it moves along the path"
    )]
    DeadChains {
        /// Number of chains of weight zero.
        dead: usize,
        /// Number of chains.
        chains: usize,
    },
    /// Few chains carry nearly all the weight.
    #[error(
        "the effective sample size is {ess:.1} of {chains} chains: the interval may miss; use more \
         stages or a better mixing kernel"
    )]
    LowEffectiveSampleSize {
        /// Effective sample size, a count.
        ess: f64,
        /// Number of chains.
        chains: usize,
    },
    /// One chain carries a large part of the weight.
    #[error(
        "one chain carries {:.0}% of the weight: use more stages or more chains", 100.0 * share
    )]
    DominantWeight {
        /// Its share of the sum of weights.
        share: f64,
    },
    /// The largest weights fall off so slowly that their mean and variance are unreliable.
    #[error(
        "the largest weights have a heavy tail (Pareto shape {k_hat:.2}): the estimate is likely too \
         low and its error understated; use more stages"
    )]
    HeavyTail {
        /// Shape of the generalised Pareto distribution fitted to the largest weights.
        k_hat: f64,
    },
    /// One stage adds most of the variance of the log weight.
    #[error(
        "stage {stage} (beta = {beta}) adds {:.0}% of the variance of the log weight: place more \
         stages there",
        100.0 * share
    )]
    ConcentratedVariance {
        /// Index of the stage, 1 to K.
        stage: usize,
        /// Inverse temperature it reaches.
        beta: f64,
        /// Its share of the variance added by all stages.
        share: f64,
    },
    /// A stage in which no proposal was accepted and no chain moved otherwise.
    #[error("no proposal was accepted at stage {stage} (beta = {beta}): use smaller steps")]
    ZeroAcceptance {
        /// Index of the stage, 1 to K.
        stage: usize,
        /// Inverse temperature it reaches.
        beta: f64,
    },
    /// States with density under the target, none under the base.
    #[error(
        "{chains} chains met states that the target allows and the base excludes: the estimate is \
         biased; choose a base that covers the target"
    )]
    BaseMissesTarget {
        /// Number of chains that met such a state.
        chains: usize,
    },
}
