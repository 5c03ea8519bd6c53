//! Schedules from pilot runs: any optimizer, any path, any kernel; and pilots that say too little.

use annealed::Error;
use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, Execution, RunPart};
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::kernel::{
    Hmc, PerfectTransitions, RandomWalkMetropolis, StepSize, TransitionKernel, UnadjustedLangevin,
};
use annealed::model::{Gaussian, GaussianMixture, NormalizedModel, UnnormalizedModel};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath, Intermediate};
use annealed::pilot::{
    BinnedSchedule, DerivativeRecorder, Friction, KnotChains, Pilot, ScheduleMetric,
    ScheduleOptimizer, Survey, SurveyPoint, VarOpt,
};
use annealed::rbm::{BaseRate, BlockGibbs, ExactMatching, Rbm, RbmPath};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};

fn message<T: std::fmt::Debug>(result: annealed::Result<T>) -> String {
    result.unwrap_err().to_string()
}

const DIMENSION: usize = 20;
const RATIO: f64 = 100.0;

/// From N(0, I) to N(0, I / 100) in 20 dimensions.
fn narrowing() -> GaussianPath {
    let zero = || DVector::zeros(DIMENSION);
    let base = Gaussian::isotropic(zero(), 1.0).unwrap();
    let target = Gaussian::isotropic(zero(), 1.0 / RATIO.sqrt()).unwrap();
    GaussianPath::new(base, target).unwrap()
}

fn exact_g(beta: f64) -> f64 {
    0.5 * DIMENSION as f64 * ((RATIO - 1.0) / (1.0 + beta * (RATIO - 1.0))).powi(2)
}

fn exact_metric() -> ScheduleMetric {
    let betas: Vec<f64> = (0..=20_000).map(|k| k as f64 / 20_000.0).collect();
    let values = betas.iter().map(|&beta| exact_g(beta)).collect();
    ScheduleMetric::new(betas, values).unwrap()
}

/// `J / J_opt` of a schedule on that path.
fn excess(schedule: &Schedule) -> f64 {
    let metric = exact_metric();
    metric.action(schedule) / metric.length().powi(2)
}

#[test]
fn the_survey_estimates_g_and_the_variance_of_log_w() {
    let survey = Pilot::new(2_000, 200)
        .survey(narrowing(), &PerfectTransitions, 1)
        .unwrap();
    assert_eq!((survey.chains(), survey.points().len()), (2_000, 201));
    let mut variance = 0.0;
    // The chains themselves are at the model before, all of the same weight.
    for pair in survey.points().windows(2) {
        let off = pair[1].unweighted_variance / exact_g(pair[0].beta) - 1.0;
        assert!(off.abs() < 4.5 * (2.6 / 2_000.0f64).sqrt(), "{pair:?}");
    }
    for point in survey.points() {
        // The variance of a variance over n chains, here of a chi-square-like quantity.
        let error = (2.6 / point.effective_sample_size).sqrt();
        let off = point.derivative_variance / exact_g(point.beta) - 1.0;
        assert!(off.abs() < 4.5 * error, "{point:?}");
        assert!((point.var_log_weight / variance - 1.0).abs() < 0.25 || point.stage == 0);
        variance += (1.0 / 200.0f64).powi(2) * exact_g(point.beta);
    }
}

/// Unadjusted steps of variance e at precision r would make g `(1 + (e r / 2)^2)^2` times as large, up
/// to 1.65, if the correction of a move weighed the state before it.
#[test]
fn the_survey_estimates_g_under_a_kernel_with_corrections() {
    let base = Gaussian::isotropic(dvector![0.0], 1.0).unwrap();
    let target = Gaussian::isotropic(dvector![0.0], 3f64.sqrt().recip()).unwrap();
    let path = GaussianPath::new(base, target).unwrap();
    let step = StepSize::knots(vec![(0.0, 0.8), (1.0, 0.27)]).unwrap();
    let kernel = UnadjustedLangevin::new(step).unwrap();
    let survey = Pilot::new(60_000, 4).survey(&path, &kernel, 1).unwrap();
    for point in survey.points() {
        // log f falls by x^2 for each unit of beta, and chi-squared has a kurtosis of 15.
        let exact = 2.0 / (1.0 + 2.0 * point.beta).powi(2);
        let error = (14.0 / point.effective_sample_size).sqrt();
        let off = point.derivative_variance / exact - 1.0;
        assert!(off.abs() < 4.0 * error && error < 0.03, "{point:?}");
    }
}

