//! Moments of an RBM, and searches for the RBM with given moments.

mod moments;
mod spline;

use nalgebra::{DMatrixView, DVector};

use crate::num::{Lbfgs, setters};
use crate::random::{Lanes, Purpose, stream};
use crate::rbm::enumerate::Enumeration;
use crate::rbm::train::{Sampler, TrainingChains};
use crate::rbm::{Rbm, Scalar};
use crate::{Error, Result};

pub use moments::{MomentChains, RbmMoments};

/// A search for the RBM with given moments, as needed for each knot of a moment-averaging spline.
pub trait RbmMatching {
    /// Finds the RBM with these `moments`, starting from `start`.
    ///
    /// # Errors
    /// If the moments have another shape or belong to no distribution, or the search does not converge.
    fn match_moments(&self, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>>;
}

/// Moment matching with exact gradients, for RBMs whose smaller layer can be enumerated.
///
/// L-BFGS minimises the convex function `log Z - theta . s` in centred parameters theta, where s are the given moments.
/// [`tolerance`](Self::tolerance) is the accepted error, 0.01 by default; [`stop_at`](Self::stop_at) ends the search.
/// An inaccurate match makes an estimate less efficient, but not biased.
///
/// ```
/// use annealed::rbm::{BaseRate, ExactMatching, Rbm, RbmMatching};
/// use nalgebra::{dmatrix, dvector};
///
/// let rbm = Rbm::<f64>::new(dmatrix![1.0, -2.0; 0.5, 1.5], dvector![0.0, 0.5], dvector![-1.0, 0.0])?;
/// let half_way = BaseRate::<f64>::uniform(2, 2)?.moments().average(&rbm.exact_moments()?, 0.5)?;
/// let knot = ExactMatching::default().match_moments(&rbm, &half_way)?;
/// assert!(knot.exact_moments()?.largest_difference(&half_way) < 0.01);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct ExactMatching {
    iterations: usize,
    tolerance: f64,
    stop_at: Option<f64>,
}

impl Default for ExactMatching {
    fn default() -> Self {
        Self {
            iterations: 1_000,
            tolerance: 0.01,
            stop_at: None,
        }
    }
}

impl ExactMatching {
    setters! {
        /// Sets the largest number of iterations, 1,000 by default. An iteration enumerates all states once, seldom
        /// twice. Knots between a uniform base and machines of 20 x 784 units took 15 to 50 iterations.
        iterations: usize,

        /// Sets the largest accepted error of a moment. Infinity accepts every result of the search.
        tolerance: f64,

        /// Sets the slope, the largest error of a centred moment, at which the search ends. At 0 it ends when rounding
        /// leaves no descent. The default is 0.003, or 3/10 of the tolerance if that is less, because the error of a
        /// moment is at most three times the slope. A search with a large slope may return its start; neighbouring
        /// knots are then equal.
        stop_at in Some: f64,
    }
}

/// Largest slope at which a search ends by default.
const SLOPE: f64 = 0.003;

impl RbmMatching for ExactMatching {
    /// # Errors
    /// The errors of the trait's method; also if the RBM's smaller layer has too many units to enumerate.
    fn match_moments(&self, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>> {
        let tolerance = self.tolerance;
        Error::check(tolerance > 0.0, "tolerance", tolerance, "a positive number")?;
        let stop_at = self.stop_at.unwrap_or(SLOPE.min(0.3 * tolerance));
        Error::check(stop_at >= 0.0, "stop_at", stop_at, "0 or a positive number")?;
        moments.check(start.hidden_units(), start.visible_units())?;
        // Checked here, because the search treats an error of its function as an infinite value.
        Enumeration::new(start)?;
        let solver = Lbfgs {
            memory: 20,
            iterations: self.iterations,
            tolerance: stop_at,
        };
        let minimum = solver.minimize(moments.centred(start), |parameters| {
            let evaluated = moments.uncentred(parameters).and_then(|rbm: Rbm<f64>| {
                let (log_z, found) = rbm.log_normalizer_and_moments()?;
                Ok((log_z + rbm.mean_energy(moments), -moments.ascent(&found)))
            });
            evaluated.unwrap_or_else(|_| (f64::INFINITY, DVector::zeros(parameters.len())))
        });
        let rbm = moments.uncentred(&minimum.position)?;
        let error = rbm.exact_moments()?.largest_difference(moments);
        if error <= tolerance {
            return Ok(rbm);
        }
        Err(Error::NotConverged {
            what: "moment matching of an RBM",
            detail: format!(
                "a moment is off by {error:.3} after {} iterations, expected at most {}",
                minimum.iterations, tolerance
            ),
        })
    }
}

/// Moment matching by persistent chains, for RBMs of any size.
///
/// It runs stochastic gradient ascent of `theta . s - log Z` in centred parameters, with one Gibbs sweep per update
/// (Tieleman 2008). The learning rate falls linearly to 0. The match is not checked; an inaccurate one only makes an
/// estimate less efficient.
///
/// ```
/// use annealed::rbm::{BaseRate, PersistentMatching, Rbm, RbmMatching};
/// use nalgebra::{dmatrix, dvector};
///
/// let rbm = Rbm::<f64>::new(dmatrix![1.0, -2.0; 0.5, 1.5], dvector![0.0, 0.5], dvector![-1.0, 0.0])?;
/// let half_way = BaseRate::<f64>::uniform(2, 2)?.moments().average(&rbm.exact_moments()?, 0.5)?;
/// let matching = PersistentMatching::full().updates(5_000);
/// let knot = matching.match_moments(&rbm, &half_way)?;
/// assert!(knot.exact_moments()?.largest_difference(&half_way) < 0.05);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct PersistentMatching {
    particles: usize,
    updates: usize,
    learning_rate: f64,
    seed: u64,
}

