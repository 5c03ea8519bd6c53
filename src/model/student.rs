//! The multivariate Student t distribution.

use libm::lgamma;
use nalgebra::DVector;
use rand::Rng;
use rand_distr::{Distribution, Gamma};

use crate::model::{Differentiable, Gaussian, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::{Error, Result};

/// The multivariate Student t distribution with centre `mu`, scale matrix `S` and `nu` degrees of freedom:
///
/// `log f(x) = -(nu + d) / 2 log(1 + (x - mu)' S^-1 (x - mu) / nu)`,
/// `log Z = log Gamma(nu / 2) - log Gamma((nu + d) / 2) + d / 2 log(nu pi) + log |S| / 2`.
///
/// With infinite degrees of freedom it is the Gaussian, whose `log f(x)` is `-(x - mu)' S^-1 (x - mu) / 2`.
///
/// A base needs tails at least as heavy as the target's. With lighter tails the weights have an infinite variance, and
/// a run cannot detect it. `nu = 4` or 5 is a usual choice.
///
/// ```
/// use annealed::model::StudentT;
/// use annealed::prelude::*;
///
/// // The product of two densities of Student's law with 3 degrees of freedom, far from 0.
/// let target = GradientModel::new(2, |x: &[f64], gradient: &mut [f64]| {
///     let mut log_density = 0.0;
///     for (x, slope) in x.iter().zip(gradient) {
///         let off = x - 8.0;
///         log_density -= 2.0 * (off * off / 3.0).ln_1p();
///         *slope = -4.0 * off / (3.0 + off * off);
///     }
///     log_density
/// })?;
/// let base = StudentT::new(Gaussian::laplace(&target, DVector::from_element(2, 7.0))?, 3.0)?;
/// let path = GeometricPath::new(base, &target);
/// let run = Ais::new(&path, Hmc::new(0.5, 3)?).schedule(Schedule::linear(10)?).run()?;
/// # let exact = 2.0 * (0.5 * 3f64.sqrt() * std::f64::consts::PI).ln();
/// # assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct StudentT {
    /// `N(mu, S)`.
    gaussian: Gaussian,
    degrees_of_freedom: f64,
    log_normalizer: f64,
}

impl StudentT {
    /// Creates the distribution with the mean of `gaussian` as its centre and the covariance as its scale matrix.
    ///
    /// # Errors
    /// Degrees of freedom below 0.1, because samples might overflow.
    pub fn new(gaussian: Gaussian, degrees_of_freedom: f64) -> Result<Self> {
        let (nu, expected) = (degrees_of_freedom, "0.1 or more");
        Error::check(nu >= 0.1, "degrees of freedom", nu, expected)?;
        let d = gaussian.dimension() as f64;
        // The Gaussian's normaliser already contains d / 2 log(2 pi).
        let of_tails = match nu.is_finite() {
            true => 0.5 * d * (0.5 * nu).ln() - (lgamma(0.5 * (nu + d)) - lgamma(0.5 * nu)),
            false => 0.0,
        };
        let log_normalizer = gaussian.log_normalizer() + of_tails;
        Error::check_number("log normalizer of a Student t", log_normalizer)?;
        Ok(Self {
            gaussian,
            degrees_of_freedom,
            log_normalizer,
        })
    }

    /// Returns the Gaussian whose mean is the centre and whose covariance is the scale matrix.
    pub fn gaussian(&self) -> &Gaussian {
        &self.gaussian
    }

    /// Returns the degrees of freedom `nu`.
    pub fn degrees_of_freedom(&self) -> f64 {
        self.degrees_of_freedom
    }

    fn is_gaussian(&self) -> bool {
        self.degrees_of_freedom == f64::INFINITY
    }

    fn power(&self) -> f64 {
        self.degrees_of_freedom + self.gaussian.dimension() as f64
    }

