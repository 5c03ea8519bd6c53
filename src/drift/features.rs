//! Features of a state, whose gradients span the drift modifiers that can be learned.

use nalgebra::DVector;

use crate::num::pairs;
use crate::{Error, Result};

/// Functions `phi_j` of a vector, whose gradients span the modifiers `G = sum_j c_j grad phi_j` among
/// which one is fitted.
pub trait Features {
    /// Dimension of the states.
    fn dimension(&self) -> usize;

    /// Number of features.
    fn count(&self) -> usize;

    /// Writes `sum_j c_j grad phi_j(x)` to `field`.
    fn field_into(
        &self,
        coefficients: &DVector<f64>,
        state: &DVector<f64>,
        field: &mut DVector<f64>,
    );

    /// Writes `div(p grad phi_j) / p = laplacian phi_j + grad phi_j . grad log p` at x to
    /// `generated`, one entry for each j.
    fn generator_into(
        &self,
        state: &DVector<f64>,
        log_density_gradient: &DVector<f64>,
        generated: &mut [f64],
    );
}

/// The coordinates, their products, and Gaussian bumps `exp(-|x - c|^2 / (2 l^2))` of several
/// widths l at several centres c.
///
/// The coordinates and products give the affine fields, which are exact between Gaussians. Bumps
/// placed at the modes of an objective, about as wide as the modes and wider, gather mass there.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BumpFeatures {
    dimension: usize,
    bumps: Vec<Bump>,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Bump {
    centre: DVector<f64>,
    /// `1 / l^2`.
    precision: f64,
}

impl BumpFeatures {
    /// The polynomials up to degree 2, and one bump of every width at every centre.
    ///
    /// # Errors
    /// A dimension of 0; a centre of another length or not finite; a width that is not finite and
    /// positive, or whose square is not.
    pub fn new(dimension: usize, centres: &[DVector<f64>], widths: &[f64]) -> Result<Self> {
        let mut bumps = Vec::new();
        for centre in centres {
            for &width in widths {
                Error::check_positive("width", width)?;
                bumps.push(Bump {
                    centre: centre.clone(),
                    precision: width.powi(-2),
                });
            }
        }
        Self::from_bumps(dimension, bumps)
    }

    fn from_bumps(dimension: usize, bumps: Vec<Bump>) -> Result<Self> {
        Error::check_at_least("dimension", dimension, 1)?;
        for Bump { centre, precision } in &bumps {
            Error::check_dimension("centre", centre.len(), dimension)?;
            Error::check_finite("centre", centre.iter().copied())?;
            Error::check_positive("precision of a bump", *precision)?;
        }
        Ok(Self { dimension, bumps })
    }

    fn polynomials(&self) -> usize {
        self.dimension * (self.dimension + 3) / 2
    }
}

impl Bump {
    /// The value, and the squared distance from the centre.
    fn at(&self, state: &DVector<f64>) -> (f64, f64) {
        let pairs = state.iter().zip(self.centre.iter());
        let distance: f64 = pairs.map(|(x, c)| (x - c) * (x - c)).sum();
        ((-0.5 * self.precision * distance).exp(), distance)
    }
}

impl Features for BumpFeatures {
    fn dimension(&self) -> usize {
        self.dimension
    }

    fn count(&self) -> usize {
        self.polynomials() + self.bumps.len()
    }

    fn field_into(
        &self,
        coefficients: &DVector<f64>,
        state: &DVector<f64>,
        field: &mut DVector<f64>,
    ) {
        let d = self.dimension;
        field.copy_from(&coefficients.rows(0, d));
        for ((i, j), &c) in pairs(d).zip(coefficients.iter().skip(d)) {
            field[i] += c * state[j];
            field[j] += c * state[i];
        }
        let bumps = coefficients.iter().skip(self.polynomials());
        for (bump, &c) in self.bumps.iter().zip(bumps) {
            let pull = -c * bump.precision * bump.at(state).0;
            field.axpy(pull, state, 1.0);
            field.axpy(-pull, &bump.centre, 1.0);
        }
    }

    fn generator_into(
        &self,
        state: &DVector<f64>,
        log_density_gradient: &DVector<f64>,
        generated: &mut [f64],
    ) {
        let (x, g, d) = (state, log_density_gradient, self.dimension);
        generated[..d].copy_from_slice(g.as_slice());
        for ((i, j), value) in pairs(d).zip(&mut generated[d..]) {
            let laplacian = if i == j { 2.0 } else { 0.0 };
            *value = laplacian + x[i] * g[j] + x[j] * g[i];
        }
        let along = g.dot(x);
        for (bump, value) in self.bumps.iter().zip(&mut generated[self.polynomials()..]) {
            let (height, distance) = bump.at(x);
            let curvature = bump.precision * distance - d as f64;
            let slope = along - g.dot(&bump.centre);
            *value = height * bump.precision * (curvature - slope);
        }
    }
}

crate::num::deserialize_checked! {
    BumpFeatures { dimension: usize, bumps: Vec<Bump> } => Self::from_bumps(dimension, bumps)
}
