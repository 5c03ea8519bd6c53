//! Priors of single parameters, each as a standard distribution of a coordinate without bounds.

use std::f64::consts::LN_2;

use rand::Rng;

use super::standard_law::StandardLaw;
use crate::num::{log_sigmoid, sigmoid};
use crate::{Error, Result};

/// The prior of one parameter x; [`Priors`](crate::model::Priors) combine several.
///
/// The coordinate u is x on the whole line, `log x` above 0, and `log((x - a) / (b - x))` between a and b. Densities
/// are densities of u: they include the Jacobian `dx/du`. Once x has reached the last number inside the support, such
/// as 1e-300 above 0, it is constant in u.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Prior {
    support: Support,
    /// The distribution of v. The coordinate is `u = location + scale v`; of a truncated normal the parameter is.
    law: StandardLaw,
    /// The constant of the log density of v.
    #[cfg_attr(feature = "serde", serde(skip))]
    constant: f64,
    location: f64,
    scale: f64,
    #[cfg_attr(feature = "serde", serde(skip))]
    log_scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Support {
    Line,
    Positive,
    Interval { low: f64, high: f64 },
}

/// Priors of a parameter on the whole line.
impl Prior {
    /// Creates the normal distribution `N(mean, deviation^2)`.
    ///
    /// # Errors
    /// A mean that is not finite, or a deviation that is not finite and positive.
    pub fn normal(mean: f64, deviation: f64) -> Result<Self> {
        Error::check_number("mean", mean)?;
        Error::check_positive("deviation", deviation)?;
        Self::new(Support::Line, StandardLaw::Normal, mean, deviation)
    }

    /// Creates Student's t about `location`. One degree of freedom gives the Cauchy distribution.
    ///
    /// # Errors
    /// A location that is not finite; a scale that is not finite and positive; degrees outside `[0.1, 1e9]`.
    pub fn student_t(degrees_of_freedom: f64, location: f64, scale: f64) -> Result<Self> {
        Error::check_number("location", location)?;
        Error::check_positive("scale", scale)?;
        let degrees = degrees_of_freedom;
        Self::new(
            Support::Line,
            StandardLaw::Student { degrees },
            location,
            scale,
        )
    }
}

/// Priors of a parameter above 0.
impl Prior {
    /// Creates the distribution of `e^y`, with y from `N(mean, deviation^2)`.
    ///
    /// # Errors
    /// As [`normal`](Self::normal).
    pub fn log_normal(mean: f64, deviation: f64) -> Result<Self> {
        let normal = Self::normal(mean, deviation)?;
        Ok(Self {
            support: Support::Positive,
            ..normal
        })
    }

    /// Creates the exponential distribution, of mean `1 / rate`.
    ///
    /// # Errors
    /// A rate that is not finite and positive.
    pub fn exponential(rate: f64) -> Result<Self> {
        Self::gamma(1.0, rate)
    }

    /// Creates the gamma distribution, of mean `shape / rate`.
    ///
    /// # Errors
    /// A shape outside `[1e-3, 1e9]`; a rate that is not finite and positive.
    pub fn gamma(shape: f64, rate: f64) -> Result<Self> {
        Error::check_positive("rate", rate)?;
        let law = StandardLaw::LogGamma { shape };
        Self::new(Support::Positive, law, -rate.ln(), 1.0)
    }

    /// Creates the inverse gamma distribution, of mean `scale / (shape - 1)`: the distribution of `1 / y`, where y has
    /// the gamma distribution of this shape and of rate `scale`.
    ///
    /// # Errors
    /// A shape outside `[1e-3, 1e9]`; a scale that is not finite and positive.
    pub fn inverse_gamma(shape: f64, scale: f64) -> Result<Self> {
        Error::check_positive("scale", scale)?;
        let law = StandardLaw::LogGamma { shape };
        Self::new(Support::Positive, law, scale.ln(), -1.0)
    }

    /// Creates the distribution of `|y|`, with y from `N(0, deviation^2)`.
    ///
    /// # Errors
    /// A deviation that is not finite and positive.
    pub fn half_normal(deviation: f64) -> Result<Self> {
        Error::check_positive("deviation", deviation)?;
        // y^2 / (2 deviation^2) has the gamma law of shape 1/2.
        let law = StandardLaw::LogGamma { shape: 0.5 };
        Self::new(Support::Positive, law, deviation.ln() + 0.5 * LN_2, 0.5)
    }

