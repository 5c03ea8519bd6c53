//! Likelihoods that are 0 on nearly all of the prior: chains of weight zero count in no figure of a pilot.

use std::f64::consts::PI;

use crate::shared;
use annealed::adaptive::{FirstPass, Rounds};
use annealed::ais::Ais;
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::kernel::{Hmc, RandomWalkMetropolis, Repeat};
use annealed::model::{Differentiable, Gaussian, GradientModel, UniformBox};
use annealed::nested::LevelPath;
use annealed::path::TemperedPath;
use annealed::pilot::{Friction, Pilot, ScheduleOptimizer, VarOpt};
use annealed::population::Resampling;
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use nalgebra::DVector;

type Vector = DVector<f64>;

/// The share of the prior on which the likelihood is not 0.
const SHARE: f64 = 0.04;

fn square() -> UniformBox {
    UniformBox::new([(-1.0, 1.0); 2]).unwrap()
}

/// The squared radius of a disc with that share of the square.
fn squared_radius() -> f64 {
    4.0 * SHARE / PI
}

/// `-10 r^2` within a disc off the middle, and nothing outside.
fn disc() -> impl Differentiable<State = Vector> + Sync {
    let disc = |x: &[f64], gradient: &mut [f64]| {
        let (a, b) = (x[0] - 0.3, x[1] + 0.2);
        gradient.copy_from_slice(&[-20.0 * a, -20.0 * b]);
        match a * a + b * b < squared_radius() {
            true => -10.0 * (a * a + b * b),
            false => f64::NEG_INFINITY,
        }
    };
    GradientModel::new(2, disc).unwrap()
}

fn exact() -> f64 {
    (PI / 40.0 * (1.0 - (-10.0 * squared_radius()).exp())).ln()
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

fn assert_log_z(log_z: f64, standard_error: f64, most: f64) {
    let error = log_z - exact();
    assert!(
        error.abs() <= 4.0 * standard_error,
        "{error}, {standard_error}"
    );
    assert!(standard_error < most, "{standard_error}");
}

#[test]
fn tuning_and_pilots_succeed_for_each_seed() {
    let disc = disc();
    let path = TemperedPath::new(square(), &disc);
    let pilot = Pilot::new(100, 50);
    let steps = RandomWalkMetropolis::new(0.2).unwrap(); // of the size of the disc
    for seed in 100..130 {
        let pass = FirstPass::new(&path, walk()).seed(seed);
        let tuned = pass.run().unwrap();
        let friction = Friction::default().pilot(pilot);
        let found = friction.optimize(&path, &steps, 30, seed).unwrap();
        let [Warning::InPilot(warning)] = &found.warnings[..] else {
            panic!("{:?}", found.warnings);
        };
        let Warning::DeadChains { dead, chains } = **warning else {
            panic!("{warning:?}");
        };
        let alive = (chains - dead) as f64 / chains as f64;
        assert!((alive / SHARE - 1.0).abs() < 0.7 && chains - dead >= 10);
        let varopt = VarOpt::default().pilot(pilot);
        let _ = varopt.optimize(&path, &steps, 30, seed).unwrap();
        let run = Ais::new(&path, tuned.kernel).schedule(found.schedule);
        let run = run.seed(seed).run().unwrap();
        assert_log_z(run.log_z(), run.standard_error(), 0.1);
        let acceptance = run.stages().last().unwrap().acceptance.unwrap();
        assert!((acceptance - 0.3).abs() < 0.1, "{acceptance}");
    }
}

#[test]
fn other_kernels_and_pilots_succeed_too() {
    let disc = disc();
    let path = TemperedPath::new(square(), &disc);
    let schedule = || Schedule::linear(30).unwrap();
    for seed in 0..4 {
        let pass = FirstPass::new(&path, Hmc::new(0.2, 3).unwrap());
        let tuned = pass.seed(seed).run().unwrap();
        let run = Ais::new(&path, tuned.kernel).schedule(schedule());
        let run = run.seed(seed).run().unwrap();
        assert_log_z(run.log_z(), run.standard_error(), 0.1);
        let pass = FirstPass::new(&path, walk()).chains(2_000).seed(seed);
        let found = pass.run().unwrap();
        let smc = Ais::new(&path, Repeat::new(found.kernel, 5).unwrap())
            .schedule(found.schedule)
            .chains(2_000)
            .resampling(Resampling::every(1).unwrap())
            .seed(seed)
            .run()
            .unwrap();
        assert_log_z(smc.log_z(), smc.standard_error(), 0.2);
        let rounds = Rounds::new(&path, walk()).chains(2_000).rounds(2);
        let rounds = rounds.seed(seed).run().unwrap();
        assert_log_z(rounds.log_z(), rounds.standard_error(), 0.2);
    }
}

/// The chains of a pilot as many as are asked for where enough of them live, and as many as it takes where not.
#[test]
fn a_pilot_has_chains_on_the_support() {
    let disc = disc();
    let path = TemperedPath::new(square(), &disc);
    for (chains, living) in [(20, 5), (100, 10), (400, 10)] {
        for seed in 0..10 {
            let survey = Pilot::new(chains, 5).survey(&path, &walk(), seed).unwrap();
            let dead = survey.points().iter().map(|point| point.dead).max();
            assert!(survey.chains() - dead.unwrap() >= living);
            assert!(survey.chains() <= 100 * chains);
            assert!(survey.chains() == chains || chains < 400);
        }
    }
    let nowhere = shared::function(|_: &Vector| f64::NEG_INFINITY);
    let path = TemperedPath::new(square(), nowhere);
    let none = |found: Result<()>| {
        let error = found.unwrap_err();
        assert!(matches!(error, Error::AllWeightsZero { .. }), "{error}");
    };
    none(Pilot::new(10, 5).survey(&path, &walk(), 1).map(drop));
    none(FirstPass::new(&path, walk()).run().map(drop));
}

/// A support that shrinks at each level: a first pass has no stage that is short enough, and says what to take.
#[test]
fn a_first_pass_on_levels_points_to_nested_smc() {
    let likelihood = shared::function(|x: &Vector| x[0]);
    let problem = TemperedPath::new(Gaussian::standard(1).unwrap(), likelihood);
    let path = LevelPath::new(&problem, (1..=8).map(|t| 0.5 * f64::from(t))).unwrap();
    let error = FirstPass::fixed(&path, walk()).run().unwrap_err();
    assert!(matches!(error, Error::AllWeightsZero { .. }), "{error}");
    assert!(error.to_string().contains("use `NestedSmc`"), "{error}");
}
