//! Langevin steps with the shift of a drift modifier.

use nalgebra::DVector;
use rand::Rng;

use crate::drift::DriftModifier;
use crate::kernel::{
    Block, NonFinite, Stage, Step, StepSize, TransitionKernel, advance_vectors, diverges, evaluate,
    fill_normal, set_len,
};
use crate::model::{Differentiable, forward_model};
use crate::path::Intermediate;
use crate::{Error, Result};

/// Unadjusted Langevin steps with a drift modifier G, corrected through the weight. A stage from `beta_{k-1}` to
/// `beta_k` moves x to x' by the forward density F. The weight contains the density B of the backward move:
///
/// ```text
/// F(x'|x) = N(x'; x  + eps/2 g(x)  - delta G(x),  eps)
/// B(x|x') = N(x;  x' + eps/2 g(x') + delta G(x'), eps)
/// ```
///
/// Here `delta = beta_k - beta_{k-1}`, `eps` is the variance of the noise, and `g(x)` the mean of `grad log f_{k-1}(x)`
/// and `grad log f_k(x)`. G is taken at the middle of the two betas. The log weight is corrected by
/// `log f_k(x') - log f_k(x) + log B(x|x') - log F(x'|x)`, and is unbiased for any G, eps and delta. With an exact G
/// its variance tends to 0 as the steps get smaller. Source: Barron and Luo (2007).
///
/// If both ends of a stage are the same model, as for the second kernel of a [`Sequence`](crate::kernel::Sequence),
/// this kernel is [`UnadjustedLangevin`](crate::kernel::UnadjustedLangevin). If a proposal y is off the support of
/// `f_k`, the chain does not move, and adds
/// `log N(y; x + eps/2 g + delta G, eps) - log N(y; x + eps/2 g - delta G, eps)`. Near an edge where the gradient or G
/// diverges, use [`Mala`](crate::kernel::Mala): otherwise moves that hardly any chain makes carry part of `E[w]`, and
/// the run warns of missing mass ([`Warning::MissingMass`](crate::estimate::Warning::MissingMass)).
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::drift::DriftModifiedLangevin;
/// use annealed::estimate::LogZ;
/// use annealed::model::{Gaussian, NormalizedModel};
/// use annealed::path::GaussianPath;
/// use annealed::schedule::Schedule;
/// use nalgebra::{dmatrix, dvector};
///
/// let target = Gaussian::new(dvector![2.0, -1.0], dmatrix![0.5, 0.3; 0.3, 0.4])?;
/// let path = GaussianPath::new(Gaussian::standard(2)?, target.clone())?;
/// // A path of Gaussians is its own drift modifier, in closed form.
/// let run = Ais::new(&path, DriftModifiedLangevin::new(&path, 0.01)?)
///     .schedule(Schedule::linear(100)?)
///     .chains(500)
///     .run()?;
/// assert!(run.effective_sample_size() > 480.0);
/// assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias = "adaptive annealing")]
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct DriftModifiedLangevin<D> {
    modifier: D,
    step_size: StepSize,
    bound: Option<f64>,
}

/// Working space for proposal, noise, drifts and shifts, which the chains of a block share.
#[derive(Debug, Clone, Default)]
pub struct LangevinBuffers {
    proposal: DVector<f64>,
    noise: DVector<f64>,
    forward: Drift,
    backward: Drift,
    drawn: DVector<f64>,
    at_drawn: Drift,
}

#[derive(Debug, Clone, Default)]
struct Drift {
    /// `eps/2 g`.
    langevin: DVector<f64>,
    /// `delta G`.
    shift: DVector<f64>,
}

impl<D> DriftModifiedLangevin<D> {
    /// Creates the kernel with `modifier` and with noise of variance `step_size`: a number or a [`StepSize`]. If G is
    /// steep, for example between modes that move apart, runs miss rare, large weights. Then bound the shifts by about
    /// the width of a mode ([`bounded`](Self::bounded)).
    ///
    /// # Errors
    /// A number that is not finite and positive.
    pub fn new(modifier: D, step_size: impl TryInto<StepSize, Error: Into<Error>>) -> Result<Self> {
        Ok(Self {
            modifier,
            step_size: step_size.try_into().map_err(Into::into)?,
            bound: None,
        })
    }

