//! Priors of several parameters: densities of textbooks times the Jacobian, exact samples, gradients, log Z = 0, evidences.

use std::f64::consts::{PI, TAU};

use crate::shared::{self, exact::ln_gamma};
use annealed::bidirectional::BridgeSampling;
use annealed::model::StudentT;
use annealed::path::Stationary;
use annealed::prelude::*;
use annealed::random::{Purpose, StreamRng, stream};
use annealed::testing::{gradient_error, invariances};
use annealed::{Error, Result};
use rand::RngExt;

fn log_normal_density(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((x - mean).powi(2) / variance + (TAU * variance).ln())
}

/// Location and scale, and four effects that depend on both.
fn hierarchy() -> Result<Priors> {
    Priors::new([
        Prior::normal(1.0, 2.0)?.into(),
        Prior::half_normal(1.5)?.into(),
        JointPrior::effects(Prior::normal(0.0, 1.0)?, 4, Some(0), Some(1))?,
    ])
}

fn one(prior: Result<JointPrior>) -> Priors {
    Priors::new([prior.unwrap()]).unwrap()
}

fn usual() -> Vec<(&'static str, Priors)> {
    let normal = Prior::normal(1.0, 2.0).unwrap();
    let gamma = Prior::gamma(2.0, 1.0).unwrap();
    let uniform = Prior::uniform(0.0, 1.0).unwrap();
    let logs = JointPrior::effects(Prior::log_normal(0.0, 1.0).unwrap(), 3, None, Some(0));
    let standard = Prior::normal(0.0, 1.0).unwrap();
    let above = Prior::truncated_normal(0.5, 1.0, 0.0, f64::INFINITY).unwrap();
    let powers = [0.5, -0.5].map(|power| {
        let effects = JointPrior::effects_by_power(standard, 3, Some(1), 0, power);
        Priors::new([gamma.into(), above.into(), effects.unwrap()]).unwrap()
    });
    let [by_variance, by_precision] = powers;
    vec![
        (
            "dirichlet",
            one(JointPrior::dirichlet([0.7, 2.0, 1.0, 3.0])),
        ),
        ("two of a simplex", one(JointPrior::dirichlet([2.0, 0.5]))),
        ("ordered normal", one(JointPrior::ordered(normal, 3))),
        ("ordered gamma", one(JointPrior::ordered(gamma, 2))),
        ("ordered uniform", one(JointPrior::ordered(uniform, 4))),
        ("correlation", one(JointPrior::correlation(4, 1.5))),
        ("effects", hierarchy().unwrap()),
        (
            "effects above 0",
            Priors::new([gamma.into(), logs.unwrap()]).unwrap(),
        ),
        ("effects by a variance", by_variance),
        ("effects by a precision", by_precision),
    ]
}

fn extreme() -> Vec<(&'static str, Priors)> {
    let gamma = Prior::gamma(0.01, 1.0).unwrap();
    let cauchy = Prior::student_t(1.0, 0.0, 1e3).unwrap();
    let effects = JointPrior::effects(cauchy, 3, Some(0), Some(1)).unwrap();
    let steep = Prior::half_cauchy(1e6).unwrap();
    vec![
        ("sparse", one(JointPrior::dirichlet([0.001, 0.01, 0.001]))),
        ("sharp", one(JointPrior::dirichlet([1e4, 1.0, 1e-2]))),
        ("ordered gamma", one(JointPrior::ordered(gamma, 3))),
        ("ordered Cauchy", one(JointPrior::ordered(cauchy, 3))),
        ("correlation", one(JointPrior::correlation(3, 0.01))),
        ("no correlation", one(JointPrior::correlation(3, 1e6))),
        (
            "effects",
            Priors::new([cauchy.into(), steep.into(), effects]).unwrap(),
        ),
    ]
}

fn draws(priors: &Priors, count: usize) -> Vec<DVector<f64>> {
    let mut rng = stream(3, Purpose::TESTING, 0);
    (0..count).map(|_| priors.sample(&mut rng)).collect()
}

/// A likelihood whose slopes by the parameters differ and vary.
fn uneven(priors: &Priors) -> impl Differentiable<State = DVector<f64>> {
    let count = priors.parameters(&DVector::zeros(priors.dimension())).len();
    let likelihood = shared::gradient_model(count, |x: &[f64], slopes: &mut [f64]| {
        let terms = x.iter().zip(slopes).zip(1..).map(|((x, slope), i)| {
            *slope = f64::from(i) / x.hypot(1.0);
            f64::from(i) * x.asinh()
        });
        terms.sum()
    });
    priors.likelihood(likelihood.unwrap())
}

