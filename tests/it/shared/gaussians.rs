//! Paths between two Gaussians.

use annealed::model::Gaussian;
use annealed::path::GeometricPath;
use nalgebra::{dmatrix, dvector};

pub type GaussianPair = GeometricPath<Gaussian, Gaussian>;

/// Returns a path to a narrow Gaussian that lies beside the base.
pub fn narrow_path() -> GaussianPair {
    let target = Gaussian::isotropic(dvector![1.0, -2.0], 0.5).unwrap();
    GeometricPath::new(Gaussian::standard(2).unwrap(), target)
}

/// Returns a path to a Gaussian whose coordinates are correlated.
pub fn correlated_path() -> GaussianPair {
    let target = Gaussian::new(dvector![1.0, -2.0], dmatrix![2.0, 0.5; 0.5, 1.0]).unwrap();
    GeometricPath::new(Gaussian::standard(2).unwrap(), target)
}
