//! A proposal for bits: one flip.

use nalgebra::DVector;
use rand::{Rng, RngExt};

use super::SymmetricProposal;

/// Proposes to flip one bit, chosen uniformly. The state is a vector of zeros and ones, or of Booleans.
///
/// [`Metropolis`](super::Metropolis) takes it: `Metropolis(BitFlip)` evaluates one proposal of each chain at a stage,
/// all chains of a block in one call if the model [evaluates
/// batches](crate::model::UnnormalizedModel::evaluates_batches). For several flips use [`Repeat`](super::Repeat). If the
/// model has a gradient, [`GibbsWithGradients`](super::GibbsWithGradients) may need fewer flips.
///
/// ```
/// use annealed::kernel::{BitFlip, Metropolis, Repeat};
///
/// let kernel = Repeat::new(Metropolis(BitFlip), 20)?;
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BitFlip;

impl SymmetricProposal<DVector<f64>> for BitFlip {
    fn propose<R: Rng + ?Sized>(
        &self,
        _beta: f64,
        state: &DVector<f64>,
        proposal: &mut DVector<f64>,
        rng: &mut R,
    ) {
        proposal.clone_from(state);
        let bit = rng.random_range(0..state.len());
        proposal[bit] = 1.0 - proposal[bit];
    }

    fn coordinates<'s>(&self, state: &'s DVector<f64>) -> Option<&'s [f64]> {
        Some(state.as_slice())
    }
}

impl SymmetricProposal<Vec<bool>> for BitFlip {
    fn propose<R: Rng + ?Sized>(
        &self,
        _beta: f64,
        state: &Vec<bool>,
        proposal: &mut Vec<bool>,
        rng: &mut R,
    ) {
        proposal.clone_from(state);
        let bit = rng.random_range(0..state.len());
        proposal[bit] = !proposal[bit];
    }
}