#[test]
fn gradients_are_those_of_differences() {
    for (name, priors) in usual() {
        let likelihood = uneven(&priors);
        for state in draws(&priors, 100) {
            let error = gradient_error(&priors, &state).unwrap();
            assert!(error < 1e-6, "{name}: {error} at {state}");
            let error = gradient_error(&likelihood, &state).unwrap();
            assert!(error < 1e-6, "{name}, likelihood: {error} at {state}");
        }
    }
}

/// Finite values and gradients at exact draws and far from them; parameters strictly inside their supports.
#[test]
fn extreme_priors_stay_finite() {
    for (name, priors) in extreme() {
        let likelihood = uneven(&priors);
        let far = [-1e4, -800.0, -40.0, 40.0, 800.0, 1e4];
        let far = far.map(|u| DVector::from_element(priors.dimension(), u));
        let states = draws(&priors, 1_000);
        let finite = |x: &DVector<f64>| x.iter().all(|x| x.is_finite());
        for state in &states {
            assert!(finite(state), "{name}: {state}");
            assert!(priors.log_density(state).is_finite(), "{name}: {state}");
            assert!(finite(&priors.gradient(state)), "{name}: {state}");
        }
        for state in states.iter().chain(&far) {
            let x = priors.parameters(state);
            assert!(finite(&x), "{name}: {state}, {x}");
            assert!(!priors.log_density(state).is_nan(), "{name}: {state}");
            assert!(finite(&likelihood.gradient(state)), "{name}: {state}");
        }
        if name == "sparse" || name == "sharp" {
            let inside = |x: &f64| (1e-300..1.0).contains(x);
            assert!(
                states
                    .iter()
                    .all(|u| priors.parameters(u).iter().all(inside))
            );
        }
    }
}

/// Central differences of a flat and a sloping density agree with gradients at usual steps, where the prior is extreme.
#[test]
fn extreme_priors_have_the_gradients_of_their_densities() {
    for (name, priors) in extreme() {
        for state in draws(&priors, 300) {
            let gradient = priors.gradient(&state);
            for i in 0..state.len() {
                let at = |h: f64| {
                    let mut moved = state.clone();
                    moved[i] += h;
                    priors.log_density(&moved)
                };
                let step = 1e-4 * (1.0 + state[i].abs() * 1e-3);
                let difference = (at(step) - at(-step)) / (2.0 * step);
                let tolerance = 1e-3 * (1.0 + gradient[i].abs()) + 1e-11 * at(0.0).abs() / step;
                let apart = (gradient[i] - difference).abs();
                assert!(
                    apart < tolerance,
                    "{name} at {state}: {gradient}, {difference}"
                );
            }
        }
    }
}

/// Returns `log |det dx/du|` of the parameters at `rows`, by differences.
fn log_jacobian(parameters: impl Fn(&DVector<f64>) -> DVector<f64>, state: &DVector<f64>) -> f64 {
    let column = |j: usize| {
        let at = |h: f64| {
            let mut moved = state.clone();
            moved[j] += h;
            parameters(&moved)
        };
        // Two steps, so that the error is of the fourth order.
        let by = |h: f64| (at(h) - at(-h)) / (2.0 * h);
        (by(1e-3) * 4.0 - by(2e-3)) / 3.0
    };
    let columns: Vec<_> = (0..state.len()).map(column).collect();
    DMatrix::from_columns(&columns).determinant().abs().ln()
}

fn assert_density(
    name: &str,
    priors: &Priors,
    parameters: impl Fn(&DVector<f64>) -> DVector<f64>,
    textbook: impl Fn(&DVector<f64>) -> f64,
) {
    for state in draws(priors, 20) {
        let exact = textbook(&parameters(&state)) + log_jacobian(&parameters, &state);
        let found = priors.log_density(&state);
        assert!(
            (found - exact).abs() < 1e-7,
            "{name} at {state}: {found}, {exact}"
        );
    }
}

