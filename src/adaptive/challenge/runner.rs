//! The runner: scouts, cooling, rival bases, and a second run from their mixture with the old base.

use std::cell::Cell;
use std::fmt;
use std::iter::repeat_n;
use std::time::Instant;

use nalgebra::DVector;
use rand::Rng;

use super::base::RivalBase;
use super::cooling::{Cooling, RUNGS, Scouting, Scouts};
use super::judge::{ChallengeRun, judge};
use super::path::{Cooled, RivalAt, RivalPath};
use super::proposal::{Proposals, Rivals, Target, Trails};
use super::shares::shares;
use crate::adaptive::first_pass::FirstPassTask;
use crate::adaptive::smc::AdaptiveSmc;
use crate::adaptive::tuner::Tuner;
use crate::ais::{Ais, Along, Run};
use crate::estimate::LogZ;
use crate::kernel::{TransitionKernel, Tunable, refuse_stages};
use crate::model::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::setters;
use crate::path::{AnnealingPath, dimension};
use crate::random::{Purpose, StreamRng, stream};
use crate::work::{Counts, Execution, Job, Runs, Single, controls};
use crate::{Error, Result};

/// A second run that looks for mass that a first one missed.
///
/// A forward run cannot see what none of its chains found, and more of the same runs agree with it. The challenge looks
/// elsewhere. It anneals a large population roughly, cools some of its states from the target f to `f^256`, climbs from
/// samples of the base where the target has a [gradient](Self::with_gradient), and fits [bases](Rivals) around the modes
/// that it finds. Then it runs *forward* from the mixture of these bases and the old one to the same target. That run's
/// weights are unbiased, since its bases come from other chains, and its [bound](Run::certified_lower_bound) can prove the
/// first too low. The [`Judgement`](super::Judgement) says what came of it.
///
/// The first run is any result with [`LogZ`] for the target of `path`. The challenge costs as much, unless
/// [`budget`](Self::budget) says otherwise.
///
/// ```
/// use annealed::adaptive::{Challenge, Judgement};
/// use annealed::prelude::*;
///
/// // Nine tenths of the mass in a spike forty times narrower than the rest.
/// let part = |deviation| Gaussian::isotropic(DVector::zeros(4), deviation);
/// let target = GaussianMixture::new([(0.1, part(1.0)?), (0.9, part(0.025)?)])?;
/// let path = GeometricPath::new(part(2.0)?, target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let run = Ais::new(&path, &kernel).schedule(Schedule::linear(200)?).chains(500).run()?;
/// let challenge = Challenge::new(&path, kernel, &run).run()?;
/// println!("{run}\n{challenge}"); // log Z = -2.31 +- .02; contradicts the first run: log Z is at least -.07
/// assert!(matches!(challenge.judgement(), Judgement::Contradicted { .. }));
/// assert!(challenge.log_z().abs() < 4.0 * challenge.standard_error()); // log Z = 0
/// # assert!(run.log_z() < -2.0 && challenge.standard_error() < 0.1, "{run}\n{challenge}");
/// # Ok::<(), annealed::Error>(())
/// ```
#[must_use]
pub struct Challenge<'p, P: AnnealingPath, K> {
    path: &'p P,
    kernel: K,
    first: &'p dyn LogZ,
    tuner: Option<Tuner<K, P::State>>,
    gradient: Option<GradientOf<'p, P>>,
    /// Shares of the budget for scouts, cooling, and optima and fits.
    shares: [f64; 3],
    log_base_normalizer: f64,
    states: Vec<P::State>,
    budget: Option<u64>,
    confidence: f64,
    seed: u64,
    execution: Execution<'p>,
}

/// Function that writes a gradient of the target and returns the log density.
type GradientOf<'p, P> = fn(
    &<P as AnnealingPath>::At<'p>,
    &<P as AnnealingPath>::State,
    &mut <P as AnnealingPath>::State,
) -> f64;

