//! Checks for users' own models, kernels and paths: invariance, unbiasedness, gradients, changes of the density.
//!
//! A statistical check returns a [`Check`] with a z-score. If the code is right, the z-score is standard normal, so
//! `|z| > 4` has a probability of 6e-5. The seed fixes the result. Use an asymmetric target and large steps. For a
//! kernel with corrections use short steps, because large steps give its weights a heavy tail. [`invariances`] finds
//! kernels that are not invariant. [`unbiasedness`] at few stages finds kernels that leave the model of a wrong stage
//! invariant. A slightly wrong distribution shows only at many stages. Use 3, 10 and 300 stages.
//!
//! ```
//! use annealed::kernel::RandomWalkMetropolis;
//! use annealed::model::{Gaussian, Sampleable};
//! use annealed::path::Stationary;
//! use annealed::testing;
//! use nalgebra::{dmatrix, dvector};
//!
//! # fn main() -> annealed::Result<()> {
//! let model = Gaussian::new(dvector![1.0, -2.0], dmatrix![2.0, 0.5; 0.5, 1.0])?;
//! let kernel = RandomWalkMetropolis::new(1.5)?;
//! let check = testing::invariance(
//!     &Stationary(&model),
//!     &kernel,
//!     |rng| model.sample(rng),
//!     |x| x[0] * x[0] * x[1],
//!     3,
//!     10_000,
//!     1,
//! )?;
//! assert!(check.passes(), "{check}");
//! # Ok(())
//! # }
//! ```

use std::fmt;

use nalgebra::DVector;

use crate::ais::Ais;
use crate::kernel::{Block, LocalProposal, Stage, TransitionKernel};
use crate::model::{Differentiable, LocalDensity, OTHERS, added_gradient, central_difference};
use crate::num::Moments;
use crate::path::{AnnealingPath, Intermediate};
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A measured mean beside its exact value.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct Check {
    /// The measured mean.
    pub mean: f64,
    /// The exact value.
    pub expected: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
}

impl Check {
    fn new(values: &Moments, expected: f64) -> Self {
        Self {
            mean: values.mean(),
            expected,
            standard_error: values.standard_error(),
        }
    }

    /// Returns `(mean - expected) / standard_error`; 0 if both the difference and the standard error are 0.
    pub fn z(&self) -> f64 {
        let difference = self.mean - self.expected;
        if difference == 0.0 {
            0.0
        } else {
            difference / self.standard_error
        }
    }

    /// Returns whether `|z| <= 4`; false for NaN.
    pub fn passes(&self) -> bool {
        self.z().abs() <= 4.0
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mean, error) = (self.mean, self.standard_error);
        let (expected, z) = (self.expected, self.z());
        write!(
            f,
            "{mean:.6} +- {error:.6}, expected {expected:.6} (z = {z:.2})"
        )
    }
}

/// Checks whether a kernel leaves `model` invariant. Chains start at exact samples x and take `steps` steps to x'. For
/// a statistic h, the mean of `exp(corrections) h(x') - h(x)` should be 0. This also holds for kernels with
/// corrections, such as unadjusted Langevin or a learned transition.
///
/// The model is a model of a path, or a plain one inside [`Stationary`](crate::path::Stationary). Chains move in
/// blocks, as in a run. One statistic checks one moment; see [`invariances`] for several.
///
/// # Errors
/// No steps; fewer than two chains; a NaN or an infinity in the kernel.
pub fn invariance<M, K>(
    model: &M,
    kernel: &K,
    sample: impl Fn(&mut StreamRng) -> M::State,
    statistic: impl Fn(&M::State) -> f64,
    steps: usize,
    chains: usize,
    seed: u64,
) -> Result<Check>
where
    M: Intermediate,
    K: TransitionKernel<M>,
{
    let [check] = invariances(model, kernel, sample, [statistic], steps, chains, seed)?;
    Ok(check)
}