    /// Cuts every shift `delta G` to at most the length `bound`. A shift longer than the scale on which G varies
    /// carries states to the wrong place. A [`ShiftMonitor`](super::ShiftMonitor) records the cuts.
    ///
    /// # Errors
    /// A bound that is not finite and positive.
    pub fn bounded(mut self, bound: f64) -> Result<Self> {
        Error::check_positive("bound", bound)?;
        self.bound = Some(bound);
        Ok(self)
    }

    /// Returns the bound on the length of a shift; infinite unless set.
    pub fn bound(&self) -> f64 {
        self.bound.unwrap_or(f64::INFINITY)
    }
}

impl<D: DriftModifier> DriftModifiedLangevin<D> {
    /// Writes `delta G`, cut to the bound, and returns its length before the cut.
    pub(super) fn shift_into<M: Intermediate>(
        &self,
        stage: Stage<'_, M>,
        state: &DVector<f64>,
        shift: &mut DVector<f64>,
    ) -> Result<f64, NonFinite> {
        let (left, reached) = (stage.previous.beta(), stage.model.beta());
        if left == reached {
            shift.fill(0.0);
            return Ok(0.0);
        }
        self.modifier
            .modifier_into(0.5 * (left + reached), state, shift);
        *shift *= reached - left;
        let length = shift.norm();
        if !length.is_finite() {
            return Err(NonFinite::new(
                "length of the drift modifier",
                length,
                "a finite number",
            ));
        }
        if length > self.bound() {
            *shift *= self.bound() / length;
        }
        Ok(length)
    }

    /// Writes `eps/2 g` and `delta G`, and returns `log f_k(x)`. Off the support both vectors are meaningless.
    fn drift_into<M: Differentiable + Intermediate>(
        &self,
        quantity: &'static str,
        stage: Stage<'_, M>,
        state: &DVector<f64>,
        drift: &mut Drift,
    ) -> Result<f64, NonFinite> {
        set_len(&mut drift.langevin, state.len());
        set_len(&mut drift.shift, state.len());
        let log_density = evaluate(quantity, &MidGain(stage), state, &mut drift.langevin)?;
        if log_density > f64::NEG_INFINITY {
            drift.langevin *= 0.5 * self.step_size.at(stage.beta);
            self.shift_into(stage, state, &mut drift.shift)?;
        }
        Ok(log_density)
    }

    /// Draws a state y from the backward density `B(y|x)`, with the proposal's noise, for [`Step::with_backward_move`].
    /// Returns the log importance weight of y, and the correction of the forward move from y to x.
    fn draw_backward<M: Differentiable + Intermediate>(
        &self,
        stage: Stage<'_, M>,
        here: f64,
        buffers: &mut LangevinBuffers,
    ) -> (f64, f64) {
        let (forward, drawn) = (&buffers.forward, &mut buffers.drawn);
        set_len(drawn, buffers.noise.len());
        drawn.copy_from(&buffers.proposal);
        drawn.axpy(2.0, &forward.shift, 1.0);
        let at_drawn = &mut buffers.at_drawn;
        // A failure at y does not concern the run.
        let there = self.drift_into("log density", stage, drawn, at_drawn);
        let Ok(there @ f64::MIN..) = there else {
            return (0.0, f64::NEG_INFINITY);
        };
        at_drawn.langevin += &forward.langevin;
        at_drawn.langevin += &forward.shift;
        at_drawn.langevin -= &at_drawn.shift;
        let variance = self.step_size.at(stage.beta);
        let back = backward_over_forward(&at_drawn.langevin, &buffers.noise, variance);
        (0.0, here - there - back)
    }
}

/// Returns the results of [`DriftModifiedLangevin::draw_backward`], with the proposal of the forward kernel F as the
/// draw y and its weight B / F (B is the backward kernel). Such a draw is good enough if shifts are short compared with
/// the noise. `forward.langevin` contains the sum of both drifts ([`Drift::round_trip`]); `fall` is
/// `log f_k(x) - log f_k(y)`.
fn weigh_proposal(
    fall: f64,
    forward: &Drift,
    backward: &Drift,
    noise: &DVector<f64>,
    variance: f64,
) -> (f64, f64) {
    let (mut log_weight, mut back) = (0.0, 0.0);
    let sums = forward.langevin.iter().zip(&backward.shift);
    for ((sum, shift_back), (shift, noise)) in sums.zip(forward.shift.iter().zip(noise)) {
        let sum = sum - 2.0 * shift_back;
        back -= sum * (noise + 0.5 * sum);
        log_weight += 2.0 * shift * (noise - shift);
    }
    let log_weight = log_weight / variance;
    (log_weight, fall + log_weight - back / variance)
}

