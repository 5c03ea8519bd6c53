//! Block Gibbs sampling of RBMs.

use rand::Rng;

use crate::Result;
use crate::kernel::{
    Block, Increment, NonFinite, Scratch, Stage, Step, TransitionKernel, advance_each,
    detailed_balance,
};
use crate::num::{Simd, vectorized};
use crate::path::Stationary;
use crate::random::{LANES, Lanes};
use crate::rbm::engine::{
    Categorical, CategoricalBuffers, Inputs, Layer, Positions, ProductBuffers, Row, Words, dot,
    draw_units, total, weigh_and_draw,
};
use crate::rbm::path::SegmentEnd;
use crate::rbm::{Rbm, RbmAt, RbmPath, Scalar};

/// Block Gibbs sampling of an RBM: draws all hidden units given the visible ones, then all visible units given the
/// hidden ones. It leaves the marginal of `v` invariant and is reversible.
///
/// On an [`RbmPath`](crate::rbm::RbmPath) a block of chains moves together, with random bits from the stream of its
/// first chain. A stage that passes a knot moves chain by chain, so let knots be stages. The best vector instructions
/// are chosen at run time: the last bits of an activation may differ between processors.
///
/// ```
/// use annealed::population::Population;
/// use annealed::prelude::*;
/// use annealed::random::{Purpose, stream};
///
/// let images = annealed::data::digits().images;
/// let target = Rbm::<f32>::from_data(8, &images, 1)?;
/// let path = RbmPath::new(BaseRate::from_data(8, &images, 1.0)?, target)?;
///
/// // One stage, from beta = 0 to 0.1, for a block of ten chains.
/// let mut population = Population::start(&path, 0, 10, stream(7, Purpose::Run, 0))?;
/// population.advance_to(&BlockGibbs, 0.1)?;
/// assert!(population.block().log_weights().iter().all(|w| w.is_finite()));
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockGibbs;

impl<T: Scalar> TransitionKernel<RbmAt<'_, T>> for BlockGibbs {
    type Workspace = Scratch<Option<Buffers<T>>>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, RbmAt<'_, T>>,
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
        stage: Stage<'_, RbmAt<'_, T>>,
        block: &mut Block<Vec<bool>>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        let Some((segment, to, from)) = stage.model.shared_segment(stage.previous) else {
            return advance_each(self, stage, block, workspace);
        };
        let path = stage.model.path();
        let buffers = workspace.0.take().filter(|buffers| buffers.fit(path));
        let buffers = workspace
            .0
            .insert(buffers.unwrap_or_else(|| Buffers::new(path)));
        buffers.select(block.mask());
        let Some((states, lanes)) = block.lanes_mut() else {
            return Ok(());
        };
        let (ends, categorical) = (path.segment(segment), path.categorical(segment));
        buffers.load(states);
        buffers.weigh_and_draw_hidden(ends, categorical, (from, to), lanes);
        buffers.sum_log_ratios(ends.1, categorical, (from, to));
        buffers.draw_visible(stage.model, ends, categorical, to, lanes);
        buffers.finish(stage, block)
    }
}

impl<T: Scalar> TransitionKernel<Stationary<&Rbm<T>>> for BlockGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, Stationary<&Rbm<T>>>,
        _chain: usize,
        state: &mut Vec<bool>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        stage.model.0.gibbs_sweep(state, rng);
        Ok(Step::invariant())
    }
}

