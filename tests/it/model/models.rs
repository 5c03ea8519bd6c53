//! Models: normalisers against quadrature, gradients against differences, samples against
//! moments, and bad input.

use annealed::model::{
    Bernoulli, Differentiable, ExponentialFamily, FullConditionals, FunctionModel, Gaussian,
    GaussianMixture, NormalizedModel, Sampleable, UnnormalizedModel,
};
use annealed::{Error, Result};
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

type StdRng = Xoshiro256PlusPlus;

fn gaussian_3d() -> Gaussian {
    Gaussian::new(
        dvector![1.0, -2.0, 0.5],
        dmatrix![2.0, 0.6, -0.3; 0.6, 1.0, 0.2; -0.3, 0.2, 0.5],
    )
    .unwrap()
}

fn diagonal(mean: DVector<f64>, variances: DVector<f64>) -> Gaussian {
    Gaussian::new(mean, DMatrix::from_diagonal(&variances)).unwrap()
}

/// `log` of the integral of `f` over `[-half, half]^d` by the midpoint rule, which is spectrally
/// accurate for smooth densities that vanish at the border.
fn quadrature(model: &impl UnnormalizedModel<State = DVector<f64>>, d: usize, half: f64) -> f64 {
    let cells = if d == 1 { 4000 } else { 500usize };
    let width = 2.0 * half / cells as f64;
    let mut x = DVector::zeros(d);
    let mut sum = 0.0;
    for cell in 0..cells.pow(d as u32) {
        let mut rest = cell;
        for x in x.iter_mut() {
            *x = -half + (0.5 + (rest % cells) as f64) * width;
            rest /= cells;
        }
        sum += model.log_density(&x).exp();
    }
    (sum * width.powi(d as i32)).ln()
}

/// Asserts that the mean of `statistics` over samples is `expected`, within 4 standard errors.
fn assert_sample_means<M: Sampleable>(
    model: &M,
    statistics: impl Fn(&M::State) -> DVector<f64>,
    expected: &DVector<f64>,
) {
    const SAMPLES: usize = 40_000;
    let mut rng = StdRng::seed_from_u64(3);
    let (mut sum, mut squares) = (expected * 0.0, expected * 0.0);
    for _ in 0..SAMPLES {
        let deviation = statistics(&model.sample(&mut rng)) - expected;
        sum += &deviation;
        squares += deviation.component_mul(&deviation);
    }
    let n = SAMPLES as f64;
    for i in 0..expected.len() {
        let mean = sum[i] / n;
        let standard_error = ((squares[i] / n - mean * mean) / n).sqrt();
        let scale = 1.0 + expected[i].abs();
        assert!(standard_error < 0.02 * scale, "{i}: SE {standard_error}");
        assert!(
            mean.abs() <= 4.0 * standard_error,
            "{i}: {mean} +- {standard_error}"
        );
    }
}

/// Asserts the gradient against central differences, and what `accumulate_gradient` promises.
fn assert_gradient(model: &impl Differentiable, x: &DVector<f64>) {
    let gradient = model.gradient(x);
    for i in 0..x.len() {
        let h = 1e-5 * (1.0 + x[i].abs());
        let (mut up, mut down) = (x.clone(), x.clone());
        up[i] += h;
        down[i] -= h;
        let difference = (model.log_density(&up) - model.log_density(&down)) / (up[i] - down[i]);
        let tolerance = 1e-6 * (1.0 + gradient.amax() + model.log_density(x).abs());
        assert!(
            (gradient[i] - difference).abs() < tolerance,
            "{i}: {} {difference}",
            gradient[i]
        );
    }
    let mut sum = DVector::from_element(x.len(), 2.0);
    let value = model.accumulate_gradient(x, -0.5, &mut sum);
    let log_density = model.log_density(x);
    assert!((value - log_density).abs() <= 1e-12 * (1.0 + log_density.abs()));
    let expected = gradient.map(|g| 2.0 - 0.5 * g);
    assert!((sum - expected).amax() <= 1e-12 * (1.0 + gradient.amax()));
}

