//! Averaged moments of restricted Boltzmann machines (Equations 11 to 14), and what the segments of their paths cost
//! (Equations 17 and 20), by enumeration of both layers.

use annealed::model::{Gaussian, UnnormalizedModel};
use annealed::path::{BetaDerivative, GaussianPath};
use annealed::pilot::{BinnedSchedule, KnotChains, allocate_stages};
use annealed::population::Population;
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, ExactMatching, Rbm, RbmMoments, RbmPath};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::RngExt;

use super::{linear_cost, mean_log_ratio};
use crate::random_models::{
    cases, gaussian, geometric_average, mean_and_error, rbm, schedule, states, streams,
};

const HIDDEN: usize = 2;
const VISIBLE: usize = 3;

fn numbers(bits: &[bool]) -> DVector<f64> {
    DVector::from_iterator(bits.len(), bits.iter().map(|&on| f64::from(u8::from(on))))
}

/// The log probabilities of all states of both layers (Eq. 11).
fn joint(rbm: &Rbm<f64>) -> Vec<(Vec<bool>, Vec<bool>, f64)> {
    let pairs = states(VISIBLE).flat_map(|v| states(HIDDEN).map(move |h| (v.clone(), h)));
    let pairs = pairs.map(|(v, h)| {
        let (x, y) = (numbers(&v), numbers(&h));
        let natural = y.dot(&(rbm.weights() * &x)) + rbm.hidden_bias().dot(&y);
        let natural = natural + rbm.visible_bias().dot(&x);
        (v, h, natural)
    });
    let mut joint: Vec<_> = pairs.collect();
    let log_z = joint.iter().map(|state| state.2.exp()).sum::<f64>().ln();
    joint.iter_mut().for_each(|state| state.2 -= log_z);
    joint
}

/// `E[v]`, `E[h]` and `E[h v^T]`.
fn moments(rbm: &Rbm<f64>) -> RbmMoments {
    let mut moments = RbmMoments {
        visible: DVector::zeros(VISIBLE),
        hidden: DVector::zeros(HIDDEN),
        interaction: DMatrix::zeros(HIDDEN, VISIBLE),
    };
    for (v, h, log_p) in joint(rbm) {
        let (v, h, p) = (numbers(&v), numbers(&h), log_p.exp());
        moments.visible += &v * p;
        moments.hidden += &h * p;
        moments.interaction += h * v.transpose() * p;
    }
    moments
}

/// `1/2 (KL(p || q) + KL(q || p))` over both layers.
fn half_two_way_divergence(p: &Rbm<f64>, q: &Rbm<f64>) -> f64 {
    let pairs = joint(p).into_iter().zip(joint(q));
    pairs
        .map(|(p, q)| 0.5 * (p.2.exp() - q.2.exp()) * (p.2 - q.2))
        .sum()
}

/// The same of the visible units alone.
fn half_two_way_marginal_divergence(p: &Rbm<f64>, q: &Rbm<f64>) -> f64 {
    let marginal = |rbm: &Rbm<f64>| -> Vec<f64> {
        let log_z = rbm.exact_log_normalizer().unwrap();
        states(VISIBLE)
            .map(|v| rbm.log_density(&v) - log_z)
            .collect()
    };
    let pairs = marginal(p).into_iter().zip(marginal(q));
    pairs
        .map(|(p, q)| 0.5 * (p.exp() - q.exp()) * (p - q))
        .sum()
}

fn base_of(rbm: &Rbm<f64>) -> BaseRate<f64> {
    BaseRate::new(HIDDEN, rbm.visible_bias().clone()).unwrap()
}

fn matching() -> ExactMatching {
    ExactMatching::default().iterations(1_000).tolerance(1e-5)
}

/// A base and a target.
fn ends() -> impl Strategy<Value = (BaseRate<f64>, Rbm<f64>)> {
    prop::array::uniform2(rbm(HIDDEN, VISIBLE)).prop_map(|[a, b]| (base_of(&a), b))
}

