//! Paths of RBMs whose base is a mixture of base rates, against sums over all states of both layers and the
//! component.

use annealed::Error;
use annealed::ais::{Ais, RunPart};
use annealed::bidirectional::{Bridge, TargetSamples};
use annealed::estimate::LogZ;
use annealed::kernel::{Block, Increment, Stage, Step, TransitionKernel};
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, BetaDerivative, Intermediate, SimdLevel};
use annealed::population::Resampling;
use annealed::random::{Purpose, stream};
use annealed::rbm::{
    BaseRate, BlockGibbs, EnumeratedRbm, ExactMatching, Rbm, RbmAt, RbmPath, Scalar, sigmoid,
    softplus,
};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::RngExt;

use crate::shared::block_gibbs::{
    OneByOne, bits, block_of, check_frequencies, check_fused_moves, check_fused_ratios, engines,
    index, log_mean_and_rounding,
};

const SHARES: [f64; 3] = [0.5, 0.3, 0.2];

/// The logits of three components, which lie apart.
fn logits() -> [DVector<f64>; 3] {
    [
        dvector![0.5, -1.0, 0.25, -0.5],
        dvector![2.0, 1.5, -1.0, 0.5],
        dvector![-1.5, -0.5, 2.0, 1.0],
    ]
}

fn base<T: Scalar>(shares: [f64; 3]) -> BaseRate<T> {
    let models = logits().map(|logits| BaseRate::new(2, logits.map(T::nearest)).unwrap());
    BaseRate::mixture(shares.into_iter().zip(models)).unwrap()
}

fn target<T: Scalar>() -> Rbm<T> {
    let rbm = Rbm::new(
        dmatrix![1.0, -1.0, 0.5, 1.5; -0.5, 1.0, 2.0, -1.0],
        dvector![0.25, -0.25],
        dvector![0.125, -0.25, 0.25, -0.5],
    );
    rbm.unwrap().cast().unwrap()
}

fn path<T: Scalar>() -> RbmPath<T> {
    RbmPath::new(base(SHARES), target()).unwrap()
}

/// A path with a knot, which leaves the categorical unit behind.
fn through_a_knot<T: Scalar>() -> RbmPath<T> {
    let knots = Schedule::new([0.0, 0.4, 1.0]).unwrap();
    RbmPath::through(base(SHARES), vec![knot().cast().unwrap(), target()], knots).unwrap()
}

fn knot() -> Rbm<f64> {
    let weights = dmatrix![0.25, -1.0, 0.5, 0.5; -0.75, 0.0, 0.25, 0.5];
    Rbm::new(
        weights,
        dvector![-0.125, 0.25],
        dvector![0.25, -0.5, 0.25, 0.125],
    )
    .unwrap()
}

fn states() -> impl Iterator<Item = Vec<bool>> {
    (0..16).map(|state| bits(state, 4))
}

fn dot(values: &[f64], units: &[bool]) -> f64 {
    let on = values.iter().zip(units).filter(|(_, on)| **on);
    on.map(|(x, _)| x).sum()
}

/// The joint law of v, h and c at t, on the way from the mixture to `rbm`: the geometric path between `pi_c q_c(v)`, with
/// all h alike, and `f(v, h)`, with all c alike.
fn joint(rbm: &Rbm<f64>, t: f64, v: &[bool], h: &[bool], c: usize) -> f64 {
    let logits = &logits()[c];
    let log_normalizer: f64 = logits.iter().map(|&x| softplus(x)).sum();
    let log_base = SHARES[c].ln() + dot(logits.as_slice(), v) - log_normalizer;
    let log_target = -rbm.energy(v, h) - 3_f64.ln();
    ((1.0 - t) * log_base + t * log_target).exp()
}

/// `f(v)` at t, by its sum.
fn density(rbm: &Rbm<f64>, t: f64, v: &[bool]) -> f64 {
    let pairs = (0..4).flat_map(|h| (0..3).map(move |c| (bits(h, 2), c)));
    pairs.map(|(h, c)| joint(rbm, t, v, &h, c)).sum()
}

