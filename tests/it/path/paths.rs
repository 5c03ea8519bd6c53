//! Paths: their ends, their ratios, and what they make of -inf and NaN.

use annealed::model::{
    Differentiable, FullConditionals, FunctionModel, Gaussian, GaussianMixture, NormalizedModel,
    Sampleable, UnnormalizedModel,
};
use annealed::path::{
    AnnealingPath, BetaDerivative, Ends, GaussianPath, GeometricPath, Intermediate, MomentPath,
    TemperedPath,
};
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// A model over `()` whose log density is a constant, NaN and -inf included.
fn constant(value: f64) -> impl Sampleable<State = ()> + NormalizedModel {
    let model = FunctionModel::new(move |_: &()| value).with_sampler(|_: &mut dyn Rng| ());
    model.with_log_normalizer(0.0).unwrap()
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

#[test]
fn geometric_densities_are_right_at_the_edge_of_the_supports() {
    // base, target, log f at beta = 0, 1/2, 1
    let table = [
        (-1.0, -3.0, [-1.0, -2.0, -3.0]),
        (-1.0, -INF, [-1.0, -INF, -INF]),
        (-INF, -3.0, [-INF, -INF, -3.0]),
        (-INF, -INF, [-INF, -INF, -INF]),
        (-1.0, NAN, [NAN; 3]),
        (NAN, -3.0, [NAN; 3]),
        (-INF, NAN, [NAN; 3]),
        (NAN, -INF, [NAN; 3]),
    ];
    for (base, target, expected) in table {
        let path = GeometricPath::new(constant(base), constant(target));
        for (beta, expected) in [0.0, 0.5, 1.0].into_iter().zip(expected) {
            let found = path.at(beta).log_density(&());
            assert!(same(found, expected), "{base} {target} {beta}: {found}");
        }
    }
}

#[test]
fn geometric_ratios_are_right_at_the_edge_of_the_supports() {
    // base, target, log ratio for beta' -> beta: 0 -> .5, .5 -> .75, .5 -> 1, 0 -> 1, 1 -> .5, .5 -> 0
    let table = [
        (-1.0, -3.0, [-1.0, -0.5, -1.0, -2.0, 1.0, 1.0]),
        (-1.0, -INF, [-INF, -INF, -INF, -INF, -INF, INF]),
        (-INF, -3.0, [-INF, -INF, INF, INF, -INF, -INF]),
        (-INF, -INF, [-INF; 6]),
        (-1.0, NAN, [NAN; 6]),
        (NAN, -3.0, [NAN; 6]),
        (-INF, NAN, [NAN; 6]),
        (NAN, -INF, [NAN; 6]),
    ];
    let stages = [
        (0.0, 0.5),
        (0.5, 0.75),
        (0.5, 1.0),
        (0.0, 1.0),
        (1.0, 0.5),
        (0.5, 0.0),
    ];
    for (base, target, expected) in table {
        let path = GeometricPath::new(constant(base), constant(target));
        for ((from, to), expected) in stages.into_iter().zip(expected) {
            let found = path.at(to).log_ratio(&path.at(from), &());
            let accepted = same(found, expected);
            assert!(accepted, "{base} {target} {from} -> {to}: {found}");
        }
    }
}

/// A log density of `+inf` breaks the contract: it must surface, not look like a weight.
#[test]
fn geometric_ratios_pass_infinite_densities_on() {
    for base in [-1.0, -INF] {
        let path = GeometricPath::new(constant(base), constant(INF));
        for (from, to) in [(0.0, 0.5), (0.5, 0.75), (0.5, 1.0), (0.0, 1.0)] {
            let found = path.at(to).log_ratio(&path.at(from), &());
            assert!(
                found.is_nan() || found == INF,
                "{base} {from} -> {to}: {found}"
            );
        }
    }
}

/// The ends of a path give the log ratios and densities of a state, at the edge of the supports too.
#[test]
fn the_ends_give_log_ratios_and_densities() {
    fn assert_pair<P: AnnealingPath<State = ()>>(path: P, values: (f64, f64)) {
        for (from, to) in [(0.0, 0.5), (0.5, 0.75), (0.5, 1.0), (1.0, 0.5), (0.5, 0.0)] {
            let (previous, here) = (path.at(from), path.at(to));
            let ends = here.ends(&(), Ends::UNKNOWN);
            let found = here.log_density_at(ends);
            let equal = same(found, here.log_density(&()));
            assert!(equal, "{values:?} {from} -> {to}: {found}");
            let found = here.log_ratio_at(&previous, ends);
            let equal = !ends.are_known() || same(found, here.log_ratio(&previous, &()));
            assert!(equal, "{values:?} {from} -> {to}: {found}");
        }
    }
    for first in [-1.0, -INF, NAN] {
        for second in [-3.0, -INF, NAN] {
            let ends = (first, second);
            assert_pair(&GeometricPath::new(constant(first), constant(second)), ends);
            assert_pair(&TemperedPath::new(constant(first), constant(second)), ends);
        }
    }
}

/// A log ratio is the difference of the log densities, and the derivative its slope.
fn assert_ratios<P>(path: P, x: &P::State)
where
    P: AnnealingPath,
    P::At: BetaDerivative,
{
    for (from, to) in [(0.0, 0.1), (0.3, 0.8), (0.5, 1.0), (0.0, 1.0), (0.9, 0.2)] {
        let (here, there) = (path.at(to), path.at(from));
        assert_eq!(here.beta(), to);
        let difference = here.log_density(x) - there.log_density(x);
        assert!((here.log_ratio(&there, x) - difference).abs() < 1e-12);
        assert!(((to - from) * here.beta_derivative(x) - difference).abs() < 1e-12);
    }
}

fn assert_gradient(model: &impl Differentiable, x: &DVector<f64>) {
    let mut gradient = DVector::zeros(x.len());
    let value = model.gradient_into(x, &mut gradient);
    assert!((value - model.log_density(x)).abs() < 1e-12);
    for i in 0..x.len() {
        let (mut up, mut down) = (x.clone(), x.clone());
        up[i] += 1e-5;
        down[i] -= 1e-5;
        let difference = (model.log_density(&up) - model.log_density(&down)) / (up[i] - down[i]);
        assert!(
            (gradient[i] - difference).abs() < 1e-7,
            "{i}: {} {difference}",
            gradient[i]
        );
    }
}

fn base() -> Gaussian {
    Gaussian::new(dvector![0.5, -1.0], dmatrix![2.0, 0.3; 0.3, 1.0]).unwrap()
}

fn target() -> Gaussian {
    Gaussian::new(dvector![3.0, 1.5], dmatrix![0.3, -0.2; -0.2, 0.6]).unwrap()
}

#[test]
fn geometric_path_joins_its_ends() {
    let base = base();
    let target = GaussianMixture::new([
        (0.5, Gaussian::isotropic(dvector![-1.0, 0.0], 0.7).unwrap()),
        (2.0, target()),
    ])
    .unwrap();
    let path = GeometricPath::new(&base, &target);
    let x = dvector![0.7, 1.1];
    assert_eq!(path.at(0.0).log_density(&x), base.log_density(&x));
    assert_eq!(path.at(1.0).log_density(&x), target.log_density(&x));
    assert_ratios(&path, &x);
    for beta in [0.0, 0.3, 1.0] {
        assert_gradient(&path.at(beta), &x);
    }
}

/// The shared evaluation agrees with the mean of two gradients.
#[test]
fn mean_gradients_of_a_stage_are_means_of_gradients() {
    fn check<M: Differentiable>(previous: &M, model: &M, x: &DVector<f64>) {
        let mut gradient = dvector![0.5, -1.0];
        let value = model.accumulate_mean_gradient(previous, x, 3.0, &mut gradient);
        let mean = 1.5 * (previous.gradient(x) + model.gradient(x)) + dvector![0.5, -1.0];
        assert!((value - model.log_density(x)).abs() < 1e-12);
        assert!((&gradient - &mean).norm() < 1e-12, "{gradient} {mean}");
    }
    let x = dvector![0.3, -1.2];
    let geometric = GeometricPath::new(base(), target());
    let tempered = TemperedPath::new(base(), target());
    let gaussian = GaussianPath::new(base(), target()).unwrap();
    for (left, right) in [(0.0, 0.2), (0.4, 0.7), (0.8, 1.0), (0.0, 0.0), (1.0, 1.0)] {
        check(&geometric.at(left), &geometric.at(right), &x);
        check(&tempered.at(left), &tempered.at(right), &x);
        check(&gaussian.at(left), &gaussian.at(right), &x);
    }
}

/// An end without weight must not turn value or gradient into 0 * inf.
#[test]
fn geometric_gradient_ignores_an_end_without_weight() {
    let wall = FunctionModel::new(|_: &DVector<f64>| -INF)
        .with_gradient(|x| x * NAN)
        .with_sampler(|_: &mut dyn Rng| dvector![0.0, 0.0]);
    let x = dvector![0.7, 1.1];
    let mut gradient = DVector::zeros(2);
    let value = GeometricPath::new(base(), &wall)
        .at(0.0)
        .gradient_into(&x, &mut gradient);
    assert_eq!(value, base().log_density(&x));
    assert_eq!(gradient, base().gradient(&x));
    let value = GeometricPath::new(&wall, base())
        .at(1.0)
        .gradient_into(&x, &mut gradient);
    assert_eq!(value, base().log_density(&x));
    assert_eq!(gradient, base().gradient(&x));
}

#[test]
fn tempered_path_is_prior_times_tempered_likelihood() {
    // A prior that carries a constant of its own, and the evidence that does not see it.
    let prior = FunctionModel::new(|x: &DVector<f64>| 7.0 + base().log_density(x))
        .with_gradient(|x| base().gradient(x))
        .with_sampler(|mut rng: &mut dyn Rng| base().sample(&mut rng))
        .with_log_normalizer(7.0 + base().log_normalizer())
        .unwrap();
    let likelihood = FunctionModel::new(|x: &DVector<f64>| -(x[0] - 2.0 * x[1]).powi(4))
        .with_gradient(|x| dvector![-4.0, 8.0] * (x[0] - 2.0 * x[1]).powi(3));
    let path = TemperedPath::new(&prior, &likelihood);
    let x = dvector![0.7, 0.2];
    assert_eq!(path.base().log_normalizer(), 0.0);
    assert_eq!(path.at(0.0).log_density(&x), path.base().log_density(&x));
    for beta in [0.0, 0.4, 1.0] {
        let expected =
            base().log_density(&x) - base().log_normalizer() + beta * likelihood.log_density(&x);
        assert!((path.at(beta).log_density(&x) - expected).abs() < 1e-13);
        assert_gradient(&path.at(beta), &x);
    }
    assert_ratios(&path, &x);
}

#[test]
fn tempered_densities_and_ratios_are_right_at_the_edge_of_the_supports() {
    // prior, likelihood, log f at beta = 0, 1/2, 1
    let table = [
        (-1.0, -2.0, [-1.0, -2.0, -3.0]),
        (-1.0, -INF, [-1.0, -INF, -INF]),
        (-INF, -2.0, [-INF; 3]),
        // Where the prior excludes the state, the likelihood need not make sense.
        (-INF, NAN, [-INF; 3]),
        (-1.0, NAN, [-1.0, NAN, NAN]),
        (NAN, -2.0, [NAN; 3]),
    ];
    for (prior, likelihood, expected) in table {
        let path = TemperedPath::new(constant(prior), constant(likelihood));
        for (beta, expected) in [0.0, 0.5, 1.0].into_iter().zip(expected) {
            let found = path.at(beta).log_density(&());
            assert!(
                same(found, expected),
                "{prior} {likelihood} {beta}: {found}"
            );
        }
    }
    // likelihood, log ratio for beta' -> beta: 0 -> .5, .5 -> 1, .5 -> .5, 1 -> .5, .5 -> 0
    let table = [
        (-2.0, [-1.0, -1.0, 0.0, 1.0, 1.0]),
        (-INF, [-INF, -INF, -INF, -INF, INF]),
        (NAN, [NAN; 5]),
    ];
    let stages = [(0.0, 0.5), (0.5, 1.0), (0.5, 0.5), (1.0, 0.5), (0.5, 0.0)];
    for (likelihood, expected) in table {
        let path = TemperedPath::new(constant(-1.0), constant(likelihood));
        for ((from, to), expected) in stages.into_iter().zip(expected) {
            let found = path.at(to).log_ratio(&path.at(from), &());
            assert!(
                same(found, expected),
                "{likelihood} {from} -> {to}: {found}"
            );
        }
    }
}

#[test]
fn gaussian_path_is_the_geometric_path_normalized() {
    let (path, geometric) = (
        GaussianPath::new(base(), target()).unwrap(),
        GeometricPath::new(base(), target()),
    );
    let x = dvector![0.7, 2.1];
    for beta in [0.0, 0.1, 0.5, 0.97, 1.0] {
        let (found, expected) = (path.at(beta), geometric.at(beta));
        assert!(
            (found.log_density(&x) - expected.log_density(&x)).abs() < 1e-12,
            "{beta}"
        );
        let log_z = log_integral(&expected);
        assert!(
            (found.log_normalizer() - log_z).abs() < 1e-9,
            "{beta}: {log_z}"
        );
        assert_gradient(&found, &x);
        assert_moments(&found, &expected);
    }
    assert_eq!(path.at(0.0).log_normalizer(), base().log_normalizer());
    assert!((path.at(1.0).log_normalizer() - target().log_normalizer()).abs() < 1e-13);
    assert_ratios(&path, &x);
}

/// Calls `visit` with the states of a midpoint grid on `[-12, 12]^2` and the cell's area.
fn on_grid(mut visit: impl FnMut(&DVector<f64>, f64)) {
    let (cells, half) = (480, 12.0);
    let width = 2.0 * half / f64::from(cells);
    for i in 0..cells {
        for j in 0..cells {
            let at = |k: i32| -half + (f64::from(k) + 0.5) * width;
            visit(&dvector![at(i), at(j)], width * width);
        }
    }
}

fn log_integral(model: &impl UnnormalizedModel<State = DVector<f64>>) -> f64 {
    let mut sum = 0.0;
    on_grid(|x, area| sum += area * model.log_density(x).exp());
    sum.ln()
}

/// Samples, and a chain of full conditionals from one of them, have the moments of the density.
fn assert_moments<M>(model: &M, density: &impl UnnormalizedModel<State = DVector<f64>>)
where
    M: Sampleable<State = DVector<f64>> + FullConditionals,
{
    const SAMPLES: usize = 20_000;
    let moments = |x: &DVector<f64>| dvector![x[0], x[1], x[0] * x[0], x[0] * x[1], x[1] * x[1]];
    let (mut expected, mut squares) = (DVector::zeros(5), DVector::zeros(5));
    let log_z = log_integral(density);
    on_grid(|x, area| {
        let p = area * (density.log_density(x) - log_z).exp();
        expected += moments(x) * p;
        squares += moments(x).map(|m| m * m) * p;
    });
    let variance = squares - expected.component_mul(&expected);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(17);
    let (mut exact, mut gibbs) = (DVector::zeros(5), DVector::zeros(5));
    for _ in 0..SAMPLES {
        let mut x = model.sample(&mut rng);
        exact += moments(&x) / SAMPLES as f64;
        for index in 0..model.coordinates() {
            model.sample_coordinate(&mut x, index, &mut rng);
        }
        gibbs += moments(&x) / SAMPLES as f64;
    }
    for i in 0..5 {
        let standard_error = (variance[i] / SAMPLES as f64).sqrt();
        for found in [exact[i], gibbs[i]] {
            let error = (found - expected[i]).abs();
            assert!(
                error <= 4.0 * standard_error,
                "{i}: {error} +- {standard_error}"
            );
        }
    }
}

/// Means far from 0, where the energies of the means are 1e12 and must not be subtracted.
#[test]
fn gaussian_path_does_not_cancel() {
    let far = 1e6;
    let base = Gaussian::isotropic(dvector![far], 1.0).unwrap();
    let target = Gaussian::isotropic(dvector![far + 1.0], 0.5).unwrap();
    let at = GaussianPath::new(base, target).unwrap();
    // N(0, 1) to N(1, 1/4): -1/2 beta (1 - beta) lambda / (1 - beta + beta lambda), lambda = 4.
    let expected = 0.5 * std::f64::consts::TAU.ln() - 0.5 * 2.5f64.ln() - 0.5 * 0.25 * 4.0 / 2.5;
    assert!((at.at(0.5).log_normalizer() - expected).abs() < 1e-12);
}

#[test]
fn gaussian_path_keeps_its_digits_in_many_dimensions() {
    // Precision ratios from 1e-4 to 1e4 on skewed axes.
    let d = 12;
    let skew = DMatrix::from_fn(d, d, |i, j| {
        f64::from(u8::from(i == j)) + 0.1 * ((i * j) as f64).sin()
    });
    let scales = DVector::from_fn(d, |i, _| 10f64.powf(i as f64 * 8.0 / 11.0 - 4.0));
    let covariance = &skew * DMatrix::from_diagonal(&scales) * skew.transpose();
    let symmetric = (&covariance + covariance.transpose()) * 0.5;
    let target = Gaussian::new(DVector::from_element(d, 0.3), symmetric).unwrap();
    let base = Gaussian::standard(d).unwrap();
    let path = GaussianPath::new(base.clone(), target.clone()).unwrap();
    assert!((path.at(1.0).log_normalizer() - target.log_normalizer()).abs() < 1e-6);
    let precision = (base.precision() + target.precision()) * 0.5;
    let linear = target.precision() * target.mean() * 0.5;
    let middle = precision.clone().cholesky().unwrap();
    let energy = 0.5 * linear.dot(&middle.solve(&linear))
        - 0.25 * target.mean().dot(&(target.precision() * target.mean()));
    let log_z = energy + 0.5 * (d as f64 * std::f64::consts::TAU.ln() - middle.ln_determinant());
    let relative = path.at(0.5).log_normalizer() / log_z - 1.0;
    assert!(relative.abs() < 1e-9, "{relative}");
}

#[test]
fn gaussian_path_refuses_other_dimensions() {
    let error = GaussianPath::new(base(), Gaussian::standard(3).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "dimension mismatch in target: got 3, expected 2"
    );
}

#[test]
fn paths_of_gaussians_refuse_means_whose_log_densities_overflow() {
    let at = |mean: f64| Gaussian::isotropic(dvector![mean, 0.0], 2.0).unwrap();
    for far in [1e308, 1e200] {
        for (base, target) in [(at(-far), at(far)), (at(0.0), at(far))] {
            let error = GaussianPath::new(base, target).unwrap_err().to_string();
            assert!(error.contains("log densities overflow"), "{error}");
        }
    }
    // The farthest that can be told: all values are finite.
    let path = GaussianPath::new(at(0.0), at(1e150)).unwrap();
    let middle = path.at(0.5);
    assert!(middle.log_normalizer().is_finite());
    assert!(middle.log_density(&dvector![5e149, 0.0]).is_finite());
}

#[test]
fn paths_of_gaussians_state_their_largest_dimension() {
    let wide = || Gaussian::standard(100_000).unwrap();
    for text in [
        GaussianPath::new(wide(), wide()).unwrap_err().to_string(),
        MomentPath::new(wide(), wide()).unwrap_err().to_string(),
    ] {
        assert!(
            text.contains("got 100000, expected at most 16384"),
            "{text}"
        );
    }
}
