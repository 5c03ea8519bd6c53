//! Runs of another path or kernel are not joined, pooled, merged or extended, whatever direction they have.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shared;
use annealed::Error;
use annealed::ais::{Ais, Run, RunPart};
use annealed::bidirectional::{Bridge, TargetSamples};
use annealed::estimate::LogZ;
use annealed::kernel::{Hmc, Mala, RandomWalkMetropolis, Repeat, Reversal};
use annealed::model::Gaussian;
use annealed::path::GeometricPath;
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dmatrix, dvector};

type Path = GeometricPath<Gaussian, Gaussian>;

fn target(deviation: f64) -> Gaussian {
    Gaussian::isotropic(dvector![1.0, -2.0], deviation).unwrap()
}

fn path(base: f64, deviation: f64) -> Path {
    let base = Gaussian::isotropic(dvector![0.0, 0.0], base).unwrap();
    GeometricPath::new(base, target(deviation))
}

fn walk(size: f64) -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(size).unwrap()
}

fn ais<K: for<'a> Reversal<PathAt<'a>>>(path: &Path, kernel: K) -> Ais<'_, &Path, K> {
    Ais::with_base_log_z(path, kernel, 0.0)
        .schedule(Schedule::linear(20).unwrap())
        .chains(200)
        .block_size(50)
}

type PathAt<'a> = <&'a Path as annealed::path::AnnealingPath>::At;
type Vectors = Run<DVector<f64>>;

fn message<T>(refused: Result<T, Error>) -> String {
    refused.err().expect("refused").to_string()
}

/// Returns the messages of the four functions that refuse a run of another path or kernel.
fn refusals<K>(other: &Ais<'_, &Path, K>) -> [String; 4]
where
    K: for<'a> Reversal<PathAt<'a>> + Sync,
{
    let path = path(1.0, 0.5);
    let mine = || ais(&path, walk(0.5));
    let samples = TargetSamples::draw(&target(0.5), 100, 1);
    let run = mine().run().unwrap();
    let parts = [mine().run_range(0..100), other.run_range(100..200)].map(Result::unwrap);
    let seeds: [Vectors; 2] = [mine().seed(7).run().unwrap(), other.run().unwrap()];
    [
        message(Bridge::new(&run, &other.reverse(&samples).unwrap())),
        message(mine().chains(300).extend(other.run().unwrap())),
        message(RunPart::merge(parts)),
        message(Run::pooled(&seeds)),
    ]
}

#[test]
fn another_base_or_target_is_refused() {
    for other in [path(1.0, 0.6), path(1.1, 0.5)] {
        for message in refusals(&ais(&other, walk(0.5))) {
            assert!(
                message.contains("another model (base, target or data)"),
                "{message}"
            );
        }
    }
}

#[test]
fn another_kernel_or_step_size_is_refused() {
    let path = path(1.0, 0.5);
    let found = [
        refusals(&ais(&path, walk(0.6))),
        refusals(&ais(&path, Repeat::new(walk(0.5), 2).unwrap())),
        refusals(&ais(&path, Hmc::new(0.5, 3).unwrap())),
        refusals(&ais(&path, Mala::new(0.5).unwrap())),
    ];
    for message in found.iter().flatten() {
        assert!(message.contains("kernel that moves otherwise"), "{message}");
    }
}

#[test]
fn a_target_of_another_constant_is_refused_and_rounding_is_not() {
    let base = || Gaussian::standard(2).unwrap();
    let model = |constant: f64, share: f64| {
        shared::function(move |x: &DVector<f64>| constant - x.norm_squared() * share)
    };
    let path = |constant, share| GeometricPath::new(base(), model(constant, share));
    let schedule = Schedule::linear(20).unwrap();
    let run = |constant, share| {
        let path = path(constant, share);
        let ais = Ais::new(&path, walk(0.5)).schedule(schedule.clone());
        ais.chains(100).run().unwrap()
    };
    let path = path(1e3, 1.0);
    let ais = Ais::new(&path, walk(0.5)).schedule(schedule.clone());
    let ais = ais.chains(200);
    let rounded = run(1e3, 1.0 + 1e-12);
    assert_ne!(rounded.log_z(), run(1e3, 1.0).log_z());
    assert_eq!(ais.extend(rounded).unwrap().chains(), 200);
    assert!(message(ais.extend(run(1e3 + 0.1, 1.0))).contains("another model"));
}

#[test]
fn machines_of_other_weights_are_refused() {
    let weights = dmatrix![1.0_f64, -1.0, 0.5, 2.0, -0.7; -0.5, 1.0, 2.0, 0.1, 0.9];
    let path = |factor: f64| {
        let visible = dvector![0.1, -0.2, 0.3, -1.0, 0.4];
        let rbm = Rbm::new(&weights * factor, dvector![0.2, -0.3], visible).unwrap();
        RbmPath::new(BaseRate::uniform(2, 5).unwrap(), rbm).unwrap()
    };
    let (mine, other) = (path(1.0), path(1.01));
    let run = |path| Ais::new(path, BlockGibbs).chains(100).run().unwrap();
    let more = |path| Ais::new(path, BlockGibbs).chains(300);
    assert!(message(more(&mine).extend(run(&other))).contains("of another run"));
    assert_eq!(more(&mine).extend(run(&mine)).unwrap().chains(), 300);
    let twice = Repeat::new(BlockGibbs, 2).unwrap();
    let other = Ais::new(&mine, twice).chains(300).extend(run(&mine));
    assert!(message(other).contains("kernel that moves otherwise"));
}

#[test]
fn the_fingerprint_of_a_run_costs_a_few_dozen_evaluations() {
    let evaluations = AtomicUsize::new(0);
    let model = shared::function(|x: &DVector<f64>| {
        evaluations.fetch_add(1, Ordering::Relaxed);
        -x.norm_squared()
    });
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), model);
    let of_run = |chains| {
        evaluations.store(0, Ordering::Relaxed);
        let ais = Ais::new(&path, walk(0.5)).schedule(Schedule::linear(10).unwrap());
        let run = ais.chains(chains).block_size(100).run().unwrap();
        assert!(run.log_z().is_finite());
        evaluations.load(Ordering::Relaxed)
    };
    let fixed = 2 * of_run(100) - of_run(200);
    assert!((1..=60).contains(&fixed), "{fixed}");
    assert!(fixed * 20 < of_run(100), "{fixed} of {}", of_run(100));
}

/// Runs that an older version of this crate has saved say nothing of path and kernel.
#[cfg(feature = "serde")]
#[test]
fn saved_runs_without_a_fingerprint_are_accepted() {
    let (mine, other) = (path(1.0, 0.5), path(1.0, 0.6));
    let run = ais(&other, walk(0.5)).run().unwrap();
    let more = || ais(&mine, walk(0.5)).chains(300);
    let mut json = serde_json::to_value(&run).unwrap();
    let read: Vectors = serde_json::from_value(json.clone()).unwrap();
    assert!(message(more().extend(read)).contains("another model"));
    assert!(json.as_object_mut().unwrap().remove("probe").is_some());
    let read: Vectors = serde_json::from_value(json).unwrap();
    assert_eq!(more().extend(read).unwrap().chains(), 300);
    let part = ais(&other, walk(0.5)).run_range(0..100).unwrap();
    let mut json = serde_json::to_value(&part).unwrap();
    assert!(json.as_object_mut().unwrap().remove("probe").is_some());
    let read: RunPart<DVector<f64>> = serde_json::from_value(json).unwrap();
    let rest = more().chains(200).run_range(100..200).unwrap();
    assert_eq!(RunPart::merge([read, rest]).unwrap().chains(), 200);
}
