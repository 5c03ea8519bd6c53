//! Schedules as functions of what is known of a path: quadrature, deceleration, allocation.

use annealed::Error;
use annealed::pilot::{
    BinnedSchedule, ScheduleMetric, Survey, SurveyPoint, VarOpt, allocate_stages,
};
use annealed::schedule::Schedule;
use nalgebra::{DVector, Matrix2, Vector2, matrix, vector};
use proptest::prelude::*;

fn message<T: std::fmt::Debug>(result: annealed::Result<T>) -> String {
    result.unwrap_err().to_string()
}

/// g between N(0, 1) and N(0, 1 / ratio).
fn g(ratio: f64, beta: f64) -> f64 {
    0.5 * ((ratio - 1.0) / (1.0 + beta * (ratio - 1.0))).powi(2)
}

/// The best schedule between them.
fn best(ratio: f64, t: f64) -> f64 {
    (ratio.powf(t) - 1.0) / (ratio - 1.0)
}

fn grid(intervals: usize) -> Vec<f64> {
    (0..=intervals)
        .map(|k| k as f64 / intervals as f64)
        .collect()
}

fn metric(ratio: f64, intervals: usize) -> ScheduleMetric {
    let betas = grid(intervals);
    let values = betas.iter().map(|&beta| g(ratio, beta)).collect();
    ScheduleMetric::new(betas, values).unwrap()
}

fn largest_difference(schedule: &Schedule, curve: impl Fn(f64) -> f64) -> f64 {
    let steps = schedule.stages() as f64;
    let betas = schedule.betas().iter().enumerate();
    betas
        .map(|(k, beta)| (beta - curve(k as f64 / steps)).abs())
        .fold(0.0, f64::max)
}

fn best_schedule(ratio: f64, steps: usize) -> Schedule {
    Schedule::new(grid(steps).into_iter().map(|t| best(ratio, t))).unwrap()
}

#[test]
fn the_quadrature_meets_the_closed_form() {
    let schedule = metric(100.0, 1_000).schedule(1_000).unwrap();
    assert!(largest_difference(&schedule, |t| best(100.0, t)) < 1e-4);
    assert!((metric(100.0, 1_000).schedule(2).unwrap().betas()[1] - 1.0 / 11.0).abs() < 1e-4);
}

#[test]
fn actions_are_those_of_the_closed_form() {
    let fine = metric(100.0, 100_000);
    assert!((fine.length().powi(2) - 10.6038).abs() < 1e-4);
    let linear = Schedule::linear(1_000).unwrap();
    assert!((fine.action(&linear) - 49.005).abs() < 1e-4);
    assert!((fine.action(&best_schedule(100.0, 1_000)) - 10.6038).abs() < 1e-3);
}

#[test]
fn the_action_is_the_variance_under_perfect_transitions() {
    // Var[log w] = sum dbeta^2 g, at the left end of each step.
    let exact = |schedule: &Schedule| {
        let term = |b: &[f64]| (b[1] - b[0]).powi(2) * g(100.0, b[0]);
        1_000.0 * schedule.betas().windows(2).map(term).sum::<f64>()
    };
    assert!((exact(&Schedule::linear(1_000).unwrap()) - 51.5357).abs() < 1e-4);
    assert!((exact(&best_schedule(100.0, 1_000)) - 10.6528).abs() < 1e-4);
}

fn survey(ratio: f64) -> Survey {
    let point = |(stage, beta): (usize, f64)| SurveyPoint {
        stage,
        beta,
        squared_steps: 1e-6,
        derivative_variance: g(ratio, beta),
        unweighted_variance: g(ratio, beta),
        var_log_weight: 0.0,
        effective_sample_size: 90.0,
        dead: 0,
        acceptance: None,
    };
    let points = grid(1_000).into_iter().enumerate().map(point).collect();
    Survey::new(100, points).unwrap()
}

