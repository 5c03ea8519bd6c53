//! Resampling between stages: unbiased estimates and honest errors.

use annealed::Error;
use annealed::ais::{Ais, Run};
use annealed::estimate::{Estimate, LogZ, Warning, WeightedSample, log_mean_exp, log_sum_exp};
use annealed::kernel::{Hmc, PerfectTransitions, RandomWalkMetropolis, TransitionKernel};
use annealed::model::{Gaussian, NormalizedModel, Sampleable};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath};
use annealed::population::{Population, Resampling, ResamplingScheme};
use annealed::random::{Purpose, StreamRng, stream};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::{RngExt, SeedableRng};

use crate::shared::islands::{SCHEMES, bias_of};
use crate::shared::mean_and_error;
use crate::shared::ring::{self, Flavor, Walk};

fn base() -> Gaussian {
    Gaussian::new(dvector![0.5, 0.0], dmatrix![1.5, -0.3; -0.3, 1.0]).unwrap()
}

fn target() -> Gaussian {
    Gaussian::new(dvector![1.6, -0.8], dmatrix![0.5, 0.2; 0.2, 0.4]).unwrap()
}

fn truth() -> f64 {
    target().log_normalizer() - base().log_normalizer()
}

const ISLAND: usize = 8;
const ISLANDS: usize = 6_000;

fn bias<P, K>(path: P, kernel: K, resampling: Resampling) -> (f64, f64)
where
    P: AnnealingPath<State = DVector<f64>> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let run = Ais::with_base_log_z(path, kernel, 0.0)
        .schedule(Schedule::linear(5).unwrap())
        .chains(ISLAND * ISLANDS)
        .block_size(ISLAND)
        .recorded_stages(1)
        .seed(3)
        .resampling(resampling)
        .run()
        .unwrap();
    bias_of(&run, ISLAND, truth())
}

#[test]
fn islands_of_a_finite_chain_are_unbiased_for_each_scheme_and_rule() {
    let path = GeometricPath::new(ring::base(), ring::target());
    for scheme in SCHEMES {
        for rule in [
            Resampling::every(1),
            Resampling::when_ess_below(0.8),
            Resampling::at([1, 3]),
        ] {
            let rule = rule.unwrap().scheme(scheme);
            let run = Ais::with_base_log_z(&path, Walk(Flavor::Lazy), 0.0)
                .schedule(Schedule::linear(4).unwrap())
                .chains(5 * ISLANDS)
                .block_size(5)
                .recorded_stages(1)
                .seed(5)
                .resampling(rule.clone())
                .run()
                .unwrap();
            let (bias, error) = bias_of(&run, 5, ring::log_ratio());
            assert!(bias.abs() <= 4.0 * error, "{rule:?}: {bias} +- {error}");
            assert!(error < 0.01, "{rule:?}: {error}");
        }
    }
}

/// The number of copies of each of these chains, given their normalised weights.
type Draw = fn(&[f64], &mut StreamRng) -> Vec<usize>;

/// The bias of islands that are resampled by a scheme of one's own after each stage, and its error.
fn bias_by(draw: Draw) -> (f64, f64) {
    let path = GeometricPath::new(ring::base(), ring::target());
    let mut rng = stream(5, Purpose::TESTING, 0);
    let island = |_| {
        let mut states: Vec<usize> = (0..ISLAND).map(|_| path.base().sample(&mut rng)).collect();
        let mut log_ratio = -ring::log_ratio();
        for beta in [0.0, 0.25, 0.5, 0.75].windows(2) {
            let rngs = (0..ISLAND).map(|_| StreamRng::from_rng(&mut rng)).collect();
            let mut island = Population::from_states(&path, beta[0], 0, states, rngs).unwrap();
            island.advance_to(&Walk(Flavor::Lazy), beta[1]).unwrap();
            let block = island.block();
            log_ratio += log_mean_exp(block.log_weights());
            let total = log_sum_exp(block.log_weights());
            let shares = block.log_weights().iter().map(|w| (w - total).exp());
            let copies = draw(&shares.collect::<Vec<_>>(), &mut rng);
            let copies = block.states().iter().zip(copies);
            states = copies
                .flat_map(|(&state, n)| std::iter::repeat_n(state, n))
                .collect();
        }
        let last = states
            .iter()
            .map(|x| ring::log_blend(1.0)[*x] - ring::log_blend(0.75)[*x]);
        (log_ratio + log_mean_exp(&last.collect::<Vec<_>>())).exp() - 1.0
    };
    mean_and_error((0..ISLANDS).map(island))
}