/// `T(v, v') = sum_hc p(h, c | v) p(v' | h, c)`.
fn transition(rbm: &Rbm<f64>, t: f64) -> DMatrix<f64> {
    let pairs: Vec<_> = (0..4)
        .flat_map(|h| (0..3).map(move |c| (bits(h, 2), c)))
        .collect();
    let of_pair = DVector::from_fn(12, |j, _| {
        let (h, c) = &pairs[j];
        states().map(|v| joint(rbm, t, &v, h, *c)).sum::<f64>()
    });
    DMatrix::from_fn(16, 16, |from, to| {
        let (from, to) = (bits(from, 4), bits(to, 4));
        let through = pairs
            .iter()
            .zip(&of_pair)
            .map(|((h, c), all)| joint(rbm, t, &from, h, *c) * joint(rbm, t, &to, h, *c) / all);
        through.sum::<f64>() / density(rbm, t, &from)
    })
}

/// `log Z` of the target over that of the base.
fn log_ratio() -> f64 {
    target::<f64>().exact_log_normalizer().unwrap() - base::<f64>(SHARES).log_normalizer()
}

#[test]
fn a_mixture_is_the_weighted_sum_of_its_components() {
    let base = base::<f64>(SHARES);
    let mut sum = 0.0;
    let mut marginals = DVector::zeros(4);
    for v in states() {
        let q = |c: usize| {
            let model = BaseRate::new(2, logits()[c].clone()).unwrap();
            SHARES[c] * (model.log_density(&v) - model.log_normalizer()).exp()
        };
        let p: f64 = (0..3).map(q).sum();
        assert!((base.log_density(&v) - (p.ln() + 2.0 * 2_f64.ln())).abs() < 1e-14);
        marginals += DVector::from_fn(4, |i, _| if v[i] { p } else { 0.0 });
        sum += base.log_density(&v).exp();
    }
    assert_eq!(base.log_normalizer(), 2.0 * 2_f64.ln());
    assert!((sum.ln() - base.log_normalizer()).abs() < 1e-14);
    assert!((base.visible_bias().map(sigmoid) - &marginals).amax() < 1e-15);
    assert!((base.moments().visible - &marginals).amax() < 1e-15);
    for ((share, theta), (expected, logits)) in base.components().zip(SHARES.iter().zip(logits())) {
        assert_eq!((share, theta.into_owned()), (*expected, logits));
    }
}

#[test]
fn samples_of_a_mixture_have_its_law() {
    let base = base::<f32>(SHARES);
    let mut rng = stream(5, Purpose::TESTING, 0);
    let draws = 100_000;
    let mut counts = [0.0; 16];
    for _ in 0..draws {
        counts[index(&base.sample(&mut rng))] += 1.0 / draws as f64;
    }
    for (v, count) in states().zip(counts) {
        let p = (base.log_density(&v) - base.log_normalizer()).exp();
        let se = (p * (1.0 - p) / draws as f64).sqrt();
        assert!((count - p).abs() < 4.0 * se, "{v:?}: {count} {p}");
    }
}

#[test]
fn a_mixture_of_one_is_its_model_and_mixtures_of_mixtures_are_flat() {
    let [a, b, c] = logits().map(|logits| BaseRate::new(2, logits).unwrap());
    assert_eq!(BaseRate::mixture([(7.0, a.clone())]).unwrap(), a);
    assert_eq!(a.components().len(), 1);
    let (share, theta) = a.components().next().unwrap();
    assert_eq!((share, theta.into_owned()), (1.0, logits()[0].clone()));
    let inner = BaseRate::mixture([(3.0, b), (2.0, c)]).unwrap();
    let nested = BaseRate::mixture([(10.0, a), (10.0, inner)]).unwrap();
    let shares: Vec<f64> = nested.components().map(|(share, _)| share).collect();
    for (found, expected) in shares.iter().zip(SHARES) {
        assert!((found - expected).abs() < 1e-15, "{found}");
    }
    for v in states() {
        let difference = nested.log_density(&v) - base::<f64>(SHARES).log_density(&v);
        assert!(difference.abs() < 1e-14);
    }
}

