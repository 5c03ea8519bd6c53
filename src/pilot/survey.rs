//! A survey of a path by a pilot run: the variances by which schedules are chosen.

use crate::ais::{Merge, Recorder, Run};
use crate::estimate::Warning;
use crate::kernel::{Block, Stage};
use crate::num::WeightedVariance;
use crate::path::Intermediate;
use crate::pilot::metric::{ScheduleMetric, check_not_negative};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A recorder of the variance of `d/dbeta log f` along a run, for a [`Survey`].
///
/// The derivative is the log ratio of a stage divided by the stage's length in beta, which is exact on a path linear in
/// beta. The recorder needs no evaluations.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DerivativeRecorder {
    base: WeightedVariance,
    stages: Vec<WeightedVariance>,
    unweighted: Vec<WeightedVariance>,
}

impl<M: Intermediate> Recorder<M> for DerivativeRecorder {
    /// Records the variance over the weighted pairs `(x_{k-1}, w_{k-1} f_k / f_{k-1})`, which target `p_k` under any
    /// kernel, and the variance over the unweighted chains. At the base the two variances agree.
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        let step = stage.model.beta() - stage.previous.beta();
        let mut weighted = WeightedVariance::default();
        let mut unweighted = WeightedVariance::default();
        for (&before, &ratio) in block.previous_log_weights().iter().zip(block.log_ratios()) {
            let log_weight = before + ratio;
            if log_weight > f64::NEG_INFINITY {
                weighted.add(log_weight, ratio / step);
                unweighted.add(0.0, ratio / step);
            }
        }
        if stage.index == 1 {
            self.base = unweighted;
        }
        self.stages.push(weighted);
        self.unweighted.push(unweighted);
    }
}

impl Merge for DerivativeRecorder {
    fn merge(&mut self, right: Self) {
        self.base.merge(&right.base);
        let mine = self.stages.iter_mut().chain(&mut self.unweighted);
        for (mine, theirs) in mine.zip(right.stages.iter().chain(&right.unweighted)) {
            mine.merge(theirs);
        }
    }
}

/// One point of a [`Survey`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SurveyPoint {
    /// Index of the pilot's stage; 0 is the base.
    pub stage: usize,
    /// Inverse temperature.
    pub beta: f64,
    /// Sum of `(beta_k - beta_{k-1})^2` over the pilot's stages since the previous point.
    pub squared_steps: f64,
    /// `g(beta)`, the weighted variance of `d/dbeta log f` over the chains, times `1 / (1 - 1/ESS)`.
    pub derivative_variance: f64,
    /// Sample variance of `d/dbeta log f` over the unweighted chains. Multiplied by `dbeta^2` it is a stage's own part
    /// of the variance of log w.
    pub unweighted_variance: f64,
    /// Sample variance of the running `log w` over the chains.
    pub var_log_weight: f64,
    /// Effective sample size of the weights, a count.
    pub effective_sample_size: f64,
    /// Number of chains that left the support; no other figure counts them.
    pub dead: usize,
    /// Mean acceptance probability since the previous point; `None` if any move takes no accept-reject decision.
    pub acceptance: Option<f64>,
}

/// The variances that a pilot run found along a path.
///
/// It is a plain value from [`Pilot::survey`](crate::pilot::Pilot::survey), or from any run with a
/// [`DerivativeRecorder`]. It can be saved (feature `serde`) and given to several optimizers. The schedule of each
/// optimizer is a pure function of the survey.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Survey {
    chains: usize,
    points: Vec<SurveyPoint>,
}

impl Survey {
    /// Creates the survey of a run with a [`DerivativeRecorder`], at its recorded stages.
    ///
    /// # Errors
    /// [`Error::AllWeightsZero`] if every chain died.
    pub fn from_run<S>(run: &Run<S, DerivativeRecorder>) -> Result<Self> {
        let (betas, recorder) = (run.schedule().betas(), run.recorder());
        let start = SurveyPoint {
            stage: 0,
            beta: 0.0,
            squared_steps: 0.0,
            derivative_variance: recorder.base.get(),
            unweighted_variance: recorder.base.get(),
            var_log_weight: 0.0,
            effective_sample_size: run.chains() as f64,
            dead: 0,
            acceptance: None,
        };
        let mut points = vec![start];
        let mut last = 0;
        let variances = recorder.stages.iter().zip(&recorder.unweighted);
        for (stage, (weighted, unweighted)) in run.stages().iter().zip(variances) {
            let steps = betas[last..=stage.stage].windows(2);
            points.push(SurveyPoint {
                stage: stage.stage,
                beta: stage.beta,
                squared_steps: steps.map(|b| (b[1] - b[0]).powi(2)).sum(),
                derivative_variance: weighted.get(),
                unweighted_variance: unweighted.get(),
                var_log_weight: stage.var_log_weight,
                effective_sample_size: stage.effective_sample_size,
                dead: run.chains() - stage.alive,
                acceptance: stage.acceptance.filter(|_| stage.undecided == 0),
            });
            last = stage.stage;
        }
        Self::new(run.chains(), points)
    }

