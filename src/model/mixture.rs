//! Mixtures of Gaussians.

use nalgebra::DVector;
use rand::{Rng, RngExt};

use crate::model::gaussian::Gaussian;
use crate::model::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::log_sum_exp;
use crate::{Error, Result};

/// A sum of normalised Gaussians N, with masses `m_i` that need not sum to 1:
///
/// `log f(x) = log sum_i m_i N(x; mu_i, Sigma_i)`, `log Z = log sum_i m_i`.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianMixture {
    components: Vec<Component>,
}

#[derive(Debug, Clone, PartialEq)]
struct Component {
    mass: f64,
    gaussian: Gaussian,
    /// `log m_i - log Z_i`.
    log_scale: f64,
}

impl Component {
    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.log_scale + self.gaussian.log_density(state)
    }
}

impl GaussianMixture {
    /// Creates a mixture from pairs of mass and Gaussian.
    ///
    /// # Errors
    /// No component; a mass that is not finite and positive; masses whose sum overflows; dimensions that differ.
    pub fn new(components: impl IntoIterator<Item = (f64, Gaussian)>) -> Result<Self> {
        let components: Vec<Component> = components
            .into_iter()
            .map(|(mass, gaussian)| {
                Error::check_positive("mass", mass)?;
                Ok(Component {
                    mass,
                    log_scale: mass.ln() - gaussian.log_normalizer(),
                    gaussian,
                })
            })
            .collect::<Result<_>>()?;
        Error::check_not_empty("components", components.len())?;
        let first = components[0].gaussian.dimension();
        for component in &components {
            Error::check_dimension("component", component.gaussian.dimension(), first)?;
        }
        let mixture = Self { components };
        Error::check_positive("sum of the masses", mixture.mass())?;
        Ok(mixture)
    }

    /// Returns the mass and the Gaussian of each component.
    pub fn components(&self) -> impl ExactSizeIterator<Item = (f64, &Gaussian)> {
        self.components.iter().map(|c| (c.mass, &c.gaussian))
    }

    fn mass(&self) -> f64 {
        self.components.iter().map(|c| c.mass).sum()
    }
}

impl UnnormalizedModel for GaussianMixture {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        log_sum_exp(self.components.iter().map(|c| c.log_density(state)))
    }

    fn state_dimension(&self) -> Option<usize> {
        self.components[0].gaussian.state_dimension()
    }
}

impl NormalizedModel for GaussianMixture {
    fn log_normalizer(&self) -> f64 {
        self.mass().ln()
    }
}

impl Sampleable for GaussianMixture {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let mut left = rng.random::<f64>() * self.mass();
        let chosen = self.components.iter().position(|component| {
            left -= component.mass;
            left < 0.0
        });
        // Rounding may leave no component chosen.
        let chosen = chosen.unwrap_or(self.components.len() - 1);
        self.components[chosen].gaussian.sample(rng)
    }
}

impl Differentiable for GaussianMixture {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let log_density = self.log_density(state);
        if log_density == f64::NEG_INFINITY {
            // All components underflow here, and the gradient is not defined.
            return log_density;
        }
        for component in &self.components {
            let responsibility = (component.log_density(state) - log_density).exp();
            let scale = scale * responsibility;
            component
                .gaussian
                .accumulate_gradient(state, scale, gradient);
        }
        log_density
    }
}

crate::num::deserialize_checked! {
    GaussianMixture as (components: Vec<(f64, Gaussian)>) => Self::new(components)
}
crate::num::serialize_as! {
    GaussianMixture as mixture
        (Vec::from_iter(mixture.components.iter().map(|c| (c.mass, &c.gaussian))))
}
