//! Weights of a block's chains, from the log densities known of their states.

use std::ops::Range;

use super::{Block, Increment, NonFinite, Stage, Step};
use crate::Result;
use crate::num::log_mean_exp;
use crate::path::{Ends, Intermediate};

impl<S> Block<S> {
    /// Returns the stage's log ratio at a chain's state, from the log densities known of the state.
    pub(crate) fn log_ratio<M: Intermediate<State = S>>(
        &self,
        stage: Stage<'_, M>,
        chain: usize,
    ) -> f64 {
        stage.log_ratio_from(&self.states[chain], self.known.of(chain))
    }

    /// Evaluates the unknown log densities at the ends of the path that `model` needs, for the active chains. Returns
    /// whether any was unknown; `None` for a path without ends.
    ///
    /// # Errors
    /// If a log density is NaN or `+inf`. The error names chain, stage and beta.
    pub(crate) fn learn<M: Intermediate<State = S>>(
        &mut self,
        model: &M,
        (index, beta): (usize, f64),
    ) -> Result<Option<bool>> {
        if !M::HAS_ENDS {
            return Ok(None);
        }
        let chains = self.states.len();
        let mut learned = false;
        // At rest the stage evaluates log densities only. An error names the beta of the chains, not of `model`.
        let stage = Stage {
            beta,
            ..Stage::new(index, model, model)
        };
        for run in self.active_runs() {
            for chain in run.clone() {
                learned |= !self.known.learned_mut(chain, chains).are_known();
            }
            self.weigh_run(stage, run, |block, chain, _, here| {
                let checked = NonFinite::check_log_density("log density", here);
                checked.map_err(|fault| block.locate(fault, stage, chain))?;
                Ok(())
            })?;
        }
        Ok(Some(learned))
    }

    /// Weighs neighbouring chains together, and calls `weighed` with each chain, its log ratio and its log density.
    fn weigh_run<M: Intermediate<State = S>>(
        &mut self,
        stage: Stage<'_, M>,
        run: Range<usize>,
        mut weighed: impl FnMut(&mut Self, usize, f64, f64) -> Result<()>,
    ) -> Result<()> {
        let (states, ends) = (&self.states[run.clone()], self.known.peek_mut(run.clone()));
        let (mut log_ratios, mut here) = (vec![0.0; ends.len()], vec![0.0; ends.len()]);
        stage.weigh_batch(states, ends, &mut log_ratios, &mut here);
        for ((chain, log_ratio), here) in run.zip(log_ratios).zip(here) {
            weighed(self, chain, log_ratio, here)?;
        }
        Ok(())
    }

    /// Compares the known log densities of one state with a new evaluation at the chains' current model, for debug
    /// builds.
    ///
    /// # Panics
    /// If they differ. Then a kernel changed the state but not its known log densities, or the model gives one state
    /// two log densities.
    pub(crate) fn check_memory<M: Intermediate<State = S>>(&self, model: &M, index: usize) {
        let Some(chain) = index
            .checked_rem(self.len())
            .filter(|&chain| self.is_alive(chain))
        else {
            return;
        };
        let (state, known) = (&self.states[chain], self.known.of(chain));
        let same = |known: f64, found: f64| {
            let close = (known - found).abs() <= 1e-4 * (1.0 + found.abs());
            known.is_nan() || known == found || close
        };
        let right = match known.of_beta(model.beta()).filter(|_| !M::HAS_ENDS) {
            Some(known) => same(known, model.log_density(state)),
            None if !M::HAS_ENDS => true,
            None => {
                let found = model.ends(state, Ends::UNKNOWN);
                same(known.base, found.base)
                    && (found.target.is_nan() || same(known.target, found.target))
            }
        };
        assert!(
            right,
            "the log density kept for a state is not the model's: is a `log_density_change` wrong (see \
             `testing::change_error`), does the model change, or depend on more than the state?"
        );
    }

    /// Adds the path's log ratio to the log weights of the active chains, without a move.
    ///
    /// # Errors
    /// See [`add`](Self::add).
    pub fn weigh<M: Intermediate<State = S>>(&mut self, stage: Stage<'_, M>) -> Result<()> {
        if stage.model.evaluates_batches() {
            return self.weigh_together(stage);
        }
        self.each(stage, |block, chain| {
            let ends = block.known.learned_mut(chain, block.states.len());
            let state = &block.states[chain];
            let log_ratio = match M::HAS_ENDS {
                true => stage.weigh(state, ends).0,
                false => stage.log_ratio_from(state, *ends),
            };
            let log_ratio = NonFinite::check_log_density("log ratio", log_ratio)?;
            Ok(Increment::new(log_ratio, Step::unmoved()))
        })
    }

    fn weigh_together<M: Intermediate<State = S>>(&mut self, stage: Stage<'_, M>) -> Result<()> {
        let chains = self.states.len();
        for run in self.active_runs() {
            run.clone()
                .for_each(|chain| _ = self.known.learned_mut(chain, chains));
            self.weigh_run(stage, run, |block, chain, log_ratio, _| {
                let log_ratio = NonFinite::check_log_density("log ratio", log_ratio);
                let increment = log_ratio.map(|ratio| Increment::new(ratio, Step::unmoved()));
                block.add(stage, chain, increment)
            })?;
        }
        Ok(())
    }

    /// Sets all weights to their mean.
    pub(crate) fn level_weights(&mut self) {
        self.level_weights_to(log_mean_exp(&self.log_weights));
    }

    pub(crate) fn level_weights_to(&mut self, log_weight: f64) {
        self.log_weights.fill(log_weight);
    }
}
