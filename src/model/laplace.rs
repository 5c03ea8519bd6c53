//! Laplace's approximation: the Gaussian at the mode of a density.

use nalgebra::{DMatrix, DVector};
use rand::RngExt;

use crate::model::redundant::{FREE, flat};
use crate::model::{
    Differentiable, Gaussian, PROBES, Sampleable, UnnormalizedModel, check_gradient,
    log_densities_of,
};
use crate::num::Lbfgs;
use crate::random::{Purpose, StreamRng, stream};
use crate::{Error, Result};

/// Number of rounds of L-BFGS. Each round has a hundredth of the previous tolerance and ends with a Newton step.
const ROUNDS: i32 = 6;
const ITERATIONS: usize = 1_000;
/// Tolerated distance from the mode, in standard deviations.
const PRECISION: f64 = 1e-3;
/// Step of a finite difference, in standard deviations of its coordinate.
const STEP: f64 = 1e-3;
/// Least curvature of the log density along a direction, relative to the curvatures of its coordinates: by differences,
/// and by a given Hessian. Below it rounding decides.
const FLATTEST: [f64; 2] = [1e-8, 1e-12];
/// The gradient is checked near the start: at x plus or minus at most this share of `1 + |x|`.
const NEAR: f64 = 0.1;
/// Number of draws at which the density is compared with the approximation.
const DRAWS: usize = 64;
/// Thresholds for a ridge, on the excesses of `check_ridge`: the fall of the lowest tenth below the median, in nats,
/// and the ratio of this fall to the rise of the highest tenth above the median. Both must be exceeded.
const FALL: f64 = 15.0;
const STEEP: f64 = 5.0;

impl Gaussian {
    /// Creates Laplace's approximation: its mean is the mode of `model`, its precision the negative Hessian of `log f`.
    ///
    /// L-BFGS finds one mode from `start`. Central differences of the gradient give the Hessian, at 4 gradients per
    /// dimension. `model.log_density(gaussian.mean()) + gaussian.log_normalizer()` approximates log Z. As the base of a
    /// [`GeometricPath`](crate::path::GeometricPath) it needs few stages, and a run's estimate of Z stays unbiased. For
    /// heavier tails make it a [`StudentT`](crate::model::StudentT).
    /// `Preconditioner::covariance(&gaussian.covariance())` suits the kernel.
    ///
    /// ```
    /// use annealed::prelude::*;
    ///
    /// // Twelve successes in 40 trials, with the logit of their probability as the state.
    /// let likelihood = GradientModel::new(1, |x: &[f64], gradient: &mut [f64]| {
    ///     let p = 1.0 / (1.0 + (-x[0]).exp());
    ///     gradient[0] = 12.0 - 40.0 * p;
    ///     12.0 * p.ln() + 28.0 * (1.0 - p).ln()
    /// })?;
    /// let posterior = TemperedPath::new(Gaussian::isotropic(DVector::zeros(1), 2.0)?, likelihood);
    /// let target = posterior.at(1.0);
    /// let path = GeometricPath::new(Gaussian::laplace(&target, DVector::zeros(1))?, &target);
    /// let run = Ais::new(&path, Hmc::new(0.2, 3)?).schedule(Schedule::linear(10)?).run()?;
    /// println!("log evidence: {run}");
    /// # assert!(run.standard_error() < 0.01 && (run.log_z() + 26.291).abs() < 0.01, "{run}");
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// A start of another dimension, or one at which `log f` or its gradient is not finite. [`Error::WrongGradient`] if
    /// the gradient does not fit the density. [`Error::NotConverged`] if the density has no smooth, curved mode; if it
    /// has no curvature along some coordinates, the error names their indices.
    /// [`Error::MisleadingMode`] for a mode on a ridge, as in most hierarchies with a scale among the parameters.
    pub fn laplace(model: &impl Differentiable, start: DVector<f64>) -> Result<Self> {
        check_near(model, &start)?;
        let gaussian = Self::laplace_anyhow(model, start)?;
        check_ridge(model, &gaussian)?;
        Ok(gaussian)
    }

    /// Creates the approximation as [`laplace`](Self::laplace) does, with a closure for the Hessian of `log f`.
    ///
    /// # Errors
    /// As [`laplace`](Self::laplace).
    pub fn laplace_with_hessian(
        model: &impl Differentiable,
        start: DVector<f64>,
        hessian: impl Fn(&DVector<f64>) -> DMatrix<f64>,
    ) -> Result<Self> {
        check_near(model, &start)?;
        let gaussian = Self::at_mode(model, start, (hessian, FLATTEST[1]))?;
        check_ridge(model, &gaussian)?;
        Ok(gaussian)
    }

