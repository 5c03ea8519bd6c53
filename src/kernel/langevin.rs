//! Langevin kernels: a drift along the gradient plus noise, with or without a Metropolis test.

use nalgebra::DVector;
use rand::Rng;

use crate::kernel::graded::{Graded, evaluate_ends};
use crate::kernel::metropolis::{PROPOSAL, decide};
use crate::kernel::preconditioner::Factor;
use crate::kernel::trajectories::{Integration, Trajectories, moves_together};
use crate::kernel::vector::{add_scaled, diverges, evaluations, fill_normal, set_len};
use crate::kernel::{
    Block, Increment, NonFinite, Preconditioner, Scratch, Stage, Step, StepSize, TransitionKernel,
    Tunable, detailed_balance, own_reversal,
};
use crate::model::{Differentiable, check_gradient};
use crate::path::{EndGradients, Intermediate};
use crate::{Error, Result};

/// The Metropolis-adjusted Langevin algorithm: `x' = x + eps/2 grad log f_k(x) + sqrt(eps) Z`, accepted with
/// probability
/// `min(1, f_k(x') N(x; x' + eps/2 grad log f_k(x'), eps) / (f_k(x) N(x'; x + eps/2 grad log f_k(x), eps)))`.
///
/// `eps` is the variance of the noise, so `sqrt(eps)` has the units of the state. The kernel leaves `p_k` invariant
/// and is its own reversal, so its correction is 0. With a [`Preconditioner`](Tunable::preconditioned) L it moves in
/// the coordinates `y = L^{-1} x`: `x' = x + eps/2 L L^T grad log f_k(x) + sqrt(eps) L Z`.
///
/// Off the support the gradient counts as 0. A proposal off the support, or one that overflows, is refused. So is one
/// where the model is not finite, if the drift raised the energy `|Z + sqrt(eps)/2 grad|^2 / 2 - |Z|^2 / 2` by more
/// than 1,000; otherwise it is an error. Source: Roberts and Tweedie (1996).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Mala {
    step_size: StepSize,
    preconditioner: Option<Preconditioner>,
}

/// Langevin steps without the accept-reject test, corrected through the weight.
///
/// It always takes the proposal of [`Mala`]. It is its own backward kernel and does not leave `p_k` invariant. Its
/// correction is the log Metropolis-Hastings ratio,
///
/// ```text
/// log f_k(x') - log f_k(x) + log N(x; x' + eps/2 grad log f_k(x'), eps)
///                          - log N(x'; x + eps/2 grad log f_k(x), eps),
/// ```
///
/// and the weights are unbiased for any `eps`. Their variance may be infinite where the gradient changes over less
/// than a step, as at an edge. The run then warns ([`Warning::MissingMass`](crate::estimate::Warning::MissingMass));
/// use [`Mala`] there.
///
/// A proposal off the support of `f_k`, or one that [`Mala`] refuses whatever the density, is refused: the chain
/// stays, with correction 0. Otherwise `E[w]` would be below `Z_K / Z_0` on a bounded support.
///
/// Source: Barron and Luo (2007), with no drift modifier.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UnadjustedLangevin {
    step_size: StepSize,
}

/// Proposal, gradients and noise, buffers that the chains of a block share.
#[derive(Debug, Clone, Default)]
pub struct Buffers {
    proposal: DVector<f64>,
    noise: DVector<f64>,
    gradient: DVector<f64>,
    proposal_gradient: DVector<f64>,
    /// Gradients of the proposal at the ends of the path.
    ends: EndGradients,
    /// Proposals of chains that move together.
    trajectories: Trajectories,
}

struct Proposed {
    /// `log f(x')`.
    there: f64,
    /// `log N(x; x' + eps/2 grad(x'), eps) - log N(x'; x + eps/2 grad(x), eps)`.
    backward_over_forward: f64,
}

impl Mala {
    /// Creates a kernel with noise of variance `eps`: a number or a [`StepSize`].
    ///
    /// # Errors
    /// If the number is not finite and positive.
    pub fn new(step_size: impl TryInto<StepSize, Error: Into<Error>>) -> Result<Self> {
        let step_size = step_size.try_into().map_err(Into::into)?;
        Ok(Self {
            step_size,
            preconditioner: None,
        })
    }