#[test]
fn varopt_with_a_small_pilot_is_near_the_best_schedule() {
    let path = narrowing();
    assert!((excess(&Schedule::linear(1_000).unwrap()) - 4.62).abs() < 0.3);
    let schedule = VarOpt::default()
        .optimize(&path, &PerfectTransitions, 1_000, 1)
        .unwrap()
        .schedule;
    assert!(excess(&schedule) < 1.02, "{}", excess(&schedule));
}

#[test]
fn every_optimizer_is_near_the_best_schedule_under_perfect_transitions() {
    let path = narrowing();
    let kernel = PerfectTransitions;
    let friction = Friction::default().pilot(Pilot::new(400, 1_000));
    let knots = Schedule::power(20, 2.0).unwrap();
    let chains = KnotChains {
        burn_in: 0,
        thinning: 1,
        ..KnotChains::default()
    };
    let binned = BinnedSchedule::new(knots).chains(chains);
    for (name, schedule, limit) in [
        (
            "friction",
            friction
                .optimize(&path, &kernel, 1_000, 1)
                .unwrap()
                .schedule,
            1.1,
        ),
        (
            "friction twice",
            friction
                .pilot(Pilot::new(400, 1_000).rounds(2))
                .optimize(&path, &kernel, 1_000, 1)
                .unwrap()
                .schedule,
            1.15,
        ),
        (
            "binned",
            binned.optimize(&path, &kernel, 1_000, 1).unwrap().schedule,
            1.15,
        ),
    ] {
        assert!(excess(&schedule) < limit, "{name}: {}", excess(&schedule));
        assert_eq!(schedule.stages(), 1_000);
    }
}

#[test]
fn further_rounds_find_the_beginning_that_a_linear_pilot_leaps_over() {
    // Precision ratio 10,000: nearly all of the length lies below beta = .01.
    let zero = || DVector::zeros(DIMENSION);
    let base = Gaussian::isotropic(zero(), 1.0).unwrap();
    let path = GaussianPath::new(base, Gaussian::isotropic(zero(), 0.01).unwrap()).unwrap();
    let pilot = Pilot::new(100, 500);
    let varopt = |pilot| {
        VarOpt::default()
            .pilot(pilot)
            .optimize(&path, &PerfectTransitions, 500, 1)
    };
    let error = varopt(pilot).unwrap_err();
    assert!(matches!(error, Error::PilotCollapsed { .. }), "{error}");
    let schedule = varopt(pilot.rounds(4)).unwrap().schedule;
    let best = |k: f64| (10_000f64.powf(k / 500.0) - 1.0) / 9_999.0;
    let middle = schedule.betas()[250];
    // Within a factor of two, where the linear schedule is fifty times too far.
    assert!((middle / best(250.0)).ln().abs() < 2f64.ln(), "{middle}");
}

#[test]
fn knot_chains_estimate_the_costs_of_the_segments() {
    let path = narrowing();
    let binned = BinnedSchedule::new(Schedule::linear(4).unwrap()).chains(KnotChains {
        chains: 500,
        updates: 100,
        burn_in: 0,
        thinning: 1,
        ..KnotChains::default()
    });
    let costs = binned
        .estimate_costs(&path, &PerfectTransitions, 1)
        .unwrap();
    // 1/2 deta . ds, with eta the precision / -2 and s the variance, in each dimension.
    for (j, cost) in costs.iter().enumerate() {
        let precision = |j: usize| 1.0 + (RATIO - 1.0) * j as f64 / 4.0;
        let (p, q) = (precision(j), precision(j + 1));
        let exact = 0.25 * DIMENSION as f64 * (q - p) * (1.0 / p - 1.0 / q);
        assert!((cost / exact - 1.0).abs() < 0.02, "{j}: {cost} {exact}");
    }
}

