//! Distributions fitted to weighted states.

use nalgebra::{DMatrix, DVector};

use crate::model::redundant::check_free;
use crate::model::{
    Bernoulli, Gaussian, NormalizedModel, Sampleable, SquareMatrix, StudentT, UnnormalizedModel,
};
use crate::{Error, Result};

/// A distribution that can be fitted to weighted states, to serve as base for the target from which the states come.
///
/// The weights are not negative. Their sum is the number of independent states that carry as much information.
///
/// ```
/// use annealed::model::{Fit, StudentT};
/// use annealed::prelude::*;
/// use rand::SeedableRng;
///
/// let rng = &mut rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
/// let law = StudentT::new(Gaussian::isotropic(DVector::from_element(2, 3.0), 0.5)?, 4.0)?;
/// let states: Vec<_> = (0..5_000).map(|_| law.sample(rng)).collect();
/// let fitted = StudentT::fit(&states, &[1.0; 5_000])?;
/// assert!((fitted.gaussian().mean() - law.gaussian().mean()).amax() < 0.1);
/// assert!(fitted.degrees_of_freedom() <= 10.0);
/// # Ok::<(), annealed::Error>(())
/// ```
pub trait Fit: Sampleable + NormalizedModel + Sized {
    /// Returns the distribution fitted to the states.
    ///
    /// # Errors
    /// Too few states, or states that do not vary; coordinates of which one is computed from others, by their indices;
    /// states of different lengths; a number of weights that differs from the number of states.
    fn fit(states: &[Self::State], weights: &[f64]) -> Result<Self>;

    /// Returns the coordinates of a state. Bridge sampling warns of a coordinate in which chains mix slowly. The provided
    /// method returns none.
    fn coordinates(state: &Self::State) -> &[f64] {
        let _ = state;
        &[]
    }

    /// Returns this distribution after a step of expectation maximisation towards the states. The provided method fits
    /// a new distribution.
    ///
    /// A distribution with k parameters fitted to n states loses about `k / (2 n)` nats. If this loss is large,
    /// override the method and shrink the new parameters, either towards the present ones or towards a common value.
    /// Let that value count as a few additional states. In a Potts model the noise of 240 free parameters hid the
    /// phases.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    fn refit(&self, states: &[Self::State], weights: &[f64]) -> Result<Self> {
        let _ = self;
        Self::fit(states, weights)
    }
}

/// Returns the sum of the weights. Refuses a wrong number of weights, and weights that are negative or not finite. All
/// states must have the length `of_law`, or the length of the first state if `of_law` is `None`.
fn check(
    mut lengths: impl ExactSizeIterator<Item = usize>,
    weights: &[f64],
    of_law: Option<usize>,
) -> Result<f64> {
    let count = lengths.len();
    Error::check_not_empty("states", count)?;
    Error::check_dimension("weights", weights.len(), count)?;
    let expected = "numbers that are not negative";
    for &weight in weights {
        let is_weight = (0.0..f64::INFINITY).contains(&weight);
        Error::check(is_weight, "weights", weight, expected)?;
    }
    let length = of_law.or_else(|| lengths.next()).unwrap_or(0);
    lengths.try_for_each(|found| Error::check_dimension("a state", found, length))?;
    Ok(weights.iter().sum())
}

/// Refuses weights with a sum of 1 or less, since a fit needs more than one independent state.
fn check_sum(total: f64) -> Result<()> {
    let expected = "the number of states that they are worth, more than 1";
    Error::check(total > 1.0, "sum of the weights", total, expected)
}

/// Fewest states per dimension for a full covariance.
const FULL: usize = 4;
/// Most dimensions in which a full covariance is compared with a diagonal one.
const DENSE: usize = 200;
/// Relative addition to the variances of a full covariance. Without it, few distinct states make the covariance
/// singular.
const RIDGE: f64 = 1e-8;

/// The fit is a diagonal Gaussian, unless a full covariance matrix raises the log likelihood of the states by more than
/// `d (d - 1) / 2`, its number of additional parameters (Akaike 1974).
impl Fit for Gaussian {
    fn coordinates(state: &DVector<f64>) -> &[f64] {
        state.as_slice()
    }