    /// Creates the approximation as [`laplace`](Self::laplace) does, but accepts a mode on a ridge.
    pub(crate) fn laplace_anyhow(model: &impl Differentiable, start: DVector<f64>) -> Result<Self> {
        let hessian = |mode: &DVector<f64>| hessian(model, mode);
        Self::at_mode(model, start, (hessian, FLATTEST[0]))
    }

    fn at_mode(
        model: &impl Differentiable,
        start: DVector<f64>,
        (hessian, flattest): (impl Fn(&DVector<f64>) -> DMatrix<f64>, f64),
    ) -> Result<Self> {
        let gradient = start_gradient(model, &start)?;
        let origin = start.clone();
        let mut solver = Lbfgs {
            memory: 20,
            iterations: ITERATIONS,
            tolerance: gradient.amax(),
        };
        let (mut position, mut found) = (start, String::new());
        for _ in 0..ROUNDS {
            solver.tolerance *= 1e-2;
            let minimum = solver.minimize(position, |x| minus(model, x));
            position = minimum.position;
            let precision = -hessian(&position);
            let gaussian = Self::from_precision(position.clone(), precision.clone());
            // A Hessian of the wrong size is a mistake of the caller, which further rounds would only repeat.
            if let Err(error @ Error::DimensionMismatch { .. }) = gaussian {
                return Err(error);
            }
            if let Some(along) = flat(&precision, flattest) {
                found = format!("the log density has no curvature along {along}; expected {FREE}");
                continue;
            }
            match gaussian {
                Ok(gaussian) => {
                    let distance = distance(&gaussian, &minimum.gradient);
                    if distance <= PRECISION {
                        check_gradient_at(model, |rng| gaussian.sample(rng))?;
                        return Ok(gaussian);
                    }
                    found = format!("the best point is {distance:.1e} deviations from a mode");
                    let newton = &position - gaussian.covariance_times(&minimum.gradient);
                    if -model.log_density(&newton) <= minimum.value {
                        position = newton;
                    }
                }
                Err(error) => found = format!("minus the Hessian of the log density: {error}"),
            }
        }
        check_gradient_near(model, &origin)?;
        let doubt = "check that the density is smooth, that it has a mode near the start and that its gradient is right";
        Err(Error::NotConverged {
            what: "the mode of Laplace's approximation",
            detail: format!("{found}; {doubt}"),
        })
    }
}

/// Returns minus the log density and minus its gradient.
fn minus(model: &impl Differentiable, x: &DVector<f64>) -> (f64, DVector<f64>) {
    let mut gradient = DVector::zeros(x.len());
    let log_density = model.gradient_into(x, &mut gradient);
    (-log_density, -gradient)
}

/// Refuses a mode on a ridge.
///
/// For draws of the approximation N, this compares the excesses `log f - log N` with their median. If f is Gaussian,
/// all excesses are equal. Skewness and tails spread them to both sides, further in many dimensions. If the curvature
/// changes by orders of magnitude within a few deviations, as for a scale that multiplies other parameters, the lower
/// side is far longer.
fn check_ridge(
    model: &impl UnnormalizedModel<State = DVector<f64>>,
    gaussian: &Gaussian,
) -> Result<()> {
    let mut rng = stream(0, Purpose::PROBE, 1);
    let draws = Vec::from_iter((0..DRAWS).map(|_| gaussian.sample(&mut rng)));
    let pairs = log_densities_of(model, &draws).into_iter().zip(&draws);
    let excesses = pairs.map(|(log_density, draw)| log_density - gaussian.log_density(draw));
    // Draws may fall outside the support if its edges are near.
    let mut excesses = Vec::from_iter(excesses.filter(|excess| excess.is_finite()));
    excesses.sort_by(f64::total_cmp);
    let Some(last) = excesses.len().checked_sub(1) else {
        return Ok(());
    };
    let [low, middle, high] = [1, 5, 9].map(|tenths| excesses[last * tenths / 10]);
    let (fall, rise) = (middle - low, high - middle);
    match fall > FALL && fall > STEEP * rise {
        true => Err(Error::MisleadingMode { fall, rise }),
        false => Ok(()),
    }
}

