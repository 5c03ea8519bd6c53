//! The multivariate Gaussian.

use std::f64::consts::TAU;

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::{
    Differentiable, ExponentialFamily, FullConditionals, NormalizedModel, Sampleable,
    UnnormalizedModel,
};
use crate::error::{Error, Result};

/// The Gaussian `N(mu, Sigma)` over `R^d`, with the unnormalised density
///
/// `log f(x) = -(x - mu)' Sigma^-1 (x - mu) / 2`, `log Z = (d log 2 pi + log |Sigma|) / 2`.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameters", into = "Parameters"))]
pub struct Gaussian {
    mean: DVector<f64>,
    covariance: DMatrix<f64>,
    precision: DMatrix<f64>,
    /// A matrix A with `A A' = Sigma`.
    factor: DMatrix<f64>,
    log_normalizer: f64,
}

impl Gaussian {
    /// `N(mean, covariance)`.
    ///
    /// # Errors
    /// A mean of length 0; sizes that differ; entries that are not finite; a covariance that is
    /// not symmetric (to 1e-9 of its largest entry) or not positive definite.
    pub fn new(mean: DVector<f64>, covariance: DMatrix<f64>) -> Result<Self> {
        check("covariance", &mean, &covariance)?;
        let cholesky = factorize("covariance", &covariance)?;
        Ok(Self {
            precision: cholesky.inverse(),
            log_normalizer: log_volume(mean.len()) + half_log_determinant(&cholesky),
            factor: cholesky.l(),
            covariance,
            mean,
        })
    }

    /// `N(mean, precision^-1)`.
    ///
    /// # Errors
    /// As [`new`](Self::new), of the precision matrix.
    pub fn from_precision(mean: DVector<f64>, precision: DMatrix<f64>) -> Result<Self> {
        check("precision", &mean, &precision)?;
        let cholesky = factorize("precision", &precision)?;
        Ok(Self::from_factorized_precision(mean, precision, &cholesky))
    }

    /// From `P mu` and a precision P that is known to be positive definite; were it not so in
    /// floating point, every density would be NaN.
    pub(crate) fn from_precision_unchecked(linear: DVector<f64>, precision: DMatrix<f64>) -> Self {
        let cholesky = Cholesky::new_unchecked(precision.clone());
        Self::from_factorized_precision(cholesky.solve(&linear), precision, &cholesky)
    }

    /// `mu' P mu / 2`.
    pub(crate) fn half_energy_of_mean(&self) -> f64 {
        0.5 * self.mean.dot(&(&self.precision * &self.mean))
    }

    fn from_factorized_precision(
        mean: DVector<f64>,
        precision: DMatrix<f64>,
        cholesky: &Cholesky<f64, Dyn>,
    ) -> Self {
        let d = mean.len();
        // With P = L L', the inverse transpose of L is a factor of the covariance.
        let inverse = cholesky
            .l()
            .solve_lower_triangular(&DMatrix::identity(d, d));
        let factor = inverse
            .unwrap_or_else(|| DMatrix::from_element(d, d, f64::NAN))
            .transpose();
        Self {
            covariance: cholesky.inverse(),
            log_normalizer: log_volume(d) - half_log_determinant(cholesky),
            factor,
            precision,
            mean,
        }
    }

    /// `N(0, I)` in `dimension` dimensions.
    ///
    /// # Errors
    /// Where `dimension` is 0.
    pub fn standard(dimension: usize) -> Result<Self> {
        Self::isotropic(DVector::zeros(dimension), 1.0)
    }

    /// `N(mean, deviation^2 I)`.
    ///
    /// # Errors
    /// A mean of length 0 or not finite; a deviation that is not finite and positive.
    pub fn isotropic(mean: DVector<f64>, deviation: f64) -> Result<Self> {
        Error::check_positive("deviation", deviation)?;
        let d = mean.len();
        Self::new(mean, DMatrix::identity(d, d) * (deviation * deviation))
    }

    /// Dimension d.
    pub fn dimension(&self) -> usize {
        self.mean.len()
    }

    /// The mean `mu`.
    pub fn mean(&self) -> &DVector<f64> {
        &self.mean
    }

    /// The covariance `Sigma`.
    pub fn covariance(&self) -> &DMatrix<f64> {
        &self.covariance
    }

    /// The precision `Sigma^-1`.
    pub fn precision(&self) -> &DMatrix<f64> {
        &self.precision
    }
}

fn check(argument: &'static str, mean: &DVector<f64>, matrix: &DMatrix<f64>) -> Result<()> {
    let d = mean.len();
    if d == 0 {
        return Err(Error::invalid(
            "mean",
            "length 0",
            "at least one coordinate",
        ));
    }
    Error::check_dimension(argument, matrix.nrows(), d)?;
    Error::check_dimension(argument, matrix.ncols(), d)?;
    Error::check_finite("mean", mean.iter().copied())?;
    Error::check_finite(argument, matrix.iter().copied())?;
    let asymmetry = (matrix - matrix.transpose()).amax();
    if asymmetry > 1e-9 * matrix.amax() {
        let value = format!("entries that differ by {asymmetry} from their mirror image");
        return Err(Error::invalid(argument, value, "a symmetric matrix"));
    }
    Ok(())
}

fn factorize(argument: &'static str, matrix: &DMatrix<f64>) -> Result<Cholesky<f64, Dyn>> {
    Cholesky::new(matrix.clone()).ok_or_else(|| {
        let smallest = matrix.symmetric_eigenvalues().min();
        let value = format!("a matrix with an eigenvalue of {smallest}");
        Error::invalid(argument, value, "a positive definite matrix")
    })
}

