//! Geometric paths of RBMs, from a base-rate model to a target.

use std::sync::Arc;

use nalgebra::DVector;
use rand::Rng;

use crate::estimate::Warning;
use crate::model::UnnormalizedModel;
use crate::num::{Moments, Simd, SimdLevel, sigmoid, softplus, softplus_increment};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate, below_bound};
use crate::population::Population;
use crate::random::{Purpose, stream};
use crate::rbm::components::{Activations, ComponentWeights};
use crate::rbm::engine::Categorical;
use crate::rbm::lower_bound::{Effort, STARTS};
use crate::rbm::model::{check_finite, draw_all, draw_into, largest_sum, masked_sum_of};
use crate::rbm::segment_end::SegmentEnd;
use crate::rbm::{BaseRate, BlockGibbs, Rbm, Scalar, Start};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A path of RBMs from a base-rate model to a target, straight or through RBMs at knots.
///
/// Between knots it is geometric in the *joint* densities of v and h: W, a and b are linear in beta. For the *marginal*
/// densities use [`GeometricPath`](crate::path::GeometricPath). The straight path (Salakhutdinov and Murray 2008,
/// equation 15) is
///
/// `log f_beta(v) = ((1 - beta) b_base + beta b).v + sum_j softplus(beta (a_j + W_j v))`.
///
/// A base that is a [`mixture`](BaseRate::mixture) of C components adds a categorical unit c up to the next knot.
/// Without inner knots:
///
/// `log f_beta(v) = log sum_c exp((1 - beta) log q_c(v) + w_c(beta)) + beta b.v + sum_j softplus(beta (a_j + W_j v))`,
/// `log q_c(v) = theta_c.v - sum_i log(1 + e^(theta_ci))`. Given v, P(c) is proportional to the term `exp(..)` of c.
/// The weights are `w_c(beta) = (1 - beta) log pi_c - beta log C`, or come from a [start](Self::with_start).
///
/// In single precision, runs pass through [surrogates](Self::surrogate_at): the same machines with weights on a grid,
/// whose sums over active units are 16-bit integers times the grid's spacing. One more weighing leads from the last
/// surrogate to the exact target. A path has no surrogates if, on a sample of states, the log weights of this weighing
/// have a standard deviation above .3 nats.
#[derive(Debug, Clone)]
pub struct RbmPath<T: Scalar = f32> {
    base: BaseRate<T>,
    /// Visible biases of the base; 0 for a mixture, whose components have their own.
    base_bias: DVector<T>,
    /// Components of the base, if it is a mixture.
    categorical: Option<Categorical<T>>,
    knots: Schedule,
    /// Models at the knots after the base.
    ends: Vec<SegmentEnd<T>>,
    /// The same models with their weights on grids, if the path has any.
    on_grid: Option<Vec<SegmentEnd<T>>>,
    pub(crate) engine: Simd,
    /// The search that found the base.
    start: Option<Arc<Start<T>>>,
}

/// Largest accepted standard deviation, in nats, of the log weights from the machine on the grid to the exact machine.
/// It leaves `exp(-.3^2)`, or 91%, of the effective sample size.
const LARGEST_DEVIATION: f64 = 0.3;
/// Number of states at which the deviation is measured, and number of sweeps before each measurement.
const STATES: usize = 32;
const SWEEPS: usize = 8;

impl<T: Scalar> RbmPath<T> {
    /// Creates the straight path from `base` to `target`.
    ///
    /// # Errors
    /// If they differ in visible or hidden units, or the difference of their biases overflows.
    pub fn new(base: BaseRate<T>, target: Rbm<T>) -> Result<Self> {
        Self::through(base, vec![target], Schedule::linear(1)?)
    }

