//! The cooling of states to powers of the target.

use std::ops::Range;

use super::find_modes::Trails;
use super::mixture_path::{Cooled, HIGHEST_POWER};
use crate::Result;
use crate::adaptive::covariance::Shapes;
use crate::adaptive::round::LATER_BLOCK;
use crate::adaptive::tuner::{Tuner, Tuning};
use crate::kernel::TransitionKernel;
use crate::model::Sampleable;
use crate::path::AnnealingPath;
use crate::population::Populations;
use crate::random::StreamRng;
use crate::work::{Halt, Pulse, Single, Stepped, Task};

/// Number of powers of the target above 1. From one power to the next, the deviations of a mode shrink by 2% to 25%.
pub(super) const RUNGS: usize = 16;
/// Exponent that makes the first powers lie close together: the powers are `256^((i / 16)^1.7)`. The first one above 1
/// is 1.05. With an exponent of 1 it would be 1.41.
const RUNG_EXPONENT: f64 = 1.7;

/// Returns the beta of the power with the index `rung` on the path [`Cooled`].
fn place(rung: usize) -> f64 {
    (rung as f64 / RUNGS as f64).powf(RUNG_EXPONENT)
}

/// Chains that move at rising powers of the target, up to the highest.
pub(super) struct Cooling<'s, P, L, K>
where
    P: AnnealingPath,
    L: Sampleable<State = P::State>,
{
    pub(super) path: Cooled<P, L>,
    pub(super) kernel: &'s K,
    pub(super) tuner: Option<Tuner<K, P::State>>,
    pub(super) starts: &'s [P::State],
    pub(super) moves: usize,
    pub(super) stream: StreamRng,
}

impl<P, L, K> Task for Cooling<'_, P, L, K>
where
    P: AnnealingPath<State: Clone + Send + Sync> + Send + Sync,
    P::At: Send + Sync,
    L: Sampleable<State = P::State> + Send + Sync,
    K: TransitionKernel<super::MixtureAt<P, L>> + Clone + Send + Sync,
{
    type Output = Single<Trails<P::State>>;

    fn chains(&self, _block: usize) -> Range<usize> {
        0..self.starts.len()
    }

    fn cost(&self, _blocks: Range<usize>) -> u64 {
        (RUNGS * self.moves * self.starts.len()) as u64
    }

    /// Moves the chains at one power after another.
    fn run(&self, _block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt> {
        let all = 0..self.starts.len();
        let stream = self.stream.clone();
        let mut chains = Populations::start(self.path.clone(), all.clone(), LATER_BLOCK, stream)?;
        // The draws are thrown away: they only give the chains their streams.
        chains.replace_states(self.starts.to_vec());
        let mut tuning = match self.tuner {
            Some(tuner) => {
                let kernel = tuner.as_at_target(self.kernel, &Shapes::default())?;
                Some(Tuning::new(tuner, &kernel))
            }
            None => None,
        };
        let mut trails = Trails::new(self.starts.to_vec());
        for rung in 1..=RUNGS {
            let (last, place) = (place(rung - 1), place(rung));
            pulse.at((all.clone(), rung, place));
            chains.map(&|population| population.place_at(place))?;
            match &mut tuning {
                Some(tuning) => {
                    // Near a mode deviations fall with the square root of the power.
                    tuning.scale(HIGHEST_POWER.powf(0.5 * (last - place)));
                    tuning.shape(&mut chains)?;
                    tuning.moves(&mut chains, self.moves)?;
                }
                None => (0..self.moves).try_for_each(|_| chains.stay(self.kernel).map(drop))?,
            }
            let states = chains.blocks().flat_map(|block| block.states());
            trails.push(HIGHEST_POWER.powf(place), states.cloned().collect());
            pulse.pass(Stepped::of(self.moves * all.len(), rung == RUNGS))?;
        }
        Ok(Single(trails))
    }

    fn width(&self) -> usize {
        self.starts.len().div_ceil(LATER_BLOCK)
    }
}
