//! Barron and Luo (2007), *Adaptive annealing*: the field that carries a density along its path, weights that
//! are right whatever the field, and the bound on the mean of the objective.

mod gibbs;
mod steps;

use annealed::drift::{
    BumpFeatures, DriftModifiedLangevin, DriftModifier, EnsembleModifier, QuadratureModifier,
    SeparableModifier,
};
use annealed::kernel::{Stage, TransitionKernel};
use annealed::model::{
    Differentiable, FunctionModel, Gaussian, NormalizedModel, UnnormalizedModel,
};
use annealed::path::{AnnealingPath, BetaDerivative, GaussianPath, TemperedPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dvector};
use proptest::prelude::*;

use crate::maximum::Maximum;
use crate::random_models::{
    cases, gaussian, geometric_average, log_weights, mean_and_error, quadratic_mean, schedule,
    streams,
};

/// `L(w) = sum_i h_i exp(-|w - c_i|^2 / (2 s_i^2))`; centres on the diagonal of the space.
#[derive(Debug, Clone)]
struct Bumps(Vec<(f64, f64, f64)>);

impl Bumps {
    fn height(&self, w: &DVector<f64>, (height, centre, width): (f64, f64, f64)) -> f64 {
        let distance = w.iter().map(|w| (w - centre).powi(2)).sum::<f64>();
        height * (-0.5 * distance / (width * width)).exp()
    }

    fn value(&self, w: &DVector<f64>) -> f64 {
        self.0.iter().map(|&bump| self.height(w, bump)).sum()
    }

    fn gradient(&self, w: &DVector<f64>) -> DVector<f64> {
        let slope = |&bump: &(f64, f64, f64)| {
            w.map(|w| (bump.1 - w) / (bump.2 * bump.2)) * self.height(w, bump)
        };
        self.0
            .iter()
            .map(slope)
            .fold(DVector::zeros(w.len()), |sum, slope| sum + slope)
    }

    /// A bound on the length of the gradient.
    fn lipschitz(&self) -> f64 {
        let steepest = |&(height, _, width): &(f64, f64, f64)| height.abs() / width;
        (-0.5f64).exp() * self.0.iter().map(steepest).sum::<f64>()
    }
}

fn bumps() -> impl Strategy<Value = Bumps> {
    let bump = (0.2..1.5f64, -2.5..2.5f64, 0.5..1.2f64);
    prop::collection::vec(bump, 1..4).prop_map(Bumps)
}

/// `p_beta` proportional to `N(0, 4) exp(beta gain L)`, over so many coordinates each by itself.
fn tempered(
    bumps: &Bumps,
    gain: f64,
) -> TemperedPath<Gaussian, impl Differentiable<State = DVector<f64>> + use<>> {
    let (value, gradient) = (bumps.clone(), bumps.clone());
    let objective = FunctionModel::new(move |w: &DVector<f64>| gain * value.value(w))
        .with_gradient(move |w: &DVector<f64>| gradient.gradient(w) * gain);
    TemperedPath::new(Gaussian::isotropic(dvector![0.0], 2.0).unwrap(), objective)
}

/// `div(G p) / p = div G + G . grad log p`, by central differences.
fn divergence(
    modifier: &impl DriftModifier,
    model: &impl Differentiable,
    beta: f64,
    x: &DVector<f64>,
    step: f64,
) -> f64 {
    let slope = |i: usize| {
        let at = |sign: f64| {
            let mut moved = x.clone();
            moved[i] += sign * step;
            modifier.modifier(beta, &moved)[i]
        };
        (at(1.0) - at(-1.0)) / (2.0 * step)
    };
    let slopes: f64 = (0..x.len()).map(slope).sum();
    slopes + modifier.modifier(beta, x).dot(&model.gradient(x))
}

