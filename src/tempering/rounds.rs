//! The rounds of a run, one after another.

use std::sync::Mutex;
use std::time::Instant;

use super::ladders::{Placed, Plan};
use super::round::{Codec, FinishedRound, RoundResult, RoundTask, RoundsReached};
use super::run::TemperingRun;
use super::runner::{Tempering, TemperingSettings};
use crate::estimate::{LogZ, Remedy, Warning};
use crate::kernel::{Invariant, refuse_stages};
use crate::model::UnnormalizedModel;
use crate::path::{AnnealingPath, Intermediate, STATES_OF_BOUND, dimension};
use crate::work::{Closed, Job, StoppedBy, fold};
use crate::{Error, Result};

/// Index of the first round after which `until_error` is checked.
const FIRST_LOOK: usize = 5;

impl<'p, P, K> Tempering<'p, P, K>
where
    P: AnnealingPath + Send + Sync,
    P::State: Clone + Send,
    K: Invariant<P::At> + Sync,
{
    /// Runs all ladders through all rounds.
    ///
    /// # Errors
    /// Settings out of range; a kernel that requires a number of stages; a NaN, `+inf` or panic (the error names
    /// the ladder as chain and the index of beta as stage); [`Error::AllWeightsZero`] if no state of one beta is
    /// possible at the next.
    pub fn run(&self) -> Result<TemperingRun<P::State>> {
        self.check()?;
        self.go_with(None, &mut Job::new(&self.execution)?)
    }

    pub(super) fn check(&self) -> Result<()> {
        self.settings.check()?;
        refuse_stages(self.kernel.stages())
    }

    /// Runs the remaining rounds.
    pub(super) fn go_with(
        &self,
        codec: Option<Codec<P, K>>,
        job: &mut Job<'_>,
    ) -> Result<TemperingRun<P::State>> {
        let begun = Instant::now();
        let format = codec.map(|codec| codec.reached);
        let mut at = job
            .carried(format, &|at| at.check(&self.settings))?
            .unwrap_or_else(|| self.first());
        let (rounds, begun_rounds) = (self.settings.rounds, at.next.round);
        let expected = format!("at least {begun_rounds}, those that are begun");
        Error::check(begun_rounds <= rounds, "rounds", rounds, expected)?;
        let steps = |rounds| {
            self.settings
                .chain_steps(self.settings.scans_of_rounds(rounds))
        };
        let finished = steps(begun_rounds - 1);
        job.skip(finished);
        job.foresee(steps(rounds) - finished);
        while at.stopped_by.is_none() {
            let plan = Plan::new(&self.settings, at.next);
            let ends = at.last.as_mut().map(|last| &mut last.result.ends);
            let round = RoundTask {
                run: self,
                plan,
                starts: Mutex::new(ends.map(std::mem::take).unwrap_or_default()),
                codec,
            };
            let closed = job.run(&round, codec.map(|codec| codec.output))?;
            let reached = self.after(at.last, round.plan.placed, closed);
            let figures = [reached.next.schedule.betas(), &reached.next.guesses].concat();
            at = job.carry(format, reached, &figures)?;
        }
        let stopped_by = at.stopped_by.expect("the rounds have ended");
        self.result(at.last, stopped_by, begun)
    }

    fn first(&self) -> RoundsReached<P::State> {
        let schedule = &self.settings.schedule;
        RoundsReached {
            last: None,
            next: Placed {
                round: 1,
                schedule: schedule.clone(),
                guesses: vec![0.0; schedule.stages()],
            },
            stopped_by: None,
        }
    }

    /// Returns the state after a round, or after the previous round if this one was stopped.
    fn after(
        &self,
        last: Option<FinishedRound<P::State>>,
        placed: Placed,
        closed: Closed<RoundResult<P::State>>,
    ) -> RoundsReached<P::State> {
        if let Some(by) = closed.stopped_by {
            return RoundsReached {
                last,
                stopped_by: Some(by),
                // The run ends here, so no round starts from the other fields.
                ..self.first()
            };
        }
        let result = fold(closed.prefix).expect("there are blocks");
        let last = FinishedRound { placed, result };
        RoundsReached {
            next: last.figures().tuned(&last.placed),
            stopped_by: self.ended_by(&last),
            last: Some(last),
        }
    }

    fn result(
        &self,
        last: Option<FinishedRound<P::State>>,
        stopped_by: StoppedBy,
        begun: Instant,
    ) -> Result<TemperingRun<P::State>> {
        let Some(last) = last else {
            return Err(stopped_by.error(self.settings.ladders));
        };
        let settings = TemperingSettings {
            rounds: last.placed.round,
            ..self.settings.clone()
        };
        let cost = (self.evaluations(&settings), begun.elapsed().as_secs_f64());
        let rounding = (self.path.rounding_error(), self.path.at(1.0).epsilon());
        let mut run = TemperingRun::new(settings, last, stopped_by, rounding, cost)?;
        let (asked, reached) = (self.execution.until_error, run.standard_error());
        let remedy = Remedy::Ladders(self.settings.ladders);
        run.warn(Warning::error_not_reached(asked, reached, None, remedy));
        let (moves, (lower, upper)) = (run.evaluations(), run.interval());
        let states = Vec::from_iter(run.states().iter().take(STATES_OF_BOUND));
        let bound = self.path.certain_bound(&states, moves);
        run.warn(self.path.doubts(bound, (lower, upper + rounding.0)));
        Ok(run)
    }

    /// Returns the reason to end the run after this round, if there is one.
    fn ended_by(&self, last: &FinishedRound<P::State>) -> Option<StoppedBy> {
        if last.placed.round == self.settings.rounds {
            return Some(StoppedBy::Chains);
        }
        let enough = self.execution.until_error;
        let enough = enough.filter(|_| last.placed.round >= FIRST_LOOK)?;
        (last.standard_error() <= enough).then_some(StoppedBy::StandardError)
    }

    /// Returns the number of evaluations in all rounds of `settings`.
    fn evaluations(&self, settings: &TemperingSettings) -> u64 {
        // A move at each beta but 0, where a state is drawn. On a path without ends, every second scan also takes the
        // log ratios of both states of a pair.
        let stages = settings.schedule.stages();
        let swaps = usize::from(!<P::At as Intermediate>::HAS_ENDS);
        let each = self.kernel.evaluations(dimension(&self.path));
        let of_scan = each.saturating_add(swaps).saturating_mul(stages);
        let scans = settings
            .scans_of_rounds(settings.rounds)
            .saturating_mul(settings.ladders);
        of_scan.saturating_add(1).saturating_mul(scans) as u64
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DVector;

    use super::*;
    use crate::kernel::RandomWalkMetropolis;
    use crate::model::Gaussian;
    use crate::path::GeometricPath;

    type Line = GeometricPath<Gaussian, Gaussian>;

    #[test]
    fn forged_rounds_are_refused() -> Result<()> {
        let line = Line::new(Gaussian::standard(1)?, Gaussian::standard(1)?);
        let run = Tempering::new(&line, RandomWalkMetropolis::new(0.5)?);
        let refused = |forge: &dyn Fn(&mut RoundsReached<DVector<f64>>)| {
            let mut at = run.first();
            forge(&mut at);
            at.check(&run.settings).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(refused(&|at| at.next.round = 0));
        assert!(refused(&|at| at.next.round = 2));
        assert!(refused(&|at| at.next.guesses.clear()));
        assert!(refused(&|at| at.next.guesses[0] = f64::NAN));
        Ok(())
    }
}
