//! The search for a base: pilots from several bases, mean-field modes, and refitted bases.

use std::time::Instant;

use rand::Rng;

use crate::ais::{Ais, Run};
use crate::error::short;
use crate::num::{SimdLevel, WeightSums, exceeds, setters};
use crate::random::{Purpose, StreamRng, draw_index, stream};
use crate::rbm::components::{ComponentWeights, Part};
use crate::rbm::lower_bound::{Configuration, Effort};
use crate::rbm::start::pool::{Drawn, pool};
use crate::rbm::start::shares::{clear_the_way, is_too_low, set_by_pilots, set_to_surest};
use crate::rbm::start::{BOUNDS_CONFIDENCE, depths_of, hash, reference};
use crate::rbm::{BaseRate, BlockGibbs, Candidate, LogZBound, Rbm, RbmPath, Scalar, Start};
use crate::schedule::Schedule;
use crate::work::{Execution, Job, StoppedBy, controls, in_pool};
use crate::{Error, Result};

/// A search for a base from which a run finds the mass of an RBM. Chains from base rates can miss mass unnoticed.
///
/// It tries several bases by short pilots of 512 chains, for any number of chains of the run:
///
/// 1. the [`given`](Self::given) base, by default the base of [mean fields](BaseRate::mean_field), and fair coins;
/// 2. a mixture of both with mean-field modes, found from the pilots' final states and by simulated annealing;
/// 3. bases fitted to the model by EM: one Bernoulli product, and a mixture of up to 16;
/// 4. the mixture of all these bases that found mass.
///
/// The run starts from this mixture, with its fitted bases fitted once more, now to the last pilot too. All bases that
/// found mass stay, because one may reach mass that the others miss. Their shares follow the pilots' effective sample
/// sizes. If the last pilot misses known mass, only one base remains. The search ends after step 2 if the effective
/// sample size of the first base exceeds half its chains and no bound or pilot lies above its estimate. The run draws
/// new chains, so its Z^ is unbiased.
///
/// A search for a run of at least 4,000 stages has two rounds. The first is the search for a run of 1,000 stages. If
/// its pilot of all bases has many effective chains, and no bound or other pilot lies above that, the search ends.
///
/// ```
/// use annealed::prelude::*;
///
/// let images = annealed::data::digits().images;
/// let rbm = Rbm::<f32>::from_data(8, &images, 1)?;
/// let rbm = ContrastiveDivergence::new(1).epochs(2).train(rbm, &images)?.rbm;
/// let start = StartSearch::new(500).given(BaseRate::from_data(8, &images, 1.0)?).run(&rbm)?;
/// let path = start.path(rbm.clone())?;
/// let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(500)?).chains(256).run()?;
/// println!("{start}{run}");
/// assert!(run.warnings().is_empty());
/// assert!((run.log_z() - rbm.exact_log_normalizer()?).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[must_use]
pub struct StartSearch<'p, T: Scalar = f32> {
    stages: usize,
    given: Option<BaseRate<T>>,
    seed: u64,
    engine: Option<SimdLevel>,
    execution: Execution<'p>,
}

