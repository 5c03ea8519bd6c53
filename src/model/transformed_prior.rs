//! The distribution of some coordinates without bounds, and their map to parameters.

use std::fmt::Debug;

use rand::Rng;

use super::prior::Prior;

/// A distribution of coordinates u without bounds, with a map from u to parameters x. Implement this trait to write a
/// prior of your own for [`Priors`], and pass it to [`JointPrior::new`]. [`Prior`] implements it with one coordinate.
///
/// The density is the density of u, so it includes the Jacobian of a density of x. It must integrate to 1. The map may
/// depend on the parameters of earlier priors, but the distribution of u may not.
/// [`testing::gradient_error`](crate::testing::gradient_error) checks the gradient of the density and the pull-back.
///
/// ```
/// use annealed::model::TransformedPrior;
/// use annealed::prelude::*;
/// use rand::{Rng, RngExt};
///
/// /// The uniform law on the unit disc: `x = u / sqrt(1 + |u|^2)`, with `log |dx/du| = -2 log(1 + |u|^2)`.
/// #[derive(Debug)]
/// struct Disc;
///
/// impl TransformedPrior for Disc {
///     fn coordinates(&self) -> usize {
///         2
///     }
///
///     fn accumulate_gradient(&self, u: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
///         let square = 1.0 + u[0] * u[0] + u[1] * u[1];
///         (0..2).for_each(|i| gradient[i] -= scale * 4.0 * u[i] / square);
///         -std::f64::consts::PI.ln() - 2.0 * square.ln()
///     }
///
///     fn sample(&self, rng: &mut dyn Rng, u: &mut [f64]) {
///         let share: f64 = rng.random(); // |x|^2
///         let angle = std::f64::consts::TAU * rng.random::<f64>();
///         let radius = (share / (1.0 - share)).sqrt();
///         u.copy_from_slice(&[radius * angle.cos(), radius * angle.sin()]);
///     }
///
///     fn write_parameters(&self, u: &[f64], _: &[f64], x: &mut [f64]) {
///         let root = (1.0 + u[0] * u[0] + u[1] * u[1]).sqrt();
///         x.copy_from_slice(&[u[0] / root, u[1] / root]);
///     }
///
///     fn pull_back(&self, u: &[f64], _: &[f64], by_x: &mut [f64], _: &mut [f64], by_u: &mut [f64]) {
///         let square = 1.0 + u[0] * u[0] + u[1] * u[1];
///         let along = (u[0] * by_x[0] + u[1] * by_x[1]) / square;
///         (0..2).for_each(|i| by_u[i] += (by_x[i] - u[i] * along) / square.sqrt());
///     }
/// }
///
/// let priors = Priors::new([JointPrior::new(Disc)])?;
/// let state = DVector::from_vec(vec![0.7, -2.0]);
/// assert!(annealed::testing::gradient_error(&priors, &state)? < 1e-6);
/// let likelihood = GradientModel::new(2, |x: &[f64], slopes: &mut [f64]| {
///     slopes.copy_from_slice(&[2.0, 3.0]);
///     2.0 * x[0] + 3.0 * x[1]
/// });
/// assert!(annealed::testing::gradient_error(&priors.likelihood(likelihood?), &state)? < 1e-6);
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// [`Priors`]: crate::model::Priors
/// [`JointPrior::new`]: crate::model::JointPrior::new
pub trait TransformedPrior: Debug + Send + Sync {
    /// Returns the number of coordinates.
    fn coordinates(&self) -> usize;

    /// Returns the number of parameters; the number of coordinates by default.
    fn parameters(&self) -> usize {
        self.coordinates()
    }

    /// Returns the least number of earlier parameters that the map needs; 0 by default.
    fn earlier(&self) -> usize {
        0
    }

    /// Returns the log density of `u` and adds `scale` times its gradient to `gradient`.
    fn accumulate_gradient(&self, u: &[f64], scale: f64, gradient: &mut [f64]) -> f64;

    /// Draws `u` from its distribution.
    fn sample(&self, rng: &mut dyn Rng, u: &mut [f64]);

    /// Writes the parameters `x` of `u`, given all `earlier` parameters.
    fn write_parameters(&self, u: &[f64], earlier: &[f64], x: &mut [f64]);

    /// Turns `by_x`, a likelihood's derivatives in x, into derivatives in u and in the earlier parameters: adds
    /// `by_x^T dx/du` to `by_u`, and `by_x^T dx/dearlier` to `by_earlier`. It may overwrite `by_x`.
    fn pull_back(
        &self,
        u: &[f64],
        earlier: &[f64],
        by_x: &mut [f64],
        by_earlier: &mut [f64],
        by_u: &mut [f64],
    );

    /// Writes the coordinates of parameters `x`. Coordinates that are not finite mean that `x` is outside the support.
    /// The provided method writes NaN, and [`Priors::state`](crate::model::Priors::state) then returns an error.
    fn write_coordinates(&self, _x: &[f64], _earlier: &[f64], u: &mut [f64]) {
        u.fill(f64::NAN);
    }

    /// Describes the support for an error of [`Priors::state`](crate::model::Priors::state).
    fn support(&self) -> String {
        "parameters in the support, of a prior with `write_coordinates`".into()
    }
}

impl TransformedPrior for Prior {
    fn coordinates(&self) -> usize {
        1
    }

    fn accumulate_gradient(&self, u: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
        accumulate_each([self], u, scale, gradient)
    }

    fn sample(&self, rng: &mut dyn Rng, u: &mut [f64]) {
        u[0] = self.sample(rng);
    }

    fn write_parameters(&self, u: &[f64], _: &[f64], x: &mut [f64]) {
        x[0] = self.parameter(u[0]).0;
    }

    fn pull_back(&self, u: &[f64], _: &[f64], by_x: &mut [f64], _: &mut [f64], by_u: &mut [f64]) {
        by_u[0] += times(by_x[0], self.parameter(u[0]).1);
    }

    fn write_coordinates(&self, x: &[f64], _: &[f64], u: &mut [f64]) {
        u[0] = self.coordinate(x[0]);
    }

    fn support(&self) -> String {
        self.support()
    }
}

/// Returns the log density of independent coordinates and adds `scale` times its gradient to `gradient`.
pub(super) fn accumulate_each<'p>(
    priors: impl IntoIterator<Item = &'p Prior>,
    u: &[f64],
    scale: f64,
    gradient: &mut [f64],
) -> f64 {
    let each = u.iter().zip(gradient).zip(priors);
    let terms = each.map(|((u, total), prior)| {
        let (log_density, slope) = prior.log_density(*u);
        *total += scale * slope;
        log_density
    });
    terms.sum()
}

/// Returns `slope * derivative`. It is 0 if the derivative is 0, as at the last number inside a support, even if the
/// slope is infinite.
pub(super) fn times(slope: f64, derivative: f64) -> f64 {
    match derivative == 0.0 {
        true => 0.0,
        false => slope * derivative,
    }
}
