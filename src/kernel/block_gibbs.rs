//! Block Gibbs sampling of RBMs.

use rand::Rng;

use crate::ais::{Block, StreamRng};
use crate::error::Result;
use crate::kernel::{Increment, NonFinite, Stage, Step, TransitionKernel, advance_each};
use crate::model::rbm::{
    Lanes, Layer, dot, draw_units, pad, propagate_down, propagate_up, weigh_and_draw,
};
use crate::model::{Rbm, Scalar, UnnormalizedModel};
use crate::path::{Knot, RbmAt};

/// Block Gibbs sampling of an RBM: all hidden units given the visible ones, then all visible
/// units given the hidden ones, each layer at once. Leaves the marginal of `v` invariant and is
/// reversible on it.
///
/// On an [`RbmPath`](crate::path::RbmPath) a block of chains moves as a whole: the product
/// `W v` and one exponential a hidden unit serve the weight update and the sampling. Its random
/// bits come from generators that are seeded, on first use, by the stream of the block's first
/// chain. A stage that passes a knot of the path moves chain by chain, so let knots be stages. The
/// matrix product uses the widest vector instructions found at run time, so that on another kind
/// of processor the last bits of an activation may differ.
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
        let Some((segment, to, from)) = stage.model.shared_segment(&stage.previous) else {
            return advance_each(self, stage, block, workspace);
        };
        let (states, rngs) = block.chains_mut();
        let Some(first) = rngs.first_mut() else {
            return Ok(());
        };
        let path = stage.model.path();
        let buffers = workspace.prepare(path.target(), states.len(), first);
        buffers.load(states);
        buffers.weigh_and_draw_hidden(path.segment(segment), (from, to));
        buffers.draw_visible(&stage.model, path.segment(segment), to);
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
    fn prepare(&mut self, rbm: &Rbm<T>, chains: usize, rng: &mut StreamRng) -> &mut Buffers<T> {
        let buffers = self
            .buffers
            .take()
            .filter(|buffers| buffers.fits(rbm, chains));
        self.buffers
            .insert(buffers.unwrap_or_else(|| Buffers::new(rbm, chains, rng)))
    }
}

/// The models at a segment's ends.
type Segment<'a, T> = (Option<&'a Knot<T>>, &'a Knot<T>);

#[derive(Debug, Clone)]
struct Buffers<T: Scalar> {
    lanes: Lanes,
    visible: Layer<T>,
    hidden: Layer<T>,
    /// The hidden activations at the segment's start.
    start: Layer<T>,
    log_ratios: Vec<f64>,
}

impl<T: Scalar> Buffers<T> {
    fn new(rbm: &Rbm<T>, chains: usize, rng: &mut StreamRng) -> Self {
        Self {
            lanes: Lanes::from_rng(rng),
            visible: Layer::zeros(rbm.visible_units(), chains),
            hidden: Layer::zeros(rbm.hidden_units(), chains),
            start: Layer::zeros(rbm.hidden_units(), chains),
            log_ratios: vec![0.0; chains],
        }
    }

    fn fits(&self, rbm: &Rbm<T>, chains: usize) -> bool {
        self.log_ratios.len() == chains
            && self.visible.units() == rbm.visible_units()
            && self.hidden.units() == rbm.hidden_units()
    }

    fn load(&mut self, states: &[Vec<bool>]) {
        for (chain, state) in states.iter().enumerate() {
            self.visible.set_chain(chain, state);
        }
    }

    /// The weight comes first, at the old `v`; then `h` given it, at the new beta. `t` is where in
    /// the segment the stage starts and ends.
    fn weigh_and_draw_hidden(&mut self, (start, end): Segment<'_, T>, t: (f64, f64)) {
        propagate_up(&end.rbm, &self.visible, &mut self.hidden);
        match start {
            Some(start) => propagate_up(&start.rbm, &self.visible, &mut self.start),
            None => self.start.clear(),
        }
        let bias_slope = pad(end.bias_slope.iter().copied());
        for (chain, log_ratio) in self.log_ratios.iter_mut().enumerate() {
            let slope_term = dot(&bias_slope, self.visible.chain(chain));
            let (hidden, start) = (self.hidden.chain_mut(chain), self.start.chain(chain));
            *log_ratio =
                (t.1 - t.0) * slope_term + weigh_and_draw(hidden, start, t, &mut self.lanes);
        }
    }

    fn draw_visible(&mut self, model: &RbmAt<'_, T>, (start, end): Segment<'_, T>, t: f64) {
        let biases = pad(model.visible_biases().map(T::nearest));
        let (hidden, visible) = (&self.hidden, &mut self.visible);
        let add = |knot: &Knot<T>, scale: f64, keep: T, visible: &mut Layer<T>| {
            let scale = T::nearest(scale);
            propagate_down(&knot.transposed_weights, scale, hidden, keep, visible);
        };
        add(end, t, T::zero(), visible);
        if let Some(start) = start {
            add(start, 1.0 - t, T::one(), visible);
        }
        for chain in 0..self.log_ratios.len() {
            draw_units(visible.chain_mut(chain), &biases, &mut self.lanes);
        }
    }

    fn store(&self, chain: usize, state: &mut [bool]) {
        for (bit, &value) in state.iter_mut().zip(self.visible.chain(chain)) {
            *bit = value != T::zero();
        }
    }
}