    /// Returns `log f`, given the Gaussian's log density `q = -(x - mu)' S^-1 (x - mu) / 2`.
    fn log_density_of(&self, q: f64) -> f64 {
        match self.is_gaussian() {
            true => q,
            false => -0.5 * self.power() * (-2.0 * q / self.degrees_of_freedom).ln_1p(),
        }
    }

    /// Returns the derivative of `log f` with respect to the Gaussian's log density `q`.
    pub(super) fn pull(&self, q: f64) -> f64 {
        match self.is_gaussian() {
            true => 1.0,
            false => self.power() / (self.degrees_of_freedom - 2.0 * q),
        }
    }
}

impl UnnormalizedModel for StudentT {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.log_density_of(self.gaussian.log_density(state))
    }

    fn state_dimension(&self) -> Option<usize> {
        self.gaussian.state_dimension()
    }
}

impl NormalizedModel for StudentT {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl Differentiable for StudentT {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        if self.is_gaussian() {
            return self.gaussian.accumulate_gradient(state, scale, gradient);
        }
        let q = self.gaussian.log_density(state);
        let scale = scale * self.pull(q);
        self.gaussian.accumulate_gradient(state, scale, gradient);
        self.log_density_of(q)
    }
}

impl Sampleable for StudentT {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let mut state = self.gaussian.sample(rng);
        if self.is_gaussian() {
            return state;
        }
        let half = 0.5 * self.degrees_of_freedom;
        let gamma = Gamma::new(half, 1.0).expect("a positive shape");
        // The square of the stretch is nu divided by a chi-square variable.
        let stretch = (half / gamma.sample(rng)).sqrt();
        let centre = self.gaussian.mean();
        state.zip_apply(centre, |x, centre| *x = centre + stretch * (*x - centre));
        state
    }
}

crate::num::deserialize_checked! {
    StudentT {
        gaussian: Gaussian,
        #[serde(deserialize_with = "Option::deserialize")]
        degrees_of_freedom: Option<f64>,
    } =>
        Self::new(gaussian, degrees_of_freedom.unwrap_or(f64::INFINITY))
}
// Some formats cannot store infinities.
crate::num::serialize_as! {
    StudentT as student {
        gaussian: student.gaussian,
        degrees_of_freedom: Some(student.degrees_of_freedom).filter(|nu| nu.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{dmatrix, dvector};

    #[test]
    fn the_normaliser_is_that_of_the_cauchy_law() {
        // Z = pi deviation in one dimension, 2 pi |S|^(1/2) in two.
        let one = StudentT::new(Gaussian::isotropic(dvector![3.0], 0.5).unwrap(), 1.0).unwrap();
        assert!((one.log_normalizer() - (0.5 * std::f64::consts::PI).ln()).abs() < 1e-14);
        let plane = Gaussian::new(dvector![0.0, 1.0], dmatrix![2.0, 1.0; 1.0, 2.0]).unwrap();
        let plane = StudentT::new(plane, 1.0).unwrap();
        let exact = (std::f64::consts::TAU * 3_f64.sqrt()).ln();
        assert!((plane.log_normalizer() - exact).abs() < 1e-14);
    }

    #[test]
    fn samples_have_the_quantiles_of_the_law() {
        let gaussian = Gaussian::new(dvector![1.0, 0.0], dmatrix![4.0, 1.0; 1.0, 1.0]).unwrap();
        let model = StudentT::new(gaussian, 1.0).unwrap();
        let mut rng = crate::random::stream(1, crate::random::Purpose::TESTING, 0);
        let draws = 40_000;
        let inside = |model: &StudentT, x: &DVector<f64>| {
            (x[0] - 1.0).abs() < 2.0 && model.log_density(x) < 0.0
        };
        let count = (0..draws)
            .filter(|_| inside(&model, &model.sample(&mut rng)))
            .count();
        // Half of a Cauchy law lies within one scale of its centre.
        let share = count as f64 / f64::from(draws);
        assert!(
            (share - 0.5).abs() < 4.0 * 0.5 / f64::from(draws).sqrt(),
            "{share}"
        );
    }
}
