//! A round: scans at fixed betas, which determine the betas of the next round.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::ladders::{Ladder, Ladders, PairSums, Placed, Plan, Starts};
use super::runner::{Tempering, TemperingSettings};
use crate::kernel::{Decisions, Invariant};
use crate::num::{Moments, cumulative};
use crate::path::AnnealingPath;
use crate::pilot::interpolate;
use crate::work::{Format, Halt, Merge, Pulse, Stepped, StoppedBy, Task};
use crate::{Error, Result};

/// A round of a tempered run. Each block of ladders starts where it ended the round before.
pub(crate) struct RoundTask<'t, 'p, P: AnnealingPath, K: Invariant<P::At>> {
    pub(super) run: &'t Tempering<'p, P, K>,
    pub(super) plan: Plan,
    /// Starting states, by block; none in the first round. The lock lets a shared task give them away.
    pub(super) starts: Mutex<Vec<Starts<P::State>>>,
    pub(super) codec: Option<Codec<P, K>>,
}

/// Functions that write and read unfinished ladders, results of rounds, and what rounds have reached.
pub(super) struct Codec<P: AnnealingPath, K: Invariant<P::At>> {
    pub(super) write: fn(&Ladders<P>) -> Result<Vec<u8>>,
    pub(super) read: ReadLadders<P, K>,
    pub(super) output: Format<RoundResult<P::State>>,
    pub(super) reached: Format<RoundsReached<P::State>>,
}

type ReadLadders<P, K> = fn(&RoundTask<'_, '_, P, K>, usize, &[u8]) -> Result<Ladders<P>>;

crate::num::copy! { for [P: AnnealingPath, K: Invariant<P::At>] Codec<P, K> }

impl<'p, P, K> Task for RoundTask<'_, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    K: Invariant<P::At> + Sync,
{
    type Output = RoundResult<P::State>;

    fn blocks(&self) -> Range<usize> {
        0..self.run.settings.blocks()
    }

    fn chains(&self, block: usize) -> Range<usize> {
        self.run.settings.ladders_of(block)
    }

    fn cost(&self, blocks: Range<usize>) -> u64 {
        let ladders: usize = blocks.map(|block| self.chains(block).len()).sum();
        (ladders * self.plan.placed.schedule.betas().len() * self.plan.scans) as u64
    }

    fn run(&self, block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt> {
        let plan = &self.plan;
        let mut at = match self.codec.zip(pulse.resumed()) {
            Some((codec, bytes)) => (codec.read)(self, block, &bytes)?,
            None => self.start(block)?,
        };
        while at.scans < plan.scans {
            let parity = at.scans % 2;
            at.move_states(&self.run.kernel, pulse)?;
            at.learn(parity, pulse)?;
            at.swap(plan, parity, pulse)?;
            at.scans += 1;
            if plan.samples_after(at.scans) {
                at.sample(pulse)?;
            }
            let chains = at.ladders.len() * at.populations.len();
            let stepped = Stepped::of(chains, at.scans == plan.scans);
            pulse.step(stepped, &|| {
                self.codec
                    .map_or(Ok(Vec::new()), |codec| (codec.write)(&at))
            })?;
        }
        Ok(RoundResult {
            decisions: at.decisions(),
            ends: vec![at.take_ends()],
            ladders: at.ladders,
        })
    }

    #[cfg(feature = "checkpoint")]
    fn check_saved(&self, block: usize, bytes: &[u8]) -> Result<u64> {
        self.codec.map_or(Ok(0), |codec| {
            let at = (codec.read)(self, block, bytes)?;
            Ok((at.scans * at.populations.len() * at.ladders.len()) as u64)
        })
    }

    #[cfg(feature = "checkpoint")]
    fn check(&self, blocks: Range<usize>, output: &Self::Output) -> Result<()> {
        let (first, last) = (self.chains(blocks.start), self.chains(blocks.end - 1));
        output.check(&self.plan, last.end - first.start, blocks.len())
    }
}

impl<P, K> RoundTask<'_, '_, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    K: Invariant<P::At> + Sync,
{
    fn start(&self, block: usize) -> Result<Ladders<P>> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let start = starts.get_mut(block).map(std::mem::take);
        drop(starts);
        let ladders = self.run.settings.ladders_of(block);
        Ladders::start(&self.run.path, ladders, &self.plan, start)
    }
}

/// The result of some ladders of a round.
#[derive(Debug)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct RoundResult<S> {
    pub(super) ladders: Vec<Ladder<S>>,
    pub(super) decisions: Vec<Decisions>,
    /// Final states, by block, from which the next round starts.
    pub(super) ends: Vec<Starts<S>>,
}

impl<S> RoundResult<S> {
    /// Refuses a result read from a file if a round of so many ladders and blocks by `plan` cannot have it.
    fn check(&self, plan: &Plan, ladders: usize, blocks: usize) -> Result<()> {
        let betas = plan.placed.schedule.betas().len();
        Error::check_dimension("ladders", self.ladders.len(), ladders)?;
        Error::check_dimension("decisions", self.decisions.len(), betas)?;
        Error::check_dimension("blocks", self.ends.len(), blocks)?;
        let mut ladders = self.ladders.iter();
        ladders.try_for_each(|ladder| ladder.check(plan, plan.scans))
    }
}

impl<S: Send> Merge for RoundResult<S> {
    fn merge(&mut self, right: Self) {
        self.ladders.extend(right.ladders);
        self.ends.extend(right.ends);
        for (mine, theirs) in self.decisions.iter_mut().zip(right.decisions) {
            *mine += theirs;
        }
    }
}