    /// Creates the survey from points whose betas increase from 0 to 1.
    ///
    /// # Errors
    /// Betas that do not increase from 0 to 1; a figure that is negative or not finite.
    pub fn new(chains: usize, points: Vec<SurveyPoint>) -> Result<Self> {
        let _grid = Schedule::new(points.iter().map(|point| point.beta))?;
        let figures = |point: &SurveyPoint| {
            let figures = [
                point.squared_steps,
                point.derivative_variance,
                point.unweighted_variance,
                point.var_log_weight,
                point.effective_sample_size,
            ];
            let beta = point.beta;
            figures.map(|figure| (beta, figure))
        };
        check_not_negative("survey", points.iter().flat_map(figures))?;
        Ok(Self { chains, points })
    }

    /// Returns the points, from `beta = 0` to 1.
    pub fn points(&self) -> &[SurveyPoint] {
        &self.points
    }

    /// Returns the number of pilot chains.
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// Returns the number of chains that never left the support.
    pub(super) fn living(&self) -> usize {
        let dead = self.points.iter().map(|point| point.dead).max();
        self.chains.saturating_sub(dead.unwrap_or(0))
    }

    /// Returns `g(beta)`, the metric of VAROPT.
    ///
    /// # Errors
    /// [`Error::PilotCollapsed`] if an effective sample size is below 1.1, since the variance then rests on one chain.
    pub fn metric(&self) -> Result<ScheduleMetric> {
        let collapsed = |point: &&SurveyPoint| point.effective_sample_size < COLLAPSED;
        if let Some(point) = self.lowest_ess().filter(collapsed) {
            return Err(Error::PilotCollapsed {
                effective_sample_size: point.effective_sample_size,
                chains: self.chains,
                beta: point.beta,
            });
        }
        let betas = self.points.iter().map(|point| point.beta);
        let variances = self.points.iter().map(|point| point.derivative_variance);
        ScheduleMetric::new(betas.collect(), variances.collect())
    }

    /// Returns reasons to doubt a schedule chosen by this survey: weights near collapse, fewer than 10 chains or 20
    /// stages, dead chains, a point where nothing varies or nothing is accepted, and a stage that adds most of the
    /// variance of log w.
    pub fn warnings(&self) -> Vec<Warning> {
        let near_collapse = self
            .lowest_ess()
            .and_then(|point| near_collapse(point.effective_sample_size, self.chains, point.beta));
        let others = self.warnings_of(|point| point.derivative_variance);
        near_collapse.into_iter().chain(others).collect()
    }

    pub(crate) fn unweighted_warnings(&self) -> Vec<Warning> {
        self.warnings_of(|point| point.unweighted_variance)
    }

    fn warnings_of(&self, variance: impl Fn(&SurveyPoint) -> f64) -> Vec<Warning> {
        let points = &self.points;
        let constant = points.iter().find(|point| variance(point) == 0.0);
        let constant = constant.map(|point| Warning::PilotNothingVaries {
            stage: point.stage,
            beta: point.beta,
        });
        let (chains, dead) = (self.chains, self.chains - self.living());
        let steps = points.last().map_or(0, |point| point.stage);
        let warnings = [
            few_chains(self.living()),
            (steps < FEW_STEPS).then_some(Warning::PilotFewSteps { steps }),
            (dead > 0).then(|| in_pilot(Warning::DeadChains { dead, chains })),
            constant,
            self.concentrated(),
            self.stuck(),
        ];
        warnings.into_iter().flatten().collect()
    }

    /// Returns a warning if one interval between points adds over half of the variance of log w, unless all intervals
    /// together add little.
    fn concentrated(&self) -> Option<Warning> {
        let growth = |pair: &[SurveyPoint]| pair[1].var_log_weight - pair[0].var_log_weight;
        let added = |pair: &[SurveyPoint]| growth(pair).max(0.0);
        let total: f64 = self.points.windows(2).map(added).sum();
        let most = (self.points.windows(2)).max_by(|a, b| growth(a).total_cmp(&growth(b)))?;
        let share = added(most) / total;
        let (stage, beta) = (most[1].stage, most[1].beta);
        (self.points.len() > 10 && total > 0.5 && share > 0.5)
            .then(|| in_pilot(Warning::ConcentratedVariance { stage, beta, share }))
    }