fn log_volume(dimension: usize) -> f64 {
    0.5 * dimension as f64 * TAU.ln()
}

/// `log |A| / 2`, from the factorisation of A.
fn half_log_determinant(cholesky: &Cholesky<f64, Dyn>) -> f64 {
    0.5 * cholesky.ln_determinant()
}

impl UnnormalizedModel for Gaussian {
    type State = DVector<f64>;

    /// # Panics
    /// Where the state does not have the model's dimension.
    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let (x, mean) = (&state.as_slice()[..self.dimension()], self.mean.as_slice());
        let mut sum = 0.0;
        for (j, column) in self.precision.as_slice().chunks_exact(x.len()).enumerate() {
            let mut row = 0.5 * column[j] * (x[j] - mean[j]);
            for i in j + 1..x.len() {
                row += column[i] * (x[i] - mean[i]);
            }
            sum += row * (x[j] - mean[j]);
        }
        -sum
    }
}

impl NormalizedModel for Gaussian {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl Sampleable for Gaussian {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let noise = DVector::from_fn(self.dimension(), |_, _| rng.sample(StandardNormal));
        let mut state = self.mean.clone();
        state.gemv(1.0, &self.factor, &noise, 1.0);
        state
    }
}

impl Differentiable for Gaussian {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (x, mean) = (&state.as_slice()[..self.dimension()], self.mean.as_slice());
        let gradient = &mut gradient.as_mut_slice()[..x.len()];
        let mut sum = 0.0;
        for (j, column) in self.precision.as_slice().chunks_exact(x.len()).enumerate() {
            let mut row = 0.0;
            for i in 0..x.len() {
                row += column[i] * (x[i] - mean[i]);
            }
            gradient[j] -= scale * row;
            sum += row * (x[j] - mean[j]);
        }
        -0.5 * sum
    }
}

/// `eta = (P mu; -P_ii / 2 and -P_ij)` and `g(x) = (x; x_i^2 and x_i x_j)` with `P = Sigma^-1`,
/// the pairs `i <= j` row by row. `log f(x) = eta . g(x) - mu' P mu / 2`, so that the log
/// partition function of the family in its natural form is `log Z + mu' P mu / 2`.
impl ExponentialFamily for Gaussian {
    fn natural_parameters(&self) -> DVector<f64> {
        let linear = &self.precision * &self.mean;
        let quadratic = pairs(self.dimension()).map(|(i, j)| {
            let half = if i == j { 0.5 } else { 1.0 };
            -half * self.precision[(i, j)]
        });
        stacked(&linear, quadratic)
    }

    fn sufficient_statistics(&self, state: &DVector<f64>) -> DVector<f64> {
        stacked(state, pairs(state.len()).map(|(i, j)| state[i] * state[j]))
    }

    fn moments(&self) -> DVector<f64> {
        let second = pairs(self.dimension())
            .map(|(i, j)| self.covariance[(i, j)] + self.mean[i] * self.mean[j]);
        stacked(&self.mean, second)
    }

    fn with_natural_parameters(&self, eta: &DVector<f64>) -> Result<Self> {
        let d = self.dimension();
        Error::check_dimension("natural parameters", eta.len(), d + d * (d + 1) / 2)?;
        let mut precision = DMatrix::zeros(d, d);
        for ((i, j), &value) in pairs(d).zip(eta.iter().skip(d)) {
            let entry = if i == j { -2.0 * value } else { -value };
            precision[(i, j)] = entry;
            precision[(j, i)] = entry;
        }
        let linear = eta.rows(0, d).into_owned();
        check("precision", &linear, &precision)?;
        let cholesky = factorize("precision", &precision)?;
        let mean = cholesky.solve(&linear);
        Ok(Self::from_factorized_precision(mean, precision, &cholesky))
    }
}

/// The pairs `i <= j` below d, row by row.
fn pairs(d: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..d).flat_map(move |i| (i..d).map(move |j| (i, j)))
}

fn stacked(first: &DVector<f64>, rest: impl Iterator<Item = f64>) -> DVector<f64> {
    DVector::from_iterator(
        first.len() + first.len() * (first.len() + 1) / 2,
        first.iter().copied().chain(rest),
    )
}

impl FullConditionals for Gaussian {
    fn coordinates(&self) -> usize {
        self.dimension()
    }

    /// `x_i` given the others is `N(mu_i - sum_{j != i} P_ij (x_j - mu_j) / P_ii, 1 / P_ii)`.
    fn sample_coordinate<R: Rng + ?Sized>(
        &self,
        state: &mut DVector<f64>,
        index: usize,
        rng: &mut R,
    ) {
        let column = self.precision.column(index);
        let own = column[index];
        let mut pull = -own * (state[index] - self.mean[index]);
        for j in 0..state.len() {
            pull += column[j] * (state[j] - self.mean[j]);
        }
        let noise: f64 = rng.sample(StandardNormal);
        state[index] = self.mean[index] - pull / own + noise / own.sqrt();
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Parameters {
    mean: DVector<f64>,
    covariance: DMatrix<f64>,
}

#[cfg(feature = "serde")]
impl TryFrom<Parameters> for Gaussian {
    type Error = Error;

    fn try_from(parameters: Parameters) -> Result<Self> {
        Self::new(parameters.mean, parameters.covariance)
    }
}

#[cfg(feature = "serde")]
impl From<Gaussian> for Parameters {
    fn from(gaussian: Gaussian) -> Self {
        Self {
            mean: gaussian.mean,
            covariance: gaussian.covariance,
        }
    }
}
