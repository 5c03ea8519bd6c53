//! The moments of base-rate models, and the base that has given moments.

use nalgebra::DVector;

use crate::num::sigmoid;
use crate::rbm::base_rate::BaseRate;
use crate::rbm::matching::moments::RbmMoments;
use crate::rbm::scalar::Scalar;
use crate::{Error, Result};

impl<T: Scalar> BaseRate<T> {
    /// The moments of this model: `E[v_i] = sigmoid(b_i)`, `E[h_j] = 1/2` and their products.
    pub fn moments(&self) -> RbmMoments {
        let visible = self.visible_bias().map(|b| sigmoid(b.as_()));
        let hidden = DVector::from_element(self.hidden_units(), 0.5);
        RbmMoments {
            interaction: &hidden * visible.transpose(),
            visible,
            hidden,
        }
    }

    /// The base nearest to a machine of these moments: its visible units are on with the probabilities
    /// `(E[v_i] + s) / (1 + 2 s)`.
    ///
    /// Of all models of independent units it is the one whose Kullback-Leibler divergence from the machine,
    /// `KL(machine || base)`, is least, but for the `smoothing` s. That keeps the logit finite of a unit that is
    /// always on or never, for example .001, or `1/N` for the moments of N samples. Moments of the machine itself come
    /// from [`MomentChains`](crate::rbm::MomentChains) where there are no data.
    ///
    /// # Errors
    /// Where a layer is empty, a visible moment is outside of `[0, 1]`, or `smoothing` is not finite and positive.
    ///
    /// ```
    /// use annealed::rbm::{BaseRate, MomentChains, Rbm};
    /// use nalgebra::dmatrix;
    ///
    /// let weights = dmatrix![2.0, -1.0; 0.5, 1.0];
    /// let rbm = Rbm::<f64>::new(weights, vec![0.0, 0.0].into(), vec![-1.0, 1.0].into())?;
    /// let moments = MomentChains::full().chains(100).sweeps(200).burn_in(100).moments(&rbm)?;
    /// let base = BaseRate::<f64>::from_moments(&moments, 1e-3)?;
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn from_moments(moments: &RbmMoments, smoothing: f64) -> Result<Self> {
        Error::check_positive("smoothing", smoothing)?;
        let probabilities = moments.visible.iter().copied().enumerate();
        let within = |p: f64| (0.0..=1.0).contains(&p);
        Error::check_each(
            "visible moments",
            "index",
            probabilities,
            within,
            "numbers in [0, 1]",
        )?;
        let logit = |p: f64| T::nearest(((p + smoothing) / (1.0 - p + smoothing)).ln());
        Self::new(moments.hidden.len(), moments.visible.map(logit))
    }
}
