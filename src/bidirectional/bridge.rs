//! Forward and reverse runs of one path, joined.

use std::fmt;

use super::bdmc::Bounds;
use super::reverse::ReverseRun;
use super::target_samples::{Exact, IsExact, Quality};
use crate::ais::Run;
use crate::ais::StageSummary;
use crate::estimate::{BennettEstimate, Estimate, Warning, log_z_by_methods, write_headline};
use crate::{Error, Result};

/// The two directions of one path together: Bennett's estimate of log Z, and the sandwich of bounds
/// around it (bidirectional Monte Carlo).
///
/// A forward run misses what no chain found, and cannot know it. A reverse run from samples of the target
/// starts there. Where the two disagree, [`warnings`](Self::warnings) says so.
///
/// From [exact](Exact) samples the expectations stand in the order
///
/// ```text
/// lower_bound <= tight_lower_bound <= log Z <= tight_upper_bound <= upper_bound
/// ```
///
/// (in a single run those that lie close may cross, by their errors), and the gap between the outer two is the sum over stages of what the chains lag behind their model.
/// From approximate samples there is no upper bound, and this type has none. Then a gap is evidence of
/// trouble and its absence proves nothing: samples of one mode only agree with chains that found only
/// that mode. So the joint estimate is never more certain than the forward run: its standard error is at least as large,
/// and its interval holds that of the forward run.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::bidirectional::{Bridge, TargetSamples};
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
/// assert!(bridge.lower_bound() < bridge.log_z() && bridge.log_z() < bridge.upper_bound());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Sources: Bennett (1976); Grosse, Ghahramani and Adams (2015).
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Bridge<Q = Exact> {
    bennett: BennettEstimate,
    standard_error: f64,
    interval: (f64, f64),
    /// The forward run's estimate, which the joint one is no surer than where samples are approximate.
    forward: Option<Estimate>,
    bounds: Bounds,
    stages: Vec<BridgeStage>,
    warnings: Vec<Warning>,
    evaluations: u64,
    seconds: f64,
    #[cfg_attr(feature = "serde", serde(skip))]
    quality: std::marker::PhantomData<Q>,
}

/// How far the two directions agree between one recorded stage and the next.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BridgeStage {
    /// Index k of the recorded stage, as in the forward run.
    pub stage: usize,
    /// `beta_k`.
    pub beta: f64,
    /// What the stages since the one recorded before add to the gap: the reverse chains' mean increment,
    /// read forward, minus the forward chains'. The gaps of all stages add up to
    /// `upper_bound - lower_bound` where every chain is alive.
    pub gap: f64,
    /// The overlap of the two directions' increments: the Bhattacharyya coefficient of normal laws with
    /// their means and variances, 1 where these are equal.
    pub overlap: f64,
}

