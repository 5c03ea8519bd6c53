//! Reasons to doubt a run or a pilot, as values.

use super::advice::{faster, hardly_overlap, more_betas, order, shows, simpler, sureness, tail};
use crate::error::short;

/// A reason to doubt a result or a schedule, with its figures. The text gives advice. A strict program can return a
/// warning as an error, because this type implements `Error`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Warning {
    /// Too few chains to trust an error estimate.
    #[error("{chains} chains are too few to judge the error: run at least 100")]
    FewChains {
        /// Number of chains.
        chains: usize,
    },
    /// Chains that left the target's support and have weight zero.
    #[error(
        "{dead} of {chains} chains have weight zero, because they are off the target's support: choose a base closer to the \
         target, or use more stages if the support changes along the path"
    )]
    DeadChains {
        /// Number of chains of weight zero.
        dead: usize,
        /// Number of chains.
        chains: usize,
    },
    /// Too few independent families or islands in a resampled run to trust its error.
    #[error(
        "the estimate of the resampled run rests on about {effective:.1} independent families of chains, too \
         few to judge the error: run at least 10 blocks, with more chains or a smaller block_size; if the run already \
         has 10 blocks, use more stages or a better mixing kernel"
    )]
    FewFamilies {
        /// Effective number of families or islands.
        effective: f64,
    },
    /// A resampled run in which the weights of families have no variance; a family is all descendants of one initial
    /// chain. Chains move too little between resamplings to reach mass where the base has a low density. Islands then
    /// agree on a value that lacks this mass.
    #[error(
        "the weights of families (all chains that descend from one first chain) have a heavy tail (Pareto shape {k_hat:.2}): \
         the estimate is likely too low and its error understated; use more moves at each stage, a better mixing kernel or a \
         wider base; the target may also have no finite integral"
    )]
    HeavyFamilies {
        /// Shape of the generalised Pareto distribution fitted to the largest family weights.
        k_hat: f64,
    },
    /// Rounds whose last run rests on fewer than `N/5 min(1, Lambda / sqrt K)` families, for N chains, K stages and the
    /// barrier Lambda. Chains follow the path too slowly, as in a narrow and curved valley. The chains with the largest
    /// weights are missing, so the estimate and its error are too small although they look steady.
    #[error(
        "the estimate from {chains} chains rests on only about {effective:.0} independent families, after {stages} stages along \
         a barrier of {barrier:.1}. The chains follow the path too slowly, as if the target is narrow or a curved valley, and \
         log Z is likely too low: {}, or use a base near the target or a better kernel. If log Z rises from round to round, \
         the target may have no finite integral",
        faster(*may_fit)
    )]
    MergedFamilies {
        /// Effective number of families. A family is all chains with the same first ancestor.
        effective: f64,
        /// Number of chains.
        chains: usize,
        /// Number of stages.
        stages: usize,
        /// The barrier Lambda.
        barrier: f64,
        /// Whether rounds from a fitted base were not tried.
        #[cfg_attr(feature = "serde", serde(default))]
        may_fit: bool,
    },
    /// Rounds whose first pass met a single density ratio of target and base, such as a likelihood of exp(-1e6) but for a
    /// region without any chain. Later chains that find this region do so at a late stage, and their weights are far too
    /// small.
    #[error(
        "all chains of the first pass had the same log density relative to the base: the target looks flat from the base, and if \
         it is higher in a region that the chains hardly reach, log Z is far too low: {}use a base that reaches this region, or \
         for a likelihood nested sampling (`NestedSmc`)",
        if *may_fit { "fit a base (`.fitted()`), " } else { "" }
    )]
    FlatFirstPass {
        /// Whether rounds from a fitted base were not tried.
        may_fit: bool,
    },
    /// Rounds whose last estimate rose so much that it is likely too low still. What an estimate lacks falls about as 1/K, so
    /// a rise by D from K' to K stages leaves `D / (K / K' - 1)`, which exceeds 2.5 of its standard errors. K is at least four
    /// times K', or the rise to K' was hardly larger.
    #[error(
        "the estimate rose by {rise:.2} from {before} to {stages} stages, so it is likely too low still, by about {left:.2}: use \
         a larger budget, a base near the target or a better mixing kernel. If it goes on rising, the target may have no finite \
         integral"
    )]
    RisingRounds {
        /// Rise from the round before to the last round.
        rise: f64,
        /// Number of stages of the round before.
        before: usize,
        /// Number of stages of the last round.
        stages: usize,
        /// Amount that the last estimate lacks.
        left: f64,
    },
    /// Rounds from the path's own base, after a fitted base was refused, although draws of its mixtures give a log Z
    /// that is higher by more than four errors.
    #[error(
        "draws of the mixtures that were refused give log Z = {log_z:.3} +- {standard_error:.3}, which is higher: searches found \
         mass that the rounds miss; use more chains and a larger budget, or `Challenge`"
    )]
    BelowFits {
        /// Log Z by draws of the mixtures.
        log_z: f64,
        /// Its standard error.
        standard_error: f64,
    },
    /// A run in which few chains carry nearly all the weight.
    #[error(
        "the effective sample size is {ess:.1} of {chains} chains: the interval may miss log Z; use \
         more stages, another base or a better mixing kernel"
    )]
    LowEffectiveSampleSize {
        /// Effective sample size, a count.
        ess: f64,
        /// Number of chains.
        chains: usize,
    },
    /// A run of many data of which most have few effective chains. The chains with the largest weights are then missing at
    /// some of the other data, whose own weights look even.
    #[error(
        "the median datum has an effective sample size of {median:.1} of {chains} chains: some estimates are too low, and their \
         own weights do not show it; use more stages. If they do not help, p(x) may be infinite"
    )]
    LowSampleSizes {
        /// Median over data of the effective sample size.
        median: f64,
        /// Number of chains of a datum.
        chains: usize,
    },
    /// A chain that carries a large part of the weight.
    #[error(
        "one chain carries {:.0}% of the weight: use more stages or more chains", 100.0 * share
    )]
    DominantWeight {
        /// The chain's share of the sum of weights.
        share: f64,
    },
    /// A tail of large weights so heavy that mean and variance are unreliable.
    #[error(
        "the largest weights have a heavy tail (Pareto shape {k_hat:.2}): the estimate is likely too \
         low and its error understated; use more stages"
    )]
    HeavyTail {
        /// Shape of the generalised Pareto distribution fitted to the largest weights.
        k_hat: f64,
    },
    /// A stage that adds most of the variance of the log weight.
    #[error(
        "stage {stage} (beta = {}) adds {:.0}% of the variance of the log weight: place more stages there, or \
         give rounds a larger budget",
        short(*beta),
        100.0 * share
    )]
    ConcentratedVariance {
        /// Index of the stage, 1 to K.
        stage: usize,
        /// Inverse temperature that the stage reaches.
        beta: f64,
        /// Share of the variance added by all stages.
        share: f64,
    },
    /// A stage in which fewer than one proposal in 1,000 was accepted and no chain moved in another way.
    #[error("fewer than one proposal in 1,000 was accepted at stage {stage} (beta = {}): use smaller steps", short(*beta))]
    ZeroAcceptance {
        /// Index of the stage, 1 to K.
        stage: usize,
        /// Inverse temperature that the stage reaches.
        beta: f64,
    },
    /// Moves of an unadjusted kernel whose reverse moves are too rare to be sampled. Part of the mean weight is missing.
    #[error(
        "at least {:.1}% of the mean weight is missing, and the interval does not include it: unadjusted moves \
         overshoot, as at an edge where the gradient diverges; use an adjusted kernel (MALA) or smaller \
         steps",
        100.0 * share.min(1.0)
    )]
    MissingMass {
        /// Estimated missing share of the mean weight, often too low. It is a sum over stages and may exceed 1.
        share: f64,
        /// Standard error of the estimate.
        standard_error: f64,
    },
    /// A rounding error that may be large beside the standard error.
    #[error(
        "rounding may change log Z by {rounding_error:.2e}, and the standard error is {standard_error:.2e}: take a large \
         constant out of the log densities, or compute in double precision (for an RBM, with weights of 64 bits)"
    )]
    Rounding {
        /// Error in log Z that rounding may cause.
        rounding_error: f64,
        /// Standard error of the estimate.
        standard_error: f64,
    },
    /// A run that ended with a larger standard error than was asked for.
    #[error(
        "the standard error is {reached:.2e}, not the {asked:.2e} that was asked for: {advice}"
    )]
    ErrorNotReached {
        /// The standard error asked for.
        asked: f64,
        /// The standard error reached.
        reached: f64,
        /// Number of chains of the run; `None` if islands or ladders give the error.
        chains: Option<usize>,
        /// Budget of evaluations that would roughly reach the error. It is `None` outside
        /// [`Rounds`](crate::adaptive::Rounds), and if the error of the rounds did not fall as their stages grew.
        budget: Option<u64>,
        /// Advice on how to reach the error.
        advice: String,
    },
    /// States that have density under the target, but none under the base.
    #[error(
        "some chains ({chains}) met states that the target allows but the base excludes: the estimate is biased; choose a \
         base that covers the target"
    )]
    BaseMissesTarget {
        /// Number of chains that met a state excluded by the base.
        chains: usize,
    },
    /// Chains that are missing, because not all parts of the run were merged.
    #[error(
        "{missing} of {of} chains are missing, because parts of the run are missing or unfinished: the estimate uses only \
         the other chains; finish and merge all parts"
    )]
    MissingChains {
        /// Number of missing chains.
        missing: usize,
        /// Number of chains asked for.
        of: usize,
    },
    /// A checkpoint that could not be written. The file is out of date or missing.
    #[error("a checkpoint could not be written: {reason}; remove the cause before the next run")]
    CheckpointNotWritten {
        /// The file and the failure.
        reason: String,
    },
    /// A nested run that ended at its maximum number of likelihood levels.
    #[error(
        "the run ended at its limit of {levels} levels: a share of about {share:.1e} of Z, or more, may lie above the last \
         level; allow more levels"
    )]
    LevelsEnded {
        /// Number of levels.
        levels: usize,
        /// Mass above the last level, relative to the mass below it. The estimate assumes that all states above the
        /// level have the largest likelihood found.
        share: f64,
    },
    /// A forward or a reverse run that lies more than five of its standard errors from the joint estimate of both. If
    /// the forward run gives the lower value, the run that lies too far has missed something. If the forward run gives
    /// the higher value, the reverse run's samples are from another target, or the kernel's reversal is wrong. Of works
    /// or weights from another program: directions that exclude one another, as with other units, an offset or a wrong
    /// sign in one direction or both. The figures are then dF if works were given.
    #[error(
        "the forward direction gives {forward:.3}, the reverse direction {reverse:.3}, and both together {joint:.3}: {cause}"
    )]
    ForwardReverseGap {
        /// Estimate of log Z from the forward direction.
        forward: f64,
        /// Estimate of log Z from the reverse direction.
        reverse: f64,
        /// Bennett's estimate of log Z, from both.
        joint: f64,
        /// The likely cause, and what to do.
        #[cfg_attr(feature = "serde", serde(default))]
        cause: String,
    },
    /// A forward and a reverse run with an overlap below 0.03, or with few effective chains in the overlap. If the
    /// overlap is below 0.03, the interval contains the intervals of both runs.
    /// Of [`Mbar`](crate::estimate::Mbar): two groups of states with this overlap.
    #[error("{}", hardly_overlap(*overlap, *ess, groups.as_ref()))]
    LittleOverlap {
        /// Overlap of the two directions or groups, 0 to 1.
        overlap: f64,
        /// Effective sample size of the acceptances in Bennett's ratio, a count.
        ess: f64,
        /// The states with draws in each of the two groups; `None` for two directions.
        #[cfg_attr(feature = "serde", serde(default))]
        groups: Option<[Vec<usize>; 2]>,
    },
    /// A reason to doubt one state in [`Mbar`](crate::estimate::Mbar).
    #[error("in state {state}, {warning}")]
    InState {
        /// Index of the state.
        state: usize,
        /// The reason.
        warning: Box<Self>,
    },
    /// A chain of draws of one state, or replicas, in [`Mbar`](crate::estimate::Mbar) that are clearly correlated and span
    /// fewer than 200 autocorrelation times, or a chain of fewer than 50 draws, which do not show how they are correlated.
    #[error(
        "the chain of {draws} draws spans about {:.0} autocorrelation times, too few to judge the error: make it longer, \
         {:.0} draws or more; declare the draws independent if they are",
        *draws as f64 / time,
        (200.0 * time).ceil()
    )]
    ShortChain {
        /// Number of draws.
        draws: usize,
        /// Autocorrelation time, in draws.
        time: f64,
    },
    /// A state in [`Mbar`](crate::estimate::Mbar) that few draws reach: weighted for this state, the draws of all states
    /// are worth fewer than 25 independent ones, or their largest weights have a heavy tail.
    #[error(
        "weighted for this state, the draws of all states are worth about {effective:.0} independent ones{}: log Z is likely \
         too low, the free energy too high, and the error too small; add draws of this state, or of states nearer to it",
        tail(*k_hat)
    )]
    FewWeightedDraws {
        /// Number of independent draws that all draws, weighted for this state, are worth.
        effective: f64,
        /// Pareto shape of the largest weights; `None` for a state with draws of its own.
        k_hat: Option<f64>,
    },
    /// Draws in [`Mbar`](crate::estimate::Mbar) that are not from their states by the log densities of all states. Given
    /// log Z, a draw at x comes from state k with a probability `p_k(x)`. The mean of `p_k` over the draws of state k differs
    /// from the mean over all draws, weighted for k.
    #[error(
        "the draws of states {states:?} contradict their log densities, by up to {errors:.1} standard errors: check the sign of \
         u_kn (energies, not log densities), the order of its rows and of the states, its unit (kT) and the counts. If all are \
         right, the draws are not in equilibrium"
    )]
    DrawsContradict {
        /// The states, by their indices.
        states: Vec<usize>,
        /// Largest distance of the two means, in standard errors.
        errors: f64,
    },
    /// Draws of the target with too few effective draws to judge the error.
    #[error(
        "the {draws} draws are worth about {effective:.0} independent ones, too few to judge the error: they are strongly \
         correlated, or their chains disagree; draw more, at least {:.0}",
        *draws as f64 * 100.0 / effective
    )]
    FewDraws {
        /// Effective number of independent draws.
        effective: f64,
        /// Number of draws.
        draws: usize,
    },
    /// Draws that mix slowly in one coordinate: they are worth fewer than 25 independent draws in it, or fewer than 400
    /// and an eighth of what they are worth in log f. The error of log Z may then be too small, because the draws may
    /// lack a region to which this coordinate leads.
    #[error(
        "the draws are worth about {effective:.0} independent ones in coordinate {coordinate}, counted from 0 (R-hat {r_hat:.2}), \
         and {of_log_density:.0} in the log density: they may lack a region, such as the neck of a centred hierarchy; draw \
         longer chains or use non-centred coordinates, and compare log Z with a run from the prior"
    )]
    SlowCoordinate {
        /// Index of the coordinate.
        coordinate: usize,
        /// Effective number of independent draws of the coordinate.
        effective: f64,
        /// Effective number of independent draws of log f.
        of_log_density: f64,
        /// R-hat of the coordinate, by ranks and half chains (Vehtari et al. 2021); 1 for chains that agree.
        r_hat: f64,
    },
    /// Divergent transitions of the Hamiltonian sampler that made the draws. It did not enter a region of high curvature.
    #[error(
        "the sampler reported {count} divergent transitions: the draws lack a region, such as the neck of a centred \
         hierarchy, and log Z lacks its mass; use non-centred coordinates or smaller steps, and compare log Z with a run from \
         the prior"
    )]
    Divergences {
        /// Number of divergent transitions after the warm-up.
        count: usize,
    },
    /// Weights that are correlated with weights before them, like those of one Markov chain. The standard error allows
    /// for this correlation. Of draws, it appears if chains take turns, or if blocks of all lengths are correlated.
    #[error(
        "successive values are correlated: they are worth {:.1}% as many independent ones, and the error allows for it; {}",
        100.0 * share,
        order(*interleaved, *grows)
    )]
    Autocorrelated {
        /// Number of independent weights that are worth as much, divided by the number of weights.
        share: f64,
        /// Number of chains whose values take turns; `None` if none do.
        interleaved: Option<usize>,
        /// Whether the variance of block means, times their length, still grows at the longest blocks. The interval is
        /// then widened.
        #[cfg_attr(feature = "serde", serde(default))]
        grows: bool,
    },
    /// Two halves of the draws with values of log Z far from each other.
    #[error(
        "the halves of the draws give {one:.3} and {other:.3}: the chains have not settled, or mix too slowly; draw longer chains"
    )]
    HalvesDisagree {
        /// Log Z by the first halves of the chains.
        one: f64,
        /// Log Z by the second halves.
        other: f64,
    },
    /// Too few ladders to judge the error by their differences.
    #[error("{ladders} ladders are too few to judge the error: run at least 8")]
    FewLadders {
        /// Number of ladders.
        ladders: usize,
    },
    /// Data that are less likely under an RBM than under fair coins, or than under its base-rate model, which uses only
    /// how often each unit is on.
    #[error(
        "the data are less likely under the RBM ({log_likelihood:.3} nats a row) than under {}: check \
         whether the weights are transposed, the hidden and visible biases are exchanged, or the data differ from the \
         training data in binarisation or order of units. If none of this holds, the RBM models these data badly",
        simpler(*log_likelihood, *base_rate, *fair_coins)
    )]
    BelowBaseRate {
        /// Mean log likelihood under the RBM, in nats a row.
        log_likelihood: f64,
        /// Mean log likelihood under the base-rate model, in nats a row.
        base_rate: f64,
        /// Log likelihood under fair coins, in nats a row.
        fair_coins: f64,
    },
    /// A lower bound on log Z that lies above the interval: the estimate is too low, by chance or because the run
    /// missed mass.
    #[error(
        "log Z is at least {bound:.3} ({}), above the interval, which ends at {upper:.3}: the estimate is too low. If the \
         gap is small, this may be chance; otherwise the run missed mass. Start from a base that covers this mass (a \
         challenge may find one, or for an RBM a search for a start), or use more stages",
        sureness(*confidence)
    )]
    BelowBound {
        /// The lower bound.
        bound: f64,
        /// Probability with which the bound holds; 1 if it is certain.
        confidence: f64,
        /// Upper end of the interval.
        upper: f64,
    },
    /// A run whose log Z is too low according to a second run from other bases. The result is the second run's.
    #[error(
        "the first run gave {first:.3}, and a second run from other bases {}. The reported value is the second run's; it lacks \
         any mass that both runs missed: challenge again with a larger budget to look for more",
        shows(*bound)
    )]
    FirstRunTooLow {
        /// The first run's estimate of log Z.
        first: f64,
        /// A lower bound on log Z that lies above the first run's interval, and the probability with which the bound
        /// holds; `None` if there is no such bound, and only the second run's interval lies above the first run's.
        bound: Option<(f64, f64)>,
    },
    /// An undecided challenge: one of the two runs is likely wrong. The result is the first run's.
    #[error(
        "the challenge is undecided: a second run from other bases, {log_z:.3} +- {standard_error:.3}, {reason}: one of the \
         two runs is likely wrong; look at the second run, or challenge again with a larger budget"
    )]
    ChallengeUndecided {
        /// Estimate of log Z by the second run.
        log_z: f64,
        /// Standard error of `log_z`.
        standard_error: f64,
        /// The reason why the second run does not decide, for example `has warnings`.
        reason: String,
    },
    /// A search for a start in which no pilot had enough effective samples.
    #[error(
        "the search for a start rests on few chains (for the mass that it found, no pilot has an effective sample size above \
         {ess:.0}): the start and the run may miss mass; use more stages"
    )]
    WeakSearch {
        /// Largest effective sample size of a pilot, a count.
        ess: f64,
    },
    /// A run whose interval lies below the value that a pilot found during the search for a start.
    #[error(
        "a pilot of the search for a start found log Z = {pilot:.3} +- {standard_error:.3}, above the interval, which ends \
         at {upper:.3}: the run may have missed mass; use more stages"
    )]
    HigherPilot {
        /// The pilot's estimate of log Z.
        pilot: f64,
        /// Standard error of `pilot`.
        standard_error: f64,
        /// Upper end of the interval.
        upper: f64,
    },
    /// Two neighbouring betas that hardly ever exchange states.
    #[error(
        "{:.1}% of the swaps between beta = {} and {} are rejected: use more betas, or more rounds to place them",
        100.0 * rejection,
        short(*lower),
        short(*upper)
    )]
    RejectedSwaps {
        /// The lower beta.
        lower: f64,
        /// The upper beta.
        upper: f64,
        /// Mean probability that a swap is rejected.
        rejection: f64,
    },
    /// Fewer than three round trips from base to target and back per ladder, on average.
    #[error(
        "{round_trips} round trips between base and target in {ladders} ladders: the target's states still \
         depend on where they began; use {}more rounds or a better mixing kernel",
        more_betas(*barrier, *betas)
    )]
    FewRoundTrips {
        /// Number of round trips in the last round.
        round_trips: u64,
        /// Number of ladders.
        ladders: usize,
        /// The barrier, the sum of the rejection rates. The best number of betas is about twice the barrier.
        barrier: f64,
        /// Number of betas.
        betas: usize,
    },
    /// A pilot in which few chains carry nearly all the weight somewhere on the path.
    #[error(
        "the pilot's effective sample size falls to {ess:.1} of {chains} at beta = {}: \
         from there on a schedule that uses its weights is unreliable; use more pilot stages",
        short(*beta)
    )]
    PilotNearCollapse {
        /// Lowest effective sample size along the pilot, a count.
        ess: f64,
        /// Number of pilot chains.
        chains: usize,
        /// Inverse temperature at which the effective sample size is lowest.
        beta: f64,
    },
    /// Too few pilot chains. The estimated variances are then mostly noise.
    #[error("{chains} pilot chains are too few to choose a schedule: use 20 or more")]
    PilotFewChains {
        /// Number of chains.
        chains: usize,
    },
    /// Too few pilot stages to see the path.
    #[error("a pilot of {steps} stages is too coarse to choose a schedule: use 100 or more")]
    PilotFewSteps {
        /// Number of stages.
        steps: usize,
    },
    /// A point of the path at which nothing varied among a pilot's chains.
    #[error(
        "nothing varied among the pilot's chains at stage {stage} (beta = {}): the schedule moves \
         there as fast as its floor allows; use more pilot chains",
        short(*beta)
    )]
    PilotNothingVaries {
        /// Index of the pilot's stage; 0 is the base.
        stage: usize,
        /// Inverse temperature of the stage.
        beta: f64,
    },
    /// A segment of a [`BinnedSchedule`](crate::pilot::BinnedSchedule) whose estimated cost is negative or almost 0 and
    /// was raised to a floor.
    #[error(
        "the estimated cost of segment {segment} (counted from 0) is {cost:.2e}, and was raised to 0.1% of the mean: use \
         more chains or updates at the knots"
    )]
    PilotNegligibleCost {
        /// Index of the segment, from 0.
        segment: usize,
        /// The estimated cost.
        cost: f64,
    },
    /// A reason to doubt a run that applies to a pilot: [`DeadChains`](Self::DeadChains),
    /// [`ConcentratedVariance`](Self::ConcentratedVariance) or [`ZeroAcceptance`](Self::ZeroAcceptance). Its stage is a
    /// stage of the pilot; stage 0 is the base.
    #[error("in the pilot, {0}")]
    InPilot(Box<Self>),
    /// Shifts of a [drift modifier](crate::drift::DriftModifier) that exceeded the kernel's bound and were cut to it.
    #[error(
        "{:.1}% of the shifts were cut at stage {stage} (beta = {}); the longest was {longest:.3} before the cut. \
         The chains may miss modes, and the effective sample size does not show it: use more stages",
        100.0 * share,
        short(*beta)
    )]
    ShiftsCut {
        /// Index of the stage with the largest share of cuts, 1 to K.
        stage: usize,
        /// Inverse temperature that the stage reaches.
        beta: f64,
        /// Share of the stage's chains whose shift was cut.
        share: f64,
        /// Longest shift before the cut, in units of the state.
        longest: f64,
    },
}

impl Warning {
    /// Returns the variant's name, for example `HeavyTail`. It is the name of the inner warning for
    /// [`InState`](Self::InState).
    pub fn name(&self) -> String {
        if let Self::InState { warning, .. } = self {
            return warning.name();
        }
        let text = format!("{self:?}");
        let end = text.find(|c: char| !c.is_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_pilot_reads_as_that_of_a_run() {
        let (stage, beta) = (3, 0.25);
        let of_run = Warning::ZeroAcceptance { stage, beta };
        let of_pilot = Warning::InPilot(Box::new(of_run.clone()));
        assert_eq!(of_pilot.to_string(), format!("in the pilot, {of_run}"));
        assert_eq!(of_pilot.name(), "InPilot");
        let warning = Box::new(of_run);
        let state = 2;
        assert_eq!(Warning::InState { state, warning }.name(), "ZeroAcceptance");
    }
}