#[test]
fn friction_spends_its_stages_where_the_kernel_mixes_slowly() {
    // Nothing distinguishes one half of the path from the other but the step size.
    let base = Gaussian::standard(2).unwrap();
    let target = Gaussian::isotropic(dvector![2.0, 0.0], 1.0).unwrap();
    let path = GaussianPath::new(base, target).unwrap();
    let slow = StepSize::knots(vec![(0.0, 1.5), (0.5, 1.5), (0.51, 0.15), (1.0, 0.15)]).unwrap();
    let kernel = RandomWalkMetropolis::new(slow).unwrap();
    let pilot = Pilot::new(200, 2_000);
    let half = |schedule: Schedule| {
        schedule.betas().partition_point(|&beta| beta < 0.5) as f64 / schedule.stages() as f64
    };
    let friction = Friction::default().pilot(pilot);
    assert!(
        half(
            friction
                .optimize(&path, &kernel, 1_000, 1)
                .unwrap()
                .schedule
        ) < 0.35
    );
    assert!(
        half(
            friction
                .pilot(pilot.rounds(2))
                .optimize(&path, &kernel, 1_000, 1)
                .unwrap()
                .schedule
        ) < 0.35
    );
    let varopt = VarOpt::default().pilot(pilot);
    assert!((half(varopt.optimize(&path, &kernel, 1_000, 1).unwrap().schedule) - 0.5).abs() < 0.05);
}

#[test]
fn a_survey_does_not_depend_on_threads_or_on_how_the_run_was_split() {
    let path = narrowing();
    let survey = |threads| {
        let by = Execution::new().threads(threads);
        let pilot = Pilot::new(100, 50);
        pilot.survey_by(&path, &PerfectTransitions, 3, &by).unwrap()
    };
    assert_eq!(survey(1), survey(4));
    let ais = || {
        Ais::new(&path, PerfectTransitions)
            .schedule(Schedule::linear(50).unwrap())
            .recorder(DerivativeRecorder::default())
            .recorded_stages(20)
            .chains(300)
    };
    let parts = [0..128, 128..256, 256..300].map(|range| ais().run_range(range).unwrap());
    let merged = Survey::from_run(&RunPart::merge(parts).unwrap()).unwrap();
    assert_eq!(merged, Survey::from_run(&ais().run().unwrap()).unwrap());
    // Recorded at every third stage only, it still holds the squares of all steps.
    assert_eq!(merged.points().len(), 18);
    let squares: f64 = merged
        .points()
        .iter()
        .map(|point| point.squared_steps)
        .sum();
    assert!((squares - 1.0 / 50.0).abs() < 1e-12);
}

#[test]
fn a_variance_over_three_chains_is_not_too_small() {
    // Uncorrected it would come out as two thirds.
    let g = |seed| {
        let survey = Pilot::new(3, 1)
            .survey(narrowing(), &PerfectTransitions, seed)
            .unwrap();
        survey.points()[0].derivative_variance / exact_g(0.0)
    };
    let values: Vec<f64> = (0..1_000).map(g).collect();
    let mean = values.iter().sum::<f64>() / 1e3;
    let error = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e6).sqrt();
    assert!(
        error < 0.05 && (mean - 1.0).abs() < 4.0 * error,
        "{mean} +- {error}"
    );
}

#[test]
fn a_pilot_shares_no_chain_with_the_run_of_its_seed() {
    let path = narrowing();
    let ais = || {
        Ais::new(&path, PerfectTransitions)
            .recorder(DerivativeRecorder::default())
            .schedule(Schedule::linear(20).unwrap())
            .chains(100)
            .block_size(32)
            .seed(3)
    };
    let survey = |run| Survey::from_run(&run).unwrap();
    let pilot = Pilot::new(100, 20)
        .survey(&path, &PerfectTransitions, 3)
        .unwrap();
    assert_eq!(pilot, survey(ais().pilot().run().unwrap()));
    assert_ne!(pilot.points()[0], survey(ais().run().unwrap()).points()[0]);
}

