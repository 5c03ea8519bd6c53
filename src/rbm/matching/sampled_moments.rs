//! Estimates of the moments of an RBM, from Gibbs chains or from data.

use crate::num::setters;
use crate::random::{Lanes, Purpose, StreamRng, stream, successive};
use crate::rbm::base_rate::check_data;
use crate::rbm::enumerate::map_tasks;
use crate::rbm::matching::moments::RbmMoments;
use crate::rbm::model::Rbm;
use crate::rbm::scalar::Scalar;
use crate::rbm::train::{Chains, Sampler};
use crate::{Error, Result};

/// Chains that move together. Fixed, so that the result does not depend on the threads.
const BLOCK: usize = 125;

/// Gibbs chains that estimate the moments of an RBM that is too large to enumerate.
///
/// The chains start at random bits. The hidden units enter the averages by their probabilities
/// given the visible units.
///
/// The estimates are biased where the chains do not reach every mode. A run along a path that is
/// built on them stays unbiased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct MomentChains {
    chains: usize,
    sweeps: usize,
    burn_in: usize,
    seed: u64,
}

impl MomentChains {
    /// 1,000 chains of 10,000 sweeps, the first 1,000 of which are left out: the setting of Grosse et
    /// al. (2013).
    pub fn full() -> Self {
        Self {
            chains: 1_000,
            sweeps: 10_000,
            burn_in: 1_000,
            seed: 0,
        }
    }

    setters! {
        /// Number of chains.
        chains: usize,

        /// Number of sweeps of each chain, including those left out.
        sweeps: usize,

        /// Number of sweeps left out at the start.
        burn_in: usize,

        /// The seed of the chains.
        seed: u64,
    }

    /// The moments of `rbm`.
    ///
    /// # Errors
    /// Where there is no chain, or no sweep after the burn-in.
    pub fn moments<T: Scalar>(&self, rbm: &Rbm<T>) -> Result<RbmMoments> {
        Error::check_count("chains", self.chains, 1)?;
        Error::check_count("sweeps", self.sweeps, self.burn_in.saturating_add(1))?;
        let rbm = rbm.cast::<f32>()?;
        let number = self.chains.div_ceil(BLOCK);
        let streams = successive(stream(self.seed, Purpose::Moments, 0)).take(number);
        let streams: Vec<StreamRng> = streams.collect();
        let blocks = map_tasks(number, |block| {
            self.block(&rbm, block, streams[block].clone())
        });
        let mut total = RbmMoments::zeros(rbm.hidden_units(), rbm.visible_units());
        for block in &blocks {
            total.add(block);
        }
        let counted = (self.sweeps - self.burn_in) as f64;
        total.scale(1.0 / (self.chains as f64 * counted));
        Ok(total)
    }

    /// Sums over one block's chains and sweeps, in double precision beyond one sweep.
    fn block(&self, rbm: &Rbm<f32>, block: usize, mut rng: StreamRng) -> RbmMoments {
        let chains = BLOCK.min(self.chains - block * BLOCK);
        let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
        let mut chains = Chains::random(hidden, visible, chains, &mut rng);
        let mut lanes = Lanes::from_rng(&mut rng);
        let sampler = Sampler::new(rbm);
        let mut total = RbmMoments::zeros(hidden, visible);
        for sweep in 0..self.sweeps {
            chains.sweep(&sampler, &mut lanes);
            if sweep >= self.burn_in {
                total.add(&chains.sums(&sampler, 1.0).into());
            }
        }
        total
    }
}

impl RbmMoments {
    /// The moments of data, with the hidden units distributed as in `rbm` given each row.
    ///
    /// They cost one pass over the data, and are close to the moments of `rbm` where it is well
    /// trained.
    ///
    /// # Errors
    /// Where there are no data, or a row does not have D entries.
    pub fn from_data<T: Scalar>(rbm: &Rbm<T>, data: &[Vec<bool>]) -> Result<Self> {
        Error::check_dimension("row of data", check_data(data)?, rbm.visible_units())?;
        let rbm = rbm.cast::<f32>()?;
        let mut total = Self::zeros(rbm.hidden_units(), rbm.visible_units());
        let sampler = Sampler::new(&rbm);
        for rows in data.chunks(BLOCK) {
            let mut chains = Chains::zeros(rbm.hidden_units(), rbm.visible_units(), rows.len());
            chains.start_at(rows.iter());
            total.add(&chains.sums(&sampler, 1.0).into());
        }
        total.scale(1.0 / data.len() as f64);
        Ok(total)
    }
}
