//! RBMs that are normalised and sampled exactly.

use rand::{Rng, RngExt};

use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::cumulative;
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::rbm::enumerate::Enumeration;
use crate::rbm::enumerate::state_block::StateBlock;
use crate::rbm::{Rbm, Scalar};
use crate::{Error, Result};

/// Cumulative probabilities: for each state, the sum up to and including this state.
#[derive(Debug, Clone)]
pub(in crate::rbm) struct Cumulative(Vec<f64>);

impl Cumulative {
    pub(in crate::rbm) fn of(mut probabilities: Vec<f64>) -> Self {
        let mut sum = 0.0;
        for p in &mut probabilities {
            sum += *p;
            *p = sum;
        }
        Self(probabilities)
    }

    pub(in crate::rbm) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        let last = self.0.len() - 1;
        // The last sum is 1 up to rounding.
        let level = rng.random::<f64>() * self.0[last];
        // States of probability 0 repeat the sum before them; `<=` passes over them.
        self.0.partition_point(|&c| c <= level).min(last)
    }
}

/// An RBM whose smaller layer has been enumerated, to normalise and sample it exactly.
///
/// It holds 8 bytes per state of the smaller layer: 256 MiB for 25 units. [`Rbm::exact_samples`] needs no table.
///
/// ```
/// use annealed::model::{NormalizedModel, Sampleable};
/// use annealed::rbm::{EnumeratedRbm, Rbm};
/// use nalgebra::DMatrix;
/// use rand::SeedableRng;
///
/// let rbm = Rbm::new(DMatrix::from_row_slice(1, 3, &[1.0, -1.0, 0.5]), vec![0.2].into(), vec![0.1, -0.2, 0.3].into())?;
/// let exact = EnumeratedRbm::new(rbm)?;
/// let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
/// assert_eq!(exact.sample(&mut rng).len(), 3);
/// assert!(exact.log_normalizer() > 0.0);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug)]
pub struct EnumeratedRbm<T: Scalar = f32> {
    rbm: Rbm<T>,
    enumeration: Enumeration,
    log_normalizer: f64,
    cumulative: Cumulative,
}

impl<T: Scalar> EnumeratedRbm<T> {
    /// Enumerates the smaller layer of `rbm`.
    ///
    /// # Errors
    /// See [`Rbm::exact_log_normalizer`].
    pub fn new(rbm: Rbm<T>) -> Result<Self> {
        let enumeration = Enumeration::new(&rbm)?;
        let log_normalizer = enumeration.log_normalizer()?;
        let states = enumeration.states_per_task();
        let probabilities = enumeration.fold(
            |_| vec![0.0; states],
            |part, first, block| {
                for (within, log_f) in block.log_f().iter().enumerate() {
                    part[(first + within) % states] = (log_f - log_normalizer).exp();
                }
            },
        );
        Ok(Self {
            rbm,
            enumeration,
            log_normalizer,
            cumulative: Cumulative::of(probabilities.concat()),
        })
    }

    /// Returns the RBM.
    pub fn rbm(&self) -> &Rbm<T> {
        &self.rbm
    }
}

impl<T: Scalar> UnnormalizedModel for EnumeratedRbm<T> {
    type State = Vec<bool>;

    fn log_density(&self, visible: &Vec<bool>) -> f64 {
        self.rbm.log_density(visible)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.rbm.state_dimension()
    }
}

impl<T: Scalar> NormalizedModel for EnumeratedRbm<T> {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl<T: Scalar> Sampleable for EnumeratedRbm<T> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<bool> {
        let state = self.cumulative.draw(rng);
        self.enumeration.draw_visible(state, rng)
    }
}

/// Largest number of visible units in all samples together, each a byte.
const MAX_UNITS: usize = 1 << 32;

