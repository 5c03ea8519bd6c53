//! The evidence of Bayesian models: priors of parameters, Laplace's approximation, gradients that are wrong.

use crate::shared::{self, logistic::Logistic};
use annealed::ais::Run;
use annealed::kernel::Preconditioner;
use annealed::model::StudentT;
use annealed::prelude::*;
use annealed::{Error, Result, testing};
use std::f64::consts::TAU;

/// `log Gamma(n)` of a whole number.
fn ln_gamma(n: u32) -> f64 {
    (1..n).map(|k| f64::from(k).ln()).sum()
}

#[track_caller]
fn assert_log_z<S>(run: &Run<S>, exact: f64, precision: f64) {
    let (error, found) = (run.standard_error(), run.log_z());
    assert!(error < precision, "{run}");
    assert!(
        (found - exact).abs() <= 4.0 * error,
        "{run}: exactly {exact}"
    );
}

/// Three parameters with closed forms each: the mean of five normal observations, the probability of 7 successes in
/// 20 trials, the rate of three Poisson counts; a fourth that nothing depends on.
struct Conjugate {
    priors: Priors,
}

const HEIGHTS: [f64; 5] = [1.2, 0.4, 2.1, 1.7, 0.9];
const COUNTS: [f64; 3] = [2.0, 0.0, 3.0];

impl Conjugate {
    fn new() -> Result<Self> {
        let priors = [
            Prior::normal(0.5, 2.0)?,
            Prior::beta(2.0, 3.0)?,
            Prior::gamma(2.0, 1.5)?,
            Prior::half_cauchy(1.0)?,
        ];
        Ok(Self {
            priors: Priors::new(priors)?,
        })
    }

    fn log_likelihood(x: &[f64], gradient: &mut [f64]) -> f64 {
        let (mean, p, rate) = (x[0], x[1], x[2]);
        let squares: f64 = HEIGHTS.iter().map(|y| (y - mean).powi(2)).sum();
        gradient[0] = HEIGHTS.iter().map(|y| y - mean).sum();
        gradient[1] = 7.0 / p - 13.0 / (1.0 - p);
        gradient[2] = 5.0 / rate - 3.0;
        let log_choices = ln_gamma(21) - ln_gamma(8) - ln_gamma(14);
        let normal = -0.5 * squares - 2.5 * TAU.ln();
        let binomial = log_choices + 7.0 * p.ln() + 13.0 * (1.0 - p).ln();
        normal + binomial + 5.0 * rate.ln() - 3.0 * rate - 12_f64.ln()
    }

    fn model() -> impl Differentiable {
        shared::gradient_model(4, Self::log_likelihood).unwrap()
    }

    fn exact() -> f64 {
        let covariance = DMatrix::from_fn(5, 5, |i, j| if i == j { 5.0 } else { 4.0 });
        let marginal = Gaussian::new(DVector::from_element(5, 0.5), covariance).unwrap();
        let heights = DVector::from_column_slice(&HEIGHTS);
        let normal = marginal.log_density(&heights) - marginal.log_normalizer();
        let log_beta = |a, b| ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
        let log_choices = ln_gamma(21) - ln_gamma(8) - ln_gamma(14);
        let binomial = log_choices + log_beta(9, 16) - log_beta(2, 3);
        assert_eq!(COUNTS.iter().sum::<f64>(), 5.0);
        let poisson = 2.0 * 1.5_f64.ln() + ln_gamma(7) - 7.0 * 4.5_f64.ln() - 12_f64.ln();
        normal + binomial + poisson
    }
}