#[test]
fn rates_make_logits_and_bad_input_is_named() {
    let model = BaseRate::<f64>::from_rates(3, &dvector![0.25, 0.5, 1e-300]).unwrap();
    assert!((model.visible_bias().map(sigmoid) - dvector![0.25, 0.5, 1e-300]).amax() < 1e-16);
    for rate in [0.0, 1.0, -0.5, f64::NAN] {
        let refused = BaseRate::<f64>::from_rates(3, &dvector![0.5, rate]).unwrap_err();
        assert!(refused.to_string().contains("rates"), "{refused}");
    }
    assert!(BaseRate::<f64>::from_rates(3, &DVector::zeros(0)).is_err());
    let model = |hidden, visible| BaseRate::<f64>::uniform(hidden, visible).unwrap();
    let named = |models: Vec<(f64, BaseRate<f64>)>, argument: &str| {
        let message = BaseRate::mixture(models).unwrap_err().to_string();
        assert!(message.contains(argument), "{message}");
    };
    named(vec![], "models of the mixture");
    for mass in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        named(
            vec![(1.0, model(2, 3)), (mass, model(2, 3))],
            "mass of a component",
        );
        named(vec![(mass, model(2, 3))], "mass of a component");
    }
    let other = || BaseRate::new(2, DVector::repeat(3, 1.0)).unwrap();
    named(
        vec![(1e308, model(2, 3)), (1e308, other())],
        "sum of the masses",
    );
    named(
        vec![(1e-300, model(2, 3)), (1e300, other())],
        "share of a component",
    );
    let joined = BaseRate::mixture([(1.0, model(2, 3)), (2.0, model(2, 3))]).unwrap();
    assert_eq!(joined, model(2, 3));
    named(vec![(1.0, model(2, 3)), (1.0, model(3, 3))], "hidden units");
    named(
        vec![(1.0, model(2, 3)), (1.0, model(2, 4))],
        "visible units",
    );
    let huge = BaseRate::new(2, DVector::repeat(3, f64::MAX)).unwrap();
    named(vec![(1.0, model(2, 3)), (1.0, huge)], "components");
}

#[test]
fn every_density_is_the_sum_over_hidden_units_and_components() {
    let (straight, knotted) = (path::<f64>(), through_a_knot::<f64>());
    for v in states() {
        for t in [0.0, 0.1, 0.5, 0.99, 1.0] {
            let exact = density(&target(), t, &v).ln();
            assert!(
                (straight.at(t).log_density(&v) - exact).abs() < 1e-13,
                "{t}"
            );
            let exact = density(&knot(), t, &v).ln();
            assert!(
                (knotted.at(0.4 * t).log_density(&v) - exact).abs() < 1e-13,
                "{t}"
            );
        }
        for path in [&straight, &knotted] {
            let ends = (path.at(0.0).log_density(&v), path.at(1.0).log_density(&v));
            assert!((ends.0 - path.base().log_density(&v)).abs() < 1e-14);
            assert!((ends.1 - path.target().log_density(&v)).abs() < 1e-13);
        }
    }
}

#[test]
fn ratios_and_derivatives_agree_with_differences() {
    for path in [path::<f64>(), through_a_knot()] {
        for v in states() {
            let pairs = [
                (0.0, 1.0),
                (0.1, 0.3),
                (0.3, 0.1),
                (1.0, 0.0),
                (0.2, 0.9),
                (0.2, 0.200001),
            ];
            for (from, to) in pairs {
                let (from, to) = (path.at(from), path.at(to));
                let difference = to.log_density(&v) - from.log_density(&v);
                assert!((to.log_ratio(&from, &v) - difference).abs() < 1e-13);
            }
            let step = 1e-5;
            for beta in [0.2, 0.7] {
                let ratio = path.at(beta + step).log_ratio(&path.at(beta - step), &v);
                let error = path.at(beta).beta_derivative(&v) - ratio / (2.0 * step);
                assert!(error.abs() < 1e-8, "{error}");
            }
        }
    }
}

