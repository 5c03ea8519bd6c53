//! The multivariate Gaussian.

use std::f64::consts::TAU;

use nalgebra::{Cholesky, DMatrix, DVector};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::quadratic::QuadraticForm;
use super::{
    Differentiable, ExponentialFamily, FullConditionals, NormalizedModel, Sampleable,
    UnnormalizedModel,
};
use crate::error::{Error, Result};

/// A Gaussian over `R^d`, in the unnormalised form `log f(x) = -1/2 (x - mu)^T P (x - mu)`,
/// so that `log Z = d/2 log(2 pi) - 1/2 log |P|`.
///
/// It is held by its precision matrix `P = Sigma^-1` and the Cholesky factor of `P`: densities,
/// gradients and conditionals are products with `P`, and nothing is allocated for them. Where
/// `P` is diagonal they cost d instead of d^2.
///
/// Methods that take a state panic where its length is not [`dimension`](Self::dimension).
///
/// ```
/// use annealed::model::{Gaussian, NormalizedModel, UnnormalizedModel};
/// use nalgebra::{dmatrix, dvector};
///
/// let model = Gaussian::new(dvector![1.0, 2.0], dmatrix![2.0, 0.5; 0.5, 1.0])?;
/// assert_eq!(model.log_density(&dvector![1.0, 2.0]), 0.0);
/// let log_z = (2.0 * std::f64::consts::PI).ln() + 0.5 * 1.75_f64.ln();
/// assert!((model.log_normalizer() - log_z).abs() < 1e-12);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameters", into = "Parameters"))]
pub struct Gaussian {
    form: QuadraticForm,
    /// Lower triangular L with `P = L L^T`.
    factor: DMatrix<f64>,
    log_normalizer: f64,
}

impl Gaussian {
    /// The Gaussian with this mean (d) and covariance matrix (d x d).
    ///
    /// # Errors
    /// Where the sizes disagree, an entry is not finite, or the covariance is not symmetric
    /// (to 1e-10 of the scale of its entries) or not positive definite.
    pub fn new(mean: DVector<f64>, covariance: DMatrix<f64>) -> Result<Self> {
        let covariance = check_symmetric("covariance", &mean, covariance)?;
        let inverse = factorize("covariance", covariance)?.inverse();
        Self::from_symmetric("covariance", mean, symmetrized(inverse))
    }

    /// The Gaussian with this mean (d) and precision matrix `P` (d x d), the inverse of the
    /// covariance.
    ///
    /// # Errors
    /// As [`new`](Self::new), for the precision matrix.
    pub fn from_precision(mean: DVector<f64>, precision: DMatrix<f64>) -> Result<Self> {
        let precision = check_symmetric("precision", &mean, precision)?;
        Self::from_symmetric("precision", mean, precision)
    }

    /// Independent coordinates with these means and variances.
    ///
    /// # Errors
    /// Where the lengths disagree, a mean is not finite or a variance not finite and positive.
    pub fn diagonal(mean: DVector<f64>, variances: DVector<f64>) -> Result<Self> {
        Error::check_dimension("variances", variances.len(), mean.len())?;
        for &variance in &variances {
            Error::check_positive("variance", variance)?;
        }
        Error::check_finite("mean", mean.iter().copied())?;
        let precision = DMatrix::from_diagonal(&variances.map(f64::recip));
        Self::from_symmetric("variances", mean, precision)
    }

    /// Independent coordinates with these means and one variance.
    ///
    /// # Errors
    /// Where a mean is not finite or the variance not finite and positive.
    pub fn isotropic(mean: DVector<f64>, variance: f64) -> Result<Self> {
        let variances = DVector::from_element(mean.len(), variance);
        Self::diagonal(mean, variances)
    }

    /// `N(0, I)` in this many dimensions.
    pub fn standard(dimension: usize) -> Self {
        Self {
            form: QuadraticForm::new(
                DVector::zeros(dimension),
                DMatrix::identity(dimension, dimension),
            ),
            factor: DMatrix::identity(dimension, dimension),
            log_normalizer: 0.5 * dimension as f64 * TAU.ln(),
        }
    }

