//! The first pass of adaptive annealing.

use super::adaptation::{Adaptation, Adapted, BLOCK};
use super::conditional_ess::{lost, next_stage, stages_left};
use super::covariance::Shapes;
use super::intensity::Barrier;
use super::tuner::Tuning;
use crate::ais::{Populations, Resampling};
use crate::kernel::TransitionKernel;
use crate::path::{AnnealingPath, dimension};
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Relative error of a stage's distance that is small enough.
const PRECISION: f64 = 0.1;
/// Stages after which the first pass gives up.
const LIMIT: usize = 100_000;

/// Told of each stage that is passed: how many these are, and how many are left.
pub(super) type Passed<'s> = &'s (dyn Fn(usize, usize) -> Result<()> + Sync);

/// A first pass on its way.
pub(super) struct Pass<'s, 'p, P: AnnealingPath, K: TransitionKernel<P::At<'p>>> {
    settings: &'s Adaptation<'p, P, K>,
    populations: Populations<'p, P, K::Workspace>,
    tuning: Option<Tuning<K, P::State>>,
    resampling: Resampling,
    betas: Vec<f64>,
    intensities: Vec<f64>,
    /// Length in beta of the last stage.
    length: f64,
    /// Evaluations of each chain.
    evaluations: usize,
}

impl<'s, 'p, P, K> Pass<'s, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Sync,
    P::At<'p>: Send + Sync,
    K: TransitionKernel<P::At<'p>> + Clone + Send + Sync,
{
    pub(super) fn run(
        settings: &'s Adaptation<'p, P, K>,
        passed: Passed<'_>,
    ) -> Result<Adapted<K>> {
        let mut pass = Self::start(settings)?;
        while pass.populations.beta() < 1.0 {
            pass.stage()?;
            let left = stages_left(pass.populations.beta(), pass.length).min(LIMIT);
            passed(pass.betas.len() - 1, left)?;
        }
        if pass.tuning.is_some() {
            pass.populations.check_model(&settings.kernel, &[1.0])?;
        }
        pass.finish()
    }

    /// At the base. A kernel is tuned there with twice the moves, since its step size may be far off.
    fn start(settings: &'s Adaptation<'p, P, K>) -> Result<Self> {
        let first = stream(settings.seed, Purpose::Adaptation, 0);
        let populations = Populations::start(settings.path, 0..settings.chains, BLOCK, first)?;
        let kernel = &settings.kernel;
        let mut pass = Self {
            settings,
            populations,
            tuning: settings.tuner.map(|tuner| Tuning::new(tuner, kernel)),
            resampling: Resampling::every(1)?,
            betas: vec![0.0],
            intensities: Vec::new(),
            length: 1e-3,
            evaluations: 0,
        };
        if pass.tuning.is_some() {
            pass.populations.check_model(kernel, &[1.0, 0.0])?;
            pass.shape()?;
            pass.move_chains(2 * settings.moves)?;
        }
        Ok(pass)
    }

    /// Finds the next beta, weighs, resamples and moves.
    fn stage(&mut self) -> Result<()> {
        let beta = self.populations.beta();
        let share = (1.0 - self.lost()?) * self.settings.ess_share;
        let distance = (1.0 / share - 1.0).sqrt();
        let (next, covered, trials) =
            next_stage(&mut self.populations, self.length, distance, PRECISION)?;
        self.populations
            .map(|population| population.weigh_to(next))?;
        self.check_progress()?;
        self.evaluations = self.evaluations.saturating_add(trials + 1);
        self.betas.push(next);
        self.intensities.push(covered.powi(2).ln_1p().sqrt());
        self.length = next - beta;
        self.shape()?;
        self.populations.resample(&self.resampling, P::State::clone);
        self.move_chains(self.settings.moves)
    }

    /// The share of the chains at the base that are off the support of any further model, however near: a
    /// likelihood of 0 excludes them at once.
    fn lost(&mut self) -> Result<f64> {
        if self.betas.len() > 1 {
            return Ok(0.0);
        }
        let path = self.settings.path;
        let (here, next) = (path.at(0.0), path.at(f64::MIN_POSITIVE));
        let populations = &mut self.populations;
        let lost = populations.map(|population| Ok(lost(population.block(), &here, &next)))?;
        Ok(lost.into_iter().sum::<usize>() as f64 / self.settings.chains as f64)
    }

    /// Refuses chains that are all dead, and stages without end.
    fn check_progress(&self) -> Result<()> {
        if self.populations.alive() == 0 {
            return Err(Error::AllWeightsZero {
                chains: self.settings.chains,
            });
        }
        if self.betas.len() > LIMIT {
            return Err(Error::NotConverged {
                what: "adaptive annealing",
                detail: format!("the target was not reached in {LIMIT} stages"),
            });
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
        let evaluations = moves.saturating_mul(kernel.evaluations(dimension(self.settings.path)));
        self.evaluations = self.evaluations.saturating_add(evaluations);
        match &mut self.tuning {
            Some(tuning) => tuning.moves(populations, moves),
            None => (0..moves).try_for_each(|_| populations.stay(kernel).map(drop)),
        }
    }

    fn finish(self) -> Result<Adapted<K>> {
        let log_ratio = self.populations.weights().log_mean();
        let (settings, chains) = (self.settings, self.settings.chains as u64);
        let (kernel, shapes) = match self.tuning {
            Some(tuning) => tuning.finish()?,
            None => (settings.kernel.clone(), Shapes::default()),
        };
        Ok(Adapted {
            schedule: Schedule::new(self.betas.clone())?,
            kernel,
            shapes,
            barrier: Barrier::new(self.betas, self.intensities),
            log_z: settings.log_base_normalizer + log_ratio,
            evaluations: (self.evaluations as u64).saturating_mul(chains),
            seconds: 0.0,
        })
    }
}