/// Every optimizer gives a schedule for this path and kernel along which log Z comes out right.
fn all_combine<P, K>(path: P, kernel: &K, log_z: f64)
where
    P: AnnealingPath<At: Send + Sync> + Send + Sync,
    P::Base: NormalizedModel,
    P::State: Send,
    K: TransitionKernel<P::At> + Sync,
{
    let pilot = Pilot::new(64, 100);
    let varopt = VarOpt::default().pilot(pilot);
    let friction = Friction::default().pilot(pilot.rounds(2));
    let binned = BinnedSchedule::new(Schedule::linear(5).unwrap()).chains(KnotChains {
        chains: 64,
        updates: 40,
        burn_in: 20,
        thinning: 5,
        ..KnotChains::default()
    });
    let optimizers: [&dyn ScheduleOptimizer<P, K>; 3] = [&varopt, &friction, &binned];
    for (index, optimizer) in optimizers.into_iter().enumerate() {
        let schedule = optimizer
            .optimize(path.clone(), kernel, 400, 5)
            .unwrap()
            .schedule;
        assert_eq!(schedule.stages(), 400);
        let run = Ais::new(path.clone(), kernel)
            .schedule(schedule)
            .chains(400)
            .seed(5)
            .run()
            .unwrap();
        let error = run.log_z() - log_z;
        assert!(run.standard_error() < 0.15, "{index}: {run}");
        assert!(
            error.abs() < 4.0 * run.standard_error(),
            "{index}: {run}, exact {log_z}"
        );
    }
}

#[test]
fn any_optimizer_works_with_hamiltonian_steps_on_a_mixture() {
    let mode = |x, y, scale| Gaussian::isotropic(dvector![x, y], scale).unwrap();
    let mixture =
        GaussianMixture::new([(0.5, mode(2.0, 1.0, 0.5)), (2.0, mode(-1.5, 0.0, 0.8))]).unwrap();
    let path = GeometricPath::new(
        Gaussian::isotropic(dvector![0.0, 0.0], 2.0).unwrap(),
        &mixture,
    );
    all_combine(&path, &Hmc::new(0.3, 5).unwrap(), mixture.log_normalizer());
}

fn small_rbm() -> (RbmPath, f64) {
    let weights = DMatrix::from_fn(6, 9, |j, i| ((3 * j + 5 * i) % 7) as f32 * 0.5 - 1.4);
    let hidden = DVector::from_fn(6, |j, _| 0.3 * j as f32 - 1.0);
    let visible = DVector::from_fn(9, |i, _| 0.2 * i as f32 - 0.7);
    let rbm = Rbm::new(weights, hidden, visible.clone()).unwrap();
    let log_z = rbm.exact_log_normalizer().unwrap();
    (
        RbmPath::new(BaseRate::new(6, visible).unwrap(), rbm).unwrap(),
        log_z,
    )
}

/// The moment-averaging spline of the same machine; its knots are stages of no schedule here.
#[test]
fn any_optimizer_works_on_a_moment_spline() {
    let (straight, log_z) = small_rbm();
    let target = straight.target().clone();
    let moments = target.exact_moments().unwrap();
    let base = BaseRate::uniform(6, 9).unwrap();
    let knots = Schedule::linear(4).unwrap();
    let matching = ExactMatching::default();
    let path = RbmPath::moment_spline(base, target, &moments, knots, &matching).unwrap();
    all_combine(&path, &BlockGibbs, log_z);
}

#[test]
fn any_optimizer_works_with_block_gibbs_on_an_rbm() {
    let (path, log_z) = small_rbm();
    all_combine(&path, &BlockGibbs, log_z);
}

#[test]
fn any_optimizer_works_from_a_mixture_to_an_rbm() {
    let (path, log_z) = small_rbm();
    let rates = |p| BaseRate::from_rates(6, &DVector::repeat(9, p)).unwrap();
    let models = [
        (2.0, path.base().clone()),
        (1.0, rates(0.2)),
        (1.0, rates(0.8)),
    ];
    let base = BaseRate::mixture(models).unwrap();
    let path = RbmPath::new(base, path.target().clone()).unwrap();
    all_combine(&path, &BlockGibbs, log_z);
}

/// The standard normal and one far away, in one dimension.
fn far_apart() -> GaussianPath {
    let target = Gaussian::isotropic(dvector![60.0], 0.1).unwrap();
    GaussianPath::new(Gaussian::standard(1).unwrap(), target).unwrap()
}

