//! A ring of five states with unequal densities, and a Metropolis walk on it that leaves each intermediate model invariant
//! and mixes badly on purpose: all expectations of a run are products of small matrices.

use annealed::kernel::{Invariant, NonFinite, Stage, Step, TransitionKernel};
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::Intermediate;
use rand::{Rng, RngExt};

pub const STATES: usize = 5;

/// A table of log densities.
#[derive(Debug, Clone)]
pub struct Table(pub [f64; STATES]);

impl UnnormalizedModel for Table {
    type State = usize;

    fn log_density(&self, state: &usize) -> f64 {
        self.0[*state]
    }
}

impl NormalizedModel for Table {
    fn log_normalizer(&self) -> f64 {
        self.0.iter().map(|l| l.exp()).sum::<f64>().ln()
    }
}

impl Sampleable for Table {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        let mut left = rng.random::<f64>() * self.log_normalizer().exp();
        for (state, l) in self.0.iter().enumerate() {
            left -= l.exp();
            if left < 0.0 {
                return state;
            }
        }
        STATES - 1
    }
}

/// Returns the model at beta = 0.
pub fn base() -> Table {
    Table([0.3, -0.2, 0.0, 0.5, -1.0])
}

/// Returns the model at beta = 1.
pub fn target() -> Table {
    Table([-1.5, 2.0, -3.0, 0.4, 1.1])
}

/// The ways in which a walk treats its model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Flavor {
    Right,
    /// Stays where it is in seven of ten accepted moves, so that what a resampling got wrong lasts.
    Lazy,
    /// Wrong on purpose: compares with the density at the previous beta, a stale cached blend.
    Stale,
}

/// A Metropolis walk that proposes a neighbour on the ring.
#[derive(Debug, Clone, Copy)]
pub struct Walk(pub Flavor);

impl<M: Intermediate<State = usize>> TransitionKernel<M> for Walk {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut usize,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let hop = if rng.random() { 1 } else { STATES - 1 };
        let proposal = (*state + hop) % STATES;
        let old = match self.0 {
            Flavor::Right | Flavor::Lazy => stage.model.log_density(state),
            Flavor::Stale => stage.previous.log_density(state),
        };
        let willing = if self.0 == Flavor::Lazy { 0.3 } else { 1.0 };
        let acceptance = willing * (stage.model.log_density(&proposal) - old).exp().min(1.0);
        if rng.random::<f64>() < acceptance {
            *state = proposal;
        }
        Ok(Step::metropolis(acceptance))
    }
}

/// Not true of a stale walk.
impl<M: Intermediate<State = usize>> Invariant<M> for Walk {}

/// Returns the log densities at beta on the geometric path.
pub fn log_blend(beta: f64) -> [f64; STATES] {
    std::array::from_fn(|x| (1.0 - beta) * base().0[x] + beta * target().0[x])
}

/// Returns log Z of the target over the base.
pub fn log_ratio() -> f64 {
    target().log_normalizer() - base().log_normalizer()
}
