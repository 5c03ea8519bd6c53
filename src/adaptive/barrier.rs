//! Intensities, which measure what each stage adds to the variance of log weights, and schedules that equalise them.

use crate::ais::{Merge, Recorder, StageSummary};
use crate::kernel::{Block, Stage};
use crate::num::{WeightSums, cumulative};
use crate::path::Intermediate;
use crate::pilot::interpolate;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A recorder of the intensity of each recorded stage.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct BarrierRecorder {
    stages: Vec<Increments>,
}

/// Sums of `w_{k-1}`, `w_{k-1} u` and `w_{k-1} u^2` over the chains, with `u = w_k / w_{k-1}`.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Increments {
    before: WeightSums,
    after: WeightSums,
    squares: WeightSums,
}

impl Increments {
    fn merge(&mut self, right: &Self) {
        self.before.merge(&right.before);
        self.after.merge(&right.after);
        self.squares.merge(&right.squares);
    }

    /// Returns the intensity. Means over few chains make `E[u^2] / E[u]^2 - 1` too small, so this
    /// difference is divided by `1 - 1/ESS`.
    fn intensity(&self) -> f64 {
        let log_ratio = self.before.log_sum() + self.squares.log_sum() - 2.0 * self.after.log_sum();
        let freedom = 1.0 - 1.0 / self.before.effective_sample_size();
        // By the Cauchy-Schwarz inequality the log ratio is negative only by rounding.
        let excess = log_ratio.exp_m1().max(0.0) / freedom;
        // With one chain or none the variance is unknown.
        if excess.is_finite() {
            excess.ln_1p().sqrt()
        } else {
            0.0
        }
    }
}

impl<M: Intermediate> Recorder<M> for BarrierRecorder {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<M::State>) {
        let mut sums = Increments::default();
        for (&before, &after) in block.previous_log_weights().iter().zip(block.log_weights()) {
            // A dead chain adds nothing to the sums, but `2 * after - before` would be NaN.
            if before > f64::NEG_INFINITY {
                sums.before.add(before);
                sums.after.add(after);
                sums.squares.add(2.0 * after - before);
            }
        }
        self.stages.push(sums);
    }
}

impl Merge for BarrierRecorder {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.stages.iter_mut().zip(&right.stages) {
            mine.merge(theirs);
        }
    }
}

/// The barrier of a path with a kernel: the sum of the intensities up to each beta. At 1 it is the global barrier
/// Lambda. If the kernel keeps the chains in equilibrium, K stages of equal intensity give log w the variance
/// `Lambda^2 / K`.
///
/// The intensity of a stage is
///
/// `sqrt(log E[u^2] - 2 log E[u])`, `u = w_k / w_{k-1}`,
///
/// with means over the chains weighted by `w_{k-1}`. Its square is `-log(CESS / N)`, with the conditional effective
/// sample size CESS; for short stages it is the variance of the increment. [`FirstPass`](super::FirstPass) and
/// [`Rounds`](super::Rounds) measure the barrier.
///
/// Source: Syed, Bouchard-Cote, Chern and Doucet (2024).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Barrier {
    betas: Vec<f64>,
    cumulative: Vec<f64>,
}

/// Smallest intensity of a stage, as a share of the mean. In a new schedule with as many stages, one stage then
/// replaces at most 100 old ones, so that no stretch is leapt over because one run found it free.
const LEAST_INTENSITY: f64 = 0.01;

crate::num::deserialize_checked! {
    Barrier {
        betas: Vec<f64>,
        cumulative: Vec<f64>,
    } => Self::read(betas, cumulative)
}

impl Barrier {
    #[cfg(feature = "serde")]
    fn read(betas: Vec<f64>, cumulative: Vec<f64>) -> Result<Self> {
        Schedule::new(betas.clone()).map(drop)?;
        Error::check_dimension("values of the barrier", cumulative.len(), betas.len())?;
        Error::check_finite("values of the barrier", cumulative.iter().copied())?;
        Ok(Self { betas, cumulative })
    }

    /// Returns the barrier for a path about which nothing is known. Its schedules are linear.
    pub(super) fn unknown() -> Self {
        Self::new(vec![0.0, 1.0], [0.0])
    }

    pub(super) fn new(betas: Vec<f64>, intensities: impl IntoIterator<Item = f64>) -> Self {
        Self {
            betas,
            cumulative: cumulative(intensities),
        }
    }

    /// Creates the barrier from the stages and the recorder of a run. A recorded stage stands for all stages since the
    /// previous recorded one.
    pub(super) fn of(stages: &[StageSummary], recorder: &BarrierRecorder) -> Self {
        let (mut betas, mut last) = (vec![0.0], 0);
        let mut intensities = Vec::with_capacity(stages.len());
        for (stage, increments) in stages.iter().zip(&recorder.stages) {
            betas.push(stage.beta);
            intensities.push((stage.stage - last) as f64 * increments.intensity());
            last = stage.stage;
        }
        Self::new(betas, intensities)
    }

    /// Returns Lambda, the sum of all intensities.
    pub fn global(&self) -> f64 {
        self.cumulative[self.cumulative.len() - 1]
    }

    /// Returns pairs of a beta and the barrier up to it, from (0, 0) to (1, Lambda).
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let values = self.cumulative.iter().copied();
        self.betas.iter().copied().zip(values)
    }

    /// Returns the schedule with `stages` stages of equal intensity; a linear one if nothing changes along the path.
    ///
    /// # Errors
    /// `stages` of 0. [`Error::NotConverged`] if the target changes so fast that stages would differ by rounding alone.
    pub fn schedule(&self, stages: usize) -> Result<Schedule> {
        Error::check_count("stages", stages, 1)?;
        let recorded = (self.cumulative.len() - 1) as f64;
        let floor = LEAST_INTENSITY * self.global() / recorded;
        if floor == 0.0 {
            return Schedule::linear(stages);
        }
        let raised = |pair: &[f64]| (pair[1] - pair[0]).max(floor);
        let raised = self.cumulative.windows(2).map(raised);
        let raised = Self::new(self.betas.clone(), raised);
        interpolate(&raised.betas, &raised.cumulative, stages).map_err(|_| Error::NotConverged {
            what: "a schedule along the path",
            detail: format!(
                "the betas of {stages} stages of equal intensity would differ by rounding alone: the target may have no finite \
                 integral, or the base is too far from it"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DVector;

    use super::*;
    use crate::ais::Ais;
    use crate::kernel::PerfectTransitions;
    use crate::model::Gaussian;
    use crate::path::GaussianPath;

    #[test]
    fn the_barrier_of_a_shift_is_its_length() -> Result<()> {
        // Along N(3 beta, 1) the derivative of log f has the variance 9 at every beta.
        let shifted = Gaussian::isotropic(DVector::from_element(1, 3.0), 1.0)?;
        let path = GaussianPath::new(Gaussian::standard(1)?, shifted)?;
        for stages in [10, 100] {
            let run = Ais::new(&path, PerfectTransitions)
                .schedule(Schedule::power(stages, 2.0)?)
                .chains(2_000)
                .recorder(BarrierRecorder::default())
                .run()?;
            let barrier = Barrier::of(run.stages(), run.recorder());
            let lambda = barrier.global();
            assert!((lambda / 3.0 - 1.0).abs() < 0.03, "{lambda}");
            // Equal intensities: the linear schedule.
            for (k, beta) in barrier.schedule(7)?.betas().iter().enumerate() {
                assert!((beta - k as f64 / 7.0).abs() < 0.03, "{beta}");
            }
        }
        Ok(())
    }
}
