//! Tests of the estimates of many states.

use nalgebra::DMatrix;

use super::*;
use crate::estimate::BennettEstimate;
use crate::random::{Purpose, StandardNormal, StreamRng, stream};

/// Harmonic oscillators with log densities `-k (x - m)^2 / 2`.
#[derive(Clone, Copy)]
struct Oscillator {
    mean: f64,
    stiffness: f64,
}

impl Oscillator {
    fn log_density(&self, x: f64) -> f64 {
        -0.5 * self.stiffness * (x - self.mean).powi(2)
    }

    /// Log Z without `log(2 pi) / 2`.
    fn log_z(&self) -> f64 {
        -0.5 * self.stiffness.ln()
    }
}

fn oscillators(states: usize, apart: f64) -> Vec<Oscillator> {
    let at = |k: usize| Oscillator {
        mean: apart * k as f64,
        stiffness: 1.0 + 0.5 * k as f64,
    };
    (0..states).map(at).collect()
}

/// Returns draws of each state, which are autoregressions with this correlation.
fn draws(
    states: &[Oscillator],
    counts: &[usize],
    correlation: f64,
    rng: &mut StreamRng,
) -> Vec<f64> {
    let (normal, noise) = (
        StandardNormal::get(),
        (1.0 - correlation * correlation).sqrt(),
    );
    let mut draws = Vec::new();
    for (state, &count) in states.iter().zip(counts) {
        let mut x = normal.draw(rng);
        for _ in 0..count {
            x = correlation * x + noise * normal.draw(rng);
            draws.push(state.mean + x / state.stiffness.sqrt());
        }
    }
    draws
}

fn matrix(states: &[Oscillator], draws: &[f64]) -> DMatrix<f64> {
    DMatrix::from_fn(draws.len(), states.len(), |n, k| {
        states[k].log_density(draws[n])
    })
}

/// Results of many seeds for the difference of the last state and the first one.
#[derive(Debug, Default)]
struct Coverage {
    held: usize,
    seeds: usize,
    warned: usize,
    /// Sum of the squared errors over the standard errors.
    squares: f64,
    /// Number of differences with a standard error below half the one-sided gap.
    too_small: usize,
}

impl Coverage {
    fn share(&self) -> f64 {
        self.held as f64 / self.seeds as f64
    }

    fn spread(&self) -> f64 {
        (self.squares / self.seeds as f64).sqrt()
    }
}

fn coverage(
    seeds: usize,
    states: &[Oscillator],
    counts: &[usize],
    correlation: f64,
    dependence: &Dependence,
) -> Coverage {
    let last = states.len() - 1;
    let exact = states[last].log_z() - states[0].log_z();
    let mut found = Coverage::default();
    for seed in 0..seeds {
        let mut rng = stream(seed as u64, Purpose::TESTING, 0);
        let draws = draws(states, counts, correlation, &mut rng);
        let matrix = matrix(states, &draws);
        let mbar = Mbar::from_log_densities(matrix, counts, dependence.clone()).unwrap();
        let difference = mbar.difference(last, 0).unwrap();
        let (lower, upper) = difference.interval();
        found.seeds += 1;
        found.held += usize::from(lower <= exact && exact <= upper);
        found.warned += usize::from(!difference.warnings().is_empty());
        found.squares += ((difference.log_z() - exact) / difference.standard_error()).powi(2);
        let gaps = difference.gaps.iter();
        let gap: f64 = gaps.map(|(_, bennett)| bennett.one_sided_gap()).sum();
        found.too_small += usize::from(difference.standard_error() < 0.5 * gap);
    }
    found
}

/// Asserts a share of 91% to 98.5%. With 200 seeds, 91% to 98.5% hold with a probability of .98 at a level of 95%.
fn assert_honest(found: &Coverage) {
    assert!((0.91..=0.985).contains(&found.share()), "{found:?}");
    assert!((0.88..=1.14).contains(&found.spread()), "{found:?}");
}

#[test]
fn independent_draws_have_honest_errors() {
    let states = oscillators(5, 0.8);
    let found = coverage(200, &states, &[100; 5], 0.0, &Dependence::Independent);
    println!("independent, 5 x 100: {found:?}");
    assert_honest(&found);
    assert_eq!(found.warned, 0);
    let states = oscillators(20, 0.5);
    let found = coverage(100, &states, &[60; 20], 0.0, &Dependence::Independent);
    println!("independent, 20 x 60: {found:?}");
    assert!(found.share() > 0.89 && found.warned == 0, "{found:?}");
}

/// Neighbours overlap by about a tenth.
#[test]
fn poor_overlap_has_honest_errors() {
    let states = oscillators(5, 2.5);
    for (correlation, count, seeds) in [(0.0, 200, 200), (0.667, 1_500, 60)] {
        let dependence = match correlation > 0.0 {
            true => Dependence::Chains,
            false => Dependence::Independent,
        };
        let found = coverage(seeds, &states, &[count; 5], correlation, &dependence);
        println!("poor overlap, {correlation}: {found:?}");
        assert!(found.share() >= 0.87, "{found:?}");
    }
}

#[test]
fn counts_of_one_to_a_hundred() {
    let states = oscillators(3, 0.8);
    let found = coverage(
        200,
        &states,
        &[20, 2_000, 20],
        0.0,
        &Dependence::Independent,
    );
    println!("counts 20, 2000, 20: {found:?}");
    assert_honest(&found);
}

