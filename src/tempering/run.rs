//! The result of a tempered run.

use std::fmt;

use nalgebra::DMatrix;

use super::round::FinishedRound;
use super::runner::TemperingSettings;
use crate::estimate::{
    Dependence, LogZ, LogZAt, Mbar, Warning, WeightedSample, WeightedStates, write_headline,
};
use crate::kernel::Decisions;
use crate::num::{cumulative, student_quantile};
use crate::path::{AnnealingPath, Ends, Intermediate};
use crate::schedule::Schedule;
use crate::work::StoppedBy;
use crate::{Error, Result};

/// The result of [`Tempering`](super::Tempering), from its last round: log Z, the barrier, and samples of the target.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct TemperingRun<S> {
    settings: TemperingSettings,
    stopped_by: StoppedBy,
    /// Betas of the last round.
    schedule: Schedule,
    /// `log Z_{j+1}/Z_j` for each pair of neighbouring betas.
    log_ratios: Vec<f64>,
    /// Standard error of log Z at each beta.
    standard_errors: Vec<f64>,
    rejections: Vec<f64>,
    round_trips: u64,
    /// Samples, one ladder after another, the same number for each.
    states: Vec<S>,
    /// Log densities at both ends of the path: by ladder, by sample, by beta, then by end.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    ends: Vec<f64>,
    /// Mean acceptance at each beta.
    acceptances: Vec<Option<f64>>,
    warnings: Vec<Warning>,
    evaluations: u64,
    seconds: f64,
}

/// Smallest number of ladders for a reliable standard error.
const FEW_LADDERS: usize = 4;
/// Smallest number of round trips per ladder for a reliable standard error. With one round trip a ladder,
/// the root mean square error is 1.5 to 2 standard errors.
const FEW_ROUND_TRIPS: u64 = 3;
/// Rejection rate of a pair above which the run warns.
const GAP: f64 = 0.9;

impl<S> TemperingRun<S> {
    pub(super) fn new(
        settings: TemperingSettings,
        last: FinishedRound<S>,
        stopped_by: StoppedBy,
        rounding: (f64, f64),
        (evaluations, seconds): (u64, f64),
    ) -> Result<Self> {
        let figures = last.figures();
        let log_ratios = figures.log_ratios(&last.placed.guesses);
        let mut ladders = last.result.ladders;
        let chains = ladders.len();
        if !log_ratios.iter().all(|ratio| ratio.is_finite()) {
            return Err(Error::AllWeightsZero { chains });
        }
        let dead = ladders.iter().filter(|ladder| ladder.astray).count();
        let mut run = Self {
            settings,
            stopped_by,
            schedule: last.placed.schedule,
            log_ratios,
            standard_errors: figures.standard_errors(&ladders),
            rejections: figures.rejections(),
            ends: (ladders.iter_mut())
                .flat_map(|ladder| std::mem::take(&mut ladder.ends))
                .collect(),
            round_trips: ladders.iter().map(|ladder| ladder.trips.round_trips).sum(),
            states: ladders
                .into_iter()
                .flat_map(|ladder| ladder.samples)
                .collect(),
            acceptances: last
                .result
                .decisions
                .iter()
                .map(Decisions::acceptance)
                .collect(),
            warnings: Vec::new(),
            evaluations,
            seconds,
        };
        let undecided = last.result.decisions.iter().map(|all| all.undecided > 0);
        let mut warnings = Vec::new();
        warnings.extend((dead > 0).then_some(Warning::DeadChains { dead, chains }));
        warnings.extend(run.find_warnings());
        warnings.extend(run.zero_acceptance(undecided));
        warnings.extend(run.rounding(rounding));
        run.warnings = warnings;
        Ok(run)
    }

    /// Warns if rounding errors are large beside the standard error. The difference of two log densities has a rounding
    /// error in proportion to the difference.
    fn rounding(&self, (of_path, epsilon): (f64, f64)) -> Option<Warning> {
        let sizes = self.log_ratios.iter().map(|ratio| ratio.abs());
        let rounding_error = of_path.max(0.5 * epsilon * sizes.sum::<f64>());
        Warning::rounding(rounding_error, self.standard_error())
    }

