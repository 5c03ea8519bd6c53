//! The work of a first pass: chains that choose each stage when they reach it.

use std::ops::Range;
use std::time::Instant;

use super::barrier::Barrier;
use super::covariance::Shapes;
use super::first_pass::{FirstPass, FirstPassRun};
use super::tuner::Tuning;
use crate::error::short;
use crate::kernel::{TransitionKernel, refuse_stages};
use crate::path::{AnnealingPath, dimension};
use crate::pilot::{lost, next_stage, stages_left};
use crate::population::{DatumOf, Populations, Resampling};
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::{Format, Halt, Job, Place, Pulse, Single, Stepped, Task};
use crate::{Error, Result};

/// Number of stages after which the first pass ends in an error. It only bounds time and memory: at an ESS share of .5
/// it is a barrier of 8,300, for which later rounds would need some 7e7 stages.
pub(super) const MOST_STAGES: usize = 10_000;

/// A first pass under way.
pub(super) struct FirstPassAtWork<'s, 'p, P: AnnealingPath, K: TransitionKernel<P::At>> {
    pub(super) settings: &'s FirstPass<'p, P, K>,
    populations: Populations<P>,
    tuning: Option<Tuning<K, P::State>>,
    resampling: Resampling,
    betas: Vec<f64>,
    intensities: Vec<f64>,
    /// Difference between the betas of the last stage.
    length: f64,
    /// Number of evaluations per chain so far.
    evaluations: usize,
    /// Number of evaluations in checks of the model.
    of_checks: usize,
}

