//! The result of annealing in rounds.

use std::fmt;

use super::barrier::Barrier;
use super::first_pass::FirstPassRun;
use super::fitted::{FittedBase, NotFitted, Refused};
use crate::ais::Run;
use crate::estimate::{
    LogZ, Remedy, Warning, WeightedSample, WeightedStates, effective_families, write_estimate,
    write_value, write_warnings,
};
use crate::work::StoppedBy;
use crate::{Error, Result};

/// One round of [`Rounds`](super::Rounds).
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Round {
    /// Number of stages.
    pub stages: usize,
    /// Estimate of log Z; `-inf` if no chain reached the target's support.
    pub log_z: f64,
    /// Standard error of `log_z`; infinite for the first pass, where it is unknown.
    pub standard_error: f64,
    /// The global barrier Lambda.
    pub barrier: f64,
    /// Evaluations of the target; a value with its gradient counts as one.
    pub evaluations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// The result of [`Rounds`](super::Rounds): the last round's run, and the rounds before it.
///
/// Log Z, error, interval and warnings come from the last round's run. A [`Challenge`](super::Challenge) judges them.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct RoundsRun<S, K> {
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub(super) last: Last<S, K>,
    pub(super) stopped_by: StoppedBy,
    pub(super) seed: u64,
    /// Number of evaluations that rounds from the path's own base may take.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) unfitted: u64,
}

/// The last finished round.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "checkpoint", derive(serde::Deserialize))]
pub(super) struct Last<S, K> {
    pub(super) run: Run<S>,
    pub(super) kernel: K,
    pub(super) barrier: Barrier,
    pub(super) fitted: Option<FittedBase>,
    pub(super) not_fitted: Option<Refused>,
    pub(super) rounds: Vec<Round>,
    /// Divisor of the level of a bound, at least 1, if rounds could end the run by their own errors; `None` if a callback or a
    /// time limit ended it.
    pub(super) candidates: Option<usize>,
}

impl Round {
    pub(super) fn of_first_pass<K>(pass: &FirstPassRun<K>) -> Self {
        Self {
            stages: pass.schedule.stages(),
            log_z: pass.log_z,
            standard_error: f64::INFINITY,
            barrier: pass.barrier.global(),
            evaluations: pass.evaluations,
            seconds: pass.seconds,
        }
    }

    pub(super) fn of_run<S>(run: &Run<S>, barrier: &Barrier, evaluations: u64) -> Self {
        Self {
            stages: run.schedule().stages(),
            log_z: run.log_z(),
            standard_error: run.standard_error(),
            barrier: barrier.global(),
            evaluations,
            seconds: run.seconds(),
        }
    }
}

impl<S, K> RoundsRun<S, K> {
    /// Returns the run of the last round.
    pub fn run(&self) -> &Run<S> {
        &self.last.run
    }

    /// Returns the kernel of the last round, with the step sizes and shapes that were found.
    pub fn kernel(&self) -> &K {
        &self.last.kernel
    }

    /// Returns the barrier of the last round. Its global value Lambda measures how hard the path is with this kernel.
    pub fn barrier(&self) -> &Barrier {
        &self.last.barrier
    }

    /// Returns the base of the rounds if it was [fitted](super::Rounds::fitted); `None` if it was the path's own.
    pub fn fitted(&self) -> Option<&FittedBase> {
        self.last.fitted.as_ref()
    }

    /// Returns the reason why the rounds had the path's own base although [`fitted`](super::Rounds::fitted) was set.
    pub fn not_fitted(&self) -> Option<NotFitted> {
        self.last.not_fitted.map(|refused| refused.reason)
    }

    /// Returns the first pass and the rounds. Estimates that rise from round to round were too low.
    pub fn rounds(&self) -> &[Round] {
        &self.last.rounds
    }

    /// Returns the seed of [`Rounds`](super::Rounds). The seeds of its rounds follow from it.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the reason why the rounds ended: the error, the evaluations, the number of rounds, a callback or a time
    /// limit.
    pub fn stopped_by(&self) -> StoppedBy {
        self.stopped_by
    }