#[test]
fn a_collapsed_pilot_is_an_error() {
    let kernel = RandomWalkMetropolis::new(1e-3).unwrap();
    let pilot = Pilot::new(50, 50);
    let path = far_apart();
    let collapsed = |error| matches!(error, Error::PilotCollapsed { chains: 50, .. });
    let varopt = VarOpt::default().pilot(pilot);
    assert!(collapsed(
        varopt.optimize(&path, &kernel, 100, 1).unwrap_err()
    ));
    let survey = pilot.survey(&path, &kernel, 1).unwrap();
    assert!(matches!(
        survey.warnings()[0],
        Warning::PilotNearCollapse { .. }
    ));
    let binned = BinnedSchedule::new(Schedule::linear(5).unwrap());
    assert!(collapsed(binned.schedule(&survey, 100).unwrap_err()));
    // Friction asks for no weights, and does not leap: its floor bounds the speed.
    let friction = Friction::default()
        .pilot(pilot)
        .optimize(&path, &kernel, 100, 1)
        .unwrap()
        .schedule;
    let longest = friction
        .betas()
        .windows(2)
        .map(|b| b[1] - b[0])
        .fold(0.0, f64::max);
    assert!(longest < (1.0 / 1e-3f64).sqrt() / 100.0);
}

/// Every optimizer returns its pilot's warnings with the schedule.
#[test]
fn optimizers_hand_on_what_their_pilots_warn_of() {
    // Chains that hardly move keep about N exp(-d^2) of their N chains over a distance of d.
    let target = Gaussian::isotropic(dvector![3.0], 1.0).unwrap();
    let path = GaussianPath::new(Gaussian::standard(1).unwrap(), target).unwrap();
    type Optimizer<'a> = &'a dyn ScheduleOptimizer<GaussianPath, RandomWalkMetropolis>;
    let warnings_with = |step: f64, optimizer: Optimizer| {
        let kernel = RandomWalkMetropolis::new(step).unwrap();
        let found = optimizer.optimize(path.clone(), &kernel, 100, 4);
        found.unwrap().warnings
    };
    let near_collapse = |optimizer: Optimizer| {
        let warnings = warnings_with(1e-3, optimizer);
        matches!(
            warnings[..],
            [Warning::PilotNearCollapse { ess, chains: 60, .. }] if (1.1..5.0).contains(&ess)
        )
    };
    let pilot = Pilot::new(60, 60);
    let varopt = VarOpt::default().pilot(pilot);
    assert!(near_collapse(&varopt));
    assert_eq!(warnings_with(2.0, &varopt), []);
    // Friction asks for no weights, and is silent of them.
    let friction = Friction::default().pilot(pilot);
    for step in [1e-3, 2.0] {
        assert_eq!(warnings_with(step, &friction), []);
    }
    // At the last knots nothing is left to change, and two updates do not show how little.
    let knots = Schedule::new([0.0, 0.1, 0.999, 1.0]).unwrap();
    let binned = BinnedSchedule::new(knots);
    assert!(matches!(
        warnings_with(2.0, &binned)[..],
        [Warning::PilotNegligibleCost { segment: 2, cost }] if cost < 0.1
    ));
    assert_eq!(
        warnings_with(2.0, &BinnedSchedule::new(Schedule::linear(3).unwrap())),
        []
    );
}

#[test]
fn pilots_of_few_chains_are_doubted_and_of_one_refused() {
    let target = Gaussian::isotropic(dvector![1.0], 1.0).unwrap();
    let path = GaussianPath::new(Gaussian::standard(1).unwrap(), target).unwrap();
    let optimized = |chains| {
        let pilot = Pilot::new(chains, 200);
        let knots = KnotChains {
            chains,
            ..KnotChains::default()
        };
        let optimizers: [&dyn ScheduleOptimizer<&GaussianPath, PerfectTransitions>; 3] = [
            &VarOpt::default().pilot(pilot),
            &Friction::default().pilot(pilot),
            &BinnedSchedule::new(Schedule::linear(2).unwrap()).chains(knots),
        ];
        optimizers.map(|optimizer| optimizer.optimize(&path, &PerfectTransitions, 50, 1))
    };
    for found in optimized(8) {
        let warnings = found.unwrap().warnings;
        assert!(
            warnings.contains(&Warning::PilotFewChains { chains: 8 }),
            "{warnings:?}"
        );
    }
    for found in optimized(30) {
        assert_eq!(found.unwrap().warnings, []);
    }
    for found in optimized(1) {
        let text = message(found);
        assert!(
            text.contains("chains") && text.contains("at least 2"),
            "{text}"
        );
    }
}