impl<Q: Quality> Bridge<Q> {
    /// Joins a forward run and a reverse run of the same path, kernel, schedule and windows of recorded
    /// stages. Their numbers of chains may differ.
    ///
    /// # Errors
    /// A forward run that is [resampled](crate::ais::Ais::resampling) or
    /// [waste-free](crate::ais::Ais::waste_free): Crooks' relation, on which Bennett's estimate rests, is one of
    /// weights of whole paths. Another schedule, base normaliser or number of recorded stages in the two runs; another
    /// path or kernel, as far as [a few chains](crate::ais::Ais::run) show it; fewer than two chains in either.
    pub fn new<S, R, T, U>(forward: &Run<S, R>, reverse: &ReverseRun<T, Q, U>) -> Result<Self> {
        let expected = "chains that pass alone, by a run without `resampling` and `waste_free`: Bennett's estimate \
                        takes the weights of whole paths, and those of chains that share their weights are none";
        forward.settings().check_alone("forward run", expected)?;
        let backward = reverse.backward();
        let log_z_0 = reverse.log_base_normalizer();
        let expected = "the same in both directions";
        for (same, what) in [
            (
                forward.schedule() == backward.schedule(),
                "another schedule",
            ),
            (
                forward.log_base_normalizer() == log_z_0,
                "another base normaliser",
            ),
            (
                forward.stages().len() == backward.stages().len(),
                "another number of recorded stages",
            ),
        ] {
            Error::check(same, "reverse run", what, expected)?;
        }
        let probes = forward.probe().zip(backward.probe());
        // Engines round differently, and chains part by it.
        let probes = probes.filter(|_| forward.simd_level() == backward.simd_level());
        if let Some((part, found)) = probes.and_then(|(one, other)| one.difference(other)) {
            let found = format!("a {part} {found}");
            return Err(Error::invalid("reverse run", found, expected));
        }
        let bennett =
            BennettEstimate::from_log_weights(forward.log_weights(), backward.log_weights())?;
        let bennett = bennett.shifted(log_z_0);
        let surest = (!Q::IS_EXACT).then(|| forward.log_z_estimate());
        let mut standard_error = bennett.standard_error();
        if let Some(forward) = &surest {
            standard_error = standard_error.max(forward.standard_error());
        }
        let mut bridge = Self {
            interval: joint_interval(&bennett, surest.as_ref(), 0.95)?,
            bennett,
            standard_error,
            forward: surest,
            bounds: Bounds {
                lower: forward.lower_bound(),
                tight_lower: forward.log_z(),
                tight_upper: reverse.log_z(),
                upper: reverse.mean_bound(),
            },
            stages: compare(forward.stages(), backward.stages()),
            warnings: Vec::new(),
            evaluations: forward.evaluations().saturating_add(backward.evaluations()),
            seconds: forward.seconds() + backward.seconds(),
            quality: std::marker::PhantomData,
        };
        bridge.warnings.extend(disagreement(forward, reverse)?);
        bridge.warnings.extend(bridge.little_overlap());
        let rounding_error = forward.rounding_error().max(backward.rounding_error());
        let rounding = Warning::rounding(rounding_error, standard_error);
        bridge.warnings.extend(rounding);
        let of_forward = forward.warnings().iter();
        let of_forward = of_forward.filter(|warning| !Q::IS_EXACT || concerns_both(warning));
        let of_backward = backward.warnings().iter();
        for warning in of_forward.chain(of_backward.filter(|warning| concerns_both(warning))) {
            if !bridge.warnings.contains(warning) {
                bridge.warnings.push(warning.clone());
            }
        }
        Ok(bridge)
    }
}

impl<Q> Bridge<Q> {
    /// Bennett's estimate of `log Z_K`.
    pub fn log_z(&self) -> f64 {
        self.bennett.value()
    }

    /// Standard error of [`log_z`](Self::log_z): Bennett's. From approximate samples it is that of the forward run where
    /// this is larger.
    pub fn standard_error(&self) -> f64 {
        self.standard_error
    }

    /// The 95% confidence interval of `log Z_K`, lower and upper bound: Bennett's. From approximate samples it reaches as
    /// far as that of the forward run on either side.
    pub fn interval(&self) -> (f64, f64) {
        self.interval
    }