#[test]
fn every_kind_of_kernel_finds_a_conjugate_evidence() {
    let model = Conjugate::new().unwrap();
    let likelihood = model.priors.likelihood(Conjugate::model());
    let path = TemperedPath::new(&model.priors, likelihood);
    let schedule = Schedule::power(100, 3.0).unwrap();
    let run = |kernel: Hmc| {
        Ais::new(&path, kernel)
            .schedule(schedule.clone())
            .chains(500)
            .seed(1)
            .run()
    };
    let hmc = run(Hmc::new(0.3, 3).unwrap()).unwrap();
    assert_log_z(&hmc, Conjugate::exact(), 0.03);
    let mean = |i: usize| hmc.expectation(|u| model.priors.parameters(u)[i]);
    // The posteriors are N, Beta(9, 16) and Gamma(7, 4.5).
    let (precision, sum) = (5.0 + 0.25, HEIGHTS.iter().sum::<f64>());
    for (i, exact) in [(sum + 0.125) / precision, 9.0 / 25.0, 7.0 / 4.5]
        .into_iter()
        .enumerate()
    {
        let (mean, error) = mean(i);
        assert!(
            error < 0.05 && (mean - exact).abs() < 4.0 * error,
            "{i}: {mean} +- {error}"
        );
    }
    let slice = Ais::new(&path, Slice::new(2.0).unwrap()).schedule(schedule.clone());
    assert_log_z(
        &slice.chains(500).seed(2).run().unwrap(),
        Conjugate::exact(),
        0.03,
    );
    // Without a gradient.
    let value = |x: &[f64]| Conjugate::log_likelihood(x, &mut [0.0; 4]);
    let likelihood = model.priors.likelihood(FunctionModel::of_slices(value));
    let path = TemperedPath::new(&model.priors, likelihood);
    let walk = Ais::new(&path, RandomWalkMetropolis::new(0.4).unwrap()).schedule(schedule);
    assert_log_z(
        &walk.chains(1_200).seed(3).run().unwrap(),
        Conjugate::exact(),
        0.05,
    );
}

#[test]
fn gradients_follow_by_the_chain_rule() {
    let model = Conjugate::new().unwrap();
    let likelihood = model.priors.likelihood(Conjugate::model());
    let base = StudentT::new(
        Gaussian::isotropic(DVector::from_element(4, 0.3), 0.7).unwrap(),
        3.0,
    );
    let base = base.unwrap();
    for u in [[0.0, 0.3, -1.0, 2.0], [-1.5, -2.0, 0.7, -0.4]] {
        let state = DVector::from_column_slice(&u);
        assert!(testing::gradient_error(&model.priors, &state).unwrap() < 1e-7);
        assert!(testing::gradient_error(&likelihood, &state).unwrap() < 1e-7);
        assert!(testing::gradient_error(&base, &state).unwrap() < 1e-7);
        let parameters = model.priors.parameters(&state);
        let back = model.priors.state(parameters.as_slice()).unwrap();
        assert!((back - state).amax() < 1e-12);
    }
    let outside = model
        .priors
        .state(&[0.0, 1.0, 1.0, 1.0])
        .unwrap_err()
        .to_string();
    assert_eq!(
        outside,
        "invalid parameter: got x[1] = 1, expected a number in (0, 1) (write more digits if they were rounded)"
    );
}

#[test]
fn a_likelihood_of_other_parameters_is_refused() {
    let priors = Priors::new([Prior::normal(0.0, 1.0).unwrap()]).unwrap();
    let path = TemperedPath::new(&priors, priors.likelihood(Conjugate::model()));
    let error = Ais::new(&path, Hmc::new(0.3, 3).unwrap())
        .run()
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::DimensionMismatch {
                found: 4,
                expected: 1,
                ..
            }
        ),
        "{error}"
    );
}

/// Half of a gradient leads to another mode, or to none.
#[test]
fn laplace_refuses_a_wrong_gradient() {
    let of = |factor: f64| {
        let model = shared::gradient_model(2, move |x: &[f64], gradient: &mut [f64]| {
            gradient[0] = -(x[0] - 1.0) - factor * (x[0] + 2.0);
            gradient[1] = -4.0 * x[1];
            -0.5 * (x[0] - 1.0).powi(2) - 0.5 * (x[0] + 2.0).powi(2) - 2.0 * x[1] * x[1]
        });
        Gaussian::laplace(&model.unwrap(), DVector::zeros(2)).map(|gaussian| gaussian.mean()[0])
    };
    assert!((of(1.0).unwrap() + 0.5).abs() < 1e-6);
    for factor in [0.5, 0.0, 2.0] {
        let error = of(factor).unwrap_err();
        assert!(
            matches!(error, Error::WrongGradient { coordinate: 0, .. }),
            "{factor}: {error}"
        );
    }
}

