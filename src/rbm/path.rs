//! Geometric paths of RBMs, from a base-rate model to a target, straight or through RBMs at knots.

use nalgebra::DVector;
use rand::Rng;

use crate::model::UnnormalizedModel;
use crate::num::{Simd, SimdLevel, sigmoid, softplus, softplus_increment};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate};
use crate::rbm::base_rate::Components;
use crate::rbm::engine::{Categorical, LINE, Row, WeightMatrix, Weights};
use crate::rbm::lower_bound::share_of_run;
use crate::rbm::model::{check_finite, draw_all, draw_into, largest_sum, masked_sum_of};
use crate::rbm::{BaseRate, Rbm, Scalar};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A path of RBMs from a base-rate model to a target, straight or through RBMs at knots.
///
/// Between neighbouring knots it is geometric in the *joint* densities of v and h: W, a and b are linear in beta. The path that
/// is geometric in the *marginal* densities is [`GeometricPath`](crate::path::GeometricPath) between both models.
///
/// The straight path (Salakhutdinov and Murray 2008, equation 15) is
///
/// `log f_beta(v) = ((1 - beta) b_base + beta b).v + sum_j softplus(beta (a_j + W_j v))`.
///
/// Where the base is a [`mixture`](BaseRate::mixture) of C components, a categorical unit c stands beside the hidden units on
/// the first segment, up to beta = 1 where there are no knots:
///
/// `log f_beta(v) = log (1/C) sum_c exp((1 - beta) (lambda_c + theta_c.v)) + beta b.v
/// + sum_j softplus(beta (a_j + W_j v))`, `lambda_c = log(C pi_c) - sum_i log(1 + e^(theta_ci))`.
///
/// Given v, c has probabilities in proportion to the exponentials; given c and h, the logits of v are
/// `(1 - beta) theta_c + beta (b + W^T h)`. The factor 1/C makes the density at beta = 1 that of the target.
///
/// The part between two knots is a segment. A stage multiplies by the weights at both ends of its segment; on the first one,
/// which starts at zero weights, by one matrix only, and is twice as fast.
#[derive(Debug, Clone)]
pub struct RbmPath<T: Scalar = f32> {
    base: BaseRate<T>,
    /// The base's visible biases that do not depend on its component: 0 for a mixture.
    base_bias: DVector<T>,
    /// The components of a base that is a mixture.
    categorical: Option<Categorical<T>>,
    /// The betas of base, inner knots and target.
    knots: Schedule,
    /// The models at the knots, without the base.
    ends: Vec<SegmentEnd<T>>,
    pub(crate) engine: Simd,
}

/// The RBM at the end of a segment.
#[derive(Debug, Clone)]
pub(crate) struct SegmentEnd<T: Scalar> {
    pub(crate) rbm: Rbm<T>,
    /// `W`, in the form of products with visible units.
    pub(crate) up: Weights<T>,
    /// `W^T`, in the form of products with hidden units.
    pub(crate) down: Weights<T>,
    pub(crate) hidden_bias: Vec<Row<T>>,
    /// The visible biases minus those at the segment's start, with zeros up to a whole line.
    pub(crate) bias_slope: Vec<T>,
}

impl<T: Scalar> SegmentEnd<T> {
    /// Takes `bias_slope` without padding.
    fn new(engine: Simd, rbm: Rbm<T>, bias_slope: &DVector<T>) -> Self {
        let mut slope = bias_slope.as_slice().to_vec();
        slope.resize(slope.len().next_multiple_of(LINE), T::zero());
        Self {
            up: Weights::new(engine, WeightMatrix::Upright(rbm.weights())),
            down: Weights::new(engine, WeightMatrix::Transposed(rbm.weights())),
            hidden_bias: Row::panels(rbm.hidden_bias().as_slice()),
            bias_slope: slope,
            rbm,
        }
    }
}

impl<T: Scalar> RbmPath<T> {
    /// The straight path from a base to a target of the same shape.
    ///
    /// # Errors
    /// Where they differ in visible or hidden units, or the difference of their biases overflows.
    pub fn new(base: BaseRate<T>, target: Rbm<T>) -> Result<Self> {
        Self::through(base, vec![target], Schedule::linear(1)?)
    }

    /// The path from `base` at `beta = 0` through `models` at the later `knots`, the last of them
    /// the target at `beta = 1`.
    ///
    /// # Errors
    /// Where there is not one model for each knot after 0, models differ in visible or hidden
    /// units, or the difference of neighbours' visible biases overflows.
    pub fn through(base: BaseRate<T>, models: Vec<Rbm<T>>, knots: Schedule) -> Result<Self> {
        Self::assemble(base, models, knots, Simd::best())
    }

