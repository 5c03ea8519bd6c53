//! Densities and gradients that a chain knows travel with its state: evaluations are counted where they arise.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared;
#[cfg(feature = "checkpoint")]
use annealed::ais::Progress;
use annealed::bidirectional::TargetSamples;
use annealed::kernel::{LocalMetropolis, LocalProposal, UnadjustedLangevin};
use annealed::model::{Differentiable, LocalDensity, UnnormalizedModel};
use annealed::path::{Ends, Intermediate};
use annealed::population::{Resampling, WasteFree};
use annealed::prelude::*;
use annealed::testing;
use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use rand::{Rng, RngExt};

/// A Gaussian that counts the states at which it is evaluated, and the calls for batches.
struct Counted {
    model: Gaussian,
    batches: bool,
    values: AtomicU64,
    gradients: AtomicU64,
    calls: AtomicU64,
}

impl Counted {
    fn new(dimension: usize, batches: bool) -> Self {
        let mean = DVector::from_element(dimension, 1.0);
        Self {
            model: Gaussian::isotropic(mean, 0.7).unwrap(),
            batches,
            values: AtomicU64::new(0),
            gradients: AtomicU64::new(0),
            calls: AtomicU64::new(0),
        }
    }

    /// Returns the numbers of values, gradients and calls for batches since the last time.
    fn take(&self) -> (u64, u64, u64) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        (take(&self.values), take(&self.gradients), take(&self.calls))
    }
}

impl UnnormalizedModel for Counted {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        self.values.fetch_add(1, Ordering::Relaxed);
        self.model.log_density(x)
    }

    fn evaluates_batches(&self) -> bool {
        self.batches
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.values
            .fetch_add(states.len() as u64, Ordering::Relaxed);
        self.model.log_densities(states, log_densities);
    }
}

impl Differentiable for Counted {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.gradients.fetch_add(1, Ordering::Relaxed);
        self.model.accumulate_gradient(x, scale, gradient)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.gradients
            .fetch_add(states.nrows() as u64, Ordering::Relaxed);
        self.model
            .accumulate_gradients(states, scale, gradients, log_densities);
    }
}

const STAGES: usize = 40;
const CHAINS: usize = 96;

fn schedule() -> Schedule {
    Schedule::linear(STAGES).unwrap()
}

type Path<'m> = GeometricPath<Gaussian, &'m Counted>;

fn path(model: &Counted) -> Path<'_> {
    GeometricPath::new(Gaussian::standard(3).unwrap(), model)
}

/// A run compares path and kernel with those of other runs by a few densities at few states.
const FEW: u64 = 80;

/// Asserts that `spent` evaluations are at most `each` a stage and chain, one for the first state, and a few.
fn assert_spent(what: &str, spent: u64, each: u64, stages: usize) {
    let moves = (CHAINS * stages) as u64 * each;
    let most = moves + CHAINS as u64 + FEW;
    assert!(spent <= most, "{what}: {spent}, {moves}");
    // A waste-free run moves three chains of four.
    let share = if what.contains("waste-free") {
        0.75
    } else {
        0.98
    };
    assert!(
        spent as f64 >= share * moves as f64,
        "{what}: {spent}, {moves}"
    );
}