#[test]
fn a_pilot_of_a_few_steps_warns() {
    let path = GaussianPath::new(
        Gaussian::standard(1).unwrap(),
        Gaussian::isotropic(DVector::zeros(1), 0.5).unwrap(),
    )
    .unwrap();
    for steps in [1, 3, 19] {
        let friction = Friction::default().pilot(Pilot::new(50, steps));
        let found = friction.optimize(&path, &PerfectTransitions, 50, 1);
        let warnings = found.unwrap().warnings;
        assert!(
            warnings.contains(&Warning::PilotFewSteps { steps }),
            "{steps}: {warnings:?}"
        );
    }
}

/// From N(0, 1) to N(1, 1), all of it between beta = .5 and the next number.
#[derive(Debug, Clone)]
struct Jump {
    base: Gaussian,
}

#[derive(Debug, Clone)]
struct JumpAt {
    beta: f64,
}

impl UnnormalizedModel for JumpAt {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        let mean = if self.beta > 0.5 { 1.0 } else { 0.0 };
        -0.5 * (x[0] - mean).powi(2)
    }
}

impl Intermediate for JumpAt {
    fn beta(&self) -> f64 {
        self.beta
    }
}

impl AnnealingPath for Jump {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At = JumpAt;

    fn base(&self) -> &Gaussian {
        &self.base
    }

    fn at(&self, beta: f64) -> JumpAt {
        JumpAt { beta }
    }
}

#[test]
fn a_jump_of_the_path_is_a_warning_or_an_error() {
    let path = Jump {
        base: Gaussian::standard(1).unwrap(),
    };
    let kernel = RandomWalkMetropolis::new(1.0).unwrap();
    let pilot = Pilot::new(2_000, 20);
    let optimizers: [&dyn ScheduleOptimizer<&Jump, RandomWalkMetropolis>; 2] = [
        &VarOpt::default().pilot(pilot),
        &Friction::default().pilot(pilot),
    ];
    for optimizer in optimizers {
        let warnings = optimizer.optimize(&path, &kernel, 30, 1).unwrap().warnings;
        let jump = warnings.iter().find_map(|warning| match warning {
            Warning::InPilot(of_run) => match **of_run {
                Warning::ConcentratedVariance { beta, share, .. } => Some((beta, share)),
                _ => None,
            },
            _ => None,
        });
        let (beta, share) = jump.unwrap();
        assert!((beta - 0.55).abs() < 1e-9 && share > 0.9, "{beta} {share}");
    }
    let pass = FirstPass::fixed(&path, kernel).ess_share(0.9);
    let error = pass.run().unwrap_err();
    assert!(error.to_string().contains("no step from beta"), "{error}");
}

#[test]
fn stages_of_a_first_pass_leave_the_effective_sample_size_that_was_asked_for() {
    let path = narrowing();
    let pass = |share| {
        let pass = FirstPass::fixed(&path, PerfectTransitions).moves(1);
        pass.chains(20_000).ess_share(share).run()
    };
    let target = 0.8;
    let stages = pass(target).unwrap().schedule;
    // Exactly, with precisions p and q: N / CESS = E u^2 / (E u)^2, in each dimension
    // (q / p) (p / (2 q - p))^(1/2).
    let betas = stages.betas();
    for pair in betas[..betas.len() - 1].windows(2) {
        let precision = |beta: f64| 1.0 + beta * (RATIO - 1.0);
        let (p, q) = (precision(pair[0]), precision(pair[1]));
        let inverse = (q * q / (p * (2.0 * q - p))).powf(0.5 * DIMENSION as f64);
        assert!(
            (1.0 / inverse - target).abs() < 0.06,
            "{pair:?}: {}",
            1.0 / inverse
        );
    }
    for bad in [0.0, 1.0, f64::NAN] {
        assert!(pass(bad).is_err());
    }
}

fn point(stage: usize, beta: f64, derivative_variance: f64, ess: f64) -> SurveyPoint {
    SurveyPoint {
        stage,
        beta,
        squared_steps: 0.25,
        derivative_variance,
        unweighted_variance: derivative_variance.max(0.0),
        var_log_weight: stage as f64,
        effective_sample_size: ess,
        dead: 0,
        acceptance: Some(0.0),
    }
}

