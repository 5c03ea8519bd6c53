//! Block Gibbs sampling of RBMs.

use rand::Rng;

use crate::Result;
use crate::kernel::{
    Block, Increment, NonFinite, Stage, Step, TransitionKernel, advance_each, detailed_balance,
};
use crate::num::{Simd, vectorized};
use crate::path::Stationary;
use crate::random::{LANES, Lanes};
use crate::rbm::engine::{
    ActiveUnits, Categorical, CategoricalBuffers, GROUPS, Layer, Narrow, PanelRow, Positions,
    ProductBuffers, Row, WeightForm, WeightPanels, Wide, Words, dot, draw_units, total,
    weigh_and_draw,
};
use crate::rbm::segment_end::SegmentEnd;
use crate::rbm::{Rbm, RbmAt, RbmPath, Scalar};

/// Block Gibbs sampling of an RBM: draws all hidden units given the visible ones, then all visible units given the
/// hidden ones. It leaves the marginal of `v` invariant and is reversible.
///
/// On an [`RbmPath`](crate::rbm::RbmPath) a block of chains moves together, with random bits from the stream of its
/// first chain. In a stage that passes a knot of the path, chains move one by one, which is slow: make each knot a beta
/// of the schedule.
/// The best vector instructions are chosen at run time. They all give the same bits, except on a processor that has only
/// [`SimdLevel::Portable`](crate::path::SimdLevel::Portable).
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
/// let mut population = Population::start(&path, 0, 10, stream(7, Purpose::RUN, 0))?;
/// population.advance_to(&BlockGibbs, 0.1)?;
/// assert!(population.block().log_weights().iter().all(|w| w.is_finite()));
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockGibbs;

impl<T: Scalar> TransitionKernel<RbmAt<'_, T>> for BlockGibbs {
    type Workspace = Option<Buffers<T>>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, RbmAt<'_, T>>,
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
        let buffers = workspace.take().filter(|buffers| buffers.fit(path));
        let buffers = workspace.insert(buffers.unwrap_or_else(|| Buffers::new(path)));
        buffers.select(block.mask());
        let Some((states, lanes)) = block.lanes_mut() else {
            return Ok(());
        };
        let (ends, categorical) = (stage.model.segment(segment), path.categorical(segment));
        buffers.load(states);
        let t = (from, to);
        match &ends.1.up {
            WeightPanels::Exact(_) => buffers.weigh_and_draw_hidden::<Row<T>>(ends, t, lanes),
            WeightPanels::Wide(_) => buffers.weigh_and_draw_hidden::<Wide>(ends, t, lanes),
            WeightPanels::Narrow(_) => buffers.weigh_and_draw_hidden::<Narrow>(ends, t, lanes),
        }
        // `active` still holds the old visible units here, given which the component is drawn.
        if let Some(categorical) = categorical {
            let (engine, active) = (buffers.engine, &buffers.active);
            categorical.weigh_and_draw(engine, t, active, lanes, &mut buffers.components);
        }
        buffers.sum_log_ratios(ends.1, categorical, t);
        let reached = (stage.model, categorical, to);
        match &ends.1.down {
            WeightPanels::Exact(_) => buffers.draw_visible::<Row<T>>(reached, ends, lanes),
            WeightPanels::Wide(_) => buffers.draw_visible::<Wide>(reached, ends, lanes),
            WeightPanels::Narrow(_) => buffers.draw_visible::<Narrow>(reached, ends, lanes),
        }
        buffers.finish(stage, block)
    }
}

impl<T: Scalar> TransitionKernel<Stationary<&Rbm<T>>> for BlockGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, Stationary<&Rbm<T>>>,
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
    active: ActiveUnits,
    chains: Vec<usize>,
    visible: Layer,
    hidden: Layer,
    products: ProductBuffers<T>,
    increments: Vec<[T; LANES]>,
    /// Visible biases at the stage's end.
    visible_bias: Vec<Row<T>>,
    log_ratios: Vec<f64>,
    /// Component of the base for each chain, if the base is a mixture.
    components: CategoricalBuffers<T>,
}

