//! Log Z of an RBM while it is trained.

use nalgebra::{DMatrix, DVector};

use crate::estimate::Estimate;
use crate::kernel::Block;
use crate::model::NormalizedModel;
use crate::num::log_mean_exp;
use crate::population::{Population, Resampling, sample_base, streams};
use crate::random::{Purpose, stream};
use crate::rbm::enumerate::map_tasks;
use crate::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath, Scalar};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Number of independent islands of chains, from which the error comes.
const ISLANDS: usize = 20;
/// Effective share of an island's chains below which they are resampled.
const RESAMPLE_BELOW: f64 = 0.5;

/// A population of chains that follows an RBM through its training, with an estimate of log Z at each of its machines.
///
/// The chains are weighed and moved from the last machine to the next along an [`RbmPath`] of both, in 20 islands that
/// resample by themselves. `E[w] = Z_t / Z_0` at each machine t if training does not depend on the estimates. The error
/// comes from the differences between islands, and grows with the number of machines. A mode that training makes where no
/// chain comes is missed, as by any run: run [`Ais`](crate::ais::Ais) on the last machine, too.
///
/// ```
/// use annealed::prelude::*;
/// use annealed::rbm::LogZTracker;
///
/// let images = annealed::data::digits().images;
/// let start = Rbm::<f32>::from_data(8, &images, 1)?;
/// let mut tracker = LogZTracker::new(BaseRate::from_data(8, &images, 1.0)?, 400, 3)?;
/// let mut log_z = Vec::new();
/// let settings = ContrastiveDivergence::new(1).epochs(3);
/// let rbm = settings.train_with(start, &images, |_, rbm| log_z.push(tracker.advance_to(rbm, 10)))?.rbm;
/// let last = log_z.remove(2)?;
/// println!("{last}");
/// assert!((last.value() - rbm.exact_log_normalizer()?).abs() < 4.0 * last.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Sources: Desjardins, Courville and Bengio (2011), "On tracking the partition function"; Bereux et al. (2025).
#[derive(Debug, Clone)]
pub struct LogZTracker<T: Scalar = f32> {
    base: BaseRate<T>,
    /// The machine that the chains are weighed for.
    machine: Rbm<T>,
    islands: Vec<Block<Vec<bool>>>,
}

impl<T: Scalar> LogZTracker<T> {
    /// Creates `chains` chains at samples of `base`, such as the base rates of the training data.
    ///
    /// # Errors
    /// A `base` that is a mixture; fewer than 20 chains, or more than 2^30.
    pub fn new(base: BaseRate<T>, chains: usize, seed: u64) -> Result<Self> {
        base.check_single("a single model")?;
        Error::check_count("chains", chains, ISLANDS)?;
        let (hidden, visible) = (base.hidden_units(), base.visible_units());
        let bias = base.visible_bias().clone();
        let machine = Rbm::new(
            DMatrix::zeros(hidden, visible),
            DVector::zeros(hidden),
            bias,
        )?;
        let path = RbmPath::new(base.clone(), machine.clone())?;
        let mut rngs = streams(chains, stream(seed, Purpose::Tracking, 0))?;
        let mut states = sample_base(&&path, 0, &mut rngs)?;
        let start = |island: usize| island * chains / ISLANDS;
        let mut islands: Vec<_> = (0..ISLANDS)
            .rev()
            .map(|island| {
                let first = start(island);
                Block::new(first, states.split_off(first), rngs.split_off(first))
            })
            .collect();
        islands.reverse();
        Ok(Self {
            base,
            machine,
            islands,
        })
    }

    /// Takes the chains to `rbm` in `stages` stages, one sweep of block Gibbs sampling each, and returns the estimate of its
    /// log Z. After an error the chains stay where they were.
    ///
    /// # Errors
    /// No stages; an RBM with other units than the base's; an overflow.
    pub fn advance_to(&mut self, rbm: &Rbm<T>, stages: usize) -> Result<Estimate> {
        Error::check_at_least("stages", stages, 1)?;
        let models = vec![self.machine.clone(), rbm.clone()];
        let path = RbmPath::through(self.base.clone(), models, Schedule::linear(2)?)?;
        let resampling = Resampling::when_ess_below(RESAMPLE_BELOW)?;
        let moved = map_tasks(ISLANDS, |island| {
            let block = self.islands[island].clone();
            let mut population = Population::from_block(&path, 0.5, block)?;
            for stage in 1..=stages {
                population.advance_to(&BlockGibbs, 0.5 + 0.5 * stage as f64 / stages as f64)?;
                population
                    .members()
                    .resample_if_due(&resampling, stage, Vec::clone);
            }
            Ok(population.into_block())
        });
        let islands = moved.into_iter().collect::<Result<Vec<_>>>()?;
        let means: Vec<f64> = islands
            .iter()
            .map(|island| log_mean_exp(island.log_weights()))
            .collect();
        let ratio = Estimate::of_islands(&means)?;
        (self.islands, self.machine) = (islands, rbm.clone());
        Ok(ratio.shifted(self.base.log_normalizer()))
    }
}
