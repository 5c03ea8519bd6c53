//! All results show one face: the trait `LogZ` says what their own methods say, and each is one line of text.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared;
use annealed::adaptive::{Challenge, Rounds};
use annealed::ais::{Ais, RunPart};
use annealed::bidirectional::{Bridge, TargetSamples};
use annealed::estimate::LogZ;
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::{Gaussian, NormalizedModel};
use annealed::nested::NestedSmc;
use annealed::path::{GeometricPath, TemperedPath};
use annealed::population::{Resampling, WasteFree};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::{DVector, dvector};

/// The trait is not in scope, so that a method called of a result is one of its own.
type Face<'a> = &'a dyn annealed::estimate::LogZ;
type Path = GeometricPath<Gaussian, Gaussian>;

fn target() -> Gaussian {
    Gaussian::isotropic(dvector![1.0, -1.0], 0.4).unwrap()
}

fn path() -> Path {
    GeometricPath::new(Gaussian::standard(2).unwrap(), target())
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.6).unwrap()
}

fn ais(path: &Path) -> Ais<'_, &Path, RandomWalkMetropolis> {
    Ais::new(path, walk())
        .schedule(Schedule::linear(20).unwrap())
        .chains(400)
        .block_size(20)
}

/// The face agrees with the result's own methods.
macro_rules! assert_face {
    ($result:expr) => {{
        let (own, face): (_, Face) = (&$result, &$result);
        assert_eq!(face.log_z(), own.log_z());
        assert_eq!(face.standard_error(), own.standard_error());
        assert_eq!(face.interval(), own.interval());
        assert_eq!(face.warnings(), own.warnings());
        assert_eq!(face.evaluations(), own.evaluations());
        assert_eq!(face.seconds(), own.seconds());
        for level in [0.5, 0.95] {
            assert_eq!(
                face.interval_at(level).unwrap(),
                own.interval_at(level).unwrap()
            );
        }
        let bound = own.certified_lower_bound(0.9).unwrap();
        assert_eq!(face.certified_lower_bound(0.9).unwrap(), bound);
        assert_sound(face);
        bound
    }};
}