    /// Creates the distribution of `|y|`, with y from the Cauchy distribution about 0 with this scale.
    ///
    /// # Errors
    /// A scale that is not finite and positive.
    pub fn half_cauchy(scale: f64) -> Result<Self> {
        Error::check_positive("scale", scale)?;
        // z / (1 + z), with z = (y / scale)^2, has the beta law of 1/2 and 1/2.
        let law = StandardLaw::LogitBeta { a: 0.5, b: 0.5 };
        Self::new(Support::Positive, law, scale.ln(), 0.5)
    }
}

/// Priors of a parameter in an interval.
impl Prior {
    /// Creates the beta distribution on (0, 1), of mean `a / (a + b)`.
    ///
    /// # Errors
    /// Parameters outside `[1e-3, 1e9]`.
    pub fn beta(a: f64, b: f64) -> Result<Self> {
        let (low, high) = (0.0, 1.0);
        Self::new(
            Support::Interval { low, high },
            StandardLaw::LogitBeta { a, b },
            0.0,
            1.0,
        )
    }

    /// Creates the normal distribution `N(mean, deviation^2)`, truncated to `low < x < high`. The ends are finite, or they
    /// are 0 and infinity, as of a parameter with `<lower=0>` in Stan. Stan does not divide such a prior by its mass
    /// between the ends; here it integrates to 1.
    ///
    /// # Errors
    /// As [`normal`](Self::normal) and [`uniform`](Self::uniform); a lower end other than 0 below an infinite one; an
    /// interval in which the density is too low to integrate.
    pub fn truncated_normal(mean: f64, deviation: f64, low: f64, high: f64) -> Result<Self> {
        let normal = Self::normal(mean, deviation)?;
        let support = match low == 0.0 && high == f64::INFINITY {
            true => Support::Positive,
            false => Support::Interval { low, high },
        };
        support.check()?;
        let [low, high] = [low, high].map(|end| (end - mean) / deviation);
        let law = StandardLaw::TruncatedNormal { low, high };
        Self::new(support, law, normal.location, normal.scale)
    }

    /// Creates the uniform distribution between `low` and `high`.
    ///
    /// # Errors
    /// Ends that are not finite, or `low` not below `high` by more than rounding.
    pub fn uniform(low: f64, high: f64) -> Result<Self> {
        let law = StandardLaw::LogitBeta { a: 1.0, b: 1.0 };
        Self::new(Support::Interval { low, high }, law, 0.0, 1.0)
    }
}

impl Prior {
    fn new(support: Support, law: StandardLaw, location: f64, scale: f64) -> Result<Self> {
        support.check()?;
        Ok(Self {
            support,
            constant: law.constant()?,
            law,
            location,
            log_scale: scale.abs().ln(),
            scale,
        })
    }

    /// Returns the log density of coordinate `u` and its derivative.
    pub(super) fn log_density(&self, u: f64) -> (f64, f64) {
        self.log_density_by(self.law, u)
    }

    /// Returns [`log_density`](Self::log_density), given the law again. A loop with a constant in its place has no
    /// branches, so that it can use vector registers.
    #[inline(always)]
    fn log_density_by(&self, law: StandardLaw, u: f64) -> (f64, f64) {
        let ((x, rate), (log_rate, its_slope)) = match law.is_of_parameter() {
            true => (self.parameter(u), self.support.log_jacobian(u)),
            false => ((u, 1.0), (0.0, 0.0)),
        };
        let v = (x - self.location) / self.scale;
        let (log_density, slope) = law.log_density(v, self.constant);
        let log_density = log_density - self.log_scale + log_rate;
        (log_density, slope * rate / self.scale + its_slope)
    }

    /// Adds the log density of each coordinate in `u` to `log_densities`, and `scale` times its derivative to `gradient`.
    pub(super) fn accumulate_column(
        &self,
        u: &[f64],
        scale: f64,
        gradient: &mut [f64],
        log_densities: &mut [f64],
    ) {
        let to = (gradient, log_densities);
        match self.law {
            StandardLaw::Normal => accumulate(
                |u| self.log_density_by(StandardLaw::Normal, u),
                u,
                scale,
                to,
            ),
            law => accumulate(|u| self.log_density_by(law, u), u, scale, to),
        }
    }

    /// Writes the parameter of each coordinate in `u`, and its derivative.
    pub(super) fn write_column(&self, u: &[f64], x: &mut [f64], rates: &mut [f64]) {
        if self.support == Support::Line {
            x.copy_from_slice(u);
            return rates.fill(1.0);
        }
        for ((x, rate), u) in x.iter_mut().zip(rates).zip(u) {
            (*x, *rate) = self.parameter(*u);
        }
    }