    fn move_from<M: Differentiable + Intermediate, R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        (state, mut known): (&mut DVector<f64>, Graded<'_>),
        buffers: &mut Buffers,
        rng: &mut R,
    ) -> Result<Increment, NonFinite> {
        let variance = self.step_size.at(stage.beta);
        let factor = self.preconditioner.as_ref().map(|l| l.at(stage.beta));
        let (log_ratio, here) = known.weigh(stage, factor, state, &mut buffers.gradient)?;
        let proposed = buffers.propose(stage.model, variance, factor, state, rng)?;
        let there = proposed.there + proposed.backward_over_forward;
        let (accepted, step) = decide(here, there, rng);
        if accepted {
            std::mem::swap(state, &mut buffers.proposal);
            known.arrive(stage, proposed.there, &mut buffers.ends);
        }
        Ok(Increment::new(log_ratio, step))
    }
}

impl UnadjustedLangevin {
    /// Creates a kernel with noise of variance `eps`: a number or a [`StepSize`].
    ///
    /// # Errors
    /// If the number is not finite and positive.
    pub fn new(step_size: impl TryInto<StepSize, Error: Into<Error>>) -> Result<Self> {
        let step_size = step_size.try_into().map_err(Into::into)?;
        Ok(Self { step_size })
    }

    fn move_from<M: Differentiable + Intermediate, R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        (state, mut known): (&mut DVector<f64>, Graded<'_>),
        buffers: &mut Buffers,
        rng: &mut R,
    ) -> Result<Increment, NonFinite> {
        let variance = self.step_size.at(stage.beta);
        let (log_ratio, here) = known.weigh(stage, None, state, &mut buffers.gradient)?;
        let proposed = buffers.propose(stage.model, variance, None, state, rng)?;
        if here == f64::NEG_INFINITY || proposed.there == f64::NEG_INFINITY {
            return Ok(Increment::new(log_ratio, Step::corrected(0.0)));
        }
        std::mem::swap(state, &mut buffers.proposal);
        known.arrive(stage, proposed.there, &mut buffers.ends);
        let correction = proposed.there - here + proposed.backward_over_forward;
        let step = Step::corrected(correction).with_backward_move(0.0, -correction);
        Ok(Increment::new(log_ratio, step))
    }
}

/// Returns proposals of noise of this variance as leapfrog steps of size `sqrt(eps)` with the noise as momentum. The
/// log ratio of the proposal densities is minus the gain in kinetic energy.
fn proposals(variance: f64, factor: Option<&Factor>) -> Integration<'_> {
    Integration {
        size: variance.sqrt(),
        steps: 1,
        factor,
    }
}

/// Returns whether an unadjusted step moves the chain, and the step, given `-H` at both ends; `+inf` at the start
/// stands for a proposal that is refused.
fn corrected(here: f64, there: f64) -> (bool, Step) {
    if here.is_infinite() || there == f64::NEG_INFINITY {
        return (false, Step::corrected(0.0));
    }
    let correction = there - here;
    let step = Step::corrected(correction).with_backward_move(0.0, -correction);
    (true, step)
}

impl<M: Differentiable + Intermediate> TransitionKernel<M> for Mala {
    type Workspace = Scratch<Buffers>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        _chain: usize,
        state: &mut DVector<f64>,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let moved = Graded::unknown(|known| {
            self.move_from(stage.rest(), (state, known), &mut workspace.0, rng)
        });
        Ok(moved?.step)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        Preconditioner::check(self.preconditioner.as_ref(), block.states())?;
        if !moves_together(stage, block) {
            return block.each(stage, |block, chain| {
                let (state, known, rng) = block.graded_mut(chain);
                self.move_from(stage, (state, known), &mut workspace.0, rng)
            });
        }
        let variance = self.step_size.at(stage.beta);
        proposals(
            variance,
            self.preconditioner.as_ref().map(|l| l.at(stage.beta)),
        )
        .advance(
            stage,
            block,
            &mut workspace.0.trajectories,
            |trajectories, (index, _), rng| trajectories.draw(index, rng),
            |trajectories, (index, _)| trajectories.decide(index),
        )
    }

    fn check_model(&self, model: &M, states: &[DVector<f64>]) -> Result<()> {
        check_gradient(model, states)
    }

    fn evaluations(&self, _dimension: usize) -> usize {
        evaluations::<M>(1)
    }
}

detailed_balance! { [M: Differentiable + Intermediate] Mala, M }