    /// Returns the number of stages that reach `standard_error` with the last round's number of chains, from its error.
    /// It assumes `exp(c / K) - 1` as the relative variance of a weight after K stages, so the result is
    /// `c / log(1 + N e^2)` for N chains and the error e. If the kernel keeps the chains in equilibrium, `c` is
    /// `Lambda^2`.
    ///
    /// # Errors
    /// A standard error that is not positive; [`Error::NotConverged`] if it is below the last round's, and the rounds show
    /// that more stages do not help ([`Rounds`](super::Rounds)).
    pub fn stages_for(&self, standard_error: f64) -> Result<usize> {
        Error::check_positive("standard_error", standard_error)?;
        let reached = self.last.run.standard_error();
        if standard_error < reached && self.last.stands() {
            let chains = self.last.run.chains();
            return Err(Error::NotConverged {
                what: "the standard error of the rounds",
                detail: Remedy::ChainsAlone(chains).advice(reached / standard_error),
            });
        }
        let chains = self.last.run.chains() as f64;
        let relative = |error: f64| (chains * error * error).ln_1p();
        let stages = self.last.run.schedule().stages() as f64 * relative(reached);
        Ok((stages / relative(standard_error)).ceil().max(1.0) as usize)
    }
}

/// Returns a divisor of the budget. The quotient is the most that all before the last round may spend. The last round
/// then has three quarters, and its error is at most 16% above the error of the whole budget. If a base is fitted, the
/// last round has half, and its error is at most 41% higher.
pub(super) fn divisor_before_last(fits: bool) -> u64 {
    if fits { 2 } else { 4 }
}

/// Factor by which the stages grow while the variance must fall by half: two doublings. A variance of 1/K falls to a
/// quarter, so half leaves a factor of two for noise. If it falls by less, more stages do not help.
const STAGE_GROWTH: usize = 4;
/// Largest standard error at which an earlier round is compared with the last one: some 16 effective chains (the square
/// is about `1 / ESS`). At errors near 1 one chain has all weight, and the error hides the variance.
const COMPARED_ERROR: f64 = 0.25;
/// Number of stages, divided by Lambda^2, from which on larger errors are compared, too. If chains stay in equilibrium, the
/// weights hardly vary then.
const MANY_STAGES: f64 = 256.0;

/// Effective number of families per chain below which rounds warn, times `Lambda / sqrt(K)` if that is below 1. At .25
/// one of six right runs of *many-well* warns; at .2 right runs lie at 1.2 times the bound or above.
const LEAST_FAMILIES: f64 = 0.2;

/// Barrier below which the weights of a pass do not vary but for rounding.
const FLAT: f64 = 1e-3;
/// Confidence of the bound by earlier rounds.
const SURE: f64 = 0.999;

/// Number of errors by which log Z of the refused fits may lie above.
const WRONG_ERRORS: f64 = 4.0;
/// Standard errors of what the last round lacks, by its rise, above which rounds warn.
const RISING_ERRORS: f64 = 2.5;
/// Least ratio of the last rise to the one before, with which a doubling of the stages tells. A lack that falls as 1/K
/// gives a half.
const STEADY_RISE: f64 = 0.7;

impl<S, K> Last<S, K> {
    /// Returns advice on how to reach `standard_error`: a budget, or more chains if no budget reaches it. `may_fit`
    /// is true if a fitted base may need less.
    pub(super) fn remedy(&self, standard_error: f64, may_fit: bool) -> Remedy {
        let chains = self.run.chains();
        if self.stands() {
            return Remedy::ChainsAlone(chains);
        }
        let last = self.rounds.last().map_or(0, |round| round.evaluations) as f64;
        // The variance of log Z is taken as inversely proportional to the number of stages.
        let last = last * (self.run.standard_error() / standard_error).powi(2);
        let fits = self.fitted.is_some() || self.not_fitted.is_some();
        let spent: u64 = self.rounds.iter().map(|round| round.evaluations).sum();
        // The last round has the rest of a budget. What the run has spent did not reach the error.
        let budget = (last / (1.0 - 1.0 / divisor_before_last(fits) as f64)).max(spent as f64);
        match budget.is_finite() {
            true => Remedy::Budget {
                budget: budget as u64,
                may_fit,
            },
            false => Remedy::Chains(chains),
        }
    }

    /// Returns whether chains moved in the last round. Without stages they are draws of a fitted base.
    pub(super) fn has_stages(&self) -> bool {
        self.fitted.is_none() || self.run.schedule().stages() > 1
    }

    /// Warns if chains follow the path too slowly: the effective share of first chains that still have descendants is
    /// below a fifth, and below a fifth of `Lambda / sqrt(K)`, the standard deviation of log weights if the kernel
    /// keeps the chains in equilibrium.
    pub(super) fn merged_families(&self, may_fit: bool) -> Option<Warning> {
        if !self.has_stages() {
            return None;
        }
        let (run, barrier) = (&self.run, self.barrier.global());
        let (chains, stages) = (run.chains(), run.schedule().stages());
        let effective = effective_families(run.log_weights(), run.roots());
        let least = LEAST_FAMILIES * (barrier / (stages as f64).sqrt()).min(1.0);
        (effective < least * chains as f64).then_some(Warning::MergedFamilies {
            effective,
            chains,
            stages,
            barrier,
            may_fit,
        })
    }

