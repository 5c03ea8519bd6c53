//! Tempered transitions: a Metropolis move whose proposal goes up to the base and down again.

use rand::Rng;

use super::metropolis::decide;
use super::{Invariant, Reversal, TransitionKernel, Workspace, detailed_balance, refuse_stages};
use crate::kernel::{Block, Increment, NonFinite, Stage, Step};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::path::{AnnealingPath, Intermediate};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Tempered transitions: a Metropolis move whose proposal is an excursion from the current model up to the base and
/// down again. They take a chain between modes where the inner kernel never crosses.
///
/// At beta the excursion visits the rungs `f_i`, the models at `beta s_i`. The ladder gives
/// `0 = s_0 < s_1 < .. < s_n = 1`, so `f_n` is the current model and `f_0` the base. `T_i` is the inner kernel at
/// rung i, and `R_i` its [reversal](Reversal): `f_i(x) T_i(x'|x) = f_i(x') R_i(x|x')`.
///
/// ```text
/// up:    y_{n-1} = x,    y_{i-1} ~ T_i(.|y_i)     for i = n-1 .. 1
/// down:  z_0 ~ p_0,      z_i     ~ R_i(.|z_{i-1})  for i = 1 .. n-1,    x' = z_{n-1}
///
/// accepted with probability min(1, W(z) / W(y)),    W(y) = prod_{i=1}^n f_i(y_{i-1}) / f_{i-1}(y_{i-1})
/// ```
///
/// At the top an exact draw from the base replaces a move by `T_0`. `W(z)` and `W(y)` are weights of annealed runs,
/// forward to the current model and backward from x. The acceptance is high if these vary little.
///
/// **Why it is right.** Let Q(y) be the density of the way up from `x = y_{n-1}`. The reversal condition gives
///
/// ```text
/// f_n(x) Q(y) = f_n(y_{n-1}) prod_{i=1}^{n-1} R_i(y_i|y_{i-1}) f_i(y_{i-1}) / f_i(y_i)
///             = W(y) f_0(y_0) prod_{i=1}^{n-1} R_i(y_i|y_{i-1}).
/// ```
///
/// So `f_n(x)` times the density of an excursion (y, z) is `W(y) D(y) D(z) Z_0`, with D the density of a way down.
/// For the same excursion from its end it is `W(z) D(z) D(y) Z_0`. The move is in detailed balance: it leaves
/// `p_beta` invariant, is its own reversal, and has correction 0.
///
/// A run must use the same path. The reported acceptance is the whole move's. An excursion that leaves the support of
/// a rung is refused, and a chain off the support stays. A move costs `2 (n - 1)` inner ones. A good ladder is a
/// schedule for an annealed run to the current model.
///
/// ```
/// use annealed::kernel::TemperedTransitions;
/// use annealed::prelude::*;
///
/// # fn main() -> annealed::Result<()> {
/// // Two modes, between which a walk with steps of .5 does not cross.
/// let mode = |mean| Gaussian::isotropic(DVector::from_element(1, mean), 0.5);
/// let target = GaussianMixture::new([(0.7, mode(-5.0)?), (0.3, mode(5.0)?)])?;
/// let base = Gaussian::isotropic(DVector::zeros(1), 5.0)?;
/// let path = GeometricPath::new(base, target);
/// let walk = RandomWalkMetropolis::new(0.5)?;
/// let ladder = Schedule::linear(10)?;
/// let kernel = Sequence(&walk, TemperedTransitions::new(&path, &walk, ladder)?);
/// let run = Ais::new(&path, kernel).schedule(Schedule::linear(5)?).chains(200).run()?;
/// # assert!((run.log_z() - path.target().log_normalizer()).abs() < 4.0 * run.standard_error());
/// # Ok(())
/// # }
/// ```
///
/// Source: Neal (1996), *Sampling from multimodal distributions using tempered transitions*.
#[derive(Debug, Clone)]
pub struct TemperedTransitions<P, K> {
    path: P,
    kernel: K,
    ladder: Schedule,
}

/// The move that follows the weighing at a rung.
#[derive(Clone, Copy)]
enum Leg {
    /// A move by the inner kernel, `T_i`.
    Up,
    /// An exact draw from the base.
    Top,
    /// A move by the reversal, `R_i`.
    Down,
    /// No move: the excursion is over.
    End,
}

