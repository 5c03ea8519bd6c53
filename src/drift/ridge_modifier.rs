//! The drift modifier of a ridge superposition, made of functions of one projection each.

use nalgebra::{DMatrix, DVector};

use crate::Result;
use crate::drift::DriftModifier;
use crate::drift::quadrature::QuadratureModifier;
use crate::drift::ridge::RidgePrior;
use crate::drift::ridge_function::RidgeFunction;
use crate::drift::ridge_path::RidgePath;
use crate::model::{FunctionModel, Gaussian};
use crate::path::TemperedPath;
use crate::schedule::Schedule;

/// A drift modifier for the vectors `(w, z)` of a [`RidgePath`] ([`RidgePath::into_vectors`]), with one table for each
/// projection:
///
/// `G(w, z) = sum_j Cov((w, z), z_j) / C_jj g_j(z_j)`, with `C = delta^2 I + sigma0^2 X X'`.
///
/// Here `g_j` is the [`QuadratureModifier`] of `N(0, C_jj)` tempered by `gamma/n f_j`. G is exact at `beta = 0`, and at
/// every beta if the rows of X are orthogonal. It does harm if projections are correlated and `gamma/n f_i` exceeds
/// about 1. Use [`DriftModifiedLangevin`](crate::drift::DriftModifiedLangevin) before a sweep of
/// [`RidgeGibbs`](crate::drift::RidgeGibbs), with noise small beside `delta^2`. Source: the augmentation of Barron and
/// Luo (2007); G is derived here.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::drift::{DriftModifiedLangevin, RidgeGibbs, RidgeModifier, RidgePath, Sinusoid};
/// use annealed::estimate::LogZ;
/// use annealed::kernel::Sequence;
/// use annealed::schedule::Schedule;
/// use nalgebra::dmatrix;
///
/// let wave = |amplitude| Sinusoid { amplitude, frequency: 2.0, phase: 0.0 };
/// let design = dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0];
/// let path = RidgePath::new(design, [1.0, -1.0, 0.5].map(wave), 6.0, 1.0, 0.3)?;
/// let schedule = Schedule::linear(50)?;
/// let modifier = RidgeModifier::new(&path, &schedule, 401)?;
/// let drift = DriftModifiedLangevin::new(modifier, 0.001)?;
/// let run = Ais::new(&path.into_vectors()?, Sequence(drift, RidgeGibbs::augmented()))
///     .schedule(schedule)
///     .run()?;
/// assert!((run.log_z() - 1.880842).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RidgeModifier {
    /// The quadrature modifier `g_j` of each projection.
    tables: Vec<QuadratureModifier>,
    /// `Cov((w, z), z_j) / C_jj`, one column for each projection.
    lift: DMatrix<f64>,
}

impl RidgeModifier {
    /// Tabulates each `g_j` for `schedule` at `points` nodes.
    ///
    /// # Errors
    /// The errors of [`QuadratureModifier::new`].
    pub fn new<F: RidgeFunction>(
        path: &RidgePath<F>,
        schedule: &Schedule,
        points: usize,
    ) -> Result<Self> {
        let mut lift = covariance_with_projections(path.base());
        let scale = path.gain() / path.functions().len() as f64;
        let d = path.base().design().ncols();
        let table = |(j, f): (usize, &F)| {
            let variance = lift[(d + j, j)];
            lift.column_mut(j).unscale_mut(variance);
            let base = Gaussian::isotropic(DVector::zeros(1), variance.sqrt())?;
            let objective = FunctionModel::new(|z: &DVector<f64>| scale * f.value(z[0]));
            // Beyond the reach f cannot lift the Gaussian above e^-40 of its height.
            let above = scale * (f.upper_bound() - f.value(0.0));
            let reach = (2.0 * (above.max(0.0) + 40.0) * variance).sqrt();
            let path = TemperedPath::new(base, objective);
            QuadratureModifier::new(&path, schedule, (-reach, reach), points)
        };
        let tables = path.functions().iter().enumerate().map(table);
        Ok(Self {
            tables: tables.collect::<Result<_>>()?,
            lift,
        })
    }
}

/// Returns `Cov((w, z), z)`, one column for each projection.
fn covariance_with_projections(prior: &RidgePrior) -> DMatrix<f64> {
    let design = prior.design();
    let (n, d) = design.shape();
    let mut covariance = DMatrix::zeros(d + n, n);
    let transposed = design.transpose();
    covariance.rows_mut(0, d).copy_from(&transposed);
    covariance.rows_mut(d, n).copy_from(&(design * transposed));
    covariance *= prior.prior_deviation().powi(2);
    (0..n).for_each(|j| covariance[(d + j, j)] += prior.deviation().powi(2));
    covariance
}

/// Panics if the state is not as long as w and z together.
impl DriftModifier for RidgeModifier {
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>) {
        let (found, expected) = (state.len(), self.lift.nrows());
        assert!(
            found == expected,
            "a state of dimension {found} for a drift modifier of dimension {expected}"
        );
        let projections = state.iter().skip(expected - self.tables.len());
        modifier.fill(0.0);
        let tables = self.tables.iter().zip(projections);
        for ((table, &z), column) in tables.zip(self.lift.column_iter()) {
            modifier.axpy(table.at(beta, z), &column, 1.0);
        }
    }
}

crate::num::deserialize_checked! {
    RidgeModifier { tables: Vec<QuadratureModifier>, lift: crate::num::serial::Matrix } =>
        RidgeModifier { tables, lift: lift.0 }.checked()
}

#[cfg(feature = "serde")]
impl RidgeModifier {
    fn checked(self) -> Result<Self> {
        use crate::Error;
        let n = self.tables.len();
        Error::check_not_empty("tables", n)?;
        Error::check_dimension("columns of the lift", self.lift.ncols(), n)?;
        Error::check_at_least("rows of the lift", self.lift.nrows(), n + 1)?;
        Error::check_finite("lift", self.lift.iter().copied())?;
        Ok(self)
    }
}
