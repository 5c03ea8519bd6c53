//! The memory of a block: log densities and gradients of its states at the ends of the path.
//!
//! A new stage changes beta, not the states. So a state's log densities at the ends of the path stay valid until the
//! chain moves, but its log density at beta does not. A method that lets its caller change a state forgets the values
//! known of the state, unless the caller gets these values too and updates both.
//!
//! Callers that leave the state as it is use `learned_mut`. Kernels without gradients use `ends_mut` and `run_mut`, which forget
//! the gradients. Kernels with gradients use `make_room`, and then `graded_mut`. `peek_mut` returns what one of these methods
//! has made room for.

use std::ops::Range;

use super::Stage;
use super::end_gradients::EndGradients;
use crate::path::{Ends, Intermediate};

/// Log densities of the states of a block at the ends of the path, or at one beta of a path that has no ends, and
/// gradients at the ends. Empty if nothing is known.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Known {
    /// Whether the chains stay on one path from call to call.
    pub(super) on_one_path: bool,
    ends: Vec<Ends>,
    /// Gradients: one entry for all chains if they move together, otherwise one for each chain.
    gradients: Vec<EndGradients>,
}

/// Values known of the state of one chain.
#[derive(Debug, Clone)]
pub(crate) struct KnownOfChain {
    ends: Ends,
    gradients: Option<EndGradients>,
}

impl Known {
    pub(super) fn of(&self, chain: usize) -> Ends {
        let kept = self.ends.get(chain).filter(|_| self.on_one_path);
        kept.copied().unwrap_or(Ends::UNKNOWN)
    }

    #[inline]
    pub(super) fn forget(&mut self, chain: usize) {
        if let Some(ends) = self.ends.get_mut(chain) {
            *ends = Ends::UNKNOWN;
        }
        self.forget_gradients(chain);
    }

    pub(super) fn forget_all(&mut self) {
        *self = Self {
            on_one_path: self.on_one_path,
            ..Self::default()
        };
    }

    pub(super) fn keeps_gradients(&self) -> bool {
        !self.gradients.is_empty()
    }

    /// Returns the values known of one chain, to be given to another.
    pub(super) fn memory(&self, chain: usize) -> KnownOfChain {
        let (entry, row) = self.place_of(chain);
        let gradients = self.gradients.get(entry);
        KnownOfChain {
            ends: self.of(chain),
            gradients: gradients.and_then(|gradients| gradients.row(row)),
        }
    }

    /// Replaces the known values of one of `chains` chains. Ignores the gradients in `memory` if the block stores none.
    pub(super) fn set_memory(&mut self, chain: usize, chains: usize, memory: KnownOfChain) {
        *self.ends_mut(chain, chains) = memory.ends;
        let (entry, row) = self.place_of(chain);
        if let (Some(gradients), Some(known)) = (self.gradients.get_mut(entry), memory.gradients) {
            gradients.set_row(row, known);
        }
    }

    /// Returns the known log densities at the ends for one of `chains` chains, whose state the caller does not change.
    #[inline]
    pub(super) fn learned_mut(&mut self, chain: usize, chains: usize) -> &mut Ends {
        if self.ends.len() != chains {
            self.ends.resize(chains, Ends::UNKNOWN);
        }
        if !self.on_one_path {
            self.forget(chain);
        }
        &mut self.ends[chain]
    }

    /// Returns the known log densities at the ends, for chains in `run` that have entries already.
    #[inline]
    pub(super) fn peek_mut(&mut self, run: Range<usize>) -> &mut [Ends] {
        &mut self.ends[run]
    }

    /// Returns the known log densities at the ends for one of `chains` chains, whose kernel keeps no gradients.
    #[inline]
    pub(super) fn ends_mut(&mut self, chain: usize, chains: usize) -> &mut Ends {
        self.forget_gradients(chain);
        self.learned_mut(chain, chains)
    }

    /// Returns the known log densities at the ends for the chains in `run`, whose kernel keeps no gradients.
    pub(super) fn run_mut(&mut self, run: Range<usize>, chains: usize) -> &mut [Ends] {
        self.ends.resize(chains, Ends::UNKNOWN);
        if !self.on_one_path {
            self.forget_all();
            self.ends.resize(chains, Ends::UNKNOWN);
        }
        if !self.gradients.is_empty() {
            run.clone().for_each(|chain| self.forget_gradients(chain));
        }
        &mut self.ends[run]
    }

