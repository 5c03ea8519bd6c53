//! Restricted Boltzmann machines whose hidden states can be enumerated.

use annealed::Result;
use annealed::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::advice::{Advice, Problem};
use super::targets;

/// Sets up an RBM of 16 visible and 8 hidden units with standard normal weights, from fair coins.
pub fn random_rbm(advice: &Advice) -> Result<Problem> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(16);
    let mut normals = |_, _| rng.sample(StandardNormal);
    let target: Rbm<f64> = Rbm::new(
        DMatrix::from_fn(8, 16, &mut normals),
        DVector::from_fn(8, &mut normals),
        DVector::from_fn(16, &mut normals),
    )?;
    let exact = target.exact_log_normalizer()?;
    let path = RbmPath::new(BaseRate::uniform(8, 16)?, target)?;
    advice.follow(exact, path, BlockGibbs)
}

/// Sets up an RBM of 64 visible and 20 hidden units trained on digits by contrastive divergence (Hinton 2002), from
/// the data's base rates (Salakhutdinov and Murray 2008).
pub fn cd_rbm(advice: &Advice) -> Result<Problem> {
    digits_rbm(advice, &ContrastiveDivergence::new(1).epochs(50))
}

/// Sets up the same RBM trained by persistent contrastive divergence (Tieleman 2008).
pub fn pcd_rbm(advice: &Advice) -> Result<Problem> {
    let training = ContrastiveDivergence::new(1).persistent(true).epochs(50);
    digits_rbm(advice, &training.learning_rate(0.05, 0.0))
}

fn digits_rbm(advice: &Advice, training: &ContrastiveDivergence) -> Result<Problem> {
    let (base, rbm) = targets::digits_rbm(training)?;
    let exact = rbm.exact_log_normalizer()?;
    advice.follow(exact, RbmPath::new(base, rbm)?, BlockGibbs)
}
