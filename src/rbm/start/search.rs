//! The search for a base: pilots from several bases, their modes, and bases refitted to what the pilots found.

use std::time::Instant;

use rand::Rng;

use crate::ais::{Ais, Run};
use crate::num::{SimdLevel, setters};
use crate::random::{Purpose, StreamRng, stream};
use crate::rbm::base_rate::draw;
use crate::rbm::lower_bound::{Configuration, most_configurations};
use crate::rbm::start::pool::{Drawn, pool};
use crate::rbm::start::{self, CONFIDENCE, ERRORS, best, hash, reference};
use crate::rbm::{BaseRate, BlockGibbs, Candidate, LogZBound, Rbm, RbmPath, Scalar, Start};
use crate::schedule::Schedule;
use crate::work::{Counts, Execution, Job, StoppedBy, controls, in_pool};
use crate::{Error, Result};

/// A search for the base from which a run finds the mass of an RBM.
///
/// From the data's base rates, chains may pass by nearly all of Z, and no figure of that run shows it. The search tries several
/// bases, each by a short pilot run with random streams of its own:
///
/// 1. the [`given`](Self::given) base (or else that of [mean fields](BaseRate::mean_field)) and fair coins;
/// 2. a mixture of both with the mean-field modes to which the pilots' final states lead;
/// 3. bases refitted to the model: one product of Bernoullis with the means of the visible units, and a mixture of up to
///    16, fitted by EM. The samples of the model are the hidden configurations that a
///    [search](Rbm::lower_bound) found, by their exact masses, and what the pilots' weighted states add to them;
/// 4. the better one of these, refitted again.
///
/// Chosen is the base of the highest `log Z^ - 3 SE` (2 for the first), where no estimate counts for more than that with
/// the highest certified bound; modes are not. Where the given base has an effective sample size above half of its chains, and
/// no bound is above it, it is chosen at once. Pilots take at most half of the chain-steps of the run, which starts afresh, so
/// that its Z^ is unbiased.
///
/// ```
/// use annealed::prelude::*;
///
/// let images = annealed::data::digits().images;
/// let rbm = Rbm::<f32>::from_data(8, &images, 1)?;
/// let rbm = ContrastiveDivergence::new(1).epochs(2).train(rbm, &images)?.rbm;
/// let start = StartSearch::new(256, 500).given(BaseRate::from_data(8, &images, 1.0)?).run(&rbm)?;
/// let path = RbmPath::new(start.base().clone(), rbm.clone())?;
/// let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(500)?).chains(256).run()?;
/// println!("{start}{run}");
/// assert!(start.warnings_of(&run).is_empty());
/// assert!((run.log_z() - rbm.exact_log_normalizer()?).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[must_use]
pub struct StartSearch<'p, T: Scalar = f32> {
    chains: usize,
    stages: usize,
    given: Option<BaseRate<T>>,
    seed: u64,
    engine: Option<SimdLevel>,
    execution: Execution<'p>,
}

/// The largest number of candidates.
const CANDIDATES: f64 = 6.0;
/// Chains of a pilot: a quarter of those of the run, within these limits.
const CHAINS: [usize; 2] = [32, 512];
/// Chains of a block of a pilot, within these limits.
const BLOCK: [usize; 2] = [32, 128];
/// Stages of the pilots, as shares of those of the run.
const OF_GIVEN: f64 = 0.375;
const OF_COINS: f64 = 0.125;
const OF_MODES: f64 = 0.25;
const OF_REFITTED: f64 = 0.375;
const OF_LAST: f64 = 0.5;
/// Starts at fair coins, and states of each pilot, from which modes are sought.
const STARTS: usize = 16;
/// Modes in a base of modes, and their part of its mass; the rest is that of the first two bases.
const MODES: usize = 12;
const PART_OF_MODES: f64 = 0.6;
const PART_OF_COINS: f64 = 0.1;
/// Rates of the components at modes stay within this of 0 and 1.
const MODE_RATE: f64 = 0.02;
/// A mode whose bound is so many nats lower has a share smaller by e, down to the least share of the best one's.
const MODE_SCALE: f64 = 4.0;
const LEAST_SHARE: f64 = 0.02;
/// Names of the fitted bases, and the most components that they may have.
const ONE: (&str, usize) = ("refitted", 1);
const MANY: (&str, usize) = ("mixture", 16);
/// Effective samples for each component of a fitted base.
const SAMPLES: f64 = 4.0;
/// The part of a refitted base that the first base keeps, as a defence.
const DEFENCE: f64 = 0.1;