/// Eight schools (Rubin 1981), non-centred, with a prior of its own for the scale of the effects.
fn schools(scale: Prior) -> Result<Gaussian> {
    let observed = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
    let errors = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];
    let mut priors = vec![Prior::normal(0.0, 5.0)?, scale];
    priors.resize(10, Prior::normal(0.0, 1.0)?);
    let priors = Priors::new(priors)?;
    let likelihood = shared::gradient_model(10, |x: &[f64], gradient: &mut [f64]| {
        let mut log_likelihood = 0.0;
        for (i, (y, error)) in observed.iter().zip(errors).enumerate() {
            let off = (y - x[0] - x[1] * x[2 + i]) / error;
            log_likelihood -= 0.5 * off * off;
            gradient[0] += off / error;
            gradient[1] += off / error * x[2 + i];
            gradient[2 + i] += off / error * x[1];
        }
        log_likelihood
    })?;
    let likelihood = priors.likelihood(likelihood);
    let path = TemperedPath::new(&priors, likelihood);
    let mut start = [0.0; 10];
    start[1] = 5.0;
    Gaussian::laplace(&path.at(1.0), priors.state(&start)?)
}

#[test]
fn laplace_refuses_a_mode_on_a_ridge() {
    let found = schools(Prior::gamma(0.01, 0.01).unwrap());
    assert!(
        matches!(found, Err(Error::MisleadingMode { .. })),
        "{found:?}"
    );
    // A prior that holds the scale between 1 and 30 leaves no ridge.
    schools(Prior::log_normal(2.0, 0.4).unwrap()).unwrap();
}

/// Runs from these modes are right: skewed, with light and heavy tails, in few dimensions and many.
#[test]
fn laplace_takes_skewed_modes_and_all_tails() {
    type Terms = fn(f64) -> (f64, f64);
    let log_gamma: Terms = |x| (0.5 * x - x.exp(), 0.5 - x.exp());
    let quartic: Terms = |x| (-0.5 * x * x - 0.25 * x.powi(4), -x - x.powi(3));
    let student: Terms = |x| (-(x * x).ln_1p(), -2.0 * x / (1.0 + x * x));
    for terms in [log_gamma, quartic, student] {
        for dimension in [1, 5, 20, 100] {
            let model = shared::gradient_model(dimension, move |x: &[f64], to: &mut [f64]| {
                to.iter_mut().zip(x).for_each(|(to, x)| *to = terms(*x).1);
                x.iter().map(|x| terms(*x).0).sum()
            });
            let start = DVector::from_element(dimension, 0.2);
            Gaussian::laplace(&model.unwrap(), start).unwrap();
        }
    }
}

/// From Laplace's approximation ten stages do what takes hundreds from the prior.
#[test]
fn laplace_cuts_the_stages() {
    let model = Conjugate::new().unwrap();
    let likelihood = model.priors.likelihood(Conjugate::model());
    let posterior = TemperedPath::new(&model.priors, likelihood);
    let target = posterior.at(1.0);
    let base = Gaussian::laplace(&target, DVector::zeros(4)).unwrap();
    let base = StudentT::new(base, 5.0).unwrap();
    let path = GeometricPath::new(base, &target);
    let ais = Ais::new(&path, Hmc::new(0.5, 3).unwrap()).schedule(Schedule::linear(10).unwrap());
    let run = ais.seed(1).run().unwrap();
    assert_log_z(&run, Conjugate::exact(), 0.03);
    let tempered = Ais::new(&posterior, Hmc::new(0.5, 3).unwrap());
    let schedule = Schedule::power(10, 3.0).unwrap();
    let tempered = tempered.schedule(schedule).seed(1).run().unwrap();
    assert!(
        tempered.standard_error() > 3.0 * run.standard_error(),
        "{run}, {tempered}"
    );
}

