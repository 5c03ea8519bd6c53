//! Block Gibbs sampling of RBMs.

use rand::Rng;

use crate::ais::{Block, StreamRng};
use crate::error::Result;
use crate::kernel::{Increment, NonFinite, Stage, Step, TransitionKernel};
use crate::model::rbm::{
    Lanes, Layer, dot, draw_units, pad, propagate_down, propagate_up, weigh_and_draw,
};
use crate::model::{Rbm, Scalar, UnnormalizedModel};
use crate::path::{Intermediate, RbmAt};

/// Block Gibbs sampling of an RBM: all hidden units given the visible ones, then all visible
/// units given the hidden ones, each layer at once. Leaves the marginal of `v` invariant and is
/// reversible on it.
///
/// On an [`RbmPath`](crate::path::RbmPath) a block of chains moves as a whole: the product
/// `W v` and one exponential a hidden unit serve the weight update and the sampling. Its random
/// bits come from generators that are seeded, on first use, by the stream of the block's first
/// chain. The matrix product uses the widest vector instructions found at run time, so that on
/// another kind of processor the last bits of an activation may differ.
///
/// ```
/// use annealed::ais::{Block, Purpose, stream};
/// use annealed::kernel::{BlockGibbs, Stage, TransitionKernel};
/// use annealed::model::{BaseRate, Rbm, Sampleable};
/// use annealed::path::{AnnealingPath, RbmPath};
///
/// let images = annealed::data::digits().images;
/// let target = Rbm::<f32>::from_data(8, &images, 1)?;
/// let path = RbmPath::new(BaseRate::from_data(8, &images, 1.0)?, target)?;
///
/// // One stage, from beta = 0 to 0.1, for a block of ten chains.
/// let mut rng = stream(7, Purpose::Pilot, 0);
/// let states = (0..10).map(|_| path.base().sample(&mut rng)).collect();
/// let streams = (0..10).map(|chain| stream(7, Purpose::Run, chain)).collect();
/// let mut block = Block::new(0, states, streams);
/// let stage = Stage::new(1, path.at(0.0), path.at(0.1));
/// BlockGibbs.advance(&stage, &mut block, &mut Default::default())?;
/// assert!(block.log_weights().iter().all(|w| w.is_finite()));
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockGibbs;

impl<T: Scalar> TransitionKernel<RbmAt<'_, T>> for BlockGibbs {
    type Workspace = BlockGibbsWorkspace<T>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<RbmAt<'_, T>>,
        _chain: usize,
        state: &mut Vec<bool>,
        _workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        stage.model.gibbs_sweep(state, rng);
        Ok(Step::invariant())
    }

    fn advance(
        &self,
        stage: &Stage<RbmAt<'_, T>>,
        block: &mut Block<<RbmAt<'_, T> as UnnormalizedModel>::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        let (states, rngs) = block.chains_mut();
        let Some(first) = rngs.first_mut() else {
            return Ok(());
        };
        let buffers = workspace.prepare(&stage.model, states.len(), first);
        buffers.load(states);
        buffers.weigh_and_draw_hidden(stage);
        buffers.draw_visible(&stage.model);
        for chain in (0..block.len())
            .filter(|&chain| block.is_alive(chain))
            .collect::<Vec<_>>()
        {
            buffers.store(chain, block.chain_mut(chain).0);
            let log_ratio = buffers.log_ratios[chain];
            block.add(
                stage,
                chain,
                Ok(Increment::new(log_ratio, Step::invariant())),
            )?;
        }
        Ok(())
    }
}

/// A plain RBM, sampled without annealing.
impl<T: Scalar> TransitionKernel<&Rbm<T>> for BlockGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<&Rbm<T>>,
        _chain: usize,
        state: &mut Vec<bool>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        stage.model.gibbs_sweep(state, rng);
        Ok(Step::invariant())
    }
}

/// The activations of a block of chains, and its random bits. Made on first use.
#[derive(Debug, Clone)]
pub struct BlockGibbsWorkspace<T: Scalar> {
    buffers: Option<Buffers<T>>,
}

impl<T: Scalar> Default for BlockGibbsWorkspace<T> {
    fn default() -> Self {
        Self { buffers: None }
    }
}

impl<T: Scalar> BlockGibbsWorkspace<T> {
    fn prepare(
        &mut self,
        model: &RbmAt<'_, T>,
        chains: usize,
        rng: &mut StreamRng,
    ) -> &mut Buffers<T> {
        let buffers = self
            .buffers
            .take()
            .filter(|buffers| buffers.fits(model, chains));
        self.buffers
            .insert(buffers.unwrap_or_else(|| Buffers::new(model, chains, rng)))
    }
}

#[derive(Debug, Clone)]
struct Buffers<T: Scalar> {
    lanes: Lanes,
    visible: Layer<T>,
    hidden: Layer<T>,
    bias_slope: Vec<T>,
    log_ratios: Vec<f64>,
}

impl<T: Scalar> Buffers<T> {
    fn new(model: &RbmAt<'_, T>, chains: usize, rng: &mut StreamRng) -> Self {
        let rbm = model.path().target();
        Self {
            lanes: Lanes::from_rng(rng),
            visible: Layer::zeros(rbm.visible_units(), chains),
            hidden: Layer::zeros(rbm.hidden_units(), chains),
            bias_slope: pad(model.bias_slope().iter().copied()),
            log_ratios: vec![0.0; chains],
        }
    }

    fn fits(&self, model: &RbmAt<'_, T>, chains: usize) -> bool {
        let rbm = model.path().target();
        self.log_ratios.len() == chains
            && self.visible.units() == rbm.visible_units()
            && self.hidden.units() == rbm.hidden_units()
    }

    fn load(&mut self, states: &[Vec<bool>]) {
        for (chain, state) in states.iter().enumerate() {
            self.visible.set_chain(chain, state);
        }
    }

    /// The weight comes first, at the old `v`; then `h` given it, at the new beta.
    fn weigh_and_draw_hidden(&mut self, stage: &Stage<RbmAt<'_, T>>) {
        let beta = (stage.previous.beta(), stage.model.beta());
        propagate_up(stage.model.path().target(), &self.visible, &mut self.hidden);
        for (chain, log_ratio) in self.log_ratios.iter_mut().enumerate() {
            let slope_term = dot(&self.bias_slope, self.visible.chain(chain));
            *log_ratio = (beta.1 - beta.0) * slope_term
                + weigh_and_draw(self.hidden.chain_mut(chain), beta, &mut self.lanes);
        }
    }

    fn draw_visible(&mut self, model: &RbmAt<'_, T>) {
        let biases = pad(model.visible_biases().map(T::nearest));
        let beta = T::nearest(model.beta());
        propagate_down(
            model.path().transposed_weights(),
            &self.hidden,
            &mut self.visible,
        );
        for chain in 0..self.log_ratios.len() {
            draw_units(
                self.visible.chain_mut(chain),
                &biases,
                beta,
                &mut self.lanes,
            );
        }
    }

    fn store(&self, chain: usize, state: &mut [bool]) {
        for (bit, &value) in state.iter_mut().zip(self.visible.chain(chain)) {
            *bit = value != T::zero();
        }
    }
}