/// Asserts that `moments` is the gradient of `A(eta) = log Z + eta . g(x) - log f(x)`, that A
/// does not depend on x, and the round trip through `eta`.
fn assert_exponential_family<M: ExponentialFamily>(model: &M, states: &[M::State]) {
    let partition = |m: &M, x: &M::State| {
        m.log_normalizer() + m.natural_parameters().dot(&m.sufficient_statistics(x))
            - m.log_density(x)
    };
    let eta = model.natural_parameters();
    for x in states {
        let difference = partition(model, x) - partition(model, &states[0]);
        assert!(difference.abs() < 1e-10, "A depends on x: {difference}");
    }
    let back = model.with_natural_parameters(&eta).unwrap();
    assert!((back.natural_parameters() - &eta).amax() < 1e-12);
    assert!((back.log_normalizer() - model.log_normalizer()).abs() < 1e-12);
    let moments = model.moments();
    for i in 0..eta.len() {
        let h = 1e-5;
        let shifted = |h: f64| {
            let mut eta = eta.clone();
            eta[i] += h;
            partition(&model.with_natural_parameters(&eta).unwrap(), &states[0])
        };
        let difference = (shifted(h) - shifted(-h)) / (2.0 * h);
        assert!(
            (difference - moments[i]).abs() < 1e-6,
            "{i}: {difference} {}",
            moments[i]
        );
    }
}

fn invalid<T: std::fmt::Debug>(result: Result<T>, expected_argument: &str, word: &str) {
    let error = result.unwrap_err();
    let named = match &error {
        Error::InvalidArgument { argument, .. } | Error::DimensionMismatch { argument, .. } => {
            *argument
        }
        other => panic!("{other}"),
    };
    assert_eq!(named, expected_argument, "{error}");
    assert!(error.to_string().contains(word), "{error}");
}

#[test]
fn gaussian_normalizer_is_the_integral() {
    let line = Gaussian::isotropic(dvector![0.7], 2.5).unwrap();
    assert!((line.log_normalizer() - quadrature(&line, 1, 30.0)).abs() < 1e-10);
    let plane = Gaussian::new(dvector![0.5, -1.0], dmatrix![2.0, -0.7; -0.7, 1.0]).unwrap();
    assert!((plane.log_normalizer() - quadrature(&plane, 2, 15.0)).abs() < 1e-10);
}

#[test]
fn a_diagonal_gaussian_holds_no_matrix() {
    let d = 100_000;
    let wide = Gaussian::standard(d).unwrap();
    assert_eq!(wide.log_density(&DVector::from_element(d, 1.0)), -5e4);
    let log_z = 0.5 * d as f64 * std::f64::consts::TAU.ln();
    assert!((wide.log_normalizer() / log_z - 1.0).abs() < 1e-12);
    let sample = wide.sample(&mut Xoshiro256PlusPlus::seed_from_u64(1));
    // 4 standard errors of the mean of d squares.
    let error = sample.norm_squared() / d as f64 - 1.0;
    assert!(error.abs() < 4.0 * (2.0 / d as f64).sqrt(), "{error}");

    let (mean, variances) = (dvector![1.0, -2.0, 0.5], dvector![0.3, 2.0, 1.7]);
    let diagonal = Gaussian::diagonal(mean.clone(), variances.clone()).unwrap();
    let dense = Gaussian::new(mean.clone(), DMatrix::from_diagonal(&variances)).unwrap();
    assert_eq!(diagonal, dense);
    let by_precision = Gaussian::from_precision(mean, diagonal.precision()).unwrap();
    assert!((by_precision.covariance() - diagonal.covariance()).amax() < 1e-15);
    assert!((by_precision.log_normalizer() - diagonal.log_normalizer()).abs() < 1e-15);
    let moments = diagonal.with_moments(&diagonal.moments()).unwrap();
    assert!((moments.covariance() - diagonal.covariance()).amax() < 1e-14);
    let natural = diagonal.natural_parameters();
    let natural = diagonal.with_natural_parameters(&natural).unwrap();
    assert!((natural.mean() - diagonal.mean()).amax() < 1e-14);
    let statistics = |x: &DVector<f64>| diagonal.sufficient_statistics(x);
    assert_sample_means(&by_precision, statistics, &diagonal.moments());
}