fn assert_sound(face: Face) {
    let (text, log_z) = (face.to_string(), face.log_z());
    let (lower, upper) = face.interval();
    assert_eq!(face.interval_at(0.95).unwrap(), (lower, upper), "{text}");
    assert!(lower < log_z && log_z < upper, "{text}");
    assert!(
        (log_z - target().log_normalizer()).abs() < 5.0 * face.standard_error(),
        "{text}"
    );
    assert!(face.evaluations() > 0 && face.seconds() >= 0.0, "{text}");
    for level in [0.0, 1.0, f64::NAN] {
        assert!(face.interval_at(level).is_err() && face.certified_lower_bound(level).is_err());
    }
    assert!(
        match face.is_skewed() {
            true => text.starts_with(&format!("log Z = {log_z:.3} (")),
            false => text.starts_with(&format!("log Z = {log_z:.3} +- ")),
        },
        "{text}"
    );
    assert!(
        text.contains(&format!("95% interval {lower:.3} to {upper:.3}")),
        "{text}"
    );
    let spent = format!(", {:.1e} evaluations)", face.evaluations());
    assert!(text.lines().next().unwrap().ends_with(&spent), "{text}");
    let written = text
        .lines()
        .skip_while(|line| !line.starts_with("warning: "));
    let expected = face
        .warnings()
        .iter()
        .map(|warning| format!("warning: {warning}"));
    assert_eq!(written.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn the_trait_log_z_agrees_with_a_run() {
    let path = path();
    let run = ais(&path).run().unwrap();
    assert!(assert_face!(run).is_some());
    let resampling = Resampling::when_ess_below(0.5).unwrap();
    let resampled = ais(&path).resampling(resampling).run().unwrap();
    assert!(assert_face!(resampled).is_some());
    let few = ais(&path).chains(20).run().unwrap();
    assert!(!few.warnings().is_empty());
    assert_face!(few);
}

#[test]
fn the_trait_log_z_agrees_with_runs_of_both_directions() {
    let path = path();
    let run = ais(&path).run().unwrap();
    let exact = ais(&path)
        .reverse(&TargetSamples::draw(&target(), 300, 1))
        .unwrap();
    let again = ais(&path).resampled(&run, 10).unwrap();
    let approximate = ais(&path).reverse(&again).unwrap();
    assert_eq!(assert_face!(exact), None);
    assert_eq!(assert_face!(approximate), None);
    let both = Bridge::new(&run, &exact).unwrap();
    assert_eq!(assert_face!(both), None);
    assert_eq!(both.evaluations(), run.evaluations() + exact.evaluations());
    assert_eq!(both.seconds(), run.seconds() + exact.seconds());
    let no_surer = Bridge::new(&run, &approximate).unwrap();
    assert_eq!(assert_face!(no_surer), None);
    for level in [0.3, 0.9, 0.99] {
        let of_bennett = no_surer.estimate().interval_at(level).unwrap();
        let (lower, upper) = run.interval_at(level).unwrap();
        let widest = (lower.min(of_bennett.0), upper.max(of_bennett.1));
        assert_eq!(no_surer.interval_at(level).unwrap(), widest);
        let joint = both.estimate().interval_at(level).unwrap();
        assert_eq!(both.interval_at(level).unwrap(), joint);
    }
}

#[test]
fn the_trait_log_z_agrees_with_tempering_and_levels() {
    let path = path();
    let tempering = Tempering::new(&path, walk()).schedule(Schedule::linear(6).unwrap());
    let tempered = tempering.ladders(8).rounds(8).run().unwrap();
    assert_eq!(assert_face!(tempered), None);
    let ratio = |x: &DVector<f64>| {
        let far = (x - dvector![1.0, -1.0]).norm_squared() / 0.16;
        0.5 * x.norm_squared() - 0.5 * far + std::f64::consts::TAU.ln()
    };
    let tempered = TemperedPath::new(Gaussian::standard(2).unwrap(), shared::function(ratio));
    let levels = NestedSmc::new(&tempered, walk()).islands(30).run().unwrap();
    assert!(assert_face!(levels).is_some());
}

#[test]
fn the_trait_log_z_agrees_with_runs_that_adapt() {
    let path = path();
    let rounds = Rounds::new(&path, walk()).rounds(3).run().unwrap();
    assert!(assert_face!(rounds).is_some());
    assert_eq!(rounds.interval(), rounds.run().interval());
    // A round counts the evaluation of each chain's first state, too.
    assert_eq!(
        rounds.run().evaluations() + rounds.run().chains() as u64,
        rounds.rounds().last().unwrap().evaluations
    );
}

#[test]
fn the_trait_log_z_agrees_with_challenges() {
    let path = path();
    let first = ais(&path).run().unwrap();
    let found = Challenge::new(&path, walk(), &first).budget(20_000).run();
    let found = found.unwrap();
    assert!(assert_face!(found).is_some());
    assert_eq!(found.log_z(), first.log_z());
    // What misses three quarters of the mass gives way to the second run.
    let off = path.base().log_normalizer() - 4_f64.ln();
    let low = Ais::with_base_log_z(&path, walk(), off)
        .schedule(Schedule::linear(20).unwrap())
        .chains(400)
        .run()
        .unwrap();
    let found = Challenge::new(&path, walk(), &low).budget(20_000).run();
    let found = found.unwrap();
    assert!(assert_face!(found).is_some());
    assert_eq!(found.log_z(), found.second().log_z());
    assert_eq!(found.warnings()[0].name(), "FirstRunTooLow");
    assert!(found.evaluations() > found.second().evaluations());
}

#[test]
fn bounds_on_simulated_data_say_what_they_cost() {
    let path = path();
    let bounds = ais(&path).sandwich(&dvector![1.0, -1.0]).unwrap();
    let both = 2 * ais(&path).run().unwrap().evaluations();
    assert_eq!(bounds.evaluations, both);
}

/// The kernel counts its evaluations as the target meets them; waste-free runs move fewer chains a stage.
#[test]
fn evaluations_are_counted_as_the_target_meets_them() {
    let met = AtomicU64::new(0);
    let model = shared::function(|x: &DVector<f64>| {
        met.fetch_add(1, Ordering::Relaxed);
        -x.norm_squared()
    });
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), model);
    let ais = || {
        let ais = Ais::new(&path, walk()).schedule(Schedule::linear(50).unwrap());
        ais.chains(200).block_size(20)
    };
    let resampling = Resampling::when_ess_below(0.9).unwrap();
    let samples = TargetSamples::approximate(vec![dvector![0.1, 0.2]; 200]);
    let waste_free = WasteFree::new(4).unwrap();
    let counts = [
        ais().run().unwrap().evaluations(),
        ais().resampling(resampling).run().unwrap().evaluations(),
        ais().reverse(&samples).unwrap().evaluations(),
        ais().waste_free(waste_free).run().unwrap().evaluations(),
    ];
    let counted: u64 = counts.iter().sum();
    assert_eq!(counts, [200 * 50; 4]);
    let ratio = met.load(Ordering::Relaxed) as f64 / counted as f64;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    let parts = [0..100, 100..200].map(|range| ais().run_range(range).unwrap());
    let [first, second] = parts;
    assert_eq!(
        RunPart::merge([first.clone()]).unwrap().evaluations(),
        counts[0] / 2
    );
    assert_eq!(
        RunPart::merge([first, second]).unwrap().evaluations(),
        counts[0]
    );
}

