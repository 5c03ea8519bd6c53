//! A block of chains, which pass the stages of a schedule together.

use std::mem::take;
use std::ops::Range;

use super::end_gradients::EndGradients;
use super::known::{Known, KnownOfChain};
use super::stage::{Decisions, Increment, NonFinite, Stage};
use crate::num::next_run;
use crate::path::{Ends, Intermediate};
#[cfg(feature = "checkpoint")]
use crate::random::is_stuck;
use crate::random::{Lanes, StreamRng};
use crate::{Error, Result};

/// Chains that pass the schedule together: states, random streams and log weights.
///
/// A chain is *active* if it takes part in the current move and still carries weight. Kernels touch only active chains.
#[derive(Debug, Clone)]
pub struct Block<S> {
    first_chain: usize,
    pub(super) states: Vec<S>,
    pub(super) rngs: Vec<StreamRng>,
    /// Random bits for kernels that move all chains at once; created on first use.
    pub(super) lanes: Option<Lanes>,
    pub(super) log_weights: Vec<f64>,
    previous_log_weights: Vec<f64>,
    log_ratios: Vec<f64>,
    missed: Vec<f64>,
    pub(super) decisions: Decisions,
    /// Expected number of accepted proposals of each chain in its last move.
    accepted: Vec<f64>,
    /// Whether each chain takes part in the current move.
    mask: Vec<bool>,
    /// Index of the chain that is being moved. A panic leaves it set, so that the error can name the chain.
    at_hand: Option<usize>,
    pub(super) known: Known,
}