/// Returns the entries below the diagonal of `L L^T`.
fn correlations(lower: &[f64]) -> DVector<f64> {
    let size = (0..).find(|n| n * (n + 1) / 2 == lower.len()).unwrap();
    let row = |j: usize| &lower[j * (j + 1) / 2..(j + 1) * (j + 2) / 2];
    let entry = |i: usize, j: usize| row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum::<f64>();
    let pairs = (1..size).flat_map(|i| (0..i).map(move |j| (i, j)));
    DVector::from_vec(pairs.map(|(i, j)| entry(i, j)).collect())
}

#[test]
fn densities_are_those_of_textbooks_times_the_jacobian() {
    let alpha = [0.7, 2.0, 1.0, 3.0];
    let priors = one(JointPrior::dirichlet(alpha));
    let constant = ln_gamma(alpha.iter().sum()) - alpha.map(ln_gamma).iter().sum::<f64>();
    let first = |u: &DVector<f64>| priors.parameters(u).rows(0, 3).into_owned();
    assert_density("dirichlet", &priors, first, |x| {
        let each = x.iter().copied().chain([1.0 - x.sum()]).zip(alpha);
        constant + each.map(|(x, a)| (a - 1.0) * x.ln()).sum::<f64>()
    });

    let priors = one(JointPrior::ordered(Prior::normal(1.0, 2.0).unwrap(), 3));
    let all = |u: &DVector<f64>| priors.parameters(u);
    assert_density("ordered normal", &priors, all, |x| {
        6f64.ln()
            + x.iter()
                .map(|x| log_normal_density(*x, 1.0, 4.0))
                .sum::<f64>()
    });

    let priors = one(JointPrior::ordered(Prior::gamma(2.0, 1.0).unwrap(), 3));
    let all = |u: &DVector<f64>| priors.parameters(u);
    assert_density("ordered gamma", &priors, all, |x| {
        6f64.ln() + x.iter().map(|x| x.ln() - x).sum::<f64>()
    });

    let priors = hierarchy().unwrap();
    let all = |u: &DVector<f64>| priors.parameters(u);
    assert_density("effects", &priors, all, |x| {
        let (m, s) = (x[0], x[1]);
        let scale = 2f64.ln() + log_normal_density(s, 0.0, 2.25);
        let effects = x.iter().skip(2).map(|x| log_normal_density(*x, m, s * s));
        log_normal_density(m, 1.0, 4.0) + scale + effects.sum::<f64>()
    });

    // The volume of correlation matrices of three rows is pi^2 / 2, and the mean of det R there is 3/8.
    for (shape, volume) in [(1.0, 0.5 * PI * PI), (2.0, 0.1875 * PI * PI)] {
        let priors = one(JointPrior::correlation(3, shape));
        let matrix = |u: &DVector<f64>| correlations(priors.parameters(u).as_slice());
        assert_density("correlation", &priors, matrix, |r| {
            let squares = r[0] * r[0] + r[1] * r[1] + r[2] * r[2];
            let determinant: f64 = 1.0 - squares + 2.0 * r[0] * r[1] * r[2];
            (shape - 1.0) * determinant.ln() - f64::ln(volume)
        });
    }
}

/// Asserts a mean over draws within four standard errors, themselves below `precision`.
#[track_caller]
fn assert_mean(name: &str, values: impl Iterator<Item = f64>, exact: f64, precision: f64) {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let error = (variance / n).sqrt();
    assert!(error < precision, "{name}: {error}");
    assert!(
        (mean - exact).abs() <= 4.0 * error,
        "{name}: {mean} +- {error}, exactly {exact}"
    );
}

/// Asserts the means of the parameters and of their products.
fn assert_moments(
    name: &str,
    draws: &[DVector<f64>],
    mean: impl Fn(usize) -> f64,
    product: impl Fn(usize, usize) -> f64,
    precision: f64,
) {
    for i in 0..draws[0].len() {
        assert_mean(name, draws.iter().map(|x| x[i]), mean(i), precision);
        for j in 0..=i {
            let products = draws.iter().map(|x| x[i] * x[j]);
            assert_mean(name, products, product(i, j), 3.0 * precision);
        }
    }
}

fn samples(priors: &Priors) -> Vec<DVector<f64>> {
    let states = draws(priors, 40_000);
    states.iter().map(|u| priors.parameters(u)).collect()
}

