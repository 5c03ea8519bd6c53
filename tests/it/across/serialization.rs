//! Schedules, partial runs and results survive JSON bit for bit, dead chains included (feature
//! `serde`).
#![cfg(feature = "serde")]

use crate::shared;
use annealed::ais::{Ais, Run, RunPart};
use annealed::drift::{
    BumpFeatures, DriftModifiedLangevin, EnsembleModifier, QuadratureModifier, RidgeGibbs,
    RidgePrior, RidgeState, SeparableModifier, ShiftMonitor,
};
use annealed::estimate::LogZ;
use annealed::kernel::{Either, LocalMetropolis, Preconditioner, RandomWalkMetropolis, Slice};
use annealed::model::{
    Gaussian, JointPrior, Prior, Priors, StudentT, UniformBox, UnnormalizedModel,
};
use annealed::path::{GaussianPath, GeometricPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dmatrix, dvector};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

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
        shared::function(half),
    );
    let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap())
        .schedule(Schedule::linear(30).unwrap())
        .chains(400)
        .block_size(50);
    let whole = ais.run().unwrap();
    assert!(whole.estimate().dead_chains() > 0);
    let parts = [0..150, 150..400].map(|range| through_json(&ais.run_range(range).unwrap()));
    let merged = RunPart::merge(parts).unwrap();
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
        let part: RunPart<DVector<f64>> = serde_json::from_value(json).unwrap();
        RunPart::merge([part]).unwrap_err().to_string()
    };
    for (key, value) in [
        ("/settings/block_size", 0.into()),
        ("/settings/chains", 0.into()),
        ("/settings/chains", 11.into()),
        ("/settings/recorded_stages", 0.into()),
        ("/nodes/0/level", 64.into()),
        ("/nodes/0/index", u64::MAX.into()),
        (
            "/nodes/0/value/chains/log_weights",
            serde_json::json!([0.0]),
        ),
        ("/nodes/0/value/sums/windows", serde_json::json!([])),
    ] {
        let message = damaged(key, value);
        assert!(message.contains("parts"), "{key}: {message}");
    }
}

#[test]
fn a_run_that_contradicts_itself_is_refused_as_it_is_read() {
    let path = GeometricPath::new(
        Gaussian::isotropic(dvector![0.0], 1.0).unwrap(),
        Gaussian::isotropic(dvector![1.0], 1.0).unwrap(),
    );
    let run = Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap())
        .schedule(Schedule::linear(2).unwrap())
        .chains(10)
        .run()
        .unwrap();
    for (key, value) in [
        ("/settings/chains", json!(18_000_000_000_000_000_000_u64)),
        ("/settings/chains", json!(11)),
        ("/settings/chains", json!(0)),
        ("/settings/block_size", json!(0)),
        ("/settings/recorded_stages", json!(1)),
        ("/settings/schedule", json!([0.0, 1.0])),
        ("/chains/states", json!([])),
        ("/chains/log_weights", json!([0.0])),
        ("/chains/roots", json!([0])),
        ("/sums", json!([])),
        ("/sums/0/level", json!(1)),
        ("/sums/0/level", json!(64)),
        ("/sums/0/value/windows", json!([])),
    ] {
        refused::<Run<DVector<f64>>>(&run, key, value);
    }
}

#[test]
fn a_diagonal_gaussian_is_written_by_its_variances() {
    let wide = Gaussian::diagonal(DVector::zeros(1_000), DVector::from_element(1_000, 0.3));
    let wide = wide.unwrap();
    assert!(serde_json::to_string(&wide).unwrap().len() < 10_000);
    assert_eq!(through_json(&wide), wide);
    // As a matrix it is read too.
    let two = Gaussian::diagonal(dvector![1.0, 2.0], dvector![3.0, 4.0]).unwrap();
    let full = json!({"mean": [[1.0, 2.0], 2, null], "covariance": [[3.0, 0.0, 0.0, 4.0], 2, 2]});
    assert_eq!(serde_json::from_value::<Gaussian>(full).unwrap(), two);
    refused::<Gaussian>(&two, "/covariance", json!([[3.0], 1, 1]));
    refused::<Gaussian>(&two, "/covariance", json!([[3.0, -1.0], 2, 1]));
}