/// The largest error of `div(G p) / p = s - E s` at some points, relative to `1 + |s - E s|`.
fn error_between_gaussians(
    modifier: &impl DriftModifier,
    [a, b]: &[Gaussian; 2],
    beta: f64,
    points: &[[f64; 2]],
) -> f64 {
    let path = GaussianPath::new(a.clone(), b.clone()).unwrap();
    let model = path.at(beta);
    let mean = quadratic_mean(&geometric_average(a, b, beta), |x| model.beta_derivative(x));
    let errors = points.iter().map(|x| {
        let x = DVector::from_row_slice(x);
        let excess = model.beta_derivative(&x) - mean;
        (divergence(modifier, &model, beta, &x, 1e-4) - excess).abs() / (1.0 + excess.abs())
    });
    errors.fold(0.0, f64::max)
}

/// Distance of two nodes.
const SPACING: f64 = 0.005;

proptest! {
    #![proptest_config(cases(16))]

    /// `div(G p) = (s - E s) p`, for the field by quadrature, at every node but those far out.
    #[test]
    fn the_field_by_quadrature_moves_the_density(bumps in bumps(), gain in 0.5..4.0f64) {
        let path = tempered(&bumps, gain);
        let schedule = Schedule::linear(2).unwrap();
        let table = QuadratureModifier::new(&path, &schedule, (-14.0, 14.0), 5_601).unwrap();
        for beta in [0.25, 0.75] {
            let model = path.at(beta);
            let node = |i: i32| dvector![SPACING * f64::from(i)];
            let grid = || (-2_800..=2_800).map(node);
            let total: f64 = grid().map(|x| model.log_density(&x).exp()).sum();
            let weighted = |x: DVector<f64>| model.beta_derivative(&x) * model.log_density(&x).exp();
            let mean = grid().map(weighted).sum::<f64>() / total;
            for i in (-1_200..=1_200).step_by(7) {
                let x = node(i);
                let excess = model.beta_derivative(&x) - mean;
                let found = divergence(&table, &model, beta, &x, SPACING);
                let force = table.modifier(beta, &x).dot(&model.gradient(&x)).abs();
                let error = (found - excess).abs();
                prop_assert!(error < 2e-3 * (1.0 + force), "{}: {} {}", x[0], found, excess);
            }
        }
    }

    /// `div(G p) = (s - E s) p`, for products of densities: the sum over coordinates.
    #[test]
    fn the_field_of_a_product_is_made_of_those_of_its_factors(
        bumps in prop::array::uniform2(bumps()),
        places in prop::collection::vec(prop::array::uniform2(-600..600i32), 20),
    ) {
        let schedule = Schedule::linear(1).unwrap();
        let paths = bumps.each_ref().map(|bumps| tempered(bumps, 2.0));
        let table = |path| QuadratureModifier::new(path, &schedule, (-14.0, 14.0), 5_601).unwrap();
        let tables = [table(&paths[0]), table(&paths[1])];
        let product = SeparableModifier::new(tables.iter());
        let models = paths.each_ref().map(|path| path.at(0.5));
        let gradient = |x: &DVector<f64>| {
            let parts = models.iter().zip(x.iter()).map(|(model, &x)| model.gradient(&dvector![x])[0]);
            DVector::from_iterator(2, parts)
        };
        let joint = FunctionModel::new(|_: &DVector<f64>| 0.0).with_gradient(gradient);
        for place in places {
            let x = place.map(|i| SPACING * f64::from(i));
            let parts = (0..2).map(|i| {
                divergence(&tables[i], &models[i], 0.5, &dvector![x[i]], SPACING)
            });
            let expected: f64 = parts.sum();
            let x = DVector::from_row_slice(&x);
            let found = divergence(&product, &joint, 0.5, &x, SPACING);
            prop_assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()));
        }
    }

    /// `div(G p) = (s - E s) p`, for the closed form between Gaussians.
    #[test]
    fn the_field_between_gaussians_moves_the_density(
        ends in prop::array::uniform2(gaussian(2)),
        beta in 0.0..1.0f64,
        points in prop::collection::vec(prop::array::uniform2(-4.0..4.0f64), 10),
    ) {
        let path = GaussianPath::new(ends[0].clone(), ends[1].clone()).unwrap();
        let error = error_between_gaussians(&path, &ends, beta, &points);
        prop_assert!(error < 1e-6, "{error}");
    }

    /// `div(G p) = (s - E s) p`, for a field learned from particles where its features suffice: between Gaussians.
    #[test]
    fn a_learned_field_moves_the_density(
        ends in prop::array::uniform2(gaussian(2)),
        points in prop::collection::vec(prop::array::uniform2(-2.0..2.0f64), 10),
    ) {
        let path = GaussianPath::new(ends[0].clone(), ends[1].clone()).unwrap();
        let features = BumpFeatures::new(2, &[], &[]).unwrap();
        let schedule = Schedule::linear(2).unwrap();
        let learned = EnsembleModifier::fit(&path, features, &schedule, 0.01, 400, 1).unwrap();
        let error = error_between_gaussians(&learned, &ends, 0.25, &points);
        prop_assert!(error < 1e-2, "{error}");
    }
}