#[test]
fn samples_have_the_moments_of_closed_forms() {
    for alpha in [[0.7, 2.0, 1.0, 3.0], [0.01; 4], [0.05, 0.5, 0.2, 1.0]] {
        let sum = alpha.iter().sum::<f64>();
        let product = |i, j| {
            let same = if i == j { alpha[i] } else { 0.0 };
            (alpha[i] * alpha[j] + same) / (sum * (sum + 1.0))
        };
        let x = samples(&one(JointPrior::dirichlet(alpha)));
        assert_moments("dirichlet", &x, |i| alpha[i] / sum, product, 0.003);
        assert!(x.iter().all(|x| (x.sum() - 1.0).abs() < 1e-12));
    }

    // Order statistics of five uniform numbers.
    let x = samples(&one(JointPrior::ordered(
        Prior::uniform(0.0, 1.0).unwrap(),
        5,
    )));
    let (rank, count) = (|i: usize| i as f64 + 1.0, 5.0);
    let product = |i, j| rank(j) * (rank(i) + 1.0) / ((count + 1.0) * (count + 2.0));
    assert_moments("ordered", &x, |i| rank(i) / (count + 1.0), product, 0.002);
    assert!(x.iter().all(|x| x.as_slice().is_sorted()));
    // The largest of three normal numbers, and sums of gamma variables with most draws near 0.
    let x = samples(&one(JointPrior::ordered(
        Prior::normal(0.0, 1.0).unwrap(),
        3,
    )));
    assert_mean("largest", x.iter().map(|x| x[2]), 1.5 / PI.sqrt(), 0.01);
    let x = samples(&one(JointPrior::ordered(
        Prior::gamma(0.01, 0.1).unwrap(),
        3,
    )));
    assert_mean("sum", x.iter().map(DVector::sum), 0.3, 0.03);
    assert!(x.iter().all(|x| x.as_slice().is_sorted()));

    // Effects have the mean of the location, its variance in common, and the mean square of the scale.
    let x = samples(&hierarchy().unwrap());
    let effects: Vec<_> = x.iter().map(|x| x.rows(2, 4).into_owned()).collect();
    let product = |i, j| if i == j { 1.0 + 4.0 + 2.25 } else { 1.0 + 4.0 };
    assert_moments("effects", &effects, |_| 1.0, product, 0.05);

    // Each correlation is 2 b - 1 with b of the beta law of `shape + (size - 2) / 2` twice; `det R` is a product of
    // 1 - z^2 over partial correlations.
    for (size, shape) in [(2, 1.0), (3, 1.0), (4, 0.5), (5, 3.0), (3, 0.01)] {
        let lower = samples(&one(JointPrior::correlation(size, shape)));
        let r: Vec<_> = lower.iter().map(|l| correlations(l.as_slice())).collect();
        let variance = 1.0 / (2.0 * shape + size as f64 - 1.0);
        let product = |i, j| if i == j { variance } else { 0.0 };
        assert_moments("correlation", &r, |_| 0.0, product, 0.006);
        let fourth = 3.0 * variance * variance / (1.0 + 2.0 * variance);
        let last = r[0].len() - 1;
        assert_mean("fourth", r.iter().map(|r| r[last].powi(4)), fourth, 0.01);
    }
}

/// The density is that of the samples: a kernel of the gradient leaves them invariant.
#[test]
fn a_gradient_kernel_leaves_samples_invariant() {
    for (name, priors) in usual() {
        let statistics: [fn(&DVector<f64>) -> f64; 4] = [
            |u| u[0].tanh(),
            |u| u[u.len() - 1].tanh(),
            |u| (u[0] * u[u.len() - 1]).tanh(),
            |u| u.map(f64::tanh).norm_squared(),
        ];
        let kernel = Hmc::new(0.7, 3).unwrap();
        let sample = |rng: &mut _| priors.sample(rng);
        let checks = invariances(
            &Stationary(&priors),
            &kernel,
            sample,
            statistics,
            5,
            20_000,
            1,
        );
        for check in checks.unwrap() {
            assert!(
                check.passes() && check.standard_error < 0.01,
                "{name}: {check}"
            );
        }
    }
}

/// Bridge sampling of exact draws finds the constant of the density.
#[test]
fn log_z_is_zero() {
    for (name, priors) in usual() {
        let chains: Vec<_> = draws(&priors, 8_000)
            .chunks(2_000)
            .map(<[_]>::to_vec)
            .collect();
        let found = BridgeSampling::<StudentT>::new(&priors, &chains, 1).unwrap();
        let (log_z, error) = (found.log_z(), found.standard_error());
        assert!(error < 0.05, "{name}: {log_z} +- {error}");
        assert!(log_z.abs() <= 4.0 * error, "{name}: {log_z} +- {error}");
    }
}

