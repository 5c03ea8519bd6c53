//! The advice of `docs/guide.md`, followed without regard to the problem.
//!
//! A first pass tunes the kernel: a random walk, or five leapfrog steps. The schedule comes from `Friction`, after a
//! pilot of 100 chains and 500 stages in two rounds. Its stages double from 200 to at most 3,200 until two trial runs
//! have no warning and an ESS of a tenth of their chains. Kernel and schedule are found once per problem, with seeds of
//! their own.

use annealed::adaptive::{Rounds, RoundsRun};
use annealed::estimate::Warning;
use annealed::kernel::Tunable;
use annealed::prelude::*;

/// A path whose base has a known normaliser, with states and models that can move to another thread.
pub trait Path:
    AnnealingPath<Base: NormalizedModel, State: Clone + Send, At: Send + Sync> + Sync + Send + 'static
{
}

impl<P> Path for P where
    P: AnnealingPath<Base: NormalizedModel, State: Clone + Send, At: Send + Sync>
        + Sync
        + Send
        + 'static
{
}

pub trait Kernel<P: Path>: TransitionKernel<P::At> + Clone + Sync + Send + 'static {}

impl<P: Path, K> Kernel<P> for K where K: TransitionKernel<P::At> + Clone + Sync + Send + 'static {}

/// Leaks a path, which then lives until the program ends. So does its problem.
fn lent<P>(path: P) -> &'static P {
    Box::leak(Box::new(path))
}

#[derive(Debug, Clone)]
pub struct Outcome {
    pub log_z: f64,
    pub standard_error: f64,
    pub interval: (f64, f64),
    /// Effective sample size over the number of chains.
    pub ess_ratio: f64,
    pub skewed: bool,
    pub warnings: Vec<Warning>,
    pub seconds: f64,
}

impl Outcome {
    /// Returns true if a trial run has an ESS of at least a tenth of its chains and no warning.
    fn suffices(&self) -> bool {
        self.ess_ratio >= 0.1 && self.warnings.is_empty()
    }
}

type Runs = Box<dyn Fn(u64) -> annealed::Result<Outcome> + Sync>;

/// A problem with the path, kernel and schedule to which the advice leads.
pub struct Problem {
    pub exact: f64,
    /// Standard error of `exact`: 0 unless it is a published estimate.
    pub exact_error: f64,
    pub steps: usize,
    pub chains: usize,
    runs: Runs,
}

impl Problem {
    pub fn run(&self, seed: u64) -> annealed::Result<Outcome> {
        (self.runs)(seed)
    }

    pub fn with_error(self, exact_error: f64) -> Self {
        Self {
            exact_error,
            ..self
        }
    }
}

/// The advice, with the number of chains of a run.
#[derive(Debug, Clone, Copy)]
pub struct Advice {
    pub chains: usize,
    /// Number of stages, which replaces the advice. `None` to find it by trials.
    pub stages: Option<usize>,
    /// Smallest budget for annealing in rounds, which finds kernel and stages itself. `None` for a run of `Ais`.
    pub rounds: Option<u64>,
}

const PILOT: u64 = 0;
/// Seeds of trials. The measured runs have seeds from 1 on.
const TRIALS: [u64; 2] = [1_000_001, 1_000_002];
const STEPS: std::ops::RangeInclusive<usize> = 200..=3_200;

impl Advice {
    /// Sets up a problem without a gradient, with a random walk.
    pub fn walk<P>(&self, exact: f64, path: P) -> annealed::Result<Problem>
    where
        &'static P: Path + AnnealingPath<State = DVector<f64>>,
        RandomWalkMetropolis: Kernel<&'static P>,
    {
        let kernel = RandomWalkMetropolis::new(0.2)?;
        self.tuned(exact, lent(path), kernel)
    }

    pub fn leap<P>(&self, exact: f64, path: P) -> annealed::Result<Problem>
    where
        &'static P: Path + AnnealingPath<State = DVector<f64>>,
        Hmc: Kernel<&'static P>,
    {
        self.tuned(exact, lent(path), Hmc::new(0.1, 5)?)
    }

    fn tuned<P, K>(&self, exact: f64, path: P, kernel: K) -> annealed::Result<Problem>
    where
        P: Path + AnnealingPath<State = DVector<f64>>,
        K: Kernel<P> + Tunable,
    {
        if let Some(budget) = self.rounds {
            let chains = self.chains;
            return Ok(self.in_rounds(exact, budget, move |budget, seed| {
                let rounds = Rounds::new(path.clone(), kernel.clone()).chains(chains);
                outcome(&rounds.budget(budget).seed(seed).threads(1).run()?)
            }));
        }
        let pass = FirstPass::new(path.clone(), kernel).seed(PILOT);
        let kernel = pass.run()?.kernel;
        self.moved(exact, path, kernel)
    }