#[test]
fn smoothing_is_a_mean_over_a_window_cut_off_at_the_ends() {
    let rough = ScheduleMetric::new(grid(4), vec![0.0, 3.0, 0.0, 6.0, 9.0]).unwrap();
    assert_eq!(rough.smoothed(3).values(), [1.5, 1.0, 3.0, 5.0, 7.5]);
    assert_eq!(rough.smoothed(1).values(), rough.values());
    assert_eq!(rough.smoothed(usize::MAX).values(), [3.6; 5]);
}

#[test]
fn a_cost_of_zero_is_floored_or_refused() {
    let flat = ScheduleMetric::new(grid(2), vec![0.0, 0.0, 4.0]).unwrap();
    assert!(message(flat.schedule(10)).contains("would leap"));
    // The mean over beta is 1.
    assert_eq!(flat.floored(0.25).unwrap().values(), [0.25, 0.25, 4.0]);
    let nothing = ScheduleMetric::new(grid(2), vec![0.0; 3]).unwrap();
    assert!(message(nothing.floored(0.1)).contains("0 everywhere"));
    assert!(message(flat.floored(0.0)).contains("floor"));
    for bad in [-1e-3, f64::NAN, f64::INFINITY] {
        assert!(
            message(ScheduleMetric::new(grid(2), vec![1.0, bad, 1.0])).contains("at beta = 0.5")
        );
    }
    assert!(ScheduleMetric::new(grid(2), vec![1.0; 2]).is_err());
    assert!(ScheduleMetric::new(vec![0.0, 0.5], vec![1.0; 2]).is_err());
    assert!(message(metric(4.0, 10).schedule(0)).contains("stages"));
}

#[test]
fn settings_of_varopt_are_checked() {
    let varopt = VarOpt::default;
    assert!(message(varopt().window(1.5).schedule(&survey(4.0), 10)).contains("window"));
    assert!(message(varopt().floor(-1.0).schedule(&survey(4.0), 10)).contains("floor"));
    assert!(message(varopt().schedule(&survey(4.0), 0)).contains("stages"));
}

fn from_steps(steps: &[f64]) -> Schedule {
    let sums = steps.iter().scan(0.0, |sum, step| {
        *sum += step;
        Some(*sum)
    });
    let mut betas: Vec<f64> = std::iter::once(0.0).chain(sums).collect();
    *betas.last_mut().unwrap() = 1.0;
    Schedule::new(betas).unwrap()
}

fn steps_of(schedule: &Schedule) -> Vec<f64> {
    schedule.betas().windows(2).map(|b| b[1] - b[0]).collect()
}

#[test]
fn deceleration_fills_up_like_water() {
    for (steps, limit, expected) in [
        (
            &[0.5, 0.2, 0.15, 0.1, 0.05][..],
            0.3,
            &[0.3, 0.28, 0.21, 0.14, 0.07][..],
        ),
        (
            &[0.6, 0.2, 0.1, 0.06, 0.04],
            0.25,
            &[0.25, 0.25, 0.25, 0.15, 0.1],
        ),
        (&[0.9, 0.06, 0.03, 0.01], 0.26, &[0.26, 0.26, 0.26, 0.22]),
        (&[0.7, 0.1, 0.1, 0.05, 0.05], 0.2, &[0.2; 5]),
    ] {
        let limited = from_steps(steps).with_step_limit(limit).unwrap();
        for (step, expected) in steps_of(&limited).iter().zip(expected) {
            assert!(
                (step - expected).abs() < 1e-14,
                "{steps:?}: {step} {expected}"
            );
        }
    }
    let infeasible = from_steps(&[0.5, 0.3, 0.2]).with_step_limit(0.3);
    assert!(message(infeasible).contains("step limit"));
}

