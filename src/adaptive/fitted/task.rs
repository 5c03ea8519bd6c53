//! The work of a fit: two first passes, and what follows if the fits to them disagree.

use std::ops::Range;
use std::time::Instant;

use rand::Rng;

use super::adapted::{DRAWS, MOST_STEPS, TOGETHER};
use super::check::{MORE_DRAWS, MOST_PASSES};
use super::{Begun, Fitting, Found, NotFitted, PassStates, Refused};
use crate::Result;
use crate::adaptive::barrier::Barrier;
use crate::adaptive::covariance::Shapes;
use crate::adaptive::first_pass::{FIRST_BLOCK, FirstPass, FirstPassRun};
use crate::adaptive::first_pass_task::FirstPassAtWork;
use crate::adaptive::round::{FEWEST_STAGES, Reached};
use crate::adaptive::rounds::{FEWEST_CHAINS, Rounds, RoundsCodec};
use crate::adaptive::rounds_run::divisor_before_last;
use crate::kernel::TransitionKernel;
use crate::num::log_mean_exp;
use crate::path::AnnealingPath;
use crate::random::{Purpose, StreamRng, stream};
use crate::work::{Halt, Job, Pulse, Single, Task};

/// Number of pairs of first passes. Each pair has twice the chains and moves of the one before.
const MOST_PAIRS: u32 = MOST_PASSES as u32 / 2;
/// Number of moves at the target after which a fit that failed is tried again with the same chains.
const FURTHER_MOVES: usize = 30;
/// Effective share of the draws of a fitted base below which a round from it has stages: a stage costs as much as a draw.
const LEAST_SHARE: f64 = 0.05;
/// Number of times that a fit draws from its base, for which progress is forecast.
const LIKELY_STEPS: usize = 2;
/// Number of moves at the target of states on the way that a base hardly covers.
const SETTLING_MOVES: usize = 30;

/// Two first passes that share nothing, and a fit to their states. It is one block, so an interrupted fit begins anew.
struct FitTask<'s, 'p, P: AnnealingPath, K> {
    rounds: &'s Rounds<'p, P, K>,
    fitting: &'s Fitting<'p, P::State, K>,
}

impl<'p, P, K> Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Makes first passes and fits a base. Without a base the rounds go on from the path's own.
    pub(in crate::adaptive) fn after_fit(
        &self,
        fitting: &Fitting<'p, P::State, K>,
        codec: Option<RoundsCodec<P, K>>,
        job: &mut Job<'_>,
    ) -> Result<Reached<P::State, K>> {
        let task = FitTask {
            rounds: self,
            fitting,
        };
        let closed = job.run(&task, codec.map(|codec| codec.fit))?;
        let Single(begun) = closed.whole(self.most_chains())?;
        let mut reached = self.begun((begun.first, begun.in_vain), begun.chains)?;
        match begun.base {
            Err(reason) => reached.not_fitted = Some(reason),
            Ok((base, share)) => {
                reached.fitted = Some(base);
                reached.draws = (share >= LEAST_SHARE).then(|| self.draws_for(share));
                reached.barrier = Barrier::unknown();
                reached.stages = FEWEST_STAGES;
                reached.shapes.keep_last();
                if let Some(tuner) = self.tuner {
                    reached.kernel = tuner.as_at_target(&reached.kernel, &reached.shapes)?;
                }
            }
        }
        Ok(reached)
    }
}

/// The state between tries: the evaluations spent, and the passes so far, to whose states later fits belong, too.
struct Tries<S> {
    /// Number of chains of the first pair of passes.
    chains: usize,
    /// Number of evaluations at which one of these passes has too many chains for the budget.
    most: u64,
    /// Number of evaluations that all tries may spend.
    allowance: u64,
    spent: u64,
    passed: Vec<PassStates<S>>,
    /// Covariances of the last pass, which shape the kernel of the next.
    shapes: Shapes,
    rng: StreamRng,
}

type Pair<'s, 'p, P, K> = [FirstPassAtWork<'s, 'p, P, K>; 2];