/// The integral over one or two coordinates by the trapezoidal rule, steep and flat densities included.
#[test]
fn densities_integrate_to_one() {
    let normal = Prior::normal(3.0, 0.5).unwrap();
    let gamma = Prior::gamma(2.0, 2.0).unwrap();
    for (name, prior) in [
        ("dirichlet", JointPrior::dirichlet([0.5, 1.0, 4.0])),
        ("sharp", JointPrior::dirichlet([40.0, 20.0])),
        ("ordered normal", JointPrior::ordered(normal, 2)),
        ("ordered gamma", JointPrior::ordered(gamma, 2)),
        ("correlation", JointPrior::correlation(2, 0.5)),
        ("effects", JointPrior::effects(normal, 2, None, None)),
    ] {
        let priors = one(prior);
        let (ends, step) = (1_000, 0.08);
        let line = (-ends..=ends).map(|i| f64::from(i) * step);
        let density = |u: Vec<f64>| priors.log_density(&DVector::from_vec(u)).exp();
        let sum: f64 = match priors.dimension() {
            1 => line.map(|u| density(vec![u]) * step).sum(),
            _ => line
                .clone()
                .flat_map(|u| line.clone().map(move |v| vec![u, v]))
                .map(|u| density(u) * step * step)
                .sum(),
        };
        assert!((sum - 1.0).abs() < 1e-7, "{name}: {sum}");
    }
}

