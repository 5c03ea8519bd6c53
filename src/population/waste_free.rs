//! Waste-free sequential Monte Carlo: few ancestors, all states of whose trajectories are kept.

use std::num::NonZeroUsize;
use std::ops::Range;

use rand::{Rng, RngExt};

use super::chains::Chains;
use super::genealogy::CopyState;
use super::resampling::ResamplingScheme;
use crate::{Error, Result};

/// Waste-free sequential Monte Carlo (Dau and Chopin 2022): after each stage but the last, a few chains of a
/// block are drawn by their weights as ancestors. Each starts a trajectory of moves at the model reached, and
/// all states of the trajectories together are the block's next states, with equal weights.
///
/// Of B chains and M ancestors a trajectory has B/M states. It costs no more moves than plain resampling, in
/// which B copies are moved once each. It does better where a copy needs many moves to forget where it comes
/// from. At fixed betas and with a fixed kernel `E[w] = Z_K/Z_0` still.
///
/// A block ([`Ais::block_size`](crate::ais::Ais::block_size)) is an island. Its trajectories soon have one
/// common ancestor, so that standard errors come from the differences between islands: let there be 20 or more.
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
    /// With so many ancestors a block, drawn systematically. A run refuses more than a block has chains; a
    /// shorter last block has fewer in proportion.
    ///
    /// # Errors
    /// Where `ancestors` is 0.
    pub fn new(ancestors: usize) -> Result<Self> {
        Ok(Self {
            ancestors: Error::check_nonzero("ancestors", ancestors)?,
            scheme: ResamplingScheme::Systematic,
        })
    }

    /// With another scheme by which ancestors are drawn.
    #[must_use]
    pub fn scheme(mut self, scheme: ResamplingScheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Refuses more ancestors than a block has chains.
    pub(crate) fn check(&self, block_size: usize) -> Result<()> {
        let ancestors = self.ancestors.get();
        let expected = format!("at most {block_size}, the chains of a block");
        Error::check(ancestors <= block_size, "ancestors", ancestors, expected)
    }

    /// Gives a block, not all of whose chains are dead, its next states. Returns for each chain the index of its ancestor.
    pub(crate) fn renew<S>(
        &self,
        block_size: usize,
        block: &mut dyn Chains<S>,
        copy: CopyState<S>,
    ) -> Result<Vec<usize>> {
        let chains = block.block().len();
        let log_weights = block.block().log_weights().to_vec();
        let rng = block.block_mut().chain_mut(0).1;
        let ancestors = self.ancestors(block_size, &log_weights, rng);
        block.gather(&ancestors, copy);
        // The j-th states of all trajectories stand side by side, and after them the next ones.
        let mut next = ancestors.len();
        while next < chains {
            let places = next..chains.min(next + ancestors.len());
            next = places.end;
            for place in places.clone() {
                block.copy_chain(place - ancestors.len(), place, copy);
            }
            block.stay_masked(&mut mask(places, chains))?;
        }
        Ok(repeated(&ancestors, chains))
    }

    /// The ancestors by which the trajectories start. The first ones may be longer by one state than the
    /// others. Schemes draw in order, so that the list is turned by chance: otherwise chains in front would
    /// have the longer trajectories.
    fn ancestors<R: Rng + ?Sized>(
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

/// The mask of some of so many chains.
fn mask(places: Range<usize>, chains: usize) -> Vec<bool> {
    (0..chains).map(|chain| places.contains(&chain)).collect()
}

/// The ancestor of each of so many chains.
fn repeated(ancestors: &[usize], chains: usize) -> Vec<usize> {
    ancestors.iter().copied().cycle().take(chains).collect()
}
