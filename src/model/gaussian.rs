//! The multivariate Gaussian.

use std::f64::consts::TAU;

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::model::quadratic::QuadraticForm;
use crate::model::square::{Factorization, SquareMatrix, check_symmetric};
use crate::model::{
    ExponentialFamily, NormalizedModel, Sampleable, UnnormalizedModel, forward_model,
};
use crate::num::pairs;
use crate::random::StandardNormal;
use crate::{Error, Result};

/// The Gaussian `N(mu, Sigma)` over `R^d`, with the unnormalised density
///
/// `log f(x) = -(x - mu)' Sigma^-1 (x - mu) / 2`, `log Z = (d log 2 pi + log |Sigma|) / 2`.
///
/// A density, gradient or conditional allocates nothing. It costs `d^2` operations, or d if the covariance is diagonal.
/// All panic if the state has another dimension.
///
/// ```
/// use annealed::model::{Gaussian, NormalizedModel, UnnormalizedModel};
/// use nalgebra::{dmatrix, dvector};
///
/// let model = Gaussian::new(dvector![1.0, 0.0], dmatrix![4.0, 0.0; 0.0, 1.0])?;
/// assert_eq!(model.log_density(&dvector![3.0, 1.0]), -1.0);
/// let tau = std::f64::consts::TAU;
/// assert!((model.log_normalizer() - (2.0 * tau).ln()).abs() < 1e-12);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian {
    form: QuadraticForm,
    covariance: SquareMatrix,
    /// A matrix A with `A A' = Sigma`.
    factor: SquareMatrix,
    log_normalizer: f64,
}

impl Gaussian {
    /// Creates `N(mean, covariance)`.
    ///
    /// # Errors
    /// An empty mean; sizes that differ; entries that are not finite; a covariance that is not symmetric (to 1e-9 of
    /// its largest entry), not positive definite, or whose inverse overflows.
    pub fn new(mean: DVector<f64>, covariance: DMatrix<f64>) -> Result<Self> {
        check_mean("covariance", &mean, covariance.nrows())?;
        let covariance = check_symmetric("covariance", &covariance)?;
        Self::from_covariance("covariance", mean, covariance.into())
    }

    /// Creates `N(mean, precision^-1)`.
    ///
    /// # Errors
    /// As [`new`](Self::new), for the precision matrix.
    pub fn from_precision(mean: DVector<f64>, precision: DMatrix<f64>) -> Result<Self> {
        check_mean("precision", &mean, precision.nrows())?;
        let precision = check_symmetric("precision", &precision)?.into();
        let factorization = Factorization::new("precision", &precision)?;
        Self::from_factorized_precision(mean, precision, &factorization)
    }

    fn from_covariance(
        argument: &'static str,
        mean: DVector<f64>,
        covariance: SquareMatrix,
    ) -> Result<Self> {
        let factorization = Factorization::new(argument, &covariance)?;
        let precision = factorization.inverse(argument)?;
        Ok(Self {
            log_normalizer: log_volume(mean.len()) + factorization.half_log_determinant(),
            factor: factorization.into_factor(),
            form: QuadraticForm::new(mean, precision),
            covariance,
        })
    }

    fn from_factorized_precision(
        mean: DVector<f64>,
        precision: SquareMatrix,
        factorization: &Factorization,
    ) -> Result<Self> {
        Ok(Self {
            covariance: factorization.inverse("precision")?,
            log_normalizer: log_volume(mean.len()) - factorization.half_log_determinant(),
            factor: factorization.inverse_factor(),
            form: QuadraticForm::new(mean, precision),
        })
    }

    /// Creates `N(0, I)` in `dimension` dimensions.
    ///
    /// # Errors
    /// A `dimension` of 0, above 2^30 or too large for the memory.
    pub fn standard(dimension: usize) -> Result<Self> {
        Error::check_count("dimension", dimension, 0)?;
        let mut mean = Error::reserved("dimension", dimension)?;
        mean.resize(dimension, 0.0);
        Self::isotropic(mean.into(), 1.0)
    }