    fn assemble(
        base: BaseRate<T>,
        models: Vec<Rbm<T>>,
        knots: Schedule,
        engine: Simd,
    ) -> Result<Self> {
        Error::check_dimension("models at the knots after 0", models.len(), knots.stages())?;
        let mixture = base.as_mixture();
        let base_bias = match mixture {
            None => base.visible_bias().clone(),
            Some(_) => DVector::zeros(base.visible_units()),
        };
        let mut ends: Vec<SegmentEnd<T>> = Vec::with_capacity(models.len());
        for rbm in models {
            let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
            Error::check_dimension("hidden units of the base", base.hidden_units(), hidden)?;
            Error::check_dimension("visible units of the base", base.visible_units(), visible)?;
            let start = ends.last().map(|end| &end.rbm.visible_bias);
            let bias_slope = &rbm.visible_bias - start.unwrap_or(&base_bias);
            check_finite("difference of visible biases", &bias_slope)?;
            ends.push(SegmentEnd::new(engine, rbm, &bias_slope));
        }
        let categorical = mixture.map(|c| Categorical::new(engine, c.logits(), c.offsets()));
        Ok(Self {
            base,
            base_bias,
            categorical,
            knots,
            ends,
            engine,
        })
    }

    /// Takes another [`SimdLevel`] for [`BlockGibbs`](crate::rbm::BlockGibbs) than the best one of the machine, to compare engines or
    /// to get the same figures on different machines.
    ///
    /// All engines spend the same random bits: with one seed they differ by rounding alone.
    ///
    /// # Errors
    /// Where this machine or this build of the crate does not have the engine.
    pub fn with_simd_level(self, engine: SimdLevel) -> Result<Self> {
        let models = self.ends.into_iter().map(|end| end.rbm).collect();
        Self::assemble(self.base, models, self.knots, engine.available()?)
    }

    /// The engine in use.
    pub fn simd_level(&self) -> SimdLevel {
        self.engine.get()
    }

    /// The RBM at `beta = 1`.
    pub fn target(&self) -> &Rbm<T> {
        &self.ends[self.ends.len() - 1].rbm
    }

    /// Returns the betas of the knots, including 0 and 1. The path has a kink at each of the others.
    ///
    /// A stage that passes a knot moves chain by chain, which costs speed but not correctness. None does where the knots are betas
    /// of the schedule, as in that of `BinnedSchedule::new(path.knots().clone())`.
    pub fn knots(&self) -> &Schedule {
        &self.knots
    }

    /// The RBM at knot k, from 1 to the number of segments; `None` elsewhere.
    pub fn model_at_knot(&self, k: usize) -> Option<&Rbm<T>> {
        Some(&self.ends.get(k.checked_sub(1)?)?.rbm)
    }

    /// The models at both ends of a segment. The first segment starts at the base, which is none.
    pub(crate) fn segment(&self, index: usize) -> (Option<&SegmentEnd<T>>, &SegmentEnd<T>) {
        let start = index.checked_sub(1).map(|before| &self.ends[before]);
        (start, &self.ends[index])
    }

    /// The categorical unit of a segment, in the form that stages need.
    pub(crate) fn categorical(&self, segment: usize) -> Option<&Categorical<T>> {
        self.categorical.as_ref().filter(|_| segment == 0)
    }

    /// The components of the base, on the segment that starts at it, where it is a mixture.
    fn components(&self, segment: usize) -> Option<&Components<T>> {
        self.base.as_mixture().filter(|_| segment == 0)
    }

    /// The visible biases at a segment's start that all components have in common.
    fn start_bias(&self, segment: usize) -> &DVector<T> {
        let start = self.segment(segment).0;
        start.map_or(&self.base_bias, |start| start.rbm.visible_bias())
    }

    /// The hidden activations `a + W v` at a segment's start (0 at the base), and their gain up to its end.
    fn activations(&self, segment: usize, visible: &[bool]) -> (DVector<f64>, DVector<f64>) {
        let (start, end) = self.segment(segment);
        let end = end.rbm.hidden_activation(visible);
        let Some(start) = start else {
            return (DVector::zeros(end.len()), end);
        };
        let start = start.rbm.hidden_activation(visible);
        let slope = end - &start;
        (start, slope)
    }

