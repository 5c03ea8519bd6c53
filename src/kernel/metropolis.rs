//! Metropolis kernels: a symmetric proposal, accepted or refused.

use std::ops::Range;

use rand::{Rng, RngExt};

use crate::kernel::vector::set_len;
use crate::kernel::{
    Block, Increment, NonFinite, Preconditioner, Stage, Step, StepSize, TransitionKernel, Tunable,
    detailed_balance,
};
use crate::model::Coordinates;
use crate::num::{VECTOR_WIDTH, exp_of_negative, over_vectors};
use crate::path::{Ends, Intermediate};
use crate::random::StandardNormal;
use crate::{Error, Result};

/// A proposal `q(x'|x)` with `q(x'|x) = q(x|x')`.
pub trait SymmetricProposal<S> {
    /// Writes a proposal from `state` to `proposal`, which holds an arbitrary earlier state. `beta` is the chain's
    /// place on the path, for a width that varies along it.
    fn propose<R: Rng + ?Sized>(&self, beta: f64, state: &S, proposal: &mut S, rng: &mut R);

    /// Returns the coordinates of a state, so that errors can name the largest; `None` by default.
    fn coordinates<'s>(&self, _state: &'s S) -> Option<&'s [f64]> {
        None
    }

    /// Refuses states from which this proposal cannot move, for example states of another dimension, before a block
    /// moves. Accepts all states by default.
    ///
    /// # Errors
    /// If the proposal cannot move from a state.
    fn check(&self, _states: &[S]) -> Result<()> {
        Ok(())
    }
}

/// Metropolis with a symmetric proposal over any state: `x'` is accepted with probability `min(1, f(x') / f(x))`.
///
/// A proposal off the support is refused. From a state off the support, any proposal on the support is accepted. The
/// kernel leaves `p_k` invariant and is its own reversal, so its correction is 0.
///
/// ```
/// use annealed::kernel::{Metropolis, SymmetricProposal};
/// use rand::{Rng, RngExt};
///
/// /// Flips one of the bits.
/// struct FlipOne;
///
/// impl SymmetricProposal<Vec<bool>> for FlipOne {
///     fn propose<R: Rng + ?Sized>(
///         &self,
///         _beta: f64,
///         state: &Vec<bool>,
///         proposal: &mut Vec<bool>,
///         rng: &mut R,
///     ) {
///         proposal.clone_from(state);
///         let bit = rng.random_range(0..state.len());
///         proposal[bit] = !proposal[bit];
///     }
/// }
///
/// let kernel = Metropolis(FlipOne);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Metropolis<Q>(pub Q);

/// The proposal `x' = x + s Z`, with Z standard normal and a scale (standard deviation) s that may depend on beta.
/// With a [`Preconditioner`] L it is `x' = x + s L Z`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RandomWalk {
    scale: StepSize,
    preconditioner: Option<Preconditioner>,
}

/// Metropolis with normal proposals, isotropic or shaped by a [`Preconditioner`](Tunable::preconditioned).
///
/// ```
/// use annealed::kernel::{RandomWalkMetropolis, StepSize};
///
/// let constant = RandomWalkMetropolis::new(0.5)?;
/// let narrowing = RandomWalkMetropolis::new(StepSize::knots([(0.0, 1.0), (1.0, 0.1)])?)?;
/// # Ok::<(), annealed::Error>(())
/// ```
pub type RandomWalkMetropolis = Metropolis<RandomWalk>;

impl RandomWalkMetropolis {
    /// Creates a kernel whose proposal has standard deviation `scale` in each coordinate: a number or a [`StepSize`].
    ///
    /// # Errors
    /// If the number is not finite and positive.
    pub fn new(scale: impl TryInto<StepSize, Error: Into<Error>>) -> Result<Self> {
        let scale = scale.try_into().map_err(Into::into)?;
        Ok(Self(RandomWalk {
            scale,
            preconditioner: None,
        }))
    }
}