/// Counts values and gradients a stage of a kernel, alone, resampled, waste-free, and backward; chain by chain and in
/// batches.
macro_rules! assert_counts {
    ($kernel:expr, values $values:expr, gradients $gradients:expr) => {
        for batches in [false, true] {
            let model = Counted::new(3, batches);
            let path = path(&model);
            let ais = || {
                let ais = Ais::new(&path, $kernel).schedule(schedule());
                ais.chains(CHAINS).block_size(32).threads(1)
            };
            let samples = TargetSamples::draw(&model.model, CHAINS, 3);
            let resampling = Resampling::every(1).unwrap();
            type Run<'r> = Box<dyn Fn() -> u64 + 'r>;
            let runs: [(&str, Run<'_>); 4] = [
                ("alone", Box::new(|| ais().run().unwrap().evaluations())),
                (
                    "resampled",
                    Box::new(|| {
                        ais()
                            .resampling(resampling.clone())
                            .run()
                            .unwrap()
                            .evaluations()
                    }),
                ),
                (
                    "waste-free",
                    Box::new(|| {
                        let waste_free = WasteFree::new(4).unwrap();
                        ais().waste_free(waste_free).run().unwrap().evaluations()
                    }),
                ),
                (
                    "backward",
                    Box::new(|| ais().reverse(&samples).unwrap().evaluations()),
                ),
            ];
            for (name, run) in runs {
                model.take();
                let said = run();
                let (values, gradients, calls) = model.take();
                let what = format!("{} {name}, batches: {batches}", stringify!($kernel));
                let (each_value, each_gradient): (u64, u64) = ($values, $gradients);
                assert_spent(&what, values, each_value, STAGES);
                assert_spent(&what, gradients, each_gradient, STAGES);
                let told = (each_value + each_gradient) * (CHAINS * STAGES) as u64;
                assert_eq!(said, told, "{what}");
                let each = each_value + each_gradient;
                let blocks = (CHAINS / 32) as u64;
                // A waste-free run moves the chains of a block in parts.
                let parts = if name == "waste-free" { 4 } else { 1 };
                let most = blocks * (STAGES as u64 + 2) * each * 2 * parts;
                // A mixture moves neighbours of one choice together.
                let together = batches && !what.starts_with("Mixture");
                let few = calls > 0 && calls <= most;
                assert!(!together || few, "{what}: {calls} calls");
            }
        }
    };
}

#[test]
fn a_stage_costs_one_proposal() {
    let walk = || RandomWalkMetropolis::new(0.5).unwrap();
    assert_counts!(walk(), values 1, gradients 0);
    assert_counts!(Repeat::new(walk(), 3).unwrap(), values 3, gradients 0);
    assert_counts!(Sequence(walk(), walk()), values 2, gradients 0);
    assert_counts!(Mixture::new(0.5, walk(), walk()).unwrap(), values 1, gradients 0);
}

#[test]
fn a_stage_costs_the_gradients_of_its_trajectory() {
    assert_counts!(Mala::new(0.3).unwrap(), values 0, gradients 1);
    assert_counts!(Hmc::new(0.3, 4).unwrap(), values 0, gradients 4);
    let twice = || Sequence(Mala::new(0.3).unwrap(), Hmc::new(0.3, 2).unwrap());
    assert_counts!(twice(), values 0, gradients 3);
}

/// Unadjusted steps are not invariant, so they run alone and backward only.
#[test]
fn unadjusted_steps_cost_one_gradient_too() {
    for batches in [false, true] {
        let model = Counted::new(3, batches);
        let path = path(&model);
        let unadjusted = Ais::new(&path, UnadjustedLangevin::new(0.1).unwrap());
        let unadjusted = unadjusted.schedule(schedule()).chains(CHAINS);
        let _ = unadjusted.run().unwrap();
        assert_spent("unadjusted", model.take().1, 1, STAGES);
        let samples = TargetSamples::draw(&model.model, CHAINS, 3);
        let _ = unadjusted.reverse(&samples).unwrap();
        let (values, gradients, _) = model.take();
        assert_spent("unadjusted backward", gradients, 1, STAGES);
        assert_spent("unadjusted backward", values, 0, STAGES);
    }
}

/// A walk loses the gradients, so that the next gradient kernel evaluates the state anew, and no more.
#[test]
fn a_walk_leaves_no_gradient() {
    let model = Counted::new(3, false);
    let path = path(&model);
    let kernel = Sequence(
        RandomWalkMetropolis::new(0.5).unwrap(),
        Mala::new(0.3).unwrap(),
    );
    let _ = Ais::new(&path, kernel)
        .schedule(schedule())
        .chains(CHAINS)
        .run()
        .unwrap();
    let (values, gradients, _) = model.take();
    assert_spent("values", values, 1, STAGES);
    assert_spent("gradients", gradients, 2, STAGES);
}

/// Spins on a ring, and a count of their densities.
struct Ring {
    coupling: f64,
    calls: AtomicU64,
}

const SPINS: usize = 12;

impl UnnormalizedModel for Ring {
    type State = [f64; SPINS];

    fn log_density(&self, spins: &[f64; SPINS]) -> f64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let bonds = (0..SPINS).map(|i| spins[i] * spins[(i + 1) % SPINS]);
        self.coupling * bonds.sum::<f64>()
    }
}

impl Sampleable for Ring {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> [f64; SPINS] {
        std::array::from_fn(|_| if rng.random() { 1.0 } else { -1.0 })
    }
}