#[test]
fn a_scheme_that_gives_what_is_left_to_the_largest_weight_is_biased() {
    let multinomial: Draw = |shares, rng| {
        let mut copies = vec![0; shares.len()];
        for _ in shares {
            let mut level = rng.random::<f64>();
            let chain = shares.iter().position(|share| {
                level -= share;
                level < 0.0
            });
            copies[chain.unwrap_or(shares.len() - 1)] += 1;
        }
        copies
    };
    let greedy: Draw = |shares, _| {
        let n = shares.len();
        let mut copies: Vec<usize> = shares.iter().map(|w| (n as f64 * w) as usize).collect();
        let largest = (0..n).max_by(|&a, &b| shares[a].total_cmp(&shares[b]));
        copies[largest.unwrap()] += n - copies.iter().sum::<usize>();
        copies
    };
    let (bias, error) = bias_by(multinomial);
    assert!(
        bias.abs() <= 4.0 * error && error < 0.01,
        "{bias} +- {error}"
    );
    let (bias, error) = bias_by(greedy);
    assert!(bias.abs() > 10.0 * error, "{bias} +- {error}");
}

#[test]
fn islands_are_unbiased_for_each_scheme_and_rule() {
    let path = GeometricPath::new(base(), target());
    let walk = RandomWalkMetropolis::new(0.5).unwrap();
    for scheme in SCHEMES {
        for rule in [Resampling::every(2), Resampling::when_ess_below(0.6)] {
            let (bias, error) = bias(&path, &walk, rule.unwrap().scheme(scheme));
            assert!(bias.abs() <= 4.0 * error, "{scheme:?}: {bias} +- {error}");
            assert!(error < 0.01, "{scheme:?}: {error}");
        }
    }
}

#[test]
fn islands_of_hmc_are_unbiased() {
    // Values and gradients that are known of a state go with the state.
    let path = GeometricPath::new(base(), target());
    let kernel = Hmc::new(0.4, 2).unwrap();
    let resampling = Resampling::every(1).unwrap();
    let (bias, error) = bias(&path, kernel, resampling);
    assert!(
        bias.abs() <= 4.0 * error && error < 0.01,
        "{bias} +- {error}"
    );
}

#[test]
fn errors_from_families_are_those_of_repeated_runs() {
    let path = GeometricPath::new(base(), target());
    for (block_size, resampling) in [
        (500, Resampling::when_ess_below(0.5).unwrap()),
        (50, Resampling::every(5).unwrap()),
    ] {
        let (mut squares, mut variances, mut covered, mut mean) = (0.0, 0.0, 0, 0.0);
        const SEEDS: u64 = 400;
        for seed in 0..SEEDS {
            let run = Ais::with_base_log_z(&path, RandomWalkMetropolis::new(0.4).unwrap(), 0.0)
                .schedule(Schedule::linear(15).unwrap())
                .chains(500)
                .block_size(block_size)
                .resampling(resampling.clone())
                .seed(seed)
                .run()
                .unwrap();
            let error = run.log_z() - truth();
            squares += error * error;
            mean += error / SEEDS as f64;
            variances += run.standard_error().powi(2);
            let (lower, upper) = run.interval();
            covered += usize::from(lower <= truth() && truth() <= upper);
            assert!(run.surviving_ancestors().unwrap() > 50);
            assert!(run.effective_sample_size() <= run.surviving_ancestors().unwrap() as f64);
        }
        let ratio = (squares / variances).sqrt();
        assert!((0.8..1.2).contains(&ratio), "{block_size}: {ratio}");
        let coverage = covered as f64 / SEEDS as f64;
        assert!(coverage > 0.92, "{block_size}: {coverage}");
        let spread = (squares / SEEDS as f64).sqrt();
        assert!(
            mean.abs() < 4.0 * spread / (SEEDS as f64).sqrt() + 0.01,
            "{mean}"
        );
    }
}

