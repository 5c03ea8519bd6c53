//! Waste-free sequential Monte Carlo: a few ancestors, and all states of their trajectories.

use std::num::NonZeroUsize;

use rand::{Rng, RngExt};

use super::ResamplingScheme;
use crate::{Error, Result};

/// Waste-free sequential Monte Carlo (Dau and Chopin 2022). After each stage but the last, M ancestors are drawn from a
/// block of B chains by weight. Each starts a trajectory of B/M states by moves at the model reached. All states of the
/// trajectories are the block's next states, with equal weights.
///
/// It costs as much as plain resampling, and does better if a copy needs many moves to forget its origin. At fixed
/// betas and with a fixed kernel, `E[w] = Z_K/Z_0` holds. A block ([`Ais::block_size`](crate::ais::Ais::block_size)) is
/// an island. Standard errors come from the differences between islands, so use 20 or more.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::population::WasteFree;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.2)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let run = Ais::new(&path, RandomWalkMetropolis::new(0.5)?)
///     .schedule(Schedule::linear(10)?)
///     .chains(2_000)
///     .block_size(100) // 20 islands
///     .waste_free(WasteFree::new(10)?) // of 10 trajectories of 10 states each
///     .run()?;
/// assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// A kernel that is not [`Invariant`](crate::kernel::Invariant) is refused:
///
/// ```compile_fail,E0277
/// # use annealed::population::WasteFree;
/// # use annealed::prelude::*;
/// # let path = GeometricPath::new(Gaussian::standard(2)?, Gaussian::isotropic(DVector::zeros(2), 0.2)?);
/// let kernel = annealed::kernel::UnadjustedLangevin::new(0.1)?;
/// let ais = Ais::new(&path, kernel).waste_free(WasteFree::new(10)?);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WasteFree {
    ancestors: NonZeroUsize,
    scheme: ResamplingScheme,
}

impl WasteFree {
    /// Creates waste-free resampling from `ancestors` ancestors per block, drawn systematically. A run refuses more
    /// ancestors than a block has chains. A shorter last block has proportionally fewer ancestors.
    ///
    /// # Errors
    /// `ancestors` of 0.
    pub fn new(ancestors: usize) -> Result<Self> {
        Ok(Self {
            ancestors: Error::check_nonzero("ancestors", ancestors)?,
            scheme: ResamplingScheme::Systematic,
        })
    }

    /// Sets the scheme by which ancestors are drawn.
    #[must_use]
    pub fn scheme(mut self, scheme: ResamplingScheme) -> Self {
        self.scheme = scheme;
        self
    }

    pub(crate) fn check(&self, block_size: usize) -> Result<()> {
        let ancestors = self.ancestors.get();
        let expected = format!("at most {block_size}, the chains of a block");
        Error::check(ancestors <= block_size, "ancestors", ancestors, expected)
    }

    /// Draws the ancestors. The first trajectories may be longer by one state, so the list is rotated at random.
    /// Otherwise chains in front would always have the longer trajectories.
    pub(super) fn ancestors<R: Rng + ?Sized>(
        &self,
        block_size: usize,
        log_weights: &[f64],
        rng: &mut R,
    ) -> Vec<usize> {
        let count = (self.ancestors.get() * log_weights.len()).div_ceil(block_size);
        let copies = self.scheme.copies(count, log_weights, rng);
        let copies = copies.iter().enumerate();
        let mut ancestors: Vec<usize> = copies
            .flat_map(|(chain, &copies)| std::iter::repeat_n(chain, copies))
            .collect();
        ancestors.rotate_left(rng.random_range(0..count));
        ancestors
    }
}