/// Stages of the first round of a search for a longer run.
const FIRST_ROUND: usize = 1_000;
/// Fewest stages of a run whose search has two rounds. The second round keeps three quarters of them at least.
const LEAST_OF_TWO_ROUNDS: usize = 4 * FIRST_ROUND;
/// Effective chains of the pilot of all bases, relative to its chains, at which the first round is enough: the run's error
/// is then as small as after a long search (`docs/notes/bases.md`).
const ENOUGH_ESS: f64 = 0.4;
/// Largest number of pilots in a round: given base, coins, modes, two fitted bases and, at most twice, the mixture of
/// all. Their bounds hold jointly: each gets an equal part of the error probability.
const MOST_PILOTS: f64 = 7.0;
/// Number of chains of a pilot, whatever the run's. Smaller pilots miss mass: with 64 to 250 chains a search that
/// chooses one base is silently low in 4 of 9 runs on a machine of bars. With 512 its one run there is right.
const PILOT_CHAINS: usize = 512;
/// Number of chains in a block of a pilot: its 512 chains are work for eight threads.
const PILOT_BLOCK: usize = PILOT_CHAINS / 8;
/// Stages of the pilot of the given base, as a share of the run's. All shares sum to 2 (fitted bases counted twice):
/// 1,024 chain-steps a stage, a quarter of a run of 4,096 chains.
const GIVEN_STAGES: f64 = 0.375;
/// The same for fair coins. They get the least, since they are rarely the best base: 2 of 773 searches that chose one
/// base chose them (`docs/notes/bases.md`).
const COINS_STAGES: f64 = 0.125;
/// The same for the base of modes.
const MODES_STAGES: f64 = 0.25;
/// The same for each of the two fitted bases: as many as for the given base.
const FITTED_STAGES: f64 = 0.375;
/// The same for the mixture of all bases. It gets the most, because the run starts from this base and its pilot decides
/// which bases keep their shares.
const ALL_STAGES: f64 = 0.5;
/// Number of starts of the search for modes from each source: states of fair coins, and from each pilot final states
/// drawn by weight and those of the first chains. 16 fill a block of mean-field equations.
const MODE_STARTS: usize = 16;
/// Factor on the chain-steps of all pilots, for the search for configurations. At K = 1,000 it allows 163 cooled
/// chains, which find a mode of a third of *bars* in 6 of 6 searches; 40 longer ones miss it in 3 of 14.
const SEARCH_EFFORT: u64 = 2;
/// Largest number of modes in the base of modes. Few sharp modes keep chains from all others: on pcd-500 a base of 4
/// modes is 5.1 nats low, one of 12 is not. A further mode costs a column in each stage.
const MOST_MODES: usize = 12;
/// Share of all modes in the base of modes. The first base has the rest, .3, so that weights are at most 1.2 nats
/// (`-log .3`) above those of chains from that base alone.
const MODES_SHARE: f64 = 0.6;
/// Share of fair coins in the base of modes: a defence as in `DEFENCE_SHARE`, at a tenth of the chains.
const COINS_SHARE: f64 = 0.1;
/// Smallest distance of a mode's rates from 0 and 1. With 12 modes, .005 makes a run on pcd-20 silently 1.2 nats low,
/// and .05 leaves few effective chains (10 and 19 of 256 on cd1-20).
const LEAST_MODE_RATE: f64 = 0.02;
/// Decrease of a mode's bound, in nats, that divides the mode's share by e. At 1, shares would be the bounds' masses,
/// which lie below the modes' by unknown factors. At 4 a mode 16 nats lower has the least share.
const MODE_SCALE: f64 = 4.0;
/// Smallest share of a mode, relative to the best mode. If that is far above the 11 others, each of these still starts
/// 5 of the pilot's 512 chains.
const LEAST_MODE_SHARE: f64 = 0.02;
/// Names of the fitted bases with their largest numbers of components. One is best with 500 hidden units; with 20, 8
/// and 32 have an ESS of 218 and 232 of 256 (cd25-20), so more than 16 are not worth their time.
const FITTED: [(&str, usize); 2] = [("refitted", 1), ("mixture", 16)];
/// Name of the mixture of all bases.
const ALL: &str = "all of these";
/// Number of effective samples that each component of a fitted base needs. With 4, the largest mixture needs 64, and
/// the prior moves a mean by at most a third of the way on average.
const SAMPLES_PER_COMPONENT: f64 = 4.0;
/// Share of the first base that is mixed into each fitted base, in case the fit misses mass. If that base is useless it
/// costs a tenth of the ESS; without it pcd-20 has an RMSE of .50 in place of .20 at K = 1,000.
const DEFENCE_SHARE: f64 = 0.1;

impl<'p, T: Scalar> StartSearch<'p, T> {
    /// Creates a search for an [`Ais`] run of `stages` stages. All pilots together take 1,024 chain-steps for each of
    /// these stages, or up to 1,280 if mixtures of all bases need second pilots. A search that ends early takes fewer:
    /// in its first round, a million.
    pub fn new(stages: usize) -> Self {
        Self {
            stages,
            given: None,
            seed: 0,
            engine: None,
            execution: Execution::default(),
        }
    }