#[test]
fn resampled_runs_have_the_same_bits_on_any_number_of_threads() {
    let path = GeometricPath::new(base(), target());
    let run = |threads| {
        Ais::new(&path, Hmc::new(0.3, 2).unwrap())
            .schedule(Schedule::linear(20).unwrap())
            .chains(300)
            .block_size(64)
            .resampling(Resampling::when_ess_below(0.7).unwrap())
            .threads(threads)
            .run()
            .unwrap()
    };
    let (one, two) = (run(1), run(2));
    assert_eq!(one.log_weights(), two.log_weights());
    assert_eq!(one.states(), two.states());
    assert_eq!(one.estimate(), two.estimate());
    assert_eq!(one.surviving_ancestors(), two.surviving_ancestors());
    // Stages and weights agree on log Z.
    let last = one.stages().last().unwrap();
    assert!((last.log_z_ratio - one.log_z_ratio()).abs() < 1e-12);
    let (x, error) = one.expectation(|x| x[0]);
    assert!(
        (x - 1.6).abs() < 4.0 * error && error < 0.2,
        "{x} +- {error}"
    );
}

#[test]
fn without_resampling_nothing_changes() {
    let path = GeometricPath::new(base(), target());
    let ais = || Ais::new(&path, RandomWalkMetropolis::new(0.4).unwrap()).chains(100);
    let schedule = Schedule::linear(5).unwrap();
    let plain = ais().schedule(schedule.clone()).run().unwrap();
    assert_eq!(plain.surviving_ancestors(), None);
    let estimate = Estimate::from_log_weights(plain.log_weights()).unwrap();
    assert_eq!(*plain.estimate(), estimate);
    // A rule that never applies gives the same weights.
    let never = Resampling::every(1_000).unwrap();
    let run = ais().schedule(schedule).resampling(never).run().unwrap();
    assert_eq!(run.log_weights(), plain.log_weights());
    assert_eq!(run.surviving_ancestors(), Some(100));
    assert!((run.standard_error() - plain.standard_error()).abs() < 1e-12);
    assert!(Resampling::every(0).is_err() && Resampling::when_ess_below(0.0).is_err());
    assert!(Resampling::when_ess_below(f64::NAN).is_err());
}

/// Nearly equal ends: often each chain of a block is its own single copy, so that nothing shows that they share their
/// weight. Taken for independent chains, 26 of these 60 intervals held the truth.
#[test]
fn chains_that_share_their_weights_are_not_independent_though_each_keeps_its_place() {
    let target = Gaussian::isotropic(dvector![0.0, 0.0], 1.001).unwrap();
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), target.clone());
    let truth = target.log_normalizer();
    let every = Resampling::every(1).unwrap();
    let always = Resampling::when_ess_below(1.0).unwrap();
    for resampling in [every, always] {
        let (mut held, mut in_place) = (0, 0);
        for seed in 0..60 {
            let run = Ais::new(&path, RandomWalkMetropolis::new(1.0).unwrap())
                .schedule(Schedule::linear(5).unwrap())
                .chains(1_280)
                .seed(seed)
                .resampling(resampling.clone())
                .run()
                .unwrap();
            let (lower, upper) = run.interval();
            held += usize::from(lower <= truth && truth <= upper);
            in_place += usize::from(run.surviving_ancestors() == Some(run.chains()));
        }
        // Below 50 of 60 at 95% by chance: one time in a thousand.
        assert!(held >= 50 && in_place > 40, "{held} of 60, {in_place}");
    }
}

#[test]
fn chosen_stages_are_refused_where_no_schedule_has_them() {
    for stages in [vec![], vec![0, 1], vec![2, 2], vec![3, 1]] {
        let text = Resampling::at(stages).unwrap_err().to_string();
        assert!(text.contains("stages at which to resample"), "{text}");
    }
    let path = GeometricPath::new(base(), target());
    let ais = |stages: &[usize]| {
        let resampling = Resampling::at(stages.iter().copied()).unwrap();
        Ais::new(&path, RandomWalkMetropolis::new(0.4).unwrap())
            .schedule(Schedule::linear(10).unwrap())
            .chains(100)
            .resampling(resampling)
    };
    let error = ais(&[2, 10]).run().unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    // The same stages by two rules give the same bits.
    let (chosen, every) = (ais(&[4, 8]).run().unwrap(), {
        ais(&[1])
            .resampling(Resampling::every(4).unwrap())
            .run()
            .unwrap()
    });
    assert_eq!(chosen.log_weights(), every.log_weights());
}

