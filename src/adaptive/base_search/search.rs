//! The search for a base: scouts, cooling, modes, and a mixture of the path's own base with distributions around modes.

use std::cell::Cell;
use std::iter::repeat_n;
use std::sync::Arc;

use nalgebra::DVector;
use rand::Rng;

use super::cooling::{Cooling, RUNGS};
use super::find_modes::{FindModes, Target, Trails};
use super::found_base::FoundBase;
use super::mixture_base::MixtureBase;
use super::mixture_path::{Cooled, MixtureAt, MixturePath, from_base};
use super::modes::EVALUATIONS_PER_DRAW;
use super::normalizer::compare_normalizer;
use super::population_monte_carlo::mixed;
use crate::adaptive::first_pass::FirstPass;
use crate::adaptive::first_pass_task::Arrived;
use crate::adaptive::tuner::Tuner;
use crate::kernel::{TransitionKernel, refuse_stages};
use crate::model::{
    Differentiable, NormalizedModel, PROBES, Sampleable, UnnormalizedModel, central_difference,
    check_gradient,
};
use crate::path::{AnnealingPath, dimension};
use crate::population::Moves;
use crate::random::{Purpose, StreamRng, stream};
use crate::work::{Job, Single, StoppedBy, caught, caught_once};
use crate::{Error, Result};

/// The uses of randomness in a challenge. Each has a stream of its own. Reordering them would change all challenges.
#[derive(Clone, Copy)]
pub(in crate::adaptive) enum ChallengeStream {
    /// Seeds of the scouts, starts of climbs, and draws from the mixture.
    Search,
    Cooling,
    /// Draws around modes, and the steps of walks.
    Modes,
    GradientCheck,
    NormalizerCheck,
    /// Draws of the base at which processes compare their searches.
    Agreement,
    /// The seed of the second run and its first pass.
    SecondRun,
}

impl ChallengeStream {
    pub(in crate::adaptive) fn stream(self, seed: u64) -> StreamRng {
        stream(seed, Purpose::CHALLENGE, self as usize)
    }
}

/// The settings of a search, except its budget.
pub(in crate::adaptive) struct Search<'p, P: AnnealingPath, K> {
    pub(in crate::adaptive) path: P,
    pub(in crate::adaptive) kernel: K,
    pub(in crate::adaptive) tuner: Option<Tuner<K, P::State>>,
    pub(in crate::adaptive) gradient: Option<SharedGradient<'p, P::State>>,
    /// Log normaliser of the path's own base, by which the mixture normalises this base.
    pub(in crate::adaptive) own_log_z: f64,
    /// Whether `own_log_z` is right by construction.
    pub(in crate::adaptive) is_certain: bool,
    pub(in crate::adaptive) states: Vec<P::State>,
    pub(in crate::adaptive) seed: u64,
}

/// The gradient of a target over states of type `S`.
pub(in crate::adaptive) trait TargetGradient<S>: Send + Sync {
    /// Writes the gradient and returns the log density.
    fn write(&self, state: &S, to: &mut S) -> f64;

    /// Compares gradients with finite differences of the log density at `states`. Returns the number of evaluations.
    fn check(&self, states: &[S]) -> Result<usize>;
}

pub(in crate::adaptive) type SharedGradient<'p, S> = Arc<dyn TargetGradient<S> + 'p>;

struct GradientOfPath<P>(P);

impl<P> TargetGradient<DVector<f64>> for GradientOfPath<P>
where
    P: AnnealingPath<State = DVector<f64>> + Send + Sync,
    P::At: Differentiable,
{
    fn write(&self, state: &DVector<f64>, to: &mut DVector<f64>) -> f64 {
        self.0.at(1.0).gradient_into(state, to)
    }

    fn check(&self, states: &[DVector<f64>]) -> Result<usize> {
        let target = self.0.at(1.0);
        for state in states {
            let mut gradient = DVector::zeros(state.len());
            let is_inside = target.gradient_into(state, &mut gradient).is_finite();
            if let Some(coordinate) = gradient.iter().position(|x| is_inside && x.is_nan()) {
                return Err(Error::WrongGradient {
                    coordinate,
                    gradient: f64::NAN,
                    // It is only printed, so any step does.
                    difference: central_difference(&target, state, coordinate, 1e-4),
                });
            }
        }
        Ok(states.len() + check_gradient(&target, states)?)
    }
}