    setters! {
        /// Sets the base to try first, such as the data's base rates or the start of an earlier search.
        given in Some: BaseRate<T>,
        /// Sets the seed; 0 by default. A seed gives the same bits for any number of threads.
        seed: u64,
    }

    /// Sets the SIMD level of the pilots; by default the processor's best. Another level may lead to another base.
    pub fn simd_level(mut self, engine: impl Into<Option<SimdLevel>>) -> Self {
        self.engine = engine.into();
        self
    }

    controls! { 'p, "There is no result then: an [`Error::Stopped`]." }

    /// Runs the search.
    ///
    /// # Errors
    /// If there are no stages or threads, the given base has another shape, the absolute values of all parameters sum to
    /// more than a quarter of the largest number of type `T` (activations may then overflow), a pilot fails, or a time
    /// limit or a callback stops the search ([`Error::Stopped`]).
    pub fn run(&self, rbm: &Rbm<T>) -> Result<Start<T>> {
        Error::check_at_least("stages", self.stages, 1)?;
        let biases = rbm.hidden_bias().iter().chain(rbm.visible_bias());
        let sum: f64 = rbm
            .weights()
            .iter()
            .chain(biases)
            .map(|x| x.as_().abs())
            .sum();
        let most: f64 = 0.25 * T::max_value().as_();
        let expected = format!("at most {most:.1e}: a training may have diverged");
        let argument = "sum of the absolute parameters";
        Error::check(sum <= most, argument, short(sum), expected)?;
        let begun = Instant::now();
        let job = Job::new(&self.execution)?.named("search for a start");
        job.foresee(chain_steps(self.stages));
        let pilots = Pilots {
            rbm,
            of: self,
            stages: self.stages,
            job,
            rng: stream(self.seed, Purpose::START, 0),
            candidates: Vec::new(),
            depths: Vec::new(),
            drawn: Vec::new(),
        };
        let mut start = pilots.search()?;
        start.seconds = begun.elapsed().as_secs_f64();
        Ok(start)
    }

    fn has_two_rounds(&self) -> bool {
        self.stages >= LEAST_OF_TWO_ROUNDS
    }
}

/// Returns the chain-steps of all pilots of a round of `stages`.
fn chain_steps(stages: usize) -> u64 {
    let shares = GIVEN_STAGES + COINS_STAGES + MODES_STAGES + 2.0 * FITTED_STAGES + ALL_STAGES;
    (shares * PILOT_CHAINS as f64 * stages as f64) as u64
}

crate::num::debug_by_fields! {
    StartSearch for [T: Scalar] StartSearch<'_, T> { stages, seed }
}

struct Pilots<'s, T: Scalar> {
    rbm: &'s Rbm<T>,
    of: &'s StartSearch<'s, T>,
    /// Stages of the round, of which its pilots take shares.
    stages: usize,
    job: Job<'s>,
    rng: StreamRng,
    candidates: Vec<Candidate<T>>,
    /// For each candidate, the depths of log Z along its pilot's path.
    depths: Vec<Vec<f64>>,
    drawn: Vec<Drawn>,
}

