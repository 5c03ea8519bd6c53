//! Independent bits as a vector of zeros and ones.

use nalgebra::DVector;
use rand::Rng;

use crate::error::demand_dimension;
use crate::model::{
    Bernoulli, Differentiable, ExponentialFamily, Sampleable, UnnormalizedModel, forward_model,
};
use crate::num::add_scaled;
use crate::{Error, Result};

/// Independent bits, with a vector of zeros and ones as the state: the base for a target that is a function of numbers,
/// such as a [`BatchModel`](crate::model::BatchModel) or a [`GradientModel`](crate::model::GradientModel).
///
/// `log f(x) = b . x` for the logits b of a [`Bernoulli`], and `-inf` for a vector with another number than 0 and 1. log
/// Z is a sum over the `2^n` vectors, and so is log Z of a target. The kernels for these states are
/// [`Metropolis(BitFlip)`](crate::kernel::BitFlip) and [`GibbsWithGradients`](crate::kernel::GibbsWithGradients).
///
/// ```
/// use annealed::kernel::{BitFlip, Metropolis};
/// use annealed::model::Bits;
/// use annealed::prelude::*;
///
/// // Ten bits, each pair of which costs 0.1.
/// let target = BatchModel::of_values(10, |states: &[f64], _n| {
///     let ones = states.chunks(10).map(|x| x.iter().sum::<f64>());
///     Ok(ones.map(|ones| -0.05 * ones * (ones - 1.0)).collect())
/// })?;
/// let path = GeometricPath::new(Bits::fair(10)?, target);
/// let run = Ais::new(&path, Metropolis(BitFlip)).schedule(Schedule::linear(50)?).run()?;
/// # let choose = |k: i32| (0..k).map(|i| f64::from(10 - i) / f64::from(i + 1)).product::<f64>();
/// # let exact = (0..=10).map(|k| choose(k) * (-0.05 * f64::from(k * (k - 1))).exp()).sum::<f64>().ln();
/// assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bits(pub Bernoulli);

impl Bits {
    /// Creates `count` bits that are 0 or 1 with equal probabilities.
    ///
    /// # Errors
    /// A `count` of 0 or above 2^30.
    pub fn fair(count: usize) -> Result<Self> {
        Error::check_count("count", count, 1)?;
        Bernoulli::new(DVector::zeros(count)).map(Self)
    }
}

impl UnnormalizedModel for Bits {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let logits = self.0.logits();
        demand_dimension("a state", state.len(), logits.len());
        match state.iter().all(|&x| x == 0.0 || x == 1.0) {
            true => logits.dot(state),
            false => f64::NEG_INFINITY,
        }
    }

    fn state_dimension(&self) -> Option<usize> {
        self.0.state_dimension()
    }
}

forward_model! { [] Bits as Bernoulli, self => self.0; NormalizedModel }

impl Sampleable for Bits {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        self.0.sufficient_statistics(&self.0.sample(rng))
    }
}

impl Differentiable for Bits {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        add_scaled(gradient.as_mut_slice(), scale, self.0.logits().as_slice());
        self.log_density(state)
    }
}
