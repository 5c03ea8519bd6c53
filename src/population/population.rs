//! Chains that move along a path.

use std::ops::Range;

#[cfg(feature = "checkpoint")]
use crate::kernel::SavedBlock;
use crate::kernel::{AnyWorkspace, Block, NonFinite, Stage, TransitionKernel};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::path::{AnnealingPath, Intermediate};
use crate::random::{StreamRng, successive};
use crate::work::caught;
use crate::{Error, Result};

/// Chains that move along a path, taken through one stage by each call of [`advance_to`](Self::advance_to). An annealed
/// run of your own is a loop over betas:
///
/// ```
/// use annealed::estimate::Estimate;
/// use annealed::population::Population;
/// use annealed::prelude::*;
/// use annealed::random::{Purpose, stream};
///
/// let target = Gaussian::isotropic(DVector::from_element(1, 1.0), 0.5)?;
/// let path = GeometricPath::new(Gaussian::standard(1)?, target.clone());
/// let kernel = RandomWalkMetropolis::new(0.7)?;
/// let mut population = Population::start(&path, 0, 100, stream(7, Purpose::RUN, 0))?;
/// for beta in [0.25, 0.5, 0.75, 1.0] {
///     population.advance_to(&kernel, beta)?; // weigh, then move
///     population.stay(&kernel)?; // one more move at the same model
/// }
/// let ratio = Estimate::from_log_weights(population.block().log_weights())?;
/// let log_z = ratio.shifted(path.base().log_normalizer());
/// assert!((log_z.value() - target.log_normalizer()).abs() < 4.0 * log_z.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// The kernel may change from stage to stage.
#[derive(Debug)]
pub struct Population<P: AnnealingPath> {
    path: P,
    block: Block<P::State>,
    workspace: AnyWorkspace,
    index: usize,
    /// Model before the last stage.
    previous: P::At,
    model: P::At,
    /// Whether the chains use surrogates of the path's models.
    on_surrogates: bool,
}

impl<P: AnnealingPath> Population<P> {
    /// Creates `chains` chains of weight 1 at exact samples of the base. The first chain has the stream `first`; each
    /// further chain has the stream one jump ahead. A run's block from chain n on starts with
    /// `stream(seed, Purpose::RUN, n)` and has n as `first_chain`, which errors use to name a chain.
    ///
    /// # Errors
    /// A path whose [`check`](AnnealingPath::check) fails; more than 2^30 chains; [`Error::NonFinite`] if the base's
    /// log density at its own sample is not finite.
    pub fn start(path: P, first_chain: usize, chains: usize, first: StreamRng) -> Result<Self> {
        let mut rngs = streams(chains, first)?;
        let states = sample_base(&path, first_chain, &mut rngs)?;
        Self::from_states(path, 0.0, first_chain, states, rngs)
    }

    /// Creates chains of weight 1 at `states`, placed at `beta`, with the streams `rngs`.
    ///
    /// # Errors
    /// A path whose [`check`](AnnealingPath::check) fails; a `beta` outside `[0, 1]`.
    ///
    /// # Panics
    /// Other numbers of states and streams.
    pub fn from_states(
        path: P,
        beta: f64,
        first_chain: usize,
        states: Vec<P::State>,
        rngs: Vec<StreamRng>,
    ) -> Result<Self> {
        Self::from_block(path, beta, Block::new(first_chain, states, rngs))
    }

    pub(crate) fn from_block(path: P, beta: f64, block: Block<P::State>) -> Result<Self> {
        path.check()?;
        Error::check_fraction("beta", beta)?;
        Ok(Self {
            block: block.on_one_path(),
            workspace: AnyWorkspace::default(),
            index: 0,
            previous: path.at(beta),
            model: path.at(beta),
            on_surrogates: false,
            path,
        })
    }

    /// Lets the chains use the [surrogates](AnnealingPath::surrogate_at) of the path's models, if `wanted` and if the path
    /// has any.
    /// Chains at the target stay at the exact target until [`leave_target`](Self::leave_target) is called.
    pub(crate) fn by_surrogates(mut self, wanted: bool) -> Self {
        let beta = self.model.beta();
        self.on_surrogates = wanted && self.path.surrogate_at(beta).is_some();
        if self.on_surrogates && beta < 1.0 {
            (self.previous, self.model) = (self.model_at(beta), self.model_at(beta));
        }
        self
    }