#[test]
fn matrices_without_the_entries_of_their_shape_are_refused() {
    // The product of the sizes is 2^64, and 0 where it wraps around.
    let hollow = json!([[], 4_294_967_296_u64, 4_294_967_296_u64]);
    let gaussian = Gaussian::new(dvector![0.0, 0.0], dmatrix![2.0, 1.0; 1.0, 2.0]).unwrap();
    refused::<Gaussian>(&gaussian, "/covariance", hollow.clone());
    let shape = Preconditioner::covariance(&dmatrix![2.0, 1.0; 1.0, 2.0]).unwrap();
    assert_eq!(through_json(&shape), shape);
    refused::<Preconditioner>(&shape, "/0/1", hollow.clone());
    let prior = RidgePrior::new(dmatrix![1.0, 2.0; 0.0, 1.0], 1.0, 0.3).unwrap();
    refused::<RidgePrior>(&prior, "/design", hollow);
    // This one has a precision of 32,769^2 entries.
    let wide = json!([vec![1.0; 32_769], 1, 32_769]);
    refused::<RidgePrior>(&prior, "/design", wide);
}

type Table = SeparableModifier<QuadratureModifier>;

#[test]
fn modifiers_and_their_kernels_survive_and_are_validated_as_they_are_read() {
    let normal = |mean, deviation| Gaussian::isotropic(dvector![mean], deviation).unwrap();
    let path = GaussianPath::new(normal(0.0, 1.0), normal(0.5, 0.8)).unwrap();
    let schedule = Schedule::linear(3).unwrap();
    let table = QuadratureModifier::new(&path, &schedule, (-6.0, 6.0), 101).unwrap();
    let separable = SeparableModifier::new([table]);
    let kernel = DriftModifiedLangevin::new(separable, 0.1).unwrap();
    assert_eq!(through_json(&kernel), kernel);
    let kernel = kernel.bounded(0.5).unwrap();
    assert_eq!(through_json(&kernel), kernel);
    for (key, value) in [
        ("/bound", json!(-1.0)),
        ("/step_size/0/1", json!(0.0)),
        ("/modifier/factors", json!([])),
        ("/modifier/factors/0/grid/points", json!(2)),
        ("/modifier/factors/0/grid/spacing", json!(-0.1)),
        ("/modifier/factors/0/betas/1", json!(0.1)),
        ("/modifier/factors/0/betas", json!([])),
        ("/modifier/factors/0/tables", json!([[0.0]])),
        ("/modifier/factors/0/tables/0", json!([0.0])),
    ] {
        refused::<DriftModifiedLangevin<Table>>(&kernel, key, value);
    }
    let features = BumpFeatures::new(1, &[dvector![0.3]], &[0.5, 1.0]).unwrap();
    let learned = EnsembleModifier::fit(&path, features, &schedule, 0.1, 50, 1).unwrap();
    assert_eq!(through_json(&learned), learned);
    for (key, value) in [
        ("/features/dimension", json!(0)),
        ("/features/dimension", json!(2)),
        ("/features/bumps/0/precision", json!(0.0)),
        ("/betas/0", json!(0.9)),
        ("/coefficients", json!([])),
        ("/coefficients/2", json!([[1.0], 1, null])),
        ("/errors", json!([0.1])),
    ] {
        refused::<EnsembleModifier<BumpFeatures>>(&learned, key, value);
    }
    through_json(&ShiftMonitor::new(kernel));
}