    /// `(b_end - b_start).v`.
    fn slope_term(&self, segment: usize, visible: &[bool]) -> f64 {
        masked_sum_of(&self.segment(segment).1.bias_slope, visible)
    }

    /// The position of a beta in a segment, from 0 at its start to 1 at its end.
    fn position(&self, segment: usize, beta: f64) -> f64 {
        let (start, end) = (self.knots.betas()[segment], self.knots.betas()[segment + 1]);
        (beta - start) / (end - start)
    }
}

impl<T: Scalar> AnnealingPath for RbmPath<T> {
    type State = Vec<bool>;
    type Base = BaseRate<T>;
    type At<'a> = RbmAt<'a, T>;

    fn base(&self) -> &BaseRate<T> {
        &self.base
    }

    fn simd_level(&self) -> Option<SimdLevel> {
        Some(self.engine.get())
    }

    /// Returns `u` times the root of the sum of squares of the largest activations: `u` is half the machine epsilon of `T`, and
    /// the activations are those of each hidden unit at the ends of each segment, the visible term of each segment and that of a
    /// component of the base. Each of these sums is rounded by about `u` of its size, independently.
    ///
    /// Measured on random RBMs of 3 x 4 to 100 x 784 units and weights of .1 to 1e6, log Z was off by at most 1.1 times this
    /// estimate. How far rounding the parameters to `T` moved log Z is not part of it.
    fn rounding_error(&self) -> f64 {
        let components = self.base.as_mixture();
        let mut squares = components.map_or(0.0, |c| c.largest_sum().powi(2));
        for segment in 0..self.ends.len() {
            let (start, end) = self.segment(segment);
            let hidden = |end: &SegmentEnd<T>| end.rbm.squared_activations();
            squares += start.map_or(0.0, hidden) + hidden(end);
            squares += largest_sum(&end.bias_slope).powi(2);
        }
        0.5 * T::epsilon().as_() * squares.sqrt()
    }

    /// Returns the bound of [`Rbm::lower_bound`] from one state for 2,500 chain-steps, at less than a tenth of the run's cost.
    fn lower_bound(&self, states: &[&Vec<bool>], chain_steps: u64) -> Option<f64> {
        let (states, most) = share_of_run(states, chain_steps, self.base.hidden_units());
        let states = Vec::from_iter(states.iter().map(|&state| state.clone()));
        let found = self.target().explore(&states, 0, 0, most);
        Some(found.ok()?.0.value)
    }

    fn at(&self, beta: f64) -> RbmAt<'_, T> {
        let segment = self.knots.interval(beta);
        RbmAt {
            path: self,
            beta,
            segment,
            position: self.position(segment, beta),
        }
    }
}

/// The RBM at one beta of an [`RbmPath`], as a view of the path.
#[derive(Debug, Clone, Copy)]
pub struct RbmAt<'a, T: Scalar = f32> {
    path: &'a RbmPath<T>,
    beta: f64,
    /// The segment that holds beta, which at a knot is the one on its right.
    segment: usize,
    /// The position of beta in the segment, from 0 to 1.
    position: f64,
}

