//! RBMs with given moments.

use nalgebra::{DMatrix, DVector};

use crate::num::Lbfgs;
use crate::random::Lanes;
use crate::random::{Purpose, stream};
use crate::rbm::Rbm;
use crate::rbm::enumeration::Enumeration;
use crate::rbm::moments::RbmMoments;
use crate::rbm::sampler::{Chains, Gradient, Sampler};
use crate::{Error, Result};

/// A way to find the RBM with given moments, as a knot of a moment-averaging spline asks for.
pub trait RbmMatching {
    /// The RBM with these moments, sought from `start`.
    ///
    /// # Errors
    /// Where the moments are of another shape or of no distribution, or the search does not
    /// converge.
    fn match_moments(&self, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>>;
}

/// Moment matching with exact gradients, by enumeration: L-BFGS on the convex
/// `log Z - theta . s`, in parameters centred at the moments sought (`a' = a + W mu`,
/// `b' = b + W^T lambda` with `mu = E[v]`, `lambda = E[h]`), in which the weights and the biases
/// hardly interact.
///
/// The defaults: at most 80 iterations, and an error above 0.06 in a moment is refused. Any RBM at
/// a knot leaves the weights unbiased; a bad match costs only efficiency.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct ExactMatching {
    iterations: usize,
    tolerance: f64,
}

impl Default for ExactMatching {
    fn default() -> Self {
        Self {
            iterations: 80,
            tolerance: 0.06,
        }
    }
}

impl ExactMatching {
    /// Iterations at most; each enumerates `2^M` states once, seldom twice.
    pub fn iterations(self, iterations: usize) -> Self {
        Self { iterations, ..self }
    }

    /// The largest error accepted in a moment. The search ends early at a tenth of it.
    pub fn tolerance(self, tolerance: f64) -> Self {
        Self { tolerance, ..self }
    }
}

impl RbmMatching for ExactMatching {
    /// # Errors
    /// Also where the smaller layer has too many units to enumerate.
    fn match_moments(&self, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>> {
        Error::check_positive("tolerance", self.tolerance)?;
        moments.check(start.hidden_units(), start.visible_units())?;
        Enumeration::new(start)?;
        let centre = Centre { moments };
        let solver = Lbfgs {
            memory: 20,
            iterations: self.iterations,
            tolerance: 0.1 * self.tolerance,
        };
        let minimum = solver.minimize(centre.parameters(start), |parameters| {
            let evaluated = centre.rbm(parameters).and_then(|rbm| {
                let (log_z, found) = rbm.log_normalizer_and_moments()?;
                Ok((log_z + rbm.mean_energy(moments), -centre.ascent(&found)))
            });
            evaluated.unwrap_or_else(|_| (f64::INFINITY, DVector::zeros(parameters.len())))
        });
        let rbm = centre.rbm(&minimum.position)?;
        let error = rbm.exact_moments()?.largest_difference(moments);
        if error <= self.tolerance {
            return Ok(rbm);
        }
        Err(Error::NotConverged {
            what: "moment matching of an RBM",
            detail: format!(
                "a moment is off by {error:.3} after {} iterations, expected at most {}",
                minimum.iterations, self.tolerance
            ),
        })
    }
}

/// Moment matching by persistent chains, for RBMs of any size: stochastic ascent of
/// `theta . s - log Z` in centred parameters (see [`ExactMatching`]), with the model's moments
/// taken from particles that make one Gibbs sweep an update (Tieleman 2008). The learning rate goes
/// linearly to 0. Particles start at random bits and make 100 sweeps before the first update.
///
/// How good the match is goes unmeasured: intermediate models have several phases, and errors of
/// 0.5 in a moment were seen. Weights are unbiased all the same.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct PersistentMatching {
    particles: usize,
    updates: usize,
    learning_rate: f64,
    seed: u64,
}

const BURN_IN: usize = 100;

impl PersistentMatching {
    /// The setting of Grosse et al. (2013): 50,000 updates from a rate of 0.01, here with 100
    /// particles.
    pub fn full() -> Self {
        Self {
            particles: 100,
            updates: 50_000,
            learning_rate: 0.01,
            seed: 0,
        }
    }

    /// The "cheap" setting of Grosse et al. (2013): 1,000 updates, 100 particles, for moments
    /// taken from data ([`RbmMoments::from_data`]).
    pub fn cheap() -> Self {
        Self {
            updates: 1_000,
            ..Self::full()
        }
    }