/// Logistic regression with 61 coefficients on the sonar data: -125.42 by 100 runs of a standard deviation of .147
/// (Dau and Chopin 2022).
#[test]
fn laplace_meets_the_published_evidence_of_sonar() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/data/sonar/sonar.csv"
    );
    if !std::path::Path::new(file).exists() {
        eprintln!("skipped: reads ../shared/data/sonar/sonar.csv, which is not there");
        return;
    }
    let likelihood = Logistic::sonar(file.as_ref()).unwrap();
    let posterior = TemperedPath::new(Gaussian::standard(61).unwrap(), likelihood);
    let target = posterior.at(1.0);
    let base = Gaussian::laplace(&target, DVector::zeros(61)).unwrap();
    let shape = Preconditioner::covariance(&base.covariance()).unwrap();
    let kernel = Hmc::new(0.5, 3).unwrap().preconditioned(shape);
    let path = GeometricPath::new(base, &target);
    let ais = Ais::new(&path, kernel).schedule(Schedule::linear(10).unwrap());
    let run = ais.chains(500).seed(1).run().unwrap();
    let error = run.standard_error().hypot(0.0147);
    assert!(
        error < 0.25 && (run.log_z() + 125.42).abs() < 4.0 * error,
        "{run}"
    );
}

/// A normal law with a gradient times a factor.
fn refusals(factor: f64) -> [Option<Error>; 3] {
    let gradient = move |x: &DVector<f64>| -factor * x / 0.25;
    let target = shared::function(|x: &DVector<f64>| -0.5 * x.norm_squared() / 0.25);
    let path = GeometricPath::new(
        Gaussian::standard(3).unwrap(),
        target.with_gradient(shared::gradient(gradient)),
    );
    let hmc = || Hmc::new(0.3, 3).unwrap();
    [
        Rounds::new(&path, hmc()).budget(1_000_000).run().err(),
        Rounds::fixed(&path, hmc()).budget(1_000_000).run().err(),
        FirstPass::new(&path, hmc()).run().err(),
    ]
}

#[test]
fn pilots_refuse_wrong_gradients() {
    assert_eq!(refusals(1.0), [None, None, None]);
    for factor in [-1.0, 0.5, 0.0, 2.0] {
        for error in refusals(factor) {
            assert!(
                matches!(error, Some(Error::WrongGradient { .. })),
                "{factor}: {error:?}"
            );
        }
    }
}

/// A kernel without a gradient asks for none.
#[test]
fn a_walk_does_not_look_at_gradients() {
    let wrong = |x: &DVector<f64>| x.clone();
    let target = shared::function(|x: &DVector<f64>| -x.norm_squared())
        .with_gradient(shared::gradient(wrong));
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), target);
    let walk = RandomWalkMetropolis::new(0.5).unwrap();
    let _ = FirstPass::new(&path, walk).run().unwrap();
}

/// A ridge of Student's law with 2 degrees of freedom: from a Gaussian base the weights have no variance.
#[test]
fn a_student_base_reaches_heavy_tails() {
    let target = GradientModel::new(2, |x: &[f64], gradient: &mut [f64]| {
        let mut log_density = 0.0;
        for ((x, slope), centre) in x.iter().zip(gradient).zip([3.0, -5.0]) {
            let off = x - centre;
            log_density -= 1.5 * (off * off / 2.0).ln_1p();
            *slope = -3.0 * off / (2.0 + off * off);
        }
        log_density
    });
    let target = target.unwrap();
    let start = DVector::from_column_slice(&[2.5, -4.5]);
    let base = StudentT::new(Gaussian::laplace(&target, start).unwrap(), 2.0).unwrap();
    let path = GeometricPath::new(base, &target);
    let ais = Ais::new(&path, Hmc::new(0.7, 3).unwrap()).schedule(Schedule::linear(10).unwrap());
    // Z = sqrt(8) for each coordinate.
    assert_log_z(&ais.seed(1).run().unwrap(), 8_f64.ln(), 0.03);
}
