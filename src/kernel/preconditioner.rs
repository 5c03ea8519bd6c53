//! Linear maps that shape proposals.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};

use crate::model::{Coordinates, Factorization, SquareMatrix, check_symmetric};
use crate::num::add_scaled;
use crate::{Error, Result};

/// A linear map `L(beta)` that shapes proposals. If `L L^T` is the covariance of the target at beta, the target has
/// covariance I in the coordinates `y = L^{-1} x` in which the kernel moves.
///
/// [`Tunable::preconditioned`](crate::kernel::Tunable::preconditioned) gives it to a kernel, whose step size is then
/// measured in the coordinates y. The kernel is invariant for any L. A poor L lowers the acceptance, but causes no
/// bias.
///
/// L(beta) is L at the nearest of the [knots](Self::knots), the lower one if two are equally near. Place knots so
/// that the scale changes by at most a fifth from one to the next, as [`Rounds`](crate::adaptive::Rounds) does.
///
/// ```
/// use annealed::kernel::Preconditioner;
/// use annealed::prelude::*;
/// use nalgebra::{dmatrix, dvector};
///
/// // The wide base is well served by steps of its deviations, the target by its covariance.
/// let base = Preconditioner::deviations(dvector![10.0, 10.0])?;
/// let target = Preconditioner::covariance(&dmatrix![1.0, 0.99; 0.99, 1.0])?;
/// let shape = Preconditioner::knots([(0.0, base), (1.0, target)])?;
/// let kernel = Mala::new(1.0)?.preconditioned(shape);
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Source: Roberts and Stramer (2002) for Langevin steps; Neal (2011), section 4.1, for Hamiltonian ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Preconditioner {
    /// At least one knot, with increasing betas. All factors have the same dimension.
    knots: Vec<Knot>,
}

#[derive(Debug, Clone, PartialEq)]
struct Knot {
    beta: f64,
    factor: Factor,
}

/// A lower triangular matrix with a positive diagonal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Factor(Arc<SquareMatrix>);

impl Preconditioner {
    /// Creates a map L that is the Cholesky factor of a covariance at every beta. Its product with a vector takes d^2
    /// operations, or d if the covariance is diagonal.
    ///
    /// # Errors
    /// If the matrix is empty, or not square, finite, symmetric and positive definite.
    pub fn covariance(covariance: &DMatrix<f64>) -> Result<Self> {
        let argument = "covariance";
        Error::check_not_empty(argument, covariance.nrows())?;
        let covariance = SquareMatrix::from(check_symmetric(argument, covariance)?);
        let factor = Factorization::new(argument, &covariance)?.into_factor();
        Factor::new(argument, factor).map(Self::constant)
    }

    /// Creates a map L that is the diagonal matrix of the coordinates' standard deviations at every beta.
    ///
    /// # Errors
    /// If there are no deviations, or a deviation is not finite and positive.
    pub fn deviations(deviations: DVector<f64>) -> Result<Self> {
        Factor::new("deviations", SquareMatrix::Diagonal(deviations)).map(Self::constant)
    }

    /// Creates a map from pairs `(beta, preconditioner)`. At a knot it equals the knot's preconditioner at that beta.
    ///
    /// # Errors
    /// If there is no knot, the betas do not increase strictly within `[0, 1]`, or the dimensions differ.
    pub fn knots(knots: impl IntoIterator<Item = (f64, Preconditioner)>) -> Result<Self> {
        let factor = |(beta, at): (f64, Preconditioner)| Ok((beta, at.at(beta).clone()));
        Self::of_factors(knots.into_iter().map(factor))
    }

    fn of_factors(knots: impl IntoIterator<Item = Result<(f64, Factor)>>) -> Result<Self> {
        let mut valid: Vec<Knot> = Vec::new();
        for knot in knots {
            let (beta, factor) = knot?;
            let increases = valid.last().is_none_or(|last| last.beta < beta);
            let expected = "strictly increasing values in [0, 1]";
            let fits = (0.0..=1.0).contains(&beta) && increases;
            Error::check(fits, "beta of a preconditioner", beta, expected)?;
            if let Some(first) = valid.first() {
                let expected = first.factor.dimension();
                Error::check_dimension("preconditioner", factor.dimension(), expected)?;
            }
            valid.push(Knot { beta, factor });
        }
        Error::check_not_empty("preconditioner", valid.len())?;
        Ok(Self { knots: valid })
    }

    fn constant(factor: Factor) -> Self {
        let knot = Knot { beta: 0.0, factor };
        Self { knots: vec![knot] }
    }

    /// Returns the dimension of the states that it fits.
    pub fn dimension(&self) -> usize {
        self.knots[0].factor.dimension()
    }