impl<T: Scalar> Pilots<'_, T> {
    fn search(mut self) -> Result<Start<T>> {
        let (rbm, of) = (self.rbm, self.of);
        let (name, first) = match &of.given {
            Some(given) => ("base rates", given.clone()),
            None => (
                "mean field",
                BaseRate::mean_field(rbm, MODE_STARTS, of.seed)?,
            ),
        };
        if of.has_two_rounds() {
            self.stages = FIRST_ROUND;
            if let (start, true) = self.round(name, &first)? {
                return Ok(start);
            }
            self.stages = of.stages - FIRST_ROUND;
        }
        Ok(self.round(name, &first)?.0)
    }

    /// Returns the start that a round of pilots leads to, and whether it is good enough to end the search.
    fn round(&mut self, name: &str, first: &BaseRate<T>) -> Result<(Start<T>, bool)> {
        let (rbm, of) = (self.rbm, self.of);
        let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
        let coins = BaseRate::uniform(hidden, visible)?;
        // The candidates went with the start of the round before.
        self.depths.clear();
        self.drawn.clear();
        let mut states = self.pilot(name, first.clone(), GIVEN_STAGES)?;
        states.extend(self.pilot("fair coins", coins.clone(), COINS_STAGES)?);
        let steps = SEARCH_EFFORT * chain_steps(self.stages);
        let effort = Effort::of_search(steps, hidden.min(visible));
        let explore = || rbm.explore(&states, MODE_STARTS, of.seed, effort);
        let (bound, known) = in_pool(of.execution.threads, explore)?;
        let modes = around_modes(hidden, &bound)?;
        let rest = 1.0 - MODES_SHARE - COINS_SHARE;
        let parts = [
            (MODES_SHARE, modes),
            (COINS_SHARE, coins),
            (rest, first.clone()),
        ];
        self.pilot("modes", BaseRate::mixture(parts)?, MODES_STAGES)?;
        if self.first_is_good(&bound) {
            set_by_pilots(&mut self.candidates, &bound);
            return Ok((self.concluded(None, bound)?, true));
        }
        let first_fitted = self.candidates.len();
        for (name, components) in FITTED {
            let base = self.fitted(components, first, &known)?;
            self.pilot(name, base, FITTED_STAGES)?;
        }
        set_by_pilots(&mut self.candidates, &bound);
        let mut all = self.pilot_of_all()?;
        if clear_the_way(&all, &mut self.candidates, &bound) {
            all = self.pilot_of_all()?;
        }
        let mut is_enough = all.effective_sample_size > ENOUGH_ESS * all.chains as f64;
        if is_too_low(&all, &self.candidates, &bound) {
            is_enough = false;
            set_to_surest(&mut self.candidates);
        }
        // Unless it is too low, the pilot of the mixture has reached the mass of each base, so the bases fitted anew lack none
        // of it. If it is too low, a base that is left may be a fitted one; its pool still has the samples of all pilots.
        for (place, (_, components)) in FITTED.into_iter().enumerate() {
            let fitted = self.fitted(components, first, &known)?;
            self.candidates[first_fitted + place].base = fitted;
        }
        Ok((self.concluded(Some(all), bound)?, is_enough))
    }

    /// Runs a pilot of the mixture of the candidates, and returns it.
    fn pilot_of_all(&mut self) -> Result<Candidate<T>> {
        let base = self.mixture()?;
        let weights = self.weights_of(&base);
        let path = RbmPath::new(base, self.rbm.clone())?.weighted(weights);
        self.pilot_along(path, ALL, ALL_STAGES)?;
        // The mixture is no candidate for itself. Its samples stay in `drawn`, for the last fits.
        self.depths.pop();
        Ok(self.candidates.pop().expect("a pilot has run"))
    }

    /// Runs a pilot, and keeps samples to fit later bases. Returns some final states, a part of them drawn by weight.
    fn pilot(&mut self, name: &str, base: BaseRate<T>, share: f64) -> Result<Vec<Vec<bool>>> {
        self.pilot_along(RbmPath::new(base, self.rbm.clone())?, name, share)
    }

    fn pilot_along(&mut self, path: RbmPath<T>, name: &str, share: f64) -> Result<Vec<Vec<bool>>> {
        let base = path.base().clone();
        let run = self.run(path, share)?;
        let rounds = 1.0 + f64::from(u8::from(self.of.has_two_rounds()));
        let confidence = 1.0 - (1.0 - BOUNDS_CONFIDENCE) / (MOST_PILOTS * rounds);
        let candidate = Candidate::of(name, base, &run, confidence)?;
        self.candidates.push(candidate);
        self.depths.push(depths_of(&run));
        self.drawn.push(Drawn::of(self.rbm, &run, &mut self.rng));
        Ok(self.some_states(&run))
    }

    fn run(&mut self, mut path: RbmPath<T>, share: f64) -> Result<Run<Vec<bool>>> {
        let stages = (share * self.stages as f64).round().max(1.0) as usize;
        if let Some(engine) = self.of.engine {
            path = path.with_simd_level(engine)?;
        }
        let ais = Ais::new(&path, BlockGibbs)
            .schedule(Schedule::linear(stages)?)
            .chains(PILOT_CHAINS)
            .block_size(PILOT_BLOCK)
            .seed(self.rng.next_u64())
            .pilot();
        let run = ais.task()?.run_by(&mut self.job)?.result()?;
        if run.stopped_by() != StoppedBy::Chains {
            return Err(run.stopped_by().error(PILOT_CHAINS));
        }
        Ok(run)
    }

    /// Returns final states drawn by their weights, and the states of the first chains whatever their weights.
    fn some_states(&mut self, run: &Run<Vec<bool>>) -> Vec<Vec<bool>> {
        let sums = WeightSums::of(run.log_weights());
        let shares: Vec<f64> = run.log_weights().iter().map(|w| sums.share(*w)).collect();
        let drawn =
            (0..MODE_STARTS).map(|_| draw_index(shares.iter().copied(), 1.0, &mut self.rng));
        let chains = drawn.chain(0..MODE_STARTS.min(run.chains()));
        chains.map(|chain| run.states()[chain].clone()).collect()
    }

    /// Fits a base of at most `components` components to all known samples, and mixes in the first base.
    fn fitted(
        &mut self,
        components: usize,
        first: &BaseRate<T>,
        known: &[Configuration],
    ) -> Result<BaseRate<T>> {
        let rows = pool(self.rbm, &self.drawn, known, &mut self.rng);
        let most = (rows.effective() / SAMPLES_PER_COMPONENT) as usize;
        let components = components.min(most.max(2));
        let fitted = rows.fit(self.rbm.hidden_units(), components, &mut self.rng)?;
        let parts = [
            (1.0 - DEFENCE_SHARE, fitted),
            (DEFENCE_SHARE, first.clone()),
        ];
        BaseRate::mixture(parts)
    }

    /// Returns the mixture of the candidates' bases with their shares.
    fn mixture(&self) -> Result<BaseRate<T>> {
        let found = self.candidates.iter().filter(|one| one.share > 0.0);
        BaseRate::mixture(found.map(|one| (one.share, one.base.clone())))
    }

    /// Returns component weights for the mixture of the candidates, which keep the candidates' shares along the path.
    fn weights_of(&self, mixture: &BaseRate<T>) -> Option<ComponentWeights> {
        let found = self.candidates.iter().zip(&self.depths);
        let found = found.filter(|(one, _)| one.share > 0.0);
        let parts = Vec::from_iter(found.map(|(one, depths)| Part {
            share: one.share,
            components: one.base.components().collect(),
            depths,
        }));
        let components = mixture.as_mixture()?;
        Some(ComponentWeights::balanced(components, &parts))
    }

    /// Returns whether the first base has many effective chains, and no bound or other pilot lies above its estimate.
    fn first_is_good(&self, bound: &LogZBound) -> bool {
        let first = &self.candidates[0];
        let upper = first.log_z + 2.0 * first.standard_error;
        let others = self.candidates.iter().map(Candidate::lower);
        let known = others.fold(reference(&self.candidates, bound), f64::max);
        2.0 * first.effective_sample_size > first.chains as f64 && !exceeds(known, upper)
    }

    /// Returns the start, whose base is the mixture of the candidates. The mixture's own pilot `all` is listed last.
    fn concluded(&mut self, all: Option<Candidate<T>>, bound: LogZBound) -> Result<Start<T>> {
        let base = self.mixture()?;
        let weights = self.weights_of(&base);
        self.candidates.extend(all);
        Ok(Start {
            machine: hash(self.rbm),
            base,
            weights,
            candidates: std::mem::take(&mut self.candidates),
            bound,
            seconds: 0.0,
        })
    }
}