    /// Warns if an earlier round or the first pass bounds log Z from below by a value above the interval. The mean of each
    /// of their estimates of Z is Z (of the first pass up to `O(1/N)`), so one of n exceeds `n Z / (1 - c)` with a
    /// probability of at most `1 - c` (Markov's inequality).
    pub(super) fn below_earlier(&self) -> Option<Warning> {
        let earlier = self.rounds.split_last()?.1;
        let highest = earlier.iter().map(|round| round.log_z);
        let highest = highest.fold(f64::NEG_INFINITY, f64::max);
        let bound = highest - (earlier.len() as f64 / (1.0 - SURE)).ln();
        Warning::below_bound(bound, SURE, self.run.interval().1)
    }

    /// Warns if the weights of the first pass did not vary, although those of the last round do, or although log Z is far
    /// below the base's.
    pub(super) fn flat_first_pass(&self, base_log_z: f64, may_fit: bool) -> Option<Warning> {
        let is_flat = self.fitted.is_none() && self.rounds[0].barrier < FLAT;
        let is_low = self.run.log_z() - base_log_z < f64::MIN_POSITIVE.ln();
        let doubtful = is_flat && (is_low || self.barrier.global() > 100.0 * FLAT);
        doubtful.then_some(Warning::FlatFirstPass { may_fit })
    }

    /// Warns if the last round rose so much above the one before that it is likely too low still. A single doubling does
    /// not tell: what an estimate lacks may fall faster than 1/K, and right runs would warn. Two do, if the second rise is
    /// hardly smaller than the first.
    pub(super) fn rising(&self) -> Option<Warning> {
        let [earlier @ .., before, last] = self.rounds.as_slice() else {
            return None;
        };
        let rise = last.log_z - before.log_z;
        let goes_on = |round: &Round| rise > STEADY_RISE * (before.log_z - round.log_z).max(0.0);
        let has_grown = last.stages >= STAGE_GROWTH * before.stages;
        let may_tell = has_grown || earlier.len() > 1 && earlier.last().is_some_and(goes_on);
        if !self.has_stages() || earlier.is_empty() || !before.log_z.is_finite() || !may_tell {
            return None;
        }
        let growth = last.stages as f64 / before.stages as f64 - 1.0;
        let left = rise / growth;
        let of_rise = last.standard_error.hypot(before.standard_error) / growth;
        let most = RISING_ERRORS * last.standard_error.hypot(of_rise);
        // The sums of a constant density differ by rounding.
        let rounding = 1e-9 * (1.0 + last.log_z.abs());
        (left > most + rounding).then_some(Warning::RisingRounds {
            rise,
            before: before.stages,
            stages: last.stages,
            left,
        })
    }

    /// Warns if draws of the mixtures that were refused give a higher log Z. Draws from a poor fit tend to give too low a log Z, so a
    /// higher one shows that the rounds miss mass which the searches found.
    pub(super) fn below_fits(&self) -> Option<Warning> {
        let (log_z, error) = self.not_fitted?.log_z?;
        let both = error.hypot(self.run.standard_error());
        let above = log_z - self.run.log_z();
        let tells = error < COMPARED_ERROR && above > WRONG_ERRORS * both;
        tells.then_some(Warning::BelowFits {
            log_z,
            standard_error: error,
        })
    }

    /// Returns whether the variance fell by less than half since the last round with at most a quarter of the stages; or at
    /// many stages, since any such round.
    pub(super) fn stands(&self) -> bool {
        let (stages, error) = (self.run.schedule().stages(), self.run.standard_error());
        let are_many = stages as f64 > MANY_STAGES * self.barrier.global().powi(2);
        let earlier = self.rounds.iter().rev();
        let mut errors = earlier
            .filter(|round| STAGE_GROWTH * round.stages <= stages)
            .map(|round| round.standard_error);
        let before = match are_many {
            true => errors.min_by(f64::total_cmp),
            false => errors.next().filter(|&error| error < COMPARED_ERROR),
        };
        before.is_some_and(|before| error.powi(2) > 0.5 * before.powi(2))
    }
}

/// Largest number of earlier rounds that are printed. With the last one they span 16 times the stages, enough to see a
/// trend.
const ROUNDS_SHOWN: usize = 4;