    pub(crate) fn is_on_surrogates(&self) -> bool {
        self.on_surrogates
    }

    /// Reweights the chains from the target's surrogate to the target, and moves them at the target.
    pub(crate) fn enter_target(&mut self, kernel: &dyn Moves<P::At>) -> Result<()> {
        self.on_surrogates = false;
        self.block.forget_known();
        self.weigh_to_model(self.path.at(1.0))?;
        self.stay_by(kernel)
    }

    /// Reweights the chains from the target to its surrogate.
    pub(crate) fn leave_target(&mut self) -> Result<()> {
        // A surrogate has the beta of the model that it stands for, but other log densities.
        self.block.forget_known();
        self.weigh_to_model(self.model_at(1.0))
    }

    /// Returns the weights that the chains would have at the path's own model instead of its surrogate.
    pub(crate) fn exact_log_weights(&self) -> Vec<f64> {
        if !self.on_surrogates {
            return self.block.log_weights().to_vec();
        }
        let model = self.path.at(self.model.beta());
        // A dead chain stays dead: its log ratio may be +inf, and `-inf + inf` is NaN.
        let exact = |(state, &log_weight): (&P::State, &f64)| match log_weight > f64::NEG_INFINITY {
            true => log_weight + model.log_ratio(&self.model, state),
            false => log_weight,
        };
        let chains = self.block.states().iter().zip(self.block.log_weights());
        chains.map(exact).collect()
    }

    fn model_at(&self, beta: f64) -> P::At {
        let surrogate = self.path.surrogate_at(beta).filter(|_| self.on_surrogates);
        surrogate.unwrap_or_else(|| self.path.at(beta))
    }

    /// Takes the chains through one stage: reweights them to the model at `beta`, then moves them at this model.
    ///
    /// # Errors
    /// A `beta` outside `[0, 1]`; errors of the kernel, with chain, stage and beta.
    pub fn advance_to<K>(&mut self, kernel: &K, beta: f64) -> Result<()>
    where
        K: TransitionKernel<P::At>,
    {
        self.advance_by(kernel, beta)
    }

    pub(crate) fn advance_by(&mut self, kernel: &dyn Moves<P::At>, beta: f64) -> Result<()> {
        if cfg!(debug_assertions) && self.index % CHECKED == CHECKED - 1 {
            self.block.check_memory(&self.model, self.index);
        }
        self.place_at(beta)?;
        self.block.begin_stage();
        self.guarded(&mut |at| {
            let stage = Stage::new(at.index, &at.previous, &at.model);
            kernel.pass(stage, &mut at.block, &mut at.workspace)
        })
    }

    /// Moves the chains once more at their current model. Weights change by the kernel's correction, which is 0 for an
    /// invariant kernel.
    ///
    /// # Errors
    /// As [`advance_to`](Self::advance_to).
    pub fn stay<K>(&mut self, kernel: &K) -> Result<()>
    where
        K: TransitionKernel<P::At>,
    {
        self.stay_by(kernel)
    }

    pub(crate) fn stay_by(&mut self, kernel: &dyn Moves<P::At>) -> Result<()> {
        // No `begin_stage`, because recorders and surveys read the log ratios of the last stage after this move.
        self.guarded(&mut |at| {
            let stage = Stage::new(at.index, &at.model, &at.model);
            kernel.pass(stage, &mut at.block, &mut at.workspace)
        })
    }

    /// Reweights the chains to the model at `beta` without moving them, as at the end of a path that is read backward.
    ///
    /// # Errors
    /// As [`advance_to`](Self::advance_to).
    pub fn weigh_to(&mut self, beta: f64) -> Result<()> {
        Error::check_fraction("beta", beta)?;
        self.weigh_to_model(self.model_at(beta))
    }

    fn weigh_to_model(&mut self, model: P::At) -> Result<()> {
        self.place(model);
        self.block.begin_stage();
        self.guarded(&mut |at| {
            let stage = Stage::new(at.index, &at.previous, &at.model);
            at.block.weigh(stage)
        })
    }

