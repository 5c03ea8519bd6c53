//! Auxiliary variables: a path over additional coordinates, which are integrated out of the transitions.

use std::f64::consts::TAU;

use nalgebra::DVector;
use rand::Rng;

use crate::error::{Failure, demand_dimension};
use crate::kernel::fill_normal;
use crate::model::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::path::{AnnealingPath, Intermediate};
use crate::{Error, Result};

/// A path with k auxiliary variables a, the first coordinates of its states: `f_beta(a, z) = N(a; 0, I_k) f_beta(z)`.
///
/// Learned transitions over (a, z) are auxiliary-variable proposals for z (Huang et al. 2018): `q(z'|z)` is a joint
/// density, integrated over a and a'. All log Z stay the same, and the weights are unbiased for all transitions. With
/// one auxiliary variable couplings can move a z of length 1; their first layer moves the last half of the coordinates.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::estimate::WeightedSample;
/// use annealed::learned::{AuxiliaryPath, Coupling, LearnedTransitions, Objective, Training};
/// use annealed::model::Gaussian;
/// use annealed::path::GeometricPath;
/// use annealed::schedule::Schedule;
/// use nalgebra::dvector;
///
/// // One dimension, which couplings cannot move without an auxiliary variable.
/// let target = Gaussian::isotropic(dvector![1.0], 0.5)?;
/// let geometric = GeometricPath::new(Gaussian::standard(1)?, target);
/// let path = AuxiliaryPath::new(&geometric, 1)?;
/// let flow = LearnedTransitions::new(Coupling { hidden: 8, bins: 8 }, 2, 3, 1)?;
/// let schedule = Schedule::linear(3)?;
/// let trained = Training::new(Objective::Annealed).iterations(100).train(flow, &path, &schedule)?;
/// let run = Ais::new(&path, trained.flow).schedule(schedule).run()?;
/// let (mean, error) = run.expectation(|state| state[1]); // state[0] is the auxiliary variable
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AuxiliaryPath<P: AnnealingPath> {
    path: P,
    base: Auxiliary<P::Base>,
}

/// A model with auxiliary variables, `f(a, z) = N(a; 0, I_k) f(z)`. It has the same log Z as `f(z)`. Its methods panic
/// if a state has fewer than k coordinates.
#[derive(Debug, Clone, PartialEq)]
pub struct Auxiliary<M> {
    model: M,
    count: usize,
}

impl<P> AuxiliaryPath<P>
where
    P: AnnealingPath<State = DVector<f64>>,
    P::Base: Clone,
{
    /// Creates the path with `count` auxiliary variables.
    ///
    /// # Errors
    /// A count of 0 or above 2^30.
    pub fn new(path: P, count: usize) -> Result<Self> {
        Error::check_count("auxiliary variables", count, 1)?;
        let model = path.base().clone();
        let base = Auxiliary { model, count };
        Ok(Self { path, base })
    }
}

impl<P> AnnealingPath for AuxiliaryPath<P>
where
    P: AnnealingPath<State = DVector<f64>, Base: Clone>,
{
    type State = DVector<f64>;
    type Base = Auxiliary<P::Base>;
    type At = Auxiliary<P::At>;

    fn base(&self) -> &Self::Base {
        &self.base
    }

    fn at(&self, beta: f64) -> Self::At {
        Auxiliary {
            model: self.path.at(beta),
            count: self.base.count,
        }
    }

    fn check(&self) -> Result<()> {
        self.path.check()
    }
}

impl<M> Auxiliary<M> {
    /// Returns `log N(a; 0, I)` and z.
    fn split(&self, state: &DVector<f64>) -> (f64, DVector<f64>) {
        let (count, len) = (self.count, state.len());
        demand_dimension("a state", len, len.max(count));
        let square = state.rows(0, count).norm_squared();
        let log_density = -0.5 * (square + count as f64 * TAU.ln());
        (log_density, state.rows(count, len - count).into_owned())
    }
}

impl<M: UnnormalizedModel<State = DVector<f64>>> UnnormalizedModel for Auxiliary<M> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let (of_noise, own) = self.split(state);
        of_noise + self.model.log_density(&own)
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.model.state_dimension()? + self.count)
    }

    fn epsilon(&self) -> f64 {
        self.model.epsilon()
    }

    fn failure(&self) -> Option<Failure> {
        self.model.failure()
    }
}

impl<M: Sampleable<State = DVector<f64>>> Sampleable for Auxiliary<M> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let own = self.model.sample(rng);
        let mut state = DVector::zeros(self.count);
        fill_normal(&mut state, rng);
        state.extend(own.iter().copied());
        state
    }
}

impl<M: NormalizedModel<State = DVector<f64>>> NormalizedModel for Auxiliary<M> {
    fn log_normalizer(&self) -> f64 {
        self.model.log_normalizer()
    }
}

impl<M: Differentiable> Differentiable for Auxiliary<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (of_noise, own) = self.split(state);
        let mut by_own = DVector::zeros(own.len());
        let log_density = self.model.accumulate_gradient(&own, scale, &mut by_own);
        let entries = gradient.iter_mut().zip(state);
        for (k, (entry, x)) in entries.enumerate() {
            *entry += match k.checked_sub(self.count) {
                Some(k) => by_own[k],
                None => -scale * x,
            };
        }
        of_noise + log_density
    }
}

impl<M: Intermediate<State = DVector<f64>>> Intermediate for Auxiliary<M> {
    fn beta(&self) -> f64 {
        self.model.beta()
    }

    fn log_ratio(&self, previous: &Self, state: &DVector<f64>) -> f64 {
        let own = self.split(state).1;
        self.model.log_ratio(&previous.model, &own)
    }
}