    fn fit(states: &[DVector<f64>], weights: &[f64]) -> Result<Self> {
        let count = check(states.iter().map(|state| state.len()), weights, None)?;
        check_sum(count)?;
        check_free(states)?;
        let states = Vec::from_iter(states);
        let none = || Error::invalid("states", "none that vary", "coordinates that vary");
        let diagonal = independent(&states, weights, 1.0).ok_or_else(none)?;
        let dimension = diagonal.dimension();
        if dimension > DENSE {
            return Ok(diagonal);
        }
        // The quadratic forms of the states have the same sum under both fits, so only the normalisers differ.
        let gain = |dense: &Self| count * (diagonal.log_normalizer() - dense.log_normalizer());
        let covariances = 0.5 * (dimension * (dimension - 1)) as f64;
        let dense = gaussian(&states, weights, 1.0).filter(|dense| gain(dense) > covariances);
        Ok(dense.unwrap_or(diagonal))
    }

    /// Makes the same step as a [`StudentT`] with infinite degrees of freedom, which is a Gaussian.
    fn refit(&self, states: &[DVector<f64>], weights: &[f64]) -> Result<Self> {
        let law = StudentT::new(self.clone(), f64::INFINITY)?;
        Ok(law.refit(states, weights)?.gaussian().clone())
    }
}

/// Returns the Gaussian with the mean of weighted states and `scale` times their covariance. The covariance is full if
/// there are enough states, and diagonal otherwise. Returns `None` if a coordinate does not vary.
pub(crate) fn gaussian(states: &[&DVector<f64>], weights: &[f64], scale: f64) -> Option<Gaussian> {
    let (total, dimension) = (weights.iter().sum::<f64>(), states.first()?.len());
    if total < (FULL * dimension) as f64 {
        return independent(states, weights, scale);
    }
    let mean = mean(states, weights, total);
    let scale = scale / (total - 1.0);
    let mut covariance = DMatrix::zeros(dimension, dimension);
    let deviations = states.iter().map(|&state| state - &mean);
    for (deviation, weight) in deviations.zip(weights.iter().map(|weight| scale * weight)) {
        covariance.ger(weight, &deviation, &deviation, 1.0);
    }
    covariance.set_diagonal(&(covariance.diagonal() * (1.0 + RIDGE)));
    Gaussian::new(mean, covariance).ok()
}

/// Returns the Gaussian with independent coordinates that has the means of weighted states, and `scale` times their
/// variances; `None` if a coordinate does not vary.
fn independent(states: &[&DVector<f64>], weights: &[f64], scale: f64) -> Option<Gaussian> {
    let total: f64 = weights.iter().sum();
    let mean = mean(states, weights, total);
    let scale = scale / (total - 1.0);
    let mut variances = DVector::zeros(mean.len());
    for (&state, weight) in states.iter().zip(weights) {
        variances += (state - &mean).map(|x| scale * weight * x * x);
    }
    Gaussian::diagonal(mean, variances).ok()
}

/// Returns the mean of weighted states whose weights sum to `total`.
pub(crate) fn mean(states: &[&DVector<f64>], weights: &[f64], total: f64) -> DVector<f64> {
    let mut mean = DVector::zeros(states[0].len());
    for (state, weight) in states.iter().zip(weights) {
        mean.axpy(weight / total, state, 1.0);
    }
    mean
}

/// Degrees of freedom that are tried.
const DEGREES: [f64; 4] = [30.0, 10.0, 5.0, 3.0];
/// Least gain in the log likelihood of the states at which fewer degrees of freedom are preferred.
const GAIN: f64 = 3.0;
/// Number of updates of a scale matrix. Each update raises the likelihood.
const UPDATES: usize = 30;
/// Number of states as which the present centre and scale matrix count in a step of expectation maximisation. A full
/// scale matrix counts as at least one state per row.
const PRIOR_STATES: f64 = 4.0;
/// Largest ratio of a coordinate's variance to its conditional variance given the others. If a ratio is larger, the
/// rounding of the precision matrix matters.
const NARROWED: f64 = 1e10;