#[cfg(feature = "serde")]
mod written {
    use annealed::ais::Run;
    use serde::Serialize;
    use serde_json::{Value, from_value, to_value};

    use super::*;

    fn json(result: &impl Serialize) -> Value {
        to_value(result).unwrap()
    }

    #[test]
    fn a_saved_run_keeps_its_number_of_evaluations() {
        let path = path();
        let run = ais(&path).run().unwrap();
        let mut written = json(&run);
        let read: Run<DVector<f64>> = from_value(written.clone()).unwrap();
        assert_eq!(read.evaluations(), run.evaluations());
        let longer = ais(&path).chains(600).extend(read).unwrap();
        assert_eq!(longer.evaluations(), 3 * run.evaluations() / 2);
        assert!(
            written
                .as_object_mut()
                .unwrap()
                .remove("evaluations")
                .is_some()
        );
        let older: Run<DVector<f64>> = from_value(written).unwrap();
        assert_eq!(older.evaluations(), 0);
        assert_eq!(older.log_z(), run.log_z());
    }

    #[test]
    fn every_result_can_be_written_as_json() {
        let path = path();
        let run = ais(&path).run().unwrap();
        let samples = TargetSamples::draw(&target(), 300, 1);
        let reverse = ais(&path).reverse(&samples).unwrap();
        let bridge = json(&Bridge::new(&run, &reverse).unwrap());
        assert_eq!(
            bridge["evaluations"],
            run.evaluations() + reverse.evaluations()
        );
        let tempering = Tempering::new(&path, walk()).schedule(Schedule::linear(6).unwrap());
        assert!(json(&tempering.rounds(4).run().unwrap())["evaluations"].is_u64());
        let rounds = Rounds::new(&path, walk()).rounds(2).run().unwrap();
        let written = json(&rounds);
        assert_eq!(written["rounds"].as_array().unwrap().len(), 3);
        let read: Run<DVector<f64>> = from_value(written["run"].clone()).unwrap();
        assert_eq!(read.log_z(), rounds.log_z());
        let found = annealed::adaptive::FirstPass::new(&path, walk())
            .run()
            .unwrap();
        assert_eq!(json(&found)["log_z"], found.log_z);
        let tail = |x: &DVector<f64>| match x[0] > 1.5 {
            true => -x[0],
            false => f64::NEG_INFINITY,
        };
        let tail = TemperedPath::new(Gaussian::standard(1).unwrap(), shared::function(tail));
        let levels = NestedSmc::new(&tail, walk()).islands(10).run().unwrap();
        let written = json(&levels);
        assert_eq!(written["levels"][0]["level"], Value::Null);
        assert_eq!(written["evaluations"], levels.evaluations());
    }
}
