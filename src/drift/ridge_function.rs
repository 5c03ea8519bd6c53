//! Ridge functions: functions of one projection, with bounds and slopes.

use std::f64::consts::TAU;

use crate::{Error, Result};

/// A ridge function f of a projection `x_i . w`, bounded above. [`Bounded`] makes a ridge function from a closure.
pub trait RidgeFunction {
    /// Returns `f(z)`.
    fn value(&self, z: f64) -> f64;

    /// Returns an upper bound of f. The closer the bound is to f, the faster the Gibbs sampler is.
    fn upper_bound(&self) -> f64;

    /// Returns an upper bound of f on an interval, whose ends may be infinite; by default the overall bound. At large
    /// gains the Gibbs sampler is fast if this bound tends to f as the interval shrinks.
    fn upper_bound_on(&self, low: f64, high: f64) -> f64 {
        let _ = (low, high);
        self.upper_bound()
    }

    /// Returns `f'(z)`, for the drift of Langevin steps; by default a central difference over `2e-5 (1 + |z|)`. An
    /// inexact derivative adds variance but no bias.
    fn derivative(&self, z: f64) -> f64 {
        let step = 1e-5 * (1.0 + z.abs());
        (self.value(z + step) - self.value(z - step)) / (2.0 * step)
    }
}

/// The sinusoid `f(z) = amplitude sin(frequency z + phase)`.
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

/// The step `f(z) = amplitude tanh(slope z + offset)`.
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

/// A closure with an upper bound and, for large gains, a bound on its slope.
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
    /// Creates f with an upper bound, which f may never exceed. A run that finds a larger value ends with an error.
    pub fn new(function: F, upper_bound: f64) -> Self {
        let slope = f64::INFINITY;
        Self {
            function,
            upper_bound,
            slope,
        }
    }

    /// Sets an upper bound of `|f'|`, which gives a bound of f between two points.
    ///
    /// # Errors
    /// A slope that is not finite and positive.
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

    /// Returns `|amplitude|` if a crest lies in the interval, and otherwise the larger of the values at its ends.
    fn upper_bound_on(&self, low: f64, high: f64) -> f64 {
        let ends = [low, high].map(|z| self.frequency * z + self.phase);
        let crest = 0.25 * TAU.copysign(self.amplitude);
        // `min` and `max` ignore the NaN of a frequency 0 at an infinite end.
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

    /// Returns the larger of the values at the ends, since tanh is monotone.
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

    /// Returns the height where lines of this slope from both ends meet, or the overall bound if it is lower.
    fn upper_bound_on(&self, low: f64, high: f64) -> f64 {
        if !(self.slope * (high - low)).is_finite() {
            return self.upper_bound;
        }
        let ends = self.value(low) + self.value(high);
        self.upper_bound
            .min(0.5 * (ends + self.slope * (high - low)))
    }
}