impl<P, K> TemperedTransitions<P, K>
where
    P: AnnealingPath,
    K: Invariant<P::At> + Reversal<P::At>,
{
    /// Creates a kernel whose excursions move by `kernel` at the fractions of the current beta that `ladder` lists.
    ///
    /// # Errors
    /// If the ends of the path do not fit together, or the kernel has parameters for each stage or keeps a memory of
    /// its chains, which a refused excursion would leave changed.
    pub fn new(path: P, kernel: K, ladder: Schedule) -> Result<Self> {
        path.check()?;
        refuse_stages(kernel.stages())?;
        let remembers = has_memory(&kernel) || has_memory(&kernel.reversal());
        let (found, expected) = ("one with a memory of its chains", "one without");
        Error::check(!remembers, "kernel", found, expected)?;
        Ok(Self {
            path,
            kernel,
            ladder,
        })
    }

    /// Visits the rungs from the stage's model to the base and back. `visit` weighs at each and makes the leg's move.
    fn travel<E>(
        &self,
        stage: Stage<'_, P::At>,
        mut visit: impl FnMut(Leg, Stage<'_, P::At>) -> Result<(), E>,
    ) -> Result<(), E> {
        let fractions = &self.ladder.betas()[..self.ladder.stages()];
        let at = |fraction: &f64| self.path.at(stage.beta * fraction);
        let rungs: Vec<_> = fractions.iter().map(at).collect();
        let mut left = stage.model;
        for (i, rung) in rungs.iter().enumerate().rev() {
            let leg = if i == 0 { Leg::Top } else { Leg::Up };
            visit(leg, Stage::new(stage.index, left, rung))?;
            left = rung;
        }
        for rung in &rungs[1..] {
            visit(Leg::Down, Stage::new(stage.index, left, rung))?;
            left = rung;
        }
        visit(Leg::End, Stage::new(stage.index, left, stage.model))
    }
}

fn has_memory<M, K>(_kernel: &K) -> bool
where
    M: Intermediate,
    K: TransitionKernel<M>,
{
    size_of::<<K::Workspace as Workspace>::Memory>() > 0
}

impl<P, K> TransitionKernel<P::At> for TemperedTransitions<P, K>
where
    P: AnnealingPath<State: Clone>,
    K: Invariant<P::At> + Reversal<P::At>,
{
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, P::At>,
        chain: usize,
        state: &mut P::State,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        if is_off_support(stage.model.log_density(state))? {
            return Ok(Step::metropolis(0.0));
        }
        let reversal = self.kernel.reversal();
        let (mut up, mut down) = Default::default();
        let (mut proposal, mut log_acceptance) = (state.clone(), 0.0);
        self.travel(stage, |leg, rung| {
            if log_acceptance > f64::NEG_INFINITY {
                log_acceptance += log_ratio(rung, &proposal)?;
            }
            if log_acceptance == f64::NEG_INFINITY {
                return Ok(());
            }
            match leg {
                Leg::Up => drop(self.kernel.step(rung, chain, &mut proposal, &mut up, rng)?),
                Leg::Top => proposal = self.path.base().sample(rng),
                Leg::Down => drop(reversal.step(rung, chain, &mut proposal, &mut down, rng)?),
                Leg::End => {}
            }
            Ok(())
        })?;
        let (accepted, step) = decide(0.0, log_acceptance, rng);
        if accepted {
            *state = proposal;
        }
        Ok(step)
    }

    /// Makes the excursions of a block together, as an annealed run whose log weights are the log acceptances.
    fn advance(
        &self,
        stage: Stage<'_, P::At>,
        block: &mut Block<P::State>,
        _workspace: &mut (),
    ) -> Result<()> {
        if !stage.is_at_rest() {
            block.weigh(stage)?;
        }
        let mut trial = block.trial();
        trial.each(stage.rest(), |block, chain| {
            let off = is_off_support(block.log_density(stage, chain))?;
            let log_weight = if off { f64::NEG_INFINITY } else { 0.0 };
            Ok(Increment::new(0.0, Step::corrected(log_weight)))
        })?;
        let reversal = self.kernel.reversal();
        let (mut up, mut down) = Default::default();
        self.travel(stage, |leg, rung| match leg {
            Leg::Up => self.kernel.advance(rung, &mut trial, &mut up),
            Leg::Top => trial.each(rung, |block, chain| {
                let log_ratio = block.log_ratio(rung, chain);
                let log_ratio = NonFinite::check_log_density("log ratio", log_ratio)?;
                let (state, rng) = block.chain_mut(chain);
                *state = self.path.base().sample(rng);
                Ok(Increment::new(log_ratio, Step::invariant()))
            }),
            Leg::Down => reversal.advance(rung, &mut trial, &mut down),
            Leg::End => trial.weigh(rung),
        })?;
        block.take_streams(&mut trial);
        block.each(stage.rest(), |block, chain| {
            let (accepted, step) = decide(0.0, trial.log_weights[chain], block.rng_mut(chain));
            if accepted {
                block.take_chain(&mut trial, chain);
            }
            Ok(Increment::new(0.0, step))
        })
    }

    /// Counts the moves of the inner kernel, and the draw at the top.
    fn evaluations(&self, dimension: usize) -> usize {
        let moves = 2 * (self.ladder.stages() - 1);
        let inner = self.kernel.evaluations(dimension).saturating_mul(moves);
        inner.saturating_add(1)
    }
}

fn log_ratio<M: Intermediate>(rung: Stage<'_, M>, state: &M::State) -> Result<f64, NonFinite> {
    NonFinite::check_log_density("log ratio", rung.log_ratio(state))
}

fn is_off_support(log_density: f64) -> Result<bool, NonFinite> {
    let log_density = NonFinite::check_log_density("log density", log_density)?;
    Ok(log_density == f64::NEG_INFINITY)
}

detailed_balance! {
    [P: AnnealingPath<State: Clone>, K: Invariant<P::At> + Reversal<P::At>]
    TemperedTransitions<P, K>, P::At
}
