//! Invariance and unbiasedness of runs along the path.

use annealed::Result;
use annealed::estimate::LogZ;
use annealed::harmonium::{
    CategoricalUnits, EnumeratedHarmonium, Harmonium, HarmoniumPath, VisibleUnits,
};
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::Stationary;
use annealed::prelude::{
    Ais, BlockGibbs, Bridge, Friction, Pilot, Schedule, ScheduleOptimizer, TargetSamples, Tempering,
};
use annealed::rbm::{Rbm, sigmoid};
use annealed::testing::{invariance, unbiasedness};
use nalgebra::DVector;
use rand::{Rng, RngExt};

use super::{assert_close, biases_of, bits, categorical, column, gaussian, normal, wide};

/// The harmonium at one beta of a path, as one of its own.
fn machine_at<V: VisibleUnits>(path: &HarmoniumPath<V>, beta: f64) -> Harmonium<V> {
    let (target, visible) = (path.target(), path.at(beta).visible().clone());
    Harmonium::new(
        target.weights() * beta,
        target.hidden_bias() * beta,
        visible,
    )
    .unwrap()
}

fn check_invariance<V: VisibleUnits>(
    path: &HarmoniumPath<V>,
    statistic: impl Fn(&V::State) -> f64,
) {
    for beta in [0.6, 1.0] {
        let machine = machine_at(path, beta);
        let exact = EnumeratedHarmonium::new(machine.clone()).unwrap();
        let sample = |rng: &mut _| exact.sample(rng);
        let check = invariance(
            &path.at(beta),
            &BlockGibbs,
            sample,
            &statistic,
            3,
            20_000,
            1,
        );
        assert!(check.clone().unwrap().passes(), "beta {beta}: {check:?}");
        let plain = Stationary(&machine);
        let check = invariance(&plain, &BlockGibbs, sample, &statistic, 3, 20_000, 2);
        assert!(
            check.clone().unwrap().passes(),
            "plain, beta {beta}: {check:?}"
        );
    }
}

#[test]
fn block_gibbs_leaves_every_model_of_the_path_invariant() {
    let path = HarmoniumPath::new(wide(), gaussian(4)).unwrap();
    check_invariance(&path, |v| v[0]);
    check_invariance(&path, |v| v[0] * v[1]);
    check_invariance(&path, |v| v[1] * v[1]);
    let base = CategoricalUnits::uniform(3, 3).unwrap();
    let path = HarmoniumPath::new(base, categorical(4)).unwrap();
    for state in [vec![0, 0, 0], vec![2, 1, 0], vec![1, 2, 2]] {
        check_invariance(&path, |v| f64::from(*v == state));
        check_invariance(&path, |v| f64::from(v[0] == state[0]));
    }
}

/// Three stages, so that the weights vary much.
fn check_weights<V: VisibleUnits>(path: &HarmoniumPath<V>)
where
    V::State: Send + Clone,
{
    let schedule = || Schedule::linear(3).unwrap();
    let log_z = path.target().exact_log_normalizer().unwrap();
    let ratio = log_z - path.base().log_normalizer();
    let check = unbiasedness(path, BlockGibbs, schedule(), ratio, 40_000, 1).unwrap();
    assert!(check.passes(), "{check}");
    let run = Ais::new(path, BlockGibbs)
        .schedule(schedule())
        .chains(20_000)
        .seed(2);
    let run = run.run().unwrap();
    let (found, error) = (run.log_z(), run.standard_error());
    assert!(
        (found - log_z).abs() < 4.0 * error,
        "{found} +- {error}, {log_z}"
    );
    assert!(error > 2e-3, "no coarse schedule: {error}");
}

#[test]
fn coarse_schedules_are_unbiased() {
    check_weights(&HarmoniumPath::new(wide(), gaussian(6)).unwrap());
    let base = CategoricalUnits::uniform(3, 3).unwrap();
    check_weights(&HarmoniumPath::new(base, categorical(6)).unwrap());
}

