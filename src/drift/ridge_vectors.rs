//! A ridge superposition over vectors, for kernels that follow gradients.

use nalgebra::{DMatrix, DVector};

use crate::Result;
use crate::drift::ridge::RidgePrior;
use crate::drift::ridge_function::RidgeFunction;
use crate::drift::ridge_path::{RidgeAt, RidgePath};
use crate::model::{Differentiable, Gaussian, UnnormalizedModel};
use crate::path::{AnnealingPath, PathAt, TemperedAt, TemperedPath};

/// The objective `gamma L(z)` of a [`RidgePath`] over vectors `(w, z)` of `d + n` coordinates, w first.
/// It panics where a vector has fewer.
#[derive(Debug, Clone)]
pub struct RidgeObjective<F> {
    ridge: RidgePath<F>,
}

/// A [`RidgePath`] over vectors `(w, z)`, made by [`RidgePath::into_vectors`].
pub type RidgeVectorPath<F> = TemperedPath<Gaussian, RidgeObjective<F>>;

/// The model at one beta of a [`RidgeVectorPath`].
pub type RidgeVectorAt<'a, F> = TemperedAt<'a, Gaussian, RidgeObjective<F>>;

impl<F: RidgeFunction> RidgePath<F> {
    /// The same path over vectors `(w, z)` of `d + n` coordinates, on which gradients are known.
    ///
    /// [`DriftModifiedLangevin`](crate::drift::DriftModifiedLangevin) follows it with a
    /// [`RidgeModifier`](crate::drift::RidgeModifier), every kernel for vectors does, and
    /// [`RidgeGibbs`](crate::drift::RidgeGibbs) as well.
    ///
    /// # Errors
    /// Deviations so far apart that the precision of `(w, z)` has no Cholesky factor.
    pub fn into_vectors(self) -> Result<RidgeVectorPath<F>> {
        let precision = precision(self.base());
        let mean = DVector::zeros(precision.nrows());
        let base = Gaussian::from_precision(mean, precision)?;
        Ok(TemperedPath::new(base, RidgeObjective { ridge: self }))
    }
}

/// Of `(w, z)` under the prior.
fn precision(prior: &RidgePrior) -> DMatrix<f64> {
    let (n, d) = prior.design().shape();
    let [wide, narrow] = [prior.prior_deviation(), prior.deviation()].map(|s| s.powi(-2));
    let offsets = DMatrix::from_fn(n, d + n, |i, j| {
        if j < d {
            -prior.design()[(i, j)]
        } else {
            f64::from(j == d + i)
        }
    });
    let mut precision = offsets.tr_mul(&offsets) * narrow;
    (0..d).for_each(|i| precision[(i, i)] += wide);
    precision
}

impl<F> RidgeObjective<F> {
    /// The path whose objective this is.
    pub fn ridge(&self) -> &RidgePath<F> {
        &self.ridge
    }
}

/// The model over the two parts of the state.
pub(super) fn ridge_at<'a, F>(model: &RidgeVectorAt<'a, F>) -> RidgeAt<'a, F> {
    PathAt {
        path: model.path.likelihood().ridge(),
        beta: model.beta,
    }
}

impl<F: RidgeFunction> UnnormalizedModel for RidgeObjective<F> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let d = self.ridge.base().design().ncols();
        self.ridge.gain() * self.ridge.objective(state.iter().skip(d))
    }

    fn state_dimension(&self) -> Option<usize> {
        let (n, d) = self.ridge.base().design().shape();
        Some(d + n)
    }
}

impl<F: RidgeFunction> Differentiable for RidgeObjective<F> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (n, d) = self.ridge.base().design().shape();
        let slope = scale * self.ridge.gain() / n as f64;
        for (i, f) in self.ridge.functions().iter().enumerate() {
            gradient[d + i] += slope * f.derivative(state[d + i]);
        }
        self.log_density(state)
    }
}