impl<T: Scalar> Rbm<T> {
    /// Draws `count` independent exact samples of the visible units, by enumeration of the smaller layer in f64.
    ///
    /// It stores no table, and takes about twice as long as [`exact_log_normalizer`](Self::exact_log_normalizer).
    /// Sample i uses a stream of its own of `seed`, for any `count` and number of threads.
    ///
    /// # Errors
    /// If the smaller layer has more than [`MAX_ENUMERATED_UNITS`](crate::rbm::MAX_ENUMERATED_UNITS) units,
    /// `log Z` overflows, or all samples together have more than 2^32 units.
    ///
    /// ```
    /// use annealed::rbm::Rbm;
    /// use nalgebra::DMatrix;
    ///
    /// // Two units that like to be on together.
    /// let rbm = Rbm::new(DMatrix::from_element(1, 2, 9.0), vec![-9.0].into(), vec![0.0; 2].into())?;
    /// let samples = rbm.exact_samples(1_000, 7)?;
    /// let on = samples.iter().filter(|v| **v == [true, true]).count();
    /// assert!(on > 950);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn exact_samples(&self, count: usize, seed: u64) -> Result<Vec<Vec<bool>>> {
        let most = MAX_UNITS / self.visible_units();
        let expected = format!("at most {most}, for 2^32 units in all");
        Error::check(count <= most, "number of samples", count, expected)?;
        let enumeration = Enumeration::new(self)?;
        let first = stream(seed, Purpose::EXACT_SAMPLES, 0);
        let mut rngs: Vec<StreamRng> = successive(first).take(count).collect();
        let levels: Vec<f64> = rngs.iter_mut().map(|rng| rng.random()).collect();
        let states = enumeration.states_at(levels)?.into_iter();
        let drawn = states.zip(&mut rngs);
        Ok(drawn
            .map(|(state, rng)| enumeration.draw_visible(state, rng))
            .collect())
    }
}

/// One task's search for the states at which the running sum of probabilities first exceeds the ascending levels `due`.
struct LargestTerms<'a> {
    due: &'a [(usize, f64)],
    sum: f64,
    /// Last state of positive probability among the states visited.
    state: usize,
    /// Indices of the levels reached so far, each with its state.
    found: Vec<(usize, usize)>,
}

impl LargestTerms<'_> {
    fn visit(&mut self, log_z: f64, first_state: usize, block: &StateBlock) {
        for (within, log_f) in block.log_f().iter().enumerate() {
            let p = (log_f - log_z).exp();
            if p > 0.0 {
                self.sum += p;
                self.state = first_state + within;
                self.settle(self.sum);
            }
        }
    }

    /// Assigns the present state to all levels below `sum` that have no state yet.
    fn settle(&mut self, sum: f64) {
        while let Some((&(index, level), later)) = self.due.split_first() {
            if level >= sum {
                break;
            }
            self.found.push((index, self.state));
            self.due = later;
        }
    }
}

impl Enumeration {
    /// Returns the states at which the distribution function over the enumerated states reaches the `levels`, 0 to 1.
    fn states_at(&self, levels: Vec<f64>) -> Result<Vec<usize>> {
        let (log_z, shares) = self.log_normalizer_and_shares()?;
        let sums = cumulative(shares);
        // The last sum is 1 up to rounding. Every level below it lies in a task of positive probability.
        let total = sums[sums.len() - 1];
        let mut states = vec![0; levels.len()];
        let mut due: Vec<(usize, f64)> = levels.into_iter().enumerate().collect();
        for (_, level) in &mut due {
            *level = (*level * total).min(total.next_down());
        }
        due.sort_by(|a, b| a.1.total_cmp(&b.1));
        let below = |sum: f64| due.partition_point(|due| due.1 < sum);
        let tasks = self.fold(
            |task| {
                let range = below(sums[task])..below(sums[task + 1]);
                LargestTerms {
                    due: &due[range],
                    sum: sums[task],
                    state: task * self.states_per_task(),
                    found: Vec::new(),
                }
            },
            |search, first_state, block| search.visit(log_z, first_state, block),
        );
        for mut search in tasks {
            // Rounding may leave a level beyond the sum of the second pass.
            search.settle(f64::INFINITY);
            for (index, state) in search.found {
                states[index] = state;
            }
        }
        Ok(states)
    }
}
