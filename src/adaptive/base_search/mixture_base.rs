//! A base that mixes a path's own base and other distributions.

use std::fmt;
use std::iter::once;

use nalgebra::DVector;
use rand::Rng;

use crate::error::Failure;
use crate::model::{
    Differentiable, Mixture, NormalizedModel, Sampleable, UnnormalizedModel, forward_model,
};
use crate::path::AnnealingPath;
use crate::{Error, Result};

/// A mixture of the base of a path P, divided by its normaliser, and other distributions L. Its log Z is 0.
///
/// A run from the mixture loses no mass that one of the members covers. If a member has the share s, a log weight is at
/// most `-log s` higher than in a run from this member alone.
///
/// ```
/// use annealed::adaptive::MixtureBase;
/// use annealed::prelude::*;
///
/// // Two modes, of which the base reaches one.
/// let part = |mean| Gaussian::isotropic(DVector::from_element(3, mean), 0.5);
/// let target = GaussianMixture::new([(0.5, part(0.0)?), (0.5, part(9.0)?)])?;
/// let path = GeometricPath::new(part(0.0)?, &target);
/// let mixed = GeometricPath::new(MixtureBase::new(&path, [(0.5, part(9.0)?)])?, &target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let run = Ais::new(&mixed, kernel).schedule(Schedule::linear(10)?).run()?;
/// assert!(run.log_z().abs() < 0.1, "{run}");
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Clone)]
pub struct MixtureBase<P, L>(Mixture<Member<P, L>>);

/// The base of a path, or another distribution.
#[derive(Debug, Clone)]
pub enum Member<P, L> {
    /// The path's own base.
    Own(P),
    /// Another distribution.
    Other(L),
}

impl<P, L> MixtureBase<P, L> {
    /// Returns the share of the path's own base.
    pub fn own_share(&self) -> f64 {
        1.0 - self.laws().map(|(share, _)| share).sum::<f64>()
    }

    /// Returns the other distributions with their shares.
    pub fn laws(&self) -> impl Iterator<Item = (f64, &L)> {
        self.0
            .components()
            .filter_map(|(share, member)| match member {
                Member::Own(_) => None,
                Member::Other(law) => Some((share, law)),
            })
    }
}

impl<P, L> fmt::Debug for MixtureBase<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.0.components().map(|(share, _)| share);
        f.debug_struct("MixtureBase")
            .field("shares", &Vec::from_iter(shares))
            .finish_non_exhaustive()
    }
}

impl<P: AnnealingPath, L: NormalizedModel<State = P::State>> MixtureBase<P, L> {
    /// Mixes the base of `path` with other distributions in the given shares. The base gets the remaining share.
    ///
    /// # Errors
    /// A share that is not positive; shares that leave nothing to the path's own base; distributions of another
    /// dimension; a log normaliser that is no number.
    pub fn new(path: P, laws: impl IntoIterator<Item = (f64, L)>) -> Result<Self>
    where
        P::Base: NormalizedModel,
    {
        let laws = Vec::from_iter(laws);
        let dimension = path.base().state_dimension();
        for (_, law) in &laws {
            Error::check_number("log normalizer of a law", law.log_normalizer())?;
            if let (Some(of_law), Some(of_base)) = (law.state_dimension(), dimension) {
                Error::check_dimension("a law", of_law, of_base)?;
            }
        }
        laws.iter()
            .try_for_each(|(share, _)| Error::check_inner_fraction("share", *share))?;
        let sum: f64 = laws.iter().map(|(share, _)| share).sum();
        // Shares that sum to 1 up to rounding leave nothing to the own base.
        Error::check(sum < 1.0 - 1e-9, "sum of the shares", sum, "less than 1")?;
        let log_z = path.base().log_normalizer();
        Error::check_number("log normalizer of the base", log_z)?;
        Ok(Self::with_log_z(path, log_z, laws))
    }