#[test]
fn deceleration_of_the_best_gaussian_schedule_has_its_known_level() {
    for (limit, level, clipped, middle) in [
        (0.003, 1.120543, 120, 0.101868),
        (0.0015, 2.786422, 468, 0.253311),
    ] {
        let schedule = best_schedule(100.0, 1_000);
        let limited = schedule.with_speed_limit(1_000.0 * limit).unwrap();
        let (before, after) = (steps_of(&schedule), steps_of(&limited));
        assert!((after[0] / before[0] - level).abs() < 1e-6);
        let at_limit = after.iter().filter(|&&step| step > limit - 1e-12).count();
        assert_eq!(at_limit, clipped);
        assert!((limited.betas()[500] - middle).abs() < 1e-6);
    }
}

#[test]
fn limits_out_of_range_are_refused() {
    let linear = Schedule::linear(10).unwrap();
    for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        assert!(message(linear.with_step_limit(bad)).contains("step limit"));
        assert!(message(linear.with_speed_limit(bad)).contains("speed limit"));
    }
    assert!(message(linear.with_speed_limit(0.99)).contains("at least 1"));
    assert_eq!(linear.with_speed_limit(1.0).unwrap(), linear);
}

/// Schedules of 1 to 60 steps whose lengths range over six orders of magnitude.
fn any_schedule() -> impl Strategy<Value = Schedule> {
    prop::collection::vec(-6.0..0.0f64, 1..60).prop_map(|logs| {
        let steps: Vec<f64> = logs.iter().map(|x| 10f64.powf(*x)).collect();
        let total: f64 = steps.iter().sum();
        from_steps(&steps.iter().map(|step| step / total).collect::<Vec<_>>())
    })
}

proptest! {
    #[test]
    fn deceleration_keeps_the_limit_and_is_idempotent(
        schedule in any_schedule(),
        share in 0.0..1.0f64,
    ) {
        let (fewest, longest) = (
            1.0 / schedule.stages() as f64,
            steps_of(&schedule).into_iter().fold(0.0, f64::max),
        );
        let limit = fewest + share * (longest - fewest);
        let limited = schedule.with_step_limit(limit).unwrap();
        prop_assert!(steps_of(&limited).iter().all(|&step| step <= limit + 1e-13));
        prop_assert_eq!(limited.stages(), schedule.stages());
        prop_assert_eq!(&limited.with_step_limit(limit).unwrap(), &limited);
        prop_assert_eq!(&schedule.with_step_limit(longest).unwrap(), &schedule);
        // Steps below the limit have all grown by one factor.
        let pairs = steps_of(&schedule).into_iter().zip(steps_of(&limited));
        let growth: Vec<f64> = pairs
            .filter(|(old, new)| *new < limit - 1e-12 && *old > 1e-4)
            .map(|(old, new)| new / old)
            .collect();
        for factor in &growth {
            prop_assert!((factor / growth[0] - 1.0).abs() < 1e-9 && *factor > 1.0 - 1e-9);
        }
    }

    #[test]
    fn allocations_are_those_of_one_step_after_the_other(
        costs in prop::collection::vec(prop_oneof![Just(1.0), 1e-6..1e3f64], 1..12),
        more in 0..10_000usize,
    ) {
        let mut allocation = vec![1; costs.len()];
        let saving = |j: usize, k: usize| costs[j] / (k * (k + 1)) as f64;
        for _ in 0..more {
            let mut best = 0;
            for j in 1..costs.len() {
                if saving(j, allocation[j]) > saving(best, allocation[best]) {
                    best = j;
                }
            }
            allocation[best] += 1;
        }
        prop_assert_eq!(allocate_stages(&costs, costs.len() + more).unwrap(), allocation);
    }
}

/// A Gaussian in two dimensions by mean and covariance.
#[derive(Clone, Copy)]
struct Gaussian2 {
    mean: Vector2<f64>,
    covariance: Matrix2<f64>,
}