    fn find_warnings(&self) -> impl Iterator<Item = Warning> {
        let ladders = self.ladders();
        let few = (ladders < FEW_LADDERS).then_some(Warning::FewLadders { ladders });
        let gap = self.rejections.iter().copied().enumerate();
        let gap = gap
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|gap| gap.1 > GAP);
        let betas = self.schedule.betas();
        let gap = gap.map(|(j, rejection)| Warning::RejectedSwaps {
            lower: betas[j],
            upper: betas[j + 1],
            rejection,
        });
        let few_trips = self.round_trips < FEW_ROUND_TRIPS * ladders as u64;
        let trips = few_trips.then(|| Warning::FewRoundTrips {
            round_trips: self.round_trips,
            ladders,
            barrier: self.barrier(),
            betas: betas.len(),
        });
        few.into_iter().chain(gap).chain(trips)
    }

    fn zero_acceptance(&self, undecided: impl Iterator<Item = bool>) -> Option<Warning> {
        let betas = self.schedule.betas().iter().zip(undecided);
        let mut stages = betas.zip(&self.acceptances).enumerate();
        stages.find_map(|(stage, ((&beta, undecided), &acceptance))| {
            let stuck = !undecided && acceptance == Some(0.0);
            stuck.then_some(Warning::ZeroAcceptance { stage, beta })
        })
    }

    /// Returns the estimate of `log(Z_K / Z_0)`.
    pub fn log_z_ratio(&self) -> f64 {
        self.log_ratios.iter().sum()
    }

    /// Returns log Z at each beta of [`schedule`](Self::schedule), with errors and intervals as for the whole run. The
    /// estimates depend on each other.
    pub fn log_z_along(&self) -> Vec<LogZAt> {
        let betas = self.schedule.betas().iter().zip(&self.standard_errors);
        let ratios = cumulative(self.log_ratios.iter().copied());
        let at = |((&beta, &standard_error), ratio): ((&f64, &f64), f64)| {
            let log_z = ratio + self.settings.log_base_normalizer;
            let half = self.quantile(0.95) * standard_error;
            LogZAt {
                beta,
                log_z,
                standard_error,
                interval: (log_z - half, log_z + half),
            }
        };
        betas.zip(ratios).map(at).collect()
    }

    /// Returns [`Mbar`] of the states at all betas: state j is the model at beta j of [`schedule`](Self::schedule). `path`
    /// is the path of the run.
    ///
    /// A run along a path with [ends](Intermediate::HAS_ENDS), such as a [`GeometricPath`](crate::path::GeometricPath),
    /// keeps two log densities of the states at all betas whenever it keeps a [sample](Self::states). Set
    /// [`samples`](super::Tempering::samples) to keep more of them. `Mbar` has the overlap of the betas, and log Z at
    /// every beta:
    ///
    /// ```
    /// use annealed::prelude::*;
    ///
    /// // log Z at beta is -log(1 + 3 beta) / 2.
    /// let target = Gaussian::isotropic(DVector::zeros(1), 0.5)?;
    /// let path = GeometricPath::new(Gaussian::standard(1)?, target);
    /// let run = Tempering::new(&path, RandomWalkMetropolis::new(1.0)?).schedule(Schedule::linear(4)?).run()?;
    /// let mbar = run.mbar(&path)?;
    /// let at = mbar.weights_at(&run.log_densities_at(&path, 0.6)?)?;
    /// let log_z = at.log_z().clone().shifted(path.base().log_normalizer());
    /// println!("{log_z}");
    /// let exact = 0.5 * (std::f64::consts::TAU / 2.8).ln();
    /// assert!((log_z.log_z() - exact).abs() < 4.0 * log_z.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// Ladders are replicas: the states of all betas at near times depend on each other. The warnings of the run also
    /// concern this estimate.
    ///
    /// # Errors
    /// A path without ends; fewer than 20 samples; a state of density 0 at its own beta.
    pub fn mbar<P: AnnealingPath<State = S>>(&self, path: P) -> Result<Mbar> {
        let betas = self.schedule.betas();
        let columns = betas.iter().map(|beta| self.log_densities_at(&path, *beta));
        let columns = columns.collect::<Result<Vec<_>>>()?.concat();
        let draws = columns.len() / betas.len();
        let matrix = DMatrix::from_vec(draws, betas.len(), columns);
        let labels = (0..draws).map(|draw| draw % betas.len()).collect();
        let times = (0..draws).map(|draw| draw / betas.len()).collect();
        Mbar::from_labels(matrix, labels, Dependence::Replicas(times))
    }

    /// Returns the log densities at `beta` of the states of [`mbar`](Self::mbar), for
    /// [`Mbar::weights_at`].
    ///
    /// # Errors
    /// A beta outside of 0 to 1; a path without [ends](Intermediate::HAS_ENDS), whose run keeps no log densities.
    pub fn log_densities_at<P: AnnealingPath<State = S>>(
        &self,
        path: P,
        beta: f64,
    ) -> Result<Vec<f64>> {
        Error::check_fraction("beta", beta)?;
        let is_kept = <P::At as Intermediate>::HAS_ENDS && !self.ends.is_empty();
        let expected = "one with ends, which fix the log density at every beta";
        Error::check(is_kept, "path", "one without ends", expected)?;
        let (model, ends) = (path.at(beta), self.ends.as_chunks().0.iter());
        let density = |&[base, target]: &[f64; 2]| model.log_density_at(Ends { base, target });
        Ok(ends.map(density).collect())
    }

    /// Returns the quantile of Student's t for an interval at `level`, with one degree of freedom less than there are
    /// ladders.
    fn quantile(&self, level: f64) -> f64 {
        student_quantile(0.5 + 0.5 * level, (self.ladders() - 1) as f64)
    }

    /// Returns the rejection rate of each pair of neighbours: the mean of one minus the probability of a swap.
    pub fn rejections(&self) -> &[f64] {
        &self.rejections
    }

    /// Returns the global communication barrier Lambda: the sum of the rejection rates (Syed et al. 2022).
    ///
    /// If chains mix at their betas, it depends on the path alone. With few pairs K it is too small by an amount of
    /// order 1/K^2. About 2 Lambda betas serve best. A state returns to the base about every
    /// `2 + 2 sum_j r_j / (1 - r_j)` scans, with r_j the rejection rates.
    pub fn barrier(&self) -> f64 {
        self.rejections.iter().sum()
    }

    /// Returns the number of round trips of states from the base to the target and back, in all ladders. Many round
    /// trips do not prove that all modes were found.
    pub fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Returns the kernel's mean acceptance at each beta; `None` if it accepts or rejects no moves there, as at the
    /// base.
    pub fn acceptances(&self) -> &[Option<f64>] {
        &self.acceptances
    }

    /// Returns samples of the target, evenly spaced over the scans of each ladder, one ladder after another. Samples
    /// of one ladder depend on each other.
    pub fn states(&self) -> &[S] {
        &self.states
    }

    /// Returns the betas of the last round, from which a further run can start.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns the number of rounds.
    pub fn rounds(&self) -> usize {
        self.settings.rounds
    }

    /// Returns the reason for the end of the run; [`StoppedBy::Chains`] after all rounds asked for.
    pub fn stopped_by(&self) -> StoppedBy {
        self.stopped_by
    }

    /// Returns the number of independent ladders.
    pub fn ladders(&self) -> usize {
        self.settings.ladders
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    #[cfg(feature = "checkpoint")]
    pub(super) fn add_seconds(&mut self, seconds: f64) {
        self.seconds += seconds;
    }

    pub(super) fn warn(&mut self, warning: impl IntoIterator<Item = Warning>) {
        self.warnings.extend(warning);
    }
}

