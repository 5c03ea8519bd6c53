//! Ridge functions, and the Gaussian over a direction and its noisy projections.

use std::f64::consts::TAU;

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use rand::Rng;

use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::log_integral;
use crate::random::StandardNormal;
use crate::{Error, Result};

/// A ridge function f of a projection `x_i . w`, bounded above.
///
/// [`Bounded`] makes one of a closure and its bound.
pub trait RidgeFunction {
    /// `f(z)`.
    fn value(&self, z: f64) -> f64;

    /// A number that f nowhere exceeds. The closer it is to f, the faster is the Gibbs sampler.
    fn upper_bound(&self) -> f64;

    /// A number that f does not exceed on an interval, whose ends may be infinite.
    ///
    /// At large gains the speed of the Gibbs sampler depends on this bound, which should tend to f
    /// as the interval shrinks. The provided method gives the overall bound.
    fn upper_bound_on(&self, low: f64, high: f64) -> f64 {
        let _ = (low, high);
        self.upper_bound()
    }

    /// `f'(z)`, for the drift of Langevin steps.
    ///
    /// The provided method takes a central difference over `2e-5 (1 + |z|)`. An inexact derivative
    /// costs variance, and no bias.
    fn derivative(&self, z: f64) -> f64 {
        let step = 1e-5 * (1.0 + z.abs());
        (self.value(z + step) - self.value(z - step)) / (2.0 * step)
    }
}

/// `f(z) = amplitude sin(frequency z + phase)`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sinusoid {
    /// Factor of the sine.
    pub amplitude: f64,
    /// Radians for each unit of the projection.
    pub frequency: f64,
    /// Added to the argument, in radians.
    pub phase: f64,
}

/// `f(z) = amplitude tanh(slope z + offset)`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tanh {
    /// Factor of the hyperbolic tangent.
    pub amplitude: f64,
    /// Steepness in the projection.
    pub slope: f64,
    /// Added to the argument.
    pub offset: f64,
}

/// Any function with an upper bound and, for large gains, a bound on its slope.
///
/// ```
/// use annealed::drift::{Bounded, RidgeFunction};
///
/// let square = Bounded::new(|z: f64| -(0.3 - z.tanh()).powi(2), 0.0).with_slope(2.6)?;
/// assert!(square.upper_bound_on(1.0, 1.1) < -0.1);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded<F> {
    function: F,
    upper_bound: f64,
    slope: f64,
}

impl<F: Fn(f64) -> f64> Bounded<F> {
    /// The function with a number that it nowhere exceeds. A run that finds a larger value ends with
    /// an error.
    pub fn new(function: F, upper_bound: f64) -> Self {
        Self {
            function,
            upper_bound,
            slope: f64::INFINITY,
        }
    }

    /// Adds a number that `|f'|` nowhere exceeds (a Lipschitz constant). It bounds f between two
    /// points where f is known.
    ///
    /// # Errors
    /// Where the slope is not finite and positive.
    pub fn with_slope(self, slope: f64) -> Result<Self> {
        Error::check_positive("slope", slope)?;
        Ok(Self { slope, ..self })
    }
}

impl RidgeFunction for Sinusoid {
    fn value(&self, z: f64) -> f64 {
        self.amplitude * (self.frequency * z + self.phase).sin()
    }

    fn upper_bound(&self) -> f64 {
        self.amplitude.abs()
    }

    /// The amplitude where a crest lies in the interval, else the larger of the values at its
    /// ends.
    fn upper_bound_on(&self, low: f64, high: f64) -> f64 {
        let ends = [low, high].map(|z| self.frequency * z + self.phase);
        let crest = 0.25 * TAU.copysign(self.amplitude);
        // `min` and `max` pass over the NaN of a frequency 0 at an infinite end.
        let turns = ((ends[0].min(ends[1]) - crest) / TAU).ceil();
        if crest + TAU * turns <= ends[0].max(ends[1]) {
            self.upper_bound()
        } else {
            self.value(low).max(self.value(high))
        }
    }

    fn derivative(&self, z: f64) -> f64 {
        self.amplitude * self.frequency * (self.frequency * z + self.phase).cos()
    }
}

impl RidgeFunction for Tanh {
    fn value(&self, z: f64) -> f64 {
        self.amplitude * (self.slope * z + self.offset).tanh()
    }

    fn upper_bound(&self) -> f64 {
        self.amplitude.abs()
    }

    /// The larger of the values at the ends, since tanh is monotone.
    fn upper_bound_on(&self, low: f64, high: f64) -> f64 {
        self.value(low).max(self.value(high))
    }

    fn derivative(&self, z: f64) -> f64 {
        let height = (self.slope * z + self.offset).tanh();
        self.amplitude * self.slope * (1.0 - height * height)
    }
}

impl<F: Fn(f64) -> f64> RidgeFunction for Bounded<F> {
    fn value(&self, z: f64) -> f64 {
        (self.function)(z)
    }

    fn upper_bound(&self) -> f64 {
        self.upper_bound
    }

    /// From both ends f rises by the slope at most, until the two lines meet.
    fn upper_bound_on(&self, low: f64, high: f64) -> f64 {
        if !(self.slope * (high - low)).is_finite() {
            return self.upper_bound;
        }
        let ends = self.value(low) + self.value(high);
        self.upper_bound
            .min(0.5 * (ends + self.slope * (high - low)))
    }
}

/// A direction w and one noisy projection `z_i` of it for each ridge.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RidgeState {
    /// The direction w.
    pub w: DVector<f64>,
    /// The projections z, `z_i` near `x_i . w`.
    pub z: DVector<f64>,
}