    pub(super) fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let drawn = self.location + self.scale * self.law.sample(rng);
        match self.law.is_of_parameter() {
            true => {
                let (lowest, highest) = self.support.ends();
                self.coordinate(drawn.clamp(lowest, highest))
            }
            false => drawn,
        }
    }

    /// Returns the parameter of a coordinate and its derivative. The parameter lies strictly inside the support. Beyond
    /// the coordinate of the last number inside, the parameter is constant and its derivative is 0.
    pub(super) fn parameter(&self, u: f64) -> (f64, f64) {
        let (x, slope) = match self.support {
            Support::Line => (u, 1.0),
            Support::Positive => (u.exp(), u.exp()),
            Support::Interval { low, high } => {
                let (width, share, rest) = (high - low, sigmoid(u), sigmoid(-u));
                // From the nearer end, so that an end at 0 costs no digits.
                let x = match u < 0.0 {
                    true => low + width * share,
                    false => high - width * rest,
                };
                (x, width * share * rest)
            }
        };
        let (lowest, highest) = self.support.ends();
        match lowest < x && x < highest {
            true => (x, slope),
            false => (x.clamp(lowest, highest), 0.0),
        }
    }

    /// Returns the coordinate of a parameter; not finite if the parameter is outside the support.
    pub(super) fn coordinate(&self, x: f64) -> f64 {
        match self.support {
            Support::Line => x,
            Support::Positive => x.ln(),
            Support::Interval { low, high } => (x - low).ln() - (high - x).ln(),
        }
    }

    pub(super) fn support(&self) -> String {
        match self.support {
            Support::Line => "a finite number".into(),
            Support::Positive => "a finite number above 0".into(),
            Support::Interval { low, high } => format!("a number in ({low}, {high})"),
        }
    }
}

/// Adds the log densities that `of` returns for the coordinates in `u`, and `scale` times their derivatives.
fn accumulate(
    of: impl Fn(f64) -> (f64, f64),
    u: &[f64],
    scale: f64,
    (gradient, log_densities): (&mut [f64], &mut [f64]),
) {
    for ((u, total), sum) in u.iter().zip(gradient).zip(log_densities) {
        let (log_density, slope) = of(*u);
        *total += scale * slope;
        *sum += log_density;
    }
}

impl Support {
    /// Returns the least and the greatest parameter inside.
    fn ends(self) -> (f64, f64) {
        match self {
            Self::Line => (f64::MIN, f64::MAX),
            Self::Positive => (TINY, f64::MAX),
            Self::Interval { low, high } => last_inside(low, high),
        }
    }

    /// Returns the logarithm of the derivative of the parameter by coordinate `u`, and its own derivative.
    fn log_jacobian(self, u: f64) -> (f64, f64) {
        match self {
            Self::Line => (0.0, 0.0),
            Self::Positive => (u, 1.0),
            Self::Interval { low, high } => {
                let log_rate = (high - low).ln() + log_sigmoid(u) + log_sigmoid(-u);
                (log_rate, sigmoid(-u) - sigmoid(u))
            }
        }
    }

    fn check(self) -> Result<()> {
        let Self::Interval { low, high } = self else {
            return Ok(());
        };
        let (lowest, highest) = last_inside(low, high);
        let holds = (high - low).is_finite() && lowest < highest;
        let found = format!("{low} to {high}");
        let expected = "finite ends, the lower one below the upper one; or 0 and infinity for a truncated normal";
        Error::check(holds, "interval", found, expected)
    }
}

/// Least distance of a parameter from an end at 0. At this distance a likelihood's slope of `1e8 / x` is still finite.
pub(super) const TINY: f64 = 1e-300;
/// Largest distance from 1 of a sum or a length that must be 1. Files may have only six digits.
pub(super) const ROUNDED: f64 = 1e-4;

/// Returns the least and the greatest number inside an interval.
fn last_inside(low: f64, high: f64) -> (f64, f64) {
    let least = (TINY * (high - low).min(1.0)).max(f64::MIN_POSITIVE);
    match (low == 0.0, high == 0.0) {
        (true, _) => (least, high.next_down()),
        (_, true) => (low.next_up(), -least),
        _ => (low.next_up(), high.next_down()),
    }
}