impl StudentT {
    /// Returns `gaussian`, or a Student t around it if fewer degrees of freedom are clearly likelier. The weights sum
    /// to 1 and stand for `count` states. Both distributions are compared at their likeliest scales, so only the tails
    /// decide.
    pub(crate) fn likeliest(
        gaussian: Gaussian,
        count: f64,
        weighted: &[(f64, &DVector<f64>)],
    ) -> Result<Self> {
        let likelihood = |law: &Self| {
            let log_p = |x| law.log_density(x) - law.log_normalizer();
            count * weighted.iter().map(|(w, x)| w * log_p(x)).sum::<f64>()
        };
        let distance = |x| -2.0 * gaussian.log_density(x);
        let distances = Vec::from_iter(weighted.iter().map(|(w, x)| (*w, distance(x))));
        let scaled = |nu| {
            let scale = likeliest_scale(nu, gaussian.dimension(), &distances);
            Self::new(gaussian.scaled(scale)?, nu)
        };
        let mut highest = likelihood(&scaled(f64::INFINITY)?) + GAIN;
        let mut best = Self::new(gaussian.clone(), f64::INFINITY)?;
        for nu in DEGREES {
            let law = scaled(nu)?;
            let found = likelihood(&law);
            if found > highest {
                (best, highest) = (law, found);
            }
        }
        Ok(best)
    }

    /// Creates the distribution. Refuses a scale matrix in which the other coordinates almost determine one, as in the
    /// neck of a funnel, because rounding then makes the density differ from the distribution of the samples.
    pub(crate) fn exact(gaussian: Gaussian, degrees_of_freedom: f64) -> Result<Self> {
        if let SquareMatrix::Dense(precision) = gaussian.form().precision() {
            let variances = gaussian.covariance().diagonal();
            let narrowed = variances.component_mul(&precision.diagonal()).max();
            let expected = "variances narrowed by less than 1e10 by other coordinates";
            Error::check(narrowed < NARROWED, "states", narrowed, expected)?;
        }
        Self::new(gaussian, degrees_of_freedom)
    }
}

/// Returns the likeliest factor c of a scale matrix, given weights and squared distances q in units of the matrix. It
/// iterates `c = sum_i w_i q_i (nu + d) / (nu + q_i / c) / d` (expectation maximisation; Liu and Rubin 1995).
fn likeliest_scale(nu: f64, dimension: usize, distances: &[(f64, f64)]) -> f64 {
    let d = dimension as f64;
    let pull = |q: f64, scale: f64| match nu.is_finite() {
        true => (nu + d) / (nu + q / scale),
        false => 1.0,
    };
    (0..UPDATES).fold(1.0, |scale: f64, _| {
        let terms = distances.iter().map(|(w, q)| w * q * pull(*q, scale));
        terms.sum::<f64>() / d
    })
}

/// The degrees of freedom are infinite, unless 30, 10, 5 or 3 make the states clearly likelier.
impl Fit for StudentT {
    fn coordinates(state: &DVector<f64>) -> &[f64] {
        state.as_slice()
    }

    fn fit(states: &[DVector<f64>], weights: &[f64]) -> Result<Self> {
        let gaussian = Gaussian::fit(states, weights)?;
        let count = weights.iter().sum::<f64>();
        let shares = weights.iter().map(|weight| weight / count);
        let law = Self::likeliest(gaussian, count, &Vec::from_iter(shares.zip(states)))?;
        Self::exact(law.gaussian().clone(), law.degrees_of_freedom())
    }