impl<'s, 'p, P, K> FirstPassAtWork<'s, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Starts chains at the base.
    pub(super) fn start(settings: &'s FirstPass<'p, P, K>) -> Result<Self> {
        let first = stream(settings.seed, Purpose::FIRST_PASS, 0);
        let (path, chains) = (settings.path.clone(), 0..settings.chains);
        let populations = Populations::start(path, chains, settings.block_size, first)?;
        let kernel = &settings.kernel;
        Ok(Self {
            settings,
            populations,
            tuning: settings.tuner.map(|tuner| Tuning::new(tuner, kernel)),
            resampling: Resampling::every(1)?,
            betas: vec![0.0],
            intensities: Vec::new(),
            // A guess, with which the search for the first stage begins.
            length: 1e-3,
            evaluations: 0,
            of_checks: 0,
        })
    }

    /// Lets the kernel check the models at `betas`.
    pub(super) fn check_model(&mut self, betas: &[f64]) -> Result<()> {
        self.of_checks += self.populations.check_model(&self.settings.kernel, betas)?;
        Ok(())
    }

    /// Goes to the target. With `checks` the kernel checks the model before the first move and after the last.
    pub(super) fn go(
        &mut self,
        allowance: u64,
        later: Option<Later<'_>>,
        checks: bool,
        pulse: &mut Pulse<'_>,
        is_last: bool,
    ) -> Result<(), Halt> {
        if checks {
            self.check_model(&[1.0, 0.0])?;
        }
        self.arrive(allowance, later, pulse, is_last)?;
        if checks {
            self.check_model(&[1.0])?;
        }
        Ok(())
    }

    /// Goes to the target. A tuned kernel first makes twice as many moves at the base, since its step size may be far
    /// off. When `allowance` evaluations are spent, one stage leads to the target. `later` forecasts the later
    /// chain-steps.
    pub(super) fn arrive(
        &mut self,
        allowance: u64,
        later: Option<Later<'_>>,
        pulse: &mut Pulse<'_>,
        is_last: bool,
    ) -> Result<(), Halt> {
        let of_stage = self.of_stage();
        if self.tuning.is_some() {
            self.shape()?;
            self.move_chains(2 * self.settings.moves)?;
            let cost = of_stage.saturating_mul(2);
            pulse.pass(Stepped {
                cost,
                is_last: false,
                left: None,
            })?;
        }
        self.learn()?;
        while self.beta() < 1.0 {
            pulse.at(self.place());
            match self.evaluations() < allowance {
                true => self.stage()?,
                false => self.leap()?,
            }
            let left = later.map(|later| {
                let left = stages_left(self.beta(), self.length).min(MOST_STAGES);
                let later = later(self.betas.len() - 1 + left);
                of_stage.saturating_mul(left as u64).saturating_add(later)
            });
            let is_last = is_last && self.beta() >= 1.0;
            pulse.pass(Stepped {
                cost: of_stage,
                is_last,
                left,
            })?;
        }
        Ok(())
    }

    /// Returns the number of chain-steps in the moves of a stage.
    pub(super) fn of_stage(&self) -> u64 {
        (self.settings.chains as u64).saturating_mul(self.settings.moves as u64)
    }

    fn stage(&mut self) -> Result<()> {
        let beta = self.populations.beta();
        // Lost chains die in the first stage, however short it is. The other chains determine its length.
        let share = (1.0 - self.lost()?) * self.settings.ess_share;
        // ESS / N = 1 / (1 + d^2), with d the coefficient of variation of the weights.
        let distance = (1.0 / share - 1.0).sqrt();
        let datum_of = self.datum_of();
        let found = next_stage(&mut self.populations, self.length, distance, datum_of)?;
        let next = found.beta;
        self.populations
            .map(&|population| population.weigh_to(next))?;
        self.check_progress()?;
        self.evaluations = self.evaluations.saturating_add(found.evaluations);
        self.betas.push(next);
        // The squared intensity is -log(CESS / N), and CESS / N = 1 / (1 + d^2).
        self.intensities.push(found.distance.powi(2).ln_1p().sqrt());
        self.length = next - beta;
        // The covariance comes from the weighted chains, because resampling adds noise.
        self.shape()?;
        self.resample()?;
        self.move_chains(self.settings.moves)
    }

    /// Weights the chains for the target and resamples them, without a move. The barrier counts the rest of the path as
    /// several stages, each with the length and intensity of the last stage.
    fn leap(&mut self) -> Result<()> {
        let left = stages_left(self.beta(), self.length).min(MOST_STAGES) as f64;
        self.populations
            .map(&|population| population.weigh_to(1.0))?;
        self.check_progress()?;
        self.betas.push(1.0);
        self.intensities
            .push(left * self.intensities.last().unwrap_or(&1.0));
        self.resample()
    }

    fn resample(&mut self) -> Result<()> {
        let datum_of = self.datum_of();
        let populations = &mut self.populations;
        populations.resample(&self.resampling, P::State::clone, datum_of)
    }

    /// Returns the function that returns a state's datum, if data are kept apart.
    fn datum_of(&self) -> Option<DatumOf<P::State>> {
        self.settings.tuner.and_then(|tuner| tuner.datum_of())
    }

    fn beta(&self) -> f64 {
        self.populations.beta()
    }

    /// Returns the range of all chains, the index of the current stage and its beta.
    fn place(&self) -> Place {
        (0..self.settings.chains, self.betas.len() - 1, self.beta())
    }

    /// Returns the evaluations of all chains so far.
    pub(super) fn evaluations(&self) -> u64 {
        let of_chains = (self.evaluations as u64).saturating_mul(self.settings.chains as u64);
        of_chains.saturating_add(self.of_checks as u64)
    }

    /// Returns the states.
    pub(super) fn states(&self) -> Vec<P::State> {
        let states = self.populations.blocks().flat_map(|block| block.states());
        states.cloned().collect()
    }

    /// Evaluates the target at the states at the base. The next stage would make this evaluation.
    fn learn(&mut self) -> Result<()> {
        match self.populations.learn()? {
            // The moves at the base did not evaluate the target.
            Some(true) => self.evaluations = 1,
            Some(false) => self.evaluations += 1,
            None => {}
        }
        Ok(())
    }

    /// Returns the share of the chains at the base that are off the support of every further model.
    fn lost(&mut self) -> Result<f64> {
        if self.betas.len() > 1 {
            return Ok(0.0);
        }
        let path = &self.settings.path;
        let (here, next) = (path.at(0.0), path.at(f64::MIN_POSITIVE));
        let populations = &mut self.populations;
        let lost = populations.map(&|population| Ok(lost(population.block(), &here, &next)))?;
        Ok(lost.into_iter().sum::<usize>() as f64 / self.settings.chains as f64)
    }

    fn check_progress(&self) -> Result<()> {
        let chains = self.settings.chains;
        if self.populations.alive() == 0 {
            return Err(Error::AllWeightsZero { chains });
        }
        let (stages, beta, length) = (self.intensities.len(), self.beta(), self.length);
        // Between chains the tempered log densities differ by some `beta / length` nats.
        let runs_off = 1e5 * length < beta.min(1.0 - beta);
        if stages >= MOST_STAGES || stages >= MOST_STAGES / 10 && runs_off {
            let detail = format!(
                "{stages} stages did not reach the target (at beta = {} they are {length:.0e} long): it may have no finite \
                 integral (as by a likelihood without an upper bound), or the base is too far from it",
                short(beta)
            );
            let what = "annealing from the base to the target";
            return Err(Error::NotConverged { what, detail });
        }
        Ok(())
    }

    fn shape(&mut self) -> Result<()> {
        let populations = &mut self.populations;
        let tuning = self.tuning.as_mut();
        tuning.map_or(Ok(()), |tuning| tuning.shape(populations))
    }

    fn move_chains(&mut self, moves: usize) -> Result<()> {
        let (populations, kernel) = (&mut self.populations, &self.settings.kernel);
        let evaluations = moves.saturating_mul(kernel.evaluations(dimension(&self.settings.path)));
        self.evaluations = self.evaluations.saturating_add(evaluations);
        match &mut self.tuning {
            Some(tuning) => tuning.moves(populations, moves),
            None => (0..moves).try_for_each(|_| populations.stay(kernel).map(drop)),
        }?;
        // The first state was evaluated without its gradient before.
        let is_first = self.betas.len() == 2 && self.populations.keep_gradients();
        self.evaluations += usize::from(is_first);
        Ok(())
    }

    /// Returns the result of the pass. A population that goes on has a new one.
    pub(super) fn finish(&self) -> Result<FirstPassRun<K>> {
        let settings = self.settings;
        let log_ratio = self.populations.weights().log_mean();
        let (kernel, shapes) = match &self.tuning {
            Some(tuning) => tuning.clone().finish()?,
            None => (settings.kernel.clone(), Shapes::default()),
        };
        let (betas, intensities) = (self.betas.clone(), self.intensities.clone());
        Ok(FirstPassRun {
            schedule: Schedule::new(betas.clone())?,
            kernel,
            shapes,
            barrier: Barrier::new(betas, intensities),
            log_z: settings.base_log_z + log_ratio,
            evaluations: self.evaluations(),
            seconds: 0.0,
        })
    }
}