    /// Runs code of models and kernels. A panic becomes an error that names the chains being moved, stage and beta.
    fn guarded(&mut self, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        caught(&mut || work(self)).unwrap_or_else(|message| Err(self.panicked(message)))
    }

    /// Returns the error of a panic. It names the chains being moved, stage and beta.
    pub(super) fn panicked(&self, message: String) -> Error {
        let (chains, stage, beta) = self.place_at_hand();
        Error::Panicked {
            message,
            chains,
            stage,
            beta,
        }
    }

    /// Places the chains at the model of another `beta` without reweighting or moving them. Moves by
    /// [`stay`](Self::stay) then bring them to equilibrium at this model.
    ///
    /// # Errors
    /// A `beta` outside `[0, 1]`.
    pub fn place_at(&mut self, beta: f64) -> Result<()> {
        Error::check_fraction("beta", beta)?;
        self.place(self.model_at(beta));
        Ok(())
    }

    /// Returns the last stage, from the previous model to the current one.
    pub fn stage(&self) -> Stage<'_, P::At> {
        Stage::new(self.index, &self.previous, &self.model)
    }

    /// Returns the chains.
    pub fn block(&self) -> &Block<P::State> {
        &self.block
    }

    pub(crate) fn stay_masked(
        &mut self,
        kernel: &dyn Moves<P::At>,
        mask: &mut Vec<bool>,
    ) -> Result<()> {
        self.guarded(&mut |at| {
            let stage = Stage::new(at.index, &at.model, &at.model);
            let workspace = &mut at.workspace;
            at.block
                .masked(mask, |block| kernel.pass(stage, block, workspace))
        })
    }

    pub(crate) fn block_mut(&mut self) -> &mut Block<P::State> {
        &mut self.block
    }

    /// Draws all chains anew from the base.
    pub(crate) fn redraw(&mut self) {
        let (base, first) = (self.path.base(), self.block.first_chain());
        for chain in 0..self.block.len() {
            let (state, rng) = self.block.chain_mut(chain);
            *state = base.sample_chain(first + chain, rng);
        }
    }

    /// Evaluates the ends of the path (base and target) together, at living states for which their values are not
    /// cached. Returns whether there were such states, and `None` for a path without ends.
    ///
    /// # Errors
    /// A log density that is NaN or `+inf`.
    pub(crate) fn learn(&mut self) -> Result<Option<bool>> {
        let place = (self.index, self.model.beta());
        let mut learned = None;
        self.guarded(&mut |at| {
            learned = at.block.learn(&at.path.at(1.0), place)?;
            Ok(())
        })?;
        Ok(learned)
    }

    /// Sets the index of the stage, which errors use to name the place.
    pub(crate) fn at_stage(mut self, index: usize) -> Self {
        self.index = index;
        self
    }

    /// Returns the indices in the run of the chains being moved, with index and beta of the stage.
    pub(crate) fn place_at_hand(&self) -> (Range<usize>, usize, f64) {
        (self.block.chains_at_hand(), self.index, self.stage().beta)
    }

    /// Places the chains at a model, as [`place_at`](Self::place_at).
    pub(crate) fn place(&mut self, model: P::At) {
        self.index += 1;
        self.previous = std::mem::replace(&mut self.model, model);
    }
}

/// Number of stages after which a debug build checks the cached values of one of the block's states.
const CHECKED: usize = 64;

/// Draws one exact sample of the base from each stream.
pub(crate) fn sample_base<P: AnnealingPath>(
    path: &P,
    first_chain: usize,
    rngs: &mut [StreamRng],
) -> Result<Vec<P::State>> {
    let base = path.base();
    let mut states = Vec::with_capacity(rngs.len());
    for (i, rng) in rngs.iter_mut().enumerate() {
        let state = base.sample_chain(first_chain + i, rng);
        check_start(base.log_density(&state), first_chain + i)?;
        states.push(state);
    }
    Ok(states)
}