#[test]
fn a_dimension_without_bounds_is_an_error() {
    for dimension in [1 << 40, usize::MAX] {
        let error = Gaussian::standard(dimension).unwrap_err().to_string();
        assert!(error.contains("invalid dimension"), "{error}");
    }
}

#[test]
fn gaussian_constructors_agree() {
    let full = gaussian_3d();
    let again = Gaussian::from_precision(full.mean().clone(), full.precision()).unwrap();
    assert!((again.covariance() - full.covariance()).amax() < 1e-14);
    assert!((again.log_normalizer() - full.log_normalizer()).abs() < 1e-14);
    assert!((full.precision() * full.covariance() - DMatrix::identity(3, 3)).amax() < 1e-14);
    let statistics = |x: &DVector<f64>| full.sufficient_statistics(x);
    assert_sample_means(&again, statistics, &full.moments());

    let unit = Gaussian::isotropic(DVector::zeros(3), 1.0).unwrap();
    assert_eq!(unit, Gaussian::standard(3).unwrap());
    let wide = Gaussian::isotropic(dvector![1.0, 2.0], 3.0).unwrap();
    assert_eq!(wide, diagonal(dvector![1.0, 2.0], dvector![9.0, 9.0]));
}

#[test]
fn gaussian_log_density_is_the_quadratic_form() {
    // 19 coordinates: two full vector lanes and a rest.
    let mut rng = StdRng::seed_from_u64(5);
    let d = 19;
    let root = DMatrix::from_fn(d, d, |_, _| rng.random::<f64>() - 0.3);
    let precision = &root * root.transpose() + DMatrix::identity(d, d);
    let mean = DVector::from_fn(d, |i, _| i as f64 - 4.0);
    let model = Gaussian::from_precision(mean.clone(), precision.clone()).unwrap();
    let x = DVector::from_fn(d, |_, _| 3.0 * rng.random::<f64>());
    let offset = &x - &mean;
    let expected = -0.5 * (offset.transpose() * &precision * &offset)[0];
    assert!((model.log_density(&x) / expected - 1.0).abs() < 1e-13);
    assert_gradient(&model, &x);

    let diagonal = diagonal(mean, precision.diagonal().map(f64::recip));
    let expected: f64 = (0..d)
        .map(|i| -0.5 * precision[(i, i)] * offset[i].powi(2))
        .sum();
    assert!((diagonal.log_density(&x) / expected - 1.0).abs() < 1e-13);
    assert_gradient(&diagonal, &x);
}

#[test]
fn gaussian_samples_have_its_moments() {
    let model = gaussian_3d();
    assert_sample_means(&model, |x| model.sufficient_statistics(x), &model.moments());
}

#[test]
fn gaussian_is_an_exponential_family() {
    let states = [
        dvector![0.0, 0.0, 0.0],
        dvector![1.5, -3.0, 0.2],
        dvector![-0.4, 2.0, 7.0],
    ];
    assert_exponential_family(&gaussian_3d(), &states);
}

/// The conditional of coordinate i is Gaussian with the curvature and the mode of the joint along
/// that coordinate: its draws' mean and variance against those of a fit through three points.
#[test]
fn gaussian_conditionals_are_those_of_the_joint() {
    let diagonal = diagonal(dvector![1.0, -2.0], dvector![0.5, 3.0]);
    for (model, x) in [
        (gaussian_3d(), dvector![3.0, 0.0, -1.0]),
        (diagonal, dvector![2.0, 5.0]),
    ] {
        for index in 0..model.coordinates() {
            let along = |value: f64| {
                let mut x = x.clone();
                x[index] = value;
                model.log_density(&x)
            };
            let (down, mid, up) = (along(-1.0), along(0.0), along(1.0));
            let variance = -1.0 / (up - 2.0 * mid + down);
            let mean = variance * (up - down) / 2.0;
            assert_conditional(&model, &x, index, mean, variance);
        }
    }
}