type Base<P> = <<P as AnnealingPath>::State as Rivals>::Base;

/// Number of states that are cooled, besides those that the user gives.
const STARTS: usize = 128;
/// Most chains that cool one state of the user.
const COPIES: usize = 32;
/// Fewest scouts, and most.
const SCOUTS: (u64, u64) = (64, 4_096);
/// Most moves at each power.
const COOLING: u64 = 10;
/// Stages of the second run for a square of the barrier of 1, as far as its chains allow: fewest, and most.
const STAGES: f64 = 4.0;
const CHAINS: (u64, u64) = (256, 4_096);
/// Least share of the old base.
const DEFENCE: f64 = 0.5;
/// Least share of a rival base.
const LEAST: f64 = 0.01;
/// Most draws of a base for the shares.
const DRAWS: u64 = 64;

impl<'p, P: AnnealingPath, K> Challenge<'p, P, K> {
    /// Creates a challenge to `first`, a result for the target of `path`, with a tuned kernel over `R^d`.
    pub fn new(path: &'p P, kernel: K, first: &'p dyn LogZ) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
        K: Tunable,
    {
        Self {
            tuner: Some(Tuner::new()),
            ..Self::fixed(path, kernel, first)
        }
    }

    /// Creates a challenge with a kernel that is not tuned, over any state that has [`Rivals`].
    pub fn fixed(path: &'p P, kernel: K, first: &'p dyn LogZ) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self {
            path,
            kernel,
            first,
            tuner: None,
            gradient: None,
            shares: [0.25, 0.2, 0.1],
            log_base_normalizer: path.base().log_normalizer(),
            states: Vec::new(),
            budget: None,
            confidence: 0.99,
            seed: 0,
            execution: Execution::default(),
        }
    }

    /// Sets the log normaliser of the base, in place of the base's own; 0 to count log Z from the base.
    pub fn base_log_z(mut self, log_base_normalizer: f64) -> Self {
        self.log_base_normalizer = log_base_normalizer;
        self
    }

    /// Lets local optima and Laplace's approximation use the gradient of the target in place of differences.
    pub fn with_gradient(mut self) -> Self
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At<'p>: Differentiable,
    {
        self.gradient = Some(|target, state, gradient| target.gradient_into(state, gradient));
        self.shares = [0.07, 0.13, 0.5];
        self
    }

    /// Adds states that are cooled, too: data, or draws of another sampler.
    pub fn states(mut self, states: impl IntoIterator<Item = P::State>) -> Self {
        self.states.extend(states);
        self
    }

    /// Sets the number of density evaluations to spend; those of the first run by default. A gradient is one more.
    pub fn budget(mut self, evaluations: u64) -> Self {
        self.budget = Some(evaluations);
        self
    }

    setters! {
        /// Sets the confidence of intervals and bounds; 0.99 by default. All bounds that are compared share it.
        confidence: f64,
        /// Sets the seed; 0 by default.
        seed: u64,
    }

    controls! { 'p, "The result is that of a second run of the finished blocks; before it is an [`Error::Stopped`]." }
}