impl<'p, P, K> FirstPass<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Runs the pass as a part of longer work. `later` maps its number of stages to the later chain-steps.
    pub(crate) fn run_with(&self, job: &mut Job<'_>, later: Later<'_>) -> Result<FirstPassRun<K>> {
        Ok(self.arrive(job, None, later, None)?.found)
    }

    /// Runs the pass. If `smaller` gives a number of evaluations and the pass spends it, runs the pass of `smaller`
    /// instead.
    pub(super) fn arrive(
        &self,
        job: &mut Job<'_>,
        format: Option<PassFormat<P::State, K>>,
        later: Later<'_>,
        smaller: Option<(u64, &Self)>,
    ) -> Result<Arrived<P::State, K>> {
        self.check()?;
        refuse_stages(self.kernel.stages())?;
        let begun = Instant::now();
        let task = self.task(smaller, later);
        let closed = job.run(&task, format)?;
        let Single(mut arrived) = closed.whole(self.chains)?;
        arrived.found.seconds = begun.elapsed().as_secs_f64();
        Ok(arrived)
    }

    /// Runs the pass as a part of a task, or the pass of `smaller`, as [`arrive`](Self::arrive) does.
    pub(super) fn within(
        &self,
        smaller: Option<(u64, &Self)>,
        later: Later<'_>,
        pulse: &mut Pulse<'_>,
    ) -> Result<Arrived<P::State, K>, Halt> {
        self.check()?;
        refuse_stages(self.kernel.stages())?;
        let Single(arrived) = self.task(smaller, later).run(0, pulse)?;
        Ok(arrived)
    }

    fn task<'s>(
        &'s self,
        smaller: Option<(u64, &'s Self)>,
        later: Later<'s>,
    ) -> FirstPassTask<'s, 'p, P, K> {
        FirstPassTask {
            settings: self,
            allowance: smaller.map_or(u64::MAX, |(allowance, _)| allowance),
            smaller: smaller.map(|(_, smaller)| smaller),
            checks: true,
            later: Some(later),
        }
    }

    /// Runs the pass, and leaves forecasts to its caller. The kernel checks the model if `checks` is true. After
    /// `allowance` evaluations, one stage leads to the target.
    pub(super) fn scout(
        &self,
        allowance: u64,
        checks: bool,
        job: &Job<'_>,
    ) -> Result<Arrived<P::State, K>> {
        let task = FirstPassTask {
            settings: self,
            allowance,
            smaller: None,
            checks,
            later: None,
        };
        let Single(arrived) = job.complete(&task)?.whole(self.chains)?;
        Ok(arrived)
    }
}

