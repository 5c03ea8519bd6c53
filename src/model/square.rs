//! Square matrices. A diagonal matrix holds d numbers instead of d^2.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use crate::{Error, Result};

/// A square matrix. If all other entries are 0, only its diagonal is stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SquareMatrix {
    Diagonal(DVector<f64>),
    Dense(DMatrix<f64>),
}

impl From<DMatrix<f64>> for SquareMatrix {
    fn from(matrix: DMatrix<f64>) -> Self {
        let d = matrix.nrows();
        let zero = |i: usize, j: usize| i == j || matrix[(i, j)] == 0.0;
        match (0..d).all(|j| (0..d).all(|i| zero(i, j))) {
            true => Self::Diagonal(matrix.diagonal()),
            false => Self::Dense(matrix),
        }
    }
}

impl SquareMatrix {
    pub(crate) fn entry(&self, i: usize, j: usize) -> f64 {
        match self {
            Self::Diagonal(diagonal) if i == j => diagonal[i],
            Self::Diagonal(_) => 0.0,
            Self::Dense(matrix) => matrix[(i, j)],
        }
    }

    pub(crate) fn to_dense(&self) -> DMatrix<f64> {
        match self {
            Self::Diagonal(diagonal) => DMatrix::from_diagonal(diagonal),
            Self::Dense(matrix) => matrix.clone(),
        }
    }

    pub(crate) fn times(&self, x: &DVector<f64>) -> DVector<f64> {
        match self {
            Self::Diagonal(diagonal) => diagonal.component_mul(x),
            Self::Dense(matrix) => matrix * x,
        }
    }

    pub(crate) fn transpose_times(&self, x: &DVector<f64>) -> DVector<f64> {
        match self {
            Self::Diagonal(diagonal) => diagonal.component_mul(x),
            Self::Dense(matrix) => matrix.tr_mul(x),
        }
    }

    /// Returns `a self + b other`.
    pub(crate) fn blend(&self, a: f64, b: f64, other: &Self) -> Self {
        match (self, other) {
            (Self::Diagonal(x), Self::Diagonal(y)) => Self::Diagonal(x * a + y * b),
            (x, y) => (x.to_dense() * a + y.to_dense() * b).into(),
        }
    }
}

// A diagonal matrix is written as the column of its diagonal.
crate::num::deserialize_checked! {
    SquareMatrix as (matrix: crate::num::serial::Matrix) => Ok(match matrix.0.ncols() {
        1 => Self::Diagonal(matrix.0.column(0).into_owned()),
        _ => Self::Dense(matrix.0),
    })
}
crate::num::serialize_as! {
    SquareMatrix as matrix (match matrix {
        Self::Diagonal(diagonal) => DMatrix::from_column_slice(diagonal.len(), 1, diagonal.as_slice()),
        Self::Dense(matrix) => matrix.clone(),
    })
}

/// The Cholesky factorisation of a symmetric positive definite matrix.
pub(crate) enum Factorization {
    /// The diagonal of the factor.
    Diagonal(DVector<f64>),
    /// The factor, with zeros above the diagonal.
    Dense(Cholesky<f64, Dyn>),
}

impl Factorization {
    /// Factorises `matrix`, which must be finite and symmetric.
    ///
    /// # Errors
    /// A matrix that is not positive definite.
    pub(crate) fn new(argument: &'static str, matrix: &SquareMatrix) -> Result<Self> {
        let factorization = match matrix {
            SquareMatrix::Diagonal(diagonal) => {
                let positive = diagonal.iter().all(|&x| x > 0.0);
                positive.then(|| Self::Diagonal(diagonal.map(f64::sqrt)))
            }
            SquareMatrix::Dense(matrix) => Cholesky::new(matrix.clone())
                .map(|cholesky| Self::Dense(Cholesky::pack_dirty(cholesky.unpack()))),
        };
        let (found, expected) = (
            "a matrix without Cholesky factor",
            "a positive definite matrix",
        );
        factorization.ok_or_else(|| Error::invalid(argument, found, expected))
    }

    /// Returns the inverse of the factorised matrix.
    ///
    /// # Errors
    /// An inverse that overflows.
    pub(super) fn inverse(&self, argument: &'static str) -> Result<SquareMatrix> {
        let (inverse, finite) = match self {
            Self::Diagonal(factor) => {
                let inverse = factor.map(|l| l.recip() / l);
                let finite = inverse.iter().all(|x| x.is_finite());
                (SquareMatrix::Diagonal(inverse), finite)
            }
            Self::Dense(cholesky) => {
                let inverse = symmetrized(&cholesky.inverse());
                let finite = inverse.iter().all(|x| x.is_finite());
                (SquareMatrix::from(inverse), finite)
            }
        };
        let found = "a matrix whose inverse overflows";
        Error::check(finite, argument, found, "a matrix farther from singular")?;
        Ok(inverse)
    }

    /// Returns the lower triangular factor L, with `L L'` the matrix.
    pub(crate) fn into_factor(self) -> SquareMatrix {
        match self {
            Self::Diagonal(factor) => SquareMatrix::Diagonal(factor),
            Self::Dense(cholesky) => SquareMatrix::Dense(cholesky.unpack()),
        }
    }

    /// Returns the inverse transpose of the factor, which is a factor of the inverse matrix.
    pub(super) fn inverse_factor(&self) -> SquareMatrix {
        match self {
            Self::Diagonal(factor) => SquareMatrix::Diagonal(factor.map(f64::recip)),
            Self::Dense(cholesky) => {
                let lower = cholesky.l_dirty();
                let mut inverse = DMatrix::identity(lower.nrows(), lower.nrows());
                let solved = lower.tr_solve_lower_triangular_mut(&mut inverse);
                debug_assert!(solved, "a Cholesky factor has no zero on its diagonal");
                SquareMatrix::Dense(inverse)
            }
        }
    }

    pub(super) fn solve(&self, right: &DVector<f64>) -> DVector<f64> {
        match self {
            Self::Diagonal(factor) => right.component_div(factor).component_div(factor),
            Self::Dense(cholesky) => cholesky.solve(right),
        }
    }

    /// Returns half the log determinant. The determinant itself may overflow.
    pub(super) fn half_log_determinant(&self) -> f64 {
        match self {
            Self::Diagonal(factor) => factor.iter().map(|l| l.ln()).sum(),
            Self::Dense(cholesky) => cholesky.l_dirty().diagonal().iter().map(|l| l.ln()).sum(),
        }
    }
}

/// Returns the matrix, symmetric to the last bit.
///
/// # Errors
/// A matrix that is not square, finite and symmetric up to rounding.
pub(crate) fn check_symmetric(
    argument: &'static str,
    matrix: &DMatrix<f64>,
) -> Result<DMatrix<f64>> {
    Error::check_dimension(argument, matrix.ncols(), matrix.nrows())?;
    Error::check_finite(argument, matrix.iter().copied())?;
    let asymmetry = (matrix - matrix.transpose()).amax();
    let symmetric = asymmetry <= 1e-9 * matrix.amax();
    let found = format!("entries that differ by {asymmetry} from their mirror image");
    Error::check(symmetric, argument, found, "a symmetric matrix")?;
    Ok(symmetrized(matrix))
}

fn symmetrized(matrix: &DMatrix<f64>) -> DMatrix<f64> {
    // Each half is taken before the sum, because the sum might overflow.
    DMatrix::from_fn(matrix.nrows(), matrix.ncols(), |i, j| {
        0.5 * matrix[(i, j)] + 0.5 * matrix[(j, i)]
    })
}