/// Returns the streams of `chains` chains, beginning with `first`.
pub(crate) fn streams(chains: usize, first: StreamRng) -> Result<Vec<StreamRng>> {
    Error::check_count("chains", chains, 0)?;
    let mut rngs = Error::reserved("chains", chains)?;
    rngs.extend(successive(first).take(chains));
    Ok(rngs)
}

/// Refuses a base log density at the base's own sample that is not finite.
fn check_start(value: f64, chain: usize) -> Result<()> {
    let fault = NonFinite::new(
        "log density of the base at its own sample",
        value,
        "a finite number",
    );
    match value.is_finite() {
        true => Ok(()),
        false => Err(fault.at(chain, 0, 0.0)),
    }
}

/// A kernel for models `M` as a trait object: one virtual call moves a block through a stage.
pub(crate) trait Moves<M: Intermediate> {
    /// Takes a block through a stage, as [`TransitionKernel::advance`].
    fn pass(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut AnyWorkspace,
    ) -> Result<()>;

    /// Returns the number of density evaluations of a move in `dimension` dimensions, at least 1.
    fn cost(&self, dimension: usize) -> u64;
}

impl<M: Intermediate, K: TransitionKernel<M>> Moves<M> for K {
    fn pass(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut AnyWorkspace,
    ) -> Result<()> {
        self.advance(stage, block, workspace.of())
    }

    fn cost(&self, dimension: usize) -> u64 {
        self.evaluations(dimension).max(1) as u64
    }
}

#[cfg(feature = "checkpoint")]
impl<P: AnnealingPath> Population<P> {
    /// Restores the saved chains at the model of `beta`. `chains` are their indices in the run.
    ///
    /// # Errors
    /// As [`Block::restored`].
    pub(crate) fn restored(
        path: P,
        beta: f64,
        chains: &Range<usize>,
        block: SavedBlock<P::State>,
    ) -> Result<Self> {
        Self::from_block(path, beta, Block::restored(chains, block)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::RandomWalkMetropolis;
    use crate::model::{Gaussian, UnnormalizedModel};
    use nalgebra::DVector;

    /// The same Gaussian at all betas. Its surrogates are higher by log f = 1.
    #[derive(Debug, Clone)]
    struct Constant(Gaussian);

    #[derive(Debug)]
    struct At {
        gaussian: Gaussian,
        beta: f64,
        higher: f64,
    }

    impl UnnormalizedModel for At {
        type State = DVector<f64>;

        fn log_density(&self, state: &DVector<f64>) -> f64 {
            self.higher + self.gaussian.log_density(state)
        }
    }

    impl Intermediate for At {
        fn beta(&self) -> f64 {
            self.beta
        }
    }

    impl AnnealingPath for Constant {
        type State = DVector<f64>;
        type Base = Gaussian;
        type At = At;

        fn base(&self) -> &Gaussian {
            &self.0
        }

        fn at(&self, beta: f64) -> At {
            let (gaussian, higher) = (self.0.clone(), 0.0);
            At {
                gaussian,
                beta,
                higher,
            }
        }

        fn surrogate_at(&self, beta: f64) -> Option<At> {
            let higher = 1.0;
            Some(At {
                higher,
                ..self.at(beta)
            })
        }
    }

    #[test]
    fn what_is_known_of_a_state_ends_where_surrogates_meet_the_target() -> Result<()> {
        let first = crate::random::stream(0, crate::random::Purpose::TESTING, 0);
        let (states, rngs) = (vec![DVector::zeros(1); 8], streams(8, first)?);
        let path = Constant(Gaussian::standard(1)?);
        let chains = Population::from_states(path, 1.0, 0, states, rngs)?;
        let (mut chains, kernel) = (chains.by_surrogates(true), RandomWalkMetropolis::new(1.0)?);
        chains.stay(&kernel)?;
        chains.leave_target()?;
        assert!(
            chains
                .block()
                .log_weights()
                .iter()
                .all(|w| (w - 1.0).abs() < 1e-12)
        );
        chains.stay(&kernel)?;
        chains.enter_target(&kernel)?;
        assert!(chains.block().log_weights().iter().all(|w| w.abs() < 1e-12));
        Ok(())
    }
}