impl Gaussian2 {
    fn natural(&self) -> DVector<f64> {
        let precision = self.covariance.try_inverse().unwrap();
        let pull = precision * self.mean;
        pull.iter()
            .copied()
            .chain(precision.iter().map(|p| -0.5 * p))
            .collect::<Vec<_>>()
            .into()
    }

    fn from_natural(eta: &DVector<f64>) -> Self {
        let precision = Matrix2::from_iterator(eta.iter().skip(2).map(|p| -2.0 * p));
        let covariance = precision.try_inverse().unwrap();
        Self {
            mean: covariance * vector![eta[0], eta[1]],
            covariance,
        }
    }

    fn moments(&self) -> DVector<f64> {
        let second = self.covariance + self.mean * self.mean.transpose();
        self.mean
            .iter()
            .chain(second.iter())
            .copied()
            .collect::<Vec<_>>()
            .into()
    }

    fn from_moments(s: &DVector<f64>) -> Self {
        let mean = vector![s[0], s[1]];
        Self {
            mean,
            covariance: Matrix2::from_iterator(s.iter().skip(2).copied()) - mean * mean.transpose(),
        }
    }

    /// Variance of `eta . g(x)` under this Gaussian.
    fn variance(&self, eta: &DVector<f64>) -> f64 {
        let form = Matrix2::from_iterator(eta.iter().skip(2).copied());
        let slope = 2.0 * form * self.mean + vector![eta[0], eta[1]];
        let product = form * self.covariance;
        2.0 * (product * product).trace() + slope.dot(&(self.covariance * slope))
    }
}

/// Section 5.1 of Grosse et al. (2013).
fn ends() -> [Gaussian2; 2] {
    [(-10.0, -0.85), (10.0, 0.85)].map(|(mean, covariance)| Gaussian2 {
        mean: vector![mean, 0.0],
        covariance: matrix![1.0, covariance; covariance, 1.0],
    })
}

/// Natural parameters and moments at equally spaced knots of the geometric path.
fn geometric(segments: usize) -> (Vec<DVector<f64>>, Vec<DVector<f64>>) {
    let [a, b] = ends().map(|end| end.natural());
    let etas: Vec<_> = grid(segments)
        .iter()
        .map(|t| &a * (1.0 - t) + &b * *t)
        .collect();
    let moments = etas
        .iter()
        .map(|eta| Gaussian2::from_natural(eta).moments())
        .collect();
    (etas, moments)
}

/// The same on the path that averages moments.
fn moment_averages(segments: usize) -> (Vec<DVector<f64>>, Vec<DVector<f64>>) {
    let [a, b] = ends().map(|end| end.moments());
    let moments: Vec<_> = grid(segments)
        .iter()
        .map(|t| &a * (1.0 - t) + &b * *t)
        .collect();
    let etas = moments
        .iter()
        .map(|s| Gaussian2::from_moments(s).natural())
        .collect();
    (etas, moments)
}

/// `F_j = 1/2 (eta_{j+1} - eta_j) . (s_{j+1} - s_j)` of each segment.
fn segment_costs(etas: &[DVector<f64>], moments: &[DVector<f64>]) -> Vec<f64> {
    let pairs = etas.windows(2).zip(moments.windows(2));
    pairs
        .map(|(eta, s)| 0.5 * (&eta[1] - &eta[0]).dot(&(&s[1] - &s[0])))
        .collect()
}

#[test]
fn the_published_gaussians_have_one_cost_on_both_paths() {
    for (etas, moments) in [geometric(1), moment_averages(1)] {
        let cost = segment_costs(&etas, &moments)[0];
        assert!((cost - 725.9279279).abs() < 1e-6, "{cost}");
    }
}

