//! Bidirectional Monte Carlo on simulated data: bounds on the error of log Z.

use std::fmt;

use super::target_samples::TargetSamples;
use crate::ais::{Ais, Recorder};
use crate::estimate::LogZ;
use crate::kernel::Reversal;
use crate::num::Moments;
use crate::path::AnnealingPath;
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::{Error, Result};

/// Bounds on log Z from a forward run, and from a reverse run whose chains all start at one exact sample of the target.
///
/// In expectation over data and chains, `lower <= tight_lower <= log Z <= tight_upper <= upper`. There is no standard
/// error, because the reverse chains share their start. Repeat with other data to get one ([`Bdmc`]).
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Bounds {
    /// `log Z_0 + mean log w` of the forward run.
    pub lower: f64,
    /// `log Z_0 + log mean w` of the forward run.
    pub tight_lower: f64,
    /// `log Z_0 - log mean w` of the reverse run.
    pub tight_upper: f64,
    /// `log Z_0 - mean log w` of the reverse run.
    pub upper: f64,
    /// Number of density evaluations of both runs.
    #[cfg_attr(feature = "serde", serde(default))]
    pub evaluations: u64,
}

impl Bounds {
    /// Returns `tight_upper - tight_lower`. Its expectation is at least 0.
    pub fn gap(&self) -> f64 {
        self.tight_upper - self.tight_lower
    }
}

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Send + Sync,
    P::State: Clone + Send + Sync,
    K: Sync,
    R: Recorder<P::At> + Send + Sync,
{
    /// Bounds log Z from both ends of the path, given one exact sample of the target. For a posterior given simulated
    /// data, the sample is the parameters that generated the data.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) and [`reverse`](Self::reverse).
    pub fn sandwich(&self, exact: &P::State) -> Result<Bounds>
    where
        K: Reversal<P::At>,
    {
        let forward = self.run()?;
        let samples = TargetSamples::exact(vec![exact.clone(); forward.chains()]);
        let reverse = self.reverse(&samples)?;
        Ok(Bounds {
            lower: forward.lower_bound(),
            tight_lower: forward.log_z(),
            tight_upper: reverse.log_z(),
            upper: reverse.mean_bound(),
            evaluations: forward.evaluations().saturating_add(reverse.evaluations()),
        })
    }
}

/// Bidirectional Monte Carlo (BDMC): bounds on log Z over several simulated data sets.
///
/// The parameters that generated simulated data are an exact sample of their posterior. A reverse run from it bounds
/// the expected error of a forward run on these data. The bound is evidence for real data of the same size, as far as
/// the model fits them.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::bidirectional::Bdmc;
/// use annealed::kernel::RandomWalkMetropolis;
/// use annealed::model::{FunctionModel, Gaussian, Sampleable};
/// use annealed::path::TemperedPath;
/// use annealed::rand::RngExt;
/// use annealed::schedule::Schedule;
/// use nalgebra::DVector;
///
/// // theta ~ N(0, 1), ten observations y ~ N(theta, 1).
/// let prior = Gaussian::standard(1)?;
/// let report = Bdmc::simulate(8, 7, |rng| {
///     let theta = prior.sample(rng);
///     let noise = Gaussian::standard(10)?.sample(rng);
///     let y = noise.add_scalar(theta[0]);
///     let log_likelihood =
///         move |theta: &DVector<f64>| -0.5 * y.add_scalar(-theta[0]).norm_squared();
///     let path = TemperedPath::new(prior.clone(), FunctionModel::new(log_likelihood));
///     Ais::new(&path, RandomWalkMetropolis::new(0.5)?)
///         .schedule(Schedule::power(200, 3.0)?)
///         .chains(100)
///         .seed(rng.random())
///         .sandwich(&theta)
/// })?;
/// let (gap, error) = report.gap();
/// assert!(gap < 0.05 + 3.0 * error);
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Sources: Grosse, Ghahramani and Adams (2015); Grosse, Ancha and Roy (2016).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias("BDMC", "bidirectional Monte Carlo"))]
pub struct Bdmc {
    sandwiches: Vec<Bounds>,
}

impl Bdmc {
    /// Calls `round` for each of `rounds` data sets, each time with another stream. `round` draws parameters and data,
    /// builds the path to the posterior, and returns the result of [`Ais::sandwich`].
    ///
    /// # Errors
    /// `rounds` of 0; errors of `round`.
    pub fn simulate(
        rounds: usize,
        seed: u64,
        round: impl FnMut(&mut StreamRng) -> Result<Bounds>,
    ) -> Result<Self> {
        Error::check_at_least("rounds", rounds, 1)?;
        let rngs = successive(stream(seed, Purpose::DATA, 0)).take(rounds);
        let mut rngs: Vec<StreamRng> = rngs.collect();
        let sandwiches: Result<_> = rngs.iter_mut().map(round).collect();
        Ok(Self {
            sandwiches: sandwiches?,
        })
    }

    /// Returns the bounds, one per round.
    pub fn sandwiches(&self) -> &[Bounds] {
        &self.sandwiches
    }

    /// Returns the mean gap between the tight bounds, in nats, and its standard error over the rounds (infinite for a
    /// single round). In expectation log Z lies within the gap.
    pub fn gap(&self) -> (f64, f64) {
        self.mean(Bounds::gap)
    }

    fn mean(&self, value: impl Fn(&Bounds) -> f64) -> (f64, f64) {
        let moments = Moments::from_iter(self.sandwiches.iter().map(value));
        (moments.mean(), moments.standard_error())
    }
}

/// Writes `gap 0.012 +- 0.003 nats over 20 simulated data sets (outer gap 0.210 +- 0.014, 4.0e6 evaluations)`.
impl fmt::Display for Bdmc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gap, error) = self.gap();
        let (outer, outer_error) = self.mean(|sandwich| sandwich.upper - sandwich.lower);
        let rounds = self.sandwiches.len();
        write!(
            f,
            "gap {gap:.3} +- {error:.3} nats over {rounds} simulated data sets "
        )?;
        let evaluations = self.sandwiches.iter().map(|bounds| bounds.evaluations);
        let evaluations = evaluations.fold(0, u64::saturating_add);
        write!(f, "(outer gap {outer:.3} +- {outer_error:.3}, ")?;
        write!(f, "{evaluations:.1e} evaluations)")
    }
}