/// The model that a stage reaches, with the mean of the gradients at the stage's two ends.
struct MidGain<'a, M>(Stage<'a, M>);

forward_model! { ['a, M] MidGain<'a, M> as M, self => *self.0.model; UnnormalizedModel }

impl<M: Differentiable> Differentiable for MidGain<'_, M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let stage = self.0;
        let model = stage.model;
        model.accumulate_mean_gradient(stage.previous, state, scale, gradient)
    }
}

impl<M, D> TransitionKernel<M> for DriftModifiedLangevin<D>
where
    M: Differentiable + Intermediate,
    D: DriftModifier,
{
    type Workspace = LangevinBuffers;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut DVector<f64>,
        buffers: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let variance = self.step_size.at(stage.beta);
        let here = self.drift_into("log density", stage, state, &mut buffers.forward)?;
        if here == f64::NEG_INFINITY {
            return Ok(Step::corrected(0.0));
        }
        buffers.propose(state, variance, rng);
        let (proposal, backward) = (&buffers.proposal, &mut buffers.backward);
        let quantity = "log density of the proposal";
        let mut there = self.drift_into(quantity, stage, proposal, backward);
        // Models may overflow far out. A proposal that the drift threw there counts as off the support.
        if there.is_err() && buffers.diverges(variance) {
            there = Ok(f64::NEG_INFINITY);
        }
        let there = there?;
        if there == f64::NEG_INFINITY {
            buffers.forward.shift *= -2.0;
            let stayed = backward_over_forward(&buffers.forward.shift, &buffers.noise, variance);
            return Ok(Step::corrected(stayed));
        }
        // A proposal weighted by B / F only serves if the shift is at most a quarter of the noise's deviation.
        let long = 16.0 * buffers.forward.shift.norm_squared() > variance;
        let drawn = long.then(|| self.draw_backward(stage, here, buffers));
        std::mem::swap(state, &mut buffers.proposal);
        let (noise, forward, backward) = (&buffers.noise, &mut buffers.forward, &buffers.backward);
        forward.round_trip(backward);
        let moved = backward_over_forward(&forward.langevin, noise, variance);
        let (log_weight, gain) = drawn
            .unwrap_or_else(|| weigh_proposal(here - there, forward, backward, noise, variance));
        Ok(Step::corrected(there - here + moved).with_backward_move(log_weight, gain))
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        advance_vectors(self, stage, block, workspace)
    }
}

/// Returns `log N(n + s; 0, eps) - log N(n; 0, eps)` without cancellation: s is `sum`, n is `noise`, eps is `variance`.
fn backward_over_forward(sum: &DVector<f64>, noise: &DVector<f64>, variance: f64) -> f64 {
    -(sum.dot(noise) + 0.5 * sum.norm_squared()) / variance
}

impl LangevinBuffers {
    fn propose<R: Rng + ?Sized>(&mut self, state: &DVector<f64>, variance: f64, rng: &mut R) {
        set_len(&mut self.proposal, state.len());
        set_len(&mut self.noise, state.len());
        fill_normal(&mut self.noise, rng);
        self.noise *= variance.sqrt();
        self.proposal.copy_from(state);
        self.proposal += &self.forward.langevin;
        self.proposal -= &self.forward.shift;
        self.proposal += &self.noise;
    }

    /// Returns whether the drift alone makes a proposal diverge, by the rule of [`Mala`](crate::kernel::Mala).
    fn diverges(&self, variance: f64) -> bool {
        let move_ = &self.forward.langevin - &self.forward.shift + &self.noise;
        let energy = |move_: &DVector<f64>| 0.5 * move_.norm_squared() / variance;
        diverges(energy(&self.noise), energy(&move_))
    }
}

impl Drift {
    /// Replaces `eps/2 g` by the sum of both drifts, `eps/2 (g(x) + g(x')) - delta (G(x) - G(x'))`.
    fn round_trip(&mut self, backward: &Self) {
        self.langevin -= &self.shift;
        self.langevin += &backward.langevin;
        self.langevin += &backward.shift;
    }
}

crate::num::deserialize_checked! {
    DriftModifiedLangevin<D> { modifier: D, step_size: StepSize, bound: Option<f64> } => {
        let checked = bound.map_or(Ok(()), |bound| Error::check_positive("bound", bound));
        checked.map(|()| Self { modifier, step_size, bound })
    }
}