#[test]
fn variances_of_the_published_gaussians_are_the_exact_ones() {
    let variance = |(etas, _): (Vec<DVector<f64>>, Vec<DVector<f64>>)| -> f64 {
        let steps = etas.windows(2);
        steps
            .map(|eta| Gaussian2::from_natural(&eta[0]).variance(&(&eta[1] - &eta[0])))
            .sum()
    };
    for (steps, geometric_variance, moment_variance) in [
        (25, 63.708, 1687.53),
        (26, 60.869, 1560.52),
        (27, 58.279, 1447.34),
        (1000, 1.4519, 1.8548),
    ] {
        let exact = variance(geometric(steps));
        assert!(
            (exact / geometric_variance - 1.0).abs() < 5e-5,
            "{steps}: {exact}"
        );
        let exact = variance(moment_averages(steps));
        assert!(
            (exact / moment_variance - 1.0).abs() < 5e-5,
            "{steps}: {exact}"
        );
    }
}

fn total(costs: &[f64], allocation: &[usize]) -> f64 {
    costs
        .iter()
        .zip(allocation)
        .map(|(cost, &k)| cost / k as f64)
        .sum()
}

#[test]
fn allocations_are_the_published_ones() {
    for ((etas, moments), half, sum, length) in [
        (geometric(10), [255, 103, 61, 44, 37], 0.4398526, 439.85),
        (
            moment_averages(10),
            [436, 26, 16, 12, 10],
            0.1896078,
            189.59,
        ),
    ] {
        let costs = segment_costs(&etas, &moments);
        let allocation = allocate_stages(&costs, 1_000).unwrap();
        assert_eq!(allocation[..5], half);
        assert!(allocation.iter().eq(allocation.iter().rev()));
        assert!((total(&costs, &allocation) - sum).abs() < 1e-7);
        let root: f64 = costs.iter().map(|cost| cost.sqrt()).sum();
        assert!((root * root - length).abs() < 5e-3);
        // Segment boundaries are points of the schedule, with these steps between them.
        let knots = Schedule::linear(10).unwrap();
        let schedule = BinnedSchedule::new(knots.clone())
            .with_costs(&costs, 1_000)
            .unwrap();
        let mut index = 0;
        for (steps, knot) in allocation.iter().zip(&knots.betas()[1..]) {
            index += steps;
            assert_eq!(schedule.betas()[index], *knot);
        }
    }
}

#[test]
fn greedy_beats_the_largest_remainder() {
    let (etas, moments) = geometric(10);
    let costs = segment_costs(&etas, &moments);
    let greedy = total(&costs, &allocate_stages(&costs, 15).unwrap());
    // One step each, the other five shared out by quota and largest remainder.
    let roots: Vec<f64> = costs.iter().map(|cost| cost.sqrt()).collect();
    let quota = |j: usize| 5.0 * roots[j] / roots.iter().sum::<f64>();
    let mut allocation: Vec<usize> = (0..10).map(|j| 1 + quota(j) as usize).collect();
    let mut order: Vec<usize> = (0..10).collect();
    order.sort_by(|&i, &j| quota(j).fract().total_cmp(&quota(i).fract()));
    let left = 15 - allocation.iter().sum::<usize>();
    for &j in &order[..left] {
        allocation[j] += 1;
    }
    let remainder = total(&costs, &allocation);
    assert!((greedy - 32.2).abs() < 0.05, "{greedy}");
    assert!((remainder - 38.6).abs() < 0.05, "{remainder}");
}

#[test]
fn two_way_divergences_add_up_to_twice_the_cost_over_the_steps() {
    // From N(0, 1) to N(3, 1/4) in three steps; KL is not symmetric, the sum of both ways is.
    let kl = |(m, v): (f64, f64), (n, u): (f64, f64)| {
        0.5 * ((v + (m - n).powi(2)) / u - 1.0 + (u / v).ln())
    };
    let geometric: Vec<(f64, f64)> = grid(3)
        .iter()
        .map(|t| (12.0 * t / (1.0 + 3.0 * t), 1.0 / (1.0 + 3.0 * t)))
        .collect();
    let moment: Vec<(f64, f64)> = grid(3)
        .iter()
        .map(|t| (3.0 * t, 1.0 + 8.25 * t - 9.0 * t * t))
        .collect();
    for (path, forward_sum) in [(geometric, 5.112408), (moment, 5.920489)] {
        let forward: f64 = path.windows(2).map(|p| kl(p[0], p[1])).sum();
        let backward: f64 = path.windows(2).map(|p| kl(p[1], p[0])).sum();
        assert!((forward - forward_sum).abs() < 1e-6);
        assert!((forward + backward - 2.0 * 11.8125 / 3.0).abs() < 1e-12);
    }
}

