//! Moment matching by persistent chains.

use crate::num::setters;
use crate::random::{Lanes, Purpose, stream};
use crate::rbm::matching::{RbmMatching, RbmMoments};
use crate::rbm::model::Rbm;
use crate::rbm::train::{Chains, Sampler};
use crate::{Error, Result};

/// Moment matching by persistent chains, for RBMs of any size.
///
/// This is stochastic gradient ascent of `theta . s - log Z` in centred parameters (see
/// [`ExactMatching`](crate::rbm::ExactMatching)). The model's moments are averages over particles,
/// which make one Gibbs sweep for each update (Tieleman 2008). The learning rate falls linearly to
/// 0. The particles start at random bits and make 100 sweeps before the first update.
///
/// The quality of the match is not measured. Errors of 0.5 in a moment were seen, because
/// intermediate models may have several modes. A bad match costs efficiency only: the weights of a
/// run stay unbiased.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct PersistentMatching {
    particles: usize,
    updates: usize,
    learning_rate: f64,
    seed: u64,
}

/// Sweeps of the particles before the first update.
const BURN_IN: usize = 100;

impl PersistentMatching {
    /// 50,000 updates from a learning rate of 0.01, as in Grosse et al. (2013), with 100 particles.
    pub fn full() -> Self {
        Self {
            particles: 100,
            updates: 50_000,
            learning_rate: 0.01,
            seed: 0,
        }
    }

    /// 1,000 updates with 100 particles: the "cheap" setting of Grosse et al. (2013), for moments
    /// taken from data ([`RbmMoments::from_data`]).
    pub fn cheap() -> Self {
        Self {
            updates: 1_000,
            ..Self::full()
        }
    }

    setters! {
        /// Number of persistent chains.
        particles: usize,

        /// Number of updates for each knot.
        updates: usize,

        /// The learning rate of the first update.
        learning_rate: f64,

        /// The seed of the particles.
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
        let mut rng = stream(self.seed, Purpose::Matching, 0);
        let mut particles = Chains::random(hidden, visible, self.particles, &mut rng);
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
