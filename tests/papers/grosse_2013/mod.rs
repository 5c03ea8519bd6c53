//! Grosse, Maddison and Salakhutdinov (2013), *Annealing between distributions by averaging moments*: what a
//! path costs under perfect transitions, which averages minimise what, and the best binned schedule.

mod identity;
mod machines;

use annealed::model::{ExponentialFamily, Gaussian, NormalizedModel, UnnormalizedModel};
use annealed::path::{
    AnnealingPath, GaussianPath, GeometricPath, Intermediate, MomentPath, MomentSplinePath,
};
use annealed::pilot::{BinnedSchedule, allocate_stages};
use annealed::schedule::Schedule;
use nalgebra::DVector;
use proptest::prelude::*;

use crate::random_models::{
    cases, gaussian, geometric_average, quadratic_mean, schedule, states, table,
};

/// Equations 9 and 10, written out.
fn moment_average(a: &Gaussian, b: &Gaussian, beta: f64) -> Gaussian {
    let apart = b.mean() - a.mean();
    let mean = a.mean() * (1.0 - beta) + b.mean() * beta;
    let covariance = a.covariance() * (1.0 - beta)
        + b.covariance() * beta
        + &apart * apart.transpose() * (beta * (1.0 - beta));
    Gaussian::new(mean, covariance).unwrap()
}

type Average = fn(&Gaussian, &Gaussian, f64) -> Gaussian;

/// `KL(p || q) = A(q) - A(p) - (eta_q - eta_p) . s_p`.
fn divergence(p: &Gaussian, q: &Gaussian) -> f64 {
    let natural = q.natural_parameters() - p.natural_parameters();
    q.log_partition() - p.log_partition() - natural.dot(&p.moments())
}

/// Half the symmetrised divergence, `F = (eta_b - eta_a) . (s_b - s_a) / 2`: the cost of both paths under a linear
/// schedule (Theorem 2).
fn linear_cost<M: ExponentialFamily>(a: &M, b: &M) -> f64 {
    let natural = b.natural_parameters() - a.natural_parameters();
    0.5 * natural.dot(&(b.moments() - a.moments()))
}

/// `F = 1/2 int (d eta/d beta) . (d s/d beta) d beta` of the path through these members, geometric or moment-averaged
/// between neighbours (section 3).
fn path_cost(betas: &Schedule, members: &[Gaussian]) -> f64 {
    let widths = betas.betas().windows(2).map(|pair| pair[1] - pair[0]);
    let costs = members
        .windows(2)
        .map(|pair| linear_cost(&pair[0], &pair[1]));
    costs.zip(widths).map(|(cost, width)| cost / width).sum()
}

/// The length `int sqrt((d eta/d beta) . (d s/d beta)) d beta` of a path, from members on a fine grid.
fn path_length<M: ExponentialFamily>(members: &[M]) -> f64 {
    let pairs = members.windows(2);
    pairs
        .map(|pair| (2.0 * linear_cost(&pair[0], &pair[1])).sqrt())
        .sum()
}

/// `E[log f_to - log f_from]` under the average at `under`, by the path's own log ratios.
fn mean_log_ratio<P>(path: P, law: &Gaussian, from: f64, to: f64) -> f64
where
    P: AnnealingPath<State = DVector<f64>>,
{
    let (left, reached) = (path.at(from), path.at(to));
    quadratic_mean(law, |x| reached.log_ratio(&left, x))
}

/// `K (E[log w] - log(Z_K/Z_0))` of a linear schedule under perfect transitions.
fn scaled_bias<P>(path: P, average: Average, ends: &[Gaussian; 2], steps: usize) -> f64
where
    P: AnnealingPath<State = DVector<f64>>,
{
    let [a, b] = ends;
    let beta = |k: usize| k as f64 / steps as f64;
    let stage = |k| mean_log_ratio(&path, &average(a, b, beta(k)), beta(k), beta(k + 1));
    let mean: f64 = (0..steps).map(stage).sum();
    steps as f64 * (mean - (b.log_normalizer() - a.log_normalizer()))
}

