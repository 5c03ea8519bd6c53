//! Forward and reverse runs of one path, joined into one result.

use std::fmt;

use super::bounds::Bounds;
use super::reverse::ReverseRun;
use crate::ais::{Run, StageSummary};
use crate::estimate::{
    BennettEstimate, Estimate, LogZ, Warning, decimals, distinct, write_headline,
};
use crate::{Error, Result};

/// A forward and a reverse run of one path, joined: Bennett's estimate of log Z, and bounds around it (bidirectional
/// Monte Carlo). [`warnings`](Self::warnings) shows where the two runs disagree.
///
/// From exact samples, in expectation
///
/// ```text
/// lower_bound <= tight_lower_bound <= log Z <= tight_upper_bound <= upper_bound
/// ```
///
/// In a single run, close bounds may cross by chance. The outer gap is the dissipated work, summed over stages.
///
/// From approximate samples there is no upper bound. A gap then shows that something is wrong, but the absence of a gap
/// proves nothing. The joint standard error is at least the forward run's, and the joint interval contains the forward
/// run's.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::bidirectional::{Bridge, TargetSamples};
/// use annealed::estimate::LogZ;
/// use annealed::kernel::RandomWalkMetropolis;
/// use annealed::model::{Gaussian, NormalizedModel};
/// use annealed::path::GeometricPath;
/// use annealed::schedule::Schedule;
/// use nalgebra::dvector;
///
/// let target = Gaussian::isotropic(dvector![3.0, 0.0], 0.1)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let samples = TargetSamples::draw(&target, 200, 7);
///
/// let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5)?)
///     .schedule(Schedule::linear(50)?)
///     .chains(200)
///     .seed(7);
/// let bridge = Bridge::new(&ais.run()?, &ais.reverse(&samples)?)?;
/// assert!((bridge.log_z() - target.log_normalizer()).abs() < 4.0 * bridge.standard_error());
/// assert!(bridge.lower_bound() < bridge.log_z());
/// assert!(bridge.upper_bound().is_some_and(|bound| bridge.log_z() < bound));
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Sources: Bennett (1976); Grosse, Ghahramani and Adams (2015).
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
#[doc(alias("free energy", "BAR", "Bennett acceptance ratio", "Crooks"))]
pub struct Bridge {
    bennett: BennettEstimate,
    standard_error: f64,
    interval: (f64, f64),
    /// Estimate of the forward run, kept if the samples are approximate.
    forward: Option<Estimate>,
    bounds: Bounds,
    stages: Vec<BridgeStage>,
    warnings: Vec<Warning>,
    evaluations: u64,
    seconds: f64,
    /// `log Z_0 + log w` of the forward chains and `log Z_0 - log w` of the reverse chains.
    log_z_by_chain: [Vec<f64>; 2],
}

/// Agreement of the two directions between one recorded stage and the next.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BridgeStage {
    /// Schedule index k of the recorded stage, as in the forward run.
    pub stage: usize,
    /// `beta_k`.
    pub beta: f64,
    /// Mean increment of the reverse chains with its sign changed, minus the mean increment of the forward chains,
    /// since the previous recorded stage. The gaps sum to `upper_bound - lower_bound` if every chain is alive.
    pub gap: f64,
    /// Overlap of the increments of both directions: the Bhattacharyya coefficient of normal densities with the
    /// increments' means and variances. It is 1 if the means and the variances agree.
    pub overlap: f64,
}

impl Bridge {
    /// Joins a forward and a reverse run of the same path, kernel, schedule and recorded stages.
    ///
    /// # Errors
    /// A forward run that is [resampled](crate::ais::Ais::resampling) or [waste-free](crate::ais::Ais::waste_free),
    /// because Bennett's estimate needs weights of whole paths; runs with different schedules, base normalisers or
    /// numbers of recorded stages; runs with different paths or kernels, as far as [a few chains](crate::ais::Ais::run)
    /// detect it; fewer than two chains in one run.
    pub fn new<S, R, T, U>(forward: &Run<S, R>, reverse: &ReverseRun<T, U>) -> Result<Self> {
        check_pair(forward, reverse)?;
        let (backward, log_z_0) = (reverse.backward(), reverse.log_base_normalizer());
        let bennett =
            BennettEstimate::of_independent(forward.log_weights(), backward.log_weights())?;
        let bennett = bennett.shifted(log_z_0);
        let surest = (!reverse.is_exact()).then(|| forward.log_z_estimate());
        let mut standard_error = bennett.standard_error();
        if let Some(forward) = &surest {
            standard_error = standard_error.max(forward.standard_error());
        }
        let bounds = Bounds::of(forward, reverse);
        let bridge = Self {
            interval: joint_interval(&bennett, surest.as_ref(), 0.95)?,
            bennett,
            standard_error,
            forward: surest,
            bounds,
            stages: compare(forward.stages(), backward.stages()),
            warnings: Vec::new(),
            evaluations: bounds.evaluations,
            seconds: forward.seconds() + backward.seconds(),
            log_z_by_chain: [
                forward.log_weights().iter().map(|w| log_z_0 + w).collect(),
                backward.log_weights().iter().map(|w| log_z_0 - w).collect(),
            ],
        };
        let warnings = bridge.find_warnings(forward, reverse);
        Ok(Self { warnings, ..bridge })
    }

