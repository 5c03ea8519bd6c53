//! RBMs with Gaussian visible units, from Gaussians of several covariances.

use annealed::Result;
use annealed::model::NormalizedModel;
use nalgebra::{DMatrix, DVector, SymmetricEigen};

use crate::gaussian_rbm::{GaussianBlockGibbs, GaussianRbm, GaussianRbmPath};
use crate::{Options, print_header, print_rows};

const HIDDEN: usize = 10;
const VISIBLE: usize = 64;
const ROWS: usize = 1_000;
/// Factors on the covariance of the data.
const SCALES: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// Compares bases on one machine whose weight rows have norm `norm`.
pub fn compare(norm: f64, options: &Options) -> Result<()> {
    let rbm = GaussianRbm::random(HIDDEN, VISIBLE, norm, 1);
    let exact = rbm.exact_log_normalizer();
    let (mean, covariance) = mean_and_covariance(&rbm.exact_samples(ROWS, 1));
    let variances = covariance.diagonal();
    let SymmetricEigen {
        eigenvectors,
        eigenvalues,
    } = SymmetricEigen::new(covariance);
    println!(
        "\nGaussian RBM, {HIDDEN} x {VISIBLE} units, weights of norm {norm}, log Z = {exact:.3}; variances of \
         the data {:.1} to {:.1}, of their principal components {:.1} to {:.1}",
        variances.min(),
        variances.max(),
        eigenvalues.min(),
        eigenvalues.max()
    );
    print_header();
    let row = |name: &str, mean: &DVector<f64>, variances: DVector<f64>, rbm: &GaussianRbm| {
        let path = GaussianRbmPath::new(mean.clone(), variances, rbm.clone())?;
        let base_log_z = path.base.log_normalizer() + path.free_units();
        print_rows(
            name,
            &path,
            GaussianBlockGibbs,
            base_log_z,
            Some(exact),
            options,
        )
    };
    let ones = DVector::from_element(VISIBLE, 1.0);
    row("N(b, I)", rbm.visible_bias(), ones, &rbm)?;
    for scale in SCALES {
        let name = format!("diagonal x {scale}");
        row(&name, &mean, &variances * scale, &rbm)?;
    }
    // Coordinates in which the covariance is diagonal.
    let rotated = (eigenvectors.tr_mul(&mean), rbm.rotated(&eigenvectors));
    for scale in SCALES {
        let name = format!("full x {scale}");
        row(&name, &rotated.0, &eigenvalues * scale, &rotated.1)?;
    }
    Ok(())
}

fn mean_and_covariance(data: &[DVector<f64>]) -> (DVector<f64>, DMatrix<f64>) {
    let rows = DMatrix::from_columns(data);
    let mean = rows.column_mean();
    let centred = DMatrix::from_fn(rows.nrows(), rows.ncols(), |i, n| rows[(i, n)] - mean[i]);
    let covariance = &centred * centred.transpose() / data.len() as f64;
    (mean, covariance)
}
