//! A population: chains on their way along a path.

use std::ops::Range;

use super::moves::{AnyMemory, AnyWorkspace, Moves};
use crate::kernel::{Block, NonFinite, Stage, TransitionKernel, Workspace};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::path::{AnnealingPath, Intermediate};
use crate::random::{StreamRng, successive};
use crate::{Error, Result};

/// Chains on their way along a path. One call of [`advance_to`](Self::advance_to) is one step of the
/// annealing loop.
///
/// All annealing of this crate is written with it: runs, pilots and the tuning of step sizes. An
/// annealed run of your own is a loop over betas:
///
/// ```
/// use annealed::estimate::Estimate;
/// use annealed::prelude::*;
/// use annealed::random::{Purpose, stream};
///
/// let target = Gaussian::isotropic(DVector::from_element(1, 1.0), 0.5)?;
/// let path = GeometricPath::new(Gaussian::standard(1)?, target.clone());
/// let kernel = RandomWalkMetropolis::new(0.7)?;
/// let mut population = Population::start(&path, 0, 100, stream(7, Purpose::Run, 0))?;
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
/// Each step takes the kernel anew, so that its parameters may change along the way. A kernel of another type of
/// workspace begins with an empty one: two kernels that keep something of their chains go into one `Sequence` or `Mixture`.
#[derive(Debug)]
pub struct Population<'p, P: AnnealingPath> {
    path: &'p P,
    block: Block<P::State>,
    workspace: AnyWorkspace,
    index: usize,
    /// The model left at the last stage.
    previous: P::At<'p>,
    model: P::At<'p>,
}

impl<'p, P: AnnealingPath> Population<'p, P> {
    /// So many chains of weight 1 at exact samples of the base. The first has the stream `first`, each
    /// further one that of the jump after: the block of a run that begins at chain n begins with
    /// `stream(seed, Purpose::Run, n)`. `first_chain` is that n, by which errors name a chain.
    ///
    /// # Errors
    /// A path whose [`check`](AnnealingPath::check) fails; more than 2^30 chains; [`Error::NonFinite`] where the base's log density at its own sample is not
    /// finite.
    pub fn start(path: &'p P, first_chain: usize, chains: usize, first: StreamRng) -> Result<Self> {
        let mut rngs = streams(chains, first)?;
        let states = sample_base(path, first_chain, &mut rngs)?;
        Self::from_states(path, 0.0, first_chain, states, rngs)
    }

    /// Chains of weight 1 at these states, which stand at `beta`, each with its stream.
    ///
    /// # Errors
    /// A path whose [`check`](AnnealingPath::check) fails; a beta outside of `[0, 1]`.
    ///
    /// # Panics
    /// Where there are not as many streams as states. A later step panics where the path's models refuse a state, of
    /// another dimension for instance; [`Ais`](crate::ais::Ais) makes an error of it.
    pub fn from_states(
        path: &'p P,
        beta: f64,
        first_chain: usize,
        states: Vec<P::State>,
        rngs: Vec<StreamRng>,
    ) -> Result<Self> {
        Self::from_block(path, beta, Block::new(first_chain, states, rngs))
    }

    /// Chains that stand at `beta`, of which a kernel knows nothing yet.
    pub(crate) fn from_block(path: &'p P, beta: f64, block: Block<P::State>) -> Result<Self> {
        path.check()?;
        Error::check_fraction("beta", beta)?;
        Ok(Self {
            path,
            block,
            workspace: AnyWorkspace::default(),
            index: 0,
            previous: path.at(beta),
            model: path.at(beta),
        })
    }

    /// One stage: weighs the chains from the model where they stand to that at `beta`, then moves
    /// them there.
    ///
    /// # Errors
    /// A beta outside of `[0, 1]`; what the kernel meets, with chain, stage and beta.
    pub fn advance_to<K>(&mut self, kernel: &K, beta: f64) -> Result<()>
    where
        K: TransitionKernel<P::At<'p>>,
    {
        self.advance_by(kernel, beta)
    }

    pub(crate) fn advance_by(&mut self, kernel: &dyn Moves<P::At<'p>>, beta: f64) -> Result<()> {
        self.place_at(beta)?;
        self.block.begin_stage();
        let stage = Stage::new(self.index, &self.previous, &self.model);
        kernel.pass(stage, &mut self.block, &mut self.workspace)
    }