    /// Returns the distribution after a step of expectation maximisation (Peel and McLachlan 2000). The present centre
    /// and scale matrix count as a few states. A diagonal scale matrix stays diagonal.
    fn refit(&self, states: &[DVector<f64>], weights: &[f64]) -> Result<Self> {
        let gaussian = self.gaussian();
        let lengths = states.iter().map(|state| state.len());
        let count = check(lengths, weights, Some(gaussian.dimension()))?;
        // A heavy tail gives little weight to distant states.
        let pairs = states
            .iter()
            .zip(weights)
            .filter(|(_, weight)| **weight > 0.0);
        let pull = |x| self.pull(gaussian.log_density(x));
        let pulled: Vec<(&DVector<f64>, f64)> = pairs.map(|(x, w)| (x, w * pull(x))).collect();
        let all: f64 = pulled.iter().map(|(_, pull)| pull).sum();
        let form = gaussian.form().precision();
        let prior = match form {
            SquareMatrix::Diagonal(_) => PRIOR_STATES,
            _ => PRIOR_STATES.max(gaussian.dimension() as f64),
        };
        let mut mean = gaussian.mean() * (prior / (prior + all));
        for (x, pull) in &pulled {
            mean.axpy(pull / (prior + all), x, 1.0);
        }
        let share = |weight: f64| weight / (prior + count);
        let deviations = pulled.iter().map(|(x, pull)| (*x - &mean, share(*pull)));
        let gaussian = match form {
            SquareMatrix::Diagonal(precision) => {
                let mut variances = precision.map(|x| share(prior) / x);
                for (deviation, share) in deviations {
                    variances += deviation.component_mul(&deviation) * share;
                }
                Gaussian::diagonal(mean, variances)
            }
            _ => {
                let mut covariance = gaussian.covariance() * share(prior);
                for (deviation, share) in deviations {
                    covariance.ger(share, &deviation, &deviation, 1.0);
                }
                Gaussian::new(mean, covariance)
            }
        };
        Self::exact(gaussian?, self.degrees_of_freedom())
    }
}

/// The fit adds one state to the given states: half a state of ones and half a state of zeros.
impl Fit for Bernoulli {
    fn fit(states: &[Vec<bool>], weights: &[f64]) -> Result<Self> {
        let lengths = states.iter().map(Vec::len);
        check(lengths, weights, None)?;
        let ones = DVector::from_element(states[0].len(), 0.5);
        with_ones(ones, states, weights)
    }

    /// Returns the bits fitted to the states, with the present probabilities counted as one state.
    fn refit(&self, states: &[Vec<bool>], weights: &[f64]) -> Result<Self> {
        let lengths = states.iter().map(Vec::len);
        check(lengths, weights, Some(self.logits().len()))?;
        let ones = self.logits().map(|logit| 1.0 / (1.0 + (-logit).exp()));
        with_ones(ones, states, weights)
    }
}

/// Returns independent bits fitted to weighted states and one more state. The entries of `ones`, between 0 and 1, are
/// the bits of this state.
fn with_ones(mut ones: DVector<f64>, states: &[Vec<bool>], weights: &[f64]) -> Result<Bernoulli> {
    for (state, weight) in states.iter().zip(weights) {
        for (ones, bit) in ones.iter_mut().zip(state) {
            *ones += if *bit { *weight } else { 0.0 };
        }
    }
    let count = 1.0 + weights.iter().sum::<f64>();
    Bernoulli::from_probabilities(&(ones / count))
}

#[cfg(test)]
mod tests {
    use nalgebra::dvector;

    use super::*;
    use crate::random::{Purpose, stream};

    #[test]
    fn a_law_whose_coordinates_become_one_is_refused() {
        let of = |off: f64| {
            let covariance = DMatrix::from_row_slice(2, 2, &[1.0, 1.0 - off, 1.0 - off, 1.0]);
            StudentT::exact(Gaussian::new(dvector![0.0, 0.0], covariance).unwrap(), 5.0)
        };
        assert!(of(1e-9).is_ok() && of(1e-11).is_err());
    }