/// A field that solves nothing, for what may be any field.
#[derive(Debug, Clone, Copy)]
struct AnyField([f64; 6]);

impl DriftModifier for AnyField {
    fn modifier_into(&self, beta: f64, x: &DVector<f64>, modifier: &mut DVector<f64>) {
        let [a, b, c, d, e, f] = self.0;
        modifier[0] = a * (b * x[1] + beta).sin() + c;
        modifier[1] = d * (e * x[0]).cos() - f * beta * x[1];
    }
}

fn any_field() -> impl Strategy<Value = AnyField> {
    prop::array::uniform6(-1.0..1.0f64).prop_map(AnyField)
}

/// `log N(to; mean, variance I)` but for its constant.
fn log_normal(to: &DVector<f64>, mean: &DVector<f64>, variance: f64) -> f64 {
    -0.5 * (to - mean).norm_squared() / variance
}

proptest! {
    #![proptest_config(cases(64))]

    /// `F = N(w'; w + eps/2 grad log p - delta G(w), eps)` and
    /// `B = N(w; w' + eps/2 grad log p(w') + delta G(w'), eps)`: a step adds
    /// `log f_k(w') - log f_k(w) + log B - log F` to the weight, for any field.
    #[test]
    fn a_step_is_weighed_by_its_two_densities(
        ends in prop::array::uniform2(gaussian(2)),
        field in any_field(),
        betas in prop::array::uniform2(0.0..1.0f64),
        start in prop::array::uniform2(-2.0..2.0f64),
        variance in 0.01..0.5f64,
    ) {
        let [a, b] = ends;
        let path = GaussianPath::new(a, b).unwrap();
        let (left, reached) = (path.at(betas[0]), path.at(betas[1]));
        let (delta, middle) = (betas[1] - betas[0], 0.5 * (betas[0] + betas[1]));
        let mean = |w: &DVector<f64>, sign: f64| {
            let gradient = (left.gradient(w) + reached.gradient(w)) * 0.5;
            w + gradient * (0.5 * variance) + field.modifier(middle, w) * (sign * delta)
        };
        let start = DVector::from_row_slice(&start);
        let mut rng = streams(1).remove(0);
        let mut moved = start.clone();
        let kernel = DriftModifiedLangevin::new(field, variance).unwrap();
        let stage = Stage::new(1, &left, &reached);
        let step = kernel.step(stage, &mut moved, &mut Default::default(), &mut rng).unwrap();
        let forward = log_normal(&moved, &mean(&start, -1.0), variance);
        let backward = log_normal(&start, &mean(&moved, 1.0), variance);
        let densities = reached.log_density(&moved) - reached.log_density(&start);
        let expected = densities + backward - forward;
        prop_assert!((step.correction - expected).abs() < 1e-9 * (1.0 + expected.abs()));
    }
}