/// The state of a run between two rounds.
#[derive(Debug)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RoundsReached<S> {
    pub(super) last: Option<FinishedRound<S>>,
    pub(super) next: Placed,
    pub(super) stopped_by: Option<StoppedBy>,
}

impl<S> RoundsReached<S> {
    /// Refuses a state read from a file if no round with `settings` can end in it.
    pub(super) fn check(&self, settings: &TemperingSettings) -> Result<()> {
        let last = self.last.as_ref();
        let (done, next) = (last.map_or(0, |last| last.placed.round), &self.next);
        // A round has `2^round` scans.
        let most = usize::BITS as usize - 2;
        let follows = next.round <= most && next.round == done.saturating_add(1);
        let expected = format!("the one after {done}, at most {most}");
        Error::check(follows, "round", next.round, expected)?;
        next.check(settings)?;
        last.map_or(Ok(()), |last| last.check(settings))
    }
}

#[derive(Debug)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct FinishedRound<S> {
    pub(super) placed: Placed,
    pub(super) result: RoundResult<S>,
}

impl<S> FinishedRound<S> {
    fn check(&self, settings: &TemperingSettings) -> Result<()> {
        self.placed.check(settings)?;
        let plan = Plan::new(settings, self.placed.clone());
        let result = &self.result;
        result.check(&plan, settings.ladders, settings.blocks())
    }

    pub(super) fn figures(&self) -> RoundFigures {
        RoundFigures::of(&self.result.ladders)
    }

    pub(super) fn standard_error(&self) -> f64 {
        let errors = self.figures().standard_errors(&self.result.ladders);
        errors[errors.len() - 1]
    }
}

/// Least gap `-log(1 - r)` of a pair with rejection rate r, as a share of the mean gap. It keeps some betas where no
/// swap is rejected.
const FLOOR: f64 = 0.01;
/// Lower bound on the acceptance rate `1 - r` in a gap, so that gaps are finite.
const LEAST_ACCEPTANCE: f64 = 1e-10;

/// Statistics summed over all ladders, by pair of neighbours.
pub(super) struct RoundFigures {
    pairs: Vec<PairSums>,
}

impl RoundFigures {
    pub(super) fn of<S>(ladders: &[Ladder<S>]) -> Self {
        let mut pairs = vec![PairSums::default(); ladders[0].pairs.len()];
        for ladder in ladders {
            for (all, pair) in pairs.iter_mut().zip(&ladder.pairs) {
                all.merge(pair);
            }
        }
        Self { pairs }
    }

    pub(super) fn rejections(&self) -> Vec<f64> {
        self.pairs.iter().map(PairSums::rejection).collect()
    }

    /// Returns `log Z_{j+1}/Z_j` of each pair, given the round's guesses.
    pub(super) fn log_ratios(&self, guesses: &[f64]) -> Vec<f64> {
        let pairs = self.pairs.iter().zip(guesses);
        pairs.map(|(pair, &c)| pair.log_ratio(c)).collect()
    }

    /// Returns the standard error of the sum of the first j log ratios, for j from 0, over R ladders: the root of
    /// `R/(R - 1) sum_i y_i^2`, with y_i the influence of ladder i on that sum.
    pub(super) fn standard_errors<S>(&self, ladders: &[Ladder<S>]) -> Vec<f64> {
        let influences = |ladder: &Ladder<S>| {
            let pairs = ladder.pairs.iter().zip(&self.pairs);
            cumulative(pairs.map(|(part, all)| part.influence(all)))
        };
        let influences: Vec<Vec<f64>> = ladders.iter().map(influences).collect();
        let n = ladders.len() as f64;
        // The influences sum to 0, so n times the standard error of their mean is the root above.
        let error =
            |j| n * Moments::from_iter(influences.iter().map(|sums| sums[j])).standard_error();
        (0..=self.pairs.len()).map(error).collect()
    }

    /// Returns betas at which all pairs would have the same rejection rate, and guesses of the log ratios there. Each
    /// pair gets an equal share of `-log(1 - r)`, with r the rejection rate. For small r this is r itself (Syed et al.
    /// 2022); near 1 it still grows with the width of the gap. The sums of these shares and of the log ratios are
    /// interpolated linearly in beta. If new betas would coincide, the old ones stay.
    pub(super) fn tuned(&self, placed: &Placed) -> Placed {
        let (schedule, guesses) = (&placed.schedule, &placed.guesses);
        let gap = |pair: &PairSums| -(1.0 - pair.rejection()).clamp(LEAST_ACCEPTANCE, 1.0).ln();
        let gaps: Vec<f64> = self.pairs.iter().map(gap).collect();
        let floor = FLOOR * gaps.iter().sum::<f64>() / gaps.len() as f64;
        let distance = cumulative(gaps.into_iter().map(|gap| gap.max(floor)));
        let tuned = interpolate(schedule.betas(), &distance, schedule.stages());
        let tuned = tuned.unwrap_or_else(|_| schedule.clone());

        let found = self.log_ratios(guesses).into_iter().zip(guesses);
        // If the states of a pair do not overlap at all, the sums determine no ratio.
        let log_ratios = found.map(|(found, &guess)| if found.is_finite() { found } else { guess });
        let log_z = cumulative(log_ratios);
        let betas = schedule.betas();
        let log_z_at = |&beta: &f64| {
            let k = schedule.interval(beta);
            let share = (beta - betas[k]) / (betas[k + 1] - betas[k]);
            log_z[k] + share * (log_z[k + 1] - log_z[k])
        };
        let log_z: Vec<f64> = tuned.betas().iter().map(log_z_at).collect();
        Placed {
            round: placed.round + 1,
            schedule: tuned,
            guesses: log_z.windows(2).map(|pair| pair[1] - pair[0]).collect(),
        }
    }
}
