//! RBMs that are normalised and sampled exactly.

use rand::{Rng, RngExt};

use crate::Result;
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::rbm::enumerate::enumeration::Enumeration;
use crate::rbm::model::Rbm;
use crate::rbm::scalar::Scalar;

/// An RBM whose smaller layer has been enumerated, so that it is normalised and sampled exactly.
///
/// It holds a cumulative probability for each state of the smaller layer. That is 8 MiB for 20
/// units and 256 MiB for 25. A known number of samples takes no table ([`Rbm::exact_samples`]).
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
    /// Sums of probabilities up to and including each state of the smaller layer.
    cumulative: Vec<f64>,
}

impl<T: Scalar> EnumeratedRbm<T> {
    /// Enumerates the smaller layer.
    ///
    /// # Errors
    /// As [`Rbm::exact_log_normalizer`].
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
        let mut cumulative = probabilities.concat();
        let mut sum = 0.0;
        for p in &mut cumulative {
            sum += *p;
            *p = sum;
        }
        Ok(Self {
            rbm,
            enumeration,
            log_normalizer,
            cumulative,
        })
    }

    /// The RBM.
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
        let last = self.cumulative.len() - 1;
        // The last sum is 1 but for rounding; scaling by it keeps the index in range.
        let level = rng.random::<f64>() * self.cumulative[last];
        let state = self.cumulative.partition_point(|&c| c <= level).min(last);
        self.enumeration.draw_visible(state, rng)
    }
}