impl<M: Differentiable + Intermediate> TransitionKernel<M> for UnadjustedLangevin {
    type Workspace = Scratch<Buffers>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        _chain: usize,
        state: &mut DVector<f64>,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let moved = Graded::unknown(|known| {
            self.move_from(stage.rest(), (state, known), &mut workspace.0, rng)
        });
        Ok(moved?.step)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        if !moves_together(stage, block) {
            return block.each(stage, |block, chain| {
                let (state, known, rng) = block.graded_mut(chain);
                self.move_from(stage, (state, known), &mut workspace.0, rng)
            });
        }
        let variance = self.step_size.at(stage.beta);
        proposals(variance, None).advance(
            stage,
            block,
            &mut workspace.0.trajectories,
            |trajectories, (index, _), rng| trajectories.draw_momentum(index, rng),
            |trajectories, (index, _)| {
                let (here, there) = trajectories.energies(index);
                corrected(here, there)
            },
        )
    }

    fn check_model(&self, model: &M, states: &[DVector<f64>]) -> Result<()> {
        check_gradient(model, states)
    }

    fn evaluations(&self, _dimension: usize) -> usize {
        evaluations::<M>(1)
    }
}

own_reversal! { [M: Differentiable + Intermediate] UnadjustedLangevin, M }

impl Buffers {
    /// Writes a proposal from `state`, where the gradient is known, and gradients and noise in the coordinates of the
    /// factor.
    fn propose<M: Differentiable + Intermediate, R: Rng + ?Sized>(
        &mut self,
        model: &M,
        variance: f64,
        factor: Option<&Factor>,
        state: &DVector<f64>,
        rng: &mut R,
    ) -> Result<Proposed, NonFinite> {
        self.set_len(state.len());
        fill_normal(&mut self.noise, rng);
        let deviation = variance.sqrt();
        match factor {
            None => self.proposal.copy_from(state),
            Some(_) => self.proposal.as_mut_slice().fill(0.0),
        }
        add_scaled(&mut self.proposal, 0.5 * variance, &self.gradient);
        add_scaled(&mut self.proposal, deviation, &self.noise);
        if let Some(factor) = factor {
            factor.times(&mut self.proposal);
            add_scaled(&mut self.proposal, 1.0, state);
        }
        let (known, gradient) = (&mut self.ends, &mut self.proposal_gradient);
        let mut there = evaluate_ends(PROPOSAL, model, factor, &self.proposal, known, gradient);
        if there.is_err() && self.diverges(deviation) {
            self.proposal_gradient.fill(0.0);
            there = Ok(f64::NEG_INFINITY);
        }
        let there = there?;
        Ok(Proposed {
            there,
            backward_over_forward: self.backward_over_forward(deviation),
        })
    }

    /// Returns whether the drift alone explains the proposal: a leapfrog step with the noise as momentum diverges.
    fn diverges(&self, deviation: f64) -> bool {
        let after = (&self.noise + &self.gradient * (0.5 * deviation)).norm_squared();
        diverges(0.5 * self.noise.norm_squared(), 0.5 * after)
    }

    /// Returns the log ratio of the two proposal densities. With s the sum of the gradients and z the noise it is
    /// `-sqrt(eps)/2 s . (z + sqrt(eps)/4 s)`, free of cancellation. Overwrites s and z.
    fn backward_over_forward(&mut self, deviation: f64) -> f64 {
        add_scaled(&mut self.gradient, 1.0, &self.proposal_gradient);
        add_scaled(&mut self.noise, 0.25 * deviation, &self.gradient);
        -0.5 * deviation * self.gradient.dot(&self.noise)
    }

    fn set_len(&mut self, len: usize) {
        set_len(&mut self.proposal, len);
        set_len(&mut self.noise, len);
        set_len(&mut self.proposal_gradient, len);
    }
}

impl Tunable for Mala {
    fn step_size(&self) -> &StepSize {
        &self.step_size
    }

    fn with_step_size(&self, step_size: StepSize) -> Self {
        Self {
            step_size,
            ..self.clone()
        }
    }

    fn preconditioned(&self, preconditioner: Preconditioner) -> Self {
        Self {
            preconditioner: Some(preconditioner),
            ..self.clone()
        }
    }

    /// Returns 0.574 (Roberts and Rosenthal 1998).
    fn optimal_acceptance(&self) -> f64 {
        0.574
    }
}