/// States 1 and 3 have no draws.
#[test]
fn states_without_draws_have_honest_errors() {
    let mut states = oscillators(5, 0.5);
    states.swap(3, 4);
    let found = coverage(
        200,
        &states,
        &[100, 0, 200, 100, 0],
        0.0,
        &Dependence::Independent,
    );
    println!("last state without draws: {found:?}");
    assert_honest(&found);
}

/// Passes with a probability of .997 if 95% of intervals hold.
#[test]
fn chains_have_honest_errors_and_independence_does_not_hold() {
    let states = oscillators(5, 0.8);
    let found = coverage(100, &states, &[1_300; 5], 0.667, &Dependence::Chains);
    println!("chains: {found:?}");
    assert!(found.share() >= 0.88, "{found:?}");
    let independent = Dependence::Independent;
    let wrong = coverage(50, &states, &[1_300; 5], 0.667, &independent);
    println!("chains as independent: {wrong:?}");
    assert!(wrong.share() < 0.8, "{wrong:?}");
    let found = coverage(20, &states, &[300; 5], 0.9, &Dependence::Chains);
    println!("short chains: {found:?}");
    assert!(found.warned >= 18, "{found:?}");
}

/// Replicas move over the states: the position of each replica is an autoregression, scaled for its state of the time.
#[test]
fn replicas_have_honest_errors() {
    let (states, times) = (oscillators(3, 0.8), 4_200);
    let exact = states[2].log_z() - states[0].log_z();
    let [mut held, mut held_by_chains] = [0, 0];
    for seed in 0..50 {
        let (mut rng, normal) = (stream(seed, Purpose::TESTING, 1), StandardNormal::get());
        let mut x = [(); 3].map(|()| normal.draw(&mut rng));
        let mut rows = vec![Vec::new(); 3];
        for time in 0..times {
            for (replica, x) in x.iter_mut().enumerate() {
                *x = 0.9 * *x + (1.0f64 - 0.81).sqrt() * normal.draw(&mut rng);
                let state = (replica + time) % 3;
                rows[state].push(states[state].mean + *x / states[state].stiffness.sqrt());
            }
        }
        let matrix = matrix(&states, &rows.concat());
        let held_by = |dependence| {
            let mbar = Mbar::from_log_densities(matrix.clone(), &[times; 3], dependence).unwrap();
            let (lower, upper) = mbar.difference(2, 0).unwrap().interval();
            usize::from(lower <= exact && exact <= upper)
        };
        let at = (0..3 * times).map(|draw| draw % times).collect();
        held += held_by(Dependence::Replicas(at));
        held_by_chains += held_by(Dependence::Chains);
    }
    println!("replicas: {held}, as chains: {held_by_chains} of 50");
    assert!(held >= 43, "{held}");
}

#[test]
fn no_overlap_warns_and_has_a_large_error() {
    let mut states = oscillators(4, 0.8);
    states[2].mean += 30.0;
    states[3].mean += 30.0;
    let found = coverage(100, &states, &[100; 4], 0.0, &Dependence::Independent);
    println!("no overlap: {found:?}");
    assert!(found.warned == 100 && found.too_small == 0, "{found:?}");
    let mut rng = stream(0, Purpose::TESTING, 0);
    let draws = draws(&states, &[100; 4], 0.0, &mut rng);
    let mbar =
        Mbar::from_log_densities(matrix(&states, &draws), &[100; 4], Dependence::Independent)
            .unwrap();
    let Warning::LittleOverlap { groups, .. } = &mbar.warnings()[0] else {
        panic!("{:?}", mbar.warnings());
    };
    assert_eq!(groups.as_ref().unwrap(), &[vec![0, 1], vec![2, 3]]);
    assert_eq!(mbar.warnings().len(), 1);
    // Within a group all is known.
    let inner = mbar.difference(1, 0).unwrap();
    assert!(
        inner.warnings().is_empty() && inner.standard_error() < 0.2,
        "{inner}"
    );
    assert!(mbar.difference(2, 0).unwrap().standard_error() > 10.0);
    println!("{mbar}");
}

/// Beyond a gap the error is that of the group alone, in either order of the states.
#[test]
fn a_gap_does_not_change_errors_within_a_group() {
    let mut states = oscillators(4, 0.8);
    states[2].mean += 30.0;
    states[3].mean += 30.0;
    for seed in 0..20 {
        let mut rng = stream(seed, Purpose::TESTING, 5);
        let draws = draws(&states, &[100; 4], 0.0, &mut rng);
        let all = matrix(&states, &draws);
        let group = all.view((200, 2), (200, 2)).into_owned();
        let error = |matrix, counts: &[usize], states: [usize; 2]| {
            let mbar = Mbar::from_log_densities(matrix, counts, Dependence::Independent).unwrap();
            mbar.difference(states[0], states[1])
                .unwrap()
                .standard_error()
        };
        let alone = error(group, &[100; 2], [1, 0]);
        for states in [[3, 2], [2, 3]] {
            let found = error(all.clone(), &[100; 4], states);
            assert!((found / alone - 1.0).abs() < 0.01, "{found}, alone {alone}");
        }
    }
}