/// A ratio over a step of 1e-9 to 14 digits, which a difference of log densities does not have.
#[test]
fn small_steps_do_not_cancel() {
    let path = large::<f64>(5, 30.0);
    let v = path.base().sample(&mut stream(1, Purpose::TESTING, 0));
    for beta in [0.2, 0.9] {
        let (left, reached) = (path.at(beta), path.at(beta + 1e-9));
        let slope = reached.log_ratio(&left, &v) / (reached.beta() - left.beta());
        let middle = path
            .at(0.5 * (left.beta() + reached.beta()))
            .beta_derivative(&v);
        assert!((slope / middle - 1.0).abs() < 1e-13, "{slope} {middle}");
    }
}

/// `E[w^power]` by dense matrices: the ratios of the path, transitions by sums over all states.
fn expectation(steps: usize, power: f64) -> f64 {
    let (path, target) = (path::<f64>(), target::<f64>());
    let log_z = path.base().log_normalizer();
    let p = |v: Vec<bool>| (path.base().log_density(&v) - log_z).exp();
    let mut row = DVector::from_iterator(16, states().map(p)).transpose();
    for betas in Schedule::linear(steps).unwrap().betas().windows(2) {
        let (left, reached) = (path.at(betas[0]), path.at(betas[1]));
        for (entry, v) in row.iter_mut().zip(states()) {
            *entry *= (power * reached.log_ratio(&left, &v)).exp();
        }
        row *= transition(&target, betas[1]);
    }
    row.sum()
}

#[test]
fn the_expected_weight_is_the_ratio_of_normalisers() {
    for steps in [1, 2, 5, 20] {
        let error = expectation(steps, 1.0).ln() - log_ratio();
        assert!(error.abs() < 1e-12, "K = {steps}: {error}");
    }
}

/// The weights of 65,536 chains that start at samples of `base`.
fn anneal<'a, T, K>(kernel: &K, path: &'a RbmPath<T>, base: &BaseRate<T>, steps: usize) -> Vec<f64>
where
    T: Scalar,
    K: TransitionKernel<RbmAt<'a, T>>,
{
    let mut weights = Vec::new();
    for part in 0..64 {
        let mut rng = stream(part, Purpose::PILOT, 0);
        let states = (0..1_024).map(|_| base.sample(&mut rng)).collect();
        let mut block = block_of(states, part);
        let mut workspace = K::Workspace::default();
        for (k, betas) in Schedule::linear(steps)
            .unwrap()
            .betas()
            .windows(2)
            .enumerate()
        {
            let (left, reached) = (path.at(betas[0]), path.at(betas[1]));
            let stage = Stage::new(k + 1, &left, &reached);
            kernel.advance(stage, &mut block, &mut workspace).unwrap();
        }
        weights.extend(block.log_weights().iter().map(|w| (w - log_ratio()).exp()));
    }
    weights
}