fn assert_conditional(model: &Gaussian, x: &DVector<f64>, index: usize, mean: f64, variance: f64) {
    const SAMPLES: usize = 20_000;
    let mut rng = StdRng::seed_from_u64(11);
    let mut state = x.clone();
    let (mut first, mut second) = (0.0, 0.0);
    for _ in 0..SAMPLES {
        model.sample_coordinate(&mut state, index, &mut rng);
        let z = (state[index] - mean) / variance.sqrt();
        first += z;
        second += z * z;
    }
    for other in (0..x.len()).filter(|&i| i != index) {
        assert_eq!(state[other], x[other]);
    }
    let n = SAMPLES as f64;
    assert!((first / n).abs() <= 4.0 / n.sqrt(), "mean {}", first / n);
    assert!(
        (second / n - 1.0).abs() <= 4.0 * (2.0 / n).sqrt(),
        "variance {}",
        second / n
    );
}

#[test]
fn gaussian_refuses_bad_input() {
    let mean = || dvector![0.0, 1.0];
    let new = |covariance| Gaussian::new(mean(), covariance);
    let wide = dmatrix![1.0, 0.0, 0.0; 0.0, 1.0, 0.0];
    invalid(new(wide), "covariance", "got 3, expected 2");
    invalid(new(dmatrix![1.0]), "covariance", "got 1, expected 2");
    invalid(new(dmatrix![1.0, 0.2; 0.1, 1.0]), "covariance", "symmetric");
    invalid(
        new(dmatrix![1.0, 2.0; 2.0, 1.0]),
        "covariance",
        "positive definite",
    );
    invalid(
        new(dmatrix![1.0, 1.0; 1.0, 1.0]),
        "covariance",
        "positive definite",
    );
    invalid(
        new(dmatrix![1e300, 1e300; 1e300, 1e-300]),
        "covariance",
        "positive definite",
    );
    invalid(new(dmatrix![1.0, f64::NAN; 0.0, 1.0]), "covariance", "NaN");
    invalid(
        new(dmatrix![1e-310, 0.0; 0.0, 1.0]),
        "covariance",
        "overflows",
    );
    let infinite = dvector![0.0, f64::INFINITY];
    invalid(
        Gaussian::new(infinite.clone(), DMatrix::identity(2, 2)),
        "mean",
        "inf",
    );
    invalid(
        Gaussian::new(dvector![], dmatrix![]),
        "mean",
        "at least one",
    );

    let from_precision = |precision| Gaussian::from_precision(mean(), precision);
    invalid(
        from_precision(dmatrix![-1.0, 0.0; 0.0, 1.0]),
        "precision",
        "positive definite",
    );
    invalid(
        from_precision(dmatrix![1e-310, 0.0; 0.0, 1.0]),
        "precision",
        "overflows",
    );
    invalid(Gaussian::isotropic(infinite, 1.0), "mean", "inf");
    invalid(Gaussian::isotropic(mean(), f64::NAN), "deviation", "NaN");
    invalid(Gaussian::isotropic(mean(), 1e200), "covariance", "inf");
    invalid(
        Gaussian::isotropic(mean(), 1e-200),
        "covariance",
        "positive definite",
    );
    invalid(Gaussian::standard(0), "mean", "at least one");
    let diagonal = |variances| Gaussian::diagonal(mean(), variances);
    invalid(diagonal(dvector![1.0, 2.0, 3.0]), "variances", "got 3");
    invalid(
        diagonal(dvector![1.0, -2.0]),
        "variances",
        "positive definite",
    );
    invalid(diagonal(dvector![1.0, f64::NAN]), "variances", "NaN");
    invalid(diagonal(dvector![1.0, 1e-310]), "variances", "overflows");

    let with = |eta| Gaussian::standard(1).unwrap().with_natural_parameters(&eta);
    invalid(with(dvector![0.0]), "natural parameters", "expected 2");
    invalid(with(dvector![0.0, 0.5]), "precision", "positive definite");
    invalid(with(dvector![f64::NAN, -0.5]), "natural parameters", "NaN");
    invalid(with(dvector![1e300, -1e-300]), "mean", "inf");
}