    /// The one constructor behind the others; `argument` is what the user gave.
    fn from_symmetric(
        argument: &'static str,
        mean: DVector<f64>,
        precision: DMatrix<f64>,
    ) -> Result<Self> {
        let factor = factorize(argument, precision.clone())?.unpack();
        let log_determinant = 2.0 * factor.diagonal().iter().map(|l| l.ln()).sum::<f64>();
        Ok(Self {
            log_normalizer: 0.5 * (mean.len() as f64 * TAU.ln() - log_determinant),
            form: QuadraticForm::new(mean, precision),
            factor,
        })
    }

    /// Number of coordinates d.
    pub fn dimension(&self) -> usize {
        self.mean().len()
    }

    /// The mean `mu`.
    pub fn mean(&self) -> &DVector<f64> {
        self.form.mean()
    }

    /// The precision matrix `P`.
    pub fn precision(&self) -> DMatrix<f64> {
        self.form.precision()
    }

    /// The covariance matrix `Sigma`, inverted anew from the precision matrix.
    pub fn covariance(&self) -> DMatrix<f64> {
        symmetrized(Cholesky::pack_dirty(self.factor.clone()).inverse())
    }

    pub(crate) fn form(&self) -> &QuadraticForm {
        &self.form
    }

    /// Lower triangular L with `P = L L^T`.
    pub(crate) fn factor(&self) -> &DMatrix<f64> {
        &self.factor
    }
}

impl UnnormalizedModel for Gaussian {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.form.value(state)
    }
}

impl NormalizedModel for Gaussian {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl Sampleable for Gaussian {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        // L^-T z has covariance (L L^T)^-1.
        let mut x = DVector::from_fn(self.dimension(), |_, _| rng.sample(StandardNormal));
        let solved = self.factor.tr_solve_lower_triangular_mut(&mut x);
        debug_assert!(solved, "a Cholesky factor has no zero on its diagonal");
        x + self.mean()
    }
}

impl Differentiable for Gaussian {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.form.accumulate_gradient(state, scale, gradient)
    }
}

impl FullConditionals for Gaussian {
    fn coordinates(&self) -> usize {
        self.dimension()
    }

    fn sample_coordinate<R: Rng + ?Sized>(
        &self,
        state: &mut DVector<f64>,
        index: usize,
        rng: &mut R,
    ) {
        self.form.sample_coordinate(state, index, rng)
    }
}

/// Natural parameters and sufficient statistics in one layout of `d + d (d + 1) / 2` numbers:
///
/// - `eta`: `P mu`; then for each column j of the lower triangle `-1/2 P_jj` and `-P_ij`, i > j;
/// - `g(x)`: `x`; then for each column j `x_j^2` and `x_i x_j`, i > j.
///
/// The centred form of `f` carries the factor `e^{-1/2 mu^T P mu}`, free of x but not of eta:
/// `log f(x) = eta . g(x) - 1/2 mu^T P mu`. Hence the log partition function whose gradient the
/// moments are is `A(eta) = log Z + 1/2 mu^T P mu`, with `log Z` the
/// [`log_normalizer`](NormalizedModel::log_normalizer).
impl ExponentialFamily for Gaussian {
    fn natural_parameters(&self) -> DVector<f64> {
        let precision = self.precision();
        stacked(&(&precision * self.mean()), |i, j| {
            precision[(i, j)] * if i == j { -0.5 } else { -1.0 }
        })
    }

    fn sufficient_statistics(&self, state: &DVector<f64>) -> DVector<f64> {
        stacked(state, |i, j| state[i] * state[j])
    }

    fn moments(&self) -> DVector<f64> {
        let (mean, covariance) = (self.mean(), self.covariance());
        stacked(mean, |i, j| covariance[(i, j)] + mean[i] * mean[j])
    }