#[test]
fn ridge_values_survive_and_are_validated_as_they_are_read() {
    let prior = RidgePrior::new(dmatrix![1.0, 2.0; 0.0, 1.0], 1.0, 0.3).unwrap();
    let state = RidgeState {
        w: dvector![0.3, -0.2],
        z: dvector![0.1, 0.4],
    };
    let read = through_json(&prior);
    assert_eq!(
        read.log_density(&through_json(&state)),
        prior.log_density(&state)
    );
    refused::<RidgePrior>(&prior, "/deviation", json!(0.0));
    refused::<RidgePrior>(&prior, "/prior_deviation", json!(-1.0));
    let kernel = RidgeGibbs::collapsed();
    assert_eq!(through_json(&kernel), kernel);
}

#[test]
fn bases_and_priors_are_validated_as_they_are_read() {
    let student = StudentT::new(Gaussian::standard(2).unwrap(), 4.0).unwrap();
    assert_eq!(through_json(&student), student);
    refused::<StudentT>(&student, "/degrees_of_freedom", json!(0.0));
    let sides = UniformBox::new([(0.0, 1.0), (-1.0, 2.0)]).unwrap();
    assert_eq!(through_json(&sides), sides);
    refused::<UniformBox>(&sides, "/1/0", json!(2.0));
    let priors = Priors::new([
        Prior::normal(1.0, 2.0).unwrap(),
        Prior::student_t(3.0, 0.0, 1.0).unwrap(),
        Prior::gamma(2.0, 0.5).unwrap(),
        Prior::half_cauchy(1.5).unwrap(),
        Prior::uniform(-1.0, 3.0).unwrap(),
        Prior::inverse_gamma(3.0, 2.0).unwrap(),
    ]);
    let priors = priors.unwrap();
    assert_eq!(through_json(&priors), priors);
    for (key, value) in [
        ("", json!([])),
        ("/priors/0/Single/location", json!(null)),
        ("/priors/0/Single/scale", json!(0.0)),
        ("/priors/1/Single/law/Student/degrees", json!(0.0)),
        ("/priors/2/Single/law/LogGamma/shape", json!(-1.0)),
        ("/priors/4/Single/law/LogitBeta/b", json!(0.0)),
        ("/priors/4/Single/support/Interval/low", json!(3.0)),
    ] {
        refused::<Priors>(&priors, key, value);
    }
}

#[test]
fn priors_of_several_parameters_survive() {
    let normal = Prior::normal(0.0, 1.0).unwrap();
    let priors = Priors::new([
        Prior::gamma(2.0, 1.0).unwrap().into(),
        JointPrior::dirichlet([0.5, 1.0, 2.0]).unwrap(),
        JointPrior::ordered(normal, 3).unwrap(),
        JointPrior::effects(normal, 2, None, Some(0)).unwrap(),
        JointPrior::correlation(3, 2.0).unwrap(),
    ]);
    let priors = priors.unwrap();
    assert_eq!(through_json(&priors), priors);
    for (key, value) in [
        ("/priors/1/Dirichlet/1", json!(0.0)),
        ("/priors/2/Ordered/count", json!(0)),
        ("/priors/3/Effects/scale", json!(9)),
        ("/priors/4/Correlation/size", json!(1)),
        ("/priors/4/Correlation/shape", json!(-1.0)),
    ] {
        refused::<Priors>(&priors, key, value);
    }
}

#[test]
fn kernels_that_hold_others_survive() {
    type Two = Either<RandomWalkMetropolis, Slice>;
    let kernel: Two = Either::Second(Slice::new(0.5).unwrap());
    assert_eq!(through_json(&kernel), kernel);
    let kernel = LocalMetropolis::new((), 3).unwrap();
    assert_eq!(through_json(&kernel), kernel);
    refused::<LocalMetropolis<()>>(&kernel, "/moves", json!(0));
}

/// The value with one entry replaced cannot be read.
fn refused<T: DeserializeOwned>(value: &impl Serialize, key: &str, entry: serde_json::Value) {
    let mut json = serde_json::to_value(value).unwrap();
    *json.pointer_mut(key).expect(key) = entry;
    assert!(serde_json::from_value::<T>(json).is_err(), "{key}");
}
