//! Block Gibbs sampling of RBMs.

use rand::Rng;

use crate::Result;
use crate::chain::Block;
use crate::chain::{Increment, NonFinite, Stage, Step};
use crate::kernel::{TransitionKernel, advance_each};
use crate::model::UnnormalizedModel;
use crate::num::{Available, Engine, vectorized};
use crate::random::StreamRng;
use crate::random::{LANES, Lanes};
use crate::rbm::Rbm;
use crate::rbm::engine::Layer;
use crate::rbm::engine::Row;
use crate::rbm::engine::Words;
use crate::rbm::engine::{Inputs, ProductBuffers};
use crate::rbm::engine::{Positions, dot, draw_units, total, weigh_and_draw};
use crate::rbm::path::{RbmAt, RbmPath, SegmentEnd};
use crate::rbm::scalar::Scalar;

/// Block Gibbs sampling of an RBM: all hidden units given the visible ones, then all visible
/// units given the hidden ones, each layer at once. Leaves the marginal of `v` invariant and is
/// reversible on it.
///
/// On an [`RbmPath`](crate::rbm::RbmPath) a block of chains moves as a whole: the product
/// `W v` and one exponential a hidden unit serve the weight update and the sampling. Its random
/// bits come from generators that are seeded, on first use, by the stream of the block's first
/// chain. A stage that passes a knot of the path moves chain by chain, so let knots be stages. The
/// matrix product uses the widest vector instructions found at run time, so that on another kind
/// of processor the last bits of an activation may differ.
///
/// ```
/// use annealed::chain::Block;
/// use annealed::random::{Purpose, stream};
/// use annealed::chain::Stage;
/// use annealed::kernel::TransitionKernel;
/// use annealed::rbm::BlockGibbs;
/// use annealed::model::Sampleable;
/// use annealed::rbm::{BaseRate, Rbm};
/// use annealed::path::AnnealingPath;
/// use annealed::rbm::RbmPath;
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
        let model = &stage.model;
        if let Some(buffers) = workspace.sweep(model, segment, (from, to), block) {
            for (chain, &log_ratio) in buffers.log_ratios.iter().enumerate() {
                if block.is_alive(chain) {
                    let increment = Increment::new(log_ratio, Step::invariant());
                    block.add(stage, chain, Ok(increment))?;
                }
            }
        }
        Ok(())
    }

    fn step_block(
        &self,
        stage: &Stage<RbmAt<'_, T>>,
        block: &mut Block<<RbmAt<'_, T> as UnnormalizedModel>::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        let (segment, at) = stage.model.place();
        workspace.sweep(&stage.model, segment, (at, at), block);
        Ok(())
    }

    fn engine(&self, model: &RbmAt<'_, T>) -> Option<Engine> {
        Some(model.path().engine())
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
    /// Weighs the chains from one end of `t` to the other, places in a segment, and moves those of
    /// positive weight at the latter, `model`. Nothing where there are no chains.
    fn sweep(
        &mut self,
        model: &RbmAt<'_, T>,
        segment: usize,
        t: (f64, f64),
        block: &mut Block<Vec<bool>>,
    ) -> Option<&Buffers<T>> {
        let (states, rngs) = block.chains_mut();
        let buffers = self.prepare(model.path(), states.len(), rngs.first_mut()?);
        let ends = model.path().segment(segment);
        buffers.load(states);
        buffers.weigh_and_draw_hidden(ends, t);
        buffers.draw_visible(model, ends, t.1);
        for chain in 0..block.len() {
            if block.is_alive(chain) {
                buffers.store(chain, block.chain_mut(chain).0);
            }
        }
        Some(buffers)
    }

    fn prepare(
        &mut self,
        path: &RbmPath<T>,
        chains: usize,
        rng: &mut StreamRng,
    ) -> &mut Buffers<T> {
        let buffers = self.buffers.take();
        let buffers = buffers.filter(|buffers| buffers.fit(path, chains));
        self.buffers
            .insert(buffers.unwrap_or_else(|| Buffers::new(path, chains, rng)))
    }
}

/// The models at a segment's ends.
type Segment<'a, T> = (Option<&'a SegmentEnd<T>>, &'a SegmentEnd<T>);

#[derive(Debug, Clone)]
struct Buffers<T: Scalar> {
    engine: Available,
    lanes: Lanes,
    words: Words,
    scratch: ProductBuffers<T>,
    visible: Layer,
    hidden: Layer,
    /// For each chain and one panel of units what the weights at the segment's start and end give.
    start: Vec<Row<T>>,
    end: Vec<Row<T>>,
    /// For each chain sums of softplus increments.
    increments: Vec<[T; LANES]>,
    /// The visible biases at the stage's end.
    visible_bias: Vec<Row<T>>,
    log_ratios: Vec<f64>,
}

