//! The methods, each written once for any path and kernel.

use annealed::adaptive::{FirstPass, FirstPassRun, Rounds};
use annealed::ais::Execution;
use annealed::kernel::Invariant;
use annealed::kernel::{Reversal, Tunable};
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::nested::NestedSmcRun;
use annealed::population::{Resampling, WasteFree};
use annealed::prelude::*;
use annealed::random::{Purpose, stream};
use annealed::tempering::Tempering;
use annealed::{Error, Result};
use annealed_measurements::problems::meter::Meter;
use clap::ValueEnum;
use rand::Rng;

/// A method to estimate log Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// The kernel of a first pass, a schedule by friction, chains that never interact
    Ais,
    /// Annealing in rounds
    Rounds,
    /// Sequential Monte Carlo along the stages of a first pass, in islands
    Smc,
    /// Waste-free sequential Monte Carlo, which keeps all states of the trajectories
    WasteFree,
    /// Parallel tempering, from the betas and the kernel of a first pass
    Tempering,
    /// Nested sequential Monte Carlo, through rising levels of the likelihood
    NestedSmc,
    /// Runs from both ends, joined by Bennett's estimate, where the target can be sampled
    Bar,
}

#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Density evaluations, pilots and tuning included.
    pub budget: u64,
    pub seed: u64,
    pub threads: usize,
}

pub struct Outcome {
    pub log_z: f64,
    pub standard_error: f64,
    pub warnings: Vec<Warning>,
    /// The barrier Lambda, if the method estimates it.
    pub barrier: Option<f64>,
}

impl Outcome {
    fn of(result: &dyn LogZ, barrier: Option<f64>) -> Self {
        Self {
            log_z: result.log_z(),
            standard_error: result.standard_error(),
            warnings: result.warnings().to_vec(),
            barrier,
        }
    }
}

/// Function that draws exact samples of a target, given their number and a seed.
pub type Samples<S> = Option<Box<dyn Fn(usize, u64) -> Result<Vec<S>>>>;

/// Number of independent populations behind the standard error of interacting chains.
const ISLANDS: u64 = 32;
/// Chains of a first pass, of annealing in rounds, and of runs without interaction.
const CHAINS: usize = 256;
/// Moves at each stage of rounds, of sequential Monte Carlo and of a first pass.
const MOVES: usize = 3;

pub struct Task<'p, P: AnnealingPath, K> {
    path: P,
    kernel: K,
    terms: Terms,
    meter: &'p Meter,
    rounds: fn(P, K) -> Rounds<'p, P, K>,
    first_pass: fn(P, K) -> FirstPass<'p, P, K>,
}

