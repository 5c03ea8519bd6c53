//! The multivariate Gaussian.

use std::f64::consts::TAU;

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use rand::Rng;

use crate::model::quadratic::QuadraticForm;
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
/// Densities, gradients and conditionals allocate nothing. They cost `d^2` operations, or d where the
/// precision matrix is diagonal. They panic where the state does not have the model's dimension.
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
    covariance: DMatrix<f64>,
    /// A matrix A with `A A' = Sigma`.
    factor: DMatrix<f64>,
    log_normalizer: f64,
}

impl Gaussian {
    /// `N(mean, covariance)`.
    ///
    /// # Errors
    /// A mean of length 0; sizes that differ; entries that are not finite; a covariance that is
    /// not symmetric (to 1e-9 of its largest entry), or not positive definite, or whose inverse
    /// overflows.
    pub fn new(mean: DVector<f64>, covariance: DMatrix<f64>) -> Result<Self> {
        let covariance = check("covariance", &mean, covariance)?;
        let cholesky = factorize("covariance", &covariance)?;
        let precision = inverse("covariance", &cholesky)?;
        Ok(Self {
            log_normalizer: log_volume(mean.len()) + half_log_determinant(&cholesky),
            factor: cholesky.unpack(),
            form: QuadraticForm::new(mean, precision),
            covariance,
        })
    }

    /// `N(mean, precision^-1)`.
    ///
    /// # Errors
    /// As [`new`](Self::new), of the precision matrix.
    pub fn from_precision(mean: DVector<f64>, precision: DMatrix<f64>) -> Result<Self> {
        let precision = check("precision", &mean, precision)?;
        let cholesky = factorize("precision", &precision)?;
        Self::from_factorized_precision(mean, precision, &cholesky)
    }

    fn from_factorized_precision(
        mean: DVector<f64>,
        precision: DMatrix<f64>,
        cholesky: &Cholesky<f64, Dyn>,
    ) -> Result<Self> {
        let d = mean.len();
        // With P = L L', the inverse transpose of L is a factor of the covariance.
        let mut factor = DMatrix::identity(d, d);
        let solved = cholesky
            .l_dirty()
            .tr_solve_lower_triangular_mut(&mut factor);
        debug_assert!(solved, "a Cholesky factor has no zero on its diagonal");
        Ok(Self {
            covariance: inverse("precision", cholesky)?,
            log_normalizer: log_volume(d) - half_log_determinant(cholesky),
            factor,
            form: QuadraticForm::new(mean, precision),
        })
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
        self.mean().len()
    }

    /// The mean `mu`.
    pub fn mean(&self) -> &DVector<f64> {
        self.form.mean()
    }

    /// The covariance `Sigma`.
    pub fn covariance(&self) -> &DMatrix<f64> {
        &self.covariance
    }

    /// The precision `Sigma^-1`.
    pub fn precision(&self) -> &DMatrix<f64> {
        self.form.precision()
    }

    /// A matrix A with `A A' = Sigma`.
    pub(crate) fn factor(&self) -> &DMatrix<f64> {
        &self.factor
    }
}

/// Checks sizes, finiteness and symmetry, and removes what asymmetry rounding left.
fn check(
    argument: &'static str,
    mean: &DVector<f64>,
    matrix: DMatrix<f64>,
) -> Result<DMatrix<f64>> {
    let d = mean.len();
    Error::check_not_empty("mean", d)?;
    Error::check_dimension(argument, matrix.nrows(), d)?;
    Error::check_dimension(argument, matrix.ncols(), d)?;
    Error::check_finite("mean", mean.iter().copied())?;
    Error::check_finite(argument, matrix.iter().copied())?;
    let asymmetry = (&matrix - matrix.transpose()).amax();
    let symmetric = asymmetry <= 1e-9 * matrix.amax();
    let found = format!("entries that differ by {asymmetry} from their mirror image");
    Error::check(symmetric, argument, found, "a symmetric matrix")?;
    Ok(symmetrized(matrix))
}

fn symmetrized(matrix: DMatrix<f64>) -> DMatrix<f64> {
    // Halved before the sum, which might overflow.
    DMatrix::from_fn(matrix.nrows(), matrix.ncols(), |i, j| {
        0.5 * matrix[(i, j)] + 0.5 * matrix[(j, i)]
    })
}

