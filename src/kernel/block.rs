//! A block of chains, which pass the stages of a schedule together.

use std::mem::take;
use std::ops::Range;

use super::stage::{Decisions, Increment, NonFinite, Stage, Step};
use crate::num::{log_mean_exp, next_run};
use crate::path::Intermediate;
#[cfg(feature = "checkpoint")]
use crate::random::is_stuck;
use crate::random::{Lanes, StreamRng};
use crate::{Error, Result};

/// Chains that pass the schedule together: states, random streams and log weights.
///
/// A chain is *active* if it takes part in the move at hand and still carries weight. Kernels move
/// and weigh the active chains and leave the others as they are.
#[derive(Debug, Clone)]
pub struct Block<S> {
    first_chain: usize,
    pub(super) states: Vec<S>,
    pub(super) rngs: Vec<StreamRng>,
    /// Random bits for kernels that move all chains at once; made on first use.
    pub(super) lanes: Option<Lanes>,
    pub(super) log_weights: Vec<f64>,
    /// The log weights before the last stage.
    previous_log_weights: Vec<f64>,
    log_ratios: Vec<f64>,
    missed: Vec<f64>,
    pub(super) decisions: Decisions,
    /// Which chains take part in the move at hand.
    mask: Vec<bool>,
    /// The chain that is being moved, which a panic leaves here.
    at_hand: Option<usize>,
}

impl<S> Block<S> {
    /// Chains of weight 1, each with its stream. `first_chain` is the index of the first one in its run.
    ///
    /// # Panics
    /// Where there are not as many streams as states.
    pub fn new(first_chain: usize, states: Vec<S>, rngs: Vec<StreamRng>) -> Self {
        assert_eq!(states.len(), rngs.len(), "a stream for each chain");
        let chains = states.len();
        Self {
            first_chain,
            states,
            rngs,
            lanes: None,
            log_weights: vec![0.0; chains],
            previous_log_weights: vec![0.0; chains],
            log_ratios: vec![0.0; chains],
            missed: vec![0.0; chains],
            decisions: Decisions::default(),
            mask: vec![true; chains],
            at_hand: None,
        }
    }

    /// Number of chains.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there is no chain.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Index in the run of the block's first chain.
    pub fn first_chain(&self) -> usize {
        self.first_chain
    }

    /// The states.
    pub fn states(&self) -> &[S] {
        &self.states
    }

    /// The log weights `log w_k`; `-inf` for a chain that fell off the support.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// `log w_{k-1}`, the log weights before the last stage of a
    /// [`Population`](crate::population::Population).
    ///
    /// With [`log_ratios`](Self::log_ratios) they weigh the states that the stage moved on:
    /// `(x_{k-1}, w_{k-1})` targets `p_{k-1}`, and `(x_{k-1}, w_{k-1} f_k / f_{k-1})` targets `p_k`.
    /// The latter weight is `w_k` for an invariant kernel only: a correction belongs to the state
    /// reached, `(x_k, w_k)`.
    pub fn previous_log_weights(&self) -> &[f64] {
        &self.previous_log_weights
    }

    /// `log f_k(x_{k-1}) - log f_{k-1}(x_{k-1})` of the last stage, for each chain that was alive
    /// before it; 0 for the others.
    pub fn log_ratios(&self) -> &[f64] {
        &self.log_ratios
    }

    /// For each chain what the moves of the last stage [missed](super::Step::missed).
    pub(crate) fn missed(&self) -> &[f64] {
        &self.missed
    }

    /// All accept-reject decisions so far.
    pub fn decisions(&self) -> Decisions {
        self.decisions
    }

    /// Whether the chain still carries weight.
    pub fn is_alive(&self, chain: usize) -> bool {
        self.log_weights[chain] > f64::NEG_INFINITY
    }

