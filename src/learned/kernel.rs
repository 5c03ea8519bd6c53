//! Learned transitions as a kernel that moves a block of chains as one minibatch.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::Result;
use crate::kernel::{Block, Increment, NonFinite, Stage, Step, TransitionKernel};
use crate::learned::crossing::Crossing;
use crate::learned::flow::LearnedTransitions;
use crate::learned::network::set_shape;
use crate::learned::noise::Noise;
use crate::learned::transition::Transition;
use crate::path::Intermediate;

/// States, proposals, noise and densities of a block's chains, a column for each chain.
#[derive(Debug, Clone, Default)]
pub struct FlowBuffers {
    states: DMatrix<f64>,
    proposals: DMatrix<f64>,
    crossing: Crossing,
}

impl FlowBuffers {
    fn set_size(&mut self, transition: &Transition, size: usize) {
        set_shape(&mut self.states, transition.dimension(), size);
        set_shape(&mut self.proposals, transition.dimension(), size);
        set_shape(&mut self.crossing.noise, transition.noises(), size);
    }

    /// Checks the dimension of a chain's state, loads the state and draws its noise.
    fn load<R: Rng + ?Sized>(
        &mut self,
        column: usize,
        state: &DVector<f64>,
        (transition, law): (&Transition, Noise),
        rng: &mut R,
    ) -> Result<(), NonFinite> {
        if state.len() != self.states.nrows() {
            return Err(NonFinite::new(
                "dimension of the state",
                state.len() as f64,
                "that of the learned transitions",
            ));
        }
        self.states.set_column(column, state);
        let mut noise = self.crossing.noise.column_mut(column);
        transition.fill(noise.as_mut_slice(), law, rng);
        Ok(())
    }

    /// Moves a chain to its proposal z' and returns `log f(z') + log r - log q`, with the model f and the transition's
    /// densities r and q.
    fn unload<M: Intermediate<State = DVector<f64>>>(
        &self,
        column: usize,
        model: &M,
        state: &mut DVector<f64>,
        transition: &Transition,
        law: Noise,
    ) -> Result<f64, NonFinite> {
        state.copy_from(&self.proposals.column(column));
        if let Some(&value) = state.iter().find(|x| !x.is_finite()) {
            return Err(NonFinite::new(
                "proposal of a learned transition",
                value,
                "finite coordinates",
            ));
        }
        let arrival = model.log_density(state);
        let arrival = NonFinite::check_log_density("log density of the proposal", arrival)?;
        let (ends, crossing) = ([&self.states, &self.proposals], &self.crossing);
        Ok(arrival + crossing.log_backward_over_forward(transition, column, ends, law))
    }
}

impl LearnedTransitions {
    /// Returns the transition of stage `index`, counted from 1.
    ///
    /// # Errors
    /// A stage beyond the last transition.
    fn at_stage(&self, index: usize) -> Result<&Transition, NonFinite> {
        let transition = index.checked_sub(1).and_then(|t| self.transitions.get(t));
        transition.ok_or(NonFinite::new(
            "index of the stage",
            index as f64,
            "one of the learned transitions, which count from 1",
        ))
    }

    /// Moves a chain to its proposal. The increment of the log weight is computed as one sum: the sum of log ratio and
    /// correction would be `-inf + inf` if the support shrinks.
    fn complete<M: Intermediate<State = DVector<f64>>>(
        &self,
        stage: Stage<'_, M>,
        column: usize,
        state: &mut DVector<f64>,
        (transition, buffers): (&Transition, &FlowBuffers),
    ) -> Result<Increment, NonFinite> {
        // Both old densities come first, because `unload` overwrites the state.
        let log_ratio = NonFinite::check_log_density("log ratio", stage.log_ratio(state))?;
        let departure = stage.previous.log_density(state);
        let departure = NonFinite::check_log_density("log density", departure)?;
        let arrival = buffers.unload(column, stage.model, state, transition, self.noise)?;
        let log_weight = arrival - departure;
        Ok(Increment {
            log_ratio,
            log_weight,
            step: Step::corrected(log_weight - log_ratio),
        })
    }
}

impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for LearnedTransitions {
    type Workspace = FlowBuffers;

    /// Moves a chain by the transition of its stage. A chain outside the support of the stage's model has weight 0
    /// already, and is not moved.
    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut DVector<f64>,
        buffers: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let departure = stage.model.log_density(state);
        let departure = NonFinite::check_log_density("log density", departure)?;
        if departure == f64::NEG_INFINITY {
            return Ok(Step::corrected(0.0));
        }
        let transition = self.at_stage(stage.index)?;
        buffers.set_size(transition, 1);
        buffers.load(0, state, (transition, self.noise), rng)?;
        buffers
            .crossing
            .follow(transition, &buffers.states, &mut buffers.proposals);
        let arrival = buffers.unload(0, stage.model, state, transition, self.noise)?;
        Ok(Step::corrected(arrival - departure))
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        buffers: &mut Self::Workspace,
    ) -> Result<()> {
        let active: Vec<usize> = (0..block.len()).filter(|&i| block.is_active(i)).collect();
        if active.is_empty() {
            return Ok(());
        }
        let transition = match self.at_stage(stage.index) {
            Ok(transition) => transition,
            Err(fault) => return block.add(stage, active[0], Err(fault)),
        };
        buffers.set_size(transition, active.len());
        for (column, &chain) in active.iter().enumerate() {
            let (state, rng) = block.chain_mut(chain);
            if let Err(fault) = buffers.load(column, state, (transition, self.noise), rng) {
                return block.add(stage, chain, Err(fault));
            }
        }
        buffers
            .crossing
            .follow(transition, &buffers.states, &mut buffers.proposals);
        for (column, &chain) in active.iter().enumerate() {
            let (state, _) = block.chain_mut(chain);
            let increment = self.complete(stage, column, state, (transition, buffers));
            block.add(stage, chain, increment)?;
        }
        Ok(())
    }

    fn stages(&self) -> Option<usize> {
        Some(self.transitions.len())
    }
}