/// Returns the gradient of the target of `path`.
pub(in crate::adaptive) fn gradient_of<'p, P>(path: P) -> SharedGradient<'p, DVector<f64>>
where
    P: AnnealingPath<State = DVector<f64>> + Send + Sync + 'p,
    P::At: Differentiable,
{
    Arc::new(GradientOfPath(path))
}

/// The type of distributions around modes (laws) for the states of the path P.
pub(in crate::adaptive) type LawOf<P> = <<P as AnnealingPath>::State as FindModes>::Law;

/// Smallest budget of a search, in moves. Scouts and cooling alone take 1,200 moves or more, since at least 64 chains
/// make at least one move at each of 16 powers.
const LEAST_MOVES: u64 = 5_000;
/// Shares of the budget for scouts and for cooling: first without climbs, then with them. Optima and fits get the rest.
/// On centred hierarchies, a smaller share for the fits is one reason why second runs miss mass.
const BUDGET_SHARES: [[f64; 2]; 2] = [[0.36, 0.28], [0.09, 0.17]];
/// Share of the evaluations for optima and fits that draws and climbs of the search for modes take. The larger part is
/// left to Laplace's approximations and population Monte Carlo.
const SHARE_FOR_MODES: f64 = 0.46;
/// Largest number of scouts that are cooled, besides the user's states. They are one block of chains. At this number,
/// one move at each power takes 2,048 moves in all.
const MOST_COOLED_SCOUTS: usize = 128;
/// Largest number of chains that start from one state of the user. Four such states start as many chains as the scouts,
/// and the covariance of one state's chains is full in up to 8 dimensions.
const MOST_COPIES: usize = MOST_COOLED_SCOUTS / 4;
/// Smallest number of scouts. The first population has this number, and may spend a quarter of the scouts' evaluations.
/// The second then has some 384 chains.
const FEWEST_SCOUTS: u64 = 64;
/// Largest number of scouts. It bounds memory; few paths are short enough to reach it.
const MOST_SCOUTS: u64 = 4_096;
/// Largest number of moves of a chain at each power of the target. In a prototype of 30 powers, ten moves led chains
/// from a slab to its spike in 10 dimensions. A challenge spends what is left on its second run.
const MOST_COOLING_MOVES: u64 = 10;
/// Smallest share of the path's own base in the mixture. At 1/2, a log weight is at most log 2 higher than in a run
/// from the own base alone.
const LEAST_SHARE_OF_OWN_BASE: f64 = 0.5;
/// Smallest share, among the distributions around modes, at which a distribution is kept. A dropped distribution has at
/// most a 400th of the mixture, and would cost time at each evaluation of the base.
const LEAST_SHARE_OF_LAW: f64 = 0.005;

impl<'p, P: AnnealingPath<Base: NormalizedModel>, K> Search<'p, P, K> {
    /// Creates a search from the base of `path`.
    pub(in crate::adaptive) fn new(path: P, kernel: K) -> Self {
        Self {
            kernel,
            tuner: None,
            gradient: None,
            own_log_z: path.base().log_normalizer(),
            is_certain: path.base().has_certain_normalizer(),
            path,
            states: Vec::new(),
            seed: 0,
        }
    }
}