impl<S: Coordinates> SymmetricProposal<S> for RandomWalk {
    #[inline(always)]
    fn propose<R: Rng + ?Sized>(&self, beta: f64, state: &S, proposal: &mut S, rng: &mut R) {
        let datum = state.datum();
        proposal.set_datum(datum);
        let (state, proposal) = (state.coordinates(), proposal.coordinates_mut());
        set_len(proposal, state.len());
        let own = self.scale.for_datum(beta, datum);
        let scale = own.unwrap_or_else(|| self.scale.at(beta));
        let normal = StandardNormal::get();
        if let Some(preconditioner) = &self.preconditioner {
            let noise = proposal;
            normal.fill(noise.as_mut_slice(), rng);
            preconditioner.at(beta).times(noise);
            for (to, from) in noise.as_mut_slice().iter_mut().zip(state.as_slice()) {
                *to = from + scale * *to;
            }
            return;
        }
        for (to, from) in proposal.as_mut_slice().iter_mut().zip(state.as_slice()) {
            *to = from + scale * normal.draw(rng);
        }
    }

    fn coordinates<'s>(&self, state: &'s S) -> Option<&'s [f64]> {
        Some(state.coordinates().as_slice())
    }

    fn check(&self, states: &[S]) -> Result<()> {
        Preconditioner::check(self.preconditioner.as_ref(), states)
    }
}

impl<M, Q> TransitionKernel<M> for Metropolis<Q>
where
    M: Intermediate<State: Clone + Send + 'static>,
    Q: SymmetricProposal<M::State>,
{
    type Workspace = ProposalBuffers<M::State>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let (here, mut known) = stage.evaluate(state);
        self.step_from(here, stage, (state, &mut known), workspace, rng)
    }

    /// Weighs the chains by their known log densities and evaluates the proposals. If the model evaluates batches, it
    /// evaluates the proposals of all active chains together.
    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        self.0.check(block.states())?;
        if stage.model.evaluates_batches() {
            return self.advance_together(stage, block, workspace);
        }
        block.each(stage, |block, chain| {
            let (state, known, rng) = block.known_mut(chain);
            let (log_ratio, here) = stage.weigh(state, known);
            let log_ratio = self.check_at("log ratio", log_ratio, state)?;
            let step = self.step_from(here, stage, (state, known), workspace, rng)?;
            Ok(Increment::new(log_ratio, step))
        })
    }

    /// Counts the evaluation of the proposal, and one for the weight if the path has no [ends](Intermediate::HAS_ENDS).
    fn evaluations(&self, _dimension: usize) -> usize {
        1 + usize::from(!M::HAS_ENDS)
    }
}

