//! Schedules, partial runs and results survive JSON bit for bit, dead chains included (feature
//! `serde`).
#![cfg(feature = "serde")]

use annealed::ais::{Ais, PartialRun, Run};
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::{FunctionModel, Gaussian};
use annealed::path::GeometricPath;
use annealed::schedule::Schedule;
use nalgebra::{DVector, dvector};
use serde::{Serialize, de::DeserializeOwned};

fn through_json<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[test]
fn a_schedule_is_validated_as_it_is_read() {
    let schedule = Schedule::power(7, 2.0).unwrap();
    assert_eq!(through_json(&schedule), schedule);
    let error = serde_json::from_str::<Schedule>("[0.0, 0.7, 0.5, 1.0]").unwrap_err();
    assert!(error.to_string().contains("strictly increasing"), "{error}");
}

#[test]
fn parts_saved_by_several_processes_merge_to_the_same_bits() {
    let half = |x: &DVector<f64>| if x[0] > 0.0 { -x[0] } else { f64::NEG_INFINITY };
    let path = GeometricPath::new(
        Gaussian::isotropic(dvector![1.0], 1.0).unwrap(),
        FunctionModel::new(half),
    );
    let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap())
        .schedule(Schedule::linear(30).unwrap())
        .chains(400)
        .block_size(50);
    let whole = ais.run().unwrap();
    assert!(whole.estimate().dead_chains() > 0);
    let parts = [0..150, 150..400].map(|range| through_json(&ais.run_range(range).unwrap()));
    let merged = PartialRun::merge(parts).unwrap();
    assert_eq!(merged.log_z().to_bits(), whole.log_z().to_bits());
    assert_eq!(merged.log_weights(), whole.log_weights());
    assert_eq!(merged.stages(), whole.stages());
    let read: Run<DVector<f64>> = through_json(&merged);
    assert_eq!(read.log_weights(), whole.log_weights());
    assert_eq!(read.log_z(), whole.log_z());
    assert_eq!(read.warnings(), whole.warnings());
}

#[test]
fn a_damaged_part_is_refused() {
    let path = GeometricPath::new(
        Gaussian::isotropic(dvector![0.0], 1.0).unwrap(),
        Gaussian::isotropic(dvector![1.0], 1.0).unwrap(),
    );
    let part = Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap())
        .schedule(Schedule::linear(2).unwrap())
        .chains(10)
        .run_range(0..10)
        .unwrap();
    let damaged = |key: &str, value: serde_json::Value| {
        let mut json = serde_json::to_value(&part).unwrap();
        *json.pointer_mut(key).unwrap() = value;
        let part: PartialRun<DVector<f64>> = serde_json::from_value(json).unwrap();
        PartialRun::merge([part]).unwrap_err().to_string()
    };
    for (key, value) in [
        ("/settings/block_size", 0.into()),
        ("/settings/chains", 0.into()),
        ("/settings/chains", 11.into()),
        ("/settings/windows/width", 0.into()),
        ("/nodes/0/level", 64.into()),
        ("/nodes/0/index", u64::MAX.into()),
        ("/nodes/0/value/log_weights", serde_json::json!([0.0])),
        ("/nodes/0/value/windows", serde_json::json!([])),
    ] {
        let message = damaged(key, value);
        assert!(message.contains("parts"), "{key}: {message}");
    }
}