    #[test]
    fn few_states_leave_a_full_scale_matrix_most_of_its_old_variance() {
        let scale = DMatrix::from_row_slice(2, 2, &[2.0, 0.5, 0.5, 1.0]);
        let gaussian = Gaussian::new(dvector![1.0, -1.0], scale.clone()).unwrap();
        let base = StudentT::new(gaussian, 5.0).unwrap();
        let same = base.refit(&[dvector![9.0, 9.0]], &[0.0]).unwrap();
        assert!((same.gaussian().covariance() - &scale).norm() < 1e-12);
        // A state at the centre has a pull of 7 / 5. The centre stays, and four fifths of the scale matrix remain.
        let held = base.refit(&[dvector![1.0, -1.0]], &[1.0]).unwrap();
        assert!((held.gaussian().mean() - dvector![1.0, -1.0]).norm() < 1e-12);
        assert!((held.gaussian().covariance() - scale * 0.8).norm() < 1e-12);
    }

    #[test]
    fn laws_are_fitted_to_their_samples() {
        let covariance = DMatrix::from_row_slice(2, 2, &[4.0, 1.8, 1.8, 1.0]);
        let gaussian = Gaussian::new(dvector![1.0, -1.0], covariance.clone()).unwrap();
        for nu in [f64::INFINITY, 3.0] {
            let law = StudentT::new(gaussian.clone(), nu).unwrap();
            let mut rng = stream(1, Purpose::TESTING, 0);
            let states = Vec::from_iter((0..20_000).map(|_| law.sample(&mut rng)));
            let found = StudentT::fit(&states, &[1.0; 20_000]).unwrap();
            assert_eq!(found.degrees_of_freedom(), nu);
            assert!((found.gaussian().mean() - gaussian.mean()).amax() < 0.05);
            assert!((found.gaussian().covariance() - &covariance).amax() < 0.15);
        }
        let bits = Bernoulli::from_probabilities(&dvector![0.9, 0.2]).unwrap();
        let mut rng = stream(2, Purpose::TESTING, 0);
        let states = Vec::from_iter((0..20_000).map(|_| bits.sample(&mut rng)));
        let found = Bernoulli::fit(&states, &[1.0; 20_000]).unwrap();
        assert!((found.logits() - bits.logits()).amax() < 0.1);
    }

    #[test]
    fn states_and_weights_that_do_not_fit_are_refused() {
        let states = [dvector![1.0, 2.0], dvector![0.0, 1.0], dvector![3.0, 0.0]];
        let short = [states[0].clone(), dvector![1.0], states[2].clone()];
        let bits = [vec![true, false], vec![true]];
        let law = StudentT::fit(&states, &[1.0; 3]).unwrap();
        for weights in [
            &[1.0; 2][..],
            &[1.0; 4],
            &[1.0, -1.0, 5.0],
            &[f64::NAN; 3],
            &[0.2; 3],
        ] {
            assert!(StudentT::fit(&states, weights).is_err(), "{weights:?}");
            assert!(Gaussian::fit(&states, weights).is_err(), "{weights:?}");
        }
        assert!(StudentT::fit(&short, &[1.0; 3]).is_err() && law.refit(&short, &[1.0; 3]).is_err());
        assert!(law.refit(&[dvector![1.0]], &[1.0]).is_err());
        assert!(Bernoulli::fit(&bits, &[1.0; 2]).is_err() && Bernoulli::fit(&[], &[]).is_err());
    }

    #[test]
    fn states_that_do_not_vary_are_refused() {
        let still = vec![dvector![1.0, 2.0]; 20];
        assert!(Gaussian::fit(&still, &[1.0; 20]).is_err());
        assert!(StudentT::fit(&[], &[]).is_err());
    }

    /// Many copies of two states, as after resampling without a move.
    #[test]
    fn few_distinct_states_have_a_density() {
        let two = [dvector![0.0, 0.1], dvector![0.7, 0.3]];
        let copies: Vec<_> = (0..100).map(|i| &two[i % 2]).collect();
        let thin = gaussian(&copies, &[1.0; 100], 1.0).unwrap();
        let mut rng = stream(1, Purpose::TESTING, 0);
        for _ in 0..100 {
            let log_density = thin.log_density(&thin.sample(&mut rng));
            assert!(-20.0 < log_density && log_density <= 0.0, "{log_density}");
        }
        let few = gaussian(&copies[..7], &[1.0; 7], 1.0).unwrap();
        assert_eq!(few.covariance()[(0, 1)], 0.0);
    }
}