fn check_gradient_at(
    model: &impl Differentiable,
    mut state: impl FnMut(&mut StreamRng) -> DVector<f64>,
) -> Result<()> {
    let mut rng = stream(0, Purpose::PROBE, 0);
    let states: Vec<_> = (0..PROBES).map(|_| state(&mut rng)).collect();
    check_gradient(model, &states).map(drop)
}

/// Refuses a wrong gradient near the start, before a search that it would mislead.
fn check_near(model: &impl Differentiable, start: &DVector<f64>) -> Result<()> {
    start_gradient(model, start)?;
    check_gradient_near(model, start)
}

fn check_gradient_near(model: &impl Differentiable, start: &DVector<f64>) -> Result<()> {
    check_gradient_at(model, |rng| {
        start.map(|x| x + (1.0 + x.abs()) * rng.random_range(-NEAR..NEAR))
    })
}

fn start_gradient(model: &impl Differentiable, start: &DVector<f64>) -> Result<DVector<f64>> {
    Error::check_not_empty("start", start.len())?;
    let dimension = model.state_dimension().unwrap_or(start.len());
    Error::check_dimension("start", start.len(), dimension)?;
    Error::check_finite("start", start.iter().copied())?;
    let mut gradient = DVector::zeros(start.len());
    let log_density = model.gradient_into(start, &mut gradient);
    Error::check_number("log density at the start", log_density)?;
    Error::check_finite("gradient at the start", gradient.iter().copied())?;
    Ok(gradient)
}

/// Returns the length of a Newton step in standard deviations: `(g' Sigma g)^(1/2)`, with g the gradient.
fn distance(gaussian: &Gaussian, gradient: &DVector<f64>) -> f64 {
    gaussian.factor().transpose_times(gradient).norm()
}

/// Returns the symmetric Hessian of `log f` by central differences of the gradient. The first difference of a column
/// gives the standard deviation, which sets the step of the second difference.
fn hessian(model: &impl Differentiable, mode: &DVector<f64>) -> DMatrix<f64> {
    let d = mode.len();
    let mut hessian = DMatrix::zeros(d, d);
    for i in 0..d {
        // At this step the rounding error of a central difference is about as large as its truncation error.
        let least = model.epsilon().cbrt();
        let first = column(model, mode, i, least * (1.0 + mode[i].abs()));
        let fine = STEP.max(least) / (-first[i]).sqrt();
        // A curvature of 0, or of the wrong sign, gives no standard deviation.
        let refined = if fine.is_normal() {
            column(model, mode, i, fine)
        } else {
            first
        };
        hessian.set_column(i, &refined);
    }
    (&hessian + hessian.transpose()) * 0.5
}