impl<'p, P, K> Challenge<'p, P, K>
where
    P: AnnealingPath<State: Rivals> + Sync,
    P::At<'p>: Send + Sync,
    K: TransitionKernel<RivalAt<'p, P, Base<P>>> + Clone + Send + Sync,
{
    /// Looks for other modes, runs from the mixture of all bases, and judges the first run.
    ///
    /// # Errors
    /// Settings out of range; a budget that is too small; as [`AdaptiveSmc::first_pass`] and [`Ais::run`];
    /// [`Error::Stopped`] before the second run has a block.
    pub fn run(&self) -> Result<ChallengeRun<'p, P::State>> {
        let begun = Instant::now();
        let budget = self.check()?;
        let mut job = Job::new(&self.execution)?;
        job.foresee(budget / self.evaluations());
        let mut seeds = stream(self.seed, Purpose::Challenge, 0);
        let old = RivalBase::new(self.path, self.log_base_normalizer, Vec::new());
        let [scouting, cooling, fitting] = self.shares.map(|share| (share * budget as f64) as u64);
        let scouts = self.scouts(&old, scouting, &mut job, &mut seeds)?;
        let (trails, cooled) = self.trails(&old, &scouts, cooling, &mut job)?;
        let draws = self.gradient.map_or(0, |_| fitting / 10);
        let draws = (0..draws).map(|_| old.sample(&mut seeds)).collect();
        let trails = trails.with_draws(draws);
        let (base, modes, fitted) = self.mixture(&old, &trails, fitting, &mut seeds)?;
        let spent = scouts.evaluations + cooled + fitted;
        let starts = trails.ends().len();
        let (second, passed) = self.second(
            &RivalPath::new(base),
            budget.saturating_sub(spent),
            &mut job,
            seeds.next_u64(),
        )?;
        let tried = (starts, modes, spent + passed);
        Ok(ChallengeRun {
            judgement: judge(self.first, &second, self.confidence, tried)?,
            first: self.first,
            second,
            starts,
            modes,
            proposing: spent + passed,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn check(&self) -> Result<u64> {
        Error::check_inner_fraction("confidence", self.confidence)?;
        Error::check_number("log normalizer of the base", self.log_base_normalizer)?;
        refuse_stages(self.kernel.stages())?;
        let budget = self.budget.unwrap_or(self.first.evaluations());
        let least = 1_000 * self.evaluations();
        let expected = format!("at least {least} evaluations");
        Error::check(budget >= least, "budget", budget, expected)?;
        Ok(budget)
    }

    /// Returns the evaluations of a move.
    fn evaluations(&self) -> u64 {
        self.kernel.evaluations(dimension(self.path)).max(1) as u64
    }

    /// Anneals a population roughly: a small one, whose cost says how large a second one may be.
    fn scouts(
        &self,
        old: &RivalBase<'p, P, Base<P>>,
        allowance: u64,
        job: &mut Job<'_>,
        seeds: &mut StreamRng,
    ) -> Result<Scouts<P::State, K>> {
        let path = RivalPath::new(old.clone());
        let mut scout = |kernel: &K, chains: u64, moves: usize, allowance: u64| {
            let settings = AdaptiveSmc::with(&path, kernel.clone(), self.tuner, 0.0)
                .chains(chains as usize)
                .moves(moves)
                .seed(seeds.next_u64());
            let task = Scouting {
                settings: &settings,
                allowance,
            };
            let closed = job.run(&task)?.expect("the only process leads");
            let Single(scouts) = closed.whole(chains as usize)?;
            Ok::<_, Error>(scouts)
        };
        let few = scout(&self.kernel, SCOUTS.0, 2, allowance / 4)?;
        let left = allowance.saturating_sub(few.evaluations);
        // Half the moves are half the cost.
        let chains = (2 * SCOUTS.0 * left / few.evaluations.max(1)).clamp(SCOUTS.0, SCOUTS.1);
        let mut many = scout(&few.kernel, chains, 1, left)?;
        many.evaluations += few.evaluations;
        Ok(many)
    }

    /// Cools some scouts and the user's states. Returns the evaluations, too.
    fn trails(
        &self,
        old: &RivalBase<'p, P, Base<P>>,
        scouts: &Scouts<P::State, K>,
        allowance: u64,
        job: &mut Job<'_>,
    ) -> Result<(Trails<P::State>, u64)> {
        let stride = scouts.states.len().div_ceil(STARTS);
        let chosen = scouts.states.iter().step_by(stride);
        // A few states of the user are cooled several times each, so that their covariance is known.
        let copies = (STARTS / self.states.len().max(1)).clamp(1, COPIES);
        let given = self.states.iter().flat_map(|state| repeat_n(state, copies));
        let starts: Vec<P::State> = chosen.chain(given).cloned().collect();
        let of_move = RUNGS as u64 * starts.len() as u64 * self.evaluations();
        let moves = (allowance / of_move).clamp(1, COOLING);
        let task = Cooling {
            path: &Cooled(old.clone()),
            kernel: &scouts.kernel,
            tuner: self.tuner,
            moves: moves as usize,
            stream: stream(self.seed, Purpose::Challenge, 1),
            starts: &starts,
        };
        let closed = job.run(&task)?.expect("the only process leads");
        let Single(trails) = closed.whole(starts.len())?;
        Ok((trails, moves * of_move))
    }

    /// Returns the mixture of the old base and the new ones, the number of modes, and the evaluations spent.
    fn mixture(
        &self,
        old: &RivalBase<'p, P, Base<P>>,
        trails: &Trails<P::State>,
        allowance: u64,
        rng: &mut StreamRng,
    ) -> Result<(RivalBase<'p, P, Base<P>>, usize, u64)> {
        let log_density = |state: &P::State| old.target().log_density(state);
        let gradient = self.gradient.map(|gradient| {
            move |state: &P::State, to: &mut P::State| gradient(old.target(), state, to)
        });
        let target = Target {
            log_density: &log_density,
            gradient: gradient.as_ref().map(|gradient| gradient as _),
            spent: Cell::new(0),
            allowance,
        };
        let Proposals { modes, bases } = P::State::propose(trails, &target)?;
        let draws = (target.left() / (bases.len() as u64).max(1)).clamp(1, DRAWS);
        let found = shares(&Vec::from_iter(&bases), &target, draws as usize, rng);
        let kept = found.into_iter().zip(bases);
        let kept: Vec<(f64, Base<P>)> = kept.filter(|(share, _)| *share >= LEAST).collect();
        let all: f64 = kept.iter().map(|(share, _)| share).sum();
        let scaled = kept
            .into_iter()
            .map(|(share, base)| ((1.0 - DEFENCE) * share / all, base));
        let base = RivalBase::new(self.path, self.log_base_normalizer, scaled.collect());
        Ok((base, modes, target.spent.get()))
    }

    /// Runs along the path from the mixture: a first pass, which finds kernel and stages, and a run of chains.
    fn second(
        &self,
        path: &RivalPath<'p, P, Base<P>>,
        budget: u64,
        job: &mut Job<'_>,
        seed: u64,
    ) -> Result<(Run<P::State>, u64)> {
        let begun = Instant::now();
        let each = self.evaluations();
        let chains = (budget / 4 / (3 * 40 * each)).clamp(32, 256) as usize;
        let pass = AdaptiveSmc::with(path, self.kernel.clone(), self.tuner, 0.0)
            .chains(chains)
            .moves(3)
            .seed(seed);
        let first = job.run(&FirstPassTask {
            settings: &pass,
            later: &|_| 0,
        })?;
        let Single(first) = first.expect("the only process leads").whole(chains)?;
        let left = budget.saturating_sub(first.evaluations) / each;
        let lambda = first.barrier.global();
        let stages = (STAGES * lambda * lambda).clamp(16.0, 1e6) as u64;
        let chains = (left / stages).clamp(CHAINS.0, CHAINS.1);
        let stages = left / chains;
        let expected = "more evaluations, since proposals and first pass took nearly all";
        Error::check(stages > 0, "budget", budget, expected)?;
        let second = Ais::with_base_log_z(path, first.kernel, 0.0)
            .schedule(first.barrier.schedule(stages as usize)?)
            .chains(chains as usize)
            .seed(seed)
            .into_task(Along::new)?;
        let closed = job.run(&second)?.expect("the only process leads");
        let run = second
            .result(closed, begun.elapsed().as_secs_f64())
            .result()?;
        Ok((run, first.evaluations))
    }
}

impl<P: AnnealingPath, K: fmt::Debug> fmt::Debug for Challenge<'_, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge")
            .field("kernel", &self.kernel)
            .field("budget", &self.budget)
            .field("confidence", &self.confidence)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