/// A state without draws whose weight lies on both sides of a gap is across it from both.
#[test]
fn a_state_without_draws_on_both_sides_of_a_gap() {
    let mut states = oscillators(3, 3.5);
    states.iter_mut().for_each(|state| state.stiffness = 1.0);
    let counts = [100, 0, 100];
    let mut rng = stream(0, Purpose::TESTING, 6);
    let draws = draws(&states, &counts, 0.0, &mut rng);
    let independent = Dependence::Independent;
    let mbar = Mbar::from_log_densities(matrix(&states, &draws), &counts, independent).unwrap();
    assert!(
        matches!(mbar.warnings()[0], Warning::LittleOverlap { .. }),
        "{mbar}"
    );
    for other in [0, 2] {
        let found = mbar.difference(1, other).unwrap();
        let names = Vec::from_iter(found.warnings().iter().map(Warning::name));
        assert!(names.contains(&"LittleOverlap".into()), "{found}");
        assert!(found.standard_error() > 0.4, "{found}");
    }
}

/// Values are the same, errors nearly: one has the information of all draws, the other of each direction's own.
#[test]
fn two_states_are_bennetts_estimate() {
    for (apart, counts) in [(0.8, [300, 500]), (2.0, [1_000, 700]), (30.0, [100, 200])] {
        let states = oscillators(2, apart);
        let mut rng = stream(7, Purpose::TESTING, 0);
        let draws = draws(&states, &counts, 0.0, &mut rng);
        let matrix = matrix(&states, &draws);
        let ratio = |n: usize| matrix[(n, 1)] - matrix[(n, 0)];
        let forward = Vec::from_iter((0..counts[0]).map(ratio));
        let reverse = Vec::from_iter((counts[0]..draws.len()).map(|n| -ratio(n)));
        let bennett = BennettEstimate::of_independent(&forward, &reverse).unwrap();
        let mbar = Mbar::from_log_densities(matrix, &counts, Dependence::Independent).unwrap();
        let found = mbar.difference(1, 0).unwrap();
        println!("{found}\n{bennett}");
        let scale = 1.0 + bennett.value().abs();
        assert!(
            (found.log_z() - bennett.value()).abs() < 1e-9 * scale,
            "{found} {bennett}"
        );
        let errors = found.standard_error() / bennett.standard_error();
        assert!((errors - 1.0).abs() < 0.05, "{errors}");
        let ((lower, upper), (low, up)) = (found.interval(), bennett.interval());
        let width = up - low;
        assert!((lower - low).abs() < 0.05 * width && (upper - up).abs() < 0.05 * width);
    }
}

#[test]
fn equal_states_have_equal_log_z() {
    let mut states = oscillators(3, 0.5);
    states.extend([states[1], states[2]]);
    let counts = [50, 1, 60, 100, 0].map(|count: usize| 2 * count);
    let mut rng = stream(1, Purpose::TESTING, 0);
    let draws = draws(&states, &counts, 0.0, &mut rng);
    let mbar = Mbar::from_log_densities(matrix(&states, &draws), &counts, Dependence::Independent)
        .unwrap();
    for (i, j) in [(1, 3), (2, 4)] {
        let found = mbar.difference(i, j).unwrap();
        let (value, error) = (found.log_z(), found.standard_error());
        println!("{i} {j}: {value:.1e} +- {error:.1e}");
        assert!(value.abs() < 1e-13, "{found}");
        assert!((1e-9..1e-7).contains(&error), "{found}");
        assert!((mbar.overlap(i, j).unwrap() - 1.0).abs() < 1e-12);
    }
    assert_eq!(mbar.difference(1, 1).unwrap().standard_error(), 0.0);
    // Nothing varies between two equal states alone.
    let draws = super::tests::draws(&states[..2], &[10, 1_000], 0.0, &mut rng);
    let equal = matrix(&[states[0]; 2], &draws);
    let found = Mbar::from_log_densities(equal, &[10, 1_000], Dependence::Independent).unwrap();
    let error = found.difference(1, 0).unwrap().standard_error();
    assert!((1e-9..1e-5).contains(&error), "{error}");
    assert!(mbar.warnings().is_empty(), "{mbar}");
    let overlap = mbar.overlap_matrix();
    for row in 0..5 {
        assert!((overlap.row(row).sum() - 1.0).abs() < 1e-9, "{overlap}");
    }
    assert!((overlap[(1, 3)] / overlap[(1, 1)] - 100.0).abs() < 1e-9);
}

/// A constant of 1e4 in a log density moves its log Z, and nothing else.
#[test]
fn a_state_may_be_ten_thousand_nats_away() {
    let (states, counts) = (oscillators(3, 0.8), [100; 3]);
    let mut rng = stream(2, Purpose::TESTING, 0);
    let mut matrix = matrix(&states, &draws(&states, &counts, 0.0, &mut rng));
    let near = Mbar::from_log_densities(matrix.clone(), &counts, Dependence::Independent).unwrap();
    matrix.column_mut(1).add_scalar_mut(1e4);
    let far = Mbar::from_log_densities(matrix, &counts, Dependence::Independent).unwrap();
    let [one, other] = [near, far].map(|found| found.difference(1, 0).unwrap());
    assert!((other.log_z() - one.log_z() - 1e4).abs() < 1e-8);
    assert!((other.standard_error() / one.standard_error() - 1.0).abs() < 1e-6);
    // A state that the draws of others meet nowhere.
    let mut states = states;
    states[2].mean = 150.0;
    let mut rng = stream(3, Purpose::TESTING, 0);
    let draws = draws(&states, &counts, 0.0, &mut rng);
    let found = Mbar::from_log_densities(
        super::tests::matrix(&states, &draws),
        &counts,
        Dependence::Independent,
    );
    let found = found.unwrap().difference(2, 0).unwrap();
    let (lower, upper) = found.interval();
    let exact = states[2].log_z();
    assert!(
        found.standard_error() > 1e3 && lower < exact && exact < upper,
        "{found}"
    );
}