/// A run from exact samples of the target back to the base.
#[test]
fn a_reverse_run_finds_the_same_log_z() {
    let target = gaussian(6);
    let exact = EnumeratedHarmonium::new(target.clone()).unwrap();
    let path = HarmoniumPath::new(wide(), target).unwrap();
    let ais = Ais::new(&path, BlockGibbs)
        .schedule(Schedule::linear(5).unwrap())
        .chains(4_000);
    let reverse = ais.reverse(&TargetSamples::draw(&exact, 4_000, 1)).unwrap();
    let bridge = Bridge::new(&ais.run().unwrap(), &reverse).unwrap();
    let error = (bridge.log_z() - exact.log_normalizer()).abs();
    assert!(error < 4.0 * bridge.standard_error(), "{bridge}");
}

#[test]
fn tempering_and_pilots_take_the_path() {
    let path = HarmoniumPath::new(wide(), gaussian(6)).unwrap();
    let log_z = path.target().exact_log_normalizer().unwrap();
    let tempering = Tempering::new(&path, BlockGibbs).rounds(8).run().unwrap();
    let error = (tempering.log_z() - log_z).abs();
    assert!(error < 5.0 * tempering.standard_error(), "{error}");
    let pilot = Friction::default().pilot(Pilot::new(100, 100));
    let found = pilot.optimize(&path, &BlockGibbs, 50, 1).unwrap();
    let run = Ais::new(&path, BlockGibbs).schedule(found.schedule);
    let run = run.chains(2_000).run().unwrap();
    let error = (run.log_z() - log_z).abs();
    assert!(error < 4.0 * run.standard_error(), "{run}");
}

/// Units of 0 and 1, from outside of the library.
#[derive(Debug, Clone)]
struct Bits(DVector<f64>);

impl UnnormalizedModel for Bits {
    type State = Vec<bool>;

    fn log_density(&self, state: &Vec<bool>) -> f64 {
        biases_of(&self.0, state)
    }
}

impl NormalizedModel for Bits {
    fn log_normalizer(&self) -> f64 {
        self.0.iter().map(|b| b.exp().ln_1p()).sum()
    }
}

impl Sampleable for Bits {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<bool> {
        let on = |b: &f64| rng.random::<f64>() < 1.0 / (1.0 + (-b).exp());
        self.0.iter().map(on).collect()
    }
}

impl VisibleUnits for Bits {
    fn units(&self) -> usize {
        self.0.len()
    }

    fn statistic_count(&self) -> usize {
        self.0.len()
    }

    fn statistics(&self, state: &Vec<bool>) -> impl Iterator<Item = (usize, f64)> {
        let units = state.iter().enumerate();
        units.filter(|(_, on)| **on).map(|(unit, _)| (unit, 1.0))
    }

    fn mean_statistics(&self) -> DVector<f64> {
        self.0.map(sigmoid)
    }

    fn tilted(&self, field: &DVector<f64>) -> Self {
        Self(&self.0 + field)
    }

    fn blended(&self, other: &Self, t: f64) -> Self {
        Self(&self.0 * (1.0 - t) + &other.0 * t)
    }

    fn check_state(&self, _: &'static str, _: &Vec<bool>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_kind_of_units_from_outside_agrees_with_the_rbm() {
    let (weights, hidden, visible) = (normal(9, 4, 1.0, 6), column(9, 0.5, 7), column(4, 0.5, 8));
    let rbm = Rbm::new(weights.clone(), hidden.clone(), visible.clone()).unwrap();
    let machine = Harmonium::new(weights, hidden, Bits(visible)).unwrap();
    bits(4).for_each(|v| assert_close(machine.log_density(&v), rbm.log_density(&v)));
    let log_z = rbm.exact_log_normalizer().unwrap();
    assert_close(machine.exact_log_normalizer().unwrap(), log_z);
    let states = Vec::from_iter(bits(4));
    let bounds = [
        rbm.lower_bound(&states, 0, 0),
        machine.lower_bound(&states, 0, 0),
    ];
    let [of_rbm, of_machine] = bounds.map(|bound| bound.unwrap());
    // An RBM searches the smaller layer, whose 16 states are all given here, and a harmonium the hidden one.
    assert_close(of_rbm.configurations, log_z);
    assert!(of_machine.configurations < log_z + 1e-9 && of_machine.configurations > log_z - 0.1);
    assert!((of_machine.modes[0].bound - of_rbm.modes[0].bound).abs() < 1e-4);
    check_weights(&HarmoniumPath::new(Bits(DVector::zeros(4)), machine).unwrap());
}