#[test]
fn states_and_parameters_lead_back_to_one_another() {
    for (name, priors) in usual() {
        for state in draws(&priors, 100) {
            let x = priors.parameters(&state);
            let again = priors.parameters(&priors.state(x.as_slice()).unwrap());
            assert!((again - &x).amax() < 1e-9 * (1.0 + x.amax()), "{name}: {x}");
        }
    }
    let refused = |priors: Priors, parameters: &[f64]| {
        let error = priors.state(parameters).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    };
    refused(one(JointPrior::dirichlet([1.0; 3])), &[0.5, 0.6, 0.1]);
    refused(one(JointPrior::dirichlet([1.0; 3])), &[0.5, 0.5, 0.0]);
    refused(
        one(JointPrior::ordered(Prior::gamma(1.0, 1.0).unwrap(), 2)),
        &[2.0, 1.0],
    );
    refused(one(JointPrior::correlation(2, 1.0)), &[1.0, 0.6, 0.9]);
    refused(one(JointPrior::correlation(2, 1.0)), &[0.5, 0.6, 0.8]);
    refused(hierarchy().unwrap(), &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
}

/// N(1, v) by the variance v = 4, and by the precision 4.
#[test]
fn effects_have_the_scale_of_their_variance_or_precision() {
    let effect = |power| {
        let normal = Prior::normal(0.0, 1.0).unwrap();
        let effects = JointPrior::effects_by_power(normal, 1, Some(0), 1, power).unwrap();
        let half = Prior::half_normal(10.0).unwrap();
        let priors = Priors::new([normal.into(), half.into(), effects]).unwrap();
        let of_half = priors.state(&[1.0, 4.0, 0.0]).unwrap()[1];
        let z = DVector::from_vec(vec![1.0, of_half, 1.5]);
        priors.parameters(&z)[2]
    };
    assert!((effect(0.5) - (1.0 + 2.0 * 1.5)).abs() < 1e-12);
    assert!((effect(-0.5) - (1.0 + 0.5 * 1.5)).abs() < 1e-12);
}

#[test]
fn wrong_arguments_are_refused() {
    let normal = Prior::normal(0.0, 1.0).unwrap();
    let later = JointPrior::effects(normal, 2, Some(1), None).unwrap();
    let error = Priors::new([normal.into(), later]).unwrap_err();
    assert!(error.to_string().contains("earlier parameters"), "{error}");
    let scaled = JointPrior::effects(normal, 2, None, Some(0)).unwrap();
    let error = Priors::new([normal.into(), scaled]).unwrap_err();
    assert!(error.to_string().contains("negative"), "{error}");
    assert!(JointPrior::dirichlet([1.0]).is_err());
    assert!(JointPrior::dirichlet([1e9, 1e9]).is_err());
    assert!(JointPrior::dirichlet([1.0, f64::NAN]).is_err());
    assert!(JointPrior::ordered(normal, 0).is_err());
    assert!(JointPrior::effects(normal, 0, None, None).is_err());
    assert!(JointPrior::effects(normal, 1, Some(usize::MAX), None).is_err());
    assert!(JointPrior::effects_by_power(normal, 1, None, 0, 0.0).is_err());
    assert!(JointPrior::effects_by_power(normal, 1, None, 0, f64::NAN).is_err());
    assert!(JointPrior::correlation(1, 1.0).is_err());
    assert!(JointPrior::correlation(3, 0.0).is_err());
    // A likelihood of two parameters beside a simplex of three, whose coordinates are two.
    let priors = one(JointPrior::dirichlet([1.0; 3]));
    let likelihood = shared::gradient_model(2, |_: &[f64], _: &mut [f64]| 0.0).unwrap();
    let path = TemperedPath::new(&priors, priors.likelihood(likelihood));
    let run = Ais::new(&path, Hmc::new(0.1, 1).unwrap())
        .schedule(Schedule::linear(2).unwrap())
        .run();
    assert!(matches!(run.unwrap_err(), Error::DimensionMismatch { .. }));
}

#[track_caller]
fn assert_evidence(
    priors: &Priors,
    likelihood: impl Differentiable<State = DVector<f64>> + Sync,
    exact: f64,
) {
    let path = TemperedPath::new(priors, likelihood);
    let rounds = Rounds::new(&path, Hmc::new(0.3, 3).unwrap()).budget(300_000);
    let run = rounds.seed(1).run().unwrap();
    assert!(run.standard_error() < 0.1, "{run}");
    assert!(
        (run.log_z() - exact).abs() <= 4.0 * run.standard_error(),
        "{run}, exactly {exact}"
    );
}

/// Two normal components of equal weight and a deviation of 1 have the evidence of means without an order, by quadrature.
#[test]
fn a_mixture_of_ordered_means_has_the_evidence_without_an_order() {
    const DATA: [f64; 6] = [-2.1, -1.3, -2.8, 1.9, 2.4, 1.2];
    let log_likelihood = |a: f64, b: f64| -> f64 {
        let of_one = |y: f64| {
            let [a, b] = [a, b].map(|mean| log_normal_density(y, mean, 1.0).exp());
            (0.5 * (a + b)).ln()
        };
        DATA.into_iter().map(of_one).sum()
    };
    let line = (-300..=300).map(|i| f64::from(i) * 0.05);
    let pairs = line.clone().flat_map(|a| line.clone().map(move |b| (a, b)));
    let density = |(a, b): (f64, f64)| {
        let prior = log_normal_density(a, 0.0, 9.0) + log_normal_density(b, 0.0, 9.0);
        (prior + log_likelihood(a, b)).exp() * 0.0025
    };
    let exact = pairs.map(density).sum::<f64>().ln();

    let priors = one(JointPrior::ordered(Prior::normal(0.0, 3.0).unwrap(), 2));
    let likelihood = shared::gradient_model(2, move |x: &[f64], slopes: &mut [f64]| {
        for y in DATA {
            let [a, b] = [x[0], x[1]].map(|mean| log_normal_density(y, mean, 1.0).exp());
            slopes[0] += a / (a + b) * (y - x[0]);
            slopes[1] += b / (a + b) * (y - x[1]);
        }
        log_likelihood(x[0], x[1])
    });
    assert_evidence(&priors, priors.likelihood(likelihood.unwrap()), exact);
}

/// Effects and errors of eight schools (Rubin 1981).
const EFFECTS: [f64; 8] = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
const ERRORS: [f64; 8] = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];

/// Returns scales s of eight schools and the posterior mass of each, a list of equal steps of log s. Means given location
/// m and scale s are N(m, s^2 + error^2), and m integrates in closed form.
fn masses_of_scales() -> Vec<(f64, f64)> {
    let given_scale = |s: f64| {
        let covariance = DMatrix::from_fn(8, 8, |i, j| {
            let own = if i == j {
                s * s + ERRORS[i].powi(2)
            } else {
                0.0
            };
            own + 100.0
        });
        let law = Gaussian::new(DVector::zeros(8), covariance).unwrap();
        law.log_density(&DVector::from_column_slice(&EFFECTS)) - law.log_normalizer()
    };
    let mass = |i: i32| {
        let s = (f64::from(i) * 0.05).exp();
        let prior = 2.0 / (PI * 5.0 * (1.0 + (s / 5.0).powi(2)));
        (s, given_scale(s).exp() * prior * s * 0.05)
    };
    (-500..=300).map(mass).collect()
}