impl<'a, T: Scalar> RbmAt<'a, T> {
    /// The path.
    pub fn path(&self) -> &'a RbmPath<T> {
        self.path
    }

    /// A copy of this model as an RBM in double precision, for enumeration and exact samples.
    ///
    /// # Errors
    /// Where `beta` is not finite; before the first knot of a path whose base is a mixture, where the model has a
    /// categorical unit.
    pub fn to_rbm(&self) -> Result<Rbm<f64>> {
        if self.segment == 0 && self.position < 1.0 {
            let expected = "one component, for an RBM at each beta";
            self.path.base.check_single(expected)?;
        }
        let (start, end) = self.path.segment(self.segment);
        let mut weights = end.rbm.weights().map(|x| self.position * x.as_());
        let mut hidden_bias = end.rbm.hidden_bias().map(|x| self.position * x.as_());
        if let Some(start) = start {
            let rest = 1.0 - self.position;
            weights += start.rbm.weights().map(|x| rest * x.as_());
            hidden_bias += start.rbm.hidden_bias().map(|x| rest * x.as_());
        }
        let visible_bias = self.visible_biases();
        let visible_bias = DVector::from_iterator(visible_bias.len(), visible_bias);
        Rbm::new(weights, hidden_bias, visible_bias)
    }

    /// `(1 - t) b_start + t b_end`, with t the position in the segment, and 0 at the start of a mixture.
    pub(crate) fn visible_biases(&self) -> impl ExactSizeIterator<Item = f64> {
        let start = self.path.start_bias(self.segment);
        let end = self.path.segment(self.segment).1.rbm.visible_bias();
        let t = self.position;
        (start.iter().zip(end)).map(move |(a, b)| (1.0 - t) * a.as_() + t * b.as_())
    }

    /// The segment that holds both this model and the other, if there is one, and their positions in it.
    pub(crate) fn shared_segment(&self, other: &Self) -> Option<(usize, f64, f64)> {
        let segment = self.segment.min(other.segment);
        let end = self.path.knots.betas()[segment + 1];
        (self.beta.max(other.beta) <= end).then(|| {
            let position = |beta| self.path.position(segment, beta);
            (segment, position(self.beta), position(other.beta))
        })
    }

    /// One sweep of block Gibbs sampling, v -> h -> v, in place.
    pub fn gibbs_sweep<R: Rng + ?Sized>(&self, visible: &mut [bool], rng: &mut R) {
        let (start, slope) = self.path.activations(self.segment, visible);
        let hidden = draw_all(&(start + slope * self.position), rng);
        let tilt = self.path.components(self.segment).map(|components| {
            let activations = components.activations(visible);
            let component = activations.draw(1.0 - self.position, rng);
            components.logits().column(component).map(T::as_)
        });
        let (start, end) = self.path.segment(self.segment);
        let base = || tilt.unwrap_or_else(|| self.path.base_bias.map(T::as_));
        let start = start.map_or_else(base, |start| start.rbm.visible_activation(&hidden));
        let end = end.rbm.visible_activation(&hidden);
        let logits = start * (1.0 - self.position) + end * self.position;
        draw_into(&logits, visible, rng);
    }
}

impl<T: Scalar> UnnormalizedModel for RbmAt<'_, T> {
    type State = Vec<bool>;

    fn log_density(&self, visible: &Vec<bool>) -> f64 {
        let (start, slope) = self.path.activations(self.segment, visible);
        let bias = masked_sum_of(self.path.start_bias(self.segment).as_slice(), visible);
        let activation = start.iter().zip(&slope);
        let hidden = activation.map(|(x, slope)| softplus(x + self.position * slope));
        let slope_term = self.path.slope_term(self.segment, visible);
        let tilt = self.path.components(self.segment);
        let tilt = tilt.map_or(0.0, |c| {
            c.activations(visible).log_mean(1.0 - self.position)
        });
        bias + self.position * slope_term + hidden.sum::<f64>() + tilt
    }
}

impl<T: Scalar> Intermediate for RbmAt<'_, T> {
    fn beta(&self) -> f64 {
        self.beta
    }

    /// Within a segment this is a sum over hidden units of differences of softplus, and one of log means over
    /// components, each free of cancellation. Across segments it is the difference of two log densities.
    fn log_ratio(&self, previous: &Self, visible: &Vec<bool>) -> f64 {
        let Some((segment, here, there)) = self.shared_segment(previous) else {
            return self.log_density(visible) - previous.log_density(visible);
        };
        let step = here - there;
        let (start, slope) = self.path.activations(segment, visible);
        let increments = (start.iter().zip(&slope))
            .map(|(x, slope)| softplus_increment(x + here * slope, step * slope));
        let tilt = self.path.components(segment);
        let tilt = tilt.map_or(0.0, |c| c.activations(visible).log_ratio(1.0 - here, step));
        step * self.path.slope_term(segment, visible) + increments.sum::<f64>() + tilt
    }
}

impl<T: Scalar> BetaDerivative for RbmAt<'_, T> {
    /// `(b' - b).v + sum_j (x'_j - x_j) sigmoid((1 - t) x_j + t x'_j)` over the segment's length,
    /// with `x = a + W v` at its start (0 at the base), primes at its end. A base that is a mixture adds
    /// the mean of `-(lambda_c + theta_c.v)` under the law of c given v.
    fn beta_derivative(&self, visible: &Vec<bool>) -> f64 {
        let (start, slope) = self.path.activations(self.segment, visible);
        let hidden =
            (start.iter().zip(&slope)).map(|(x, slope)| slope * sigmoid(x + self.position * slope));
        let betas = &self.path.knots.betas()[self.segment..];
        let slope_term = self.path.slope_term(self.segment, visible);
        let tilt = self.path.components(self.segment);
        let tilt = tilt.map_or(0.0, |c| c.activations(visible).mean(1.0 - self.position));
        (slope_term + hidden.sum::<f64>() - tilt) / (betas[1] - betas[0])
    }
}
