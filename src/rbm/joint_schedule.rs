//! Binned schedules by the costs of visible and hidden units together.

use crate::kernel::TransitionKernel;
use crate::path::dimension;
use crate::pilot::{BinnedSchedule, KnotChains, OptimizedSchedule, ScheduleOptimizer};
use crate::rbm::{RbmAt, RbmPath, Scalar};
use crate::work::Execution;
use crate::{Error, Result};

/// The [`BinnedSchedule`] of Grosse, Maddison and Salakhutdinov (2013) by the costs of their Equation 20,
/// `F_j = 1/2 (theta_{j+1} - theta_j) . (s_{j+1} - s_j)`, with the parameters `theta_j` of the RBM at knot j and its
/// moments `s_j` of visible and hidden units together. On a straight path this is
/// `1/2 (beta_{j+1} - beta_j) (E_{j+1} - E_j)[d/dbeta log f(v)]`, where chains at knot j estimate the mean `E_j`.
///
/// `BinnedSchedule` itself uses the costs of the visible units alone, on which the log weights of a run depend. Visible
/// costs are smaller than joint costs, mostly where the models' weights are small, so the joint schedule starts slower.
/// Kiwaki (2015) calls the joint schedule GMS13.
///
/// ```
/// use annealed::path::AnnealingPath;
/// use annealed::pilot::{BinnedSchedule, ScheduleOptimizer};
/// use annealed::rbm::{BaseRate, BlockGibbs, JointBinnedSchedule, Rbm, RbmPath};
/// use nalgebra::{dmatrix, dvector};
///
/// let weights = dmatrix![2.0, -2.0, 1.0; -1.0, 2.0, 2.0];
/// let rbm = Rbm::new(weights, dvector![0.2, -0.3], dvector![-1.0, -0.5, -0.5])?;
/// let path = RbmPath::new(BaseRate::uniform(2, 3)?, rbm)?;
/// let found = JointBinnedSchedule::default().optimize(&path, &BlockGibbs, 1_000, 1)?;
/// let of_visible = BinnedSchedule::default().optimize(&path, &BlockGibbs, 1_000, 1)?;
/// assert!(found.schedule.betas()[100] < of_visible.schedule.betas()[100]);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct JointBinnedSchedule {
    binned: BinnedSchedule,
}

impl JointBinnedSchedule {
    /// Creates the schedule with the knots and the chains of `binned`.
    pub fn new(binned: BinnedSchedule) -> Self {
        Self { binned }
    }

    /// Estimates the costs by chains at the knots.
    ///
    /// # Errors
    /// If a setting is out of range, the path has inner knots, or the chains fail.
    pub fn estimate_costs<'p, T, K>(
        &self,
        path: &'p RbmPath<T>,
        kernel: &K,
        seed: u64,
    ) -> Result<Vec<f64>>
    where
        T: Scalar,
        K: TransitionKernel<RbmAt<'p, T>> + Sync,
    {
        let (chains, knots) = self.binned.chains_and_knots();
        costs(path, kernel, seed, &Execution::new(), chains, knots)
    }
}

impl<'p, T: Scalar, K: Sync> ScheduleOptimizer<&'p RbmPath<T>, K> for JointBinnedSchedule {
    /// # Errors
    /// The errors of the trait's method; also if the path has inner knots.
    fn optimize_by(
        &self,
        path: &'p RbmPath<T>,
        kernel: &K,
        stages: usize,
        seed: u64,
        by: &Execution<'_>,
    ) -> Result<OptimizedSchedule>
    where
        RbmAt<'p, T>: Send + Sync,
        K: TransitionKernel<RbmAt<'p, T>>,
    {
        let of_step = kernel.evaluations(dimension(&path));
        self.binned.by_costs(stages, of_step, |chains, knots| {
            costs(path, kernel, seed, by, chains, knots)
        })
    }
}

fn costs<'p, T, K>(
    path: &'p RbmPath<T>,
    kernel: &K,
    seed: u64,
    by: &Execution<'_>,
    chains: &KnotChains,
    knots: &[f64],
) -> Result<Vec<f64>>
where
    T: Scalar,
    K: TransitionKernel<RbmAt<'p, T>> + Sync,
{
    let segments = path.knots().stages();
    let expected =
        "a straight path, of one segment; `RbmPath::joint_costs` prices others by their moments";
    Error::check(segments == 1, "segments of the path", segments, expected)?;
    chains.joint_costs(&path, kernel, knots, seed, by)
}