impl LocalDensity<usize> for Ring {
    fn log_density_change(&self, spins: &[f64; SPINS], &flipped: &usize) -> f64 {
        let neighbours = spins[(flipped + 1) % SPINS] + spins[(flipped + SPINS - 1) % SPINS];
        -2.0 * self.coupling * spins[flipped] * neighbours
    }
}

struct Flip;

impl LocalProposal<[f64; SPINS]> for Flip {
    type Change = usize;

    fn propose<R: Rng + ?Sized>(&self, _: f64, _: &[f64; SPINS], rng: &mut R) -> usize {
        rng.random_range(..SPINS)
    }

    fn apply(&self, &flipped: &usize, spins: &mut [f64; SPINS]) {
        spins[flipped] = -spins[flipped];
    }
}

/// Changes add up to the density: local moves cost no evaluation beyond the first, and stay unbiased.
#[test]
fn local_moves_take_no_evaluation() {
    let ring = |coupling| Ring {
        coupling,
        calls: AtomicU64::new(0),
    };
    let path = GeometricPath::new(ring(0.0), ring(0.8));
    let kernel = LocalMetropolis::new(Flip, 5).unwrap();
    let exact = ((2.0 * 0.8_f64.cosh()).powi(12) + (2.0 * 0.8_f64.sinh()).powi(12)).ln();
    let ratio = exact - 12.0 * 2_f64.ln();
    const STAGES: usize = 150;
    let schedule = Schedule::linear(STAGES).unwrap();
    let check = testing::unbiasedness(&path, kernel, schedule, ratio, 4_000, 7).unwrap();
    assert!(check.passes() && check.standard_error < 0.03, "{check}");
    let calls = path.target().calls.load(Ordering::Relaxed);
    assert!(calls <= 4_000 + 2 * FEW, "{calls}");
}

/// A path of a user's own, whose log densities are blends of two: x^2/2 and x^4 + x.
struct Own {
    base: Gaussian,
    calls: AtomicU64,
}

/// Tells of the models' ends in three ways.
trait Telling: Send + Sync {
    const ENDS: bool;
    fn ends(model: &OwnAt<'_, Self>, x: f64, known: Ends) -> Ends
    where
        Self: Sized;
    fn blend(beta: f64, ends: Ends) -> f64;
}

/// No ends.
struct Silent;
/// The ends apart.
struct Apart;
/// The blend at the beta where the state was found, a mistake.
struct Stale;

struct OwnPath<T>(Own, std::marker::PhantomData<T>);

struct OwnAt<'p, T> {
    path: &'p OwnPath<T>,
    beta: f64,
}

impl Own {
    fn base_at(x: f64) -> f64 {
        -0.5 * x * x
    }

    fn target_at(&self, x: f64) -> f64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        -x.powi(4) + x
    }
}

impl Telling for Silent {
    const ENDS: bool = false;
    fn ends(_: &OwnAt<'_, Self>, _: f64, known: Ends) -> Ends {
        known
    }
    fn blend(_: f64, _: Ends) -> f64 {
        f64::NAN
    }
}

impl Telling for Apart {
    const ENDS: bool = true;
    fn ends(model: &OwnAt<'_, Self>, x: f64, known: Ends) -> Ends {
        let own = &model.path.0;
        known
            .or_base(|| Own::base_at(x))
            .or_target(|| own.target_at(x))
    }
    fn blend(beta: f64, ends: Ends) -> f64 {
        (1.0 - beta) * ends.base + beta * ends.target
    }
}

impl Telling for Stale {
    const ENDS: bool = true;
    fn ends(model: &OwnAt<'_, Self>, x: f64, known: Ends) -> Ends {
        let blend = || model.log_density(&DVector::from_element(1, x));
        known.or_base(blend).or_target(|| 0.0)
    }
    fn blend(_: f64, ends: Ends) -> f64 {
        ends.base
    }
}

impl<T: Telling> UnnormalizedModel for OwnAt<'_, T> {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        let own = &self.path.0;
        (1.0 - self.beta) * Own::base_at(x[0]) + self.beta * own.target_at(x[0])
    }
}

impl<T: Telling> Intermediate for OwnAt<'_, T> {
    const HAS_ENDS: bool = T::ENDS;

    fn beta(&self) -> f64 {
        self.beta
    }

    fn ends(&self, x: &DVector<f64>, known: Ends) -> Ends {
        T::ends(self, x[0], known)
    }

    fn log_density_at(&self, ends: Ends) -> f64 {
        T::blend(self.beta, ends)
    }
}

