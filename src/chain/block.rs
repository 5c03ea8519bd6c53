//! A block of chains: what a kernel's `advance` works on.

use crate::chain::{Increment, NonFinite, Stage, Step};
use crate::model::Sampleable;
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::{Error, Result};

/// Chains that pass the schedule together: states, random streams and log weights.
#[derive(Debug, Clone)]
pub struct Block<S> {
    first_chain: usize,
    states: Vec<S>,
    rngs: Vec<StreamRng>,
    log_weights: Vec<f64>,
    log_ratios: Vec<f64>,
    acceptance: f64,
    proposals: u64,
}

impl<S> Block<S> {
    /// Chains from `first_chain` on, of weight 1, each with its stream.
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
            log_weights: vec![0.0; chains],
            log_ratios: vec![0.0; chains],
            acceptance: 0.0,
            proposals: 0,
        }
    }

    /// Chains that start at exact samples of `base`, each from its own stream of the seed.
    pub(crate) fn from_base<B: Sampleable<State = S>>(
        base: &B,
        chains: usize,
        seed: u64,
        purpose: Purpose,
    ) -> Self {
        let streams = successive(stream(seed, purpose, 0));
        let mut rngs: Vec<StreamRng> = streams.take(chains).collect();
        let states = rngs.iter_mut().map(|rng| base.sample(rng)).collect();
        Self::new(0, states, rngs)
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

    pub(crate) fn into_states(self) -> Vec<S> {
        self.states
    }

    /// The log weights `log w_k`; `-inf` for a chain that fell off the support.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// `log f_k(x_{k-1}) - log f_{k-1}(x_{k-1})` of the last stage, for each chain that was
    /// alive before it.
    pub fn log_ratios(&self) -> &[f64] {
        &self.log_ratios
    }

    /// Acceptance probabilities summed over all accept-reject decisions so far, and their number.
    pub fn acceptance(&self) -> (f64, u64) {
        (self.acceptance, self.proposals)
    }

    /// Whether the chain still carries weight.
    pub fn is_alive(&self, chain: usize) -> bool {
        self.log_weights[chain] > f64::NEG_INFINITY
    }

    /// State and stream of one chain.
    pub fn chain_mut(&mut self, chain: usize) -> (&mut S, &mut StreamRng) {
        (&mut self.states[chain], &mut self.rngs[chain])
    }

    /// All states and streams, for a kernel that moves the block as a whole.
    pub fn chains_mut(&mut self) -> (&mut [S], &mut [StreamRng]) {
        (&mut self.states, &mut self.rngs)
    }

    /// Adds what a stage did to one chain.
    ///
    /// # Errors
    /// [`Error::NonFinite`](crate::Error::NonFinite) with chain, stage and beta, where the kernel met one or the
    /// increment is NaN or `+inf`.
    #[inline]
    pub fn add<M>(
        &mut self,
        stage: &Stage<M>,
        chain: usize,
        increment: Result<Increment, NonFinite>,
    ) -> Result<()> {
        let increment = increment.map_err(|error| self.locate(error, stage, chain))?;
        self.log_ratios[chain] = increment.log_ratio;
        self.weigh(stage, chain, increment.log_weight, increment.step)
    }

    /// Adds what one more step at the stage's model did to one chain.
    ///
    /// # Errors
    /// As [`add`](Self::add), of the step's correction.
    pub fn add_step<M>(
        &mut self,
        stage: &Stage<M>,
        chain: usize,
        step: Result<Step, NonFinite>,
    ) -> Result<()> {
        let step = step.map_err(|error| self.locate(error, stage, chain))?;
        self.weigh(stage, chain, step.correction, step)
    }

    #[inline]
    fn weigh<M>(
        &mut self,
        stage: &Stage<M>,
        chain: usize,
        log_weight: f64,
        step: Step,
    ) -> Result<()> {
        NonFinite::check_log_density("log weight increment", log_weight)
            .map_err(|error| self.locate(error, stage, chain))?;
        self.log_weights[chain] += log_weight;
        self.acceptance += step.acceptance;
        self.proposals += u64::from(step.proposals);
        Ok(())
    }

    #[cold]
    fn locate<M>(&self, error: NonFinite, stage: &Stage<M>, chain: usize) -> Error {
        error.at(self.first_chain + chain, stage.index, stage.beta)
    }
}