    /// Creates the path from `base` at `beta = 0` through `models` at the later `knots`. The last model is the target.
    /// The others may be [checkpoints](crate::rbm::ContrastiveDivergence::train_with) of its training (Bereux et al.
    /// 2025).
    ///
    /// # Errors
    /// If there is not one model for each knot after 0, models differ in visible or hidden units, or the
    /// difference of neighbours' visible biases overflows.
    pub fn through(base: BaseRate<T>, models: Vec<Rbm<T>>, knots: Schedule) -> Result<Self> {
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
            ends.push(SegmentEnd::new(rbm, &bias_slope));
        }
        let categorical = mixture.map(Categorical::new);
        let path = Self {
            base,
            base_bias,
            categorical,
            knots,
            // Decided below, whatever engine and component weights are set later.
            on_grid: ends.iter().map(SegmentEnd::on_finest_grid).collect(),
            ends,
            engine: Simd::best(),
            start: None,
        };
        Ok(path.on_fine_grid())
    }

    /// Sets the [`SimdLevel`] of [`BlockGibbs`](crate::rbm::BlockGibbs). The default is the processor's best level.
    ///
    /// All levels but [`SimdLevel::Portable`] give the same bits. Every processor has the portable level: use it to get
    /// the same figures on all. It takes the same random bits, but rounds differently, so a unit may be drawn on
    /// instead of off.
    ///
    /// # Errors
    /// If this processor does not have `engine`.
    pub fn with_simd_level(mut self, engine: SimdLevel) -> Result<Self> {
        self.engine = engine.available()?;
        Ok(self)
    }

    /// Returns the path without a grid. Runs then pass through the exact models, which is slower.
    pub fn exact_weights(self) -> Self {
        Self {
            on_grid: None,
            ..self
        }
    }

    /// Drops the grid if its [deviation](Self::deviation_on_grid) exceeds `LARGEST_DEVIATION` or cannot be computed.
    fn on_fine_grid(self) -> Self {
        let is_small = |deviation| deviation <= LARGEST_DEVIATION;
        match self.on_grid.is_none() || self.deviation_on_grid().is_ok_and(is_small) {
            true => self,
            false => self.exact_weights(),
        }
    }

    /// Returns the largest standard deviation, over a few states of each machine, of the change that the grid makes in
    /// its log density. The states come from short chains, which start at the base and pass all knots.
    fn deviation_on_grid(&self) -> Result<f64> {
        // The seed is fixed, so that a path has the same models in every run.
        let first = stream(0, Purpose::PROBE, 0);
        let mut population: Population<&Self> = Population::start(self, 0, STATES, first)?;
        let mut largest: f64 = 0.0;
        for &knot in &self.knots.betas()[1..] {
            population.place_at(knot)?;
            for _ in 0..SWEEPS {
                population.stay(&BlockGibbs)?;
            }
            let Some(on_grid) = self.surrogate_at(knot) else {
                return Ok(0.0);
            };
            let exact = self.at(knot);
            let mut changes = Moments::default();
            for state in population.block().states() {
                changes.add(exact.log_ratio(&on_grid, state));
            }
            largest = largest.max(changes.variance().sqrt());
        }
        Ok(largest)
    }

    /// Attaches the search for the base to the path. A run then warns if the search's certain bound or one of its
    /// pilots lies above the run's interval. A straight path from the start's own base also takes the start's component
    /// weights, as in [`Start::path`].
    ///
    /// # Errors
    /// If the start belongs to an RBM with other parameters than the target.
    pub fn with_start(mut self, start: &Start<T>) -> Result<Self> {
        start.check(self.target())?;
        self.start = Some(Arc::new(start.clone()));
        Ok(match self.ends.len() == 1 && self.base == *start.base() {
            true => self.weighted(start.weights().cloned()),
            false => self,
        })
    }

    /// Returns the path with `weights` of the base's components, if it has several. The default is the geometric path.
    pub(crate) fn weighted(mut self, weights: Option<ComponentWeights>) -> Self {
        if let (Some(categorical), Some(weights)) = (&mut self.categorical, weights) {
            categorical.weights = weights;
        }
        self
    }

    /// Returns a lower bound, which is certain to hold, on log Z of the target. [`Rbm::lower_bound`] describes the
    /// search, here from `states` and 128 random starts, at about a twentieth of the cost of a million `chain_steps`. If
    /// the bound of the attached [start](Self::with_start) is higher, it is returned instead.
    ///
    /// # Errors
    /// If the length of a state is not D, or log Z overflows.
    pub fn lower_bound(&self, states: &[&Vec<bool>], chain_steps: u64) -> Result<f64> {
        let units = self.base.hidden_units().min(self.base.visible_units());
        let effort = Effort::of_run(chain_steps, units);
        let states = Vec::from_iter(states.iter().map(|&state| state.clone()));
        let found = self.target().explore(&states, STARTS, 0, effort)?.0.value;
        let known = self.start.as_ref().map(|start| start.bound().value);
        Ok(known.map_or(found, |known| found.max(known)))
    }

    /// Returns the SIMD level in use.
    pub fn simd_level(&self) -> SimdLevel {
        self.engine.get()
    }

    /// Returns the RBM at `beta = 1`.
    pub fn target(&self) -> &Rbm<T> {
        &self.ends[self.ends.len() - 1].rbm
    }

    /// Returns the betas of the knots, including 0 and 1. The path has a kink at each inner knot.
    ///
    /// In a stage that passes a knot, chains move one by one, which is slower.
    /// `BinnedSchedule::new(path.knots().clone())` makes every knot a beta of the schedule.
    pub fn knots(&self) -> &Schedule {
        &self.knots
    }

    /// Returns the RBM at knot `k`, from 1 to the number of segments; `None` elsewhere.
    pub fn model_at_knot(&self, k: usize) -> Option<&Rbm<T>> {
        Some(&self.ends.get(k.checked_sub(1)?)?.rbm)
    }

    pub(crate) fn categorical(&self, segment: usize) -> Option<&Categorical<T>> {
        self.categorical.as_ref().filter(|_| segment == 0)
    }

    /// Returns the components of a mixture base at a state, on the first segment only.
    fn components(&self, segment: usize, visible: &[bool]) -> Option<Activations<'_, T>> {
        let components = self.base.as_mixture()?;
        let weights = &self.categorical(segment)?.weights;
        Some(Activations::new(components, weights, visible))
    }

    /// Returns the position of `beta` in a segment, from 0 at its start to 1 at its end.
    fn position(&self, segment: usize, beta: f64) -> f64 {
        let (start, end) = (self.knots.betas()[segment], self.knots.betas()[segment + 1]);
        (beta - start) / (end - start)
    }
}