impl<'p, T: Telling> annealed::path::AnnealingPath for &'p OwnPath<T> {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At = OwnAt<'p, T>;

    fn base(&self) -> &Gaussian {
        &self.0.base
    }

    fn at(&self, beta: f64) -> OwnAt<'p, T> {
        OwnAt { path: self, beta }
    }
}

fn own<T>() -> OwnPath<T> {
    let own = Own {
        base: Gaussian::standard(1).unwrap(),
        calls: AtomicU64::new(0),
    };
    OwnPath(own, std::marker::PhantomData)
}

/// log of the ratio of the integrals of exp(x - x^4) and exp(-x^2/2).
fn log_z_ratio() -> f64 {
    let step = 1e-4;
    let integral = |f: &dyn Fn(f64) -> f64| {
        let points = -60_000..=60_000;
        points
            .map(|i| f(f64::from(i) * step).exp() * step)
            .sum::<f64>()
    };
    (integral(&|x| x - x.powi(4)) / integral(&|x| -0.5 * x * x)).ln()
}

fn check<T: Telling>() -> (testing::Check, u64) {
    let path = own::<T>();
    let kernel = RandomWalkMetropolis::new(1.2).unwrap();
    let schedule = Schedule::linear(STAGES).unwrap();
    let check = testing::unbiasedness(&path, kernel, schedule, log_z_ratio(), 4_000, 5).unwrap();
    (check, path.0.calls.load(Ordering::Relaxed))
}

/// The path of a user costs 2 evaluations a stage as it is, 1 if it tells its ends, and both give one answer.
#[test]
fn paths_of_users_cost_two_evaluations_or_one() {
    let (silent, of_silent) = check::<Silent>();
    let (apart, of_apart) = check::<Apart>();
    assert!(silent.passes() && apart.passes(), "{silent}\n{apart}");
    assert!((silent.mean - apart.mean).abs() < 1e-9, "{silent}\n{apart}");
    let each = |calls: u64| calls as f64 / (4_000 * STAGES) as f64;
    assert!((1.97..2.03).contains(&each(of_silent)), "{of_silent}");
    assert!((1.0..1.04).contains(&each(of_apart)), "{of_apart}");
}

/// The wrong twin keeps the blend of another beta: `E[w]` is off.
#[test]
fn the_blend_of_another_beta_is_found_out() {
    let (stale, _) = check::<Stale>();
    assert!(!stale.passes() && stale.z().abs() > 8.0, "{stale}");
}

/// Beyond a few dozen stages a debug build looks at one state again.
#[test]
fn a_model_that_changes_is_an_error_in_debug_builds() {
    let calls = AtomicU64::new(0);
    let changing = shared::function(|x: &DVector<f64>| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        -x.norm_squared() * (1.0 + 1e-3 * call as f64)
    });
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), changing);
    let kernel = RandomWalkMetropolis::new(1.0).unwrap();
    let run = Ais::new(&path, kernel)
        .schedule(Schedule::linear(200).unwrap())
        .chains(64)
        .run();
    let found = run
        .map(|run| run.to_string())
        .map_err(|error| error.to_string());
    match cfg!(debug_assertions) {
        true => assert!(found.unwrap_err().contains("does the model change")),
        false => assert!(found.is_ok()),
    }
}

/// A budget is what the target meets, and the swaps of tempering and the stages of rounds take no evaluation.
#[test]
fn budgets_are_what_the_target_meets() {
    for batches in [false, true] {
        let model = Counted::new(3, batches);
        let path = path(&model);
        let walk = || RandomWalkMetropolis::new(0.5).unwrap();
        let tempering = Tempering::new(&path, walk()).schedule(Schedule::linear(6).unwrap());
        let run = tempering.ladders(8).rounds(6).run().unwrap();
        let met = model.take().0 as f64 / run.evaluations() as f64;
        assert!(
            (0.9..1.05).contains(&met),
            "tempering, batches {batches}: {met}"
        );
        for seed in 0..3 {
            let rounds = Rounds::new(&path, walk())
                .budget(200_000)
                .seed(seed)
                .run()
                .unwrap();
            let met = model.take().0 as f64 / rounds.evaluations() as f64;
            assert!(
                (0.9..1.05).contains(&met),
                "rounds, batches {batches}: {met}"
            );
        }
        let rounds = Rounds::new(&path, Mala::new(0.5).unwrap())
            .budget(200_000)
            .run()
            .unwrap();
        let (values, gradients, _) = model.take();
        let met = (values + gradients) as f64 / rounds.evaluations() as f64;
        assert!(
            (0.9..1.1).contains(&met),
            "rounds by MALA, batches {batches}: {met}"
        );
    }
}