#[test]
fn surveys_that_say_nothing_are_refused() {
    let survey = |points: &[SurveyPoint]| Survey::new(10, points.to_vec());
    let good = [
        point(0, 0.0, 1.0, 10.0),
        point(1, 0.5, 1.0, 8.0),
        point(2, 1.0, 1.0, 3.0),
    ];
    let accepted = survey(&good).unwrap();
    assert!(VarOpt::default().schedule(&accepted, 5).is_ok());
    let warnings = accepted.warnings();
    assert!(matches!(
        warnings[0],
        Warning::PilotNearCollapse {
            chains: 10,
            beta: 1.0,
            ..
        }
    ));
    assert_eq!(warnings[1], Warning::PilotFewSteps { steps: 2 });
    let stuck = |warning: &Warning| matches!(warning, Warning::ZeroAcceptance { stage: 0, .. });
    assert!(matches!(&warnings[2], Warning::InPilot(of_run) if stuck(of_run)));
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let mut points = good;
        points[1].derivative_variance = bad;
        assert!(
            survey(&points)
                .unwrap_err()
                .to_string()
                .contains("at beta = 0.5")
        );
    }
    assert!(survey(&good[..2]).is_err());
    assert!(survey(&[]).is_err());
    // A path along which nothing changes, and one on which g vanishes at a point only.
    let mut points = good.map(|p| point(p.stage, p.beta, 0.0, 10.0));
    let flat = survey(&points).unwrap();
    assert!(VarOpt::default().schedule(&flat, 5).is_err());
    assert!(flat.metric().unwrap().schedule(5).is_err());
    points[0].derivative_variance = 1.0;
    let vanishing = survey(&points).unwrap();
    assert!(VarOpt::default().schedule(&vanishing, 5).is_ok());
    assert!(vanishing.warnings().contains(&Warning::PilotNothingVaries {
        stage: 1,
        beta: 0.5
    }));
    for p in &mut points {
        p.var_log_weight = 0.0;
    }
    assert!(
        Friction::default()
            .schedule(&survey(&points).unwrap(), 5)
            .is_err()
    );
}

#[test]
fn settings_out_of_range_are_named() {
    let path = narrowing();
    let kernel = PerfectTransitions;
    let none = |chains, steps| {
        let varopt = VarOpt::default().pilot(Pilot::new(chains, steps));
        message(varopt.optimize(&path, &kernel, 10, 1))
    };
    let unsurveyed = VarOpt::default().pilot(Pilot::default().rounds(0));
    assert!(message(unsurveyed.optimize(&path, &kernel, 10, 1)).contains("rounds"));
    assert!(none(0, 10).contains("chains") && none(10, 0).contains("stages"));
    let friction = Friction::default().pilot(Pilot::new(10, 10));
    assert!(message(friction.bins(0).optimize(&path, &kernel, 10, 1)).contains("bins"));
    assert!(message(friction.floor(2.0).optimize(&path, &kernel, 10, 1)).contains("floor"));
    assert!(message(friction.optimize(&path, &kernel, 0, 1)).contains("stages"));
    let binned = |chains: KnotChains, steps| {
        let binned = BinnedSchedule::new(Schedule::linear(5).unwrap()).chains(chains);
        message(binned.optimize(&path, &kernel, steps, 1))
    };
    let chains = KnotChains::default();
    assert!(binned(chains, 4).contains("at least one for each of 5"));
    assert!(
        binned(
            KnotChains {
                chains: 0,
                ..chains
            },
            10
        )
        .contains("chains")
    );
    assert!(
        binned(
            KnotChains {
                thinning: 0,
                ..chains
            },
            10
        )
        .contains("thinning")
    );
    assert!(
        binned(
            KnotChains {
                burn_in: 100,
                ..chains
            },
            10
        )
        .contains("updates")
    );
    let endless = KnotChains {
        chains: usize::MAX,
        updates: usize::MAX,
        burn_in: usize::MAX,
        thinning: usize::MAX,
        block_size: usize::MAX,
    };
    assert!(binned(endless, 10).contains("chains at the knots"));
    let chains_set = KnotChains {
        chains: 2,
        ..endless
    };
    assert!(binned(chains_set, 10).contains("updates"));
    assert!(binned(chains, 1 << 40).contains("stages"));
    for (pilot, named) in [
        (Pilot::new(1, 10), "chains of the pilot"),
        (Pilot::new(usize::MAX, 10), "chains of the pilot"),
        (Pilot::new(10, usize::MAX), "stages of the pilot"),
        (Pilot::new(10, 0), "stages of the pilot"),
        (Pilot::new(10, 10).rounds(0), "rounds of the pilot"),
    ] {
        let varopt = VarOpt::default().pilot(pilot);
        assert!(message(varopt.optimize(&path, &kernel, 10, 1)).contains(named));
    }
}