    /// Creates `N(mean, deviation^2 I)`.
    ///
    /// # Errors
    /// A mean that is empty or not finite; a deviation that is not finite and positive.
    pub fn isotropic(mean: DVector<f64>, deviation: f64) -> Result<Self> {
        Error::check_positive("deviation", deviation)?;
        let variances = DVector::from_element(mean.len(), deviation * deviation);
        Self::with_variances("covariance", mean, variances)
    }

    /// Creates `N(mean, diag(variances))`.
    ///
    /// # Errors
    /// An empty mean; lengths that differ; infinite or NaN entries; variances not positive or with infinite inverse.
    pub fn diagonal(mean: DVector<f64>, variances: DVector<f64>) -> Result<Self> {
        Self::with_variances("variances", mean, variances)
    }

    fn with_variances(
        argument: &'static str,
        mean: DVector<f64>,
        variances: DVector<f64>,
    ) -> Result<Self> {
        check_mean(argument, &mean, variances.len())?;
        Error::check_finite(argument, variances.iter().copied())?;
        Self::from_covariance(argument, mean, SquareMatrix::Diagonal(variances))
    }

    /// Returns the Gaussian with `factor` times the covariance.
    pub(crate) fn scaled(&self, factor: f64) -> Result<Self> {
        let covariance = self.covariance.blend(factor, 0.0, &self.covariance);
        Self::from_covariance("covariance", self.mean().clone(), covariance)
    }

    /// Returns the dimension d.
    pub fn dimension(&self) -> usize {
        self.mean().len()
    }

    /// Returns the mean `mu`.
    pub fn mean(&self) -> &DVector<f64> {
        self.form.mean()
    }

    /// Returns the covariance `Sigma`, with all d^2 entries.
    pub fn covariance(&self) -> DMatrix<f64> {
        self.covariance.to_dense()
    }

    /// Returns the precision `Sigma^-1`, with all d^2 entries.
    pub fn precision(&self) -> DMatrix<f64> {
        self.form.precision().to_dense()
    }

    pub(super) fn covariance_times(&self, x: &DVector<f64>) -> DVector<f64> {
        self.covariance.times(x)
    }

    pub(crate) fn factor(&self) -> &SquareMatrix {
        &self.factor
    }

    pub(crate) fn form(&self) -> &QuadraticForm {
        &self.form
    }
}

/// Checks a mean, and the number of rows or variances beside it.
fn check_mean(argument: &'static str, mean: &DVector<f64>, size: usize) -> Result<()> {
    Error::check_not_empty("mean", mean.len())?;
    Error::check_dimension(argument, size, mean.len())?;
    Error::check_finite("mean", mean.iter().copied())
}

fn log_volume(dimension: usize) -> f64 {
    0.5 * dimension as f64 * TAU.ln()
}

forward_model! {
    [] Gaussian as QuadraticForm, self => self.form; Differentiable FullConditionals
}

impl UnnormalizedModel for Gaussian {
    type State = DVector<f64>;

    #[inline]
    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.form.log_density(state)
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.dimension())
    }

    /// Returns true in fewer than eight dimensions.
    fn evaluates_batches(&self) -> bool {
        self.form.evaluates_batches()
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        self.form.log_densities(states, log_densities);
    }
}

impl NormalizedModel for Gaussian {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl Sampleable for Gaussian {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let mut noise = DVector::zeros(self.dimension());
        StandardNormal::get().fill(noise.as_mut_slice(), rng);
        let mut state = self.mean().clone();
        match &self.factor {
            SquareMatrix::Diagonal(deviations) => state += deviations.component_mul(&noise),
            SquareMatrix::Dense(factor) => state.gemv(1.0, factor, &noise, 1.0),
        }
        state
    }
}

