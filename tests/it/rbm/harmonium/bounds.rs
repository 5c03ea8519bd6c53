//! Lower bounds on log Z of random harmoniums: never above the exact value, and what they are made of.

use annealed::Error;
use annealed::harmonium::{CategoricalUnits, GaussianUnits, Harmonium, VisibleUnits};
use annealed::random::{Purpose, stream};
use annealed::rbm::{sigmoid, softplus};
use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::RngExt;

use super::{biases_of, bits, check_bound, log_sum};

/// A kind of units whose log normalizer in a field is written down a second time.
trait Formula: VisibleUnits {
    fn formula(&self, field: &DVector<f64>) -> f64;
}

impl Formula for GaussianUnits {
    fn formula(&self, field: &DVector<f64>) -> f64 {
        let deviations = self.deviations();
        let units = self.means().iter().zip(&deviations).zip(field);
        let term = |((mean, sd), x): ((&f64, &f64), &f64)| {
            (sd * std::f64::consts::TAU.sqrt()).ln() + x * mean + (sd * x).powi(2) / 2.0
        };
        units.map(term).sum()
    }
}

impl Formula for CategoricalUnits {
    fn formula(&self, field: &DVector<f64>) -> f64 {
        let fields = field.as_slice().chunks(self.categories());
        let units = self.biases().column_iter().zip(fields);
        let logits = units.map(|(biases, x)| biases + DVector::from_column_slice(x));
        logits.map(|x| log_sum(x.iter().copied().collect())).sum()
    }
}

fn exact<V: Formula>(machine: &Harmonium<V>) -> f64 {
    let log_f = bits(machine.hidden_units()).map(|h| {
        let on = h.iter().map(|&on| f64::from(on));
        let on = DVector::from_iterator(h.len(), on);
        let field = machine.weights().tr_mul(&on);
        biases_of(machine.hidden_bias(), &h) + machine.visible().formula(&field)
    });
    log_sum(log_f.collect())
}

/// How hidden biases are drawn.
#[derive(Debug, Clone, Copy)]
enum Biases {
    Random(f64),
    /// One that a unit can hardly overcome, or 0.
    Extreme(f64),
}

fn biases() -> impl Strategy<Value = Biases> {
    prop_oneof![
        (0.0..10.0).prop_map(Biases::Random),
        prop_oneof![Just(-1e3), Just(-40.0), Just(40.0), Just(1e3)].prop_map(Biases::Extreme),
    ]
}

fn machine<V: VisibleUnits>(
    visible: V,
    hidden: usize,
    size: f64,
    biases: Biases,
    seed: u64,
) -> Harmonium<V> {
    let mut rng = stream(seed, Purpose::TESTING, 0);
    let columns = visible.statistic_count();
    let weights = DMatrix::from_fn(hidden, columns, |_, _| rng.random_range(-1.0..=1.0) * size);
    let hidden_bias = DVector::from_fn(hidden, |_, _| match biases {
        Biases::Random(size) => rng.random_range(-1.0..=1.0) * size,
        Biases::Extreme(bias) => bias * f64::from(rng.random::<bool>()),
    });
    Harmonium::new(weights, hidden_bias, visible).unwrap()
}

/// Deviations from e^-2 to e^2.
fn gaussian_units(units: usize, seed: u64) -> GaussianUnits {
    let mut rng = stream(seed, Purpose::TESTING, 1);
    let means = DVector::from_fn(units, |_, _| rng.random_range(-3.0..=3.0));
    let deviations = DVector::from_fn(units, |_, _| rng.random_range(-2.0..=2.0_f64).exp());
    GaussianUnits::new(means, deviations).unwrap()
}

fn categorical_units(categories: usize, units: usize, seed: u64) -> CategoricalUnits {
    let mut rng = stream(seed, Purpose::TESTING, 2);
    let biases = DMatrix::from_fn(categories, units, |_, _| rng.random_range(-5.0..=5.0));
    CategoricalUnits::new(biases).unwrap()
}

/// States without the hidden units.
fn states<V: VisibleUnits>(visible: &V, count: usize, seed: u64) -> Vec<V::State> {
    let mut rng = stream(seed, Purpose::TESTING, 3);
    (0..count).map(|_| visible.sample(&mut rng)).collect()
}