#[test]
fn draws_in_any_order_and_potentials_give_the_same() {
    let (states, counts) = (oscillators(3, 0.8), [40, 30, 50]);
    let mut rng = stream(4, Purpose::TESTING, 0);
    let draws = draws(&states, &counts, 0.0, &mut rng);
    let matrix = matrix(&states, &draws);
    let sorted =
        Mbar::from_log_densities(matrix.clone(), &counts, Dependence::Independent).unwrap();
    let potentials = -matrix.transpose();
    let found =
        Mbar::from_reduced_potentials(&potentials, &counts, Dependence::Independent).unwrap();
    assert_eq!(found.log_z(), sorted.log_z());
    let order = Vec::from_iter((0..120).map(|n| n * 7 % 120));
    let labels = order.iter().map(|n| {
        if *n < 40 {
            0
        } else {
            1 + usize::from(*n >= 70)
        }
    });
    let mixed = DMatrix::from_fn(120, 3, |n, k| matrix[(order[n], k)]);
    let found = Mbar::from_labels(mixed, labels.collect(), Dependence::Independent).unwrap();
    for (one, other) in found.log_z().iter().zip(sorted.log_z()) {
        assert!((one - other).abs() < 1e-10);
    }
}

/// The mean of x under a further state, and its log Z.
#[test]
fn weights_at_a_further_state() {
    use crate::estimate::WeightedSample;

    let (states, counts) = (oscillators(4, 0.6), [400; 4]);
    let mut rng = stream(5, Purpose::TESTING, 0);
    let draws = draws(&states, &counts, 0.0, &mut rng);
    let mbar = Mbar::from_log_densities(matrix(&states, &draws), &counts, Dependence::Independent)
        .unwrap();
    let between = Oscillator {
        mean: 0.9,
        stiffness: 1.7,
    };
    let column = Vec::from_iter(draws.iter().map(|x| between.log_density(*x)));
    let weights = mbar.weights_at(&column).unwrap();
    let (mean, error) = weights.expectation(|n| draws[*n]);
    assert!(
        (mean - 0.9).abs() < 4.0 * error && error < 0.1,
        "{mean} {error}"
    );
    let log_z = weights.log_z();
    let distance = log_z.log_z() - between.log_z();
    assert!(distance.abs() < 4.0 * log_z.standard_error() && log_z.standard_error() < 0.1);
    // At a state with draws it is that state's log Z.
    let column = Vec::from_iter(draws.iter().map(|x| states[2].log_density(*x)));
    let (found, own) = (
        mbar.weights_at(&column).unwrap(),
        mbar.difference(2, 0).unwrap(),
    );
    assert!((found.log_z().log_z() - own.log_z()).abs() < 1e-9);
    assert!((found.log_z().standard_error() / own.standard_error() - 1.0).abs() < 1e-6);
    let shifted = own.shifted(states[0].log_z());
    assert!((shifted.log_z() - states[2].log_z()).abs() < 4.0 * shifted.standard_error());
}

/// Histograms at the middle one of five states, and at a further state over umbrella windows, whose log Z makes most of
/// the errors.
#[test]
fn profiles_have_honest_errors() {
    let wide = |mean| Oscillator {
        mean,
        stiffness: 0.1,
    };
    for (apart, at, edges) in [
        (0.8, None, [-1.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 9.0]),
        (
            2.0,
            Some(wide(4.0)),
            [-0.5, 1.5, 3.0, 4.0, 5.0, 6.5, 7.5, 8.5],
        ),
    ] {
        let (states, counts) = (oscillators(5, apart), [200; 5]);
        let at = at.unwrap_or(states[2]);
        let probability = |bin: &[f64]| {
            let width = (bin[1] - bin[0]) / 400.0;
            let x = |i: u32| bin[0] + width * (f64::from(i) + 0.5);
            (0..400)
                .map(|i| width * at.log_density(x(i)).exp())
                .sum::<f64>()
        };
        let exact = Vec::from_iter(edges.windows(2).map(|bin| probability(bin).ln()));
        let (mut silent, mut held, mut squares) = (0, 0, 0.0);
        for seed in 0..200 {
            let mut rng = stream(seed, Purpose::TESTING, 10);
            let draws = draws(&states, &counts, 0.0, &mut rng);
            let how = Dependence::Independent;
            let mbar = Mbar::from_log_densities(matrix(&states, &draws), &counts, how).unwrap();
            let column = Vec::from_iter(draws.iter().map(|x| at.log_density(*x)));
            let bins = mbar.profile(&column, &draws, &edges).unwrap();
            let is_lowest = |bin: &&Option<Difference>| {
                bin.as_ref().is_some_and(|bin| bin.standard_error() == 0.0)
            };
            assert_eq!(bins.iter().filter(is_lowest).count(), 1);
            let lowest = bins.iter().position(|bin| is_lowest(&bin)).unwrap();
            for (bin, log_p) in bins.iter().zip(&exact) {
                let Some(bin) = bin.as_ref().filter(|bin| bin.standard_error() > 0.0) else {
                    continue;
                };
                let (truth, (lower, upper)) = (log_p - exact[lowest], bin.interval());
                if bin.warnings().is_empty() {
                    silent += 1;
                    held += usize::from(lower <= truth && truth <= upper);
                    squares += ((bin.log_z() - truth) / bin.standard_error()).powi(2);
                }
            }
        }
        let share = f64::from(held as u32) / f64::from(silent as u32);
        let spread = (squares / f64::from(silent as u32)).sqrt();
        println!("profile, {apart}: {share:.3} of {silent} hold, {spread:.3}");
        assert!(
            silent > 900 && (0.925..=0.975).contains(&share),
            "{share} of {silent}"
        );
        assert!((0.9..=1.1).contains(&spread), "{spread}");
    }
}