crate::num::deserialize_checked! {
    Prior { support: Support, law: StandardLaw, location: f64, scale: f64 } => {
        Error::check_number("location", location)
            .and_then(|()| Error::check_positive("size of the scale", scale.abs()))
            .and_then(|()| Self::new(support, law, location, scale))
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{PI, TAU};

    use super::*;
    use crate::num::Moments;
    use crate::random::{Purpose, stream};

    fn all() -> Result<Vec<(&'static str, Prior)>> {
        Ok(vec![
            ("normal", Prior::normal(1.0, 2.0)?),
            ("student_t", Prior::student_t(4.0, -1.0, 0.5)?),
            ("log_normal", Prior::log_normal(0.3, 0.7)?),
            ("exponential", Prior::exponential(3.0)?),
            ("gamma", Prior::gamma(2.5, 0.5)?),
            ("inverse_gamma", Prior::inverse_gamma(3.5, 2.0)?),
            ("half_normal", Prior::half_normal(2.0)?),
            ("half_cauchy", Prior::half_cauchy(0.5)?),
            ("beta", Prior::beta(0.5, 3.0)?),
            ("uniform", Prior::uniform(-1.0, 4.0)?),
            (
                "truncated",
                Prior::truncated_normal(1.0, 2.0, 0.0, f64::INFINITY)?,
            ),
            (
                "in an interval",
                Prior::truncated_normal(-1.0, 0.7, 0.5, 3.0)?,
            ),
        ])
    }

    fn textbook(name: &str, x: f64) -> f64 {
        let normal = |x: f64, s: f64| (-0.5 * (x / s).powi(2)).exp() / (TAU.sqrt() * s);
        match name {
            "normal" => normal(x - 1.0, 2.0),
            // Gamma(5/2) / (sqrt(4 pi) Gamma(2)) = 3/8.
            "student_t" => 0.375 / 0.5 * (1.0 + (x + 1.0).powi(2)).powf(-2.5),
            "log_normal" => normal(x.ln() - 0.3, 0.7) / x,
            "exponential" => 3.0 * (-3.0 * x).exp(),
            "gamma" => 0.5_f64.powf(2.5) * x.powf(1.5) * (-0.5 * x).exp() / (0.75 * PI.sqrt()),
            "inverse_gamma" => {
                2_f64.powf(3.5) * x.powf(-4.5) * (-2.0 / x).exp() / (1.875 * PI.sqrt())
            }
            "half_normal" => 2.0 * normal(x, 2.0),
            "half_cauchy" => 2.0 / (PI * 0.5 * (1.0 + (x / 0.5).powi(2))),
            // B(1/2, 3) = 16/15.
            "beta" => 15.0 / 16.0 * x.powf(-0.5) * (1.0 - x).powi(2),
            // The normal law is below 1/2 with probability .691462, between 15/7 and 40/7 with .0160622.
            "truncated" => normal(x - 1.0, 2.0) / 0.691_462_461_274_013_1,
            "in an interval" => normal(x + 1.0, 0.7) / 0.016_062_280_095_539_78,
            _ => 0.2,
        }
    }

    #[test]
    fn densities_are_those_of_textbooks_times_the_jacobian() {
        for (name, prior) in all().unwrap() {
            for u in [-3.0, -0.6, 0.0, 0.4, 2.5] {
                let (x, jacobian) = prior.parameter(u);
                let exact = (textbook(name, x) * jacobian).ln();
                let (found, _) = prior.log_density(u);
                assert!(
                    (found - exact).abs() < 1e-12,
                    "{name} at {u}: {found}, {exact}"
                );
                assert!((prior.coordinate(x) - u).abs() < 1e-12, "{name} at {u}");
            }
        }
    }

    #[test]
    fn derivatives_are_those_of_differences() {
        let h = 1e-5;
        for (name, prior) in all().unwrap() {
            for u in [-2.0, 0.1, 1.7] {
                let slope = |f: &dyn Fn(f64) -> f64| (f(u + h) - f(u - h)) / (2.0 * h);
                let density = slope(&|u| prior.log_density(u).0);
                assert!((prior.log_density(u).1 - density).abs() < 1e-8, "{name}");
                let parameter = slope(&|u| prior.parameter(u).0);
                assert!((prior.parameter(u).1 - parameter).abs() < 1e-8, "{name}");
            }
        }
    }

    /// From the last number inside the support on, the parameter is constant and its derivative 0.
    #[test]
    fn a_parameter_and_its_derivative_saturate_together() {
        let interval = |low, high| Prior::uniform(low, high).unwrap();
        let ends = [
            (0.0, 1.0),
            (-1.0, 0.0),
            (0.0, 1e9),
            (-1e-9, 0.0),
            (-1.0, 4.0),
            (5.0, 6.0),
        ];
        let positive = [
            Prior::gamma(0.01, 0.01).unwrap(),
            Prior::log_normal(0.0, 900.0).unwrap(),
        ];
        let intervals = ends.map(|(low, high)| interval(low, high));
        for prior in positive.into_iter().chain(intervals) {
            for u in (-900..=900).map(f64::from) {
                let (x, slope) = prior.parameter(u);
                let [before, after] = [-0.5, 0.5].map(|h| prior.parameter(u + h).0);
                assert!(before <= x && x <= after, "{prior:?} at {u}");
                if before == after {
                    assert_eq!(slope, 0.0, "{prior:?} at {u}");
                }
                // `1e8 / x` does not overflow, from either end.
                let distance = match prior.support {
                    Support::Interval { low, high } => {
                        (x - low).min(high - x) / (high - low).min(1.0)
                    }
                    _ => x,
                };
                assert!((1e8 / distance).is_finite(), "{prior:?} at {u}: {x:e}");
            }
        }
        // Near an end at 0 no digits are lost, from below or from above.
        for u in [-600.0, -40.0, -1.0] {
            let (above, below) = (
                interval(0.0, 2.0).parameter(u),
                interval(-2.0, 0.0).parameter(-u),
            );
            assert_eq!((above.0, above.1), (-below.0, below.1));
        }
    }

    #[test]
    fn samples_follow_the_density() {
        let mut rng = stream(1, Purpose::TESTING, 0);
        for (name, prior) in all().unwrap() {
            for statistic in [f64::tanh, |u: f64| (1.0 + u.sin()).sqrt()] {
                let mut values = Moments::default();
                (0..40_000).for_each(|_| values.add(1.5 + statistic(prior.sample(&mut rng))));
                // The trapezoidal rule, for smooth densities that vanish at both ends.
                let at = |i: i32| f64::from(i) / 64.0;
                let term = |u: f64| prior.log_density(u).0.exp() * (1.5 + statistic(u));
                let exact = (-6_400..6_400).map(|i| term(at(i)) / 64.0).sum::<f64>();
                let error = (values.variance() / 40_000.0).sqrt();
                let z = (values.mean() - exact) / error;
                assert!(
                    z.abs() < 4.0,
                    "{name}: {} for {exact}, z = {z}",
                    values.mean()
                );
            }
        }
    }

    /// Each way of sampling: from far in the tail, from a short interval, from below 0, and from nearly all of the line.
    #[test]
    fn truncated_normals_integrate_to_one_and_are_sampled() {
        let mut rng = stream(3, Purpose::TESTING, 0);
        let ends = [
            (-3.0, 1.0, 0.0, f64::INFINITY),
            (-50.0, 1.0, 0.0, f64::INFINITY),
            (8.0, 2.0, 0.0, f64::INFINITY),
            (0.0, 1.0, -0.4, 0.5),
            (0.0, 1.0, -9.0, 9.0),
            (5.0, 1.0, -3.0, 2.0),
            (3.0, 0.5, 0.0, 2.9),
        ];
        for (mean, deviation, low, high) in ends {
            let prior = Prior::truncated_normal(mean, deviation, low, high).unwrap();
            let term = |i: i32| prior.log_density(f64::from(i) / 64.0).0.exp() / 64.0;
            let total = (-6_400..6_400).map(term).sum::<f64>();
            assert!((total - 1.0).abs() < 1e-7, "{prior:?}: {total}");
            let mut values = Moments::default();
            (0..20_000).for_each(|_| values.add(prior.sample(&mut rng)));
            let each = (-6_400..6_400).map(|i| term(i) * f64::from(i) / 64.0);
            let z = (values.mean() - each.sum::<f64>()) / values.standard_error();
            assert!(z.abs() < 4.0, "{prior:?}: z = {z}");
        }
        for (low, high) in [(1.0, f64::INFINITY), (2.0, 1.0), (f64::NAN, 1.0)] {
            assert!(Prior::truncated_normal(0.0, 1.0, low, high).is_err());
        }
    }

    #[test]
    fn extreme_coordinates_stay_inside() {
        for (name, prior) in all().unwrap() {
            for u in [-1e4, -800.0, -40.0, 40.0, 800.0, 1e4] {
                let (x, slope) = prior.parameter(u);
                assert!(x.is_finite() && slope.is_finite(), "{name}");
                assert!(prior.coordinate(x).is_finite(), "{name} at {u}: {x}");
                assert!(!prior.log_density(u).0.is_nan(), "{name} at {u}");
            }
        }
        let tiny = Prior::gamma(1e-3, 1.0).unwrap();
        let mut rng = stream(2, Purpose::TESTING, 0);
        assert!((0..1_000).all(|_| tiny.sample(&mut rng).is_finite()));
    }
}