#[test]
#[should_panic(expected = "a state of dimension")]
fn gaussian_panics_on_a_state_of_the_wrong_length() {
    gaussian_3d().log_density(&DVector::zeros(4));
}

fn mixture_2d() -> GaussianMixture {
    let left = Gaussian::new(dvector![-2.0, 0.5], dmatrix![1.0, 0.4; 0.4, 0.5]).unwrap();
    let right = Gaussian::new(dvector![1.5, -1.0], dmatrix![0.3, -0.1; -0.1, 0.8]).unwrap();
    GaussianMixture::new([(0.5, left), (2.5, right)]).unwrap()
}

#[test]
fn mixture_is_the_sum_of_its_components() {
    let mixture = mixture_2d();
    assert!((mixture.log_normalizer() - 3f64.ln()).abs() < 1e-15);
    assert!((quadrature(&mixture, 2, 15.0) - 3f64.ln()).abs() < 1e-10);
    let x = dvector![0.3, -0.4];
    let terms = mixture.components().map(|(mass, component)| {
        mass * (component.log_density(&x) - component.log_normalizer()).exp()
    });
    assert!((mixture.log_density(&x) - terms.sum::<f64>().ln()).abs() < 1e-13);
    // Where every component underflows, the nearest still decides.
    let far = dvector![400.0, 0.0];
    assert!(mixture.log_density(&far).is_finite() && mixture.log_density(&far) < -1e4);
    assert_gradient(&mixture, &far);
}

#[test]
fn mixture_samples_have_its_moments() {
    let mixture = mixture_2d();
    let statistics = |x: &DVector<f64>| Gaussian::standard(2).unwrap().sufficient_statistics(x);
    let mut expected = DVector::zeros(5);
    for (mass, component) in mixture.components() {
        expected += component.moments() * (mass / 3.0);
    }
    assert_sample_means(&mixture, statistics, &expected);
}

#[test]
fn mixture_refuses_bad_input() {
    let unit = |d| Gaussian::standard(d).unwrap();
    invalid(GaussianMixture::new([]), "components", "at least one");
    invalid(
        GaussianMixture::new([(1.0, unit(1)), (0.0, unit(1))]),
        "mass",
        "above 0",
    );
    invalid(GaussianMixture::new([(f64::NAN, unit(1))]), "mass", "NaN");
    invalid(
        GaussianMixture::new([(1.0, unit(1)), (1.0, unit(2))]),
        "component",
        "expected 1",
    );
    let huge = [(1.5e308, unit(1)), (1.5e308, unit(1))];
    invalid(GaussianMixture::new(huge), "sum of the masses", "inf");
}

fn bits(code: usize) -> Vec<bool> {
    (0..3).map(|i| code >> i & 1 == 1).collect()
}

#[test]
fn bernoulli_sums_to_its_normalizer() {
    let model = Bernoulli::new(dvector![0.7, -2.0, 1.3]).unwrap();
    assert_eq!(model.log_density(&bits(0b101)), 2.0);
    let sum: f64 = (0..8)
        .map(|code| model.log_density(&bits(code)).exp())
        .sum();
    assert!((model.log_normalizer() - sum.ln()).abs() < 1e-14);
    let extreme = Bernoulli::new(dvector![800.0, -800.0]).unwrap();
    assert_eq!(extreme.log_normalizer(), 800.0);
    assert_eq!(extreme.moments(), dvector![1.0, 0.0]);
}

#[test]
fn bernoulli_is_an_exponential_family_with_exact_samples() {
    let model = Bernoulli::from_probabilities(&dvector![0.2, 0.5, 0.9]).unwrap();
    assert!((model.moments() - dvector![0.2, 0.5, 0.9]).amax() < 1e-15);
    assert_exponential_family(&model, &[bits(0b011), bits(0), bits(0b110)]);
    assert_sample_means(&model, |v| model.sufficient_statistics(v), &model.moments());
}

