//! The uniform distribution on a box.

use nalgebra::DVector;
use rand::{Rng, RngExt};

use crate::error::demand_dimension;
use crate::model::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::{Error, Result};

/// The uniform distribution on a box: `log f(x) = 0` inside, edges included, and `-inf` outside; `log Z` is the
/// logarithm of the volume.
///
/// It is a base for kernels that need no gradient and refuse what is outside, [`Slice`](crate::kernel::Slice)
/// or a random walk. The gradient is 0, so that Langevin and Hamiltonian kernels run out of the box: for them
/// [`Priors`](crate::model::Priors) take the interval to coordinates without bounds.
///
/// ```
/// use annealed::prelude::*;
///
/// let base = UniformBox::new([(0.0, 2.0), (-1.0, 1.0)])?;
/// assert_eq!(base.log_normalizer(), 4f64.ln());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct UniformBox {
    sides: Vec<(f64, f64)>,
}

impl UniformBox {
    /// From the lower and the upper end of each side.
    ///
    /// # Errors
    /// No side; ends that are not finite, or whose lower one is not below the upper one; a side so long that its
    /// length overflows.
    pub fn new(sides: impl IntoIterator<Item = (f64, f64)>) -> Result<Self> {
        let sides: Vec<(f64, f64)> = sides.into_iter().collect();
        Error::check_not_empty("sides", sides.len())?;
        for &(low, high) in &sides {
            let length = high - low;
            let found = format!("{low} to {high}");
            let expected = "finite ends, the lower one below the upper one";
            Error::check(length.is_finite() && low < high, "side", found, expected)?;
        }
        Ok(Self { sides })
    }

    /// # Panics
    /// Where the state has another dimension.
    fn contains(&self, state: &DVector<f64>) -> bool {
        demand_dimension("a state", state.len(), self.sides.len());
        let mut sides = self.sides.iter().zip(state.iter());
        sides.all(|(&(low, high), x)| (low..=high).contains(x))
    }
}

impl UnnormalizedModel for UniformBox {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        if self.contains(state) {
            0.0
        } else {
            f64::NEG_INFINITY
        }
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.sides.len())
    }
}

impl NormalizedModel for UniformBox {
    fn log_normalizer(&self) -> f64 {
        self.sides.iter().map(|(low, high)| (high - low).ln()).sum()
    }
}

impl Differentiable for UniformBox {
    fn accumulate_gradient(&self, state: &DVector<f64>, _: f64, _: &mut DVector<f64>) -> f64 {
        self.log_density(state)
    }
}

impl Sampleable for UniformBox {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let coordinates = self.sides.iter();
        let coordinates = coordinates.map(|&(low, high)| rng.random_range(low..high));
        DVector::from_iterator(self.sides.len(), coordinates)
    }
}

crate::num::deserialize_checked! { UniformBox as (sides: Vec<(f64, f64)>) => Self::new(sides) }
crate::num::serialize_as! { UniformBox as uniform (uniform.sides) }