#[test]
fn noisy_costs_are_floored_and_impossible_ones_named() {
    let binned = BinnedSchedule::new(Schedule::linear(3).unwrap());
    // A negative cost is noise: floored, so that its segment still gets steps.
    let schedule = binned.with_costs(&[1.0, -0.1, 1.0], 1_000).unwrap();
    let inside = schedule
        .betas()
        .iter()
        .filter(|b| (1.0 / 3.0..2.0 / 3.0).contains(*b))
        .count();
    assert!(inside > 1, "{inside}");
    assert!(message(binned.with_costs(&[1.0; 3], 2)).contains("at least one for each of 3"));
    assert!(message(binned.with_costs(&[1.0; 2], 10)).contains("costs"));
    assert!(message(binned.with_costs(&[-1.0; 3], 10)).contains("mean of the costs"));
    assert!(message(binned.with_costs(&[1.0, f64::NAN, 1.0], 10)).contains("NaN at index 1"));
    assert!(message(allocate_stages(&[1.0, 0.0], 10)).contains("cost of a segment"));
    assert!(allocate_stages(&[], 0).is_err());
    for steps in [1 << 40, usize::MAX] {
        let allocation = allocate_stages(&[9.0, 4.0, 1e-300, 1.0], steps).unwrap();
        assert_eq!(allocation.iter().sum::<usize>(), steps);
        let shares = allocation
            .iter()
            .map(|&k| (6.0 * k as f64 / steps as f64).round());
        assert!(shares.eq([3.0, 2.0, 0.0, 1.0]));
        assert!(message(binned.with_costs(&[1.0; 3], steps)).contains("at most 1073741824"));
    }
    assert!(message(Schedule::piecewise_linear(&[(1 << 30, 0.5), (1, 1.0)])).contains("at most"));
}

#[test]
fn a_binned_schedule_from_a_survey_approaches_the_best_one() {
    let binned = BinnedSchedule::new(Schedule::linear(50).unwrap());
    let schedule = binned.schedule(&survey(4.0), 5_000).unwrap();
    assert!(largest_difference(&schedule, |t| best(4.0, t)) < 2e-3);
}

#[test]
fn files_keep_every_bit_and_say_what_is_wrong_with_them() {
    let file = std::env::temp_dir().join(format!("annealed-schedule-{}", std::process::id()));
    let schedule = best_schedule(100.0, 321);
    schedule.save(&file).unwrap();
    assert_eq!(Schedule::load(&file).unwrap(), schedule);
    let refused = |text: &str| {
        std::fs::write(&file, text).unwrap();
        message(Schedule::load(&file))
    };
    assert!(refused("# by hand\n0\n\nhalf\n1\n").contains("line 4 is \"half\""));
    assert!(refused("0\n0.7\n0.3\n1\n").contains("strictly increasing"));
    assert!(refused("0\nNaN\n1\n").contains("strictly increasing"));
    assert!(refused("").contains("0 values"));
    std::fs::write(&file, "# by hand\n0\n\n0.25\n1\n").unwrap();
    assert_eq!(Schedule::load(&file).unwrap().betas(), [0.0, 0.25, 1.0]);
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(Schedule::load(&file), Err(Error::File { .. })));
    assert!(matches!(
        schedule.save(std::env::temp_dir()),
        Err(Error::File { .. })
    ));
}
