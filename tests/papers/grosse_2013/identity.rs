//! Equation 2, on which all estimates of log Z along a path rest, and Theorems 1 and 2 in up to five dimensions.

use annealed::model::{Gaussian, NormalizedModel, UnnormalizedModel};
use annealed::path::{
    AnnealingPath, BetaDerivative, GaussianPath, GeometricPath, MomentPath, MomentSplinePath,
};
use annealed::rbm::{BaseRate, RbmPath};
use annealed::schedule::Schedule;
use nalgebra::DVector;
use proptest::prelude::*;

use super::{divergence, linear_cost, mean_log_ratio, moment_average};
use crate::random_models::{
    cases, gaussian, geometric_average, quadratic_mean, rbm, schedule, states, sum_of_densities,
    table,
};

/// `int_0^1 f(beta) dbeta`, by Gauss's rule of three points on forty pieces of each segment between knots.
fn integral(knots: &Schedule, f: impl Fn(f64) -> f64) -> f64 {
    let rule = [
        (-(0.6f64.sqrt()), 5.0 / 18.0),
        (0.0, 4.0 / 9.0),
        (0.6f64.sqrt(), 5.0 / 18.0),
    ];
    let piece = |start: f64, width: f64| -> f64 {
        let point = |(x, weight): &(f64, f64)| weight * f(start + 0.5 * width * (1.0 + x));
        width * rule.iter().map(point).sum::<f64>()
    };
    let segment = |ends: &[f64]| -> f64 {
        let width = (ends[1] - ends[0]) / 40.0;
        (0..40)
            .map(|i| piece(ends[0] + f64::from(i) * width, width))
            .sum()
    };
    knots.betas().windows(2).map(segment).sum()
}

/// `E[d/dbeta log f]` under the law at `under` of a path over bits.
fn mean_over_bits<P>(path: P, bits: usize, beta: f64, under: f64) -> f64
where
    P: AnnealingPath<State = Vec<bool>>,
    P::At: BetaDerivative,
{
    let (model, law) = (path.at(beta), path.at(under));
    let sum: f64 = states(bits)
        .map(|x| law.log_density(&x).exp() * model.beta_derivative(&x))
        .sum();
    sum / sum_of_densities(&law, bits)
}

/// The errors of Equation 2 over bits: with the law at each beta, and with that of the base throughout.
fn errors_over_bits<P>(path: P, knots: &Schedule, bits: usize) -> [f64; 2]
where
    P: AnnealingPath<State = Vec<bool>>,
    P::At: BetaDerivative,
{
    let sum = |beta| sum_of_densities(&path.at(beta), bits).ln();
    let expected = sum(1.0) - sum(0.0);
    let right = integral(knots, |beta| mean_over_bits(&path, bits, beta, beta));
    let wrong = integral(knots, |beta| mean_over_bits(&path, bits, beta, 0.0));
    [right - expected, wrong - expected]
}

/// Two Gaussians of one to five dimensions.
fn gaussians() -> impl Strategy<Value = [Gaussian; 2]> {
    (1..=5usize).prop_flat_map(|dimension| prop::array::uniform2(gaussian(dimension)))
}

/// The member of a spline of averaged moments at beta.
fn spline_member([a, b]: &[Gaussian; 2], knots: &Schedule, beta: f64) -> Gaussian {
    let betas = knots.betas();
    let right = betas
        .partition_point(|&knot| knot <= beta)
        .clamp(1, knots.stages());
    let [from, to] = [right - 1, right].map(|j| moment_average(a, b, betas[j]));
    let share = (beta - betas[right - 1]) / (betas[right] - betas[right - 1]);
    geometric_average(&from, &to, share)
}