    /// Makes room for log densities and gradients at the ends, for a kernel that moves the chains in `run` together.
    /// `run` is one chain, or all `chains` chains of the block.
    pub(super) fn make_room(&mut self, run: Range<usize>, chains: usize, dimension: usize) {
        let entries = chains / run.len();
        if self.gradients.len() != entries {
            self.gradients.clear();
            self.gradients.resize_with(entries, EndGradients::default);
        }
        self.ends.resize(chains, Ends::UNKNOWN);
        if !self.on_one_path {
            run.clone().for_each(|chain| self.forget(chain));
        }
        self.gradients[run.start].set_size(run.len(), dimension);
    }

    /// Returns the known log densities and gradients at the ends for the chains in `run`, for which there is
    /// [room](Self::make_room).
    #[inline]
    pub(super) fn graded_mut(&mut self, run: Range<usize>) -> (&mut [Ends], &mut EndGradients) {
        let gradients = &mut self.gradients[run.start];
        (&mut self.ends[run], gradients)
    }

    /// Returns the index of a chain's entry in `gradients`, and its row in the entry.
    #[inline]
    fn place_of(&self, chain: usize) -> (usize, usize) {
        match self.gradients.len() {
            1 => (0, chain),
            _ => (chain, 0),
        }
    }

    #[inline]
    fn forget_gradients(&mut self, chain: usize) {
        let (entry, row) = self.place_of(chain);
        if let Some(gradients) = self.gradients.get_mut(entry) {
            gradients.forget(row);
        }
    }

    /// Returns whether the sizes of the memory fit a block of `chains` chains. Used to check a file.
    #[cfg(feature = "checkpoint")]
    pub(super) fn fits(&self, chains: usize) -> bool {
        let (ends, entries) = (self.ends.len(), self.gradients.len());
        let is_sized = |len| len == 0 || len == chains;
        let each = if entries == 1 { chains } else { 1 };
        let fit = |gradients: &EndGradients| gradients.is_empty() || gradients.fits(each);
        is_sized(ends) && (entries == 1 || is_sized(entries)) && self.gradients.iter().all(fit)
    }
}

