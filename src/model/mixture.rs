//! Mixtures of Gaussians.

use nalgebra::DVector;
use rand::Rng;

use crate::error::Failure;
use crate::model::gaussian::Gaussian;
use crate::model::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::{log_sum_exp, with_slice};
use crate::random::draw_index;
use crate::{Error, Result};

/// A sum of normalised Gaussians N, with masses `m_i` that need not sum to 1:
///
/// `log f(x) = log sum_i m_i N(x; mu_i, Sigma_i)`, `log Z = log sum_i m_i`.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianMixture(pub(super) Mixture<Gaussian>);

impl GaussianMixture {
    /// Creates a mixture from pairs of mass and Gaussian.
    ///
    /// # Errors
    /// No component; a mass that is not finite and positive; masses whose sum overflows; dimensions that differ.
    pub fn new(components: impl IntoIterator<Item = (f64, Gaussian)>) -> Result<Self> {
        let components = Vec::from_iter(components);
        Error::check_not_empty("components", components.len())?;
        let first = components[0].1.dimension();
        for (mass, gaussian) in &components {
            Error::check_positive("mass", *mass)?;
            Error::check_dimension("component", gaussian.dimension(), first)?;
        }
        let with_log_z = |(mass, g): (f64, Gaussian)| (mass, g.log_normalizer(), g);
        let mixture = Mixture::new(components.into_iter().map(with_log_z));
        Error::check_positive("sum of the masses", mixture.mass())?;
        Ok(Self(mixture))
    }

    /// Returns the mass and the Gaussian of each component.
    pub fn components(&self) -> impl ExactSizeIterator<Item = (f64, &Gaussian)> {
        self.0.components()
    }
}

crate::model::forward_model! {
    [] GaussianMixture as Mixture<Gaussian>, self => self.0;
    UnnormalizedModel NormalizedModel Sampleable Differentiable
}

/// A sum of normalised densities of one type, with masses that need not sum to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture<C>(Vec<Component<C>>);

#[derive(Debug, Clone, PartialEq)]
struct Component<C> {
    mass: f64,
    /// `log m_i - log Z_i`.
    log_scale: f64,
    model: C,
}

impl<C> Mixture<C> {
    /// Creates a mixture from one or more masses, each with the log normaliser of its model and the model.
    pub(crate) fn new(components: impl IntoIterator<Item = (f64, f64, C)>) -> Self {
        let component = |(mass, log_z, model): (f64, f64, C)| Component {
            mass,
            log_scale: mass.ln() - log_z,
            model,
        };
        Self(components.into_iter().map(component).collect())
    }

    /// Returns the mass and the model of each component.
    pub(crate) fn components(&self) -> impl ExactSizeIterator<Item = (f64, &C)> {
        self.0.iter().map(|c| (c.mass, &c.model))
    }

    fn mass(&self) -> f64 {
        self.0.iter().map(|c| c.mass).sum()
    }
}

impl<C: UnnormalizedModel> Mixture<C> {
    /// Returns the part of each component in the density, as a logarithm.
    pub(super) fn terms(&self, state: &C::State) -> impl Iterator<Item = f64> {
        let components = self.0.iter();
        components.map(|c| c.log_scale + c.model.log_density(state))
    }
}

impl<C: UnnormalizedModel> UnnormalizedModel for Mixture<C> {
    type State = C::State;

    fn log_density(&self, state: &C::State) -> f64 {
        log_sum_exp(self.terms(state))
    }

    fn state_dimension(&self) -> Option<usize> {
        self.0[0].model.state_dimension()
    }

    fn epsilon(&self) -> f64 {
        let each = self.0.iter().map(|c| c.model.epsilon());
        each.fold(f64::EPSILON, f64::max)
    }

    fn failure(&self) -> Option<Failure> {
        self.0.iter().find_map(|c| c.model.failure())
    }
}

impl<C: UnnormalizedModel> NormalizedModel for Mixture<C> {
    fn log_normalizer(&self) -> f64 {
        self.mass().ln()
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl<C: Sampleable> Sampleable for Mixture<C> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> C::State {
        let chosen = draw_index(self.0.iter().map(|c| c.mass), self.mass(), rng);
        self.0[chosen].model.sample(rng)
    }
}

impl<C: Differentiable> Differentiable for Mixture<C> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        with_slice(self.0.len(), |terms| {
            for (term, found) in terms.iter_mut().zip(self.terms(state)) {
                *term = found;
            }
            let log_density = log_sum_exp(&*terms);
            for (term, component) in terms.iter().zip(&self.0) {
                // If all terms underflow, the gradient is not defined and the share is NaN.
                let share = (term - log_density).exp();
                if share > 0.0 {
                    let model = &component.model;
                    model.accumulate_gradient(state, scale * share, gradient);
                }
            }
            log_density
        })
    }
}

crate::num::deserialize_checked! {
    GaussianMixture as (components: Vec<(f64, Gaussian)>) => Self::new(components)
}
crate::num::serialize_as! {
    GaussianMixture as mixture
        (Vec::from_iter(mixture.components()))
}