proptest! {
    #![proptest_config(cases(12))]

    /// `log Z_b - log Z_a = int E_beta[d/dbeta log f_beta] dbeta` (Eq. 2), between Gaussians, on the geometric path,
    /// the moment path and a spline. With means under the base throughout it is too small, by `KL(p_a || p_b)`.
    #[test]
    fn log_z_is_the_integral_of_the_mean_derivative(ends in gaussians(), knots in schedule(2..=4)) {
        let [a, b] = &ends;
        let expected = b.log_normalizer() - a.log_normalizer();
        let near = |found: f64| (found - expected).abs() < 1e-5 * (1.0 + expected.abs());
        let geometric = GaussianPath::new(a.clone(), b.clone()).unwrap();
        let mean = |law: &Gaussian, beta| quadratic_mean(law, |x| geometric.at(beta).beta_derivative(x));
        let found = integral(&knots, |beta| mean(&geometric_average(a, b, beta), beta));
        prop_assert!(near(found), "{found} {expected}");
        let wrong = integral(&knots, |beta| mean(a, beta));
        prop_assert!(!near(wrong) && wrong < expected, "{wrong} {expected}");
        let spline = MomentSplinePath::new(a.clone(), b.clone(), knots.clone(), GaussianPath::new).unwrap();
        let found = integral(&knots, |beta| {
            quadratic_mean(&spline_member(&ends, &knots, beta), |x| spline.at(beta).beta_derivative(x))
        });
        prop_assert!(near(found), "spline: {found} {expected}");
        let moment = MomentPath::new(a.clone(), b.clone()).unwrap();
        let found = integral(&knots, |beta| {
            quadratic_mean(&moment_average(a, b, beta), |x| moment.at(beta).beta_derivative(x))
        });
        // It turns sharply near its ends.
        prop_assert!((found - expected).abs() < 1e-3 * (1.0 + expected.abs()), "moments: {found} {expected}");
    }

    /// Equation 2 between tables, and between RBMs on straight paths and through knots.
    #[test]
    fn log_z_of_bits_is_the_integral_of_the_mean_derivative(
        tables in prop::array::uniform2(table(3, false)),
        models in prop::array::uniform2(rbm(2, 3)),
        knots in schedule(2..=2),
    ) {
        let [base, target] = tables;
        let path = GeometricPath::new(base, target);
        let machines = models.to_vec();
        let base = || BaseRate::new(2, models[0].visible_bias().clone()).unwrap();
        let straight = RbmPath::new(base(), models[1].clone()).unwrap();
        let bent = RbmPath::through(base(), machines, knots.clone()).unwrap();
        for [right, wrong] in [
            errors_over_bits(&path, &knots, 3),
            errors_over_bits(&straight, &knots, 3),
            errors_over_bits(&bent, &knots, 3),
        ] {
            prop_assert!(right.abs() < 1e-7, "{right}");
            prop_assert!(wrong.abs() > 1e-4, "{wrong}");
        }
    }

    /// `E[log w] = log(Z_b/Z_a) - sum_k KL(p_k || p_(k+1))` (Eq. 3), by the path's own log ratios. The divergences the
    /// other way round add up to another sum.
    #[test]
    fn the_mean_log_weight_falls_short_by_the_divergences(ends in gaussians(), betas in schedule(1..=5)) {
        let [a, b] = &ends;
        let path = GaussianPath::new(a.clone(), b.clone()).unwrap();
        let law = |beta| geometric_average(a, b, beta);
        let stages = || betas.betas().windows(2);
        let mean: f64 = stages().map(|s| mean_log_ratio(&path, &law(s[0]), s[0], s[1])).sum();
        let there: f64 = stages().map(|s| divergence(&law(s[0]), &law(s[1]))).sum();
        let back: f64 = stages().map(|s| divergence(&law(s[1]), &law(s[0]))).sum();
        let found = b.log_normalizer() - a.log_normalizer() - mean;
        prop_assert!((found - there).abs() < 1e-8 * (1.0 + there), "{found} {there}");
        prop_assume!((back / there - 1.0).abs() > 1e-3);
        prop_assert!((found - back).abs() > 1e-4 * there);
    }

    /// `K (E[log w] - log(Z_b/Z_a)) -> -F` (Theorem 1) with `F = 1/2 (eta_b - eta_a) . (s_b - s_a)` on the geometric
    /// path, the moment path and any spline (Theorem 2), in one to five dimensions. The cost with the variance's half
    /// forgotten is twice as large.
    #[test]
    fn all_three_paths_have_one_cost_in_any_dimension(ends in gaussians(), knots in schedule(2..=4)) {
        let [a, b] = &ends;
        let cost = linear_cost(a, b);
        let geometric = GaussianPath::new(a.clone(), b.clone()).unwrap();
        let moment = MomentPath::new(a.clone(), b.clone()).unwrap();
        let spline = MomentSplinePath::new(a.clone(), b.clone(), knots.clone(), GaussianPath::new).unwrap();
        for limit in [
            scaled_limit(&geometric, &ends, |beta| geometric_average(a, b, beta)),
            scaled_limit(&moment, &ends, |beta| moment_average(a, b, beta)),
            scaled_limit(&spline, &ends, |beta| spline_member(&ends, &knots, beta)),
        ] {
            prop_assert!((limit / cost + 1.0).abs() < 0.05, "{limit} {cost}");
            prop_assert!((limit / (2.0 * cost) + 1.0).abs() > 0.05);
        }
    }
}

/// The limit of `K (E[log w] - log(Z_b/Z_a))` of linear schedules, from two of them.
fn scaled_limit<P>(path: P, [a, b]: &[Gaussian; 2], law: impl Fn(f64) -> Gaussian) -> f64
where
    P: AnnealingPath<State = DVector<f64>>,
{
    let bias = |steps: usize| {
        let beta = |k: usize| k as f64 / steps as f64;
        let stage = |k| mean_log_ratio(&path, &law(beta(k)), beta(k), beta(k + 1));
        let mean: f64 = (0..steps).map(stage).sum();
        steps as f64 * (mean - (b.log_normalizer() - a.log_normalizer()))
    };
    2.0 * bias(400) - bias(200)
}