    /// Mixes the base of `path`, whose log Z is `own_log_z`, with other distributions in the given shares.
    pub(in crate::adaptive) fn with_log_z(path: P, own_log_z: f64, laws: Vec<(f64, L)>) -> Self {
        let own_share = 1.0 - laws.iter().map(|(share, _)| share).sum::<f64>();
        let laws = laws.into_iter().map(|(share, law)| {
            let log_z = law.log_normalizer();
            (share, log_z, Member::Other(law))
        });
        let own = (own_share, own_log_z, Member::Own(path));
        Self(Mixture::new(once(own).chain(laws)))
    }
}

impl<P, L> UnnormalizedModel for Member<P, L>
where
    P: AnnealingPath,
    L: UnnormalizedModel<State = P::State>,
{
    type State = P::State;

    fn log_density(&self, state: &P::State) -> f64 {
        match self {
            Self::Own(path) => path.base().log_density(state),
            Self::Other(law) => law.log_density(state),
        }
    }

    fn state_dimension(&self) -> Option<usize> {
        match self {
            Self::Own(path) => path.base().state_dimension(),
            Self::Other(law) => law.state_dimension(),
        }
    }

    fn epsilon(&self) -> f64 {
        match self {
            Self::Own(path) => path.base().epsilon(),
            Self::Other(law) => law.epsilon(),
        }
    }

    fn failure(&self) -> Option<Failure> {
        match self {
            Self::Own(path) => path.base().failure(),
            Self::Other(law) => law.failure(),
        }
    }
}

impl<P, L> Sampleable for Member<P, L>
where
    P: AnnealingPath,
    L: Sampleable<State = P::State>,
{
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> P::State {
        match self {
            Self::Own(path) => path.base().sample(rng),
            Self::Other(law) => law.sample(rng),
        }
    }
}

impl<P, L> Differentiable for Member<P, L>
where
    P: AnnealingPath<State = DVector<f64>, Base: Differentiable>,
    L: Differentiable,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        match self {
            Self::Own(path) => path.base().accumulate_gradient(state, scale, gradient),
            Self::Other(law) => law.accumulate_gradient(state, scale, gradient),
        }
    }
}

forward_model! {
    [P: AnnealingPath, L] MixtureBase<P, L> as Mixture<Member<P, L>>, self => self.0;
    UnnormalizedModel Sampleable Differentiable
}

impl<P, L> NormalizedModel for MixtureBase<P, L>
where
    P: AnnealingPath<Base: NormalizedModel>,
    L: NormalizedModel<State = P::State>,
{
    fn log_normalizer(&self) -> f64 {
        self.0.log_normalizer()
    }

    fn has_certain_normalizer(&self) -> bool {
        self.0.components().all(|(_, member)| match member {
            Member::Own(path) => path.base().has_certain_normalizer(),
            Member::Other(law) => law.has_certain_normalizer(),
        })
    }
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
    fn own() -> Gaussian {
        Gaussian::isotropic(dvector![0.0], 2.0).unwrap()
    }

    fn path() -> Path {
        GeometricPath::new(own(), Gaussian::standard(1).unwrap())
    }

    /// Returns the integral of a density over `[-200, 200]`, by the trapezoidal rule.
    fn integral(density: impl Fn(f64) -> f64) -> f64 {
        (-40_000..40_000)
            .map(|i| 0.005 * density(0.005 * f64::from(i)))
            .sum()
    }

    /// Checks mass, samples and gradients of the mixture of the path's own base (30%) and another distribution (70%).
    fn check<B: Differentiable + NormalizedModel + Sampleable>(law: B) {
        let (path, log_z) = (path(), law.log_normalizer());
        let wrong = |x: f64| {
            let x = dvector![x];
            0.3 * own().log_density(&x).exp() + 0.7 * (law.log_density(&x) - log_z).exp()
        };
        assert!((integral(wrong) - 1.0).abs() > 0.1);
        let base = MixtureBase::new(&path, [(0.7, law)]).unwrap();
        let density = |x: f64| base.log_density(&dvector![x]).exp();
        let mass = integral(density);
        assert!((mass - 1.0).abs() < 1e-5, "{mass}");

        let inside = |x: f64| (2.0..4.0).contains(&x);
        let share = integral(|x| if inside(x) { density(x) } else { 0.0 });
        let mut rng = stream(1, Purpose::TESTING, 0);
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
