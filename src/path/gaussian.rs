//! The geometric path between two Gaussians.

use nalgebra::DVector;

use crate::Result;
use crate::model::{Gaussian, NormalizedModel, QuadraticForm};
use crate::path::axes::CommonAxes;
use crate::path::{AnnealingPath, GaussianAt};

/// The geometric path between two Gaussians. Every intermediate model is a Gaussian, whose precision
/// and precision times mean are linear in beta. Each model can be sampled exactly and has a known
/// log Z, which serves perfect transitions, coordinate Gibbs and tests.
///
/// Its densities equal those of a [`GeometricPath`](super::GeometricPath) between the same ends,
/// constants included.
///
/// The path holds the coordinates in which both ends are diagonal. A point of the path is diagonal
/// there too, so that nothing is factorised again, nothing can fail, and no large constants cancel.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianPath {
    pub(crate) ends: CommonAxes,
}

impl GaussianPath {
    /// Between two Gaussians over the same space.
    ///
    /// # Errors
    /// Where their dimensions differ or exceed 16,384, their scales differ so much that no common axes are found, or
    /// their means lie so far apart that log densities overflow.
    pub fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        Ok(Self {
            ends: CommonAxes::new(base, target)?,
        })
    }

    /// The target.
    pub fn target(&self) -> &Gaussian {
        &self.ends.target
    }
}

impl AnnealingPath for GaussianPath {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At<'a> = GaussianAt<'a>;

    fn base(&self) -> &Gaussian {
        &self.ends.base
    }

    fn at(&self, beta: f64) -> GaussianAt<'_> {
        // Along each axis: -1/2 (1 - beta) u^2 - 1/2 beta lambda (u - s)^2.
        let CommonAxes {
            base: a,
            target: b,
            axes,
            precisions: lambda,
            shift,
        } = &self.ends;
        let precisions = lambda.map(|l| (1.0 - beta) + beta * l);
        let pulls = lambda.component_mul(shift) * beta;
        let centre = pulls.component_div(&precisions);
        let apart = pulls.component_mul(shift).dot(&precisions.map(f64::recip));
        let constant = -0.5 * (1.0 - beta) * apart;
        GaussianAt {
            ends: &self.ends,
            averaged: None,
            beta,
            constant,
            log_normalizer: constant + (a.log_normalizer() - 0.5 * precisions.map(f64::ln).sum()),
            form: QuadraticForm::new(
                a.mean() + axes * centre,
                a.form()
                    .precision()
                    .blend(1.0 - beta, beta, b.form().precision()),
            ),
            deviations: precisions.map(|p| p.sqrt().recip()),
        }
    }
}
