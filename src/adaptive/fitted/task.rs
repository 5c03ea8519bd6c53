//! The work of a fit: a small first pass as a witness, searches for a base, and a first pass of all chains if they find none.

use std::ops::Range;
use std::time::Instant;

use rand::Rng;

use super::search::LIKELY_STEPS;
use super::target::TOGETHER;
use super::{Begun, FitEffort, Fitting, NotFitted, Refused, Witness};
use crate::adaptive::barrier::Barrier;
use crate::adaptive::round::Reached;
use crate::adaptive::rounds::{FEWEST_CHAINS, Rounds, RoundsCodec};
use crate::adaptive::rounds_run::Round;
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::random::{Purpose, StreamRng, stream};
use crate::work::{Halt, Job, Pulse, Single, Task};
use crate::{Error, Result};

/// Divisor of a budget, or of what the usual rounds take. The quotient is the most that searches for a base may take.
const DIVISOR: u64 = 4;
/// The same divisor of a small budget where an error is asked for: the round after the searches needs few draws.
const DIVISOR_FOR_ERROR: u64 = 2;
/// Number of draws in a step of a search for each chain of the first pass by which searches are checked.
const DRAWS_PER_CHAIN: usize = 3;
/// Least number of these chains, and the number of their moves at each stage.
const FEWEST_WITNESSES: usize = 8;
const MOVES_OF_WITNESS: usize = 2;
/// Number of steps that the searches of the first pair may take together, for the number of draws in a step, unless it is set.
const STEPS: u64 = 16;

/// Searches for a base. It is one block, so an interrupted search begins anew.
struct FitTask<'s, 'p, P: AnnealingPath, K> {
    rounds: &'s Rounds<'p, P, K>,
    fitting: &'s Fitting<'p, P::State>,
}

impl<'p, P, K> Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Searches for a base. Without one, the rounds go on from the path's own.
    pub(in crate::adaptive) fn after_fit(
        &self,
        fitting: &Fitting<'p, P::State>,
        codec: Option<RoundsCodec<P, K>>,
        job: &mut Job<'_>,
    ) -> Result<Reached<P::State, K>> {
        let task = FitTask {
            rounds: self,
            fitting,
        };
        let closed = job.run(&task, codec.map(|codec| codec.fit))?;
        let Single(begun) = closed.whole(self.most_chains())?;
        match begun {
            Begun::Fitted { base, share, round } => {
                let mut reached =
                    Reached::new(self.seed, self.most_chains(), round, self.kernel.clone());
                reached.fitted = Some(base);
                reached.draws = Some(self.draws_for(share));
                Ok(reached)
            }
            Begun::Refused {
                refused,
                spent,
                found,
                chains,
            } => {
                let mut reached = self.begun((found, spent), chains)?;
                reached.not_fitted = Some(refused);
                Ok(reached)
            }
        }
    }
}

impl<P, K> FitTask<'_, '_, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Makes a first pass, for rounds from the path's own base.
    fn unfitted(
        &self,
        refused: Refused,
        spent: u64,
        pulse: &mut Pulse<'_>,
    ) -> Result<Begun<K>, Halt> {
        let rounds = self.rounds;
        let pass = |chains| rounds.first_pass(chains, rounds.seed);
        let (first, smaller) = (pass(rounds.most_chains()), pass(FEWEST_CHAINS));
        let smaller = rounds.limit_of_pass().map(|most| (most, &smaller));
        let later = |stages| rounds.chain_steps(rounds.most_chains(), stages, spent);
        let arrived = first.within(smaller, &later, pulse)?;
        Ok(Begun::Refused {
            refused,
            spent: spent.saturating_add(arrived.in_vain),
            chains: arrived.states.len(),
            found: arrived.found,
        })
    }

    /// Makes a small first pass, or one of all chains where the few lie off the target's support. Returns the number of
    /// evaluations, too.
    fn witness(
        &self,
        effort: FitEffort,
        rng: &mut StreamRng,
        pulse: &mut Pulse<'_>,
    ) -> Result<(Witness<P::State>, u64), Halt> {
        let rounds = self.rounds;
        let moves = rounds.moves.unwrap_or(MOVES_OF_WITNESS);
        let of_searches = (2 * LIKELY_STEPS * effort.draws) as u64;
        let later = |_| effort.later.saturating_add(of_searches);
        let mut pass = |chains| {
            let pass = rounds.first_pass(chains, rng.next_u64()).moves(moves);
            pass.within(None, &later, pulse)
        };
        let few = (effort.draws / DRAWS_PER_CHAIN).max(FEWEST_WITNESSES);
        let (arrived, dead) = match pass(few) {
            Err(Halt::Failed(Error::AllWeightsZero { .. })) => (pass(rounds.most_chains())?, few),
            arrived => (arrived?, 0),
        };
        let witness = Witness {
            states: arrived.states,
            log_ratio: arrived.found.log_z - rounds.base_log_z,
        };
        Ok((witness, arrived.found.evaluations + dead as u64))
    }

    /// Returns the number of draws in a step, the evaluations that all searches may take, and those of the later round.
    fn effort(&self) -> FitEffort {
        let rounds = self.rounds;
        let (most, whole) = (
            rounds.most_chains(),
            rounds.budget.unwrap_or(rounds.usual()),
        );
        let allowance = match rounds.until_error {
            Some(_) => (whole / DIVISOR_FOR_ERROR).min(whole.max(rounds.usual()) / DIVISOR),
            None => whole / DIVISOR,
        };
        let chains = match rounds.chains {
            None => {
                usize::try_from(allowance / STEPS).map_or(most, |n| n.clamp(FEWEST_CHAINS, most))
            }
            Some(_) => most,
        };
        FitEffort {
            draws: (DRAWS_PER_CHAIN * chains).div_ceil(DRAWS_PER_CHAIN + 1),
            allowance,
            error: rounds.error(),
            later: rounds.draws_ahead(),
        }
    }
}

impl<P, K> Task for FitTask<'_, '_, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    type Output = Single<Begun<K>>;

    fn chains(&self, _block: usize) -> Range<usize> {
        0..self.rounds.most_chains()
    }

    fn run(&self, _block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt> {
        let start = Instant::now();
        let mut rng = stream(self.rounds.seed, Purpose::FITTED, 0);
        if !self.fitting.has_normalizer(&mut rng)? {
            let refused = Refused {
                reason: NotFitted::Normalizer,
                log_z: None,
            };
            return Ok(Single(self.unfitted(refused, 0, pulse)?));
        }
        let effort = self.effort();
        let (witness, of_witness) = self.witness(effort, &mut rng, pulse)?;
        let effort = FitEffort {
            allowance: effort.allowance.saturating_sub(of_witness),
            ..effort
        };
        let fitted = self.fitting.fit(effort, witness, &mut rng, pulse)?;
        let spent = of_witness + fitted.evaluations;
        let begun = match fitted.found {
            Err(refused) => self.unfitted(refused, spent, pulse)?,
            Ok((base, share)) => Begun::Fitted {
                base,
                share,
                round: Round {
                    stages: 1,
                    log_z: self.rounds.base_log_z + fitted.log_ratio,
                    standard_error: f64::INFINITY,
                    barrier: Barrier::unknown().global(),
                    evaluations: spent,
                    seconds: start.elapsed().as_secs_f64(),
                },
            },
        };
        Ok(Single(begun))
    }

    fn width(&self) -> usize {
        self.rounds.most_chains().div_ceil(TOGETHER)
    }
}