/// Uses `eta = (P mu; -P_ii / 2 and -P_ij)` and `g(x) = (x; x_i^2 and x_i x_j)` with `P = Sigma^-1`, the pairs `i <= j`
/// row by row. The log partition function is `A = log Z + mu' P mu / 2`.
impl ExponentialFamily for Gaussian {
    fn natural_parameters(&self) -> DVector<f64> {
        let linear = self.form.precision().times(self.mean());
        let quadratic = pairs(self.dimension()).map(|(i, j)| {
            // A pair off the diagonal stands for two equal entries of the matrix.
            let half = if i == j { 0.5 } else { 1.0 };
            -half * self.form.precision().entry(i, j)
        });
        stacked(&linear, quadratic)
    }

    fn sufficient_statistics(&self, state: &DVector<f64>) -> DVector<f64> {
        stacked(state, pairs(state.len()).map(|(i, j)| state[i] * state[j]))
    }

    fn moments(&self) -> DVector<f64> {
        let mean = self.mean();
        let second =
            pairs(self.dimension()).map(|(i, j)| self.covariance.entry(i, j) + mean[i] * mean[j]);
        stacked(mean, second)
    }

    fn log_partition(&self) -> f64 {
        let mean = self.mean();
        self.log_normalizer + 0.5 * mean.dot(&self.form.precision().times(mean))
    }

    fn with_natural_parameters(&self, eta: &DVector<f64>) -> Result<Self> {
        let (linear, precision) = unstacked("natural parameters", eta, self.dimension(), {
            |i, j, value, _| if i == j { -2.0 * value } else { -value }
        })?;
        let precision = precision.into();
        let factorization = Factorization::new("precision", &precision)?;
        let mean = factorization.solve(&linear);
        Error::check_finite("mean", mean.iter().copied())?;
        Self::from_factorized_precision(mean, precision, &factorization)
    }

    /// Returns the Gaussian with these moments. It loses digits if the mean is large relative to the deviations.
    fn with_moments(&self, moments: &DVector<f64>) -> Result<Self> {
        let (mean, covariance) = unstacked("moments", moments, self.dimension(), {
            |i, j, second, mean| second - mean[i] * mean[j]
        })?;
        let found = "second moments without a positive definite covariance";
        let refusal = |_| Error::invalid("moments", found, "moments of a Gaussian");
        Self::new(mean, covariance).map_err(refusal)
    }
}

/// Splits `values` into a vector of d entries and a symmetric matrix, computed by `entry` for pairs `i <= j`.
fn unstacked(
    argument: &'static str,
    values: &DVector<f64>,
    d: usize,
    entry: impl Fn(usize, usize, f64, &DVector<f64>) -> f64,
) -> Result<(DVector<f64>, DMatrix<f64>)> {
    Error::check_dimension(argument, values.len(), d + d * (d + 1) / 2)?;
    Error::check_finite(argument, values.iter().copied())?;
    let first = values.rows(0, d).into_owned();
    let mut matrix = DMatrix::zeros(d, d);
    for ((i, j), &value) in pairs(d).zip(values.iter().skip(d)) {
        matrix[(i, j)] = entry(i, j, value, &first);
        matrix[(j, i)] = matrix[(i, j)];
    }
    Ok((first, matrix))
}

fn stacked(first: &DVector<f64>, rest: impl Iterator<Item = f64>) -> DVector<f64> {
    DVector::from_iterator(
        first.len() + first.len() * (first.len() + 1) / 2,
        first.iter().copied().chain(rest),
    )
}

crate::num::deserialize_checked! {
    Gaussian { mean: DVector<f64>, covariance: SquareMatrix } => match covariance {
        SquareMatrix::Diagonal(variances) => Self::diagonal(mean, variances),
        SquareMatrix::Dense(matrix) => Self::new(mean, matrix),
    }
}
crate::num::serialize_as! {
    Gaussian as gaussian { mean: gaussian.mean(), covariance: gaussian.covariance }
}