/// Writes one line, such as `log Z = 164.69 +- 0.02 (95% interval 164.64 to 164.74, barrier 4.1, 312 round trips, 4.9e6
/// evaluations)`, and a line for each warning.
impl<S> fmt::Display for TemperingRun<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (barrier, trips) = (self.barrier(), self.round_trips());
        let details = format_args!("barrier {barrier:.2}, {trips} round trips");
        write_headline(f, self, "", details)
    }
}

/// Samples of the target, all of the same weight. Errors treat the ladders as independent units.
impl<S> WeightedSample for TemperingRun<S> {
    type State = S;

    fn weighted_states(&self) -> WeightedStates<'_, S> {
        let (states, ladders) = (self.states.len(), self.ladders());
        WeightedStates {
            states: &self.states,
            log_weights: vec![0.0; states].into(),
            units: (0..states).map(|i| i * ladders / states).collect(),
        }
    }
}

/// A tempered run has no unbiased estimate of Z, and so no [certified bound](crate::estimate::certified_lower_bound).
impl<S> LogZ for TemperingRun<S> {
    /// Returns the estimate of `log Z_K`: `log(Z_K / Z_0)` plus the base's log normaliser.
    ///
    /// `log(Z_K / Z_0)` sums Bennett's (1976) estimates of `log(Z_{j+1} / Z_j)` over the pairs of neighbours.
    fn log_z(&self) -> f64 {
        self.log_z_ratio() + self.settings.log_base_normalizer
    }