#[test]
fn bernoulli_conditionals_are_those_of_the_joint() {
    const SAMPLES: usize = 20_000;
    let model = Bernoulli::new(dvector![0.7, -2.0, 1.3]).unwrap();
    let mut rng = StdRng::seed_from_u64(2);
    for index in 0..model.coordinates() {
        let mut state = bits(0b101);
        let mut ones = 0;
        for _ in 0..SAMPLES {
            model.sample_coordinate(&mut state, index, &mut rng);
            ones += usize::from(state[index]);
        }
        let with = |on| {
            let mut state = bits(0b101);
            state[index] = on;
            model.log_density(&state)
        };
        let p = 1.0 / (1.0 + (with(false) - with(true)).exp());
        let standard_error = (p * (1.0 - p) / SAMPLES as f64).sqrt();
        let found = ones as f64 / SAMPLES as f64;
        assert!(
            (found - p).abs() <= 4.0 * standard_error,
            "{index}: {found} {p}"
        );
        state[index] = bits(0b101)[index];
        assert_eq!(state, bits(0b101));
    }
}

#[test]
fn bernoulli_refuses_bad_input() {
    invalid(Bernoulli::new(dvector![]), "logits", "at least one");
    invalid(
        Bernoulli::new(dvector![0.0, f64::INFINITY]),
        "logits",
        "inf at index 1",
    );
    for p in [0.0, 1.0, -0.1, f64::NAN] {
        invalid(
            Bernoulli::from_probabilities(&dvector![0.5, p]),
            "probabilities",
            "between",
        );
    }
    let model = Bernoulli::new(dvector![0.0, 1.0]).unwrap();
    let short = model.with_natural_parameters(&dvector![0.0]);
    invalid(short, "natural parameters", "expected 2");
}

#[test]
fn function_model_does_what_its_closures_do() {
    let scale = 2.0;
    let model = FunctionModel::new(|x: &DVector<f64>| -scale * x[0].powi(4) + x[1].sin() * x[0])
        .with_gradient(|x| dvector![-4.0 * scale * x[0].powi(3) + x[1].sin(), x[1].cos() * x[0]]);
    assert_gradient(&model, &dvector![0.3, -1.2]);

    let coin = FunctionModel::new(|&heads: &bool| if heads { 3f64.ln() } else { 0.0 })
        .with_sampler(|rng: &mut dyn Rng| rng.random_bool(0.75))
        .with_log_normalizer(4f64.ln())
        .unwrap();
    assert_eq!(coin.log_normalizer(), 4f64.ln());
    assert_sample_means(&coin, |&heads| dvector![f64::from(heads)], &dvector![0.75]);
    let mut rng = StdRng::seed_from_u64(1);
    let erased: &mut dyn Rng = &mut rng;
    coin.sample(erased);

    let unnormalizable = FunctionModel::new(|_: &u8| 0.0).with_log_normalizer(f64::INFINITY);
    invalid(unnormalizable, "log normalizer", "inf");
}

/// A well-conditioned Gaussian and a state, from 12 numbers.
fn gaussian_and_state() -> impl Strategy<Value = (Gaussian, DVector<f64>)> {
    prop::collection::vec(-3.0..3.0f64, 15).prop_map(|v| {
        let root = DMatrix::from_column_slice(3, 3, &v[..9]);
        let covariance = &root * root.transpose() + DMatrix::identity(3, 3) * 0.2;
        let mean = DVector::from_column_slice(&v[9..12]);
        let model = Gaussian::new(mean, covariance).unwrap();
        (model, DVector::from_column_slice(&v[12..]))
    })
}

/// Dual numbers differentiate as one would by hand; a density costs one call, a gradient one for each coordinate.
#[cfg(feature = "num-dual")]
mod dual {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use annealed::model::DualModel;
    use annealed::num_dual::DualNum;
    use annealed::testing::gradient_error;

    use super::*;

    /// `-(x - 1)^2 y^2 - log(1 + e^y)` where x is above -2.
    fn log_density<D: DualNum<Primitive = f64> + Copy>(x: &[D]) -> D {
        match x[0].re() > -2.0 {
            true => -(x[0] - 1.0).powi(2) * x[1].powi(2) - x[1].exp().ln_1p(),
            false => D::from(f64::NEG_INFINITY),
        }
    }