impl<T: Scalar> RbmPath<T> {
    /// Returns the model that chains start from.
    pub fn base(&self) -> &BaseRate<T> {
        &self.base
    }

    /// Returns the model at `beta` in `[0, 1]`.
    pub fn at(&self, beta: f64) -> RbmAt<'_, T> {
        self.between(&self.ends, beta)
    }

    /// Returns the model at `beta` in `[0, 1]` with weights on a grid; `None` if the path has no grid. Its
    /// [`to_rbm`](RbmAt::to_rbm) returns the machine that the chains of a run pass there.
    pub fn surrogate_at(&self, beta: f64) -> Option<RbmAt<'_, T>> {
        Some(self.between(self.on_grid.as_deref()?, beta))
    }

    fn between<'a>(&'a self, ends: &'a [SegmentEnd<T>], beta: f64) -> RbmAt<'a, T> {
        let segment = self.knots.interval(beta);
        RbmAt {
            path: self,
            ends,
            beta,
            segment,
            position: self.position(segment, beta),
        }
    }
}

impl<'p, T: Scalar> AnnealingPath for &'p RbmPath<T> {
    type State = Vec<bool>;
    type Base = BaseRate<T>;
    type At = RbmAt<'p, T>;

    fn base(&self) -> &BaseRate<T> {
        &self.base
    }

    fn simd_level(&self) -> Option<SimdLevel> {
        Some(self.engine.get())
    }

