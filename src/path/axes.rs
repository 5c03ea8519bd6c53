//! Two Gaussians in coordinates in which both are diagonal.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

use crate::model::Gaussian;
use crate::{Error, Result};

/// The largest dimension, in which a matrix takes 2 GiB.
const LARGEST: usize = 1 << 14;

/// The ends of a path, and the coordinates u, `x = mu_a + V u`, in which the base is `N(0, I)` and
/// the target has a diagonal precision. Points of a path between them need no factorisation there,
/// so that nothing can fail once the axes are found, and no large constants cancel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CommonAxes {
    pub(super) base: Gaussian,
    pub(super) target: Gaussian,
    /// V, with `V' P_a V = I` and `V' P_b V = diag(lambda)`.
    pub(crate) axes: DMatrix<f64>,
    /// lambda: precisions of the target along the axes.
    pub(crate) precisions: DVector<f64>,
    /// `V^-1 (mu_b - mu_a)`.
    pub(crate) shift: DVector<f64>,
}

impl CommonAxes {
    pub(super) fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        Error::check_dimension("target", target.dimension(), base.dimension())?;
        let expected = format!("at most {LARGEST}, since axes are matrices");
        Error::check(
            base.dimension() <= LARGEST,
            "dimension",
            base.dimension(),
            expected,
        )?;
        let factor = base.factor().to_dense();
        let relative = factor.transpose() * target.precision() * &factor;
        let eigen = SymmetricEigen::try_new(relative, f64::EPSILON, 100 * base.dimension())
            .ok_or_else(|| not_diagonalized("the iteration ran out of sweeps"))?;
        let bad = |l: &&f64| !(l.is_finite() && **l > 0.0);
        if let Some(bad) = eigen.eigenvalues.iter().find(bad) {
            let detail = format!("a precision ratio came out as {bad}");
            return Err(not_diagonalized(&detail));
        }
        let axes = factor * eigen.eigenvectors;
        let shift = axes.tr_mul(&base.precision()) * (target.mean() - base.mean());
        let apart = shift.norm_squared() + shift.component_mul(&eigen.eigenvalues).dot(&shift);
        let (found, expected) = (
            "a mean so far from that of the base that log densities overflow",
            "a mean nearer to that of the base",
        );
        Error::check(apart.is_finite(), "target", found, expected)?;
        Ok(Self {
            shift,
            axes,
            precisions: eigen.eigenvalues,
            base,
            target,
        })
    }

    /// The coordinates u of a state, `V^-1 (x - mu_a)`.
    pub(crate) fn coordinates(&self, state: &DVector<f64>) -> DVector<f64> {
        let offset = state - self.base.mean();
        let pull = self.base.form().precision().times(&offset);
        self.axes.tr_mul(&pull)
    }
}

fn not_diagonalized(detail: &str) -> Error {
    Error::NotConverged {
        what: "the common axes of base and target",
        detail: detail.into(),
    }
}