impl<T: Scalar> Buffers<T> {
    fn new(path: &RbmPath<T>, chains: usize, rng: &mut StreamRng) -> Self {
        let (visible, hidden) = (path.target().visible_units(), path.target().hidden_units());
        Self {
            engine: path.available_engine(),
            lanes: Lanes::from_rng(rng),
            words: Words::for_chains::<T>(chains),
            scratch: ProductBuffers::default(),
            visible: Layer::zeros(visible, chains),
            hidden: Layer::zeros(hidden, chains),
            start: vec![Row::zero(); chains],
            end: vec![Row::zero(); chains],
            increments: vec![[T::zero(); LANES]; chains],
            visible_bias: Row::panels(path.target().visible_bias().as_slice()),
            log_ratios: vec![0.0; chains],
        }
    }

    fn fit(&self, path: &RbmPath<T>, chains: usize) -> bool {
        self.engine == path.available_engine()
            && self.log_ratios.len() == chains
            && self.visible.units() == path.target().visible_units()
            && self.hidden.units() == path.target().hidden_units()
    }

    fn load(&mut self, states: &[Vec<bool>]) {
        let (engine, visible) = (self.engine, &mut self.visible);
        vectorized!(engine, FUSED, {
            for (chain, state) in states.iter().enumerate() {
                visible.load(chain, state);
            }
        });
    }

    /// The weight comes first, at the old `v`; then `h` given it, at the new beta. `t` is where in
    /// the segment the stage starts and ends.
    fn weigh_and_draw_hidden(&mut self, (start, end): Segment<'_, T>, t: (f64, f64)) {
        let engine = self.engine;
        self.increments.fill([T::zero(); LANES]);
        let mut inputs = Inputs::new(engine, &self.visible, &mut self.scratch);
        for (panel, bias) in end.hidden_bias.iter().enumerate() {
            end.up.multiply(panel, &mut inputs, &mut self.end);
            if let Some(start) = start {
                start.up.multiply(panel, &mut inputs, &mut self.start);
            }
            let words = self.words.draw::<T>(engine, &mut self.lanes);
            let drawn = words
                .zip(self.hidden.panel_mut(panel))
                .zip(&mut self.increments);
            let products = self.start.iter().zip(&self.end);
            let t = Positions::new(t.0, t.1);
            vectorized!(
                engine,
                FUSED,
                match start {
                    None => {
                        for ((_, end), ((words, units), sums)) in products.zip(drawn) {
                            let gain = end.plus(bias);
                            weigh_and_draw::<T, FUSED>(&Row::zero(), &gain, t, words, units, sums);
                        }
                    }
                    Some(knot) => {
                        for ((start, end), ((words, units), sums)) in products.zip(drawn) {
                            let start = start.plus(&knot.hidden_bias[panel]);
                            let gain = end.plus(bias).minus(&start);
                            weigh_and_draw::<T, FUSED>(&start, &gain, t, words, units, sums);
                        }
                    }
                }
            );
        }
        let (log_ratios, visible) = (self.log_ratios.iter_mut(), &self.visible);
        vectorized!(engine, FUSED, {
            for (chain, (log_ratio, sums)) in log_ratios.zip(&self.increments).enumerate() {
                let linear = dot(&end.bias_slope, visible.chain(chain));
                *log_ratio = (t.1 - t.0) * linear + total(sums);
            }
        });
    }

    fn draw_visible(&mut self, model: &RbmAt<'_, T>, (start, end): Segment<'_, T>, t: f64) {
        let engine = self.engine;
        let bias = self.visible_bias.iter_mut();
        let bias = bias.flat_map(|row| row.0.as_flattened_mut());
        for (bias, value) in bias.zip(model.visible_biases()) {
            *bias = T::nearest(value);
        }
        let (at_start, at_end) = (T::nearest(1.0 - t), T::nearest(t));
        let mut inputs = Inputs::new(engine, &self.hidden, &mut self.scratch);
        for (panel, bias) in self.visible_bias.iter().enumerate() {
            end.down.multiply(panel, &mut inputs, &mut self.end);
            if let Some(start) = start {
                start.down.multiply(panel, &mut inputs, &mut self.start);
            }
            let words = self.words.draw::<T>(engine, &mut self.lanes);
            let drawn = words.zip(self.visible.panel_mut(panel));
            let products = self.start.iter().zip(&self.end);
            vectorized!(engine, FUSED, {
                for ((from_start, from_end), (words, units)) in products.zip(drawn) {
                    let mut logits = from_end.times_plus::<FUSED>(at_end, bias);
                    if start.is_some() {
                        logits = from_start.times_plus::<FUSED>(at_start, &logits);
                    }
                    draw_units::<T, FUSED>(&logits, words, units);
                }
            });
        }
    }

    fn store(&self, chain: usize, state: &mut [bool]) {
        vectorized!(self.engine, FUSED, self.visible.store(chain, state));
    }
}