/// The augmented Gaussian `w ~ N(0, sigma0^2 I)`, `z_i | w ~ N(x_i . w, delta^2)`, normalised.
///
/// Then `w | z ~ N(S X' z / delta^2, S)` with `S = (I / sigma0^2 + X' X / delta^2)^-1`.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RidgePrior {
    design: DMatrix<f64>,
    prior_deviation: f64,
    deviation: f64,
    /// Of `S^-1`.
    #[cfg_attr(feature = "serde", serde(skip))]
    cholesky: Cholesky<f64, Dyn>,
}

impl RidgePrior {
    /// The Gaussian for the matrix X with one row `x_i` for each ridge, the deviation `sigma0` of w
    /// and the deviation `delta` of the projections.
    ///
    /// # Errors
    /// An empty matrix; entries that are not finite; deviations that are not finite and positive,
    /// or so far apart that `S` has no factorisation.
    pub fn new(design: DMatrix<f64>, prior_deviation: f64, deviation: f64) -> Result<Self> {
        Error::check_positive("prior deviation", prior_deviation)?;
        Error::check_positive("deviation of the projections", deviation)?;
        Error::check_finite("design", design.iter().copied())?;
        Error::check_not_empty("design", design.len())?;
        let d = design.ncols();
        let precision = DMatrix::identity(d, d) / prior_deviation.powi(2)
            + design.tr_mul(&design) / deviation.powi(2);
        let cholesky = Cholesky::new(precision).ok_or_else(|| {
            let value = "a precision of w without Cholesky factor";
            Error::invalid("design", value, "deviations closer to each other")
        })?;
        Ok(Self {
            design,
            prior_deviation,
            deviation,
            cholesky,
        })
    }

    /// The matrix X, with one row for each ridge.
    pub fn design(&self) -> &DMatrix<f64> {
        &self.design
    }

    /// The deviation `sigma0` of w.
    pub fn prior_deviation(&self) -> f64 {
        self.prior_deviation
    }

    /// The deviation `delta` of a projection given w.
    pub fn deviation(&self) -> f64 {
        self.deviation
    }

    /// Draws w given z, in place.
    pub fn sample_direction<R: Rng + ?Sized>(&self, state: &mut RidgeState, rng: &mut R) {
        let pulls = self.design.tr_mul(&state.z) / self.deviation.powi(2);
        let mut noise = normals(pulls.len(), rng);
        let factor = self.cholesky.l_dirty();
        let solved = factor.tr_solve_lower_triangular_mut(&mut noise);
        debug_assert!(solved, "a Cholesky factor has no zero on its diagonal");
        state.w = self.cholesky.solve(&pulls) + noise;
    }

    /// `log E exp(scale f(u + delta xi))` with xi a standard normal: the log of the factor that a
    /// ridge leaves when its projection is integrated out.
    ///
    /// It is computed by adaptive quadrature, which halves cells until each is exact to 1e-8 of the
    /// whole, also where f oscillates or jumps. The upper bound of the function says over how many
    /// deviations. A feature of f that is narrower than a fifth of a deviation may lie between the
    /// points of the first cells, and is then missed.
    ///
    /// # Errors
    /// [`Error::NotConverged`] where that takes more than about 16,000 cells, as for some thousand
    /// oscillations within a deviation, or where f is NaN.
    pub fn log_smoothed(&self, function: &impl RidgeFunction, u: f64, scale: f64) -> Result<f64> {
        let log_integrand =
            |xi: f64| scale * function.value(u + self.deviation * xi) - 0.5 * xi * xi;
        let above = scale * (function.upper_bound() - function.value(u));
        let reach = (2.0 * (above.max(0.0) + 40.0)).sqrt().ceil();
        let log_integral = log_integral(log_integrand, -reach, reach, reach as usize);
        let found = log_integral.ok_or_else(|| Error::NotConverged {
            what: "the smoothing of a ridge function",
            detail: format!(
                "at u = {u} with deviation {}; expected a function that varies less within a \
                 deviation, or `RidgeGibbs::augmented`, which does without",
                self.deviation
            ),
        })?;
        Ok(found - 0.5 * TAU.ln())
    }
}

fn normals<R: Rng + ?Sized>(len: usize, rng: &mut R) -> DVector<f64> {
    let normal = StandardNormal::get();
    DVector::from_fn(len, |_, _| normal.draw(rng))
}

impl UnnormalizedModel for RidgePrior {
    type State = RidgeState;

    fn log_density(&self, state: &RidgeState) -> f64 {
        let factor = |values: &DVector<f64>, deviation: f64| {
            let constant = values.len() as f64 * (deviation * TAU.sqrt()).ln();
            -0.5 * (values / deviation).norm_squared() - constant
        };
        let offsets = &state.z - &self.design * &state.w;
        factor(&state.w, self.prior_deviation) + factor(&offsets, self.deviation)
    }
}

impl NormalizedModel for RidgePrior {
    fn log_normalizer(&self) -> f64 {
        0.0
    }
}

impl Sampleable for RidgePrior {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> RidgeState {
        let (n, d) = self.design.shape();
        let w = normals(d, rng) * self.prior_deviation;
        let z = &self.design * &w + normals(n, rng) * self.deviation;
        RidgeState { w, z }
    }
}

crate::num::deserialize_checked! {
    RidgePrior { design: DMatrix<f64>, prior_deviation: f64, deviation: f64 } =>
        Self::new(design, prior_deviation, deviation)
}