    /// Returns the warning of the first point with an acceptance below 1e-3.
    fn stuck(&self) -> Option<Warning> {
        let refuses = |point: &&SurveyPoint| point.acceptance.is_some_and(|rate| rate < 1e-3);
        let point = self.points.iter().find(refuses)?;
        let (stage, beta) = (point.stage, point.beta);
        Some(in_pilot(Warning::ZeroAcceptance { stage, beta }))
    }

    fn lowest_ess(&self) -> Option<&SurveyPoint> {
        let ess = |point: &&SurveyPoint| point.effective_sample_size;
        self.points.iter().min_by(|a, b| ess(a).total_cmp(&ess(b)))
    }
}

/// Effective sample size below which a weighted variance rests on one chain.
const COLLAPSED: f64 = 1.1;

crate::num::deserialize_checked! {
    Survey { chains: usize, points: Vec<SurveyPoint> } => Self::new(chains, points)
}

/// Effective sample size below which a weighted variance is a rough guess.
const DOUBTFUL: f64 = 5.0;
/// Number of chains below which a variance has an error of half its size.
const FEW_CHAINS: usize = 10;
/// Number of stages below which a pilot leaps over most of the path.
const FEW_STEPS: usize = 20;

/// Returns a warning if the effective sample size is low. The threshold is lower for few chains.
fn near_collapse(ess: f64, chains: usize, beta: f64) -> Option<Warning> {
    let low = ess < DOUBTFUL.min(0.5 * chains as f64);
    low.then_some(Warning::PilotNearCollapse { ess, chains, beta })
}

fn in_pilot(warning: Warning) -> Warning {
    Warning::InPilot(Box::new(warning))
}

pub(crate) fn few_chains(chains: usize) -> Option<Warning> {
    (chains < FEW_CHAINS).then_some(Warning::PilotFewChains { chains })
}

/// Default number of bins over which a [`Friction`](super::Friction) estimates `1 + 2 tau`.
pub(super) const BINS: usize = 8;
/// Default of the least friction, as a fraction of its mean.
pub(super) const FLOOR: f64 = 1e-3;

impl Survey {
    /// Returns the [friction](super::Friction) zeta along the path.
    pub(super) fn friction(&self, bins: usize, floor: f64) -> Result<ScheduleMetric> {
        Error::check_at_least("bins", bins, 1)?;
        let points = self.points();
        let stages = points.len() - 1;
        let bins = bins.min(stages / 4).max(1);
        let highest = running_maximum(points);
        let mut zeta = Vec::with_capacity(points.len());
        for bin in 0..bins {
            let (a, b) = (bin * stages / bins, (bin + 1) * stages / bins);
            let factor = slowing(&points[a + 1..=b], highest[b] - highest[a]);
            let of_point = |point: &SurveyPoint| factor * point.unweighted_variance;
            // The base's point belongs to the first bin, but no stage ends there.
            let first = if bin == 0 { 0 } else { a + 1 };
            zeta.extend(points[first..=b].iter().map(of_point));
        }
        let betas = points.iter().map(|point| point.beta).collect();
        let width = (WINDOW * points.len() as f64).round() as usize;
        ScheduleMetric::new(betas, zeta)?
            .smoothed(width)
            .floored(floor)
    }
}

/// Share of the survey's points over which zeta is averaged.
const WINDOW: f64 = 0.01;

/// Returns `1 + 2 tau` over a bin: the growth of the variance of log w, divided by the growth for independent stages;
/// at least 1.
fn slowing(bin: &[SurveyPoint], growth: f64) -> f64 {
    let independent: f64 = bin
        .iter()
        .map(|point| point.squared_steps * point.unweighted_variance)
        .sum();
    if independent > 0.0 {
        (growth / independent).max(1.0)
    } else {
        1.0
    }
}

/// Returns the running maximum of the variance of log w, so that no decrease counts as growth.
fn running_maximum(points: &[SurveyPoint]) -> Vec<f64> {
    let mut highest = 0.0;
    let rise = |point: &SurveyPoint| {
        highest = f64::max(highest, point.var_log_weight);
        highest
    };
    points.iter().map(rise).collect()
}