impl<'p, P, K> Search<'p, P, K>
where
    P: AnnealingPath<State: FindModes> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, LawOf<P>>> + Clone + Send + Sync,
{
    /// Checks the search and its budget, a function of the smallest one that suffices. Returns the evaluations left of
    /// the budget, and those that the checks spent.
    pub(in crate::adaptive) fn begin(
        &self,
        budget: impl FnOnce(u64) -> u64,
        job: &Job<'_>,
    ) -> Result<(u64, u64)> {
        let checked = self.check()?;
        let each = self.evaluations();
        let least = LEAST_MOVES * each;
        let budget = budget(least);
        let expected = format!("at least {least} evaluations");
        Error::check(budget >= least, "budget", budget, expected)?;
        job.foresee(budget / each);
        Ok((budget.saturating_sub(checked), checked))
    }

    /// Refuses a kernel with parameters for each stage, a log normaliser that the base's samples contradict, a wrong
    /// gradient, and states without a density. Returns the number of evaluations of the target.
    fn check(&self) -> Result<u64> {
        refuse_stages(self.kernel.stages())?;
        self.compare_normalizer()?;
        let of_gradient = self.check_gradient()?;
        let ends = [self.path.at(0.0), self.path.at(1.0)];
        let densities = |state| ends.each_ref().map(|end| end.log_density(state));
        self.states.iter().try_for_each(|state| {
            let found = caught(&mut || densities(state));
            let has_density = |found: &[f64; 2]| found.iter().all(|x| *x < f64::INFINITY);
            let value = match found {
                Ok(found) if has_density(&found) => return Ok(()),
                Ok([base, target]) => {
                    format!("log densities {base} of the base and {target} of the target")
                }
                Err(message) => format!("a panic, {message}"),
            };
            Err(Error::invalid("states", value, "states of base and target"))
        })?;
        Ok((of_gradient + self.states.len()) as u64)
    }

    /// Compares the log normaliser of the base with its samples. Returns false if the samples cannot decide.
    pub(in crate::adaptive) fn compare_normalizer(&self) -> Result<bool> {
        if self.is_certain {
            return Ok(true);
        }
        let mut rng = ChallengeStream::NormalizerCheck.stream(self.seed);
        let density = self.path.at(0.0);
        let log_density = |state: &P::State| density.log_density(state);
        let base = self.path.base();
        // A panic is reported later, when chains meet it.
        let compared =
            caught(&mut || compare_normalizer(base, log_density, self.own_log_z, &mut rng));
        compared.unwrap_or(Ok(false))
    }

    /// Compares the gradient with finite differences at draws of the base. Returns the number of evaluations.
    fn check_gradient(&self) -> Result<usize> {
        let Some(gradient) = &self.gradient else {
            return Ok(0);
        };
        let mut rng = ChallengeStream::GradientCheck.stream(self.seed);
        let base = self.path.base();
        let draws: Vec<P::State> = (0..PROBES).map(|_| base.sample(&mut rng)).collect();
        let panicked = |message| Error::panicked(message, 0..PROBES);
        caught(&mut || gradient.check(&draws)).map_err(panicked)?
    }

    /// Returns the evaluations of a move.
    pub(in crate::adaptive) fn evaluations(&self) -> u64 {
        self.kernel.cost(dimension(&self.path))
    }

    /// Returns the path from a mixture that contains only the path's own base.
    pub(in crate::adaptive) fn path_from_own(&self) -> MixturePath<P, LawOf<P>> {
        from_base(&self.path, self.mixture_of(Vec::new()))
    }

    /// Returns the mixture of the path's own base and `laws`, each given with its share.
    fn mixture_of(&self, laws: Vec<(f64, LawOf<P>)>) -> MixtureBase<P, LawOf<P>> {
        MixtureBase::with_log_z(self.path.clone(), self.own_log_z, laws)
    }

    /// Looks for modes, and mixes distributions around them with the path's own base. If several processes share the
    /// work, each makes the whole search.
    pub(in crate::adaptive) fn find(
        &self,
        budget: u64,
        job: &Job<'_>,
    ) -> Result<FoundBase<P, LawOf<P>>> {
        let mut seeds = ChallengeStream::Search.stream(self.seed);
        let own = self.path_from_own();
        let [scouting, cooling] = BUDGET_SHARES[usize::from(P::State::CLIMBS)];
        let [scouting, cooling, fitting] = [scouting, cooling, 1.0 - scouting - cooling]
            .map(|share| (share * budget as f64) as u64);
        let (scouts, scouted) = self.scouts(&own, scouting, job, &mut seeds)?;
        let (trails, cooled) = self.trails(&own, &scouts, cooling, job)?;
        let spent = scouted + cooled;
        // Scouts and cooling may exceed their shares: scouts finish a stage, cooling makes a move a power.
        let fitting = fitting.min(budget.saturating_sub(spent));
        let draws = match P::State::CLIMBS {
            true => (SHARE_FOR_MODES * fitting as f64) as u64 / EVALUATIONS_PER_DRAW,
            false => 0,
        };
        let (starts, stopped) = (trails.ends().len(), Cell::new(None::<StoppedBy>));
        let mixture = || {
            let draws = (0..draws).map(|_| own.base().sample(&mut seeds)).collect();
            let is_over = || {
                stopped.set(stopped.get().or_else(|| job.stopped()));
                stopped.get().is_some()
            };
            let trails = trails.with_draws(draws);
            self.mixture(&own, &trails, fitting, &is_over, &mut seeds)
        };
        let panicked = |message| Error::panicked(message, 0..starts);
        let (base, modes, fitted) = caught_once(mixture).map_err(panicked)??;
        if let Some(by) = stopped.get() {
            return Err(by.error(starts));
        }
        Ok(FoundBase {
            base,
            modes,
            starts,
            evaluations: spent + fitted,
            // `check` has made this comparison for an early error. The same stream gives the same answer.
            is_compared: self.compare_normalizer()?,
        })
    }

    /// Anneals a small population roughly, then a second one, as large as the cost of the first one allows. Returns the
    /// second population and the evaluations of both.
    fn scouts(
        &self,
        own: &MixturePath<P, LawOf<P>>,
        allowance: u64,
        job: &Job<'_>,
        seeds: &mut StreamRng,
    ) -> Result<(Arrived<P::State, K>, u64)> {
        let few = self.pass(own, &self.kernel).seed(seeds.next_u64());
        let few = few.chains(FEWEST_SCOUTS as usize).moves(2);
        let few = few.scout(allowance / 4, true, job)?.found;
        let left = allowance.saturating_sub(few.evaluations);
        // A chain makes half the moves of the first population, at half the cost.
        let chains = ((2 * FEWEST_SCOUTS).saturating_mul(left) / few.evaluations.max(1))
            .clamp(FEWEST_SCOUTS, MOST_SCOUTS);
        let many = self.pass(own, &few.kernel).seed(seeds.next_u64());
        let many = many.chains(chains as usize).moves(1);
        let many = many.scout(left, false, job)?;
        let spent = few.evaluations + many.found.evaluations;
        Ok((many, spent))
    }

    /// Cools some scouts and the user's states. Also returns the number of evaluations.
    fn trails(
        &self,
        own: &MixturePath<P, LawOf<P>>,
        scouts: &Arrived<P::State, K>,
        allowance: u64,
        job: &Job<'_>,
    ) -> Result<(Trails<P::State>, u64)> {
        let stride = scouts.states.len().div_ceil(MOST_COOLED_SCOUTS);
        let chosen = scouts.states.iter().step_by(stride);
        // A few states of the user are cooled several times each, so that their covariance is known.
        let copies = (MOST_COOLED_SCOUTS / self.states.len().max(1)).clamp(1, MOST_COPIES);
        let given = self.states.iter().flat_map(|state| repeat_n(state, copies));
        let starts: Vec<P::State> = chosen.chain(given).cloned().collect();
        let of_move = RUNGS as u64 * starts.len() as u64 * self.evaluations();
        let moves = (allowance / of_move).clamp(1, MOST_COOLING_MOVES);
        let task = Cooling {
            path: Cooled(own.clone()),
            kernel: &scouts.found.kernel,
            tuner: self.tuner,
            moves: moves as usize,
            stream: ChallengeStream::Cooling.stream(self.seed),
            starts: &starts,
        };
        let Single(trails) = job.complete(&task)?.whole(starts.len())?;
        // Each first state is evaluated, too.
        Ok((trails, moves * of_move + starts.len() as u64))
    }

    /// Returns the mixture of the path's own base with distributions around modes, the number of modes, and the
    /// evaluations spent. Ends early if `is_over` returns true.
    fn mixture(
        &self,
        own: &MixturePath<P, LawOf<P>>,
        trails: &Trails<P::State>,
        allowance: u64,
        is_over: &dyn Fn() -> bool,
        rng: &mut StreamRng,
    ) -> Result<(MixtureBase<P, LawOf<P>>, usize, u64)> {
        let log_density = |state: &P::State| own.target().log_density(state);
        let gradient = self.gradient.as_deref();
        let gradient =
            gradient.map(|one| |state: &P::State, to: &mut P::State| one.write(state, to));
        let mut target = Target::new(
            &log_density,
            gradient.as_ref().map(|gradient| gradient as _),
            allowance,
            ChallengeStream::Modes.stream(self.seed),
        );
        target.epsilon = own.target().epsilon();
        target.is_over = is_over;
        let modes = P::State::find_modes(trails, &target)?;
        let count = modes.len();
        let laws = modes.into_iter().flatten().collect();
        let found = mixed(laws, &target, rng).into_iter();
        let kept: Vec<(f64, LawOf<P>)> = found
            .filter(|(share, _)| *share >= LEAST_SHARE_OF_LAW)
            .collect();
        let all: f64 = kept.iter().map(|(share, _)| share).sum();
        let scaled = kept
            .into_iter()
            .map(|(share, law)| ((1.0 - LEAST_SHARE_OF_OWN_BASE) * share / all, law));
        let base = self.mixture_of(scaled.collect());
        Ok((base, count, target.spent.get()))
    }

    /// Returns a first pass along a path from a mixture.
    pub(in crate::adaptive) fn pass(
        &self,
        path: &MixturePath<P, LawOf<P>>,
        kernel: &K,
    ) -> FirstPass<'static, MixturePath<P, LawOf<P>>, K> {
        FirstPass::with(path.clone(), kernel.clone(), self.tuner, 0.0)
    }
}
