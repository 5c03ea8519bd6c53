//! The base of a challenge: a mixture of a path's own base and of rivals.

use std::fmt;
use std::iter::once;

use nalgebra::DVector;
use rand::Rng;

use crate::error::Failure;
use crate::model::{
    Differentiable, Mixture, NormalizedModel, Sampleable, UnnormalizedModel, forward_model,
};
use crate::path::AnnealingPath;

/// A mixture of the base of a path, divided by its normaliser, and of rival bases B; its log Z is 0.
#[derive(Clone)]
pub struct RivalBase<P, B>(Mixture<Member<P, B>>);

/// The base of a path, or a rival.
#[derive(Debug, Clone)]
pub enum Member<P, B> {
    Old(P),
    Rival(B),
}

impl<P, B> fmt::Debug for RivalBase<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.0.components().map(|(share, _)| share);
        f.debug_struct("RivalBase")
            .field("shares", &Vec::from_iter(shares))
            .finish_non_exhaustive()
    }
}

impl<P: AnnealingPath, B: NormalizedModel<State = P::State>> RivalBase<P, B> {
    /// Mixes the base of `path`, of the stated log Z, with rivals in these shares; the base has what is left of 1.
    pub(in crate::adaptive) fn new(path: P, log_base_z: f64, rivals: Vec<(f64, B)>) -> Self {
        let old_share = 1.0 - rivals.iter().map(|(share, _)| share).sum::<f64>();
        let rivals = rivals.into_iter().map(|(share, base)| {
            let log_z = base.log_normalizer();
            (share, log_z, Member::Rival(base))
        });
        let old = (old_share, log_base_z, Member::Old(path));
        Self(Mixture::new(once(old).chain(rivals)))
    }
}

impl<P, B> UnnormalizedModel for Member<P, B>
where
    P: AnnealingPath,
    B: UnnormalizedModel<State = P::State>,
{
    type State = P::State;

    fn log_density(&self, state: &P::State) -> f64 {
        match self {
            Self::Old(path) => path.base().log_density(state),
            Self::Rival(base) => base.log_density(state),
        }
    }

    fn state_dimension(&self) -> Option<usize> {
        match self {
            Self::Old(path) => path.base().state_dimension(),
            Self::Rival(base) => base.state_dimension(),
        }
    }

    fn failure(&self) -> Option<Failure> {
        match self {
            Self::Old(path) => path.base().failure(),
            Self::Rival(base) => base.failure(),
        }
    }
}

impl<P, B> Sampleable for Member<P, B>
where
    P: AnnealingPath,
    B: Sampleable<State = P::State>,
{
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> P::State {
        match self {
            Self::Old(path) => path.base().sample(rng),
            Self::Rival(base) => base.sample(rng),
        }
    }
}

impl<P, B> Differentiable for Member<P, B>
where
    P: AnnealingPath<State = DVector<f64>, Base: Differentiable>,
    B: Differentiable,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        match self {
            Self::Old(path) => path.base().accumulate_gradient(state, scale, gradient),
            Self::Rival(base) => base.accumulate_gradient(state, scale, gradient),
        }
    }
}

forward_model! {
    [P: AnnealingPath, B] RivalBase<P, B> as Mixture<Member<P, B>>, self => self.0;
    UnnormalizedModel NormalizedModel Sampleable Differentiable
}

#[cfg(test)]
mod tests {
    use nalgebra::dvector;

    use super::*;
    use crate::model::{Gaussian, StudentT};
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream};

    type Path = GeometricPath<Gaussian, Gaussian>;

    /// An unnormalised base, `N(0, 2^2)`.
    fn old() -> Gaussian {
        Gaussian::isotropic(dvector![0.0], 2.0).unwrap()
    }

    fn path() -> Path {
        GeometricPath::new(old(), Gaussian::standard(1).unwrap())
    }

    /// Returns the integral of a density over `[-200, 200]`, by the trapezoidal rule.
    fn integral(density: impl Fn(f64) -> f64) -> f64 {
        (-40_000..40_000)
            .map(|i| 0.005 * density(0.005 * f64::from(i)))
            .sum()
    }

    /// Checks mass, samples and gradients of 30% of the old base and 70% of a rival.
    fn check<B: Differentiable + NormalizedModel + Sampleable>(rival: B) {
        let (path, log_z) = (path(), rival.log_normalizer());
        let wrong = |x: f64| {
            let x = dvector![x];
            0.3 * old().log_density(&x).exp() + 0.7 * (rival.log_density(&x) - log_z).exp()
        };
        assert!((integral(wrong) - 1.0).abs() > 0.1);
        let base = RivalBase::new(&path, old().log_normalizer(), vec![(0.7, rival)]);
        let density = |x: f64| base.log_density(&dvector![x]).exp();
        let mass = integral(density);
        assert!((mass - 1.0).abs() < 1e-5, "{mass}");

        let inside = |x: f64| (2.0..4.0).contains(&x);
        let share = integral(|x| if inside(x) { density(x) } else { 0.0 });
        let mut rng = stream(1, Purpose::Testing, 0);
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

    #[test]
    fn the_mixture_has_mass_samples_and_gradients_of_its_density() {
        let gaussian = || Gaussian::isotropic(dvector![3.0], 0.5).unwrap();
        check(gaussian());
        check(StudentT::new(gaussian(), 3.0).unwrap());
    }
}