/// Bins without draws, edges that hold the largest and the smallest value, and the sum over bins.
#[test]
fn bins_of_a_profile() {
    let (states, counts) = (oscillators(2, 0.8), [100; 2]);
    let mut rng = stream(11, Purpose::TESTING, 11);
    let draws = draws(&states, &counts, 0.0, &mut rng);
    let matrix = matrix(&states, &draws);
    let mbar = Mbar::from_log_densities(matrix, &counts, Dependence::Independent).unwrap();
    let column = Vec::from_iter(draws.iter().map(|x| states[1].log_density(*x)));
    let [least, most] = [f64::min, f64::max].map(|of| draws.iter().copied().fold(0.0, of));
    let of = |edges: &[f64]| mbar.profile(&column, &draws, edges);
    let found = of(&[least - 1.0, least, 0.5, 1.0, most]).unwrap();
    assert!(found[0].is_none());
    let shares = found.iter().flatten().map(|bin| bin.log_z().exp());
    let lowest = shares.sum::<f64>().recip();
    let inside = Vec::from_iter(
        draws
            .iter()
            .map(|x| f64::from(u8::from((0.5..1.0).contains(x)))),
    );
    use crate::estimate::WeightedSample;
    let (mean, _) = mbar
        .weights_at(&column)
        .unwrap()
        .expectation(|n| inside[*n]);
    let share = lowest * found[2].as_ref().unwrap().log_z().exp();
    assert!((share - mean).abs() < 1e-9, "{share} {mean}");
    // The bin with the single draw that is the largest.
    let last = of(&[least, 0.5, most.next_down(), most]).unwrap();
    let last = last[2].as_ref().unwrap();
    assert_eq!(last.warnings()[0].name(), "FewWeightedDraws");
    for (edges, expected) in [
        (&[0.0][..], "two or more that rise"),
        (&[1.0, 0.0], "two or more that rise"),
        (&[0.0, f64::NAN], "two or more that rise"),
        (&[most + 1.0, most + 2.0], "a draw of a density above 0"),
    ] {
        let text = of(edges).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    assert!(mbar.profile(&column, &draws[1..], &[0.0, 1.0]).is_err());
    assert!(mbar.profile(&column[1..], &draws, &[0.0, 1.0]).is_err());
}

#[test]
fn bad_input_is_refused_by_its_place() {
    let (states, counts) = (oscillators(2, 0.8), [10, 12]);
    let mut rng = stream(6, Purpose::TESTING, 0);
    let good = matrix(&states, &draws(&states, &counts, 0.0, &mut rng));
    let refused = |matrix: DMatrix<f64>, counts: &[usize]| {
        let found = Mbar::from_log_densities(matrix, counts, Dependence::Independent);
        found.unwrap_err().to_string()
    };
    let spoilt = |value: f64, draw: usize, state: usize| {
        let mut matrix = good.clone();
        matrix[(draw, state)] = value;
        matrix
    };
    for (text, expected) in [
        (
            refused(spoilt(f64::NAN, 3, 1), &counts),
            "NaN at state 1, draw 3",
        ),
        (
            refused(spoilt(f64::INFINITY, 12, 0), &counts),
            "inf at state 0, draw 12",
        ),
        (
            refused(spoilt(f64::NEG_INFINITY, 2, 0), &counts),
            "-inf at state 0, draw 2",
        ),
        (refused(good.transpose(), &counts), "got 2, expected 22"),
        (refused(good.clone(), &[10, 10]), "got 20, expected 22"),
        (refused(good.clone(), &[10, 6, 6]), "got 3, expected 2"),
        (refused(good.clone(), &[1, 21]), "1 at state 0"),
        (
            refused(good.columns(0, 1).into_owned(), &[22]),
            "at least 2",
        ),
        (refused(DMatrix::zeros(0, 2), &[0, 0]), "draws: got none"),
    ] {
        assert!(text.contains(expected), "{text} lacks {expected}");
    }
    let labels = Vec::from_iter((0..22).map(|n| n % 3));
    let text = Mbar::from_labels(good.clone(), labels, Dependence::Independent);
    assert!(text.unwrap_err().to_string().contains("2 at row 2"));
    // Too few, out of range, or of fewer than 20 different times.
    for times in [
        Vec::from_iter(0..21),
        Vec::from_iter(1..23),
        Vec::from_iter((0..22).map(|n| n % 19)),
    ] {
        let times = Dependence::Replicas(times);
        assert!(Mbar::from_log_densities(good.clone(), &counts, times).is_err());
    }
    let mbar = Mbar::from_log_densities(good, &counts, Dependence::Independent).unwrap();
    assert!(mbar.difference(2, 0).is_err() && mbar.weights_at(&[0.0]).is_err());
}

/// Groups of states that no draw connects, or that draws connect in one direction only.
#[test]
fn states_that_no_draw_connects_are_refused() {
    // For each state, the states in which its draws have a density above 0.
    let refused = |meets: &[&[usize]]| {
        let states = meets.len();
        let density = |draw: usize, state: usize| match meets[draw / 9].contains(&state) {
            true => 0.1 * ((7 * draw + 3 * state) % 11) as f64,
            false => f64::NEG_INFINITY,
        };
        let matrix = DMatrix::from_fn(9 * states, states, density);
        let counts = vec![9; states];
        let found = Mbar::from_log_densities(matrix, &counts, Dependence::Independent);
        println!("{:?}", found.as_ref().err().map(ToString::to_string));
        found.is_err()
    };
    assert!(refused(&[&[0], &[1]]) && refused(&[&[0, 1], &[1]]));
    assert!(refused(&[&[0, 1], &[0, 1], &[0, 1, 2]]));
    assert!(refused(&[&[0, 1], &[0, 1], &[2, 3], &[2, 3]]));
    assert!(refused(&[&[0, 1, 2, 3], &[0, 1], &[2, 3], &[2, 3]]));
    // A circle connects them.
    assert!(!refused(&[&[0, 1], &[1, 2], &[2, 0]]));
}

/// One state with draws is importance sampling.
#[test]
fn one_state_with_draws() {
    let states = oscillators(2, 0.5);
    let exact = states[1].log_z() - states[0].log_z();
    let [mut held, mut held_by_chains] = [0, 0];
    for seed in 0..200 {
        let hold = |correlation: f64, count: usize, dependence| {
            let mut rng = stream(seed, Purpose::TESTING, 2);
            let draws = draws(&states, &[count, 0], correlation, &mut rng);
            let found = Mbar::from_log_densities(matrix(&states, &draws), &[count, 0], dependence);
            let (lower, upper) = found.unwrap().difference(1, 0).unwrap().interval();
            usize::from(lower <= exact && exact <= upper)
        };
        held += hold(0.0, 200, Dependence::Independent);
        held_by_chains += hold(0.667, 1_200, Dependence::Chains);
    }
    println!("one state with draws: {held}, {held_by_chains} of 200");
    assert!(held >= 182 && held_by_chains >= 178);
}

/// The count of draws exceeds two blocks of work.
#[test]
fn threads_do_not_change_the_bits() {
    let (states, counts) = (oscillators(5, 0.8), [2_500; 5]);
    let mut rng = stream(8, Purpose::TESTING, 0);
    let matrix = matrix(&states, &draws(&states, &counts, 0.0, &mut rng));
    for dependence in [Dependence::Independent, Dependence::Chains] {
        let found = [1, 2].map(|threads| {
            let work = || Mbar::from_log_densities(matrix.clone(), &counts, dependence.clone());
            let found = crate::work::in_pool(Some(threads), work).unwrap();
            let errors = (0..5).map(|i| found.difference(i, 0).unwrap().standard_error());
            (found.log_z(), Vec::from_iter(errors))
        });
        assert_eq!(found[0], found[1]);
    }
}

/// State 1 is the half line x > 0 of state 0, so that its log Z is lower by log 2; half of the densities are 0.
#[test]
fn a_density_may_be_zero() {
    let normal = StandardNormal::get();
    let mut rng = stream(9, Purpose::TESTING, 0);
    let x = Vec::from_iter((0..1_000).map(|n| match normal.draw(&mut rng) {
        x if n < 500 => x,
        x => x.abs(),
    }));
    let density = |n: usize, k: usize| match k == 1 && x[n] < 0.0 {
        true => f64::NEG_INFINITY,
        false => -0.5 * x[n] * x[n],
    };
    let matrix = DMatrix::from_fn(1_000, 2, density);
    let of = |dependence| {
        let found = Mbar::from_log_densities(matrix.clone(), &[500, 500], dependence);
        found.unwrap().difference(1, 0).unwrap()
    };
    let found = of(Dependence::Independent);
    let distance = found.log_z() + 2.0f64.ln();
    assert!(distance.abs() < 4.0 * found.standard_error(), "{found}");
    assert!(found.standard_error() < 0.06, "{found}");
    let chains = of(Dependence::Chains);
    assert!((chains.log_z() - found.log_z()).abs() < 0.02, "{chains}");
}

/// Log densities with a mistake, for draws that are right.
fn mistaken(right: &DMatrix<f64>, mistake: &str) -> DMatrix<f64> {
    let states = right.ncols();
    let mut wrong = right.clone();
    match mistake {
        "sign" => wrong = -right,
        "kJ/mol for kT" => wrong *= 2.479,
        "kT for kJ/mol" => wrong /= 2.479,
        "reversed rows" => {
            wrong = DMatrix::from_fn(right.nrows(), states, |n, k| right[(n, states - 1 - k)]);
        }
        "two rows exchanged" => wrong.swap_columns(0, 1),
        _ => {
            let shifted = right.column(1).map(|log_f| 4.184 * log_f);
            wrong.set_column(1, &shifted);
        }
    }
    wrong
}

fn contradicts(warnings: &[Warning]) -> bool {
    let is_it = |warning: &Warning| matches!(warning, Warning::DrawsContradict { .. });
    warnings.iter().any(is_it)
}

/// The measured level is in `docs/many-states.md`.
#[test]
fn right_draws_do_not_contradict_their_densities() {
    let mut apart = oscillators(4, 0.8);
    apart[2].mean += 30.0;
    apart[3].mean += 30.0;
    let independent = (Dependence::Independent, 0.0);
    let chains = (Dependence::Chains, 0.667);
    for (name, states, counts, (how, correlation)) in [
        (
            "good",
            oscillators(5, 0.8),
            vec![100; 5],
            independent.clone(),
        ),
        (
            "poor",
            oscillators(5, 2.5),
            vec![100; 5],
            independent.clone(),
        ),
        ("few", oscillators(4, 0.8), vec![12; 4], independent.clone()),
        ("none", apart, vec![50; 4], independent.clone()),
        (
            "unequal",
            oscillators(3, 0.8),
            vec![20, 1_000, 20],
            independent,
        ),
        (
            "chains",
            oscillators(4, 0.8),
            vec![1_000; 4],
            chains.clone(),
        ),
        ("short chains", oscillators(4, 0.8), vec![60; 4], chains),
    ] {
        let doubted = (0..40).filter(|seed| {
            let mut rng = stream(*seed, Purpose::TESTING, 3);
            let matrix = matrix(&states, &draws(&states, &counts, correlation, &mut rng));
            let found = Mbar::from_log_densities(matrix, &counts, how.clone()).unwrap();
            contradicts(found.warnings())
        });
        assert_eq!(doubted.count(), 0, "{name}");
    }
}

#[test]
fn mistakes_in_the_densities_contradict_the_draws() {
    let (states, counts) = (oscillators(5, 0.8), [200; 5]);
    for mistake in [
        "sign",
        "kJ/mol for kT",
        "kT for kJ/mol",
        "reversed rows",
        "two rows exchanged",
        "one row in another unit",
    ] {
        for how in [Dependence::Independent, Dependence::Chains] {
            let seen = (0..10).filter(|seed| {
                let mut rng = stream(*seed, Purpose::TESTING, 4);
                let right = matrix(&states, &draws(&states, &counts, 0.0, &mut rng));
                let wrong = mistaken(&right, mistake);
                let found = Mbar::from_log_densities(wrong, &counts, how.clone()).unwrap();
                let in_difference = contradicts(found.difference(4, 0).unwrap().warnings());
                assert_eq!(contradicts(found.warnings()), in_difference);
                in_difference
            });
            let seen = seen.count();
            println!("{mistake}, {how:?}: {seen} of 10");
            assert!(seen >= 9, "{mistake}: {seen}");
        }
    }
}

/// The estimate at a state far from all draws, whose error cannot be known, has a warning.
#[test]
fn a_further_state_far_from_all_draws_warns() {
    let (states, counts) = (oscillators(3, 0.8), [200; 3]);
    let (mut unwarned, mut held) = (0, 0);
    for (distance, least) in [
        (0.3, 0),
        (1.0, 0),
        (2.0, 0),
        (3.0, 35),
        (5.0, 40),
        (9.0, 40),
    ] {
        let mut warned = 0;
        for seed in 0..40 {
            let mut rng = stream(seed, Purpose::TESTING, 5);
            let draws = draws(&states, &counts, 0.0, &mut rng);
            let how = Dependence::Independent;
            let mbar = Mbar::from_log_densities(matrix(&states, &draws), &counts, how).unwrap();
            let far = Oscillator {
                mean: states[2].mean + distance,
                stiffness: 2.0,
            };
            let column = Vec::from_iter(draws.iter().map(|x| far.log_density(*x)));
            let weights = mbar.weights_at(&column).unwrap();
            let found = weights.log_z();
            let exact = far.log_z() - states[0].log_z();
            let is_few = |warning: &Warning| matches!(warning, Warning::FewWeightedDraws { .. });
            if found.warnings().iter().any(is_few) {
                warned += 1;
            } else {
                unwarned += 1;
                held += usize::from((found.log_z() - exact).abs() < 4.0 * found.standard_error());
            }
        }
        println!("a further state {distance} away: {warned} of 40 warn");
        assert!(warned >= least, "{distance}: {warned}");
        assert!(distance > 0.5 || warned <= 1, "{distance}: {warned}");
    }
    println!("unwarned: {held} of {unwarned} within 4 errors");
    assert!(held + 2 >= unwarned);
}

/// Independent draws that are declared as chains.
#[test]
fn chains_without_correlation_are_not_short() {
    let (states, counts) = (oscillators(4, 0.8), [190; 4]);
    let short = |correlation: f64, counts: &[usize]| {
        let seeds = (0..30).filter(|seed| {
            let mut rng = stream(*seed, Purpose::TESTING, 6);
            let matrix = matrix(&states, &draws(&states, counts, correlation, &mut rng));
            let found = Mbar::from_log_densities(matrix, counts, Dependence::Chains).unwrap();
            let mut names = found.warnings().iter().map(Warning::name);
            names.any(|name| name == "ShortChain")
        });
        seeds.count()
    };
    let [none, some, few] = [
        short(0.0, &counts),
        short(0.8, &counts),
        short(0.0, &[40; 4]),
    ];
    println!("short chains: {none}, {some}, {few} of 30");
    assert!(none <= 1 && some == 30 && few == 30);
}

/// It is Bennett's, which does not depend on counts.
#[test]
fn overlap_of_a_pair() {
    let states = oscillators(3, 1.0);
    for counts in [[2_000, 2_000, 2_000], [4_000, 400, 0]] {
        let mut rng = stream(7, Purpose::TESTING, 7);
        let draws = draws(&states, &counts, 0.0, &mut rng);
        let how = Dependence::Independent;
        let mbar = Mbar::from_log_densities(matrix(&states, &draws), &counts, how).unwrap();
        for (i, j) in [(0, 1), (2, 1), (2, 0)] {
            let density = |k: usize, x: f64| (states[k].log_density(x) - states[k].log_z()).exp();
            let term = |step: i32| {
                let x = 0.01 * f64::from(step);
                let (p, q) = (density(i, x), density(j, x));
                0.01 * 2.0 * p * q / (p + q) / std::f64::consts::TAU.sqrt()
            };
            let exact: f64 = (-800..800).map(term).sum();
            let found = mbar.overlap(i, j).unwrap();
            println!("{i} {j}: {found:.4}, exactly {exact:.4}");
            assert!((found - exact).abs() < 0.04, "{found} {exact}");
        }
    }
}

/// Potentials with a large common constant, in double and in single precision.
#[test]
fn lost_digits_warn() {
    let (states, counts) = (oscillators(3, 0.8), [100; 3]);
    let mut rng = stream(8, Purpose::TESTING, 8);
    let right = matrix(&states, &draws(&states, &counts, 0.0, &mut rng));
    let of = |matrix: DMatrix<f64>| {
        Mbar::from_log_densities(matrix, &counts, Dependence::Independent).unwrap()
    };
    let exact = of(right.clone()).difference(2, 0).unwrap();
    let lost = |found: &Mbar| {
        let names = [found.warnings(), found.difference(2, 0).unwrap().warnings()]
            .map(|warnings| warnings.iter().any(|warning| warning.name() == "Rounding"));
        assert_eq!(names[0], names[1]);
        names[0]
    };
    let single = |x: f64| f64::from(x as f32);
    assert!(!lost(&of(right.clone())) && !lost(&of(right.map(single))));
    assert!(lost(&of(right.add_scalar(1e15))));
    assert!(lost(&of(right.map(|x| single(x + 1e8)))));
    for offset in [1e10, -1e10] {
        for column in [None, Some(0), Some(1)] {
            let mut far = right.clone();
            match column {
                Some(state) => far.column_mut(state).add_scalar_mut(offset),
                None => far.add_scalar_mut(offset),
            }
            let found = of(far).difference(2, 0).unwrap();
            let moved = if column == Some(0) { -offset } else { 0.0 };
            println!("{offset} {column:?}: {found}");
            assert!((found.log_z() - moved - exact.log_z()).abs() < 1e-4);
            assert!((found.standard_error() / exact.standard_error() - 1.0).abs() < 1e-3);
        }
    }
}

#[test]
fn draws_given_twice_are_refused() {
    let (states, counts) = (oscillators(2, 0.8), [30, 30]);
    let mut rng = stream(9, Purpose::TESTING, 9);
    let x = draws(&states, &counts, 0.0, &mut rng);
    let refused = |draws: &[f64], counts: [usize; 2]| {
        let matrix = matrix(&states, draws);
        let found = Mbar::from_log_densities(matrix, &counts, Dependence::Independent);
        found.map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(refused(&x, counts), "");
    // A few equal draws may be chance.
    assert_eq!(refused(&x[..4].repeat(2), [4, 4]), "");
    let thrice = [x[..30].repeat(3), x[30..].to_vec()].concat();
    let text = refused(&thrice, [90, 30]);
    assert!(
        text.contains("state 0, which repeats its first 1/3"),
        "{text}"
    );
    let text = refused(&x[..30].repeat(2), counts);
    assert!(
        text.contains("the draws of state 0 again as state 1"),
        "{text}"
    );
}

#[test]
fn times_of_draws() {
    let found = Dependence::replicas(&[0.5, 7.0, 0.5, -1.0]).unwrap();
    assert_eq!(found, Dependence::Replicas(vec![1, 2, 1, 0]));
    assert!(Dependence::replicas(&[0.0, f64::NAN]).is_err());
    // Two chains of state 1, one after the other.
    let labels = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let times = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4].map(f64::from);
    assert_eq!(
        Dependence::chains(&times, &labels).unwrap(),
        Dependence::Chains
    );
    let mut shuffled = times;
    shuffled[5..].copy_from_slice(&[3.0, 1.0, 4.0, 2.0, 9.0, 0.0, 8.0, 5.0, 7.0, 6.0]);
    let text = Dependence::chains(&shuffled, &labels)
        .unwrap_err()
        .to_string();
    assert!(text.contains("state 1, where 5 of 10"), "{text}");
    assert!(Dependence::chains(&times, &labels[1..]).is_err());
}
