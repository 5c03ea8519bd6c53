//! Rounds that end with a challenge to the last one, within their budget.

use nalgebra::DVector;

use super::base_search::{FindModes, LEAST_MOVES, LawOf, MixtureAt, gradient_of};
use super::challenge::{Asked, CHALLENGE_CONFIDENCE, Challenged, SecondJob, of_path};
use super::rounds::{Finished, Rounds};
use crate::estimate::{LogZ, Warning};
use crate::kernel::TransitionKernel;
use crate::model::{Differentiable, NormalizedModel, StudentT};
use crate::path::AnnealingPath;
use crate::work::StoppedBy;
use crate::{Error, Result};

impl<'p, P: AnnealingPath, K> Rounds<'p, P, K> {
    /// Ends with a [`Challenge`](super::Challenge) to the last round; off by default. The challenge costs as much as
    /// all rounds together.
    ///
    /// The rounds spend at most half of a [budget](Self::budget), and the challenge as much as they did. If the second
    /// run contradicts the last round or improves on it, log Z is the second run's. If it lies above the last round's
    /// interval, the warning [`FirstRunTooLow`](crate::estimate::Warning::FirstRunTooLow) appears.
    ///
    /// ```
    /// use annealed::adaptive::Rounds;
    /// use annealed::prelude::*;
    ///
    /// // Nine tenths of the mass in a spike forty times narrower than the rest; log Z = 0.
    /// let part = |deviation| Gaussian::isotropic(DVector::zeros(4), deviation);
    /// let target = GaussianMixture::new([(0.1, part(1.0)?), (0.9, part(0.025)?)])?;
    /// let path = GeometricPath::new(part(2.0)?, target);
    /// let rounds = Rounds::new(&path, RandomWalkMetropolis::new(0.5)?).budget(200_000).challenge();
    /// let found = rounds.run()?;
    /// println!("{found}"); // and the warning that the rounds gave -2.3
    /// assert!(found.run().log_z() < -2.0 && found.log_z().abs() < 4.0 * found.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// [`RoundsRun::judgement`] returns the outcome, and [`RoundsRun::second`] the run. An error in the challenge, such
    /// as a density of NaN where only its climbs lead, leaves the rounds as they are, with the warning
    /// [`ChallengeFailed`](crate::estimate::Warning::ChallengeFailed).
    ///
    /// The second run starts from another base, so the kernel must work with any model. After a resume from a checkpoint
    /// the search for other bases begins anew. Each of several processes makes the whole search.
    ///
    /// [`RoundsRun::judgement`]: super::RoundsRun::judgement
    /// [`RoundsRun::second`]: super::RoundsRun::second
    pub fn challenge(mut self) -> Self
    where
        P: AnnealingPath<State: FindModes, Base: NormalizedModel> + Send + Sync + 'p,
        P::At: Send + Sync,
        K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
    {
        self.challenger = Some(of_path(self.path.clone(), None));
        self
    }

    /// Ends with a [challenge](Self::challenge) that climbs along the gradient of the target, as with
    /// [`Challenge::with_gradient`](super::Challenge::with_gradient).
    pub fn challenge_with_gradient(mut self) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel> + Send + Sync + 'p,
        P::At: Differentiable + Send + Sync,
        K: TransitionKernel<MixtureAt<P, StudentT>> + Clone + Send + Sync,
    {
        self.challenger = Some(of_path(
            self.path.clone(),
            Some(gradient_of(self.path.clone())),
        ));
        self
    }

    /// Returns the number of equal parts of the budget: 1 for the rounds alone, 2 for rounds and a challenge.
    pub(super) fn parts(&self) -> u64 {
        1 + u64::from(self.challenger.is_some())
    }

    pub(super) fn budget_of_rounds(&self) -> Option<u64> {
        self.budget.map(|budget| budget / self.parts())
    }

    fn challenged_runner(&self) -> Challenged<K, P::State>
    where
        K: Clone,
    {
        Challenged {
            kernel: self.kernel.clone(),
            tuner: self.tuner,
            seed: self.seed,
        }
    }
}

impl<'p, P, K> Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Refuses a challenge that could not run after the rounds.
    pub(super) fn check_challenge(&self) -> Result<()> {
        let Some(challenger) = &self.challenger else {
            return Ok(());
        };
        Error::check_number("log normalizer of the base", self.log_base_normalizer)?;
        challenger.check(self.challenged_runner())?;
        let least = self.least_of_challenge();
        let expected = format!("at least {} for rounds and challenge", self.parts() * least);
        let has_enough = |budget| budget / self.parts() >= least;
        Error::check(
            self.budget.is_none_or(has_enough),
            "budget",
            self.budget.unwrap_or_default(),
            expected,
        )
    }

    fn least_of_challenge(&self) -> u64 {
        LEAST_MOVES * self.of_move()
    }

    /// Challenges the last round, unless a callback ended the rounds.
    pub(super) fn challenged(
        &self,
        mut run: Finished<P, K>,
        job: &mut SecondJob<'_, P::State>,
    ) -> Result<Finished<P, K>> {
        let is_stopped = matches!(run.stopped_by, StoppedBy::Callback | StoppedBy::TimeLimit);
        if let Some(challenger) = self.challenger.as_ref().filter(|_| !is_stopped) {
            let spent = run.evaluations();
            let like = spent.max(self.least_of_challenge());
            // If the rounds reached their error early, more is left than the challenge should cost.
            let left = |budget: u64| budget.saturating_sub(spent).min(like);
            let budget = self.budget.map_or(like, left);
            job.foresee(budget / self.of_move());
            let asked = Asked {
                budget,
                confidence: CHALLENGE_CONFIDENCE,
                log_base_normalizer: self.log_base_normalizer,
            };
            match challenger.challenge(&run, self.challenged_runner(), &asked, job) {
                Ok(found) => run.challenge = Some(found),
                Err(Error::Stopped { .. }) => (),
                // Processes that have parted can no longer finish the run together.
                Err(error) if job.job().has_parted() => return Err(error),
                Err(error) => {
                    // The same in all processes, whichever of them has failed.
                    let reason = match error {
                        Error::Rank { message, .. } => message,
                        error => error.to_string(),
                    };
                    run.last.run.warn([Warning::ChallengeFailed { reason }]);
                }
            }
        }
        Ok(run)
    }
}