impl<'p, P, K> Task<'p, P, K>
where
    P: AnnealingPath<Base: NormalizedModel, State: Clone + Send, At: Send + Sync> + Send + Sync,
    K: Invariant<P::At> + Clone + Send + Sync,
{
    /// Creates a task with a kernel over vectors, which each method tunes.
    pub fn tuned(path: P, kernel: K, terms: Terms, meter: &'p Meter) -> Self
    where
        P: AnnealingPath<State = DVector<f64>>,
        K: Tunable,
    {
        Self {
            rounds: Rounds::new,
            first_pass: FirstPass::new,
            path,
            kernel,
            terms,
            meter,
        }
    }

    /// Creates a task with a fixed kernel, over any state.
    pub fn fixed(path: P, kernel: K, terms: Terms, meter: &'p Meter) -> Self {
        Self {
            rounds: Rounds::fixed,
            first_pass: FirstPass::fixed,
            path,
            kernel,
            terms,
            meter,
        }
    }

    /// Runs any method except `NestedSmc` and `Bar`, which need more than a path and a kernel.
    pub fn solve(self, method: Method) -> Result<Outcome> {
        match method {
            Method::Ais => self.ais(),
            Method::Rounds => self.rounds(),
            Method::Smc => self.smc(),
            Method::WasteFree => self.waste_free(),
            Method::Tempering => self.tempering(),
            Method::NestedSmc => Err(refused("levels", "a likelihood over a prior")),
            Method::Bar => Err(refused("bar", "exact samples of the target")),
        }
    }

    fn ais(self) -> Result<Outcome> {
        let kernel = self.first_pass()?.kernel;
        let schedule = self.schedule_by_advice(&kernel)?;
        let run = self.run(kernel, schedule, CHAINS).run()?;
        Ok(Outcome::of(&run, None))
    }

    /// Chooses a schedule by friction, with as many stages as the budget allows.
    fn schedule_by_advice(&self, kernel: &K) -> Result<Schedule> {
        const PILOT: u64 = 100;
        let each = self.evaluations(&self.kernel) as u64;
        let steps = self.terms.budget / 10 / (2 * PILOT * each);
        let pilot = Pilot::new(PILOT as usize, steps.clamp(20, 1_000) as usize).rounds(2);
        let by = Execution::new().threads(self.terms.threads);
        let survey = pilot.survey_by(self.path.clone(), kernel, self.terms.seed, &by)?;
        let stages = self.left()? / (CHAINS as u64 * each);
        Friction::default().schedule(&survey, stages.max(1) as usize)
    }

    fn evaluations(&self, kernel: &impl TransitionKernel<P::At>) -> usize {
        let dimension = self.path.base().state_dimension();
        kernel.evaluations(dimension.unwrap_or(1))
    }

    /// Returns the rest of the budget. Fails if more than half is spent.
    fn left(&self) -> Result<u64> {
        let (budget, spent) = (self.terms.budget, self.meter.spent());
        afford(budget, 2 * spent)?;
        Ok(budget - spent)
    }

    fn run<T: TransitionKernel<P::At>>(
        &self,
        kernel: T,
        schedule: Schedule,
        chains: usize,
    ) -> Ais<'_, P, T> {
        Ais::new(self.path.clone(), kernel)
            .schedule(schedule)
            .chains(chains)
            .seed(self.terms.seed)
            .threads(self.terms.threads)
    }

    fn rounds(self) -> Result<Outcome> {
        let rounds = (self.rounds)(self.path, self.kernel);
        let rounds = rounds.chains(CHAINS).moves(MOVES);
        let rounds = rounds.budget(self.terms.budget).seed(self.terms.seed);
        let rounds = rounds.threads(self.terms.threads).run()?;
        Ok(Outcome::of(&rounds, Some(rounds.barrier().global())))
    }

    fn first_pass(&self) -> Result<FirstPassRun<K>> {
        let pass = (self.first_pass)(self.path.clone(), self.kernel.clone());
        let pass = pass.chains(CHAINS).moves(MOVES);
        pass.seed(self.terms.seed).run()
    }

    fn smc(self) -> Result<Outcome> {
        let first = self.first_pass()?;
        let kernel = Repeat::new(first.kernel, MOVES)?;
        let block = self.block(first.schedule.stages() * self.evaluations(&kernel))?;
        let run = self.run(kernel, first.schedule, block * ISLANDS as usize);
        let run = run.block_size(block).resampling(Resampling::every(1)?);
        Ok(Outcome::of(&run.run()?, Some(first.barrier.global())))
    }

    /// Runs waste-free SMC. The number of trajectories equals the number of states in each.
    fn waste_free(self) -> Result<Outcome> {
        let first = self.first_pass()?;
        let block = self.block(first.schedule.stages() * self.evaluations(&first.kernel))?;
        let ancestors = (block as f64).sqrt().round() as usize;
        let run = self.run(first.kernel, first.schedule, block * ISLANDS as usize);
        let run = run.block_size(block).waste_free(WasteFree::new(ancestors)?);
        Ok(Outcome::of(&run.run()?, Some(first.barrier.global())))
    }

    /// Returns the number of chains of an island if each chain spends `evaluations`.
    fn block(&self, evaluations: usize) -> Result<usize> {
        let each = ISLANDS * evaluations as u64;
        afford(self.left()?, 8 * each)?;
        Ok((self.left()? / each) as usize)
    }

    /// Runs parallel tempering, with twice the barrier of a first pass as the number of pairs of betas. 8 ladders must
    /// afford the number of rounds. The rest of the budget pays for more ladders.
    fn tempering(self) -> Result<Outcome> {
        let first = self.first_pass()?;
        let barrier = first.barrier.global() / std::f64::consts::PI.sqrt();
        let pairs = (2.0 * barrier).ceil().max(3.0) as usize;
        let scan = (pairs * self.evaluations(&first.kernel)) as u64;
        let scans = self.left()? / (8 * scan);
        // Scans double from round to round; all rounds together have 2^(rounds + 1) - 2.
        let rounds = (scans / 2 + 1).max(2).ilog2();
        let ladders = self.left()? / (scan * ((2u64 << rounds) - 2));
        let run = Tempering::new(self.path, first.kernel)
            .schedule(first.barrier.schedule(pairs)?)
            .ladders(ladders.max(2) as usize)
            .rounds(rounds as usize)
            .seed(self.terms.seed)
            .threads(self.terms.threads)
            .run()?;
        Ok(Outcome::of(&run, Some(run.barrier())))
    }

    /// Runs any method except `NestedSmc`, with exact samples of the target if there are any.
    pub fn solve_with(self, method: Method, samples: &Samples<P::State>) -> Result<Outcome>
    where
        P::State: Sync,
        K: Reversal<P::At>,
    {
        match samples {
            Some(samples) if method == Method::Bar => self.bar(samples),
            _ => self.solve(method),
        }
    }

    /// Runs forward, and backward from exact samples, at equal cost. The kernel comes from a first pass, and
    /// the stages have equal intensity.
    fn bar(self, samples: impl Fn(usize, u64) -> Result<Vec<P::State>>) -> Result<Outcome>
    where
        P::State: Sync,
        K: Reversal<P::At>,
    {
        let first = self.first_pass()?;
        let stages = self.left()? / (2 * CHAINS * self.evaluations(&first.kernel)) as u64;
        let schedule = first.barrier.schedule(stages.max(1) as usize)?;
        let samples = TargetSamples::exact(samples(CHAINS, self.terms.seed)?);
        let ais = self.run(first.kernel, schedule, CHAINS);
        let bridge = Bridge::new(&ais.run()?, &ais.reverse(&samples)?)?;
        Ok(Outcome::of(&bridge, None))
    }
}

