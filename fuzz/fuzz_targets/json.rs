//! JSON of all that serde reads, the program's saved runs among them, and the text of a schedule. The first byte chooses
//! the type. What was read is used: printed, evaluated, merged.
#![no_main]

use std::fmt::Debug;
use std::path::Path;

use annealed::ais::{Run, RunPart};
use annealed::drift::{
    BumpFeatures, DriftModifiedLangevin, EnsembleModifier, QuadratureModifier, RidgeModifier,
    RidgePrior, SeparableModifier,
};
use annealed::estimate::{Estimate, LogZ, Warning};
use annealed::harmonium::{CategoricalUnits, GaussianUnits, Harmonium};
use annealed::kernel::{Hmc, Preconditioner};
use annealed::learned::{AmortizedTransitions, LearnedTransitions};
use annealed::model::{
    Bernoulli, Gaussian, GaussianMixture, Priors, Sampleable, StudentT, UniformBox,
    UnnormalizedModel,
};
use annealed::pilot::{ScheduleMetric, Survey};
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, Rbm, RbmMoments, Start};
use annealed::schedule::Schedule;
use annealed::tempering::TemperingRun;
use annealed_fuzz::{path, seeds, within};
use libfuzzer_sys::fuzz_target;
use nalgebra::DVector;
use serde::de::DeserializeOwned;

#[allow(dead_code)] // The program also writes.
#[path = "../../crates/annealed-cli/src/saved.rs"]
mod saved;

type Vector = DVector<f64>;

/// Reads a value and prints it. A number of two characters takes 16 bytes while a list of log weights grows.
fn read<T: DeserializeOwned + Debug>(bytes: &[u8]) -> Option<T> {
    let limit = (256 << 10) + 64 * bytes.len();
    let value: T = within(limit, || serde_json::from_slice(bytes).ok())?;
    assert!(!format!("{value:?}").is_empty());
    Some(value)
}

/// Evaluates a model at a sample of its own.
fn sampled<M: Sampleable + DeserializeOwned + Debug>(bytes: &[u8]) {
    if let Some(model) = read::<M>(bytes)
        && model.state_dimension().is_none_or(|d| d < 1_000)
    {
        let state = model.sample(&mut stream(1, Purpose::TESTING, 0));
        model.log_density(&state);
    }
}

fn used<S: Clone>(run: &Run<S>) -> String {
    let (lower, upper) = run.interval();
    assert!(
        lower.is_nan() || upper.is_nan() || lower <= upper,
        "{lower} to {upper}"
    );
    let bounds = (
        run.certified_lower_bound(0.95),
        run.jackknife(1, 1),
        run.thermodynamic_log_z(),
    );
    let (picture, missing) = (
        annealed_plot::runs([("", run)])
            .save(path("picture"))
            .is_ok(),
        run.missing(),
    );
    let variance = run.estimate().var_log_weight();
    format!(
        "{run} {bounds:?} {missing:?} {picture} {variance} {:?}",
        run.stages()
    )
}

fn merged<S: Clone + DeserializeOwned>(part: RunPart<S>) {
    let _ = (part.missing(), part.finished());
    if let Ok(run) = RunPart::merge([part]) {
        used(&run);
        let _ = Run::pooled(&[run]).map(|estimate| estimate.to_string());
    }
}

/// Reads a file as `annealed merge` does.
fn of_program(bytes: &[u8]) {
    let file = path("saved");
    std::fs::write(&file, bytes).expect("there is memory for the file");
    let _ = saved::start_of(&file).map(|start| start.to_string());
    let known = saved::Known::of_files(std::slice::from_ref(&file));
    let Ok(part) = saved::read::<saved::State>(&file) else {
        return;
    };
    if let Ok(run) = RunPart::merge([part]) {
        used(&run);
        let doubts: Vec<Warning> = known.doubts(&run, &[]);
        let _ = saved::write(&path("again"), &run.into(), &known);
        assert!(doubts.iter().all(|doubt| !doubt.to_string().is_empty()));
    }
}

/// Writes a value of each type, as seeds, to the folder that `ANNEALED_FUZZ_SEEDS` names.
fn prepare() {
    let Some(folder) = std::env::var_os("ANNEALED_FUZZ_SEEDS") else {
        return;
    };
    for (i, (kind, text)) in seeds::json().expect("they are valid").iter().enumerate() {
        let file = Path::new(&folder).join(format!("{kind}-{i}"));
        std::fs::write(file, [&[*kind], text.as_bytes()].concat()).expect("the folder is there");
    }
    std::process::exit(0);
}

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 28 {
        0 => drop(read::<Schedule>(rest).map(|schedule| schedule.with_step_limit(0.2))),
        1 => drop(read::<Run<Vector>>(rest).map(|run| used(&run))),
        2 => drop(read::<RunPart<Vector>>(rest).map(merged)),
        3 => of_program(rest),
        4 => drop(read::<Start>(rest).map(|start| (start.to_string(), start.too_low().len()))),
        5 => sampled::<Gaussian>(rest),
        6 => sampled::<StudentT>(rest),
        7 => sampled::<UniformBox>(rest),
        8 => sampled::<Priors>(rest),
        9 => sampled::<GaussianMixture>(rest),
        10 => drop(read::<Preconditioner>(rest)),
        11 => sampled::<Bernoulli>(rest),
        12 => drop(read::<Rbm<f32>>(rest).map(|rbm| {
            rbm.log_density(&vec![true; rbm.visible_units()])
        })),
        13 => sampled::<BaseRate<f64>>(rest),
        14 => drop(read::<Harmonium<GaussianUnits>>(rest)),
        15 => drop(read::<Harmonium<CategoricalUnits>>(rest)),
        16 => drop(read::<RidgePrior>(rest)),
        17 => drop(read::<RidgeModifier>(rest)),
        18 => drop(read::<SeparableModifier<QuadratureModifier>>(rest)),
        19 => drop(read::<EnsembleModifier<BumpFeatures>>(rest)),
        20 => drop(read::<DriftModifiedLangevin<RidgeModifier>>(rest)),
        21 => drop(read::<LearnedTransitions>(rest)),
        22 => drop(read::<AmortizedTransitions>(rest)),
        23 => drop(read::<TemperingRun<Vector>>(rest).map(|run| run.to_string())),
        24 => drop(read::<(Survey, Estimate, ScheduleMetric)>(rest)),
        25 => drop(read::<RbmMoments>(rest).map(|moments| moments.average(&moments, 0.5))),
        26 => drop(read::<Hmc>(rest)),
        _ => {
            let file = path("schedule");
            std::fs::write(&file, rest).expect("there is memory for the file");
            let limit = (64 << 10) + 64 * rest.len();
            let _ = within(limit, || Schedule::load(&file));
        }
    }
});