    /// Returns the confidence interval of `log Z_K` at another level in (0, 1), made as [`interval`](Self::interval) is.
    ///
    /// # Errors
    /// A level outside (0, 1).
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        joint_interval(&self.bennett, self.forward.as_ref(), level)
    }

    /// Bennett's estimate with its error and its interval at any level, which hold as far as the samples are of the
    /// target, and the overlap of the two directions as a whole. The overlap says how well the chains of both directions
    /// determine the estimate, not whether these agree.
    pub fn estimate(&self) -> &BennettEstimate {
        &self.bennett
    }

    /// `log Z_0 + mean log w` of the forward run, in expectation a lower bound on `log Z_K`; `-inf` where
    /// a chain has weight zero.
    pub fn lower_bound(&self) -> f64 {
        self.bounds.lower
    }

    /// The forward run's estimate of log Z, in expectation a lower bound above
    /// [`lower_bound`](Self::lower_bound).
    pub fn tight_lower_bound(&self) -> f64 {
        self.bounds.tight_lower
    }

    /// `None`: Bennett's estimate is the root of an equation and not unbiased for Z. The forward run has a
    /// [bound](Run::certified_lower_bound).
    ///
    /// # Errors
    /// A confidence outside (0, 1).
    pub fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        Error::check_inner_fraction("confidence", confidence).map(|()| None)
    }

    /// The reverse run's estimate minus the forward run's, in nats.
    pub fn gap(&self) -> f64 {
        self.bounds.tight_upper - self.bounds.tight_lower
    }

    /// The two directions compared stage by stage, at the stages that both recorded.
    pub fn stages(&self) -> &[BridgeStage] {
        &self.stages
    }

    /// Reasons to doubt the result; empty where there are none. Warnings of a single direction that
    /// concern the joint estimate are among them ([`FewChains`](Warning::FewChains),
    /// [`MissingMass`](Warning::MissingMass) and [`BaseMissesTarget`](Warning::BaseMissesTarget)). Uneven weights of one direction are not: the joint interval takes
    /// account of them. From approximate samples all warnings of the forward run are, since its interval is in the joint
    /// one.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of evaluations of the density in both runs.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Returns the wall time of both runs in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    fn little_overlap(&self) -> Option<Warning> {
        let ess = self.bennett.effective_sample_size();
        let overlap = self.bennett.overlap();
        (ess < 10.0).then_some(Warning::LittleOverlap { overlap, ess })
    }
}

impl<Q: IsExact> Bridge<Q> {
    /// `log Z_0 - mean log w` of the reverse run, in expectation an upper bound on `log Z_K`; `+inf` where
    /// a chain has weight zero.
    pub fn upper_bound(&self) -> f64 {
        self.bounds.upper
    }

    /// The reverse run's estimate of log Z, in expectation an upper bound below
    /// [`upper_bound`](Self::upper_bound).
    pub fn tight_upper_bound(&self) -> f64 {
        self.bounds.tight_upper
    }
}

/// Returns Bennett's interval, or where there is a forward run to be no surer than the smallest that holds both.
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

/// The warning where the 99.9% intervals of the two directions have no point in common.
fn disagreement<S, R, T, Q, U>(
    forward: &Run<S, R>,
    reverse: &ReverseRun<T, Q, U>,
) -> Result<Option<Warning>> {
    let (one, other) = (forward.interval_at(0.999)?, reverse.interval_at(0.999)?);
    // Weights without variance differ by rounding.
    let rounding = 1e-9 * (1.0 + forward.log_z().abs());
    let apart = one.1 + rounding < other.0 || other.1 + rounding < one.0;
    Ok(apart.then_some(Warning::ForwardReverseGap {
        forward: forward.log_z(),
        reverse: reverse.log_z(),
    }))
}

/// Both directions at the stages that the forward run recorded.
fn compare(forward: &[StageSummary], backward: &[StageSummary]) -> Vec<BridgeStage> {
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

/// The Bhattacharyya coefficient of two normal laws whose means are `gap` apart.
fn normal_overlap(gap: f64, one: f64, other: f64) -> f64 {
    let total = one + other;
    if total <= 0.0 {
        return if gap == 0.0 { 1.0 } else { 0.0 };
    }
    let widths = (2.0 * one.sqrt() * other.sqrt() / total).sqrt();
    widths * (-0.25 * gap * gap / total).exp()
}

/// One line, as `log Z = 208.631 +- 0.021 (both directions; 95% interval 208.590 to 208.672, overlap
/// 0.81)`, and a line for each warning.
impl<Q: Quality> fmt::Display for Bridge<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match Q::IS_EXACT {
            true => "both directions",
            false => "both directions, no surer than the forward one",
        };
        write_headline(
            f,
            self,
            kind,
            format_args!("overlap {:.2}", self.bennett.overlap()),
        )
    }
}

log_z_by_methods! { [Q: Quality] Bridge<Q> }