    /// The indices of the chains that still carry weight.
    pub fn alive(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.len()).filter(|&chain| self.is_alive(chain))
    }

    /// Whether the chain is to be moved: it takes part, and it still carries weight.
    pub fn is_active(&self, chain: usize) -> bool {
        self.mask[chain] && self.is_alive(chain)
    }

    /// The next active chains that are neighbours, from this index on; `None` where there are no more.
    pub(crate) fn active_run(&self, from: usize) -> Option<Range<usize>> {
        next_run(from..self.len(), |chain| self.is_active(chain))
    }

    /// For each chain whether it takes part in the move at hand, alive or not.
    pub(crate) fn mask(&self) -> &[bool] {
        &self.mask
    }

    /// State and stream of one chain.
    pub fn chain_mut(&mut self, chain: usize) -> (&mut S, &mut StreamRng) {
        (&mut self.states[chain], &mut self.rngs[chain])
    }

    /// All states and streams, for a kernel that moves the block as a whole.
    pub fn chains_mut(&mut self) -> (&mut [S], &mut [StreamRng]) {
        (&mut self.states, &mut self.rngs)
    }

    /// All states, and the block's own random bits: generators seeded, on first use, by the stream
    /// of its first chain. `None` where there are no chains.
    pub(crate) fn lanes_mut(&mut self) -> Option<(&mut [S], &mut Lanes)> {
        let first = self.rngs.first_mut()?;
        let lanes = self.lanes.get_or_insert_with(|| Lanes::from_rng(first));
        Some((&mut self.states, lanes))
    }

    /// Lets `work` see only those chains that take part already and for which `keep` is true.
    ///
    /// # Errors
    /// Those of `work`. The other chains take part again whatever it returned.
    ///
    /// # Panics
    /// Where `keep` does not have an entry for each chain.
    pub fn masked(
        &mut self,
        keep: &mut Vec<bool>,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        assert_eq!(keep.len(), self.len(), "an entry for each chain");
        for (keep, taking_part) in keep.iter_mut().zip(&self.mask) {
            *keep &= taking_part;
        }
        std::mem::swap(keep, &mut self.mask);
        let result = work(self);
        std::mem::swap(keep, &mut self.mask);
        result
    }

    /// Moves the active chains one after another, and adds each one's increment to its log weight.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    #[inline]
    pub fn for_each<M: Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        mut advance: impl FnMut(usize, &mut S, &mut StreamRng) -> Result<Increment, NonFinite>,
    ) -> Result<()> {
        for chain in 0..self.len() {
            if self.is_active(chain) {
                self.at_hand = Some(chain);
                let (state, rng) = self.chain_mut(chain);
                let increment = advance(chain, state, rng);
                self.add(stage, chain, increment)?;
            }
        }
        self.at_hand = None;
        Ok(())
    }

    /// Weighs the active chains by the path's log ratio and does not move them.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn weigh<M: Intermediate<State = S>>(&mut self, stage: Stage<'_, M>) -> Result<()> {
        self.for_each(stage, |_, state, _| {
            let log_ratio = NonFinite::check_log_density("log ratio", stage.log_ratio(state))?;
            Ok(Increment::new(log_ratio, Step::unmoved()))
        })
    }

    /// Adds the increment of a stage to the log weight of one chain, and counts its decisions. At
    /// [rest](Stage::is_at_rest) the log ratio of the last stage is kept.
    ///
    /// # Errors
    /// [`Error::NonFinite`](crate::Error::NonFinite) with chain, stage and beta, where the kernel met one or the
    /// increment is NaN or `+inf`.
    #[inline]
    pub fn add<M: Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        chain: usize,
        increment: Result<Increment, NonFinite>,
    ) -> Result<()> {
        let checked = increment.and_then(|increment| {
            NonFinite::check_log_density("log weight increment", increment.log_weight)?;
            Ok(increment)
        });
        let increment = checked.map_err(|error| self.locate(error, stage, chain))?;
        if !stage.is_at_rest() {
            self.log_ratios[chain] = increment.log_ratio;
        }
        self.log_weights[chain] += increment.log_weight;
        if increment.step.missed > 0.0 {
            self.missed[chain] += increment.step.missed;
        }
        self.decisions += increment.step.decisions;
        Ok(())
    }

    #[cold]
    fn locate<M>(&self, error: NonFinite, stage: Stage<'_, M>, chain: usize) -> Error {
        error.at(self.first_chain + chain, stage.index, stage.beta)
    }

    /// Indices in the run of the chain that is being moved, or of all where none is moved by itself.
    pub(crate) fn chains_at_hand(&self) -> Range<usize> {
        let chains = self.at_hand.map_or(0..self.len(), |chain| chain..chain + 1);
        self.first_chain + chains.start..self.first_chain + chains.end
    }

    /// Keeps the log weights before a stage, and forgets the log ratios of the one before.
    pub(crate) fn begin_stage(&mut self) {
        self.previous_log_weights.copy_from_slice(&self.log_weights);
        self.log_ratios.fill(0.0);
        self.missed.fill(0.0);
    }

    /// Gives all chains their mean weight.
    pub(crate) fn level_weights(&mut self) {
        self.level_weights_to(log_mean_exp(&self.log_weights));
    }

    /// Gives all chains this log weight.
    pub(crate) fn level_weights_to(&mut self, log_weight: f64) {
        self.log_weights.fill(log_weight);
    }

    /// Gives the chains other states and the weight 1. The streams are kept.
    pub(crate) fn replace_states(&mut self, states: Vec<S>) {
        assert_eq!(states.len(), self.len(), "a state for each chain");
        self.states = states;
        self.log_weights.fill(0.0);
    }

    /// Takes states and log weights out, of a block that is done.
    pub(crate) fn take_states_and_log_weights(&mut self) -> (Vec<S>, Vec<f64>) {
        (take(&mut self.states), take(&mut self.log_weights))
    }

    /// A copy on which to try a move: the active chains have the weight 1 in it, and the others are dead.
    pub(crate) fn trial(&self) -> Self
    where
        S: Clone,
    {
        let mut trial = self.clone();
        for (chain, log_weight) in trial.log_weights.iter_mut().enumerate() {
            let active = self.is_active(chain);
            *log_weight = if active { 0.0 } else { f64::NEG_INFINITY };
        }
        trial
    }

    /// Takes over the random streams of a [trial](Self::trial), which has drawn from them.
    pub(crate) fn take_streams(&mut self, trial: &mut Self) {
        std::mem::swap(&mut self.rngs, &mut trial.rngs);
        std::mem::swap(&mut self.lanes, &mut trial.lanes);
    }
}