fn around_modes<T: Scalar>(hidden_units: usize, bound: &LogZBound) -> Result<BaseRate<T>> {
    let modes = bound.modes.iter().take(MOST_MODES);
    let components = modes.map(|mode| {
        let share = ((mode.bound - bound.modes[0].bound) / MODE_SCALE).exp();
        let rates = mode
            .visible
            .map(|p| p.clamp(LEAST_MODE_RATE, 1.0 - LEAST_MODE_RATE));
        Ok((
            share.max(LEAST_MODE_SHARE),
            BaseRate::from_rates(hidden_units, &rates)?,
        ))
    });
    BaseRate::mixture(components.collect::<Result<Vec<_>>>()?)
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, DVector};

    use super::*;
    use crate::estimate::LogZ;

    /// Returns a machine of zeros with one parameter of this `size`: in W, a or b.
    fn machine<T: Scalar>(place: usize, size: f64) -> Result<Rbm<T>> {
        let mut weights = DMatrix::zeros(2, 3);
        let (mut hidden, mut visible) = (DVector::zeros(2), DVector::zeros(3));
        let parameter = match place {
            0 => &mut weights[(0, 0)],
            1 => &mut hidden[0],
            _ => &mut visible[0],
        };
        *parameter = T::nearest(size);
        Rbm::new(weights, hidden, visible)
    }

    fn check<T: Scalar>(place: usize, size: f64) {
        let rbm = machine::<T>(place, size).unwrap();
        let exact = rbm.exact_log_normalizer().unwrap();
        let start = StartSearch::new(60).run(&rbm).unwrap();
        let total: f64 = start.candidates().iter().map(|one| one.share).sum();
        assert!((total - 1.0).abs() < 1e-9, "{start}");
        let path = start.path(rbm).unwrap();
        let run = Ais::new(&path, BlockGibbs);
        let run = run
            .schedule(Schedule::linear(60).unwrap())
            .chains(64)
            .run()
            .unwrap();
        assert!(
            (run.log_z() - exact).abs() <= 4.0 * run.standard_error() + 1e-3 * exact.abs(),
            "{place}, {size}: {run}"
        );
    }

    /// A training that diverged leaves such machines.
    #[test]
    fn machines_of_huge_parameters_have_a_start() {
        for place in 0..3 {
            for size in [1e17, 1e30, -1e30] {
                check::<f32>(place, size);
                check::<f64>(place, size);
            }
        }
    }

    #[test]
    fn parameters_that_cannot_be_summed_are_refused() {
        let single = StartSearch::new(60).run(&machine::<f32>(0, 2e38).unwrap());
        let error = single.unwrap_err().to_string();
        assert!(
            error.contains("sum of the absolute parameters: got 2"),
            "{error}"
        );
        let double = |size| StartSearch::new(60).run(&machine::<f64>(0, size).unwrap());
        assert!(double(2e38).is_ok() && double(1e308).is_err());
    }

    /// The estimate is exact and has no error, so a bound that is above it by rounding is no doubt.
    #[test]
    fn a_machine_of_zeros_is_right_without_a_warning() {
        for (hidden, visible) in [(100, 784), (20, 64), (12, 60)] {
            let rbm = Rbm::<f32>::new(
                DMatrix::zeros(hidden, visible),
                DVector::zeros(hidden),
                DVector::zeros(visible),
            );
            let rbm = rbm.unwrap();
            let exact = (hidden + visible) as f64 * 2f64.ln();
            let start = StartSearch::new(30).run(&rbm).unwrap();
            let own = RbmPath::new(BaseRate::uniform(hidden, visible).unwrap(), rbm.clone());
            for path in [start.path(rbm.clone()).unwrap(), own.unwrap()] {
                let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(30).unwrap());
                let run = run.chains(64).run().unwrap();
                assert!((run.log_z() - exact).abs() < 1e-9 * exact, "{run}");
                assert!(run.warnings().is_empty(), "{run}");
            }
        }
    }
}
