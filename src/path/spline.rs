//! Moment-averaging splines: paths through knots at which moments are averaged.

use crate::model::{ExponentialFamily, UnnormalizedModel, forward_model};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate, ratio_given};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A moment-averaging spline (Grosse, Maddison and Salakhutdinov 2013). The models at the knots have moments that are
/// linear in beta, and a path of type `S` joins each knot to the next.
///
/// `S` is usually a [`GeometricPath`](super::GeometricPath) in an [`Arc`](std::sync::Arc), for any exponential family,
/// or a [`GaussianPath`](super::GaussianPath), whose models can be sampled. For RBMs see
/// [`RbmPath::moment_spline`](crate::rbm::RbmPath::moment_spline). The path is continuous with a kink at each knot, so
/// an optimizer of schedules should put a stage at each of the [`knots`](Self::knots) and integrate between them. With
/// a knot at each stage a run visits moment-averaged models only. The densities at the knots have the constants of
/// [`with_moments`](ExponentialFamily::with_moments).
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::estimate::LogZ;
/// use annealed::kernel::CoordinateGibbs;
/// use annealed::model::{Gaussian, NormalizedModel};
/// use annealed::path::{GaussianPath, MomentSplinePath};
/// use annealed::schedule::Schedule;
/// use nalgebra::{dmatrix, dvector};
///
/// let base = Gaussian::new(dvector![-5.0, 0.0], dmatrix![1.0, -0.85; -0.85, 1.0])?;
/// let target = Gaussian::new(dvector![5.0, 0.0], dmatrix![1.0, 0.85; 0.85, 1.0])?;
/// let knots = Schedule::linear(10)?;
/// let path = MomentSplinePath::new(base, target.clone(), knots, GaussianPath::new)?;
/// let run = Ais::new(&path, CoordinateGibbs::systematic()).seed(1).run()?;
/// let error = run.log_z() - target.log_normalizer();
/// assert!(error.abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias("moment averaging", "averaged moments"))]
#[derive(Debug, Clone, PartialEq)]
pub struct MomentSplinePath<S> {
    knots: Schedule,
    segments: Vec<S>,
}

impl<S: AnnealingPath> MomentSplinePath<S> {
    /// Creates a spline between two members of a family. `join` makes the path from the model at each knot to the next;
    /// the first and last knot are the ends. The matching of moments at a knot starts from the model at the previous
    /// knot.
    ///
    /// # Errors
    /// Base and target that differ in dimension; moments of a knot that are not matched (see
    /// [`with_moments`](ExponentialFamily::with_moments)); an error of `join`.
    pub fn new<M: ExponentialFamily + Clone>(
        base: M,
        target: M,
        knots: Schedule,
        mut join: impl FnMut(M, M) -> Result<S>,
    ) -> Result<Self> {
        let (from, to) = (base.moments(), target.moments());
        Error::check_dimension("moments of the target", to.len(), from.len())?;
        let steps = knots.stages();
        let mut segments = Vec::with_capacity(steps);
        let mut previous = base;
        for &beta in &knots.betas()[1..steps] {
            let model = previous.with_moments(&(&from * (1.0 - beta) + &to * beta))?;
            segments.push(join(previous, model.clone())?);
            previous = model;
        }
        segments.push(join(previous, target)?);
        Ok(Self { knots, segments })
    }

    /// Returns the betas of the knots, including 0 and 1.
    pub fn knots(&self) -> &Schedule {
        &self.knots
    }

    /// Returns the paths that join the knots.
    pub fn segments(&self) -> &[S] {
        &self.segments
    }
}

impl<S: AnnealingPath> AnnealingPath for MomentSplinePath<S> {
    type State = S::State;
    type Base = S::Base;
    type At = MomentSplineAt<S::At>;

    fn base(&self) -> &S::Base {
        self.segments[0].base()
    }

    fn check(&self) -> Result<()> {
        self.segments.iter().try_for_each(S::check)
    }

    fn at(&self, beta: f64) -> MomentSplineAt<S::At> {
        let segment = self.knots.interval(beta);
        let (start, end) = (self.knots.betas()[segment], self.knots.betas()[segment + 1]);
        let width = end - start;
        MomentSplineAt {
            beta,
            segment,
            width,
            inner: self.segments[segment].at((beta - start) / width),
        }
    }
}

/// The model at one beta of a [`MomentSplinePath`], in the segment that contains beta. At a knot, the segment that
/// begins there counts.
#[derive(Debug, Clone, PartialEq)]
pub struct MomentSplineAt<A> {
    beta: f64,
    segment: usize,
    /// Length in beta of the segment.
    width: f64,
    inner: A,
}

forward_model! {
    [A] MomentSplineAt<A> as A, self => self.inner;
    UnnormalizedModel NormalizedModel Sampleable Differentiable FullConditionals
}

impl<A: Intermediate> Intermediate for MomentSplineAt<A> {
    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, previous: &Self, state: &A::State) -> f64 {
        if self.segment == previous.segment {
            return self.inner.log_ratio(&previous.inner, state);
        }
        self.log_ratio_given(previous, state, self.log_density(state), None)
    }

    fn log_ratio_given(
        &self,
        previous: &Self,
        state: &A::State,
        here: f64,
        before: Option<f64>,
    ) -> f64 {
        if self.segment == previous.segment {
            let (model, previous) = (&self.inner, &previous.inner);
            return model.log_ratio_given(previous, state, here, before);
        }
        ratio_given(previous, state, here, before)
    }
}

impl<A: BetaDerivative> BetaDerivative for MomentSplineAt<A> {
    fn beta_derivative(&self, state: &A::State) -> f64 {
        self.inner.beta_derivative(state) / self.width
    }
}