/// The sum over neighbours of `KL(k || k+1) + KL(k+1 || k)`, by the path's own log ratios.
fn two_way_divergences<P>(path: P, average: Average, ends: &[Gaussian; 2], betas: &[f64]) -> f64
where
    P: AnnealingPath<State = DVector<f64>>,
{
    let at = |beta| average(&ends[0], &ends[1], beta);
    let pair = |b: &[f64]| {
        mean_log_ratio(&path, &at(b[1]), b[0], b[1]) - mean_log_ratio(&path, &at(b[0]), b[0], b[1])
    };
    betas.windows(2).map(pair).sum()
}

fn linear(steps: usize) -> Schedule {
    Schedule::linear(steps).unwrap()
}

proptest! {
    #![proptest_config(cases(32))]

    /// `K (E[log w] - log(Z_K/Z_0)) -> -F` as K grows (Theorem 1), on the geometric and the moment path, with the
    /// one `F = 1/2 (eta_b - eta_a) . (s_b - s_a)` (Theorem 2).
    #[test]
    fn the_bias_falls_as_the_cost_over_the_steps(ends in prop::array::uniform2(gaussian(2))) {
        let [a, b] = ends.clone();
        let cost = linear_cost(&a, &b);
        let geometric = GaussianPath::new(a.clone(), b.clone()).unwrap();
        let moment = MomentPath::new(a, b).unwrap();
        let at = |steps| [
            scaled_bias(&geometric, geometric_average, &ends, steps),
            scaled_bias(&moment, moment_average, &ends, steps),
        ];
        // The first error is of the order of 1/K: halved, and gone where extrapolated.
        let (coarse, fine) = (at(200), at(400));
        for (coarse, fine) in coarse.into_iter().zip(fine) {
            let limit = 2.0 * fine - coarse;
            prop_assert!((limit / cost + 1.0).abs() < 1e-3, "{limit} {cost}");
            prop_assert!((fine / cost + 1.0).abs() < 0.1 && fine < 0.0, "{fine} {cost}");
        }
    }

    /// `K (E[log w] - log(Z_K/Z_0)) -> -F` (Theorem 1), between tables, with
    /// `F = 1/2 (E_b - E_a)[log f_b - log f_a]`.
    #[test]
    fn the_bias_of_finite_models_falls_as_their_cost_over_the_steps(
        base in table(3, false), target in table(3, false)
    ) {
        let path = GeometricPath::new(base, target);
        let mean = |beta: f64, f: &dyn Fn(&Vec<bool>) -> f64| -> f64 {
            let density = |x: &Vec<bool>| path.at(beta).log_density(x).exp();
            let total: f64 = states(3).map(|x| density(&x)).sum();
            states(3).map(|x| density(&x) / total * f(&x)).sum()
        };
        let whole = |x: &Vec<bool>| path.at(1.0).log_ratio(&path.at(0.0), x);
        let cost = 0.5 * (mean(1.0, &whole) - mean(0.0, &whole));
        let log_ratio = path.target().log_normalizer() - path.base().log_normalizer();
        let bias = |steps: usize| {
            let betas = linear(steps);
            let stage = |b: &[f64]| mean(b[0], &|x| path.at(b[1]).log_ratio(&path.at(b[0]), x));
            let sum: f64 = betas.betas().windows(2).map(stage).sum();
            steps as f64 * (sum - log_ratio)
        };
        let limit = 2.0 * bias(100) - bias(50);
        prop_assert!((limit / cost + 1.0).abs() < 1e-3, "{limit} {cost}");
    }

    /// `sum_k [KL(k || k+1) + KL(k+1 || k)] = 2 F / K`, at every K and on both paths.
    #[test]
    fn two_way_divergences_add_up_to_the_cost(
        ends in prop::array::uniform2(gaussian(2)), steps in 1..20usize
    ) {
        let [a, b] = ends.clone();
        let expected = 2.0 * linear_cost(&a, &b) / steps as f64;
        let betas = linear(steps);
        let geometric = GaussianPath::new(a.clone(), b.clone()).unwrap();
        let moment = MomentPath::new(a, b).unwrap();
        for found in [
            two_way_divergences(&geometric, geometric_average, &ends, betas.betas()),
            two_way_divergences(&moment, moment_average, &ends, betas.betas()),
        ] {
            prop_assert!((found / expected - 1.0).abs() < 1e-7, "{found} {expected}");
        }
    }

    /// `F = 1/2 int (d eta/d beta) . (d s/d beta) d beta` is that of the straight line on both paths, and at least
    /// half of the squared length on any (Theorem 2).
    #[test]
    fn both_paths_have_one_cost(ends in prop::array::uniform2(gaussian(2)), betas in schedule(1..=20)) {
        let [a, b] = &ends;
        let expected = linear_cost(a, b);
        for average in [geometric_average as Average, moment_average] {
            let members: Vec<_> = betas.betas().iter().map(|&beta| average(a, b, beta)).collect();
            let found = path_cost(&betas, &members);
            prop_assert!((found / expected - 1.0).abs() < 1e-7, "{found} {expected}");
            let length = path_length(&members);
            prop_assert!(0.5 * length * length <= found * (1.0 + 1e-9));
        }
    }

    /// `p_GA = argmin (1 - beta) KL(p || p_a) + beta KL(p || p_b)` (Eq. 15) and
    /// `p_MA = argmin (1 - beta) KL(p_a || p) + beta KL(p_b || p)` (Eq. 16).
    #[test]
    fn each_average_minimises_its_mixed_divergence(
        [a, b] in prop::array::uniform2(gaussian(2)),
        beta in 0.05..0.95f64,
        directions in prop::array::uniform5(-1.0..1.0f64),
    ) {
        let eq_15 = |p: &Gaussian| (1.0 - beta) * divergence(p, &a) + beta * divergence(p, &b);
        let eq_16 = |p: &Gaussian| (1.0 - beta) * divergence(&a, p) + beta * divergence(&b, p);
        let geometric = geometric_average(&a, &b, beta);
        let path = MomentPath::new(a.clone(), b.clone()).unwrap();
        let moment = a.with_moments(&(a.moments() * (1.0 - beta) + b.moments() * beta)).unwrap();
        for x in [a.mean(), b.mean()] {
            let error = path.at(beta).log_density(x) - moment.log_density(x);
            prop_assert!(error.abs() < 1e-9 * (1.0 + moment.log_density(x).abs()));
        }
        let direction = DVector::from_row_slice(&directions).normalize();
        for step in [-0.01, 0.01] {
            let moved = |p: &Gaussian| {
                p.with_natural_parameters(&(p.natural_parameters() + &direction * step)).unwrap()
            };
            prop_assert!(eq_15(&moved(&geometric)) > eq_15(&geometric));
            prop_assert!(eq_16(&moved(&moment)) > eq_16(&moment));
        }
    }

    /// `s(beta) = (1 - beta) s_a + beta s_b`, at the ends those of base and target, on the moment path and at the
    /// knots of a spline.
    #[test]
    fn moment_paths_meet_their_ends_and_average_between_them(
        [a, b] in prop::array::uniform2(gaussian(2)), knots in schedule(2..=5)
    ) {
        let path = MomentPath::new(a.clone(), b.clone()).unwrap();
        let spline = MomentSplinePath::new(a.clone(), b.clone(), knots.clone(), GaussianPath::new);
        let spline = spline.unwrap();
        let same = |found: f64, exact: f64| (found - exact).abs() < 1e-8 * (1.0 + exact.abs());
        for &beta in knots.betas() {
            let exact = moment_average(&a, &b, beta);
            let moments = a.moments() * (1.0 - beta) + b.moments() * beta;
            prop_assert!((exact.moments() - moments).amax() < 1e-12);
            let (at, knot) = (path.at(beta), spline.at(beta));
            prop_assert!(same(at.log_normalizer(), exact.log_normalizer()));
            for x in [a.mean(), b.mean(), &(a.mean() - b.mean() * 2.0)] {
                prop_assert!(same(at.log_density(x), exact.log_density(x)));
                prop_assert!(same(knot.log_density(x), exact.log_density(x)));
            }
        }
        for (beta, end) in [(0.0, &a), (1.0, &b)] {
            prop_assert!(same(path.at(beta).log_density(a.mean()), end.log_density(a.mean())));
        }
    }

    /// `sum_k [KL(k || k+1) + KL(k+1 || k)] = 2 sum_j F_j / K_j`, with `K_j` equal steps on segment j: what a binned
    /// schedule makes least (Theorem 3).
    #[test]
    fn a_binned_schedule_costs_the_sum_over_its_segments(
        ends in prop::array::uniform2(gaussian(2)), knots in schedule(2..=5), more in 0..30usize
    ) {
        let [a, b] = &ends;
        let members: Vec<_> = knots.betas().iter().map(|&t| moment_average(a, b, t)).collect();
        let costs: Vec<f64> = members.windows(2).map(|p| linear_cost(&p[0], &p[1])).collect();
        let steps = knots.stages() + more;
        let schedule = BinnedSchedule::new(knots.clone()).with_costs(&costs, steps).unwrap();
        let floor = 1e-3 * costs.iter().sum::<f64>() / costs.len() as f64;
        prop_assume!(costs.iter().all(|&cost| cost > floor));
        let allocation = allocate_stages(&costs, steps).unwrap();
        let expected = 2.0 * total(&costs, &allocation);
        let path = MomentPath::new(a.clone(), b.clone()).unwrap();
        let found = two_way_divergences(&path, moment_average, &ends, schedule.betas());
        prop_assert!((found / expected - 1.0).abs() < 1e-7, "{found} {expected}");
    }
}