/// The first pass of adaptive annealing. An interrupted pass begins anew.
struct FirstPassTask<'s, 'p, P: AnnealingPath, K> {
    settings: &'s FirstPass<'p, P, K>,
    /// Number of evaluations that the pass may spend. Afterwards, one stage leads to the target.
    allowance: u64,
    /// The pass to make in place of one that spends this number. It has fewer chains.
    smaller: Option<&'s FirstPass<'p, P, K>>,
    /// Whether the kernel checks the model.
    checks: bool,
    /// Function that forecasts the later chain-steps. Without it the pass leaves forecasts to its caller.
    later: Option<Later<'s>>,
}

/// A function from the number of stages of a first pass to the chain-steps after it.
pub(crate) type Later<'s> = &'s (dyn Fn(usize) -> u64 + Sync);

/// The format of the output of a first pass.
pub(crate) type PassFormat<S, K> = Format<Single<Arrived<S, K>>>;

/// The chains of a first pass at the target, and the result of the pass.
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Arrived<S, K> {
    pub(super) states: Vec<S>,
    pub(super) found: FirstPassRun<K>,
    /// Number of evaluations of a pass with too many chains for the budget.
    pub(super) in_vain: u64,
}

impl<'s, 'p, P, K> Task for FirstPassTask<'s, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    type Output = Single<Arrived<P::State, K>>;

    fn chains(&self, _block: usize) -> Range<usize> {
        0..self.settings.chains
    }

    fn run(&self, _block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt> {
        let mut at = FirstPassAtWork::start(self.settings)?;
        let is_last = self.smaller.is_none();
        at.go(self.allowance, self.later, self.checks, pulse, is_last)?;
        let mut in_vain = 0;
        if let Some(smaller) = self.smaller
            && at.evaluations() >= self.allowance
        {
            in_vain = at.evaluations();
            at = FirstPassAtWork::start(smaller)?;
            at.go(u64::MAX, self.later, self.checks, pulse, true)?;
        }
        Ok(Single(Arrived {
            found: at.finish()?,
            states: at.states(),
            in_vain,
        }))
    }

    fn width(&self) -> usize {
        self.settings.chains.div_ceil(self.settings.block_size)
    }
}