    /// Sets up a problem with a kernel that needs no tuning.
    pub fn follow<P, K>(&self, exact: f64, path: P, kernel: K) -> annealed::Result<Problem>
    where
        &'static P: Path,
        K: Kernel<&'static P>,
    {
        self.moved(exact, lent(path), kernel)
    }

    fn moved<P, K>(&self, exact: f64, path: P, kernel: K) -> annealed::Result<Problem>
    where
        P: Path,
        K: Kernel<P>,
    {
        if let Some(budget) = self.rounds {
            let chains = self.chains;
            return Ok(self.in_rounds(exact, budget, move |budget, seed| {
                let rounds = Rounds::fixed(path.clone(), kernel.clone()).chains(chains);
                outcome(&rounds.budget(budget).seed(seed).threads(1).run()?)
            }));
        }
        let chains = self.chains;
        let schedule = self.schedule(&path, &kernel)?;
        let steps = schedule.stages();
        let runs = move |seed| {
            let threads = 1; // The seeds are what is parallel.
            run(&path, &kernel, &schedule, chains, seed, Some(threads))
        };
        Ok(self.problem(exact, steps, Box::new(runs)))
    }

    /// Sets up annealing in rounds. The budget doubles, at most four times, until two trial runs suffice.
    fn in_rounds(
        &self,
        exact: f64,
        least: u64,
        run: impl Fn(u64, u64) -> annealed::Result<Outcome> + Sync + 'static,
    ) -> Problem {
        let suffices = |seed: &u64, budget| run(budget, *seed).is_ok_and(|trial| trial.suffices());
        let enough = |budget: &u64| TRIALS.iter().all(|seed| suffices(seed, *budget));
        let mut budgets = (0..4).map(|doublings| least << doublings);
        let budget = budgets.find(enough).unwrap_or(least << 4);
        self.problem(exact, 0, Box::new(move |seed| run(budget, seed)))
    }

    fn problem(&self, exact: f64, steps: usize, runs: Runs) -> Problem {
        Problem {
            exact,
            exact_error: 0.0,
            steps,
            chains: self.chains,
            runs,
        }
    }

    /// Chooses a schedule by friction, with the number of stages that the trials require.
    fn schedule<P: Path, K: Kernel<P>>(&self, path: &P, kernel: &K) -> annealed::Result<Schedule> {
        let pilot = Pilot::new(100, 500).rounds(2);
        let survey = pilot.survey(path.clone(), kernel, PILOT)?;
        if let Some(stages) = self.stages {
            return Friction::default().schedule(&survey, stages);
        }
        let mut steps = *STEPS.start();
        loop {
            let schedule = Friction::default().schedule(&survey, steps)?;
            if 2 * steps > *STEPS.end() || self.suffices(path, kernel, &schedule)? {
                return Ok(schedule);
            }
            steps *= 2;
        }
    }

    fn suffices<P: Path, K: Kernel<P>>(
        &self,
        path: &P,
        kernel: &K,
        schedule: &Schedule,
    ) -> annealed::Result<bool> {
        for seed in TRIALS {
            let trial = run(path, kernel, schedule, self.chains, seed, None)?;
            if !trial.suffices() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn run<P: Path, K: Kernel<P>>(
    path: &P,
    kernel: &K,
    schedule: &Schedule,
    chains: usize,
    seed: u64,
    threads: Option<usize>,
) -> annealed::Result<Outcome> {
    let mut ais = Ais::new(path.clone(), kernel.clone())
        .schedule(schedule.clone())
        .chains(chains)
        .seed(seed);
    if let Some(threads) = threads {
        ais = ais.threads(threads);
    }
    let run = ais.run()?;
    Ok(Outcome {
        log_z: run.log_z(),
        standard_error: run.standard_error(),
        interval: run.interval(),
        skewed: run.is_skewed(),
        ess_ratio: run.effective_sample_size() / chains as f64,
        warnings: run.warnings().to_vec(),
        seconds: run.seconds(),
    })
}

fn outcome<S, K>(ended: &RoundsRun<S, K>) -> annealed::Result<Outcome> {
    let run = ended.run();
    Ok(Outcome {
        log_z: ended.log_z(),
        standard_error: ended.standard_error(),
        interval: ended.interval(),
        skewed: ended.is_skewed(),
        ess_ratio: run.effective_sample_size() / run.chains() as f64,
        warnings: ended.warnings().to_vec(),
        seconds: ended.seconds(),
    })
}