    /// Number of persistent chains.
    pub fn particles(self, particles: usize) -> Self {
        Self { particles, ..self }
    }

    /// Number of updates for each knot.
    pub fn updates(self, updates: usize) -> Self {
        Self { updates, ..self }
    }

    /// The learning rate of the first update.
    pub fn learning_rate(self, learning_rate: f64) -> Self {
        Self {
            learning_rate,
            ..self
        }
    }

    /// The seed of the particles.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

impl RbmMatching for PersistentMatching {
    fn match_moments(&self, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>> {
        Error::check_positive("learning_rate", self.learning_rate)?;
        Error::check_at_least("particles", self.particles, 1)?;
        let (hidden, visible) = (start.hidden_units(), start.visible_units());
        moments.check(hidden, visible)?;
        let centre = Centre { moments };
        let mut rng = stream(self.seed, Purpose::Matching, 0);
        let mut particles = Chains::random(hidden, visible, self.particles, &mut rng);
        let mut lanes = Lanes::from_rng(&mut rng);
        let mut rbm = start.cast::<f32>()?;
        let mut sampler = Sampler::new(&rbm);
        for _ in 0..BURN_IN {
            particles.sweep(&sampler, &mut lanes);
        }
        let mut parameters = centre.parameters(start);
        for update in 0..self.updates {
            particles.sweep(&sampler, &mut lanes);
            particles.expect_hidden(&sampler);
            let mut found = Gradient::zeros(hidden, visible);
            particles.accumulate(1.0 / self.particles as f32, &mut found);
            let rate = self.learning_rate * (1.0 - update as f64 / self.updates as f64);
            parameters.axpy(rate, &centre.ascent(&found.into_moments()), 1.0);
            rbm = centre
                .rbm(&parameters)
                .and_then(|rbm| rbm.cast())
                .map_err(|_| overflow(update))?;
            sampler.set(&rbm);
        }
        centre.rbm(&parameters)
    }
}

fn overflow(update: usize) -> Error {
    Error::NotConverged {
        what: "moment matching of an RBM",
        detail: format!(
            "a parameter overflowed at update {update}; expected a lower learning rate"
        ),
    }
}

impl Gradient<f32> {
    pub(super) fn into_moments(self) -> RbmMoments {
        RbmMoments {
            visible: self.visible_bias.map(f64::from),
            hidden: self.hidden_bias.map(f64::from),
            interaction: self.weights.map(f64::from),
        }
    }
}

/// Parameters centred at the moments sought, `(W, a + W mu, b + W^T lambda)` as one vector.
struct Centre<'a> {
    moments: &'a RbmMoments,
}

impl Centre<'_> {
    fn parameters(&self, rbm: &Rbm<f64>) -> DVector<f64> {
        let weights = rbm.weights();
        let hidden_bias = rbm.hidden_bias() + weights * &self.moments.visible;
        let visible_bias = rbm.visible_bias() + weights.tr_mul(&self.moments.hidden);
        stack(weights, &hidden_bias, &visible_bias)
    }

    fn rbm(&self, parameters: &DVector<f64>) -> Result<Rbm<f64>> {
        let (hidden, visible) = self.moments.interaction.shape();
        let (weights, biases) = parameters.as_slice().split_at(hidden * visible);
        let (hidden_bias, visible_bias) = biases.split_at(hidden);
        let weights = DMatrix::from_column_slice(hidden, visible, weights);
        Rbm::new(
            weights.clone(),
            DVector::from_column_slice(hidden_bias) - &weights * &self.moments.visible,
            DVector::from_column_slice(visible_bias) - weights.tr_mul(&self.moments.hidden),
        )
    }

    /// The gradient of `theta . s - log Z` where the model has the moments `found`.
    fn ascent(&self, found: &RbmMoments) -> DVector<f64> {
        let visible = &self.moments.visible - &found.visible;
        let hidden = &self.moments.hidden - &found.hidden;
        let interaction = &self.moments.interaction
            - &found.interaction
            - &self.moments.hidden * visible.transpose()
            - &hidden * self.moments.visible.transpose();
        stack(&interaction, &hidden, &visible)
    }
}

fn stack(weights: &DMatrix<f64>, hidden: &DVector<f64>, visible: &DVector<f64>) -> DVector<f64> {
    let length = weights.len() + hidden.len() + visible.len();
    DVector::from_iterator(length, weights.iter().chain(hidden).chain(visible).copied())
}