    #[test]
    fn a_function_of_dual_numbers_is_a_model_with_its_gradient() {
        let calls = AtomicUsize::new(0);
        let model = DualModel::new(2, |x: &[_]| {
            calls.fetch_add(1, Ordering::Relaxed);
            log_density(x)
        });
        let model = model.unwrap();
        let (x, y) = (0.3, -0.7_f64);
        let state = dvector![x, y];
        let by_hand = -(x - 1.0).powi(2) * y * y - y.exp().ln_1p();
        assert!((model.log_density(&state) - by_hand).abs() < 1e-15);
        assert_eq!(calls.swap(0, Ordering::Relaxed), 1);
        let mut gradient = dvector![10.0, 20.0];
        let value = model.accumulate_gradient(&state, 2.0, &mut gradient);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        assert_eq!(value, model.log_density(&state));
        let slope_y = -2.0 * (x - 1.0).powi(2) * y - y.exp() / (1.0 + y.exp());
        let by_hand = [-2.0 * (x - 1.0) * y * y, slope_y];
        assert!((gradient[0] - 10.0 - 2.0 * by_hand[0]).abs() < 1e-14);
        assert!((gradient[1] - 20.0 - 2.0 * by_hand[1]).abs() < 1e-14);
        assert!(gradient_error(&model, &state).unwrap() < 1e-7);
    }

    #[test]
    fn off_the_support_a_gradient_stays_as_it_is() {
        let model = DualModel::new(2, log_density).unwrap();
        let mut gradient = dvector![1.0, 2.0];
        let value = model.accumulate_gradient(&dvector![-3.0, 1.0], 1.0, &mut gradient);
        assert_eq!(value, f64::NEG_INFINITY);
        assert_eq!(gradient, dvector![1.0, 2.0]);
    }

    #[test]
    fn a_model_without_coordinates_is_refused() {
        let error = DualModel::new(0, log_density).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
}

proptest! {
    #[test]
    fn gaussian_gradient_is_that_of_differences((model, x) in gaussian_and_state()) {
        assert_gradient(&model, &x);
    }

    #[test]
    fn mixture_gradient_is_that_of_differences((a, x) in gaussian_and_state(), (b, _) in gaussian_and_state()) {
        let mixture = GaussianMixture::new([(0.3, a), (2.0, b)]).unwrap();
        assert_gradient(&mixture, &x);
    }
}

#[cfg(feature = "serde")]
#[test]
fn stored_models_come_back_and_are_checked() {
    fn round_trip<M>(model: &M)
    where
        M: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let text = serde_json::to_string(model).unwrap();
        assert_eq!(&serde_json::from_str::<M>(&text).unwrap(), model);
    }
    round_trip(&gaussian_3d());
    round_trip(&mixture_2d());
    round_trip(&Bernoulli::new(dvector![0.7, -2.0, 1.3]).unwrap());
    round_trip(&annealed::model::Bits(
        Bernoulli::new(dvector![0.7, -2.0, 1.3]).unwrap(),
    ));

    let text = serde_json::to_string(&gaussian_3d()).unwrap();
    let broken = text.replace("0.6", "6.0");
    assert_ne!(broken, text);
    let error = serde_json::from_str::<Gaussian>(&broken).unwrap_err();
    assert!(error.to_string().contains("positive definite"), "{error}");
}

mod careless {
    use annealed::ais::Ais;
    use annealed::kernel::{LocalMetropolis, LocalProposal};
    use annealed::model::LocalDensity;
    use annealed::path::GeometricPath;
    use annealed::schedule::Schedule;
    use annealed::testing::{change_error, gradient_error};

    use super::*;

    /// A Gaussian whose gradient is assigned, with its scale or without, or is wrong by a factor.
    enum Flaw {
        AssignsScaled,
        Assigns,
        ForgetsScale,
        Factor(f64),
    }

    impl UnnormalizedModel for Flaw {
        type State = DVector<f64>;