impl<M: Intermediate> Stage<'_, M> {
    /// Returns the stage's log ratio at a state, given the known log densities of the state; 0 if the stage is at rest.
    #[inline]
    pub(super) fn log_ratio_from(&self, state: &M::State, known: Ends) -> f64 {
        if self.is_at_rest() {
            return 0.0;
        }
        let (model, previous) = (self.model, self.previous);
        if M::HAS_ENDS && known.are_known() {
            return model.log_ratio_at(previous, known);
        }
        if M::HAS_ENDS {
            return model.log_ratio(previous, state);
        }
        let kept = |model: &M| known.of_beta(model.beta());
        match (kept(model), kept(previous)) {
            (None, None) => model.log_ratio(previous, state),
            (here, before) => {
                let here = here.unwrap_or_else(|| model.log_density(state));
                model.log_ratio_given(previous, state, here, before)
            }
        }
    }

    /// Returns the stage's log ratio at a state, and the state's log density under the model reached. Evaluates the
    /// needed log densities that are unknown, and stores them in `known`.
    #[inline]
    pub(super) fn weigh(&self, state: &M::State, known: &mut Ends) -> (f64, f64) {
        if !M::HAS_ENDS {
            return self.weigh_whole(state, known);
        }
        *known = self.model.ends(state, *known);
        let log_ratio = match known.are_known() {
            _ if self.is_at_rest() => 0.0,
            true => self.model.log_ratio_at(self.previous, *known),
            // The model reached leaves an end unknown that it does not need, but the model left may need it.
            false => self.model.log_ratio(self.previous, state),
        };
        (log_ratio, self.model.log_density_at(*known))
    }

    /// Does the work of [`weigh`](Self::weigh) on a path without ends.
    fn weigh_whole(&self, state: &M::State, known: &mut Ends) -> (f64, f64) {
        let kept = |beta| known.of_beta(beta);
        if self.is_at_rest() {
            let here = kept(self.beta).unwrap_or_else(|| self.model.log_density(state));
            *known = Ends::at_beta(here, self.beta);
            return (0.0, here);
        }
        let before = kept(self.previous.beta());
        let here = self.model.log_density(state);
        *known = Ends::at_beta(here, self.beta);
        let log_ratio = self
            .model
            .log_ratio_given(self.previous, state, here, before);
        (log_ratio, here)
    }

    /// Returns the log density of a new state. If the path has ends, also returns the state's log densities there.
    #[inline]
    pub(super) fn evaluate(&self, state: &M::State) -> (f64, Ends) {
        if M::HAS_ENDS {
            let ends = self.model.ends(state, Ends::UNKNOWN);
            return (self.model.log_density_at(ends), ends);
        }
        let here = self.model.log_density(state);
        (here, Ends::at_beta(here, self.beta))
    }

    /// Writes the log ratios and log densities of several states, as [`weigh`](Self::weigh) returns them for one state.
    /// Each call of the model evaluates several states.
    pub(super) fn weigh_batch(
        &self,
        states: &[M::State],
        known: &mut [Ends],
        log_ratios: &mut [f64],
        here: &mut [f64],
    ) {
        if !M::HAS_ENDS {
            return self.weigh_batch_whole(states, known, log_ratios, here);
        }
        if !known.iter().all(|known| known.are_known()) {
            // The output buffers hold the ends meanwhile.
            let (bases, targets) = (&mut *log_ratios, &mut *here);
            for ((base, target), known) in bases.iter_mut().zip(targets.iter_mut()).zip(&*known) {
                (*base, *target) = (known.base, known.target);
            }
            self.model.ends_of_batch(states, bases, targets);
            for ((base, target), known) in bases.iter().zip(targets.iter()).zip(&mut *known) {
                (known.base, known.target) = (*base, *target);
            }
        }
        let at_rest = self.is_at_rest();
        let places = log_ratios.iter_mut().zip(here).zip(states);
        for (((log_ratio, here), state), known) in places.zip(known) {
            *here = self.model.log_density_at(*known);
            *log_ratio = match known.are_known() {
                _ if at_rest => 0.0,
                true => self.model.log_ratio_at(self.previous, *known),
                false => self.model.log_ratio(self.previous, state),
            };
        }
    }

    /// Does the work of [`weigh_batch`](Self::weigh_batch) on a path without ends.
    fn weigh_batch_whole(
        &self,
        states: &[M::State],
        known: &mut [Ends],
        log_ratios: &mut [f64],
        here: &mut [f64],
    ) {
        let kept = |known: &Ends| known.of_beta(self.beta);
        match self.is_at_rest() && known.iter().all(|known| kept(known).is_some()) {
            true => {
                for (here, known) in here.iter_mut().zip(&*known) {
                    *here = known.base;
                }
            }
            false => self.model.log_densities(states, here),
        }
        self.weigh_given(states, known, here, log_ratios);
    }

    /// Writes the log ratios of several states on a path without ends, given the states' log densities `here` under the
    /// model reached.
    pub(super) fn weigh_given(
        &self,
        states: &[M::State],
        known: &mut [Ends],
        here: &[f64],
        log_ratios: &mut [f64],
    ) {
        let (model, previous, at_rest) = (self.model, self.previous, self.is_at_rest());
        let kept = |known: &Ends| known.of_beta(previous.beta());
        let together = !at_rest
            && model.evaluates_batches()
            && known.iter().any(|known| kept(known).is_none());
        // The loop below replaces these log densities by the log ratios.
        if together {
            previous.log_densities(states, log_ratios);
        }
        let places = log_ratios.iter_mut().zip(here).zip(states);
        for (((log_ratio, &here), state), known) in places.zip(known) {
            let before = kept(known).or(together.then_some(*log_ratio));
            *known = Ends::at_beta(here, self.beta);
            *log_ratio = match at_rest {
                true => 0.0,
                false => model.log_ratio_given(previous, state, here, before),
            };
        }
    }

    /// Writes to `there` the log densities of several new states under the model reached. If the path has ends, these
    /// come from the states' log densities at both ends, which are written to `bases` and `targets`.
    pub(super) fn evaluate_batch(
        &self,
        states: &[M::State],
        [bases, targets]: [&mut [f64]; 2],
        there: &mut [f64],
    ) {
        if M::HAS_ENDS {
            bases.fill(f64::NAN);
            targets.fill(f64::NAN);
            self.model.ends_of_batch(states, bases, targets);
            for (there, (base, target)) in there.iter_mut().zip(bases.iter().zip(targets.iter())) {
                let (base, target) = (*base, *target);
                *there = self.model.log_density_at(Ends { base, target });
            }
            return;
        }
        self.model.log_densities(states, there);
        // The layout of `Ends::at_beta`.
        bases.copy_from_slice(there);
        targets.fill(self.beta);
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DVector;
    use rand::{Rng, RngExt};

    use super::*;
    use crate::Result;
    use crate::kernel::metropolis::decide;
    use crate::kernel::{Block, Increment, NonFinite, Step, TransitionKernel};
    use crate::model::{FunctionModel, Gaussian, Sampleable};
    use crate::num::Moments;
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream, successive};

    /// A random walk in one dimension. If `wrong`, it stores a refused proposal's log densities as the state's.
    struct Walk {
        wrong: bool,
    }

    impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for Walk {
        type Workspace = ();

        fn step<R: Rng + ?Sized>(
            &self,
            _: Stage<'_, M>,
            _: &mut DVector<f64>,
            _: &mut (),
            _: &mut R,
        ) -> Result<Step, NonFinite> {
            unreachable!("blocks advance")
        }

        fn advance(
            &self,
            stage: Stage<'_, M>,
            block: &mut Block<DVector<f64>>,
            _: &mut (),
        ) -> Result<()> {
            block.each(stage, |block, chain| {
                let (state, known, rng) = block.known_mut(chain);
                let (log_ratio, here) = stage.weigh(state, known);
                let proposal = state.map(|x| x + 3.0 * (rng.random::<f64>() - 0.5));
                let (there, ends) = stage.evaluate(&proposal);
                let (accepted, step) = decide(here, there, rng);
                if accepted {
                    *state = proposal;
                }
                if accepted || self.wrong {
                    *known = ends;
                }
                Ok(Increment::new(log_ratio, step))
            })
        }
    }

    /// Returns the z-score of the mean weight against its exact value, and the standard error of the mean weight.
    fn check(wrong: bool) -> (f64, f64) {
        const CHAINS: usize = 20_000;
        let base = Gaussian::standard(1).unwrap();
        let target = FunctionModel::new(|x: &DVector<f64>| -2.0 * (x[0] - 1.0).powi(2));
        let path = GeometricPath::new(base, target);
        let streams = successive(stream(3, Purpose::TESTING, 0)).take(CHAINS);
        let mut rngs: Vec<_> = streams.collect();
        let states = rngs.iter_mut().map(|rng| path.base().sample(rng)).collect();
        let mut block = Block::new(0, states, rngs).on_one_path();
        let models: Vec<_> = (0..=8).map(|k| path.at(f64::from(k) / 8.0)).collect();
        for (k, pair) in models.windows(2).enumerate() {
            let stage = Stage::new(k + 1, &pair[0], &pair[1]);
            Walk { wrong }.advance(stage, &mut block, &mut ()).unwrap();
        }
        // The base integrates to sqrt(2 pi), the target to sqrt(pi / 2).
        let mut weights = Moments::default();
        let relative = block.log_weights().iter().map(|w| 2.0 * w.exp());
        relative.for_each(|weight| weights.add(weight));
        let error = (weights.variance() / CHAINS as f64).sqrt();
        ((weights.mean() - 1.0) / error, error)
    }

    #[test]
    fn the_memory_of_a_refused_proposal_is_found_out() {
        let ((right, error), (wrong, _)) = (check(false), check(true));
        assert!(right.abs() < 4.0 && error < 0.02, "{right} {error}");
        assert!(wrong.abs() > 8.0, "{wrong}");
    }
}