fn check_machine<V: Formula>(
    machine: &Harmonium<V>,
    (given, starts): (usize, usize),
    seed: u64,
) -> Result<(), TestCaseError> {
    let given = states(machine.visible(), given, seed);
    let bound = machine.lower_bound(&given, starts, seed).unwrap();
    check_bound(&bound, exact(machine), 1.0)
}

/// Hidden and visible units are independent, and any mean field is exact.
fn check_free<V: Formula>(visible: V, hidden: usize, biases: Biases) -> Result<(), TestCaseError> {
    let machine = machine(visible, hidden, 0.0, biases, 1);
    let bound = machine.lower_bound(&[], 1, 1).unwrap();
    let softplus: f64 = machine.hidden_bias().iter().map(|&a| softplus(a)).sum();
    let expected = softplus + machine.visible().log_normalizer();
    let error = (bound.modes[0].bound - expected).abs();
    prop_assert!(error <= 1e-12 * softplus.max(1.0), "{bound:?} {expected}");
    prop_assert_eq!(bound.modes.len(), 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn no_bound_is_above_the_exact_value(
        (hidden, visible, categories) in (1..=9_usize, 1..=8_usize, 1..=5_usize),
        size in 0.0..5.0_f64,
        biases in biases(),
        starts in (0..4_usize, 1..4_usize),
        seed: u64,
    ) {
        let gaussian = machine(gaussian_units(visible, seed), hidden, size, biases, seed);
        check_machine(&gaussian, starts, seed)?;
        let units = categorical_units(categories, visible, seed);
        check_machine(&machine(units, hidden, size, biases, seed), starts, seed)?;
    }

    #[test]
    fn without_weights_every_mean_field_is_exact(
        (hidden, visible, categories) in (1..=9_usize, 1..=8_usize, 1..=5_usize),
        biases in biases(),
        seed: u64,
    ) {
        check_free(gaussian_units(visible, seed), hidden, biases)?;
        check_free(categorical_units(categories, visible, seed), hidden, biases)?;
    }
}

/// Solutions of `mu = sigmoid(a + W m)` with m the means of the statistics in the field `W^T mu`, and their bounds.
fn check_modes<V: Formula>(machine: &Harmonium<V>) {
    let bound = machine.lower_bound(&[], 40, 1).unwrap();
    let entropy = |p: f64| match p * (1.0 - p) {
        0.0 => 0.0,
        _ => -p * p.ln() - (1.0 - p) * (1.0 - p).ln(),
    };
    for mode in &bound.modes {
        let field = machine.weights().tr_mul(&mode.hidden);
        let mean_field = machine.hidden_bias().dot(&mode.hidden)
            + mode.hidden.iter().map(|&p| entropy(p)).sum::<f64>()
            + machine.visible().formula(&field);
        let error = (mean_field - mode.bound).abs();
        assert!(error < 1e-10 * (1.0 + mean_field.abs()), "{error}");
        for i in 0..field.len() {
            let moved = |step| {
                let mut field = field.clone();
                field[i] += step;
                machine.visible().formula(&field)
            };
            let slope = (moved(1e-4) - moved(-1e-4)) / 2e-4;
            assert!((slope - mode.visible[i]).abs() < 1e-6 * (1.0 + slope.abs()));
        }
        let hidden = (machine.hidden_bias() + machine.weights() * &mode.visible).map(sigmoid);
        assert!((hidden - &mode.hidden).amax() < 0.01);
    }
}

#[test]
fn modes_are_solutions_with_their_bounds() {
    for seed in 0..20 {
        let biases = Biases::Random(1.0);
        check_modes(&machine(gaussian_units(4, seed), 7, 1.0, biases, seed));
        check_modes(&machine(
            categorical_units(3, 4, seed),
            7,
            2.0,
            biases,
            seed,
        ));
    }
}

/// Every hidden configuration is a neighbour of one that is found.
#[test]
fn the_search_finds_all_configurations_of_a_small_machine() {
    for seed in 0..20 {
        let biases = Biases::Random(1.0);
        let gaussian = machine(gaussian_units(4, seed), 4, 0.2, biases, seed);
        let bound = gaussian.lower_bound(&[], 1, seed).unwrap();
        assert!(
            (bound.configurations - exact(&gaussian)).abs() < 1e-12,
            "{seed}"
        );
        let categorical = machine(categorical_units(3, 4, seed), 4, 1.0, biases, seed);
        let bound = categorical.lower_bound(&[], 1, seed).unwrap();
        assert!(
            (bound.configurations - exact(&categorical)).abs() < 1e-12,
            "{seed}"
        );
    }
}

/// Five hidden units that hold the mass when all are on, and next to none where only some are.
#[test]
fn a_state_of_a_mode_finds_it() {
    let units = GaussianUnits::new(DVector::zeros(9), DVector::repeat(9, 1.0)).unwrap();
    let (weights, hidden_bias) = (DMatrix::repeat(5, 9, 1.5), DVector::repeat(5, -48.0));
    let machine = Harmonium::new(weights, hidden_bias, units).unwrap();
    let exact = machine.exact_log_normalizer().unwrap();
    let none = machine.lower_bound(&[DVector::zeros(9)], 0, 0).unwrap();
    assert!(none.value < exact - 5.0, "{} {exact}", none.value);
    let found = machine
        .lower_bound(&[DVector::repeat(9, 7.5)], 0, 0)
        .unwrap();
    assert!(
        (found.value - exact).abs() < 0.01,
        "{} {exact}",
        found.value
    );
}

/// In units of another size, as metres and micrometres, the ascents end at the same means of the hidden units.
#[test]
fn the_bound_does_not_depend_on_the_units_of_measurement() {
    let units = gaussian_units(4, 1);
    let machine = machine(units.clone(), 7, 1.0, Biases::Random(1.0), 1);
    let bound = machine.lower_bound(&states(&units, 3, 1), 5, 1).unwrap();
    for scale in [1e-6, 1e6] {
        let units = GaussianUnits::new(units.means() * scale, units.deviations() * scale).unwrap();
        let (weights, hidden_bias) = (machine.weights() / scale, machine.hidden_bias().clone());
        let scaled = Harmonium::new(weights, hidden_bias, units.clone()).unwrap();
        let found = scaled.lower_bound(&states(&units, 3, 1), 5, 1).unwrap();
        let shift = 4.0 * f64::ln(scale);
        assert_eq!(found.modes.len(), bound.modes.len());
        for (one, other) in found.modes.iter().zip(&bound.modes) {
            assert!((one.bound - shift - other.bound).abs() < 1e-9);
        }
        assert!((found.value - shift - bound.value).abs() < 1e-9);
    }
}

#[test]
fn bad_input_is_refused() {
    let machine = machine(categorical_units(3, 4, 1), 2, 1.0, Biases::Random(1.0), 1);
    let none = machine.lower_bound(&[], 0, 0).unwrap_err().to_string();
    assert!(
        none.starts_with("invalid states and starts: got 0"),
        "{none}"
    );
    let short = machine.lower_bound(&[vec![0; 3]], 1, 0).unwrap_err();
    assert!(
        short.to_string().contains("state: got 3, expected 4"),
        "{short}"
    );
    let unknown = machine.lower_bound(&[vec![0, 1, 3, 0]], 1, 0).unwrap_err();
    assert!(unknown.to_string().contains("3 at index 2"), "{unknown}");
    for weight in [1e160, -1e160] {
        let huge = DMatrix::repeat(2, 3, weight);
        let huge = Harmonium::new(huge, DVector::zeros(2), gaussian_units(3, 1)).unwrap();
        let overflow = huge.lower_bound(&[DVector::zeros(3)], 2, 0).unwrap_err();
        assert!(
            matches!(overflow, Error::InvalidArgument { .. }),
            "{overflow}"
        );
    }
}

#[cfg(feature = "rayon")]
#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let units = categorical_units(4, 20, 1);
    let machine = machine(units.clone(), 30, 2.0, Biases::Random(1.0), 1);
    let states = states(&units, 40, 1);
    let on_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let bound = || machine.lower_bound(&states, 40, 3).unwrap();
        pool.build().unwrap().install(bound)
    };
    let one = on_threads(1);
    assert!(one.modes.len() > 1);
    assert_eq!(on_threads(5), one);
}