proptest! {
    #![proptest_config(cases(24))]

    /// `E[v]_beta = (1 - beta) E[v]_0 + beta E[v]_1`, and so `E[h]` and `E[v h^T]` (Eqs. 12 to 14): of averaged moments
    /// and of the machines at the knots of a spline. Those of the straight path are others.
    #[test]
    fn knots_have_the_averages_of_the_moments((base, target) in ends(), knots in schedule(2..=3)) {
        let straight = RbmPath::new(base.clone(), target.clone()).unwrap();
        let first = moments(&straight.at(0.0).to_rbm().unwrap());
        let last = moments(&target);
        prop_assert!(first.largest_difference(&base.moments()) < 1e-12);
        prop_assert!(last.largest_difference(&target.exact_moments().unwrap()) < 1e-12);
        let spline = RbmPath::moment_spline(base, target, &last, knots.clone(), &matching()).unwrap();
        let mut off = 0.0_f64;
        for &beta in knots.betas() {
            let average = first.average(&last, beta).unwrap();
            for (found, [a, b]) in [
                (&average.visible, [&first.visible, &last.visible]),
                (&average.hidden, [&first.hidden, &last.hidden]),
            ] {
                prop_assert!((found - (a * (1.0 - beta) + b * beta)).amax() < 1e-14);
            }
            let interaction = &first.interaction * (1.0 - beta) + &last.interaction * beta;
            prop_assert!((&average.interaction - interaction).amax() < 1e-14);
            let knot = moments(&spline.at(beta).to_rbm().unwrap());
            let error = knot.largest_difference(&average);
            prop_assert!(error < 1e-4, "{beta}: {error}");
            let other = moments(&straight.at(beta).to_rbm().unwrap());
            off = off.max(other.largest_difference(&average));
        }
        // Where they are, the knots tell the paths apart.
        prop_assume!(off > 1e-2);
    }

    /// `F_j = 1/2 (eta_(j+1) - eta_j) . (s_(j+1) - s_j)` of each segment of a geometric path is half the divergence of
    /// its knots both ways, over both layers (Eqs. 17 and 20). That of the visible units alone is less.
    #[test]
    fn joint_costs_are_divergences_of_both_layers((base, target) in ends(), knots in schedule(1..=4)) {
        let path = RbmPath::new(base, target).unwrap();
        let machines: Vec<_> = knots.betas().iter().map(|&beta| path.at(beta).to_rbm().unwrap()).collect();
        let moments: Vec<_> = machines.iter().map(moments).collect();
        let costs = path.joint_costs(&knots, &moments).unwrap();
        for (cost, pair) in costs.iter().zip(machines.windows(2)) {
            let expected = half_two_way_divergence(&pair[0], &pair[1]);
            prop_assert!((cost - expected).abs() < 1e-12 * (1.0 + expected), "{cost} {expected}");
            let marginal = half_two_way_marginal_divergence(&pair[0], &pair[1]);
            prop_assert!(marginal <= expected * (1.0 + 1e-12));
            prop_assert!(marginal < expected * 0.9999 || expected < 1e-4, "{marginal} {expected}");
        }
    }

    /// `F(GA) = F(MAS) = 1/2 (eta_b - eta_a) . (s_b - s_a)` (Theorem 2), between RBMs: the segments' costs over their
    /// widths add up to it on the straight path and on a spline. On a path through any other machines they do not.
    #[test]
    fn straight_paths_and_splines_of_machines_have_one_cost(
        (base, target) in ends(), knots in schedule(2..=3), others in prop::array::uniform2(rbm(HIDDEN, VISIBLE))
    ) {
        let straight = RbmPath::new(base.clone(), target.clone()).unwrap();
        let expected = half_two_way_divergence(&straight.at(0.0).to_rbm().unwrap(), &target);
        prop_assume!(expected > 0.1);
        let sought = target.exact_moments().unwrap();
        let spline = RbmPath::moment_spline(base.clone(), target.clone(), &sought, knots.clone(), &matching()).unwrap();
        let through = [&others[..knots.stages() - 1], &[target]].concat();
        let wrong = RbmPath::through(base, through, knots.clone()).unwrap();
        let near = |cost: f64| (cost / expected - 1.0).abs() < 1e-3;
        let straight = cost(&straight, &knots);
        prop_assert!((straight / expected - 1.0).abs() < 1e-9, "{straight} {expected}");
        let spline = cost(&spline, &knots);
        prop_assert!(near(spline), "{spline} {expected}");
        prop_assert!(!near(cost(&wrong, &knots)));
    }
}

/// Segments of the splines of the reproduction, and stages of its runs by exact draws.
const SEGMENTS: usize = 10;
const STAGES: usize = 20;
const DRAWS: usize = 20_000;

/// `K/2 sum_k (E_(k+1) - E_k)[log f_(k+1) - log f_k]`, which is F at every K, by draws of both layers at the stages of a
/// linear schedule; and its standard error.
fn cost_by_draws(path: &RbmPath<f64>) -> (f64, f64) {
    let betas = Schedule::linear(STAGES).unwrap();
    let laws = betas
        .betas()
        .iter()
        .map(|&beta| joint(&path.at(beta).to_rbm().unwrap()));
    let laws: Vec<_> = laws.collect();
    let mut rng = streams(1).remove(0);
    let (mut difference, mut variance) = (0.0, 0.0);
    for pair in laws.windows(2) {
        let pairs = pair[0].iter().zip(&pair[1]);
        let log_ratios: Vec<f64> = pairs.map(|(here, next)| next.2 - here.2).collect();
        for (law, sign) in pair.iter().zip([-1.0, 1.0]) {
            let cumulative = law.iter().scan(0.0, |sum, state| {
                *sum += state.2.exp();
                Some(*sum)
            });
            let cumulative: Vec<f64> = cumulative.collect();
            let mut draw = || {
                let u = rng.random::<f64>();
                let state = cumulative.partition_point(|&sum| sum <= u);
                log_ratios[state.min(log_ratios.len() - 1)]
            };
            let drawn: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
            let (mean, error) = mean_and_error(drawn.iter().copied());
            difference += sign * mean;
            variance += error * error;
        }
    }
    let half = 0.5 * STAGES as f64;
    (half * difference, half * variance.sqrt())
}