/// Number of sweeps of the particles before the first update.
const BURN_IN: usize = 100;

impl PersistentMatching {
    /// Creates the setting of Grosse et al. (2013), 50,000 updates from a learning rate of 0.01, with 100 particles.
    pub fn full() -> Self {
        Self {
            particles: 100,
            updates: 50_000,
            learning_rate: 0.01,
            seed: 0,
        }
    }

    /// Creates the "cheap" setting of Grosse et al. (2013), 1,000 updates with 100 particles, for moments of
    /// [data](RbmMoments::from_data).
    pub fn cheap() -> Self {
        Self {
            updates: 1_000,
            ..Self::full()
        }
    }

    setters! {
        /// Sets the number of persistent chains.
        particles: usize,

        /// Sets the number of updates for each knot.
        updates: usize,

        /// Sets the learning rate of the first update.
        learning_rate: f64,

        /// Sets the seed of the particles.
        seed: u64,
    }
}

impl RbmMatching for PersistentMatching {
    fn match_moments(&self, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>> {
        Error::check_positive("learning_rate", self.learning_rate)?;
        Error::check_count("particles", self.particles, 1)?;
        let (hidden, visible) = (start.hidden_units(), start.visible_units());
        moments.check(hidden, visible)?;
        let numbers = self.particles.saturating_mul(hidden.max(visible));
        Error::check_count("particles times units", numbers, 1)?;
        let mut rng = stream(self.seed, Purpose::MATCHING, 0);
        let mut particles = TrainingChains::random(hidden, visible, self.particles, &mut rng);
        let mut lanes = Lanes::from_rng(&mut rng);
        let mut sampler = Sampler::new(&start.cast::<f32>()?);
        for _ in 0..BURN_IN {
            particles.sweep(&sampler, &mut lanes);
        }
        let mut parameters = moments.centred(start);
        for update in 0..self.updates {
            particles.sweep(&sampler, &mut lanes);
            let found = particles.sums(&sampler, 1.0 / self.particles as f32);
            let rate = self.learning_rate * (1.0 - update as f64 / self.updates as f64);
            moments.ascend(&mut parameters, rate, &found.into());
            let rbm = moments.uncentred(&parameters);
            sampler.set(&rbm.map_err(|_| Error::NotConverged {
                what: "moment matching of an RBM",
                detail: format!(
                    "a parameter overflowed at update {update}; expected a lower learning rate"
                ),
            })?);
        }
        moments.uncentred(&parameters)
    }
}

impl RbmMoments {
    /// Returns the parameters of `rbm`, centred at these moments.
    pub(crate) fn centred(&self, rbm: &Rbm<f64>) -> DVector<f64> {
        let weights = rbm.weights();
        let hidden_bias = rbm.hidden_bias() + weights * &self.visible;
        let visible_bias = rbm.visible_bias() + weights.tr_mul(&self.hidden);
        let parameters = weights.iter().chain(&hidden_bias).chain(&visible_bias);
        let length = weights.len() + hidden_bias.len() + visible_bias.len();
        DVector::from_iterator(length, parameters.copied())
    }

    pub(crate) fn uncentred<T: Scalar>(&self, parameters: &DVector<f64>) -> Result<Rbm<T>> {
        let (hidden, visible) = self.interaction.shape();
        let (weights, biases) = parameters.as_slice().split_at(hidden * visible);
        let (hidden_bias, visible_bias) = biases.split_at(hidden);
        let weights = DMatrixView::from_slice(weights, hidden, visible);
        let hidden_bias = DVector::from_column_slice(hidden_bias) - weights * &self.visible;
        let visible_bias = DVector::from_column_slice(visible_bias) - weights.tr_mul(&self.hidden);
        Rbm::new(
            weights.map(T::nearest),
            hidden_bias.map(T::nearest),
            visible_bias.map(T::nearest),
        )
    }

    /// Returns the gradient of `theta . s - log Z` in centred parameters theta, where s are these moments, at an RBM
    /// with moments `found`.
    pub(crate) fn ascent(&self, found: &Self) -> DVector<f64> {
        let (hidden, visible) = self.interaction.shape();
        let mut gradient = DVector::zeros(hidden * visible + hidden + visible);
        self.ascend(&mut gradient, 1.0, found);
        gradient
    }

    pub(crate) fn ascend(&self, parameters: &mut DVector<f64>, rate: f64, found: &Self) {
        let (hidden, visible) = self.interaction.shape();
        let excess_hidden = &self.hidden - &found.hidden;
        let excess_visible = &self.visible - &found.visible;
        let (weights, biases) = parameters.as_mut_slice().split_at_mut(hidden * visible);
        let columns = weights.chunks_exact_mut(hidden);
        let wanted = self.interaction.as_slice().chunks_exact(hidden);
        let found = found.interaction.as_slice().chunks_exact(hidden);
        for (i, ((column, wanted), found)) in columns.zip(wanted).zip(found).enumerate() {
            let (mean, excess) = (self.visible[i], excess_visible[i]);
            for j in 0..hidden {
                // A centred weight also changes both biases (see `uncentred`), so their errors enter its gradient.
                let covariance = self.hidden[j] * excess + excess_hidden[j] * mean;
                column[j] += rate * (wanted[j] - found[j] - covariance);
            }
        }
        let excess = excess_hidden.iter().chain(&excess_visible);
        for (bias, excess) in biases.iter_mut().zip(excess) {
            *bias += rate * excess;
        }
    }
}