impl<'p, P, K> FitTask<'_, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Returns the first passes of the given pair, counted from 0.
    fn passes(&self, pair: u32, tries: &mut Tries<P::State>) -> [FirstPass<'p, P, K>; 2] {
        let rounds = self.rounds;
        let (chains, rng) = ((tries.chains << pair).div_ceil(2), &mut tries.rng);
        std::array::from_fn(|_| {
            rounds.first_pass(chains, rounds.moves_of_pass() << pair, rng.next_u64())
        })
    }

    /// Makes one first pass, for rounds from the path's own base.
    fn unfitted(&self, pulse: &mut Pulse<'_>) -> Result<Begun<K>, Halt> {
        let (rounds, chains) = (self.rounds, self.rounds.most_chains());
        let pass = rounds.first_pass(chains, rounds.moves_of_pass(), rounds.seed);
        let mut at = FirstPassAtWork::start(&pass)?;
        let later = |stages| rounds.chain_steps(chains, stages, 0);
        at.go(u64::MAX, Some(&later), true, pulse, true)?;
        Ok(Begun {
            first: at.finish()?,
            base: Err(Refused {
                reason: NotFitted::Normalizer,
                log_z: None,
            }),
            chains,
            in_vain: 0,
        })
    }

    /// Makes two first passes and fits a base. If the fit fails a check, the chains move on, and a base is fitted again.
    /// Returns `None` if the passes have too many chains for the budget.
    fn attempt(
        &self,
        [one, other]: &[FirstPass<'p, P, K>; 2],
        tries: &mut Tries<P::State>,
        pulse: &mut Pulse<'_>,
    ) -> Result<Option<(FirstPassRun<K>, Found)>, Halt> {
        let mut at = [FirstPassAtWork::start(one)?, FirstPassAtWork::start(other)?];
        // One check at the base is enough: a gradient that is wrong elsewhere only makes passes less efficient.
        if tries.passed.is_empty() {
            at[0].check_model(&[1.0, 0.0])?;
        }
        for (others, pass) in [1, 0].into_iter().zip(&mut at) {
            // What other passes that come later take, both fits, and the round.
            let of_stage = pass.of_stage().saturating_mul(others);
            let later = |stages| {
                let of_others = of_stage.saturating_mul(stages as u64);
                let of_fits = (2 * LIKELY_STEPS * DRAWS) as u64;
                of_others.saturating_add(of_fits + self.rounds.later(stages))
            };
            pass.prepare_for_fit();
            // The first two passes share nothing, not even shapes.
            let shapes = std::mem::take(&mut tries.shapes);
            if !tries.passed.is_empty() {
                pass.shape_by(shapes);
            }
            pass.arrive(tries.most, Some(&later), pulse, false)?;
            if pass.evaluations() >= tries.most {
                tries.spent = Self::evaluations(&at);
                return Ok(None);
            }
            tries.shapes = pass.shapes();
        }
        tries.most = u64::MAX;
        tries.spent += Self::evaluations(&at);
        let mut found = self.fit(&mut at, tries, pulse)?;
        let chains = one.chains + other.chains;
        let of_moves = (FURTHER_MOVES * chains) as u64 * self.rounds.of_move();
        if tries.go_on(&found, tries.spent + of_moves) {
            let arrived = Self::evaluations(&at);
            at.iter_mut()
                .try_for_each(|pass| pass.stay(FURTHER_MOVES, pulse))?;
            tries.spent += Self::evaluations(&at) - arrived;
            // The second fit adds the states of these passes again.
            tries.passed.truncate(tries.passed.len() - at.len());
            found = self.fit(&mut at, tries, pulse)?;
        }
        let mut first = at[0].finish()?;
        first.log_z = log_mean_exp(&[first.log_z, at[1].finish()?.log_z]);
        Ok(Some((first, found)))
    }

    /// Tries to fit a base, at most a few times. Returns the number of evaluations alone if there are too many chains for
    /// the budget.
    fn begin(
        &self,
        mut tries: Tries<P::State>,
        pulse: &mut Pulse<'_>,
    ) -> Result<Result<Begun<K>, u64>, Halt> {
        let mut pair = 0;
        loop {
            let passes = self.passes(pair, &mut tries);
            let before = tries.spent;
            let Some((mut first, base)) = self.attempt(&passes, &mut tries, pulse)? else {
                return Ok(Err(tries.spent));
            };
            pair += 1;
            // Twice the chains and moves: four times the evaluations.
            let next = tries.spent + 4 * (tries.spent - before);
            if pair == MOST_PAIRS || !tries.go_on(&base, next) {
                first.evaluations = tries.spent;
                return Ok(Ok(Begun {
                    first,
                    base,
                    chains: tries.chains,
                    in_vain: 0,
                }));
            }
        }
    }

    /// Fits a base to the states of two passes and of all earlier ones.
    fn fit(
        &self,
        at: &mut Pair<'_, 'p, P, K>,
        tries: &mut Tries<P::State>,
        pulse: &Pulse<'_>,
    ) -> Result<Found, Halt> {
        let passed = |pass: &FirstPassAtWork<'_, 'p, P, K>| {
            let found = pass.finish()?;
            let arrived = pass.known();
            // By the share of the effective sample size that a stage leaves.
            let variance = 1.0 / pass.settings.ess_share - 1.0;
            let error = (found.schedule.stages() as f64 * variance / arrived.len() as f64).sqrt();
            Ok::<_, crate::Error>(PassStates {
                trail: pass.trail.clone().unwrap_or_default(),
                log_ratio: (found.log_z - self.rounds.base_log_z, error),
                is_swayed: pass.is_swayed(),
                arrived,
            })
        };
        for pass in at.iter() {
            tries.passed.push(passed(pass)?);
        }
        let before = Self::evaluations(at);
        let mut settled = Vec::new();
        let mut settle = |states| {
            settled = at[0].settle(states, SETTLING_MOVES, pulse)?;
            Ok(settled.clone())
        };
        let fitted = self
            .fitting
            .fit(&tries.passed, &mut settle, &mut tries.rng, pulse)?;
        tries.spent += fitted.evaluations + Self::evaluations(at) - before;
        // Later fits must cover them, too.
        if let Some(pass) = tries.passed.last_mut() {
            pass.trail.push(settled);
        }
        Ok(fitted.found)
    }

    fn evaluations(at: &Pair<'_, 'p, P, K>) -> u64 {
        at.iter().map(FirstPassAtWork::evaluations).sum()
    }
}