impl<'p, T: Scalar> StartSearch<'p, T> {
    /// Begins a search for a run of so many chains and stages: those of the [`Ais`] that follows. Pilots are shares of them.
    pub fn new(chains: usize, stages: usize) -> Self {
        Self {
            chains,
            stages,
            given: None,
            seed: 0,
            engine: None,
            execution: Execution::default(),
        }
    }

    /// Sets the base to try first: the data's base rates, for example, or the start of an earlier search.
    pub fn given(mut self, base: BaseRate<T>) -> Self {
        self.given = Some(base);
        self
    }

    setters! {
        /// The seed; 0 unless set. One seed gives the same bits for any number of threads.
        seed: u64,
    }

    /// Sets the engine of the pilots; the best one of the machine unless set. Another one may choose another base.
    pub fn simd_level(mut self, engine: impl Into<Option<SimdLevel>>) -> Self {
        self.engine = engine.into();
        self
    }

    controls! { 'p, "There is no result then: an [`Error::Stopped`]." }

    /// Searches.
    ///
    /// # Errors
    /// No chains, stages or threads; a given base of other units than the RBM's; what a run along an [`RbmPath`] meets;
    /// [`Error::Stopped`] where the callback says so.
    pub fn run(&self, rbm: &Rbm<T>) -> Result<Start<T>> {
        Error::check_count("chains", self.chains, 1)?;
        Error::check_at_least("stages", self.stages, 1)?;
        let begun = Instant::now();
        let mut start = self.pilots(rbm)?.search()?;
        start.seconds = begun.elapsed().as_secs_f64();
        Ok(start)
    }

    fn pilots<'s>(&'s self, rbm: &'s Rbm<T>) -> Result<Pilots<'s, T>> {
        let chains = (self.chains / 4).clamp(CHAINS[0], CHAINS[1]);
        let scale = (self.chains as f64 / (4 * chains) as f64).min(1.0);
        let stages = (scale * self.stages as f64).max(1.0);
        let total = (2.0 * stages * chains as f64) as u64;
        let job = Job::new(&self.execution)?;
        job.foresee(total);
        Ok(Pilots {
            rbm,
            given: self.given.as_ref(),
            chains,
            stages,
            chain_steps: (self.chains as u64).saturating_mul(self.stages as u64),
            seed: self.seed,
            engine: self.engine,
            threads: self.execution.threads,
            job,
            rng: stream(self.seed, Purpose::Start, 0),
            candidates: Vec::new(),
            drawn: Vec::new(),
        })
    }
}

impl<T: Scalar> std::fmt::Debug for StartSearch<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartSearch")
            .field("chains", &self.chains)
            .field("stages", &self.stages)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// The pilots of a search so far.
struct Pilots<'s, T: Scalar> {
    rbm: &'s Rbm<T>,
    given: Option<&'s BaseRate<T>>,
    chains: usize,
    /// Stages of which each pilot has a share.
    stages: f64,
    /// Chain-steps of the run for which the search is.
    chain_steps: u64,
    seed: u64,
    engine: Option<SimdLevel>,
    threads: Option<usize>,
    job: Job<'s>,
    rng: StreamRng,
    candidates: Vec<Candidate<T>>,
    drawn: Vec<Drawn>,
}