/// The standard errors by which the mean of these relative weights lies off 1.
fn z_score(weights: &[f64]) -> f64 {
    let n = weights.len() as f64;
    let mean = weights.iter().sum::<f64>() / n;
    let se = (weights.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    assert!(se < 0.01 * mean, "standard error {se} of {mean}");
    (mean - 1.0) / se
}

fn check_unbiased(name: &str, weights: &[f64], steps: usize) {
    let z = z_score(weights);
    assert!(z.abs() <= 4.0, "{name}, K = {steps}: {z} standard errors");
    // The spread of the weights is known too.
    let n = weights.len() as f64;
    let ess = weights.iter().sum::<f64>().powi(2) / weights.iter().map(|w| w * w).sum::<f64>() / n;
    let exact = (2.0 * log_ratio()).exp() / expectation(steps, 2.0);
    assert!(
        (ess - exact).abs() < 0.01,
        "{name}, K = {steps}: ESS/N {ess}, exactly {exact}"
    );
}

#[test]
fn sampled_weights_average_to_the_ratio_of_normalisers() {
    for steps in [1, 2, 5] {
        for engine in engines() {
            let path = path::<f32>().with_simd_level(engine).unwrap();
            let weights = anneal(&BlockGibbs, &path, path.base(), steps);
            check_unbiased(&format!("{engine}, f32"), &weights, steps);
            let path = self::path::<f64>().with_simd_level(engine).unwrap();
            let weights = anneal(&BlockGibbs, &path, path.base(), steps);
            check_unbiased(&format!("{engine}, f64"), &weights, steps);
        }
        let path = path::<f64>();
        check_unbiased(
            "one by one",
            &anneal(&OneByOne, &path, path.base(), steps),
            steps,
        );
    }
}

/// Without the factor 1/C the last density is three times the target's. A base of other shares is not that of the path.
#[test]
fn wrong_twins_are_seen() {
    for steps in [1, 2, 5] {
        let path = path::<f32>();
        let mut weights = anneal(&BlockGibbs, &path, path.base(), steps);
        weights.iter_mut().for_each(|w| *w *= 3.0);
        assert!(z_score(&weights).abs() > 4.0, "K = {steps}");
        let other = base::<f32>([0.1, 0.2, 0.7]);
        let z = z_score(&anneal(&BlockGibbs, &path, &other, steps));
        assert!(z.abs() > 4.0, "K = {steps}: {z}");
    }
}

fn check_transition<'a, T: Scalar, K>(name: &str, kernel: &K, path: &'a RbmPath<T>)
where
    K: TransitionKernel<RbmAt<'a, T>>,
{
    let exact = transition(&target(), 0.7);
    check_frequencies(name, kernel, path, (0.6, 0.7), &exact, 1 << 14);
}

#[test]
fn moves_have_the_exact_transition_probabilities() {
    for engine in engines() {
        let path = path::<f32>().with_simd_level(engine).unwrap();
        check_transition(&format!("{engine}, f32"), &BlockGibbs, &path);
        let path = self::path::<f64>().with_simd_level(engine).unwrap();
        check_transition(&format!("{engine}, f64"), &BlockGibbs, &path);
    }
    check_transition("one by one", &OneByOne, &path::<f64>());
}

/// Sizes that fill no panel. Logits as wide as `width`.
fn large<T: Scalar>(components: usize, width: f64) -> RbmPath<T> {
    let mut rng = stream(4, Purpose::TESTING, 1);
    let mut draw = |scale: f64| T::nearest(scale * (rng.random::<f64>() - 0.5));
    let target = Rbm::new(
        DMatrix::from_fn(37, 83, |j, _| draw(if j % 3 == 0 { 60.0 } else { 1.0 })),
        DVector::from_fn(37, |_, _| draw(2.0)),
        DVector::from_fn(83, |_, _| draw(2.0)),
    );
    let models: Vec<_> = (1..=components)
        .map(|c| {
            (
                c as f64,
                BaseRate::new(37, DVector::from_fn(83, |_, _| draw(width))),
            )
        })
        .map(|(mass, model)| (mass, model.unwrap()))
        .collect();
    RbmPath::new(BaseRate::mixture(models).unwrap(), target.unwrap()).unwrap()
}

fn sampled_block<T: Scalar>(path: &RbmPath<T>, chains: usize) -> Block<Vec<bool>> {
    let mut rng = stream(6, Purpose::PILOT, 0);
    let states = (0..chains).map(|_| path.base().sample(&mut rng)).collect();
    block_of(states, 6)
}

fn check_ratios<T: Scalar>(engine: SimdLevel, tolerance: f64) {
    for (components, chains) in [(2, 40), (12, 33), (12, 1), (40, 19)] {
        let path = large::<T>(components, 6.0).with_simd_level(engine).unwrap();
        for (from, to) in [
            (0.0, 1.0),
            (0.0, 0.01),
            (0.5, 0.51),
            (0.7, 0.7001),
            (0.999_99, 1.0),
            (1.0, 0.0),
            (0.3, 0.2),
            (0.2, 0.199_99),
        ] {
            let block = sampled_block(&path, chains);
            check_fused_ratios(&path, block, (from, to), tolerance);
        }
    }
}