proptest! {
    #![proptest_config(cases(12))]

    /// `F(GA) = F(MAS)` (Theorem 2) on the paths of the reproduction: ten segments whose knots are matched by default, within
    /// a hundredth. Exact draws lose the same along both, within the noise. They lose more where knots are not matched.
    #[test]
    fn exact_draws_cost_the_same_on_the_paths_of_the_reproduction(target in rbm(HIDDEN, VISIBLE)) {
        let base = BaseRate::<f64>::uniform(HIDDEN, VISIBLE).unwrap();
        let sought = target.exact_moments().unwrap();
        let straight = RbmPath::new(base.clone(), target.clone()).unwrap();
        let expected = half_two_way_divergence(&straight.at(0.0).to_rbm().unwrap(), &target);
        prop_assume!(expected > 0.5);
        let knots = Schedule::linear(SEGMENTS).unwrap();
        let spline = |matching: ExactMatching| {
            let (base, target) = (base.clone(), target.clone());
            RbmPath::moment_spline(base, target, &sought, knots.clone(), &matching).unwrap()
        };
        let matched = spline(ExactMatching::default());
        for &beta in knots.betas() {
            let average = base.moments().average(&sought, beta).unwrap();
            let knot = moments(&matched.at(beta).to_rbm().unwrap());
            prop_assert!(knot.largest_difference(&average) < 0.01, "{beta}");
        }
        let unmatched = spline(ExactMatching::default().tolerance(f64::INFINITY).stop_at(0.1));
        let [straight, matched, unmatched] = [straight, matched, unmatched].map(|path| cost_by_draws(&path));
        for (cost, error) in [straight, matched] {
            prop_assert!(error < 0.05 * expected, "{error}");
            prop_assert!((cost - expected).abs() < 4.0 * error, "{cost} {expected} {error}");
        }
        prop_assert!((unmatched.0 - expected) > 6.0 * unmatched.1, "{unmatched:?} {expected}");
    }
}

/// `sum_j F_j / (beta_(j+1) - beta_j)`.
fn cost(path: &RbmPath<f64>, knots: &Schedule) -> f64 {
    let segment = |ends: &[f64]| {
        let [from, to] = [ends[0], ends[1]].map(|beta| path.at(beta).to_rbm().unwrap());
        half_two_way_divergence(&from, &to) / (ends[1] - ends[0])
    };
    knots.betas().windows(2).map(segment).sum()
}

/// The largest distance of the shares `K_j / K` from `sqrt(F_j) / sum sqrt(F)`, times K.
fn steps_off(costs: &[f64], stages: usize, power: f64) -> f64 {
    let allocation = allocate_stages(costs, stages).unwrap();
    let total: f64 = costs.iter().map(|cost| cost.powf(power)).sum();
    let pairs = allocation.iter().zip(costs);
    let off = pairs.map(|(&k, cost)| (k as f64 - stages as f64 * cost.powf(power) / total).abs());
    off.fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(cases(24))]

    /// `K_j` proportional to `sqrt((eta_(j+1) - eta_j) . (s_(j+1) - s_j))` (Eq. 20), on geometric paths between Gaussians of
    /// three dimensions and between RBMs, whose costs are those of the path's own log ratios. Stages proportional to the
    /// cost itself are far off.
    #[test]
    fn stages_are_proportional_to_the_roots_of_the_costs(
        gaussians in prop::array::uniform2(gaussian(3)), (base, target) in ends(), knots in schedule(2..=5)
    ) {
        const STAGES: usize = 10_000;
        let [a, b] = &gaussians;
        let path = GaussianPath::new(a.clone(), b.clone()).unwrap();
        let betas = knots.betas().windows(2);
        let segment = |ends: &[f64]| {
            let laws: [Gaussian; 2] = [ends[0], ends[1]].map(|beta| geometric_average(a, b, beta));
            let [at_start, at_end] = laws.each_ref().map(|law| mean_log_ratio(&path, law, ends[0], ends[1]));
            (0.5 * (at_end - at_start), linear_cost(&laws[0], &laws[1]))
        };
        let (found, of_family): (Vec<f64>, Vec<f64>) = betas.map(segment).unzip();
        for (found, expected) in found.iter().zip(&of_family) {
            prop_assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
        }
        let path = RbmPath::new(base, target).unwrap();
        let machines = knots.betas().iter().map(|&beta| path.at(beta).to_rbm().unwrap());
        let moments: Vec<_> = machines.map(|machine| moments(&machine)).collect();
        let joint = path.joint_costs(&knots, &moments).unwrap();
        for costs in [of_family, joint] {
            let mean = costs.iter().sum::<f64>() / costs.len() as f64;
            // Below a thousandth of the mean costs are taken for noise.
            prop_assume!(costs.iter().all(|&cost| cost > 2e-3 * mean));
            let off = steps_off(&costs, STAGES, 0.5);
            prop_assert!(off < 1.0 + costs.len() as f64, "{off}");
            let uneven = costs.iter().any(|&cost| (cost / mean - 1.0).abs() > 0.1);
            prop_assert!(!uneven || steps_off(&costs, STAGES, 1.0) > 50.0);
            let schedule = BinnedSchedule::new(knots.clone()).with_costs(&costs, STAGES).unwrap();
            let ends: Vec<usize> = allocate_stages(&costs, STAGES).unwrap();
            let mut reached = 0;
            for (steps, &knot) in ends.iter().zip(&knots.betas()[1..]) {
                reached += steps;
                prop_assert_eq!(schedule.betas()[reached], knot);
            }
        }
    }
}