impl<T: Scalar> Buffers<T> {
    fn new(path: &RbmPath<T>) -> Self {
        let target = path.target();
        Self {
            engine: path.engine,
            words: Words::default(),
            active: ActiveUnits::default(),
            chains: Vec::new(),
            visible: Layer::zeros(target.visible_units(), 0),
            hidden: Layer::zeros(target.hidden_units(), 0),
            products: ProductBuffers::default(),
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

    /// Gathers the chains whose entry in `mask` is true. It includes dead chains, so the random bits of a chain do not
    /// depend on the other chains.
    fn select(&mut self, mask: &[bool]) {
        self.chains.clear();
        self.chains
            .extend((0..mask.len()).filter(|&chain| mask[chain]));
        let count = self.chains.len();
        if self.log_ratios.len() != count {
            self.visible.set_chains(count);
            self.hidden.set_chains(count);
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

    /// Weighs the chains at the old `v`, then draws `h` at the new beta. `t` holds the positions of the stage's start
    /// and end in the segment.
    fn weigh_and_draw_hidden<R: WeightForm<T>>(
        &mut self,
        (start, end): Segment<'_, T>,
        t: (f64, f64),
        lanes: &mut Lanes,
    ) {
        let engine = self.engine;
        let t = Positions::new(t.0, t.1);
        let weights = (start.map(|start| &start.up), &end.up);
        let products = R::products(&mut self.products);
        self.increments.fill([T::zero(); LANES]);
        self.active.read(engine, &self.visible);
        for (panel, bias) in end.hidden_bias.iter().enumerate() {
            let (place, part) = (panel / R::PARTS, panel % R::PARTS);
            if part == 0 {
                products.find(engine, weights, place, &self.active);
            }
            let first = part * GROUPS;
            let products = products.start.iter().zip(&products.end);
            let drawn = self.hidden.panel_mut(panel).zip(&mut self.increments);
            let mut chains = products.zip(drawn);
            for count in Words::groups(self.chains.len()) {
                // In the zips below, words come first: when they end, no further chain is taken.
                let words = self.words.draw::<T>(engine, lanes, count);
                vectorized!(engine, FUSED, {
                    for (words, ((from, to), (units, sums))) in words.zip(&mut chains) {
                        let gain = scaled::<T, R, FUSED>(to, first, end.unit, bias);
                        match start {
                            None => {
                                let start = Row::zero();
                                weigh_and_draw::<T, FUSED>(&start, &gain, t, words, units, sums);
                            }
                            Some(knot) => {
                                let bias = &knot.hidden_bias[panel];
                                let start = scaled::<T, R, FUSED>(from, first, knot.unit, bias);
                                let gain = gain.minus(&start);
                                weigh_and_draw::<T, FUSED>(&start, &gain, t, words, units, sums);
                            }
                        }
                    }
                });
            }
        }
    }

    /// Sums each chain's log ratio: the increments of its hidden units, the terms of its visible biases and the log
    /// ratio of a mixture's components.
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

    /// Draws `v` given `h` at position `t` of the segment.
    fn draw_visible<R: WeightForm<T>>(
        &mut self,
        (model, categorical, t): (&RbmAt<'_, T>, Option<&Categorical<T>>, f64),
        (start, end): Segment<'_, T>,
        lanes: &mut Lanes,
    ) {
        let engine = self.engine;
        let weights = (start.map(|start| &start.down), &end.down);
        let products = R::products(&mut self.products);
        let bias = self.visible_bias.iter_mut();
        let bias = bias.flat_map(|row| row.0.as_flattened_mut());
        // Logits in units of ln 2, since visible units are drawn but not weighed: `exp2` saves a product.
        let nearest = |x: f64| T::nearest(std::f64::consts::LOG2_E * x);
        for (bias, value) in bias.zip(model.visible_biases()) {
            *bias = nearest(value);
        }
        let at_start = start.map(|start| nearest((1.0 - t) * start.unit.as_()));
        let at_end = nearest(t * end.unit.as_());
        self.active.read(engine, &self.hidden);
        for (panel, bias) in self.visible_bias.iter().enumerate() {
            let (place, part) = (panel / R::PARTS, panel % R::PARTS);
            if part == 0 {
                products.find(engine, weights, place, &self.active);
            }
            let tilted = categorical.map(|c| self.components.biases(engine, c, panel, bias, t));
            let first = part * GROUPS;
            let products = products.start.iter().zip(&products.end);
            let mut chains = products.zip(self.visible.panel_mut(panel)).enumerate();
            for count in Words::groups(self.chains.len()) {
                let words = self.words.draw::<T>(engine, lanes, count);
                vectorized!(engine, FUSED, {
                    for (words, (chain, ((from_start, from_end), units))) in words.zip(&mut chains)
                    {
                        let bias = match tilted {
                            None => bias,
                            Some((biases, chosen)) => &biases[chosen[chain] as usize],
                        };
                        let from_end = [from_end.group(first), from_end.group(first + 1)];
                        match at_start {
                            None => draw_units::<T, R, FUSED>(from_end, at_end, bias, words, units),
                            Some(at_start) => {
                                let terms =
                                    scaled::<T, R, FUSED>(from_start, first, at_start, bias);
                                draw_units::<T, R, FUSED>(from_end, at_end, &terms, words, units);
                            }
                        }
                    }
                });
            }
        }
    }

    /// Writes the new states of the chains that are alive, and adds their log ratios to the log weights.
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

/// Returns `factor * sum + term` for the outputs of one panel, whose groups of `sums` begin with group `first`.
#[inline(always)]
fn scaled<T: Scalar, R: PanelRow<Weight: Into<T>>, const FUSED: bool>(
    sums: &R,
    first: usize,
    factor: T,
    terms: &Row<T>,
) -> Row<T> {
    let mut row = Row::zero();
    for (group, (row, terms)) in row.0.iter_mut().zip(&terms.0).enumerate() {
        let sums = sums.group(first + group);
        for l in 0..LANES {
            let sum: T = sums[l].into();
            row[l] = sum.multiply_add::<FUSED>(factor, terms[l]);
        }
    }
    row
}
