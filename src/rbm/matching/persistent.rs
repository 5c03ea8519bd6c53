//! Moment matching by persistent chains.

use crate::random::{Lanes, Purpose, stream};
use crate::rbm::matching::centred::Centre;
use crate::rbm::matching::{RbmMatching, RbmMoments};
use crate::rbm::model::Rbm;
use crate::rbm::train::{Chains, Sampler};
use crate::{Error, Result};

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
            let found = particles.sums(&sampler, 1.0 / self.particles as f32);
            let rate = self.learning_rate * (1.0 - update as f64 / self.updates as f64);
            parameters.axpy(rate, &centre.ascent(&found.into()), 1.0);
            rbm = centre
                .rbm(&parameters)
                .and_then(|rbm| rbm.cast())
                .map_err(|_| overflow(update))?;
            sampler = Sampler::new(&rbm);
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
