//! Gaussians around a mode, from its curvature and from the chains that end there.

use nalgebra::DVector;

use super::cooling::RUNGS;
use super::find_modes::{Target, Trails};
use crate::model::{Differentiable, Gaussian, UnnormalizedModel, central_difference, gaussian};

/// Indices (in `Trails::rungs`) of the powers at which a Gaussian is fitted to the chains of a mode: 1, 1.2, 1.7, 2.8,
/// 8 and 256. Most are low powers. At high powers the fits resemble each other and Laplace's approximation.
const FITTED_RUNGS: [usize; 6] = [0, 2, 4, 6, 9, RUNGS];
/// Smallest number of states to which a Gaussian is fitted. From 6 states, a variance has a standard error of 63%.
/// The covariance is diagonal below four states per dimension.
const FEWEST_STATES: usize = 6;
/// Largest cost of Laplace's approximation, in multiples of its usual cost. It stops an endless climb down a funnel's
/// neck. In 2 dimensions without a gradient the limit is 5,400 evaluations.
const LARGEST_LAPLACE_COST: u64 = 30;
/// Step of a finite difference of the log density, in standard deviations of the fitted Gaussian. At this long step
/// rounding stays small even in the Hessian, which consists of differences of these differences.
const DIFFERENCE_STEP: f64 = 0.01;

/// Returns a Gaussian for each of several powers of the target, the highest first. Each Gaussian has the mean of
/// `chains` at its power, and their covariance times the power. The list is empty for too few chains. A power at which
/// a coordinate does not vary is left out.
pub(super) fn fits(trails: &Trails<DVector<f64>>, chains: &[usize]) -> Vec<Gaussian> {
    if chains.len() < FEWEST_STATES {
        return Vec::new();
    }
    let rungs = trails.rungs().enumerate();
    let fitted = rungs.filter(|(rung, _)| FITTED_RUNGS.contains(rung));
    // Near a mode the covariance falls as 1 / power.
    let fit = |(_, (power, states)): (usize, (f64, &[DVector<f64>]))| {
        let states: Vec<_> = chains.iter().map(|&chain| &states[chain]).collect();
        gaussian(&states, &vec![1.0; states.len()], power)
    };
    let mut fits: Vec<Gaussian> = fitted.filter_map(fit).collect();
    fits.reverse();
    fits
}

/// Returns Laplace's approximation at `mode`; `None` if the density is not smooth there, or if more than `share`
/// evaluations are needed. Without this limit an endless climb in a funnel's neck would use up all evaluations.
pub(super) fn laplace(
    mode: &DVector<f64>,
    fit: Option<&Gaussian>,
    target: &Target<'_, DVector<f64>>,
    share: u64,
) -> Option<Gaussian> {
    let dimension = mode.len();
    let gradient = if target.gradient.is_some() {
        1
    } else {
        2 * dimension as u64 + 1
    };
    // About twenty gradients lead to the mode, and two Hessians take 4 a dimension each.
    let needed = (20 + 8 * dimension as u64).saturating_mul(gradient);
    if needed > share {
        return None;
    }
    let steps = match fit {
        Some(fit) => fit
            .covariance()
            .diagonal()
            .map(|x| DIFFERENCE_STEP * x.sqrt()),
        // Near this step the truncation and the rounding errors of a central difference balance.
        None => mode.map(|x| target.epsilon.cbrt() * (1.0 + x.abs())),
    };
    let smooth = Smooth { target, steps };
    target.within(share.min(LARGEST_LAPLACE_COST * needed), || {
        Gaussian::laplace_anyhow(&smooth, mode.clone()).ok()
    })
}

/// The target with its own gradient, or with a gradient by finite differences.
struct Smooth<'t> {
    target: &'t Target<'t, DVector<f64>>,
    steps: DVector<f64>,
}

impl UnnormalizedModel for Smooth<'_> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.target.log_density(state)
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.steps.len())
    }

    fn epsilon(&self) -> f64 {
        self.target.epsilon
    }
}

impl Differentiable for Smooth<'_> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        if let Some(gradient_of) = self.target.gradient {
            let mut own = DVector::zeros(state.len());
            let log_density = self.target.by(gradient_of, state, &mut own);
            gradient.axpy(scale, &own, 1.0);
            return log_density;
        }
        for i in 0..state.len() {
            gradient[i] += scale * central_difference(self, state, i, self.steps[i]);
        }
        self.log_density(state)
    }
}

#[cfg(test)]
mod tests {

    use nalgebra::dvector;

    use super::*;
    use crate::random::{Purpose, stream};

    /// A funnel's neck has no mode: along it the density grows without bound, and the scale shrinks.
    #[test]
    fn a_search_for_a_mode_down_a_neck_leaves_evaluations_to_others() {
        let log_density = |x: &DVector<f64>| -4.0 * x[0] - 0.5 * x[1] * x[1] * (-2.0 * x[0]).exp();
        let gradient = |x: &DVector<f64>, to: &mut DVector<f64>| {
            let square = x[1] * (-2.0 * x[0]).exp();
            to.copy_from_slice(&[x[1] * square - 4.0, -square]);
            log_density(x)
        };
        for gradient in [Some(&gradient as _), None] {
            let target = Target::new(
                &log_density,
                gradient,
                20_000,
                stream(1, Purpose::TESTING, 0),
            );
            assert!(laplace(&dvector![0.0, 0.1], None, &target, 20_000).is_none());
            assert!(target.left() > 14_000, "{}", target.left());
        }
    }
}