fn column(model: &impl Differentiable, mode: &DVector<f64>, i: usize, step: f64) -> DVector<f64> {
    let mut moved = mode.clone();
    moved[i] = mode[i] + step;
    let (right, after) = (moved[i], model.gradient(&moved));
    moved[i] = mode[i] - step;
    // The distance of the rounded coordinates is not exactly twice `step`.
    (after - model.gradient(&moved)) / (right - moved[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FunctionModel, GradientModel, NormalizedModel};
    use nalgebra::{dmatrix, dvector};

    #[test]
    fn a_gaussian_is_its_own_approximation() {
        // Deviations of 1e-4, 1 and 1e4, correlated.
        let scales = dvector![1e-4, 1.0, 1e4];
        let correlation = dmatrix![1.0, 0.6, -0.3; 0.6, 1.0, 0.2; -0.3, 0.2, 1.0];
        let covariance = correlation.map_with_location(|i, j, r| r * scales[i] * scales[j]);
        let target = Gaussian::new(dvector![3e-4, -2.0, 5e4], covariance).unwrap();
        for start in [
            DVector::zeros(3),
            dvector![1e-3, 30.0, -3e4],
            target.mean().clone(),
        ] {
            let found = Gaussian::laplace(&target, start).unwrap();
            let off = (found.mean() - target.mean()).component_div(&scales);
            assert!(off.amax() < 2e-3, "{off}");
            let log_z = target.log_density(found.mean()) + found.log_normalizer();
            assert!((log_z - target.log_normalizer()).abs() < 1e-4);
        }
    }

    #[test]
    fn a_given_hessian_is_used() {
        let target = Gaussian::isotropic(dvector![1.0, 2.0], 0.5).unwrap();
        let hessian = |_: &DVector<f64>| dmatrix![-3.0, 1.0; 1.0, -2.0];
        let found = Gaussian::laplace_with_hessian(&target, DVector::zeros(2), hessian).unwrap();
        assert!((found.precision() - dmatrix![3.0, -1.0; -1.0, 2.0]).amax() < 1e-12);
        let wrong = |_: &DVector<f64>| DMatrix::zeros(3, 3);
        let error = Gaussian::laplace_with_hessian(&target, DVector::zeros(2), wrong);
        assert!(
            matches!(error, Err(Error::DimensionMismatch { .. })),
            "{error:?}"
        );
    }

    /// The density of Rosenbrock's valley, which is not log-concave.
    #[test]
    fn a_bent_valley_is_followed_to_its_mode() {
        let valley = GradientModel::new(2, |x: &[f64], gradient: &mut [f64]| {
            let bend = x[1] - x[0] * x[0];
            gradient[0] = 2.0 * (1.0 - x[0]) + 400.0 * x[0] * bend;
            gradient[1] = -200.0 * bend;
            -(1.0 - x[0]).powi(2) - 100.0 * bend * bend
        });
        let (valley, start) = (valley.unwrap(), dvector![-1.2, 1.0]);
        let ridge = Gaussian::laplace(&valley, start.clone());
        assert!(
            matches!(ridge, Err(Error::MisleadingMode { .. })),
            "{ridge:?}"
        );
        let found = Gaussian::laplace_anyhow(&valley, start).unwrap();
        assert!((found.mean() - dvector![1.0, 1.0]).amax() < 1e-3);
        let exact = dmatrix![802.0, -400.0; -400.0, 200.0];
        assert!((found.precision() - exact).amax() < 0.5, "{found:?}");
    }

    /// A coordinate that the density does not use, and one that is computed from others.
    #[test]
    fn redundant_coordinates_are_named() {
        type Gradient = fn(&[f64], &mut [f64]) -> f64;
        let unused: Gradient = |x, gradient| {
            (gradient[0], gradient[2]) = (-x[0], -4.0 * x[2]);
            -0.5 * x[0] * x[0] - 2.0 * x[2] * x[2]
        };
        let sum: Gradient = |x, gradient| {
            let (a, b) = (x[0] - 0.3 + x[2], x[1] - 7.0);
            (gradient[0], gradient[1], gradient[2]) = (-9.0 * a, -b, -9.0 * a);
            -4.5 * a * a - 0.5 * b * b
        };
        for (density, names) in [(unused, "coordinates 1;"), (sum, "coordinates 0, 2;")] {
            let model = GradientModel::new(3, density).unwrap();
            let error = Gaussian::laplace(&model, dvector![0.5, 0.1, -2.0]).unwrap_err();
            assert!(matches!(error, Error::NotConverged { .. }), "{error}");
            assert!(error.to_string().contains(names), "{error}");
        }
    }

    fn refused(log_density: fn(f64) -> f64, slope: fn(f64) -> f64, start: f64) -> Error {
        let model = FunctionModel::new(move |x: &DVector<f64>| log_density(x[0]))
            .with_gradient(move |x: &DVector<f64>| x.map(slope));
        Gaussian::laplace(&model, dvector![start]).unwrap_err()
    }

    #[test]
    fn without_a_smooth_mode_it_does_not_converge() {
        let unconverged = [
            refused(|x| x, |_| 1.0, 0.0),
            refused(|_| 0.0, |_| 0.0, 0.0),
            refused(|x| -x.abs(), |x| -x.signum(), 0.7),
            // A saddle: the start is the minimum between two modes.
            refused(|x| x * x - x.powi(4), |x| 2.0 * x - 4.0 * x.powi(3), 0.0),
        ];
        for error in unconverged {
            assert!(matches!(error, Error::NotConverged { .. }), "{error}");
        }
        let wrong_sign = refused(|x| -x * x, |x| 2.0 * x, 1.0);
        assert!(
            matches!(wrong_sign, Error::WrongGradient { .. }),
            "{wrong_sign}"
        );
        // A search would have gone down for thousands of evaluations.
        let calls = std::cell::Cell::new(0);
        let wrong_sign = FunctionModel::new(|x: &DVector<f64>| {
            calls.set(calls.get() + 1);
            -x.norm_squared()
        })
        .with_gradient(|x: &DVector<f64>| x * 2.0);
        assert!(Gaussian::laplace(&wrong_sign, DVector::from_element(3, 1.0)).is_err());
        assert!(calls.get() < 150, "{}", calls.get());
        let off_support = refused(|x| x.ln(), |x| x.recip(), 0.0);
        assert!(
            matches!(off_support, Error::InvalidArgument { .. }),
            "{off_support}"
        );
    }
}