    /// One more move at the model where the chains stand. Only the kernel's correction, 0 for one
    /// that is invariant, is added to the weights.
    ///
    /// # Errors
    /// As [`advance_to`](Self::advance_to).
    pub fn stay<K>(&mut self, kernel: &K) -> Result<()>
    where
        K: TransitionKernel<P::At<'p>>,
    {
        self.stay_by(kernel)
    }

    pub(crate) fn stay_by(&mut self, kernel: &dyn Moves<P::At<'p>>) -> Result<()> {
        let stage = Stage::new(self.index, &self.model, &self.model);
        kernel.pass(stage, &mut self.block, &mut self.workspace)
    }

    /// Weighs the chains from the model where they stand to that at `beta`, and does not move them: the
    /// end of a path that is read backward.
    ///
    /// # Errors
    /// As [`advance_to`](Self::advance_to).
    pub fn weigh_to(&mut self, beta: f64) -> Result<()> {
        self.place_at(beta)?;
        self.block.begin_stage();
        let stage = Stage::new(self.index, &self.previous, &self.model);
        self.block.weigh(stage)
    }

    /// Places the chains at the model of another beta without weighing or moving them. Moves that
    /// [stay](Self::stay) there then bring them into its equilibrium.
    ///
    /// # Errors
    /// A beta outside of `[0, 1]`.
    pub fn place_at(&mut self, beta: f64) -> Result<()> {
        Error::check_fraction("beta", beta)?;
        self.place(self.path.at(beta));
        Ok(())
    }

    /// The last stage, from the model left to the one where the chains stand.
    pub fn stage(&self) -> Stage<'_, P::At<'p>> {
        Stage::new(self.index, &self.previous, &self.model)
    }

    /// The chains.
    pub fn block(&self) -> &Block<P::State> {
        &self.block
    }

    /// Gives the first chains copies of the states and memories of these, by their indices within the block,
    /// and all of them the mean weight of the block.
    pub(crate) fn gather(&mut self, ancestors: &[usize], copy: fn(&P::State) -> P::State) {
        let copies = ancestors.iter().map(|&chain| self.copy_of(chain, copy));
        for (chain, (state, memory)) in copies.collect::<Vec<_>>().into_iter().enumerate() {
            self.set_chain(chain, state, memory);
        }
        self.block.level_weights();
    }

    /// Copies state and memory, not the stream, of one chain to another, by their indices within the block.
    pub(crate) fn copy_chain(&mut self, from: usize, to: usize, copy: fn(&P::State) -> P::State) {
        let (state, memory) = self.copy_of(from, copy);
        self.set_chain(to, state, memory);
    }

    /// Copies of state and memory of a chain, by its index within the block.
    pub(crate) fn copy_of(
        &self,
        chain: usize,
        copy: fn(&P::State) -> P::State,
    ) -> (P::State, AnyMemory) {
        let state = copy(&self.block.states()[chain]);
        (state, self.workspace.memory(chain))
    }

    /// Gives a chain another state and memory. Its stream is kept.
    pub(crate) fn set_chain(&mut self, chain: usize, state: P::State, memory: AnyMemory) {
        *self.block.chain_mut(chain).0 = state;
        self.workspace.set_memory(chain, memory);
    }

    /// [Stays](Self::stay) with the chains of a mask.
    pub(crate) fn stay_masked(
        &mut self,
        kernel: &dyn Moves<P::At<'p>>,
        mask: &mut Vec<bool>,
    ) -> Result<()> {
        let stage = Stage::new(self.index, &self.model, &self.model);
        let workspace = &mut self.workspace;
        self.block
            .masked(mask, |block| kernel.pass(stage, block, workspace))
    }

    /// The chains, to be resampled.
    pub(crate) fn block_mut(&mut self) -> &mut Block<P::State> {
        &mut self.block
    }

    /// Gives the chains new exact samples of the base, and forgets what a kernel kept of the old ones.
    pub(crate) fn redraw(&mut self) {
        let base = self.path.base();
        let (states, rngs) = self.block.chains_mut();
        for (state, rng) in states.iter_mut().zip(rngs) {
            *state = base.sample(rng);
        }
        self.workspace.clear();
    }