    /// Returns `u sqrt(sum_k S_k^2)`, where `S_k` is the largest absolute value of sum k and `u = T::epsilon() / 2`.
    ///
    /// The sums are each segment's hidden activations at both ends and visible term, and a base component's logits.
    /// Rounding of the parameters to `T` is not included. Random RBMs had errors of at most 1.3 times this.
    fn rounding_error(&self) -> f64 {
        let components = self.base.as_mixture();
        let mut squares = components.map_or(0.0, |c| c.largest_sum().powi(2));
        for segment in 0..self.ends.len() {
            let (start, end) = self.at(0.0).segment(segment);
            let hidden = |end: &SegmentEnd<T>| end.rbm.squared_activations();
            squares += start.map_or(0.0, hidden) + hidden(end);
            squares += largest_sum(&end.bias_slope).powi(2);
        }
        0.5 * T::epsilon().as_() * squares.sqrt()
    }

    fn certain_bound(&self, states: &[&Vec<bool>], chain_steps: u64) -> Option<f64> {
        self.lower_bound(states, chain_steps).ok()
    }

    /// Warns if a bound lies above a run's `interval`, and adds the warnings of the [start](RbmPath::with_start).
    fn doubts(&self, certain_bound: Option<f64>, interval: (f64, f64)) -> Vec<Warning> {
        match &self.start {
            Some(start) => start.doubts(certain_bound, interval),
            None => below_bound(certain_bound, interval),
        }
    }

    fn at(&self, beta: f64) -> RbmAt<'p, T> {
        RbmPath::at(self, beta)
    }

    fn surrogate_at(&self, beta: f64) -> Option<RbmAt<'p, T>> {
        RbmPath::surrogate_at(self, beta)
    }
}

/// The RBM at one beta of an [`RbmPath`]: a view of the path.
#[derive(Debug, Clone, Copy)]
pub struct RbmAt<'a, T: Scalar = f32> {
    path: &'a RbmPath<T>,
    /// The path's models at its knots after the base, exact or on grids.
    ends: &'a [SegmentEnd<T>],
    beta: f64,
    /// Index of the segment that contains beta; at a knot, the segment on its right.
    segment: usize,
    position: f64,
}

impl<'a, T: Scalar> RbmAt<'a, T> {
    /// Returns the path.
    pub fn path(&self) -> &'a RbmPath<T> {
        self.path
    }

    /// Returns a copy of this model as an RBM in double precision, for enumeration and exact samples.
    ///
    /// # Errors
    /// If `beta` is not finite, or the model has the categorical unit of a mixture.
    pub fn to_rbm(&self) -> Result<Rbm<f64>> {
        // At position 1 the components' factor is 1 in every state, and the model is an RBM.
        if self.segment == 0 && self.position < 1.0 {
            self.path.base.check_single()?;
        }
        let (start, end) = self.segment(self.segment);
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

    /// Returns the models at the start and end of a segment; `None` at the start of the first one.
    pub(crate) fn segment(&self, index: usize) -> (Option<&'a SegmentEnd<T>>, &'a SegmentEnd<T>) {
        let start = index.checked_sub(1).map(|before| &self.ends[before]);
        (start, &self.ends[index])
    }

    /// Returns the visible biases at a segment's start; 0 for the first segment if the base is a mixture.
    fn start_bias(&self, segment: usize) -> &'a DVector<T> {
        let start = self.segment(segment).0;
        start.map_or(&self.path.base_bias, |start| start.rbm.visible_bias())
    }

    /// Returns the hidden activations `a + W v` at a segment's start (0 at the base), and their gain up to its end.
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

    /// Returns `(b_end - b_start).v`.
    fn slope_term(&self, segment: usize, visible: &[bool]) -> f64 {
        masked_sum_of(&self.segment(segment).1.bias_slope, visible)
    }

    /// Returns `(1 - t) b_start + t b_end` at position t; a mixture has `b_start = 0`.
    pub(crate) fn visible_biases(&self) -> impl ExactSizeIterator<Item = f64> {
        let start = self.start_bias(self.segment);
        let end = self.segment(self.segment).1.rbm.visible_bias();
        let t = self.position;
        (start.iter().zip(end)).map(move |(a, b)| (1.0 - t) * a.as_() + t * b.as_())
    }

    /// Returns the segment that contains this model and `other`, if any, and their positions in it. A model with
    /// weights on a grid and an exact model share no segment.
    pub(crate) fn shared_segment(&self, other: &Self) -> Option<(usize, f64, f64)> {
        // A model at a knot belongs to the segment on its right, but is also the end of the segment on its left.
        let segment = self.segment.min(other.segment);
        let end = self.path.knots.betas()[segment + 1];
        let same_weights = std::ptr::eq(self.ends, other.ends);
        (same_weights && self.beta.max(other.beta) <= end).then(|| {
            let position = |beta| self.path.position(segment, beta);
            (segment, position(self.beta), position(other.beta))
        })
    }

    /// Runs one sweep of block Gibbs sampling in place: v -> h -> v.
    pub fn gibbs_sweep<R: Rng + ?Sized>(&self, visible: &mut [bool], rng: &mut R) {
        let (start, slope) = self.activations(self.segment, visible);
        let hidden = draw_all(&(start + slope * self.position), rng);
        let components = self.path.components(self.segment, visible);
        let tilt = components.map(|components| components.draw(self.position, rng));
        let (start, end) = self.segment(self.segment);
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
        let (start, slope) = self.activations(self.segment, visible);
        let bias = masked_sum_of(self.start_bias(self.segment).as_slice(), visible);
        let activation = start.iter().zip(&slope);
        let hidden = activation.map(|(x, slope)| softplus(x + self.position * slope));
        let slope_term = self.slope_term(self.segment, visible);
        let tilt = self.path.components(self.segment, visible);
        let tilt = tilt.map_or(0.0, |c| c.log_sum(self.position));
        bias + self.position * slope_term + hidden.sum::<f64>() + tilt
    }
}

