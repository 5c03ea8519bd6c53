//! Refitted bases: mixtures of a path's own base and of a law fitted to states of its target.

use std::fmt;

use nalgebra::DVector;
use rand::{Rng, RngExt};

use super::law::Law;
use crate::Error;
use crate::model::{Differentiable, Gaussian, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::log_add_exp;

/// The base of the last round of a [refitted](crate::adaptive::Rounds::refit) run: a Gaussian or Student t, fitted to
/// the weighted states of the rounds before, and a share of the path's own base.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Refit {
    pub(super) law: Law,
    pub(super) own_share: f64,
}

impl Refit {
    pub(super) fn new(law: Law, own_share: f64) -> crate::Result<Self> {
        Error::check_inner_fraction("share of the path's own base", own_share)?;
        Ok(Self { law, own_share })
    }

    /// Returns the Gaussian, or mean and scale matrix of the Student t.
    pub fn gaussian(&self) -> &Gaussian {
        match &self.law {
            Law::Gaussian(gaussian) => gaussian,
            Law::Student(student) => student.gaussian(),
        }
    }

    /// Returns the degrees of freedom of the Student t; `None` for a Gaussian.
    pub fn degrees_of_freedom(&self) -> Option<f64> {
        match &self.law {
            Law::Gaussian(_) => None,
            Law::Student(student) => Some(student.degrees_of_freedom()),
        }
    }

    /// Returns the share of the path's own base.
    pub fn own_share(&self) -> f64 {
        self.own_share
    }
}

impl fmt::Display for Refit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.degrees_of_freedom() {
            None => write!(f, "a Gaussian")?,
            Some(nu) => write!(f, "a Student t with {nu} degrees of freedom")?,
        }
        write!(
            f,
            " and {:.1}% of the path's own base",
            100.0 * self.own_share
        )
    }
}

crate::num::deserialize_checked! {
    Refit { law: Law, own_share: f64 } => Self::new(law, own_share)
}

/// The density of a [`Refit`], beside the own base `f_a` of normaliser `Z_a`:
///
/// `log f(x) = log(s f_a(x) + (1 - s) Z_a q(x))`, `log Z = log Z_a`,
///
/// with the fitted, normalised law q and the own base's share s.
#[derive(Debug, Clone)]
pub struct RefittedBase<A> {
    own: A,
    refit: Refit,
    /// `log s` and `log (1 - s) Z_a / Z_q`.
    log_scales: [f64; 2],
}

impl<A: NormalizedModel<State = DVector<f64>>> RefittedBase<A> {
    pub(super) fn new(own: A, refit: Refit) -> Self {
        let fitted = (-refit.own_share).ln_1p() - refit.law.log_normalizer();
        Self {
            log_scales: [refit.own_share.ln(), fitted + own.log_normalizer()],
            own,
            refit,
        }
    }
}

impl<A: UnnormalizedModel<State = DVector<f64>>> RefittedBase<A> {
    /// Returns the logs of the two terms of the density.
    fn terms(&self, state: &DVector<f64>) -> [f64; 2] {
        let [own, fitted] = self.log_scales;
        [
            own + self.own.log_density(state),
            fitted + self.refit.law.log_density(state),
        ]
    }
}

impl<A: UnnormalizedModel<State = DVector<f64>>> UnnormalizedModel for RefittedBase<A> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let [own, fitted] = self.terms(state);
        log_add_exp(own, fitted)
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.refit.gaussian().dimension())
    }
}

impl<A: NormalizedModel<State = DVector<f64>>> NormalizedModel for RefittedBase<A> {
    fn log_normalizer(&self) -> f64 {
        self.own.log_normalizer()
    }
}

impl<A: Sampleable<State = DVector<f64>>> Sampleable for RefittedBase<A> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        match rng.random::<f64>() < self.refit.own_share {
            true => self.own.sample(rng),
            false => self.refit.law.sample(rng),
        }
    }
}

impl<A: Differentiable> Differentiable for RefittedBase<A> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let [own, fitted] = self.terms(state);
        let log_density = log_add_exp(own, fitted);
        let (own, fitted) = ((own - log_density).exp(), (fitted - log_density).exp());
        if own > 0.0 {
            self.own.accumulate_gradient(state, scale * own, gradient);
        }
        if fitted > 0.0 {
            let law = &self.refit.law;
            law.accumulate_gradient(state, scale * fitted, gradient);
        }
        log_density
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::dvector;

    use super::*;
    use crate::model::StudentT;
    use crate::random::{Purpose, stream};

    /// An unnormalised own base, `N(0, 2^2)`.
    fn own() -> Gaussian {
        Gaussian::isotropic(dvector![0.0], 2.0).unwrap()
    }

    fn laws() -> [Law; 2] {
        let gaussian = || Gaussian::isotropic(dvector![3.0], 0.5).unwrap();
        let student = StudentT::new(gaussian(), 3.0).unwrap();
        [Law::Gaussian(gaussian()), Law::Student(student)]
    }

    /// Returns the integral of a density over `[-200, 200]`, by the trapezoidal rule.
    fn integral(density: impl Fn(f64) -> f64) -> f64 {
        (-40_000..40_000)
            .map(|i| 0.005 * density(0.005 * f64::from(i)))
            .sum()
    }

    #[test]
    fn the_mass_is_that_of_the_own_base() {
        for law in laws() {
            let base = RefittedBase::new(own(), Refit::new(law.clone(), 0.3).unwrap());
            let mass = integral(|x| base.log_density(&dvector![x]).exp());
            assert!((mass.ln() - own().log_normalizer()).abs() < 1e-5, "{mass}");
            // The wrong twin forgets the normaliser of the fitted law.
            let wrong = |x: f64| {
                0.3 * own().log_density(&dvector![x]).exp()
                    + 0.7 * law.log_density(&dvector![x]).exp()
            };
            assert!((integral(wrong).ln() - own().log_normalizer()).abs() > 0.1);
        }
    }

    #[test]
    fn samples_and_gradients_are_those_of_the_density() {
        let mut rng = stream(1, Purpose::Testing, 0);
        for law in laws() {
            let base = RefittedBase::new(own(), Refit::new(law, 0.3).unwrap());
            let inside = |x: f64| (2.0..4.0).contains(&x);
            let density = |x: f64| (base.log_density(&dvector![x]) - base.log_normalizer()).exp();
            let share = integral(|x| if inside(x) { density(x) } else { 0.0 });
            let draws = (0..20_000).map(|_| base.sample(&mut rng));
            let found = draws.filter(|x| inside(x[0])).count() as f64 / 20_000.0;
            let error = (share * (1.0 - share) / 20_000.0).sqrt();
            assert!((found - share).abs() < 4.0 * error, "{found}, {share}");
            for x in [-300.0_f64, -1.0, 2.2, 3.0, 50.0] {
                let at = |x: f64| base.log_density(&dvector![x]);
                let step = 1e-4 * (1.0 + x.abs());
                let slope = (at(x + step) - at(x - step)) / (2.0 * step);
                let gradient = base.gradient(&dvector![x])[0];
                assert!((gradient - slope).abs() < 1e-4 * (1.0 + slope.abs()), "{x}");
            }
        }
    }
}