/// A run that goes on from a checkpoint knows its states, and ends with the same bits.
#[cfg(feature = "checkpoint")]
#[test]
fn a_checkpoint_holds_what_is_known() {
    use std::ops::ControlFlow;

    let file = std::env::temp_dir().join(format!("annealed-memory-{}.ckpt", std::process::id()));
    for batches in [false, true] {
        let model = Counted::new(3, batches);
        let path = path(&model);
        let ais = || {
            let ais = Ais::new(&path, Hmc::new(0.4, 2).unwrap()).schedule(schedule());
            ais.chains(CHAINS).block_size(CHAINS).threads(1)
        };
        let whole = ais().run().unwrap();
        let of_whole = model.take().1;
        let stop = |at: Progress| match at.done > (CHAINS * STAGES / 2) as u64 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let _ = ais().progress(stop).checkpoint(&file).run();
        let resumed = ais().checkpoint(&file).resume().unwrap();
        assert_eq!(resumed.log_weights(), whole.log_weights());
        let of_both = model.take().1;
        // A few chains tell the run from others, twice; without memory each chain would cost one gradient more.
        assert!(
            of_both < of_whole + 5 * CHAINS as u64 / 2,
            "{of_both} {of_whole}"
        );
        std::fs::remove_file(&file).unwrap();
    }
}

/// Asserts that results count the states at which the likelihood is evaluated, a value with its gradient once. A plain
/// run does not count first states, nor the few states by which it recognises its model.
macro_rules! assert_rows {
    ($kernel:expr) => {
        for (batches, dimension) in [(false, 3), (true, 3), (false, 10)] {
            let model = Counted::new(dimension, batches);
            let path = TemperedPath::new(Gaussian::standard(dimension).unwrap(), &model);
            let beyond = |counted: u64| {
                let (values, gradients, _) = model.take();
                (values + gradients) as i64 - counted as i64
            };
            let ais = Ais::new(&path, $kernel).schedule(schedule()).chains(CHAINS);
            let run = ais.run().unwrap();
            let few = beyond(run.evaluations() + CHAINS as u64);
            assert!((0..FEW as i64).contains(&few), "run: {few}");
            let first = FirstPass::new(&path, $kernel).chains(CHAINS).run().unwrap();
            assert_eq!(beyond(first.evaluations), 0);
            let rounds = || Rounds::new(&path, $kernel).chains(CHAINS);
            let run = rounds().rounds(3).run().unwrap();
            // A debug build looks at one state again.
            let again = beyond(run.evaluations());
            assert!((0..=1).contains(&again), "rounds: {again}");
            let fitted = rounds().until_error(0.1).fitted().run().unwrap();
            assert_eq!(beyond(fitted.evaluations()), 0);
            // The path from a mixture evaluates the target at its base, where a kernel checks the gradient.
            let of_check = 24 * dimension as i64 + 4;
            let challenge = || Challenge::new(&path, $kernel, &fitted).budget(60_000);
            for challenge in [challenge(), challenge().with_gradient()] {
                let found = challenge.run().unwrap();
                let rest = beyond(found.evaluations());
                let name = stringify!($kernel);
                assert!([0, of_check].contains(&rest), "{name} {dimension} {batches} {rest}\n{found}");
                assert!(found.evaluations() <= 60_000);
            }
        }
    };
}

#[test]
fn results_count_the_rows_of_the_likelihood() {
    assert_rows!(RandomWalkMetropolis::new(0.5).unwrap());
    assert_rows!(Mala::new(0.5).unwrap());
    assert_rows!(Hmc::new(0.3, 4).unwrap());
}

/// The number of evaluations of a slice is random; the kernel counts six for a coordinate.
#[test]
fn slices_count_about_as_many_rows_as_they_take() {
    let model = Counted::new(3, false);
    let path = TemperedPath::new(Gaussian::standard(3).unwrap(), &model);
    let slice = Slice::new(1.4).unwrap();
    let rounds = Rounds::fixed(&path, slice).rounds(3).run().unwrap();
    let met = model.take().0 as f64 / rounds.evaluations() as f64;
    assert!((0.8..1.2).contains(&met), "{met}");
}
