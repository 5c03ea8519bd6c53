//! Bounds on log Z from both ends of the path, given one exact sample of the target.

use super::reverse::ReverseRun;
use super::target_samples::TargetSamples;
use crate::Result;
use crate::ais::{Ais, Recorder, Run};
use crate::estimate::LogZ;
use crate::kernel::Reversal;
use crate::path::AnnealingPath;

/// Bounds on log Z from a forward run, and from a reverse run whose chains all start at one exact sample of the target.
///
/// In expectation over data and chains, `lower <= tight_lower <= log Z <= tight_upper <= upper`. There is no standard
/// error, because the reverse chains share their start. Repeat with other simulated data to get one. For latent-variable
/// models [`LogLikelihoods::run_simulated`](crate::many::LogLikelihoods::run_simulated) does so.
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
    pub(super) fn of<S, R, T, U>(forward: &Run<S, R>, reverse: &ReverseRun<T, U>) -> Self {
        Self {
            lower: forward.lower_bound(),
            tight_lower: forward.log_z(),
            tight_upper: reverse.log_z(),
            upper: reverse.mean_bound(),
            evaluations: forward.evaluations().saturating_add(reverse.evaluations()),
        }
    }

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
        Ok(Bounds::of(&forward, &self.reverse(&samples)?))
    }
}
