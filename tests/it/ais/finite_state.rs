//! The identity itself, on a space small enough for exact answers: `E[w]` and `E[w^2]` by dense
//! matrices, for any schedule, against what the runner draws.
//!
//! Each statistical assertion is `|z| <= 4`, a false-alarm rate of 6e-5 a case if the stream changes.

use annealed::ais::Ais;
use annealed::estimate::{LogZ, WeightedSample};
use annealed::kernel::{NonFinite, Stage, Step, TransitionKernel};
use annealed::model::{NormalizedModel, Sampleable};
use annealed::path::{GeometricPath, Stationary};
use annealed::schedule::Schedule;
use annealed::testing;
use nalgebra::{DMatrix, DVector, RowDVector};
use rand::Rng;

use crate::shared::ring::{Flavor, STATES, Table, Walk, base, log_blend, log_ratio, target};

/// The walk's transition matrix at one beta, rows summing to 1.
fn transition(beta: f64) -> DMatrix<f64> {
    let f = log_blend(beta);
    let mut matrix = DMatrix::zeros(STATES, STATES);
    for x in 0..STATES {
        for hop in [1, STATES - 1] {
            let y = (x + hop) % STATES;
            matrix[(x, y)] += 0.5 * (f[y] - f[x]).exp().min(1.0);
        }
        matrix[(x, x)] += 1.0 - matrix.row(x).sum();
    }
    matrix
}

/// `pi_0' D_1 T_1 .. D_K T_K 1` with `D = diag(exp(power * (log f_k - log f_{k-1})))`.
fn exact_moment(schedule: &Schedule, power: f64) -> f64 {
    let z = base().log_normalizer();
    let mut row = RowDVector::from_iterator(STATES, base().0.iter().map(|l| (l - z).exp()));
    for pair in schedule.betas().windows(2) {
        let (old, new) = (log_blend(pair[0]), log_blend(pair[1]));
        let ratios = (0..STATES).map(|x| (power * (new[x] - old[x])).exp());
        row = row
            * DMatrix::from_diagonal(&DVector::from_iterator(STATES, ratios))
            * transition(pair[1]);
    }
    row.sum()
}

#[test]
fn expected_weight_is_the_ratio_to_rounding_for_any_number_of_steps() {
    for steps in [1, 2, 4, 10, 100] {
        let mean = exact_moment(&Schedule::linear(steps).unwrap(), 1.0);
        assert!(
            (mean / log_ratio().exp() - 1.0).abs() < 1e-12,
            "K = {steps}: {mean}"
        );
    }
}

#[test]
fn the_runner_draws_weights_with_the_exact_mean_and_variance() {
    const CHAINS: usize = 100_000;
    let path = GeometricPath::new(base(), target());
    for steps in [1, 2, 4, 10] {
        let schedule = Schedule::linear(steps).unwrap();
        let (mean, square) = (exact_moment(&schedule, 1.0), exact_moment(&schedule, 2.0));
        let run = Ais::new(&path, Walk(Flavor::Right))
            .schedule(schedule)
            .chains(CHAINS)
            .seed(11)
            .run()
            .unwrap();
        let exact_ess = CHAINS as f64 * mean * mean / square;
        let exact_error = ((square / (mean * mean) - 1.0) / CHAINS as f64).sqrt();
        let error = run.log_z() - target().log_normalizer();
        assert!(
            error.abs() < 4.0 * exact_error,
            "K = {steps}: off by {error}"
        );
        assert!((run.standard_error() / exact_error - 1.0).abs() < 0.05);
        assert!((run.effective_sample_size() / exact_ess - 1.0).abs() < 0.02);
    }
}

#[test]
fn on_the_fly_log_z_agrees_with_the_exact_one_at_every_stage() {
    let path = GeometricPath::new(base(), target());
    let run = Ais::new(&path, Walk(Flavor::Right))
        .schedule(Schedule::linear(8).unwrap())
        .chains(50_000)
        .seed(3)
        .run()
        .unwrap();
    assert_eq!(run.stages().len(), 8);
    for stage in run.stages() {
        let exact = Table(log_blend(stage.beta)).log_normalizer() - base().log_normalizer();
        let error = (1.0 / stage.effective_sample_size).sqrt();
        assert!(error < 0.02);
        assert!((stage.log_z_ratio - exact).abs() < 4.0 * error, "{stage:?}");
    }
}

#[test]
fn thermodynamic_integration_agrees_at_a_fine_schedule_however_it_is_recorded() {
    let path = GeometricPath::new(base(), target());
    for recorded in [400, 40] {
        let run = Ais::new(&path, Walk(Flavor::Right))
            .schedule(Schedule::linear(400).unwrap())
            .chains(5_000)
            .recorded_stages(recorded)
            .seed(5)
            .run()
            .unwrap();
        let thermodynamic = run.thermodynamic_log_z().unwrap();
        let error = thermodynamic - target().log_normalizer();
        assert!(
            error.abs() < 0.02,
            "{recorded} stages recorded: off by {error}"
        );
        assert_eq!(run.stages().len(), recorded);
        assert_eq!(run.stages().last().unwrap().stage, 400);
    }
}

#[test]
fn weighted_expectations_are_those_of_the_target() {
    let path = GeometricPath::new(base(), target());
    let run = Ais::new(&path, Walk(Flavor::Right))
        .schedule(Schedule::linear(4).unwrap())
        .chains(50_000)
        .run()
        .unwrap();
    let z = target().log_normalizer();
    let exact: f64 = (0..STATES)
        .map(|x| (x * x) as f64 * (target().0[x] - z).exp())
        .sum();
    let (mean, standard_error) = run.expectation(|&x| (x * x) as f64);
    assert!(standard_error < 0.05);
    assert!(
        (mean - exact).abs() < 4.0 * standard_error,
        "{mean} and not {exact}"
    );
}

#[test]
fn the_checks_of_the_testing_module_pass_a_right_kernel_and_fail_wrong_ones() {
    let path = GeometricPath::new(base(), target());
    let unbiasedness = |flavor| {
        let schedule = Schedule::linear(4).unwrap();
        testing::unbiasedness(&path, Walk(flavor), schedule, log_ratio(), 100_000, 1).unwrap()
    };
    assert!(unbiasedness(Flavor::Right).passes());
    assert!(unbiasedness(Flavor::Right).standard_error < 0.01);
    assert!(!unbiasedness(Flavor::Stale).passes());

    let model = target();
    let invariance = |kernel: &Eager| {
        let sample = |rng: &mut annealed::random::StreamRng| model.sample(rng);
        testing::invariance(
            &Stationary(model.clone()),
            kernel,
            sample,
            |&x| (x * x) as f64,
            2,
            100_000,
            1,
        )
        .unwrap()
    };
    assert!(invariance(&Eager { always: false }).passes());
    assert!(!invariance(&Eager { always: true }).passes());
}

/// A walk that can forget to reject.
struct Eager {
    always: bool,
}

impl TransitionKernel<Stationary<Table>> for Eager {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, Stationary<Table>>,
        state: &mut usize,
        workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        if self.always {
            *state = (*state + 1) % STATES;
            return Ok(Step::invariant());
        }
        Walk(Flavor::Right).step(stage, state, workspace, rng)
    }
}