        fn log_density(&self, x: &DVector<f64>) -> f64 {
            -0.5 * x.norm_squared()
        }
    }

    impl Differentiable for Flaw {
        fn accumulate_gradient(
            &self,
            x: &DVector<f64>,
            scale: f64,
            gradient: &mut DVector<f64>,
        ) -> f64 {
            match self {
                Self::AssignsScaled => *gradient = -x * scale,
                Self::Assigns => *gradient = -x,
                Self::ForgetsScale => *gradient -= x,
                Self::Factor(factor) => *gradient -= x * scale * *factor,
            }
            self.log_density(x)
        }
    }

    #[test]
    fn a_gradient_that_is_not_added_has_an_error() {
        let x = dvector![0.7, 0.0, -1000.0];
        let error = |flaw| gradient_error(&flaw, &x).unwrap();
        assert!(error(Flaw::Factor(1.0)) < 1e-6);
        let one_percent = error(Flaw::Factor(1.01));
        assert!((one_percent - 0.01).abs() < 2e-4, "{one_percent}");
        for flaw in [Flaw::AssignsScaled, Flaw::Assigns, Flaw::ForgetsScale] {
            assert!(error(flaw) > 0.4);
        }
    }

    /// Six spins on a line; a factor on the changes of the density.
    struct Line {
        coupling: f64,
        factor: f64,
    }

    type Spins = [f64; 6];

    impl UnnormalizedModel for Line {
        type State = Spins;

        fn log_density(&self, s: &Spins) -> f64 {
            let sum = s.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
            self.coupling * sum
        }
    }

    impl LocalDensity<usize> for Line {
        fn log_density_change(&self, s: &Spins, &i: &usize) -> f64 {
            let left = i.checked_sub(1).map_or(0.0, |i| s[i]);
            let right = s.get(i + 1).copied().unwrap_or(0.0);
            -2.0 * self.factor * self.coupling * s[i] * (left + right)
        }
    }

    impl Sampleable for Line {
        fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Spins {
            std::array::from_fn(|_| if rng.random() { 1.0 } else { -1.0 })
        }
    }

    struct Flip;

    impl LocalProposal<Spins> for Flip {
        type Change = usize;

        fn propose<R: Rng + ?Sized>(&self, _: f64, _: &Spins, rng: &mut R) -> usize {
            rng.random_range(..6)
        }

        fn apply(&self, &i: &usize, s: &mut Spins) {
            s[i] = -s[i];
        }
    }

    fn line(coupling: f64, factor: f64) -> Line {
        Line { coupling, factor }
    }

    #[test]
    fn a_wrong_change_of_the_density_has_an_error() {
        let state = [1.0, 1.0, -1.0, -1.0, -1.0, 1.0];
        let error = |coupling, factor| change_error(&line(coupling, factor), &Flip, &state, 0..6);
        assert!(error(0.7, 1.0).unwrap() < 1e-12);
        // The largest change is that of a spin between two of its sign, 2.8.
        let found = error(0.7, 1.1).unwrap();
        assert!((found - 0.28 / 3.8).abs() < 1e-12, "{found}");
        let infinite = error(0.7, f64::NEG_INFINITY).unwrap_err().to_string();
        assert!(
            infinite.contains("log_density_change: got inf"),
            "{infinite}"
        );
        assert!(error(f64::NAN, 1.0).is_err() && error(0.7, f64::NAN).is_err());
    }

    /// Debug builds compare now and then what is kept with the density.
    #[test]
    fn a_wrong_change_of_the_density_is_named_where_a_run_notices() {
        let run = |factor| {
            let path = GeometricPath::new(line(0.0, factor), line(0.7, factor));
            let kernel = LocalMetropolis::new(Flip, 6).unwrap();
            let ais = Ais::with_base_log_z(&path, kernel, 0.0).chains(4);
            ais.schedule(Schedule::linear(200).unwrap()).run().map(drop)
        };
        run(1.0).unwrap();
        if cfg!(debug_assertions) {
            let error = run(1.1).unwrap_err().to_string();
            assert!(error.contains("log_density_change"), "{error}");
        }
    }
}