impl<S> Tries<S> {
    /// Returns whether another try may find a base, and ends with `spent` evaluations that are still allowed.
    fn go_on(&self, found: &Found, spent: u64) -> bool {
        let of_fits = 2 * MOST_STEPS * DRAWS;
        // Of a third pair, which may come next.
        let is_late = self.passed.len() + 2 >= MOST_PASSES;
        let of_check = if is_late { MOST_PASSES * MORE_DRAWS } else { 0 };
        spent.saturating_add((of_fits + of_check) as u64) <= self.allowance
            && found
                .as_ref()
                .is_err_and(|refused| refused.reason.may_pass())
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
            return Ok(Single(self.unfitted(pulse)?));
        }
        let tries = |chains, most, allowance| Tries {
            chains,
            most,
            allowance,
            spent: 0,
            passed: Vec::new(),
            shapes: Shapes::default(),
            rng: rng.clone(),
        };
        let (rounds, chains) = (self.rounds, self.rounds.most_chains());
        let budget = rounds.budget;
        let allowance = budget.map_or(u64::MAX, |budget| budget / divisor_before_last(true));
        let most = rounds.limit_of_pass(chains / 2).unwrap_or(u64::MAX);
        let mut begun = match self.begin(tries(chains, most, allowance), pulse)? {
            Ok(begun) => begun,
            Err(in_vain) => {
                let fewer = tries(FEWEST_CHAINS, u64::MAX, allowance / 2);
                let begun = self.begin(fewer, pulse)?.ok();
                let begun = begun.expect("passes without a limit");
                Begun { in_vain, ..begun }
            }
        };
        begun.first.seconds = start.elapsed().as_secs_f64();
        Ok(Single(begun))
    }

    fn width(&self) -> usize {
        let of_pass = self.rounds.most_chains().div_ceil(2);
        let blocks = of_pass.div_ceil(self.rounds.together(FIRST_BLOCK));
        blocks.max(DRAWS / TOGETHER)
    }
}