detailed_balance! { [M: Intermediate<State: Clone + Send + 'static>, Q: SymmetricProposal<M::State>] Metropolis<Q>, M }

impl<Q> Metropolis<Q> {
    /// Checks a log density or log ratio; an error names the largest coordinate of `state`.
    #[inline(always)]
    fn check_at<S>(&self, quantity: &'static str, value: f64, state: &S) -> Result<f64, NonFinite>
    where
        Q: SymmetricProposal<S>,
    {
        let checked = NonFinite::check_log_density(quantity, value);
        checked.map_err(|fault| match self.0.coordinates(state) {
            Some(coordinates) => fault.at_state(coordinates),
            None => fault,
        })
    }

    #[inline]
    fn step_from<M, R>(
        &self,
        here: f64,
        stage: Stage<'_, M>,
        (state, known): (&mut M::State, &mut Ends),
        proposals: &mut ProposalBuffers<M::State>,
        rng: &mut R,
    ) -> Result<Step, NonFinite>
    where
        M: Intermediate<State: Clone>,
        Q: SymmetricProposal<M::State>,
        R: Rng + ?Sized,
    {
        let here = self.check_at("log density", here, state)?;
        let proposal = proposals.one(state);
        self.0.propose(stage.beta, state, proposal, rng);
        let (there, ends) = stage.evaluate(proposal);
        let there = self.check_at(PROPOSAL, there, proposal)?;
        let (accepted, step) = decide(here, there, rng);
        if accepted {
            std::mem::swap(state, proposal);
            *known = ends;
        }
        Ok(step)
    }

    /// Moves the active chains together. Each uses the random numbers and log densities that it would use alone.
    fn advance_together<M>(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        proposals: &mut ProposalBuffers<M::State>,
    ) -> Result<()>
    where
        M: Intermediate<State: Clone>,
        Q: SymmetricProposal<M::State>,
    {
        let runs = block.active_runs();
        if runs.is_empty() {
            return Ok(());
        }
        proposals.set_len(runs.iter().map(Range::len).sum());
        let mut done = 0;
        for run in &runs {
            let (states, known, rngs) = block.run_mut(run.clone());
            proposals.make(stage, done, (states, known), |index, proposal, uniform| {
                let rng = &mut rngs[index];
                self.0.propose(stage.beta, &states[index], proposal, rng);
                *uniform = rng.random();
            });
            done += run.len();
        }
        proposals.evaluate(stage);
        for (index, chain) in runs.into_iter().flatten().enumerate() {
            let (states, known) = block.peek_mut(chain..chain + 1);
            let (state, known) = (&mut states[0], &mut known[0]);
            let check = |quantity, value, state: &_| self.check_at(quantity, value, state);
            let decided = proposals.decide(index, state, check);
            let increment = decided.map(|(accepted, increment, (proposal, ends))| {
                swap_if(accepted, state, proposal);
                known.base = std::hint::select_unpredictable(accepted, ends.base, known.base);
                known.target = std::hint::select_unpredictable(accepted, ends.target, known.target);
                increment
            });
            block.add(stage, chain, increment)?;
        }
        Ok(())
    }
}

impl Tunable for RandomWalkMetropolis {
    fn step_size(&self) -> &StepSize {
        &self.0.scale
    }

    fn with_step_size(&self, scale: StepSize) -> Self {
        Self(RandomWalk {
            scale,
            ..self.0.clone()
        })
    }

    fn preconditioned(&self, preconditioner: Preconditioner) -> Self {
        Self(RandomWalk {
            preconditioner: Some(preconditioner),
            ..self.0.clone()
        })
    }

    /// Returns 0.3. The optimum is 0.44 in one dimension and 0.234 in many dimensions (Roberts, Gelman and Gilks 1997).
    fn optimal_acceptance(&self) -> f64 {
        0.3
    }
}

pub(super) const PROPOSAL: &str = "log density of the proposal";

/// Decides by a Metropolis test whether a chain moves from a state of log density `here` to one of log density `there`.
/// Both include the log proposal density if it is not symmetric. Returns the decision and the step.
#[inline]
pub(super) fn decide<R: Rng + ?Sized>(here: f64, there: f64, rng: &mut R) -> (bool, Step) {
    let uniform: f64 = rng.random();
    let acceptance = acceptance(here, there);
    (uniform < acceptance, Step::metropolis(acceptance))
}

/// Returns `min(1, exp(there - here))`; 0 if `there` is `-inf`.
#[inline(always)]
fn acceptance(here: f64, there: f64) -> f64 {
    // The difference is NaN if both are `-inf`, so this case comes first.
    let gain = there - here;
    if there == f64::NEG_INFINITY {
        0.0
    } else if gain >= 0.0 {
        1.0
    } else {
        exp_of_negative(gain)
    }
}

/// Replaces each proposal's log density in `there` by its acceptance probability, given the log densities `here` of the
/// chains' states.
pub(super) fn acceptances(here: &[f64], there: &mut [f64]) {
    over_vectors(
        #[inline(always)]
        move || {
            let (here, here_rest) = here.as_chunks::<VECTOR_WIDTH>();
            let (there, there_rest) = there.as_chunks_mut::<VECTOR_WIDTH>();
            for (here, there) in here.iter().zip(there) {
                *there = std::array::from_fn(|l| acceptance(here[l], there[l]));
            }
            for (here, there) in here_rest.iter().zip(there_rest) {
                *there = acceptance(*here, *there);
            }
        },
    );
}

/// Proposals of neighbouring chains, with the numbers that decide on them. A chain that moves alone uses the first
/// entry.
pub struct ProposalBuffers<S> {
    states: Vec<S>,
    log_ratios: Vec<f64>,
    /// Log densities of the states and of the proposals.
    here: Vec<f64>,
    there: Vec<f64>,
    /// Log densities of the proposals at the ends of the path.
    bases: Vec<f64>,
    targets: Vec<f64>,
    acceptances: Vec<f64>,
    uniforms: Vec<f64>,
}

impl<S> Default for ProposalBuffers<S> {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            log_ratios: Vec::new(),
            here: Vec::new(),
            there: Vec::new(),
            bases: Vec::new(),
            targets: Vec::new(),
            acceptances: Vec::new(),
            uniforms: Vec::new(),
        }
    }
}

crate::num::debug_by_fields! { ProposalBuffers for [S] ProposalBuffers<S> { acceptances } }

impl<S: Clone> ProposalBuffers<S> {
    /// Returns the buffer for one proposal, which holds an arbitrary earlier state.
    #[inline]
    pub(super) fn one(&mut self, state: &S) -> &mut S {
        if self.states.is_empty() {
            self.states.push(state.clone());
        }
        &mut self.states[0]
    }

    fn set_len(&mut self, chains: usize) {
        let numbers = [
            &mut self.log_ratios,
            &mut self.acceptances,
            &mut self.uniforms,
            &mut self.bases,
            &mut self.targets,
        ];
        for numbers in numbers.into_iter().chain([&mut self.here, &mut self.there]) {
            numbers.resize(chains, 0.0);
        }
    }

    /// Weighs neighbouring chains, and lets `propose` write each proposal and the uniform number that decides on it.
    /// The first chain has the index `first` in these buffers.
    fn make<M: Intermediate<State = S>>(
        &mut self,
        stage: Stage<'_, M>,
        first: usize,
        (states, known): (&[S], &mut [Ends]),
        mut propose: impl FnMut(usize, &mut S, &mut f64),
    ) {
        let mine = first..first + states.len();
        let made = self.states.len().saturating_sub(first);
        self.states.extend(states.iter().skip(made).cloned());
        let (log_ratios, here) = (&mut self.log_ratios[mine.clone()], &mut self.here);
        stage.weigh_batch(states, known, log_ratios, &mut here[mine.clone()]);
        let uniforms = &mut self.uniforms[mine.clone()];
        let places = self.states[mine].iter_mut().zip(uniforms);
        for (index, (proposal, uniform)) in places.enumerate() {
            propose(index, proposal, uniform);
        }
    }

    fn evaluate<M: Intermediate<State = S>>(&mut self, stage: Stage<'_, M>) {
        let proposals = &self.states[..self.there.len()];
        let ends = [&mut self.bases[..], &mut self.targets];
        stage.evaluate_batch(proposals, ends, &mut self.there);
        self.acceptances.copy_from_slice(&self.there);
        acceptances(&self.here, &mut self.acceptances);
    }

    /// Returns whether the chain at `index` accepts, its weight increment, and its proposal with the log densities at
    /// the ends of the path; or the error of `check`.
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        index: usize,
        state: &S,
        check: impl Fn(&'static str, f64, &S) -> Result<f64, NonFinite>,
    ) -> Result<(bool, Increment, (&mut S, Ends)), NonFinite> {
        let log_ratio = check("log ratio", self.log_ratios[index], state)?;
        check("log density", self.here[index], state)?;
        check(PROPOSAL, self.there[index], &self.states[index])?;
        let acceptance = self.acceptances[index];
        let increment = Increment::new(log_ratio, Step::metropolis(acceptance));
        let accepted = self.uniforms[index] < acceptance;
        let ends = Ends {
            base: self.bases[index],
            target: self.targets[index],
        };
        let proposal = (&mut self.states[index], ends);
        Ok((accepted, increment, proposal))
    }
}

/// Swaps two values if `condition` holds, without a branch that a random condition would mispredict.
#[inline]
#[allow(unsafe_code)]
pub(super) fn swap_if<T>(condition: bool, a: &mut T, b: &mut T) {
    let (a, b) = (std::ptr::from_mut(a), std::ptr::from_mut(b));
    let other = std::hint::select_unpredictable(condition, b, a);
    // SAFETY: both are valid for reads and writes, and `ptr::swap` takes a value that is swapped with itself.
    unsafe { std::ptr::swap(a, other) };
}