proptest! {
    #![proptest_config(cases(4))]

    /// `E[w] = Z_K / Z_0`, for any field and any schedule, by draws.
    #[test]
    fn weights_are_unbiased_for_any_field(
        target in gaussian(2), field in any_field(), schedule in schedule(2..=4)
    ) {
        let base = Gaussian::isotropic(target.mean() * 0.5, 2.0).unwrap();
        let log_ratio = target.log_normalizer() - base.log_normalizer();
        let path = GaussianPath::new(base, target).unwrap();
        let kernel = DriftModifiedLangevin::new(field, 0.1).unwrap();
        let weights = log_weights(&path, &kernel, &schedule, 10_000);
        let (mean, error) = mean_and_error(weights.iter().map(|w| (w - log_ratio).exp()));
        prop_assert!((mean - 1.0).abs() < 4.0 * error && error < 0.05, "{mean} +- {error}");
    }
}

/// `log P(|x| < radius)` for a standard Gaussian, by the trapezoid rule over the radius.
fn log_ball(dimension: i32, radius: f64) -> f64 {
    let shell = |r: f64| r.powi(dimension - 1) * (-0.5 * r * r).exp();
    let integral = |end: f64| {
        let width = end / 20_000.0;
        let inner: f64 = (1..20_000).map(|i| shell(width * f64::from(i))).sum();
        width * (inner + 0.5 * (shell(0.0) + shell(end)))
    };
    (integral(radius.min(40.0)) / integral(40.0)).ln()
}

proptest! {
    #![proptest_config(cases(24))]

    /// `E L >= L* - B r + 1/gamma log P_0(ball(w*, r))` with `r = d / (gamma B)` (Lemma), in one and two dimensions.
    #[test]
    fn the_mean_objective_keeps_the_bound_of_the_lemma(
        bumps in bumps(), gain in 0.2..60.0f64, dimension in 1..=2_usize
    ) {
        let deviation = 2.0;
        let centres = bumps.0.iter().map(|bump| DVector::from_element(dimension, bump.1));
        let best = centres.max_by(|a, b| bumps.value(a).total_cmp(&bumps.value(b))).unwrap();
        let value = bumps.value(&best);
        let bound = Maximum {
            dimension,
            value,
            distance: best.norm(),
            lipschitz: bumps.lipschitz(),
            prior_deviation: deviation,
        };
        let bound = bound.mean_objective_bound(gain);
        let side: i32 = if dimension == 1 { 4_000 } else { 160 };
        let (mut total, mut sum) = (0.0, 0.0);
        for cell in 0..side.pow(dimension as u32) {
            let place = |i: i32| 8.0 * (f64::from(2 * i + 1) / f64::from(side) - 1.0);
            let w = DVector::from_fn(dimension, |k, _| place(cell / side.pow(k as u32) % side));
            let objective = bumps.value(&w);
            let prior = -0.5 * w.norm_squared() / (deviation * deviation);
            let mass = (gain * (objective - value) + prior).exp();
            total += mass;
            sum += mass * objective;
        }
        prop_assert!(sum / total >= bound, "{} below {bound}", sum / total);
    }

    /// `log P_0(ball(w*, r)) >= log P_0(ball(0, r)) - |w*|^2 / (2 sigma_0^2)`: the bound in full, in any dimension.
    #[test]
    fn the_bound_is_that_of_the_ball(
        dimension in 1..8_usize,
        gain in 0.2..60.0f64,
        [value, distance] in prop::array::uniform2(0.0..3.0f64),
        [lipschitz, deviation] in prop::array::uniform2(0.3..3.0f64),
    ) {
        let maximum = Maximum { dimension, value, distance, lipschitz, prior_deviation: deviation };
        let radius = dimension as f64 / (gain * lipschitz);
        let ball = log_ball(dimension as i32, radius / deviation);
        let ball = ball - 0.5 * (distance / deviation).powi(2);
        let expected = value - lipschitz * radius + ball / gain;
        let found = maximum.mean_objective_bound(gain);
        prop_assert!((found - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{found} {expected}");
    }
}
