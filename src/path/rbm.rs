//! The joint geometric path between two RBMs.

use crate::error::{Error, Result};
use crate::model::rbm::{draw_all, draw_into, masked_sum_of, softplus_increment};
use crate::model::{BaseRate, Rbm, Scalar, UnnormalizedModel, sigmoid, softplus};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate};
use nalgebra::{DMatrix, DVector};
use rand::Rng;

/// The geometric path between the *joint* densities of a base-rate RBM and an RBM: energies are
/// mixed, so that W and a are scaled by beta and the visible biases go from base to target.
///
/// `log f_beta(v) = ((1 - beta) b_base + beta b).v + sum_j softplus(beta (a_j + W_j v))`.
///
/// Every intermediate model is an RBM, which is what block Gibbs sampling needs; Salakhutdinov
/// and Murray (2008), equation 15. The geometric path between the *marginal* densities of `v` is
/// another path: for that one, put both models into the generic geometric path.
#[derive(Debug, Clone)]
pub struct RbmPath<T: Scalar = f32> {
    base: BaseRate<T>,
    target: Rbm<T>,
    /// `b - b_base`.
    bias_slope: DVector<T>,
    /// `W^T` of the target.
    transposed_weights: DMatrix<T>,
}

impl<T: Scalar> RbmPath<T> {
    /// From a base to a target of the same shape.
    ///
    /// # Errors
    /// Where they differ in visible or hidden units, or the difference of their biases overflows.
    pub fn new(base: BaseRate<T>, target: Rbm<T>) -> Result<Self> {
        let (hidden, visible) = (target.hidden_units(), target.visible_units());
        Error::check_dimension("hidden units of the base", base.hidden_units(), hidden)?;
        Error::check_dimension("visible units of the base", base.visible_units(), visible)?;
        let bias_slope = target.visible_bias() - base.visible_bias();
        Error::check_finite(
            "difference of visible biases",
            bias_slope.iter().map(|x| x.to_f64()),
        )?;
        Ok(Self {
            base,
            bias_slope,
            transposed_weights: target.weights().transpose(),
            target,
        })
    }

    /// The RBM at `beta = 1`.
    pub fn target(&self) -> &Rbm<T> {
        &self.target
    }

    /// `W^T` (D x M) of the target.
    pub(crate) fn transposed_weights(&self) -> &DMatrix<T> {
        &self.transposed_weights
    }
}

impl<T: Scalar> AnnealingPath for RbmPath<T> {
    type State = Vec<bool>;
    type Base = BaseRate<T>;
    type At<'a> = RbmAt<'a, T>;

    fn base(&self) -> &BaseRate<T> {
        &self.base
    }

    fn at(&self, beta: f64) -> RbmAt<'_, T> {
        RbmAt { path: self, beta }
    }
}

/// The RBM at one beta of an [`RbmPath`]: a view, nothing is copied.
#[derive(Debug)]
pub struct RbmAt<'a, T: Scalar = f32> {
    path: &'a RbmPath<T>,
    beta: f64,
}

impl<T: Scalar> Clone for RbmAt<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Scalar> Copy for RbmAt<'_, T> {}

impl<'a, T: Scalar> RbmAt<'a, T> {
    /// The path.
    pub fn path(&self) -> &'a RbmPath<T> {
        self.path
    }

    /// This model as an RBM of its own, in double precision: for enumeration and exact samples.
    ///
    /// # Errors
    /// Where `beta` is not finite.
    pub fn to_rbm(&self) -> Result<Rbm<f64>> {
        let scaled = |x: T| self.beta * x.to_f64();
        Rbm::new(
            self.path.target.weights().map(scaled),
            self.path.target.hidden_bias().map(scaled),
            DVector::from_iterator(self.path.bias_slope.len(), self.visible_biases()),
        )
    }

    /// `(1 - beta) b_base + beta b`.
    pub(crate) fn visible_biases(&self) -> impl ExactSizeIterator<Item = f64> {
        let (base, target) = (
            self.path.base.visible_bias(),
            self.path.target.visible_bias(),
        );
        let beta = self.beta;
        (base.iter().zip(target)).map(move |(a, b)| (1.0 - beta) * a.to_f64() + beta * b.to_f64())
    }

    /// `b - b_base`, the slope in beta of the visible biases.
    pub(crate) fn bias_slope(&self) -> &'a DVector<T> {
        &self.path.bias_slope
    }

    /// One sweep of block Gibbs sampling, v -> h -> v, in place.
    pub fn gibbs_sweep<R: Rng + ?Sized>(&self, visible: &mut [bool], rng: &mut R) {
        let target = &self.path.target;
        let hidden = draw_all(&(target.hidden_activation(visible) * self.beta), rng);
        let base = self.path.base.visible_bias().map(T::to_f64);
        let logits = base * (1.0 - self.beta) + target.visible_activation(&hidden) * self.beta;
        draw_into(&logits, visible, rng);
    }

    /// `(b - b_base).v`.
    fn slope_term(&self, visible: &[bool]) -> f64 {
        masked_sum_of(self.path.bias_slope.as_slice(), visible)
    }
}

impl<T: Scalar> UnnormalizedModel for RbmAt<'_, T> {
    type State = Vec<bool>;

    fn log_density(&self, visible: &Vec<bool>) -> f64 {
        let activation = self.path.target.hidden_activation(visible);
        let base = masked_sum_of(self.path.base.visible_bias().as_slice(), visible);
        let hidden = activation.iter().map(|x| softplus(self.beta * x));
        base + self.beta * self.slope_term(visible) + hidden.sum::<f64>()
    }
}

impl<T: Scalar> Intermediate for RbmAt<'_, T> {
    fn beta(&self) -> f64 {
        self.beta
    }

    /// The hidden units' part is summed as differences of softplus, each free of cancellation.
    fn log_ratio(&self, previous: &Self, visible: &Vec<bool>) -> f64 {
        let slope = self.beta - previous.beta;
        let activation = self.path.target.hidden_activation(visible);
        let increments = activation
            .iter()
            .map(|x| softplus_increment(self.beta * x, slope * x));
        slope * self.slope_term(visible) + increments.sum::<f64>()
    }
}

impl<T: Scalar> BetaDerivative for RbmAt<'_, T> {
    /// `(b - b_base).v + sum_j x_j sigmoid(beta x_j)` with `x = a + W v`.
    fn beta_derivative(&self, visible: &Vec<bool>) -> f64 {
        let activation = self.path.target.hidden_activation(visible);
        let hidden = activation.iter().map(|x| x * sigmoid(self.beta * x));
        self.slope_term(visible) + hidden.sum::<f64>()
    }
}