/// The Cholesky factorisation of a finite symmetric matrix, with zeros above the factor.
fn factorize(argument: &'static str, matrix: &DMatrix<f64>) -> Result<Cholesky<f64, Dyn>> {
    let (found, expected) = (
        "a matrix without Cholesky factor",
        "a positive definite matrix",
    );
    let cholesky = Cholesky::new(matrix.clone());
    let cholesky = cholesky.ok_or_else(|| Error::invalid(argument, found, expected))?;
    Ok(Cholesky::pack_dirty(cholesky.unpack()))
}

fn inverse(argument: &'static str, cholesky: &Cholesky<f64, Dyn>) -> Result<DMatrix<f64>> {
    let inverse = symmetrized(cholesky.inverse());
    let finite = inverse.iter().all(|x| x.is_finite());
    let (found, expected) = (
        "a matrix whose inverse overflows",
        "a matrix farther from singular",
    );
    Error::check(finite, argument, found, expected)?;
    Ok(inverse)
}

fn log_volume(dimension: usize) -> f64 {
    0.5 * dimension as f64 * TAU.ln()
}

/// `log |A| / 2`, from the factorisation of A.
fn half_log_determinant(cholesky: &Cholesky<f64, Dyn>) -> f64 {
    // Not half the log of the determinant, which may overflow.
    let diagonal = cholesky.l_dirty().diagonal();
    diagonal.iter().map(|l| l.ln()).sum()
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
}

impl NormalizedModel for Gaussian {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl Sampleable for Gaussian {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let mut noise = DVector::zeros(self.dimension());
        StandardNormal::get().fill(noise.as_mut_slice(), rng);
        let mut state = self.mean().clone();
        state.gemv(1.0, &self.factor, &noise, 1.0);
        state
    }
}

/// `eta = (P mu; -P_ii / 2 and -P_ij)` and `g(x) = (x; x_i^2 and x_i x_j)` with `P = Sigma^-1`,
/// the pairs `i <= j` row by row. Since `log f(x) = eta . g(x) - mu' P mu / 2`, the log partition
/// function of the family in its natural form is `log Z + mu' P mu / 2`.
impl ExponentialFamily for Gaussian {
    fn natural_parameters(&self) -> DVector<f64> {
        let linear = self.precision() * self.mean();
        let quadratic = pairs(self.dimension()).map(|(i, j)| {
            let half = if i == j { 0.5 } else { 1.0 };
            -half * self.precision()[(i, j)]
        });
        stacked(&linear, quadratic)
    }

    fn sufficient_statistics(&self, state: &DVector<f64>) -> DVector<f64> {
        stacked(state, pairs(state.len()).map(|(i, j)| state[i] * state[j]))
    }

    fn moments(&self) -> DVector<f64> {
        let mean = self.mean();
        let second =
            pairs(self.dimension()).map(|(i, j)| self.covariance[(i, j)] + mean[i] * mean[j]);
        stacked(mean, second)
    }

    fn log_partition(&self) -> f64 {
        let mean = self.mean();
        self.log_normalizer + 0.5 * mean.dot(&(self.precision() * mean))
    }

    fn with_natural_parameters(&self, eta: &DVector<f64>) -> Result<Self> {
        let (linear, precision) = unstacked("natural parameters", eta, self.dimension(), {
            |i, j, value, _| if i == j { -2.0 * value } else { -value }
        })?;
        let cholesky = factorize("precision", &precision)?;
        let mean = cholesky.solve(&linear);
        Error::check_finite("mean", mean.iter().copied())?;
        Self::from_factorized_precision(mean, precision, &cholesky)
    }

    /// In closed form. Second moments lose digits where the mean is far from 0 beside the
    /// deviations.
    fn with_moments(&self, moments: &DVector<f64>) -> Result<Self> {
        let (mean, covariance) = unstacked("moments", moments, self.dimension(), {
            |i, j, second, mean| second - mean[i] * mean[j]
        })?;
        Self::new(mean, covariance).map_err(|_| {
            Error::invalid(
                "moments",
                "second moments without a positive definite covariance",
                "moments of a Gaussian",
            )
        })
    }
}

/// The reverse of [`stacked`]: the first d entries, and a symmetric matrix with `entry(i, j, value,
/// first)` for the value of each pair `i <= j`.
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
    Gaussian { mean: DVector<f64>, covariance: DMatrix<f64> } => Self::new(mean, covariance)
}
crate::num::serialize_as! {
    Gaussian as gaussian { mean: gaussian.form.mean(), covariance: gaussian.covariance }
}