detailed_balance! { ['p, T: Scalar] BlockGibbs, RbmAt<'p, T> }
detailed_balance! { ['r, T: Scalar] BlockGibbs, Stationary<&'r Rbm<T>> }

/// The models at the start and end of a segment; the base at the start is `None`.
type Segment<'a, T> = (Option<&'a SegmentEnd<T>>, &'a SegmentEnd<T>);

/// Buffers for the chains of a block that take part in a sweep. Entry i of each list belongs to chain `chains[i]`.
#[derive(Debug, Clone)]
pub struct Buffers<T: Scalar> {
    engine: Simd,
    words: Words,
    scratch: ProductBuffers<T>,
    chains: Vec<usize>,
    visible: Layer,
    hidden: Layer,
    /// Products of one panel with the weights at the segment's start; `end` has those at its end.
    start: Vec<Row<T>>,
    end: Vec<Row<T>>,
    increments: Vec<[T; LANES]>,
    /// Visible biases at the stage's end.
    visible_bias: Vec<Row<T>>,
    log_ratios: Vec<f64>,
    /// Component of the base for each chain, where the base is a mixture.
    components: CategoricalBuffers<T>,
}

impl<T: Scalar> Buffers<T> {
    fn new(path: &RbmPath<T>) -> Self {
        let target = path.target();
        Self {
            engine: path.engine,
            words: Words::default(),
            scratch: ProductBuffers::default(),
            chains: Vec::new(),
            visible: Layer::zeros(target.visible_units(), 0),
            hidden: Layer::zeros(target.hidden_units(), 0),
            start: Vec::new(),
            end: Vec::new(),
            increments: Vec::new(),
            visible_bias: Row::panels(target.visible_bias().as_slice()),
            log_ratios: Vec::new(),
            components: CategoricalBuffers::default(),
        }
    }

    fn fit(&self, path: &RbmPath<T>) -> bool {
        self.engine == path.engine
            && self.visible.units() == path.target().visible_units()
            && self.hidden.units() == path.target().hidden_units()
    }

    /// Gathers the chains whose entry in `mask` is true. Dead chains stay, so that the random bits of a chain do not
    /// depend on the others.
    fn select(&mut self, mask: &[bool]) {
        self.chains.clear();
        self.chains
            .extend((0..mask.len()).filter(|&chain| mask[chain]));
        let count = self.chains.len();
        if self.log_ratios.len() != count {
            self.visible.set_chains(count);
            self.hidden.set_chains(count);
            self.start.resize(count, Row::zero());
            self.end.resize(count, Row::zero());
            self.increments.resize(count, [T::zero(); LANES]);
            self.log_ratios.resize(count, 0.0);
        }
    }

    fn load(&mut self, states: &[Vec<bool>]) {
        let (engine, visible, chains) = (self.engine, &mut self.visible, &self.chains);
        vectorized!(engine, FUSED, {
            for (i, &chain) in chains.iter().enumerate() {
                visible.load(i, &states[chain]);
            }
        });
    }

    /// Weighs the chains at the old `v`, then draws `h` and the component at the new beta. `t` holds the positions of
    /// the stage's start and end in the segment.
    fn weigh_and_draw_hidden(
        &mut self,
        (start, end): Segment<'_, T>,
        categorical: Option<&Categorical<T>>,
        t: (f64, f64),
        lanes: &mut Lanes,
    ) {
        let engine = self.engine;
        self.increments.fill([T::zero(); LANES]);
        let mut inputs = Inputs::new(engine, &self.visible, &mut self.scratch);
        for (panel, bias) in end.hidden_bias.iter().enumerate() {
            end.up.multiply(panel, &mut inputs, &mut self.end);
            if let Some(start) = start {
                start.up.multiply(panel, &mut inputs, &mut self.start);
            }
            let words = self.words.draw::<T>(engine, lanes, self.chains.len());
            let units = self.hidden.panel_mut(panel);
            let drawn = words.zip(units).zip(&mut self.increments);
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
        if let Some(categorical) = categorical {
            categorical.weigh_and_draw(t, &mut inputs, lanes, &mut self.components);
        }
    }

    /// Sets the log ratios from the increments and the visible biases.
    fn sum_log_ratios(
        &mut self,
        end: &SegmentEnd<T>,
        categorical: Option<&Categorical<T>>,
        t: (f64, f64),
    ) {
        let (length, scale) = (t.1 - t.0, Positions::<T>::length_over_rounded(t.0, t.1));
        let (log_ratios, visible) = (self.log_ratios.iter_mut(), &self.visible);
        vectorized!(self.engine, FUSED, {
            for (chain, (log_ratio, sums)) in log_ratios.zip(&self.increments).enumerate() {
                let linear = dot(&end.bias_slope, visible.chain(chain));
                *log_ratio = length * linear + scale * total(sums);
            }
        });
        if categorical.is_some() {
            let tilts = self.components.log_ratios();
            for (log_ratio, tilt) in self.log_ratios.iter_mut().zip(tilts) {
                *log_ratio += tilt;
            }
        }
    }

    fn draw_visible(
        &mut self,
        model: &RbmAt<'_, T>,
        (start, end): Segment<'_, T>,
        categorical: Option<&Categorical<T>>,
        t: f64,
        lanes: &mut Lanes,
    ) {
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
            let tilted = categorical.map(|c| self.components.biases(c, panel, bias, t));
            let words = self.words.draw::<T>(engine, lanes, self.chains.len());
            let drawn = words.zip(self.visible.panel_mut(panel));
            let products = self.start.iter().zip(&self.end).enumerate();
            vectorized!(engine, FUSED, {
                for ((chain, (from_start, from_end)), (words, units)) in products.zip(drawn) {
                    let bias = tilted.as_ref().map_or(bias, |tilted| tilted.of(chain));
                    let mut logits = from_end.times_plus::<FUSED>(at_end, bias);
                    if start.is_some() {
                        logits = from_start.times_plus::<FUSED>(at_start, &logits);
                    }
                    draw_units::<T, FUSED>(&logits, words, units);
                }
            });
        }
    }

    /// Weighs and moves the chains that are alive.
    fn finish(&self, stage: Stage<'_, RbmAt<'_, T>>, block: &mut Block<Vec<bool>>) -> Result<()> {
        for (i, (&chain, &log_ratio)) in self.chains.iter().zip(&self.log_ratios).enumerate() {
            if block.is_alive(chain) {
                let state = block.chain_mut(chain).0;
                vectorized!(self.engine, FUSED, self.visible.store(i, state));
                let log_ratio = if stage.is_at_rest() { 0.0 } else { log_ratio };
                let increment = Increment::new(log_ratio, Step::invariant());
                block.add(stage, chain, Ok(increment))?;
            }
        }
        Ok(())
    }
}