    fn find_warnings<S, R, T, U>(
        &self,
        forward: &Run<S, R>,
        reverse: &ReverseRun<T, U>,
    ) -> Vec<Warning> {
        let backward = reverse.backward();
        let rounding_error = forward.rounding_error().max(backward.rounding_error());
        let mut own = self.bennett.warnings_beyond(rounding_error);
        own.extend(Warning::rounding(rounding_error, self.standard_error));
        // Bennett's estimate takes no mean of weights, so most warnings about the weights do not concern it.
        let of_forward = forward.warnings().iter();
        let of_forward = of_forward.filter(|warning| !reverse.is_exact() || concerns_both(warning));
        let of_backward = backward.warnings().iter();
        let of_backward = of_backward.filter(|warning| concerns_both(warning));
        distinct(own.iter().chain(of_forward).chain(of_backward))
    }
}

/// Refuses a forward and a reverse run that do not belong together.
fn check_pair<S, R, T, U>(forward: &Run<S, R>, reverse: &ReverseRun<T, U>) -> Result<()> {
    let expected = "independent chains, by a run without `resampling` and `waste_free`: Bennett's estimate needs \
                    weights of whole paths, and chains that share their weights have none";
    forward.settings().check_alone("forward run", expected)?;
    let backward = reverse.backward();
    let schedules = forward.schedule() == backward.schedule();
    let bases = forward.log_base_normalizer() == reverse.log_base_normalizer();
    let stages = forward.stages().len() == backward.stages().len();
    let expected = "the same in both directions";
    for (same, what) in [
        (schedules, "another schedule"),
        (bases, "another base normaliser"),
        (stages, "another number of recorded stages"),
    ] {
        Error::check(same, "reverse run", what, expected)?;
    }
    let probes = forward.probe().zip(backward.probe());
    // Instruction sets round differently, so that their chains diverge.
    let probes = probes.filter(|_| forward.simd_level() == backward.simd_level());
    match probes.and_then(|(one, other)| one.difference(other)) {
        None => Ok(()),
        Some((part, found)) => {
            let found = format!("{part} {found}");
            Err(Error::invalid("reverse run", found, expected))
        }
    }
}

impl Bridge {
    /// Returns Bennett's estimate with its error, intervals and overall overlap, which assume samples of the target.
    /// The overlap measures how well the chains determine the estimate, not whether the directions agree.
    pub fn estimate(&self) -> &BennettEstimate {
        &self.bennett
    }

    /// Returns `log Z_0 + mean log w` of the forward run. Its expectation is a lower bound on `log Z_K`. It is `-inf`
    /// if a chain has weight zero.
    pub fn lower_bound(&self) -> f64 {
        self.bounds.lower
    }

    /// Returns the forward run's log Z. Its expectation is a lower bound, above [`lower_bound`](Self::lower_bound).
    pub fn tight_lower_bound(&self) -> f64 {
        self.bounds.tight_lower
    }

    /// Returns the reverse run's estimate minus the forward run's, in nats.
    pub fn gap(&self) -> f64 {
        self.bounds.gap()
    }

    /// Returns the comparison of the two directions at each recorded stage.
    pub fn stages(&self) -> &[BridgeStage] {
        &self.stages
    }

    /// Returns log Z by each single chain: `log Z_0 + log w` of the forward chains, and `log Z_0 - log w` of the
    /// reverse chains.
    pub fn log_z_by_chain(&self) -> &[Vec<f64>; 2] {
        &self.log_z_by_chain
    }

    /// Returns `log Z_0 - mean log w` of the reverse run; `None` if the samples are approximate. Its expectation is an
    /// upper bound on `log Z_K`. It is `+inf` if a chain has weight zero.
    pub fn upper_bound(&self) -> Option<f64> {
        self.is_exact().then_some(self.bounds.upper)
    }