fn schools() -> (Priors, impl Differentiable<State = DVector<f64>> + Sync) {
    let priors = Priors::new([
        Prior::normal(0.0, 10.0).unwrap().into(),
        Prior::half_cauchy(5.0).unwrap().into(),
        JointPrior::effects(Prior::normal(0.0, 1.0).unwrap(), 8, Some(0), Some(1)).unwrap(),
    ]);
    let likelihood = shared::gradient_model(10, |x: &[f64], slopes: &mut [f64]| {
        let each = (0..8).map(|i| {
            let variance = ERRORS[i].powi(2);
            slopes[2 + i] = (EFFECTS[i] - x[2 + i]) / variance;
            log_normal_density(EFFECTS[i], x[2 + i], variance)
        });
        each.sum()
    });
    (priors.unwrap(), likelihood.unwrap())
}

#[test]
fn eight_schools_have_the_evidence_of_a_quadrature() {
    let exact = masses_of_scales()
        .iter()
        .map(|(_, mass)| mass)
        .sum::<f64>()
        .ln();
    let (priors, likelihood) = schools();
    assert_evidence(&priors, priors.likelihood(likelihood), exact);
}

/// Draws of the posterior that never enter its neck, s < .7, by chains in which the scale s moves slowly: bridge sampling
/// lacks the neck's mass and says that s moves slowly. Rounds from the prior find the mass.
#[test]
fn draws_without_the_neck_of_a_hierarchy_move_slowly() {
    let masses = masses_of_scales();
    let exact = masses.iter().map(|(_, mass)| mass).sum::<f64>().ln();
    let kept = Vec::from_iter(masses.iter().filter(|(s, _)| *s > 0.7));
    let total = kept.iter().map(|(_, mass)| mass).sum::<f64>();
    let (priors, likelihood) = schools();
    let mut rng = stream(1, Purpose::TESTING, 0);
    let mut chain = |_| {
        let normal = |rng: &mut StreamRng| Gaussian::standard(1).unwrap().sample(rng)[0];
        let mut share = rng.random::<f64>();
        let draw = |_| {
            // A walk between reflecting walls is uniform. It gives the quantile of s.
            share = (share + 0.1 * normal(&mut rng)).abs();
            share = share.min(2.0 - share);
            let mut sum = 0.0;
            let reaches = |(_, mass): &&&(f64, f64)| {
                sum += mass / total;
                sum >= share
            };
            let s = kept.iter().find(reaches).or(kept.last()).unwrap().0;
            let precisions = ERRORS.map(|error| 1.0 / (s * s + error * error));
            let precision = 0.01 + precisions.iter().sum::<f64>();
            let products = precisions.iter().zip(EFFECTS).map(|(p, y)| p * y);
            let m = products.sum::<f64>() / precision + normal(&mut rng) / precision.sqrt();
            let mut x = vec![m, s];
            for (y, error) in EFFECTS.iter().zip(ERRORS) {
                let (own, of_m) = (error.powi(-2), s.powi(-2));
                let mean = (own * y + of_m * m) / (own + of_m);
                x.push(mean + normal(&mut rng) / (own + of_m).sqrt());
            }
            priors.state(&x).unwrap()
        };
        Vec::from_iter((0..1_500).map(draw))
    };
    let chains = Vec::from_iter((0..4).map(&mut chain));
    let path = TemperedPath::new(&priors, priors.likelihood(likelihood));
    let found = BridgeSampling::<StudentT>::new(&path.at(1.0), &chains, 1).unwrap();
    let off = found.log_z() - exact;
    assert!(
        (off - (total.ln() - exact)).abs() < 0.08,
        "{found}, {exact}"
    );
    let slow = |warning: &Warning| matches!(warning, Warning::SlowCoordinate { coordinate: 1, .. });
    assert!(found.warnings().iter().any(slow), "{found}");
    let rounds = Rounds::new(&path, Hmc::new(0.1, 5).unwrap()).budget(400_000);
    let rounds = rounds.run().unwrap();
    assert!(
        (rounds.log_z() - exact).abs() <= 4.0 * rounds.standard_error(),
        "{rounds}, {exact}"
    );
    assert!(
        rounds.log_z() > found.log_z() + 0.03,
        "{found}\n{rounds}, {exact}"
    );
}