impl<S> Block<S> {
    /// Creates chains of weight 1, one stream per state. `first_chain` is the first chain's index in the run.
    ///
    /// # Panics
    /// If the numbers of states and streams differ.
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
            accepted: vec![0.0; chains],
            mask: vec![true; chains],
            at_hand: None,
            known: Known::default(),
        }
    }

    /// Lets the block keep known log densities and gradients between calls. Its chains must stay on one path from now
    /// on.
    pub(crate) fn on_one_path(mut self) -> Self {
        self.known.on_one_path = true;
        self
    }

    /// Returns the number of chains.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns whether the block has no chains.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Returns the index of the block's first chain in its run.
    pub fn first_chain(&self) -> usize {
        self.first_chain
    }

    /// Returns the states.
    pub fn states(&self) -> &[S] {
        &self.states
    }

    /// Returns the log weights `log w_k` after the last stage k; `-inf` for a chain that fell off the support.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// Returns `log w_{k-1}`, the log weights before the last stage of a
    /// [`Population`](crate::population::Population).
    ///
    /// `(x_{k-1}, w_{k-1})` targets `p_{k-1}`. With the [`log_ratios`](Self::log_ratios),
    /// `(x_{k-1}, w_{k-1} f_k / f_{k-1})` targets `p_k`; this weight is `w_k` only if the kernel is invariant.
    pub fn previous_log_weights(&self) -> &[f64] {
        &self.previous_log_weights
    }

    /// Returns `log f_k(x_{k-1}) - log f_{k-1}(x_{k-1})` of the last stage for each chain; 0 if it had no weight.
    pub fn log_ratios(&self) -> &[f64] {
        &self.log_ratios
    }

    /// Returns the [missed](super::Step::missed) weight of each chain in the last stage.
    pub(crate) fn missed(&self) -> &[f64] {
        &self.missed
    }

    /// Returns a chain's log densities at the ends of the path, as far as `model` needs them; `None` for a path without
    /// ends.
    pub(crate) fn ends<M: Intermediate<State = S>>(&self, model: &M, chain: usize) -> Option<Ends> {
        M::HAS_ENDS.then(|| model.ends(&self.states[chain], self.known.of(chain)))
    }

    /// Returns whether the last kernel that moved the chains keeps gradients.
    pub(crate) fn keeps_gradients(&self) -> bool {
        self.known.keeps_gradients()
    }

    /// Returns the expected number of accepted proposals of each chain in its last move.
    pub(crate) fn accepted(&self) -> &[f64] {
        &self.accepted
    }

    /// Returns the counts of all accept-reject decisions so far.
    pub fn decisions(&self) -> Decisions {
        self.decisions
    }

    /// Returns whether the chain still carries weight.
    pub fn is_alive(&self, chain: usize) -> bool {
        self.log_weights[chain] > f64::NEG_INFINITY
    }

    /// Returns the indices of the chains that still carry weight.
    pub fn alive(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.len()).filter(|&chain| self.is_alive(chain))
    }

    /// Returns whether the chain takes part in the current move and still carries weight.
    pub fn is_active(&self, chain: usize) -> bool {
        // A weight of 0 stays 0, and a move from a state off the support would meet `-inf - -inf`.
        self.mask[chain] && self.is_alive(chain)
    }

    /// Returns the active chains, as ranges of neighbouring indices.
    pub(crate) fn active_runs(&self) -> Vec<Range<usize>> {
        let mut done = 0;
        let next = || {
            let run = next_run(done..self.len(), |chain| self.is_active(chain))?;
            done = run.end;
            Some(run)
        };
        std::iter::from_fn(next).collect()
    }

    pub(crate) fn mask(&self) -> &[bool] {
        &self.mask
    }

    /// Returns the state and stream of one chain, and forgets the log densities known of the state.
    pub fn chain_mut(&mut self, chain: usize) -> (&mut S, &mut StreamRng) {
        self.known.forget(chain);
        (&mut self.states[chain], &mut self.rngs[chain])
    }

    /// Returns the stream of one chain.
    pub fn rng_mut(&mut self, chain: usize) -> &mut StreamRng {
        &mut self.rngs[chain]
    }

    /// Returns the state, known log densities and stream of one chain. The caller updates the log densities with the
    /// state.
    #[inline]
    pub(super) fn known_mut(&mut self, chain: usize) -> (&mut S, &mut Ends, &mut StreamRng) {
        let ends = self.known.ends_mut(chain, self.states.len());
        (&mut self.states[chain], ends, &mut self.rngs[chain])
    }

    /// Returns the states and known log densities of the chains in `run`. Call [`run_mut`](Self::run_mut) before: it
    /// makes room for the log densities.
    #[inline]
    pub(super) fn peek_mut(&mut self, run: Range<usize>) -> (&mut [S], &mut [Ends]) {
        (&mut self.states[run.clone()], self.known.peek_mut(run))
    }

    /// Returns the log densities and gradients known of a chain's state, to be given to a copy of the chain.
    pub(crate) fn memory(&self, chain: usize) -> KnownOfChain {
        self.known.memory(chain)
    }

    /// Sets the log densities and gradients known of a chain's state.
    pub(crate) fn set_memory(&mut self, chain: usize, memory: KnownOfChain) {
        self.known.set_memory(chain, self.states.len(), memory);
    }

    /// Returns states, known log densities and streams of the neighbouring chains in `run`. The caller updates the log
    /// densities with the states.
    pub(super) fn run_mut(&mut self, run: Range<usize>) -> (&[S], &mut [Ends], &mut [StreamRng]) {
        let ends = self.known.run_mut(run.clone(), self.states.len());
        (&self.states[run.clone()], ends, &mut self.rngs[run])
    }

    /// Returns the states of the chains in `run`, one chain or all, with the known log densities and gradients. The
    /// caller updates the known values with the states.
    pub(super) fn graded_mut(&mut self, run: Range<usize>, dimension: usize) -> Graded<'_, S> {
        let chains = self.states.len();
        self.known.make_room(run.clone(), chains, dimension);
        self.peek_graded_mut(run)
    }

    /// Returns what [`graded_mut`](Self::graded_mut) returned for the same chains.
    #[inline]
    pub(super) fn peek_graded_mut(&mut self, run: Range<usize>) -> Graded<'_, S> {
        let (ends, gradients) = self.known.graded_mut(run.clone());
        Graded {
            states: &mut self.states[run],
            ends,
            gradients,
        }
    }

    /// Returns the states and the block's random bits, which the first chain's stream seeds on first use. Returns
    /// `None` if the block has no chains.
    pub(crate) fn lanes_mut(&mut self) -> Option<(&mut [S], &mut Lanes)> {
        self.known.forget_all();
        let first = self.rngs.first_mut()?;
        let lanes = self.lanes.get_or_insert_with(|| Lanes::from_rng(first));
        Some((&mut self.states, lanes))
    }

    /// Runs `work` with fewer active chains: an active chain stays active only if its entry in `keep` is true.
    ///
    /// # Errors
    /// The errors of `work`. The mask is restored in any case.
    ///
    /// # Panics
    /// If `keep` does not have one entry per chain.
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

    /// Moves the active chains one after another, and adds each increment to the chain's log weight.
    ///
    /// # Errors
    /// See [`add`](Self::add).
    #[inline]
    pub fn for_each<M: Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        mut advance: impl FnMut(usize, &mut S, &mut StreamRng) -> Result<Increment, NonFinite>,
    ) -> Result<()> {
        self.each(stage, |block, chain| {
            let (state, rng) = block.chain_mut(chain);
            advance(chain, state, rng)
        })
    }

    /// Moves the active chains as [`for_each`](Self::for_each) does, but gives `advance` the block and a chain's index.
    #[inline]
    pub(super) fn each<M: Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        mut advance: impl FnMut(&mut Self, usize) -> Result<Increment, NonFinite>,
    ) -> Result<()> {
        self.one_by_one(|block, chain| {
            let increment = advance(block, chain);
            block.add(stage, chain, increment)
        })
    }

    /// Calls `work` for each active chain. Meanwhile `at_hand` is the chain's index.
    #[inline]
    pub(super) fn one_by_one(
        &mut self,
        mut work: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        for chain in 0..self.len() {
            if self.is_active(chain) {
                self.at_hand = Some(chain);
                work(self, chain)?;
            }
        }
        self.at_hand = None;
        Ok(())
    }

    /// Adds the increment of a stage to the log weight of one chain, and counts the decisions in it. If the stage is
    /// [at rest](Stage::is_at_rest), the chain's entry in [`log_ratios`](Self::log_ratios) stays.
    ///
    /// # Errors
    /// [`Error::NonFinite`](crate::Error::NonFinite) with chain, stage and beta, if `increment` is an error, NaN or
    /// `+inf`; [`Error::Model`](crate::Error::Model) if the model has
    /// [failed](crate::model::UnnormalizedModel::failure).
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
        // Surveys and the thermodynamic integral read the ratio of the stage's first kernel. A 0 would overwrite it.
        if !stage.is_at_rest() {
            self.log_ratios[chain] = increment.log_ratio;
        }
        self.log_weights[chain] += increment.log_weight;
        if increment.step.missed > 0.0 {
            self.missed[chain] += increment.step.missed;
        }
        self.accepted[chain] = increment.step.decisions.accepted;
        self.decisions += increment.step.decisions;
        Ok(())
    }

    #[cold]
    pub(super) fn locate<M: Intermediate>(
        &self,
        error: NonFinite,
        stage: Stage<'_, M>,
        chain: usize,
    ) -> Error {
        let place = (self.first_chain + chain, stage.index, stage.beta);
        error.of_model(stage.model, place, self.chains_at_hand())
    }

    /// Returns the index of the chain that is being moved, or all indices of the block if its chains move together.
    pub(crate) fn chains_at_hand(&self) -> Range<usize> {
        let chains = self.at_hand.map_or(0..self.len(), |chain| chain..chain + 1);
        self.first_chain + chains.start..self.first_chain + chains.end
    }

    /// Saves the log weights before a stage, and clears the log ratios and missed weights of the stage before.
    pub(crate) fn begin_stage(&mut self) {
        self.previous_log_weights.copy_from_slice(&self.log_weights);
        self.log_ratios.fill(0.0);
        self.missed.fill(0.0);
    }

    /// Replaces the states and sets the weights to 1. The streams stay.
    pub(crate) fn replace_states(&mut self, states: Vec<S>) {
        assert_eq!(states.len(), self.len(), "a state for each chain");
        self.states = states;
        self.known.forget_all();
        self.log_weights.fill(0.0);
    }

    /// Forgets the log densities and gradients known of all states.
    pub(crate) fn forget_known(&mut self) {
        self.known.forget_all();
    }

    pub(crate) fn take_states_and_log_weights(&mut self) -> (Vec<S>, Vec<f64>) {
        self.known.forget_all();
        (take(&mut self.states), take(&mut self.log_weights))
    }
}