/// The variance of `d/dbeta log f` over the visible units at beta.
fn variance_of_derivative(path: &RbmPath<f64>, beta: f64) -> f64 {
    let model = path.at(beta);
    let densities =
        || states(VISIBLE).map(|v| (model.log_density(&v).exp(), model.beta_derivative(&v)));
    let total: f64 = densities().map(|(p, _)| p).sum();
    let mean = densities().map(|(p, d)| p * d).sum::<f64>() / total;
    densities()
        .map(|(p, d)| p * (d - mean).powi(2))
        .sum::<f64>()
        / total
}

/// The costs of Equation 20, `1/2 (beta_{j+1} - beta_j) (E_{j+1} - E_j)[d/dbeta log f(v)]`, by chains that pass the
/// knots.
fn joint_costs(path: &RbmPath<f64>, knots: &[f64], settings: &KnotChains) -> Vec<f64> {
    let first = stream(1, Purpose::DATA, 0);
    let mut population = Population::start(path, 0, settings.chains, first).unwrap();
    let mut mean = |knot: f64| {
        population.place_at(knot).unwrap();
        let mut derivatives = Vec::new();
        for update in 0..settings.updates {
            population.stay(&BlockGibbs).unwrap();
            if update >= settings.burn_in {
                let states = population.block().states().iter();
                derivatives.extend(states.map(|v| population.stage().model.beta_derivative(v)));
            }
        }
        derivatives.iter().sum::<f64>() / derivatives.len() as f64
    };
    let means: Vec<_> = knots.iter().map(|&knot| mean(knot)).collect();
    let segments = knots.windows(2).zip(means.windows(2));
    segments
        .map(|(betas, means)| 0.5 * (betas[1] - betas[0]) * (means[1] - means[0]))
        .collect()
}

proptest! {
    #![proptest_config(cases(8))]

    /// The costs of Equation 20, by draws: chains at the knots estimate them within four standard errors, for chains
    /// that are each worth one draw at least. Costs of the visible units alone are too small by more.
    #[test]
    fn chains_estimate_the_costs_of_both_layers((base, target) in ends(), knots in schedule(2..=3)) {
        const CHAINS: usize = 400;
        let path = RbmPath::new(base, target).unwrap();
        let chains = KnotChains { chains: CHAINS, updates: 40, burn_in: 10, thinning: 1, ..KnotChains::default() };
        let binned = BinnedSchedule::new(knots.clone()).chains(chains);
        let of_visible = binned.estimate_costs(&path, &BlockGibbs, 1).unwrap();
        let joint = joint_costs(&path, knots.betas(), &chains);
        for (j, ends) in knots.betas().windows(2).enumerate() {
            let [p, q] = [ends[0], ends[1]].map(|beta| path.at(beta).to_rbm().unwrap());
            let expected = half_two_way_divergence(&p, &q);
            let variances = variance_of_derivative(&path, ends[0]) + variance_of_derivative(&path, ends[1]);
            let bound = 4.0 * 0.5 * (ends[1] - ends[0]) * (variances / CHAINS as f64).sqrt();
            let near = |cost: f64| (cost - expected).abs() <= bound + 1e-12;
            prop_assert!(near(joint[j]), "{} {expected} {bound}", joint[j]);
            let apart = expected - half_two_way_marginal_divergence(&p, &q) > 2.0 * bound;
            prop_assert!(!apart || !near(of_visible[j]), "{} {expected} {bound}", of_visible[j]);
        }
    }
}