/// Checks several statistics on the same chains, as [`invariance`] checks one. Include squares and products.
///
/// # Errors
/// As [`invariance`].
///
/// ```
/// use annealed::kernel::Mala;
/// use annealed::model::{Gaussian, Sampleable};
/// use annealed::path::Stationary;
/// use annealed::testing;
/// use nalgebra::DVector;
///
/// # fn main() -> annealed::Result<()> {
/// let model = Stationary(Gaussian::standard(2)?);
/// let statistics: [fn(&DVector<f64>) -> f64; 3] = [|x| x[0], |x| x[0] * x[1], |x| x[1].powi(2)];
/// let sample = |rng: &mut _| model.sample(rng);
/// let checks = testing::invariances(&model, &Mala::new(1.5)?, sample, statistics, 3, 1_000, 1)?;
/// assert!(checks.iter().all(testing::Check::passes), "{checks:?}");
/// # Ok(())
/// # }
/// ```
pub fn invariances<M, K, const N: usize>(
    model: &M,
    kernel: &K,
    sample: impl Fn(&mut StreamRng) -> M::State,
    statistics: [impl Fn(&M::State) -> f64; N],
    steps: usize,
    chains: usize,
    seed: u64,
) -> Result<[Check; N]>
where
    M: Intermediate,
    K: TransitionKernel<M>,
{
    Error::check_at_least("chains", chains, 2)?;
    Error::check_at_least("steps", steps, 1)?;
    // These moves stay at one model, without a path. It is the only loop over moves outside of `Population`.
    let stage = Stage::new(1, model, model);
    let values = |state: &M::State| statistics.each_ref().map(|statistic| statistic(state));
    let mut differences = [Moments::default(); N];
    let mut rngs = successive(stream(seed, Purpose::TESTING, 0));
    for first in (0..chains).step_by(BLOCK) {
        let mut rngs: Vec<_> = rngs.by_ref().take(BLOCK.min(chains - first)).collect();
        let states: Vec<_> = rngs.iter_mut().map(&sample).collect();
        let before: Vec<[f64; N]> = states.iter().map(values).collect();
        let mut block = Block::new(first, states, rngs).on_one_path();
        let mut workspace = K::Workspace::default();
        for _ in 0..steps {
            kernel.advance(stage, &mut block, &mut workspace)?;
        }
        let after = block.states().iter().map(values);
        let corrections = block.log_weights().iter();
        for ((before, after), correction) in before.iter().zip(after).zip(corrections) {
            let weight = correction.exp();
            for (i, difference) in differences.iter_mut().enumerate() {
                difference.add(weight * after[i] - before[i]);
            }
        }
    }
    Ok(differences.map(|values| Check::new(&values, 0.0)))
}

const BLOCK: usize = 128;

/// Checks whether `E[w] = Z_K / Z_0` along a path: the mean of `w Z_0 / Z_K` should be 1. `log_z_ratio` is the exact
/// `log(Z_K / Z_0)`: subtract the base's log Z from the target's. A mean of 0, or a huge one, may mean that
/// `log_z_ratio` was log Z itself. Use 3, 10 and 300 stages, and enough chains for a standard error of a few per cent. One stage does
/// not test a kernel without corrections, because its chains move after they are weighed.
///
/// # Errors
/// Fewer than two chains; any error of the run.
pub fn unbiasedness<P, K>(
    path: P,
    kernel: K,
    schedule: Schedule,
    log_z_ratio: f64,
    chains: usize,
    seed: u64,
) -> Result<Check>
where
    P: AnnealingPath + Send + Sync,
    P::State: Send,
    K: TransitionKernel<P::At> + Sync,
{
    Error::check_at_least("chains", chains, 2)?;
    let run = Ais::with_base_log_z(path, kernel, 0.0)
        .schedule(schedule)
        .chains(chains)
        .seed(seed)
        .run()?;
    let relative = |log_weight: &f64| (log_weight - log_z_ratio).exp();
    let weights = run.log_weights().iter().map(relative);
    Ok(Check::new(&Moments::from_iter(weights), 1.0))
}