/// Chains of a block that move together, with log densities and gradients known of their states.
pub(super) struct Graded<'b, S> {
    pub(super) states: &'b mut [S],
    pub(super) ends: &'b mut [Ends],
    pub(super) gradients: &'b mut EndGradients,
}

/// The parts of a block that are saved between two stages: states, streams, lanes, log weights, decisions, and what is
/// known of the states.
#[cfg(feature = "checkpoint")]
pub(crate) type SavedBlock<S> = (
    Vec<S>,
    Vec<StreamRng>,
    Option<Lanes>,
    Vec<f64>,
    Decisions,
    SavedKnown,
);

/// Values known of the states of a saved block.
#[cfg(feature = "checkpoint")]
#[derive(Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedKnown(Known);

#[cfg(feature = "checkpoint")]
impl<S> Block<S> {
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
            &self.known,
        )
    }

    /// Restores a saved block whose chains have the indices `chains` in the run. Refuses sizes and numbers
    /// that only a damaged file can contain.
    pub(crate) fn restored(chains: &Range<usize>, saved: SavedBlock<S>) -> Result<Self> {
        let (states, rngs, lanes, log_weights, decisions, SavedKnown(known)) = saved;
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
        let expected = "that of as many chains";
        Error::check(
            known.fits(chains.len()),
            "memory of the states",
            "another",
            expected,
        )?;
        Ok(Self {
            lanes,
            log_weights,
            decisions,
            known,
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
            encode("memory", &SavedKnown::default())?,
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
        assert!((0..100).all(|index| !is_stuck(&stream(0, Purpose::TESTING, index))));
    }
}