    pub(super) fn at(&self, beta: f64) -> &Factor {
        let next = self.knots.partition_point(|knot| knot.beta <= beta);
        let nearest = match (next.checked_sub(1), self.knots.get(next)) {
            (None, _) => 0,
            (Some(last), None) => last,
            (Some(left), Some(right)) => {
                let right_is_nearer = right.beta - beta < beta - self.knots[left].beta;
                left + usize::from(right_is_nearer)
            }
        };
        &self.knots[nearest].factor
    }

    /// Refuses states whose dimension is not the preconditioner's, if there is one.
    pub(super) fn check(preconditioner: Option<&Self>, states: &[impl Coordinates]) -> Result<()> {
        let Some(preconditioner) = preconditioner else {
            return Ok(());
        };
        let dimension = preconditioner.dimension();
        let mut found = states.iter().map(|state| state.coordinates().len());
        match found.find(|&found| found != dimension) {
            None => Ok(()),
            Some(other) => Error::check_dimension("preconditioner", dimension, other),
        }
    }
}

impl Factor {
    /// Creates a factor from a lower triangular matrix.
    ///
    /// # Errors
    /// If the matrix has no rows, is not lower triangular and finite, or has a diagonal that is not positive.
    fn new(argument: &'static str, factor: SquareMatrix) -> Result<Self> {
        let diagonal = match &factor {
            SquareMatrix::Diagonal(diagonal) => diagonal.clone(),
            SquareMatrix::Dense(matrix) => {
                Error::check_finite(argument, matrix.iter().copied())?;
                Error::check_dimension(argument, matrix.ncols(), matrix.nrows())?;
                let lower = matrix.lower_triangle() == *matrix;
                let found = "entries above the diagonal";
                Error::check(lower, argument, found, "a lower triangular matrix")?;
                matrix.diagonal()
            }
        };
        Error::check_not_empty(argument, diagonal.len())?;
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let entries = diagonal.iter().copied().enumerate();
        let expected = "finite numbers above 0";
        Error::check_each(argument, "index", entries, positive, expected)?;
        Ok(Self(Arc::new(factor)))
    }

    fn dimension(&self) -> usize {
        match &*self.0 {
            SquareMatrix::Diagonal(diagonal) => diagonal.len(),
            SquareMatrix::Dense(matrix) => matrix.nrows(),
        }
    }

    /// Computes `y <- L y`; panics if the dimensions differ.
    pub(super) fn times(&self, y: &mut DVector<f64>) {
        self.demand_dimension(y);
        match &*self.0 {
            SquareMatrix::Diagonal(diagonal) => y.component_mul_assign(diagonal),
            // The last column first: a column adds only to entries below its own, which are done.
            SquareMatrix::Dense(matrix) => {
                for j in (0..y.len()).rev() {
                    let (diagonal, below) = column_below(matrix, j);
                    let (upper, lower) = y.as_mut_slice().split_at_mut(j + 1);
                    add_scaled(lower, upper[j], below);
                    upper[j] *= diagonal;
                }
            }
        }
    }

    /// Computes `y <- L^T y`; panics if the dimensions differ.
    pub(super) fn transpose_times(&self, y: &mut DVector<f64>) {
        self.demand_dimension(y);
        match &*self.0 {
            SquareMatrix::Diagonal(diagonal) => y.component_mul_assign(diagonal),
            SquareMatrix::Dense(matrix) => {
                // The first entry first: entry j of the product needs only the old entries from j on.
                for j in 0..y.len() {
                    let height = y.len() - j;
                    y[j] = matrix.column(j).rows(j, height).dot(&y.rows(j, height));
                }
            }
        }
    }

    fn demand_dimension(&self, y: &DVector<f64>) {
        let (found, expected) = (self.dimension(), y.len());
        assert!(
            found == expected,
            "a preconditioner of dimension {found} met a state of dimension {expected}"
        );
    }
}

/// Returns the diagonal entry of column `j` of a lower triangular matrix, and the entries below it.
fn column_below(matrix: &DMatrix<f64>, j: usize) -> (f64, &[f64]) {
    let rows = matrix.nrows();
    let column = &matrix.as_slice()[j * rows + j..(j + 1) * rows];
    (column[0], &column[1..])
}

crate::num::deserialize_checked! {
    Preconditioner as (knots: Vec<(f64, SquareMatrix)>) => Self::of_factors(
        knots.into_iter().map(|(beta, factor)| {
            Ok((beta, Factor::new("factor of a preconditioner", factor)?))
        }),
    )
}
// Pairs of beta and factor.
crate::num::serialize_as! {
    Preconditioner as this (
        this.knots
            .iter()
            .map(|knot| (knot.beta, &*knot.factor.0))
            .collect::<Vec<_>>()
    )
}