/// Runs nested SMC. Two small runs, the second on a tenth of the budget, measure the cost of moving a chain through
/// all levels and the number of levels.
pub fn levels<P, L>(problem: &TemperedPath<P, L>, terms: Terms, meter: &Meter) -> Result<Outcome>
where
    P: Sampleable<State = DVector<f64>> + Sync,
    L: UnnormalizedModel<State = DVector<f64>> + Sync,
{
    let mut seeds = stream(terms.seed, Purpose::PILOT, 0);
    let (mut size, mut most) = ([2, 8, 25], 1_000);
    for share in [0.1, 1.0] {
        let before = meter.spent();
        let pilot = leveled(problem, size, most, terms, seeds.next_u64())?;
        // One island more than `size[0]`, because one looks for the levels.
        let moves = (size[0] + 1) * size[1] * size[2];
        let each = (meter.spent() - before).div_ceil(moves);
        let each = (ISLANDS + 1) * each;
        let left = terms.budget.saturating_sub(meter.spent());
        afford(left, 200 * each)?;
        // A larger run finds more levels.
        let moves = (share / 1.3 * left as f64) as u64 / each;
        let chains = ((moves as f64 / 3.0).sqrt() as u64).max(4);
        size = [ISLANDS, chains, (moves / chains).max(5)];
        most = (pilot.levels().len() * 3).div_ceil(2);
    }
    let run = leveled(problem, size, most, terms, terms.seed)?;
    Ok(Outcome::of(&run, None))
}

/// Runs nested SMC with `islands`, `chains` and `moves`, through at most `most` levels.
fn leveled<P, L>(
    problem: &TemperedPath<P, L>,
    [islands, chains, moves]: [u64; 3],
    most: usize,
    terms: Terms,
    seed: u64,
) -> Result<NestedSmcRun<DVector<f64>>>
where
    P: Sampleable<State = DVector<f64>> + Sync,
    L: UnnormalizedModel<State = DVector<f64>> + Sync,
{
    NestedSmc::new(problem, RandomWalkMetropolis::new(0.3)?)
        .islands(islands as usize)
        .chains(chains as usize)
        .moves(moves as usize)
        .max_levels(most)
        .seed(seed)
        .threads(terms.threads)
        .run()
}

fn afford(budget: u64, least: u64) -> Result<()> {
    match budget >= least {
        true => Ok(()),
        false => Err(Error::invalid(
            "budget",
            budget,
            format!("at least {least}"),
        )),
    }
}

fn refused(method: &str, needs: &str) -> Error {
    Error::invalid("--method", method, format!("another one: it needs {needs}"))
}