#[test]
fn a_single_family_says_nothing_of_its_error_and_few_are_warned_of() {
    let path = GeometricPath::new(base(), target());
    let run = |chains, block_size| {
        Ais::new(&path, RandomWalkMetropolis::new(0.4).unwrap())
            .schedule(Schedule::linear(400).unwrap())
            .chains(chains)
            .block_size(block_size)
            .resampling(
                Resampling::every(1)
                    .unwrap()
                    .scheme(ResamplingScheme::Multinomial),
            )
            .run()
            .unwrap()
    };
    let few = |run: &Run<_>| {
        let found = |w: &Warning| matches!(w, Warning::FewFamilies { .. });
        run.warnings().iter().any(found)
    };
    let one = run(20, 20);
    assert_eq!(one.surviving_ancestors(), Some(1));
    assert_eq!(one.standard_error(), f64::INFINITY);
    assert_eq!(one.interval(), (f64::NEG_INFINITY, f64::INFINITY));
    assert!(few(&one));
    let (five, twelve) = (run(100, 20), run(12 * 20, 20));
    assert!(few(&five) && !few(&twelve), "{five} {twelve}");
    assert!(twelve.to_string().contains("of 12 islands"), "{twelve}");
    // Twelve islands that agree: the error is theirs, not that of twelve families.
    assert!(twelve.standard_error() < 0.2, "{twelve}");
    assert!((twelve.log_z() - target().log_normalizer()).abs() < 4.0 * twelve.standard_error());
    let mean = log_mean_exp(twelve.log_weights());
    assert!((twelve.log_z_ratio() - mean).abs() < 1e-12);
}

/// Stages that add alike are none to warn of, though resampling makes the weights equal after each; a leap is.
#[test]
fn a_leap_is_seen_between_resamplings() {
    let path = GaussianPath::new(
        Gaussian::standard(1).unwrap(),
        Gaussian::isotropic(dvector![6.0], 1.0).unwrap(),
    )
    .unwrap();
    let leaps = |betas: &[f64]| {
        let run = Ais::new(&path, PerfectTransitions)
            .schedule(Schedule::new(betas.iter().copied()).unwrap())
            .chains(4_000)
            .resampling(Resampling::every(1).unwrap())
            .run()
            .unwrap();
        run.warnings().iter().find_map(|warning| match warning {
            Warning::ConcentratedVariance { stage, .. } => Some(*stage),
            _ => None,
        })
    };
    let even: Vec<f64> = (0..=15).map(|k| f64::from(k) / 15.0).collect();
    assert_eq!(leaps(&even), None);
    let mut uneven = even[..=10].to_vec();
    uneven.push(1.0);
    assert_eq!(leaps(&uneven), Some(11));
}

/// Along its long axis the target is 2.5 times as wide as the base, so that islands whose chains hardly move agree on too
/// low a value: their errors cannot show what each lacks. Where the base covers the target and chains move, all is well.
#[test]
fn chains_that_hardly_move_are_warned_of() {
    let run = |target: &Gaussian, step: f64, seed| {
        let path = GeometricPath::new(Gaussian::standard(10).unwrap(), target);
        Ais::new(&path, RandomWalkMetropolis::new(step).unwrap())
            .schedule(Schedule::power(40, 2.0).unwrap())
            .chains(32 * 100)
            .block_size(100)
            .resampling(Resampling::every(1).unwrap())
            .seed(seed)
            .run()
            .unwrap()
    };
    let z = |run: &Run<_>, target: &Gaussian| {
        (run.log_z() - target.log_normalizer()) / run.standard_error()
    };
    let heavy = |run: &Run<_>| {
        let found = |w: &Warning| matches!(w, Warning::HeavyFamilies { .. });
        run.warnings().iter().any(found)
    };
    let correlated = DMatrix::from_fn(10, 10, |i, j| 0.9_f64.powi(i.abs_diff(j) as i32));
    let wide = Gaussian::new(DVector::from_element(10, 1.0), correlated).unwrap();
    let covered = Gaussian::isotropic(DVector::from_element(10, 0.4), 0.6_f64.sqrt()).unwrap();
    let (mut low, mut warned) = (0, 0);
    for seed in 1..=12 {
        let (faulty, sound) = (run(&wide, 0.05, seed), run(&covered, 0.3, seed));
        let is_low = z(&faulty, &wide) < -4.0;
        assert!(sound.warnings().is_empty(), "{sound}");
        assert!(z(&sound, &covered).abs() < 4.0, "{sound}");
        low += usize::from(is_low);
        warned += usize::from(is_low && heavy(&faulty));
    }
    // Runs that drew the large weights are right, and mostly silent.
    assert!(
        low >= 2 && 3 * warned >= 2 * low,
        "{warned} of {low} warned"
    );
}