#[test]
fn fused_weights_equal_the_reference() {
    for engine in engines() {
        check_ratios::<f32>(engine, 2e-3);
        // The logs of sums over the components are rounded at some 1e-14 before they are subtracted.
        check_ratios::<f64>(engine, 1e-8);
    }
}

/// More components than a panel holds.
#[test]
fn fused_moves_agree_with_the_reference_on_every_unit() {
    for engine in engines() {
        let path = large::<f32>(40, 6.0).with_simd_level(engine).unwrap();
        check_fused_moves(&path, (0.2, 0.95), 8_192, 4.0);
    }
}

/// Rounding of 100 chains over 100 stages, each ratio beside that in double precision. The path states an estimate: it
/// is exceeded by 30% at a width of 1e4.
#[test]
fn rounding_stays_within_what_the_path_states() {
    for (engine, width) in engines().flat_map(|engine| [0.1, 6.0, 1e4].map(|w| (engine, w))) {
        let path = large::<f32>(5, width).with_simd_level(engine).unwrap();
        let error = log_mean_and_rounding(&path, 100).1;
        let stated = (&path).rounding_error();
        assert!(
            error.abs() < 1.5 * stated,
            "{engine}, {width}: {error:e} {stated:e}"
        );
    }
}

/// Chains that take no part draw no bits, and dead ones do.
#[test]
fn a_dead_chain_changes_nothing_for_the_others() {
    let path = large::<f32>(12, 6.0);
    let advance = |dead: bool| {
        let mut block = sampled_block(&path, 20);
        let stages = [path.at(0.3), path.at(0.4), path.at(0.5)];
        let mut workspace = Default::default();
        for (k, pair) in stages.windows(2).enumerate() {
            if dead && k == 1 {
                let stage = Stage::new(9, &stages[0], &stages[1]);
                let gone = Increment::new(f64::NEG_INFINITY, Step::invariant());
                block.add(stage, 7, Ok(gone)).unwrap();
            }
            let stage = Stage::new(k + 1, &pair[0], &pair[1]);
            BlockGibbs
                .advance(stage, &mut block, &mut workspace)
                .unwrap();
        }
        block
    };
    let (all, some) = (advance(false), advance(true));
    for chain in (0..20).filter(|&chain| chain != 7) {
        assert_eq!(all.states()[chain], some.states()[chain]);
        assert_eq!(all.log_weights()[chain], some.log_weights()[chain]);
    }
    assert_ne!(all.states()[7], some.states()[7]);
}

#[test]
fn a_mixture_of_one_has_the_bits_of_its_component() {
    let model = || BaseRate::new(2, logits()[0].map(|x| x as f32)).unwrap();
    let run = |base: BaseRate| {
        let path = RbmPath::new(base, target()).unwrap();
        let run = Ais::new(&path, BlockGibbs)
            .schedule(linear(20))
            .chains(100)
            .run()
            .unwrap();
        (run.log_weights().to_vec(), run.states().to_vec())
    };
    assert_eq!(
        run(BaseRate::mixture([(0.3, model())]).unwrap()),
        run(model())
    );
}

fn linear(steps: usize) -> Schedule {
    Schedule::linear(steps).unwrap()
}

fn check_estimate(name: &str, log_z: f64, standard_error: f64) {
    let error = log_z - target::<f64>().exact_log_normalizer().unwrap();
    assert!(standard_error < 0.05, "{name}: {standard_error}");
    assert!(
        error.abs() <= 4.0 * standard_error,
        "{name}: {error} +- {standard_error}"
    );
}