/// Returns the largest difference between the model's gradient at `state` and central differences of its log density,
/// relative to `1 + |gradient|`. It is below 1e-6 for a right gradient. For a wrong gradient it is the relative error.
/// In single precision, rounding alone gives about 2e-5 times the log density. The model has to add half of its
/// gradient to a list that is not zero, which also finds a model that assigns instead of adding. The value returned
/// with the gradient counts too, relative to `1 + |log density|`.
///
/// # Errors
/// [`Error::InvalidArgument`] if the log density or the gradient at `state` is not finite; an error if `state` has
/// another dimension than the model.
pub fn gradient_error(model: &impl Differentiable, state: &DVector<f64>) -> Result<f64> {
    let expected = model.state_dimension().unwrap_or(state.len());
    Error::check_dimension("state", state.len(), expected)?;
    let log_density = model.log_density(state);
    Error::check_number("log density at the state", log_density)?;
    let others = DVector::from_element(state.len(), OTHERS);
    let (value, gradient) = added_gradient(model, state, &others);
    Error::check_number("log density beside the gradient", value)?;
    Error::check_finite("gradient at the state", gradient.iter().copied())?;
    let error = |i: usize| {
        // The cube root of epsilon balances truncation, of order step^2, and rounding, of order epsilon / step.
        let step = model.epsilon().cbrt() * (1.0 + state[i].abs());
        let difference = central_difference(model, state, i, step);
        (gradient[i] - difference).abs() / (1.0 + gradient[i].abs())
    };
    let of_value = (value - log_density).abs() / (1.0 + log_density.abs());
    Ok((0..state.len()).map(error).fold(of_value, f64::max))
}

/// Returns the largest difference between the model's [`log_density_change`](LocalDensity::log_density_change) and the
/// actual difference of its log densities, over `changes` of one state, relative to 1 plus the size of the actual
/// difference. It is about 1e-12, from rounding, if the changes are right. It is infinite if only one of the two is
/// `-inf`.
///
/// ```
/// # use annealed::kernel::LocalProposal;
/// # use annealed::model::{LocalDensity, UnnormalizedModel};
/// # use annealed::testing;
/// # use rand::Rng;
/// # struct Field;
/// # impl UnnormalizedModel for Field {
/// #     type State = [f64; 3];
/// #     fn log_density(&self, x: &[f64; 3]) -> f64 { x.iter().sum() }
/// # }
/// # impl LocalDensity<usize> for Field {
/// #     fn log_density_change(&self, x: &[f64; 3], &i: &usize) -> f64 { -2.0 * x[i] }
/// # }
/// # struct Flip;
/// # impl LocalProposal<[f64; 3]> for Flip {
/// #     type Change = usize;
/// #     fn propose<R: Rng + ?Sized>(&self, _: f64, _: &[f64; 3], _: &mut R) -> usize { 0 }
/// #     fn apply(&self, &i: &usize, x: &mut [f64; 3]) { x[i] = -x[i]; }
/// # }
/// // Each of three spins in a field, flipped.
/// let error = testing::change_error(&Field, &Flip, &[1.0, -1.0, 1.0], 0..3)?;
/// assert!(error < 1e-12, "{error}");
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidArgument`] if the log density of `state` is not finite, or a change of it is NaN or `+inf`.
pub fn change_error<S: Clone, Q: LocalProposal<S>>(
    model: &impl LocalDensity<Q::Change, State = S>,
    proposal: &Q,
    state: &S,
    changes: impl IntoIterator<Item = Q::Change>,
) -> Result<f64> {
    let before = model.log_density(state);
    Error::check_number("log density at the state", before)?;
    let error = |change: Q::Change| {
        let mut moved = state.clone();
        proposal.apply(&change, &mut moved);
        let expected = model.log_density(&moved) - before;
        let found = model.log_density_change(state, &change);
        let sound = found < f64::INFINITY && expected < f64::INFINITY;
        let about = format!("about {expected}");
        Error::check(sound, "log_density_change", found, about)?;
        Ok(match found == expected {
            true => 0.0,
            false if expected.is_finite() => (found - expected).abs() / (1.0 + expected.abs()),
            false => f64::INFINITY,
        })
    };
    let errors = changes.into_iter().map(error);
    errors
        .reduce(|one, other| Ok(one?.max(other?)))
        .unwrap_or(Ok(0.0))
}

#[cfg(all(test, feature = "checkpoint"))]
mod snapshots;