/// `sum_j F_j / K_j`.
fn total(costs: &[f64], allocation: &[usize]) -> f64 {
    costs
        .iter()
        .zip(allocation)
        .map(|(cost, &k)| cost / k as f64)
        .sum()
}

/// The least `sum_j F_j / K_j` over all `K_j >= 1` that add up to `steps`.
fn least_total(costs: &[f64], steps: usize) -> f64 {
    let Some((last, others)) = costs.split_last() else {
        return if steps == 0 { 0.0 } else { f64::INFINITY };
    };
    let with = |k: usize| last / k as f64 + least_total(others, steps - k);
    (1..=steps).map(with).fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(cases(64))]

    /// `min sum_j F_j / K_j` over whole `K_j >= 1` (Theorem 3), by brute force; never below `(sum sqrt F_j)^2 / K`.
    #[test]
    fn allocations_are_the_best_of_all(
        costs in prop::collection::vec(prop_oneof![Just(1.0), 1e-6..1e3f64], 1..5), more in 0..12usize
    ) {
        let steps = costs.len() + more;
        let allocation = allocate_stages(&costs, steps).unwrap();
        prop_assert_eq!(allocation.iter().sum::<usize>(), steps);
        let found = total(&costs, &allocation);
        prop_assert!(found <= least_total(&costs, steps) * (1.0 + 1e-12));
        let root: f64 = costs.iter().map(|cost| cost.sqrt()).sum();
        prop_assert!(found >= root * root / steps as f64 * (1.0 - 1e-12));
    }

    /// `min sum_j F_j / K_j` (Theorem 3), of many segments: no exchange of a step helps.
    #[test]
    fn allocations_add_up_and_no_exchange_of_a_step_helps(
        costs in prop::collection::vec(1e-3..1e3f64, 1..12), more in 0..300usize
    ) {
        let allocation = allocate_stages(&costs, costs.len() + more).unwrap();
        prop_assert_eq!(allocation.iter().sum::<usize>(), costs.len() + more);
        for from in 0..costs.len() {
            for to in 0..costs.len() {
                if from != to && allocation[from] > 1 {
                    let mut other = allocation.clone();
                    other[from] -= 1;
                    other[to] += 1;
                    prop_assert!(total(&costs, &other) >= total(&costs, &allocation) * (1.0 - 1e-12));
                }
            }
        }
    }
}