    /// Draws from the base anew those chains that the model at `beta` excludes, each up to 1,000 times, and forgets what
    /// a kernel kept of the old ones. The chains stand at the base.
    pub(crate) fn redraw_excluded(&mut self, beta: f64) {
        let (here, next) = (self.path.at(0.0), self.path.at(beta));
        let (states, rngs) = self.block.chains_mut();
        let mut draws = 0;
        for (state, rng) in states.iter_mut().zip(rngs) {
            let mut left = DRAWS;
            while left > 0 && next.log_ratio(&here, state) == f64::NEG_INFINITY {
                *state = self.path.base().sample(rng);
                left -= 1;
            }
            draws += DRAWS - left;
        }
        if draws > 0 {
            self.workspace.clear();
        }
    }

    /// Exchanges the states of one chain of each population, with what a kernel keeps of them.
    pub(crate) fn exchange(&mut self, other: &mut Self, chain: usize) {
        let (here, _) = self.block.chain_mut(chain);
        let (there, _) = other.block.chain_mut(chain);
        std::mem::swap(here, there);
        let memory = self.workspace.memory(chain);
        self.workspace
            .set_memory(chain, other.workspace.memory(chain));
        other.workspace.set_memory(chain, memory);
    }

    /// The same with another index of its stage, by which errors name the place.
    pub(crate) fn at_stage(mut self, index: usize) -> Self {
        self.index = index;
        self
    }

    /// Returns the states, each with what a kernel of this workspace keeps of it.
    pub(crate) fn into_states<W: Workspace>(mut self) -> Vec<(P::State, W::Memory)> {
        let memories = self.memories::<W>();
        let (states, _) = self.block.take_states_and_log_weights();
        states.into_iter().zip(memories).collect()
    }

    /// Returns what a kernel of this workspace keeps of each chain.
    pub(crate) fn memories<W: Workspace>(&self) -> Vec<W::Memory> {
        self.workspace.memories::<W>(self.block.len())
    }

    /// Gives the chains what a kernel of this workspace kept of their states.
    pub(crate) fn set_memories<W: Workspace>(&mut self, memories: Vec<W::Memory>) {
        let workspace = self.workspace.of::<W>();
        for (chain, memory) in memories.into_iter().enumerate() {
            workspace.set_memory(chain, memory);
        }
    }

    /// Returns the chains being moved, by their indices in the run, with index and beta of the stage.
    pub(crate) fn place_at_hand(&self) -> (Range<usize>, usize, f64) {
        (self.block.chains_at_hand(), self.index, self.stage().beta)
    }

    /// Places the chains at a model that the caller has at hand, as [`place_at`](Self::place_at).
    pub(crate) fn place(&mut self, model: P::At<'p>) {
        self.index += 1;
        self.previous = std::mem::replace(&mut self.model, model);
    }

    /// Gives the chains other states, the weight 1 and an empty memory. The streams are kept.
    pub(crate) fn replace_states(&mut self, states: Vec<P::State>) {
        self.block.replace_states(states);
        self.workspace.clear();
    }
}

/// How often a chain that a model excludes is drawn anew.
const DRAWS: usize = 1_000;

/// Returns exact samples of the base, one for each stream.
pub(crate) fn sample_base<P: AnnealingPath>(
    path: &P,
    first_chain: usize,
    rngs: &mut [StreamRng],
) -> Result<Vec<P::State>> {
    let base = path.base();
    let mut states = Vec::with_capacity(rngs.len());
    for (i, rng) in rngs.iter_mut().enumerate() {
        let state = base.sample(rng);
        check_start(base.log_density(&state), first_chain + i)?;
        states.push(state);
    }
    Ok(states)
}

/// The streams of so many chains, given that of the first.
pub(crate) fn streams(chains: usize, first: StreamRng) -> Result<Vec<StreamRng>> {
    Error::check_count("chains", chains, 0)?;
    let mut rngs = Error::reserved("chains", chains)?;
    rngs.extend(successive(first).take(chains));
    Ok(rngs)
}

/// Refuses a log density that the base cannot have at its own sample.
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