impl<T: Scalar> Pilots<'_, T> {
    fn search(mut self) -> Result<Start<T>> {
        let rbm = self.rbm;
        let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
        let coins = BaseRate::uniform(hidden, visible)?;
        let (name, first) = match self.given {
            Some(given) => ("base rates", given.clone()),
            None => ("mean field", BaseRate::mean_field(rbm, STARTS, self.seed)?),
        };
        let mut states = self.pilot(name, first.clone(), OF_GIVEN)?;
        states.extend(self.pilot("fair coins", coins.clone(), OF_COINS)?);
        let most = most_configurations(self.chain_steps, hidden);
        let seed = self.seed;
        let explore = || rbm.explore(&states, STARTS, seed, most);
        let (bound, known) = in_pool(self.threads, usize::MAX, explore)?;
        if self.first_is_good(&bound) {
            return Ok(self.concluded(bound));
        }
        let modes = around_modes(hidden, &bound)?;
        let rest = 1.0 - PART_OF_MODES - PART_OF_COINS;
        let parts = [
            (PART_OF_MODES, modes),
            (PART_OF_COINS, coins),
            (rest, first.clone()),
        ];
        self.pilot(start::MODES, BaseRate::mixture(parts)?, OF_MODES)?;
        for (name, components) in [ONE, MANY] {
            let base = self.refitted(components, &first, &known)?;
            self.pilot(name, base, OF_REFITTED)?;
        }
        let reference = self.reference(&bound);
        let [.., one, many] = &self.candidates[..] else {
            unreachable!("two bases were refitted")
        };
        let better = one.score(reference, ERRORS) > many.score(reference, ERRORS);
        let (name, components) = if better { ONE } else { MANY };
        let base = self.refitted(components, &first, &known)?;
        let _ = self.run(name, base, OF_LAST)?;
        Ok(self.concluded(bound))
    }

    /// Runs a pilot that later bases are fitted to; returns final states of large weight and others.
    fn pilot(&mut self, name: &str, base: BaseRate<T>, share: f64) -> Result<Vec<Vec<bool>>> {
        let run = self.run(name, base, share)?;
        self.drawn.push(Drawn::of(self.rbm, &run, &mut self.rng));
        Ok(self.some_states(&run))
    }

    /// Runs a pilot and adds its candidate.
    fn run(&mut self, name: &str, base: BaseRate<T>, share: f64) -> Result<Run<Vec<bool>>> {
        let stages = (share * self.stages).round().max(1.0) as usize;
        let mut path = RbmPath::new(base.clone(), self.rbm.clone())?;
        if let Some(engine) = self.engine {
            path = path.with_simd_level(engine)?;
        }
        let run = Ais::new(&path, BlockGibbs)
            .schedule(Schedule::linear(stages)?)
            .chains(self.chains)
            .block_size((self.chains / 8).clamp(BLOCK[0], BLOCK[1]))
            .seed(self.rng.next_u64())
            .pilot()
            .plan()
            .run_within(&mut self.job)?;
        if run.stopped_by() == StoppedBy::Callback {
            let (by, chains) = (StoppedBy::Callback.to_string(), self.chains);
            return Err(Error::Stopped { by, chains });
        }
        let confidence = 1.0 - (1.0 - CONFIDENCE) / CANDIDATES;
        let candidate = Candidate::of(name, base, &run, confidence)?;
        self.candidates.push(candidate);
        Ok(run)
    }

    /// Final states drawn by their weights, and the first ones whatever their weights.
    fn some_states(&mut self, run: &Run<Vec<bool>>) -> Vec<Vec<bool>> {
        let weights = run.log_weights().iter();
        let total = run.log_z_ratio() + (run.chains() as f64).ln();
        let shares: Vec<f64> = weights
            .map(|log_weight| (log_weight - total).exp())
            .collect();
        let drawn = (0..STARTS).map(|_| draw(&shares, &mut self.rng));
        let drawn: Vec<usize> = drawn.chain(0..STARTS.min(run.chains())).collect();
        drawn
            .iter()
            .map(|&chain| run.states()[chain].clone())
            .collect()
    }

    /// Fits a base of at most so many components to all that is known of the model.
    fn refitted(
        &mut self,
        components: usize,
        first: &BaseRate<T>,
        known: &[Configuration],
    ) -> Result<BaseRate<T>> {
        let rows = pool(self.rbm, &self.drawn, known, &mut self.rng);
        let most = (rows.effective() / SAMPLES) as usize;
        let components = components.min(most.max(2));
        let fitted = rows.fit(self.rbm.hidden_units(), components, &mut self.rng)?;
        let parts = [(1.0 - DEFENCE, fitted), (DEFENCE, first.clone())];
        BaseRate::mixture(parts)
    }

    /// Returns the value that no estimate counts for more than.
    fn reference(&self, bound: &LogZBound) -> f64 {
        reference(&self.candidates).max(bound.value)
    }

    fn first_is_good(&self, bound: &LogZBound) -> bool {
        let first = &self.candidates[0];
        let upper = first.log_z + 2.0 * first.standard_error;
        2.0 * first.effective_sample_size > first.chains as f64 && upper > self.reference(bound)
    }

    fn concluded(self, bound: LogZBound) -> Start<T> {
        let chosen = best(&self.candidates, self.reference(&bound));
        Start {
            machine: hash(self.rbm),
            chosen,
            candidates: self.candidates,
            bound,
            seconds: 0.0,
        }
    }
}

/// A base with a component at each of the best modes.
fn around_modes<T: Scalar>(hidden_units: usize, bound: &LogZBound) -> Result<BaseRate<T>> {
    let modes = bound.modes.iter().take(MODES);
    let components = modes.map(|mode| {
        let share = ((mode.bound - bound.modes[0].bound) / MODE_SCALE).exp();
        let rates = mode.visible.map(|p| p.clamp(MODE_RATE, 1.0 - MODE_RATE));
        Ok((
            share.max(LEAST_SHARE),
            BaseRate::from_rates(hidden_units, &rates)?,
        ))
    });
    BaseRate::mixture(components.collect::<Result<Vec<_>>>()?)
}