#[test]
fn runs_resampled_tempered_and_through_knots_are_right() {
    for (name, path) in [("straight", path::<f32>()), ("knots", through_a_knot())] {
        // Stages at the knot, and stages that pass it.
        for steps in [10, 7] {
            let ais = Ais::new(&path, BlockGibbs)
                .schedule(linear(steps))
                .chains(4_000)
                .seed(2);
            let run = ais.run().unwrap();
            check_estimate(name, run.log_z(), run.standard_error());
            let resampled = ais
                .resampling(Resampling::when_ess_below(0.99).unwrap())
                .run()
                .unwrap();
            check_estimate(name, resampled.log_z(), resampled.standard_error());
        }
        let tempering = Tempering::new(&path, BlockGibbs)
            .schedule(linear(5))
            .ladders(32);
        let run = tempering.rounds(9).seed(1).run().unwrap();
        check_estimate(name, run.log_z(), run.standard_error());
    }
}

#[test]
fn parts_of_a_run_have_its_bits() {
    let path = path::<f32>();
    let ais = Ais::new(&path, BlockGibbs)
        .schedule(linear(10))
        .chains(200)
        .block_size(64);
    let whole = ais.run().unwrap();
    let parts = ais.ranges(2).unwrap().into_iter();
    let parts = parts.map(|range| ais.run_range(range).unwrap());
    assert_eq!(
        RunPart::merge(parts).unwrap().log_weights(),
        whole.log_weights()
    );
}

#[test]
fn a_reverse_run_agrees() {
    let enumerated = EnumeratedRbm::new(target::<f32>()).unwrap();
    let mut rng = stream(3, Purpose::DATA, 0);
    let samples = (0..20_000).map(|_| enumerated.sample(&mut rng)).collect();
    for path in [path::<f32>(), through_a_knot()] {
        let ais = Ais::new(&path, BlockGibbs)
            .schedule(linear(4))
            .chains(20_000)
            .seed(11);
        let samples = TargetSamples::exact(Vec::clone(&samples));
        let reverse = ais.reverse(&samples).unwrap();
        let weights = reverse.backward().log_weights().iter();
        let z = z_score(&weights.map(|w| (w + log_ratio()).exp()).collect::<Vec<_>>());
        assert!(z.abs() <= 4.0, "{z}");
        let bridge = Bridge::new(&ais.run().unwrap(), &reverse).unwrap();
        check_estimate("bridge", bridge.log_z(), bridge.standard_error());
    }
}

#[test]
fn a_spline_starts_at_the_mixtures_moments() {
    let (base, target) = (base::<f64>(SHARES), target::<f64>());
    let moments = target.exact_moments().unwrap();
    let path = RbmPath::moment_spline(
        base.clone(),
        target,
        &moments,
        linear(3),
        &ExactMatching::default().tolerance(1e-3),
    )
    .unwrap();
    let average = base.moments().average(&moments, 1.0 / 3.0).unwrap();
    let found = path.model_at_knot(1).unwrap().exact_moments().unwrap();
    assert!(found.largest_difference(&average) < 1e-3);
    let run = Ais::new(&path, BlockGibbs)
        .schedule(linear(30))
        .chains(1_000)
        .run()
        .unwrap();
    check_estimate("spline", run.log_z(), run.standard_error());
}

#[test]
fn a_model_with_a_categorical_unit_is_no_rbm() {
    let (straight, knotted) = (path::<f64>(), through_a_knot::<f64>());
    for at in [straight.at(0.0), straight.at(0.5), knotted.at(0.1)] {
        let message = at.to_rbm().unwrap_err().to_string();
        assert!(message.contains("3 components"), "{message}");
    }
    assert_eq!(&straight.at(1.0).to_rbm().unwrap(), straight.target());
    assert_eq!(knotted.at(0.4).to_rbm().unwrap(), knot());
    assert!(knotted.at(0.7).to_rbm().is_ok());
    let moments = vec![straight.base().moments(); 2];
    assert!(matches!(
        straight.joint_costs(&linear(1), &moments),
        Err(Error::InvalidArgument {
            argument: "base",
            ..
        })
    ));
}