    /// Returns the reverse run's log Z; `None` if the samples are approximate. Its expectation is an upper bound, below
    /// [`upper_bound`](Self::upper_bound).
    pub fn tight_upper_bound(&self) -> Option<f64> {
        self.is_exact().then_some(self.bounds.tight_upper)
    }

    fn is_exact(&self) -> bool {
        self.forward.is_none()
    }
}

/// Returns Bennett's interval. If `forward` is given, the interval is widened to contain the forward interval.
fn joint_interval(
    bennett: &BennettEstimate,
    forward: Option<&Estimate>,
    level: f64,
) -> Result<(f64, f64)> {
    let (lower, upper) = bennett.interval_at(level)?;
    let of_forward = forward
        .map(|forward| forward.interval_at(level))
        .transpose()?;
    let (least, greatest) = of_forward.unwrap_or((lower, upper));
    Ok((lower.min(least), upper.max(greatest)))
}

fn concerns_both(warning: &Warning) -> bool {
    matches!(
        warning,
        Warning::FewChains { .. } | Warning::MissingMass { .. } | Warning::BaseMissesTarget { .. }
    )
}

fn compare(forward: &[StageSummary], backward: &[StageSummary]) -> Vec<BridgeStage> {
    // The windows of recorded stages have the same boundaries in both directions.
    let pairs = forward.iter().zip(backward.iter().rev());
    let stage = |(up, down): (&StageSummary, &StageSummary)| {
        let gap = -down.mean_increment - up.mean_increment;
        BridgeStage {
            stage: up.stage,
            beta: up.beta,
            gap,
            overlap: normal_overlap(gap, up.var_increment, down.var_increment),
        }
    };
    pairs.map(stage).collect()
}

/// Returns the Bhattacharyya coefficient of normal densities with variances `one` and `other` and means `gap` apart.
fn normal_overlap(gap: f64, one: f64, other: f64) -> f64 {
    let total = one + other;
    if total <= 0.0 {
        return if gap == 0.0 { 1.0 } else { 0.0 };
    }
    // Two roots, because the product of the variances may overflow or underflow.
    let widths = (2.0 * one.sqrt() * other.sqrt() / total).sqrt();
    widths * (-0.25 * gap * gap / total).exp()
}

/// Writes `log Z = 208.631 +- 0.021 (both directions; 95% interval ..., overlap 0.81, ...)` and any warnings. From
/// approximate samples, Bennett's own error is printed beside the interval.
impl fmt::Display for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overlap = self.bennett.overlap();
        if self.is_exact() {
            let overlap = format_args!("overlap {overlap:.2}");
            return write_headline(f, self, "both directions", overlap);
        }
        let own = self.bennett.standard_error();
        let digits = decimals(own);
        let kind = "both directions from approximate samples, no surer than the forward one";
        let details = format_args!(
            "+- {own:.digits$} if the samples are of the target, overlap {overlap:.2}"
        );
        write_headline(f, self, kind, details)
    }
}

/// No lower bound is certified, because Bennett's estimate of Z is biased. The forward run has a certified bound.
impl LogZ for Bridge {
    /// Returns Bennett's estimate of `log Z_K`.
    fn log_z(&self) -> f64 {
        self.bennett.value()
    }

    /// Returns the standard error of [`log_z`](Self::log_z). From approximate samples it is at least the forward run's.
    fn standard_error(&self) -> f64 {
        self.standard_error
    }

    /// Returns the 95% confidence interval of `log Z_K` as (lower, upper). From approximate samples it contains the
    /// forward run's interval.
    fn interval(&self) -> (f64, f64) {
        self.interval
    }

    /// Returns the confidence interval of `log Z_K` at `level`, computed as [`interval`](Self::interval).
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        joint_interval(&self.bennett, self.forward.as_ref(), level)
    }

    /// Returns the reasons to doubt the result; empty if there are none. They include
    /// [`FewChains`](Warning::FewChains), [`MissingMass`](Warning::MissingMass) and
    /// [`BaseMissesTarget`](Warning::BaseMissesTarget) of either run. From approximate samples they include all
    /// warnings of the forward run.
    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of density evaluations in both runs.
    fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Returns the wall time of both runs in seconds.
    fn seconds(&self) -> f64 {
        self.seconds
    }

    // An interval that contains the forward run's interval is off-centre even if no weights are skewed.
    fn is_skewed(&self) -> bool {
        let forward = self.forward.as_ref();
        self.bennett.is_skewed() || forward.is_some_and(Estimate::is_skewed)
    }
}