/// The parts of a block between two stages. Log ratios, the log weights before the last stage and what its moves missed
/// belong to that stage alone, and are not kept.
#[cfg(feature = "checkpoint")]
pub(crate) type SavedBlock<S> = (Vec<S>, Vec<StreamRng>, Option<Lanes>, Vec<f64>, Decisions);

#[cfg(feature = "checkpoint")]
impl<S> Block<S> {
    /// Returns the block in the form of a [`SavedBlock`].
    pub(crate) fn saved(&self) -> impl serde::Serialize
    where
        S: serde::Serialize,
    {
        (
            &self.states,
            &self.rngs,
            &self.lanes,
            &self.log_weights,
            &self.decisions,
        )
    }

    /// Returns the saved block of so many chains.
    ///
    /// # Errors
    /// Another number of chains; streams that stand still; a weight that is no number.
    pub(crate) fn restored(chains: &Range<usize>, saved: SavedBlock<S>) -> Result<Self> {
        let (states, rngs, lanes, log_weights, decisions) = saved;
        Error::check_dimension("states", states.len(), chains.len())?;
        Error::check_dimension("random streams", rngs.len(), chains.len())?;
        Error::check_dimension("log weights", log_weights.len(), chains.len())?;
        if let Some(chain) = rngs.iter().position(is_stuck) {
            let found = format!("zeros for chain {chain}");
            return Err(Error::invalid(
                "random streams",
                found,
                "bits that are not all 0",
            ));
        }
        let weights = log_weights.iter().copied().enumerate();
        let below = |x| x < f64::INFINITY;
        Error::check_each("log weights", "chain", weights, below, "numbers below +inf")?;
        Ok(Self {
            lanes,
            log_weights,
            decisions,
            ..Self::new(chains.start, states, rngs)
        })
    }
}

#[cfg(all(test, feature = "checkpoint"))]
mod tests {
    use super::*;
    use crate::random::{LANES, Purpose, stream};
    use crate::work::store::{decode, encode};

    type Bits = [[u32; LANES]; 4];

    fn restored(stream_bits: [u64; 4], lane_bits: Option<Bits>) -> Result<Block<f64>> {
        let parts = (vec![1.5], vec![stream_bits], lane_bits, vec![-2.5]);
        let bytes = [
            encode("block", &parts)?,
            encode("decisions", &Decisions::default())?,
        ];
        Block::restored(&(3..4), decode("block", &bytes.concat())?)
    }

    #[test]
    fn generators_that_stand_still_are_refused() {
        let (mut one, mut all) = ([[0; LANES]; 4], [[0; LANES]; 4]);
        one[2][LANES - 1] = 1;
        all[1].fill(1);
        let block = restored([0, 0, 1, 0], Some(all)).unwrap();
        assert_eq!(block.states(), [1.5]);
        assert_eq!(block.log_weights(), [-2.5]);
        assert_eq!(block.first_chain(), 3);
        let message = restored([0; 4], None).unwrap_err().to_string();
        assert!(message.contains("zeros for chain 0"), "{message}");
        let message = restored([1; 4], Some(one)).unwrap_err().to_string();
        assert!(message.contains("block"), "{message}");
    }

    #[test]
    fn no_stream_stands_still() {
        assert!((0..100).all(|index| !is_stuck(&stream(0, Purpose::Testing, index))));
    }
}