    fn with_natural_parameters(&self, eta: &DVector<f64>) -> Result<Self> {
        let d = self.dimension();
        Error::check_dimension("natural parameters", eta.len(), d + d * (d + 1) / 2)?;
        Error::check_finite("natural parameters", eta.iter().copied())?;
        let mut precision = DMatrix::zeros(d, d);
        let triangle = (0..d).flat_map(|j| (j..d).map(move |i| (i, j)));
        for ((i, j), &value) in triangle.zip(eta.iter().skip(d)) {
            let entry = if i == j { -2.0 * value } else { -value };
            precision[(i, j)] = entry;
            precision[(j, i)] = entry;
        }
        let mean = factorize("natural parameters", precision.clone())?.solve(&eta.rows(0, d));
        Self::from_symmetric("natural parameters", mean.into_owned(), precision)
    }
}

/// A vector of length d, then the lower triangle of a symmetric matrix, column by column.
fn stacked(linear: &DVector<f64>, quadratic: impl Fn(usize, usize) -> f64) -> DVector<f64> {
    let d = linear.len();
    let triangle = (0..d).flat_map(|j| (j..d).map(move |i| (i, j)));
    DVector::from_iterator(
        d + d * (d + 1) / 2,
        linear
            .iter()
            .copied()
            .chain(triangle.map(|(i, j)| quadratic(i, j))),
    )
}

/// Checks sizes, finiteness and symmetry, and removes what asymmetry rounding left.
fn check_symmetric(
    argument: &'static str,
    mean: &DVector<f64>,
    matrix: DMatrix<f64>,
) -> Result<DMatrix<f64>> {
    if !matrix.is_square() {
        let shape = format!("{} x {}", matrix.nrows(), matrix.ncols());
        return Err(Error::invalid(argument, shape, "a square matrix"));
    }
    Error::check_dimension(argument, matrix.nrows(), mean.len())?;
    Error::check_finite("mean", mean.iter().copied())?;
    Error::check_finite(argument, matrix.iter().copied())?;
    for j in 0..matrix.ncols() {
        for i in 0..j {
            let (above, below) = (matrix[(i, j)], matrix[(j, i)]);
            let scale = matrix[(i, i)].abs().sqrt() * matrix[(j, j)].abs().sqrt();
            if (above - below).abs() > 1e-10 * scale {
                return Err(Error::invalid(
                    argument,
                    format!("{above} at ({i}, {j}) and {below} at ({j}, {i})"),
                    "a symmetric matrix",
                ));
            }
        }
    }
    Ok(symmetrized(matrix))
}

fn symmetrized(matrix: DMatrix<f64>) -> DMatrix<f64> {
    // Halved before the sum, which might overflow.
    DMatrix::from_fn(matrix.nrows(), matrix.ncols(), |i, j| {
        0.5 * matrix[(i, j)] + 0.5 * matrix[(j, i)]
    })
}

/// The Cholesky factorisation of a symmetric matrix.
fn factorize(argument: &'static str, matrix: DMatrix<f64>) -> Result<Cholesky<f64, nalgebra::Dyn>> {
    Cholesky::new(matrix)
        .filter(|cholesky| cholesky.l_dirty().diagonal().iter().all(|l| l.is_finite()))
        .ok_or_else(|| {
            Error::invalid(
                argument,
                "a matrix without Cholesky factor",
                "a positive definite matrix, not too close to singular",
            )
        })
}

/// What a Gaussian is stored as.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Parameters {
    mean: DVector<f64>,
    precision: DMatrix<f64>,
}

#[cfg(feature = "serde")]
impl TryFrom<Parameters> for Gaussian {
    type Error = Error;

    fn try_from(parameters: Parameters) -> Result<Self> {
        Self::from_precision(parameters.mean, parameters.precision)
    }
}

#[cfg(feature = "serde")]
impl From<Gaussian> for Parameters {
    fn from(gaussian: Gaussian) -> Self {
        Self {
            precision: gaussian.precision(),
            mean: gaussian.mean().clone(),
        }
    }
}