impl<T: Scalar> Intermediate for RbmAt<'_, T> {
    fn beta(&self) -> f64 {
        self.beta
    }

    /// Returns the log ratio, without cancellation if one segment contains both models.
    fn log_ratio(&self, previous: &Self, visible: &Vec<bool>) -> f64 {
        let Some((segment, here, there)) = self.shared_segment(previous) else {
            return self.log_density(visible) - previous.log_density(visible);
        };
        let step = here - there;
        let (start, slope) = self.activations(segment, visible);
        let increments = (start.iter().zip(&slope))
            .map(|(x, slope)| softplus_increment(x + here * slope, step * slope));
        let tilt = self.path.components(segment, visible);
        let tilt = tilt.map_or(0.0, |c| c.log_ratio(there, here));
        step * self.slope_term(segment, visible) + increments.sum::<f64>() + tilt
    }

    fn log_ratio_given(&self, previous: &Self, state: &Vec<bool>, _: f64, _: Option<f64>) -> f64 {
        self.log_ratio(previous, state)
    }
}

impl<T: Scalar> BetaDerivative for RbmAt<'_, T> {
    /// Returns `(b' - b).v + sum_j (x'_j - x_j) sigmoid((1 - t) x_j + t x'_j)`, divided by the segment's length. Here
    /// `x = a + W v` at the segment's start (0 at the base), and primes mark its end. A mixture base adds the mean of
    /// `dw_c/dt - log q_c(v)` given v to the sum before the division.
    fn beta_derivative(&self, visible: &Vec<bool>) -> f64 {
        let (start, slope) = self.activations(self.segment, visible);
        let hidden =
            (start.iter().zip(&slope)).map(|(x, slope)| slope * sigmoid(x + self.position * slope));
        let betas = &self.path.knots.betas()[self.segment..];
        let slope_term = self.slope_term(self.segment, visible);
        let tilt = self.path.components(self.segment, visible);
        let tilt = tilt.map_or(0.0, |c| c.derivative(self.position));
        (slope_term + hidden.sum::<f64>() + tilt) / (betas[1] - betas[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbm::engine::WeightGrid;

    impl<T: Scalar> RbmPath<T> {
        /// Returns the path with weights on grids of the spacing `unit`, even if rounding changes the densities much.
        pub(in crate::rbm) fn on_grid_of(self, unit: f32) -> Self {
            let on_grid = |end: &SegmentEnd<T>| {
                let grid = WeightGrid::of(end.rbm.weights(), unit)?;
                Some(end.on_grid(&grid))
            };
            let on_grid = self.ends.iter().map(on_grid).collect();
            Self { on_grid, ..self }
        }
    }
}