/// A target that is the base: no stage has any length.
#[test]
fn a_path_that_goes_nowhere_is_an_error_and_not_a_hang() {
    let path = GaussianPath::new(
        Gaussian::standard(1).unwrap(),
        Gaussian::standard(1).unwrap(),
    )
    .unwrap();
    let kernel = RandomWalkMetropolis::new(1.0).unwrap();
    let pilot = Pilot::new(20, 20);
    let optimizers: [&dyn ScheduleOptimizer<&GaussianPath, RandomWalkMetropolis>; 3] = [
        &VarOpt::default().pilot(pilot),
        &Friction::default().pilot(pilot),
        &BinnedSchedule::new(Schedule::linear(2).unwrap()),
    ];
    for optimizer in optimizers {
        let text = message(optimizer.optimize(&path, &kernel, 10, 1));
        assert!(
            text.contains("a path along which something changes"),
            "{text}"
        );
    }
}

/// The standard normal cut off at 0: half of the chains of a wide base die at the first stage.
struct Cut;

impl UnnormalizedModel for Cut {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        if x[0] > 0.0 {
            -0.5 * x[0] * x[0]
        } else {
            f64::NEG_INFINITY
        }
    }
}

#[test]
fn chains_that_die_leave_schedules_sound() {
    let base = Gaussian::isotropic(dvector![0.0], 3.0).unwrap();
    let path = GeometricPath::new(base, Cut);
    let kernel = RandomWalkMetropolis::new(1.0).unwrap();
    let pilot = Pilot::new(100, 100);
    type Optimizer<'a> =
        &'a dyn ScheduleOptimizer<&'a GeometricPath<Gaussian, Cut>, RandomWalkMetropolis>;
    let optimizers: [Optimizer; 2] = [
        &VarOpt::default().pilot(pilot),
        &Friction::default().pilot(pilot),
    ];
    for optimizer in optimizers {
        let warnings = optimizer.optimize(&path, &kernel, 50, 1).unwrap().warnings;
        let [Warning::InPilot(warning)] = &warnings[..] else {
            panic!("{warnings:?}");
        };
        let (dead, chains) = (30..70, 100);
        assert!(
            matches!(**warning, Warning::DeadChains { dead: found, chains: of } if dead.contains(&found) && of == chains),
            "{warning}"
        );
    }
    // The divergence of any two knots is infinite.
    let binned = BinnedSchedule::new(Schedule::linear(2).unwrap());
    let text = message(binned.optimize(&path, &kernel, 50, 1));
    assert!(
        text.contains("chains at beta = 0 off the support of beta = 0.5"),
        "{text}"
    );
}

#[cfg(feature = "serde")]
#[test]
fn a_survey_is_kept_and_checked_when_read() {
    let survey = Pilot::new(50, 20)
        .survey(narrowing(), &PerfectTransitions, 1)
        .unwrap();
    let text = serde_json::to_string(&survey).unwrap();
    assert_eq!(serde_json::from_str::<Survey>(&text).unwrap(), survey);
    let broken = text.replacen("\"beta\":0.0", "\"beta\":0.5", 1);
    assert!(serde_json::from_str::<Survey>(&broken).is_err());
    let metric = exact_metric();
    let text = serde_json::to_string(&metric).unwrap();
    assert_eq!(
        serde_json::from_str::<ScheduleMetric>(&text).unwrap(),
        metric
    );
    assert!(serde_json::from_str::<ScheduleMetric>("[[0.0, 1.0], [1.0, -1.0]]").is_err());
}

#[test]
fn the_target_of_the_doc_example_is_asymmetric() {
    let target = Gaussian::new(dvector![1.0, -2.0], dmatrix![2.0, 0.5; 0.5, 1.0]).unwrap();
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), target.clone());
    all_combine(
        &path,
        &RandomWalkMetropolis::new(0.8).unwrap(),
        target.log_normalizer(),
    );
}