    /// Returns the standard error of [`log_z`](Self::log_z), from differences between ladders. It does not include
    /// modes that no ladder found.
    fn standard_error(&self) -> f64 {
        self.standard_errors[self.standard_errors.len() - 1]
    }

    /// Returns the interval `log Z_K +- t SE`, with Student's t of one degree of freedom less than there are ladders.
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("level", level)?;
        let half = self.quantile(level) * self.standard_error();
        Ok((self.log_z() - half, self.log_z() + half))
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of evaluations of densities in all rounds: the kernel's, and one for each draw from the base.
    /// On a path without [ends](crate::path::Intermediate::HAS_ENDS) there are two more for each possible swap.
    fn evaluations(&self) -> u64 {
        self.evaluations
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }
}

crate::num::deserialize_checked! {
    TemperingRun<S> {
        settings: TemperingSettings,
        stopped_by: StoppedBy,
        schedule: Schedule,
        log_ratios: Vec<f64>,
        standard_errors: Vec<f64>,
        rejections: Vec<f64>,
        round_trips: u64,
        states: Vec<S>,
        ends: Vec<f64>,
        acceptances: Vec<Option<f64>>,
        warnings: Vec<Warning>,
        evaluations: u64,
        seconds: f64,
    } => self.checked()
}

#[cfg(feature = "serde")]
impl<S> TemperingRun<S> {
    /// Refuses a run whose parts contradict each other.
    fn checked(self) -> Result<Self> {
        let settings = &self.settings;
        settings.check()?;
        let pairs = settings.schedule.stages();
        Error::check_dimension("betas", self.schedule.stages(), pairs)?;
        Error::check_dimension("log ratios", self.log_ratios.len(), pairs)?;
        Error::check_dimension("rejections", self.rejections.len(), pairs)?;
        Error::check_dimension("acceptances", self.acceptances.len(), pairs + 1)?;
        Error::check_dimension("states", self.states.len(), settings.states())?;
        if !self.ends.is_empty() {
            let ends = 2 * (pairs + 1) * self.states.len();
            Error::check_dimension("log densities", self.ends.len(), ends)?;
        }
        Error::check_finite("log ratios", self.log_ratios.iter().copied())?;
        let errors = &self.standard_errors;
        Error::check_dimension("standard errors", errors.len(), pairs + 1)?;
        let indexed = errors.iter().copied().enumerate();
        let (at_least, expected) = (|error| error >= 0.0, "numbers of at least 0");
        Error::check_each("standard errors", "beta", indexed, at_least, expected)?;
        Ok(self)
    }
}