/// Writes the estimate, the reason for the end, earlier estimates, and any warnings.
impl<S, K> fmt::Display for RoundsRun<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_estimate(f, self, "", self.last.run.estimate().sample_size_text())?;
        let (stages, lambda) = (
            self.last.run.schedule().stages(),
            self.last.barrier.global(),
        );
        let rounds = self.last.rounds.len() - 1;
        match self.last.has_stages() {
            true => write!(f, "\nLambda = {lambda:.2}; {stages} stages")?,
            false => write!(f, "\n{} draws of a fitted base", self.last.run.chains())?,
        }
        write!(f, " in the last of {rounds} rounds; ended: ")?;
        match self.stopped_by {
            StoppedBy::Chains => write!(f, "all {rounds} rounds done")?,
            ended => write!(f, "{ended}")?,
        }
        if let Some(base) = &self.last.fitted {
            write!(f, "\nbase: {base}")?;
        }
        if let Some(Refused { reason, .. }) = &self.last.not_fitted {
            write!(f, "\nbase: the path's own, since {reason}")?;
        }
        self.write_earlier(f)?;
        write_warnings(f, self.warnings())
    }
}

impl<S, K> RoundsRun<S, K> {
    /// Writes the last of the earlier rounds, such as
    /// `earlier rounds: -7.105 +- 0.065 (64 stages), -7.044 +- 0.041 (128)`. A trend in them would continue with more
    /// stages. The first pass, biased and without an error, is left out.
    fn write_earlier(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let earlier = self
            .last
            .rounds
            .get(1..self.last.rounds.len() - 1)
            .unwrap_or(&[]);
        let shown = &earlier[earlier.len().saturating_sub(ROUNDS_SHOWN)..];
        for (i, round) in shown.iter().enumerate() {
            let (size, unit) = match self.last.has_stages() {
                true => (round.stages as u64, " stages"),
                false => (round.evaluations, " draws"),
            };
            let (before, unit) = [(", ", ""), ("\nearlier rounds: ", unit)][usize::from(i == 0)];
            f.write_str(before)?;
            match round.log_z.is_finite() {
                true => write_value(f, round.log_z, round.standard_error)?,
                false => f.write_str("no chain alive")?,
            }
            write!(f, " ({size}{unit})")?;
        }
        Ok(())
    }
}

/// The final states of the last round.
impl<S, K> WeightedSample for RoundsRun<S, K> {
    type State = S;

    fn weighted_states(&self) -> WeightedStates<'_, S> {
        self.last.run.weighted_states()
    }
}

impl<S, K> LogZ for RoundsRun<S, K> {
    fn log_z(&self) -> f64 {
        self.last.run.log_z()
    }

    fn standard_error(&self) -> f64 {
        self.last.run.standard_error()
    }

    /// Returns the confidence interval of log Z at `level` in (0, 1), by [`Run::interval_at`] of the last round.
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.last.run.interval_at(level)
    }

    /// Returns a lower bound on log Z that holds with probability `confidence`, from the last round
    /// ([`Run::certified_lower_bound`]), or `None` if a callback ended the rounds. If any of n
    /// rounds could end them at a requested [error](super::Rounds::until_error), the last round's bound has the
    /// confidence `1 - (1 - confidence) / n`; without a number of rounds, round i has `1 - (1 - confidence) / (i (i + 1))`.
    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        Error::check_inner_fraction("confidence", confidence)?;
        let bound = |n| {
            let run = &self.last.run;
            run.certified_lower_bound(1.0 - (1.0 - confidence) / n as f64)
        };
        self.last.candidates.map_or(Ok(None), bound)
    }

    fn warnings(&self) -> &[Warning] {
        self.last.run.warnings()
    }

    /// Returns the number of evaluations of the target in the first pass, searches, checks and all rounds. A value with its
    /// gradient counts as one.
    fn evaluations(&self) -> u64 {
        let rounds = self.last.rounds.iter().map(|round| round.evaluations);
        rounds.fold(0, u64::saturating_add)
    }

    /// Returns [`evaluations`](Self::evaluations). If the base was fitted, it is at least the number of evaluations that all
    /// rounds from the path's own base take.
    fn challenge_budget(&self) -> u64 {
        let unfitted = self.fitted().map_or(0, |_| self.unfitted);
        self.evaluations().max(unfitted)
    }

    /// Returns the wall time of all rounds in seconds.
    fn seconds(&self) -> f64 {
        self.last.rounds.iter().map(|round| round.seconds).sum()
    }
}
