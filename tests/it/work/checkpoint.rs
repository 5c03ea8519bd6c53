//! A run that was interrupted goes on from its checkpoint to the bits of one that was not (feature `checkpoint`).
#![cfg(feature = "checkpoint")]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use annealed::ais::{Ais, Merge, Progress, Recorder, StoppedBy};
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::kernel::{Block, Hmc, RandomWalkMetropolis, Stage};
use annealed::model::Gaussian;
use annealed::path::GeometricPath;
use annealed::population::{Resampling, WasteFree};
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use annealed::{Error, Result};
use nalgebra::{DMatrix, DVector, dvector};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::shared::gaussians::{GaussianPair, narrow_path};

/// A folder of its own, which goes with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("annealed-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("run.ckpt")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// All that a run says, its time and what ended it aside.
fn said(run: &impl Serialize) -> String {
    let mut value = serde_json::to_value(run).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.remove("seconds").unwrap();
    fields.remove("stopped_by").unwrap();
    value.to_string()
}

/// The sum of the first coordinates at each recorded stage.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Sums(Vec<f64>);

impl Merge for Sums {
    fn merge(&mut self, right: Self) {
        let sums = self.0.iter_mut().zip(right.0);
        sums.for_each(|(mine, theirs)| *mine += theirs);
    }
}

impl<M: annealed::path::Intermediate<State = DVector<f64>>> Recorder<M> for Sums {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<DVector<f64>>) {
        self.0.push(block.states().iter().map(|x| x[0]).sum());
    }
}

type Recorded<'p> = Ais<'p, &'p GaussianPair, Hmc, Sums>;

/// Seven blocks of 12 stages, the last one not full. The kernel knows gradients of the states, and a recorder looks on.
fn recorded(path: &GaussianPair) -> Recorded<'_> {
    Ais::new(path, Hmc::new(0.3, 2).unwrap())
        .schedule(Schedule::linear(12).unwrap())
        .block_size(10)
        .chains(63)
        .seed(3)
        .recorder(Sums::default())
}

fn resampled(path: &GaussianPair) -> Recorded<'_> {
    recorded(path).resampling(Resampling::when_ess_below(0.7).unwrap())
}

fn walk(path: &GaussianPair) -> Ais<'_, &GaussianPair, RandomWalkMetropolis> {
    Ais::new(path, RandomWalkMetropolis::new(0.5).unwrap())
        .schedule(Schedule::linear(12).unwrap())
        .block_size(10)
        .chains(63)
        .seed(3)
}

/// Stops a run when so many chain-steps are done.
fn stop(after: u64) -> impl Fn(Progress) -> ControlFlow<()> + Sync {
    move |progress| match progress.done >= after {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Stops a run time and again, on other numbers of threads, until it is done. `run` runs it anew or resumes it, on
/// so many threads, until so many chain-steps are done.
fn assert_goes_on<T: Serialize>(
    whole: &T,
    pauses: &[u64],
    mut run: impl FnMut(bool, usize, u64) -> Result<T>,
) {
    for (i, &pause) in pauses.iter().chain([&u64::MAX]).enumerate() {
        match run(i > 0, 1 + (i + pauses.len()) % 3, pause) {
            Ok(run) if pause == u64::MAX => assert_eq!(said(&run), said(whole), "{pauses:?}"),
            Ok(_) | Err(Error::Stopped { .. }) => {}
            Err(error) => panic!("{error} after {pauses:?}"),
        }
    }
}

/// Chain-steps at which to stop a run of so many.
fn pauses(total: u64) -> Vec<Vec<u64>> {
    let mut pauses: Vec<Vec<u64>> = (0..12).map(|i| vec![1 + i * total / 12]).collect();
    pauses.push(vec![total / 5, total / 2, total - 5]);
    pauses.push((1..20).map(|i| i * total / 20).collect());
    pauses
}

macro_rules! assert_goes_on {
    ($name:literal, $total:expr, $ais:expr) => {
        let folder = Folder::new($name);
        let whole = $ais.run().unwrap();
        for pauses in pauses($total) {
            assert_goes_on(&whole, &pauses, |goes_on, threads, pause| {
                let ais = $ais.threads(threads).progress(stop(pause));
                let checkpointed = ais.checkpoint(folder.file());
                match goes_on {
                    true => checkpointed.resume(),
                    false => checkpointed.run(),
                }
            });
        }
    };
}

#[test]
fn plain_runs_go_on() {
    let path = narrow_path();
    assert_goes_on!("plain", 63 * 12, recorded(&path));
}

#[test]
fn resampled_runs_go_on() {
    let path = narrow_path();
    assert_goes_on!("resampled", 63 * 12, resampled(&path));
}

#[test]
fn waste_free_runs_go_on() {
    let path = narrow_path();
    let waste_free = || walk(&path).waste_free(WasteFree::new(3).unwrap());
    assert_goes_on!("waste_free", 63 * 12, waste_free());
}

#[test]
fn runs_of_rbms_go_on() {
    let weight = |j, i| ((7 * j + 3 * i) % 11) as f32 / 5.0 - 1.1;
    let zeros = |units| DVector::zeros(units);
    let target = Rbm::new(DMatrix::from_fn(20, 30, weight), zeros(20), zeros(30)).unwrap();
    let fair = BaseRate::uniform(20, 30).unwrap();
    let dark = BaseRate::from_rates(20, &DVector::repeat(30, 0.1)).unwrap();
    let mixture = BaseRate::mixture([(0.5, fair.clone()), (0.5, dark)]).unwrap();
    for base in [fair, mixture] {
        let path = RbmPath::new(base, target.clone()).unwrap();
        let ais = || {
            Ais::new(&path, BlockGibbs)
                .schedule(Schedule::linear(12).unwrap())
                .block_size(40)
                .chains(100)
        };
        assert_goes_on!("rbm", 100 * 12, ais());
    }
}

fn tempering(path: &GaussianPair) -> Tempering<'_, &GaussianPair, Hmc> {
    Tempering::new(path, Hmc::new(0.3, 2).unwrap())
        .schedule(Schedule::linear(4).unwrap())
        .ladders(5)
        .block_size(2)
        .rounds(5)
        .samples(33)
        .seed(3)
}

/// Chain-steps of the 62 scans of 5 rounds.
const TEMPERING: u64 = 5 * 5 * 62;

#[test]
fn tempered_runs_go_on() {
    let path = narrow_path();
    assert_goes_on!("tempering", TEMPERING, tempering(&path));
}

#[test]
fn nothing_is_lost_where_a_callback_stops_a_tempered_run() {
    let (folder, path) = (Folder::new("nothing_of_ladders"), narrow_path());
    for pause in [20, 130, 1_000] {
        let run = tempering(&path).threads(3).progress(stop(pause));
        let _ = run.checkpoint(folder.file()).run();
        let (first, last) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let run = tempering(&path).threads(1).progress(|at: Progress| {
            assert_eq!(at.total, TEMPERING);
            first.fetch_min(at.done, Ordering::Relaxed);
            last.fetch_max(at.done, Ordering::Relaxed);
        });
        let _ = run.checkpoint(folder.file()).resume().unwrap();
        assert!(first.load(Ordering::Relaxed) > pause);
        assert_eq!(last.load(Ordering::Relaxed), TEMPERING);
    }
}

#[test]
fn a_finished_tempered_run_is_there_at_once_and_takes_more_rounds() {
    let (folder, path) = (Folder::new("rounds"), narrow_path());
    let run = tempering(&path).checkpoint(folder.file()).run().unwrap();
    let written = std::fs::read(folder.file()).unwrap();
    let never = |_| -> () { panic!("there is nothing to do") };
    let idle = tempering(&path).progress(never);
    let again = idle.checkpoint(folder.file()).resume().unwrap();
    assert_eq!(said(&again), said(&run));
    assert_eq!(std::fs::read(folder.file()).unwrap(), written);
    let more = || tempering(&path).rounds(7);
    let longer = more().checkpoint(folder.file()).resume().unwrap();
    assert_eq!(said(&longer), said(&more().run().unwrap()));
    let fewer = tempering(&path).checkpoint(folder.file()).resume();
    let message = fewer.unwrap_err().to_string();
    let expected = "rounds: got 5, expected at least 7";
    assert!(message.contains(expected), "{message}");
    // To a standard error.
    let until = |error| tempering(&path).rounds(9).until_error(error);
    let whole = until(0.2).run().unwrap();
    assert_eq!(whole.stopped_by(), StoppedBy::StandardError);
    let _ = until(0.2).checkpoint(folder.file()).run().unwrap();
    let again = until(0.2)
        .progress(never)
        .checkpoint(folder.file())
        .resume();
    let again = again.unwrap();
    assert_eq!(said(&again), said(&whole));
    assert_eq!(again.stopped_by(), StoppedBy::StandardError);
}

#[test]
fn every_setting_of_a_tempered_run_that_differs_from_the_checkpoint_is_named() {
    let (folder, path) = (Folder::new("ladders_differ"), narrow_path());
    let run = || tempering(&path);
    let _ = run().checkpoint(folder.file()).run().unwrap();
    let kernel = Hmc::new(0.3, 3).unwrap();
    let other_kernel = Tempering::new(&path, kernel).schedule(Schedule::linear(4).unwrap());
    let other_kernel = other_kernel
        .ladders(5)
        .block_size(2)
        .rounds(5)
        .samples(33)
        .seed(3);
    for (run, expected) in [
        (
            run().seed(4),
            "of another run, which has seed 3; this run has 4",
        ),
        (run().ladders(6), "ladders 5; this run has 6"),
        (run().block_size(1), "block_size 2; this run has 1"),
        (run().samples(40), "samples 33; this run has 40"),
        (
            run().schedule(Schedule::power(4, 2.0).unwrap()),
            "schedule with beta_1 = 0.25",
        ),
        (other_kernel, "a kernel that moves otherwise"),
    ] {
        let refused = run.checkpoint(folder.file()).resume();
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}, {expected}");
    }
    let ais = recorded(&path);
    let message = ais.checkpoint(folder.file()).resume().unwrap_err();
    let expected = "is a checkpoint of \"tempering\", expected one of \"ais\"";
    assert!(message.to_string().contains(expected), "{message}");
}

#[test]
fn nothing_is_lost_where_a_callback_stops_a_run() {
    let (folder, path) = (Folder::new("nothing_is_lost"), narrow_path());
    for pause in [20, 130, 500] {
        let ais = recorded(&path).threads(3).progress(stop(pause));
        let _ = ais.checkpoint(folder.file()).run();
        let (first, last) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let ais = recorded(&path).threads(1).progress(|at: Progress| {
            assert_eq!(at.total, 63 * 12);
            first.fetch_min(at.done, Ordering::Relaxed);
            last.fetch_max(at.done, Ordering::Relaxed);
        });
        let _ = ais.checkpoint(folder.file()).resume().unwrap();
        assert!(first.load(Ordering::Relaxed) > pause);
        assert_eq!(last.load(Ordering::Relaxed), 63 * 12);
    }
}

#[test]
fn a_file_that_a_run_writes_is_refused_to_others() {
    let (folder, path) = (Folder::new("or_begins"), narrow_path());
    let whole = recorded(&path).run().unwrap();
    for pause in [300, u64::MAX, u64::MAX] {
        let ais = recorded(&path).threads(2).progress(|at: Progress| {
            assert!(at.checkpoint_age.is_some());
            let other = walk(&path).checkpoint(folder.file()).run();
            let message = other.unwrap_err().to_string();
            assert!(message.contains("another run is writing it"), "{message}");
            stop(pause)(at)
        });
        let checkpointed = ais.checkpoint(folder.file()).every(Duration::ZERO);
        match checkpointed.resume_or_run() {
            Ok(run) => assert_eq!(pause < u64::MAX, said(&run) != said(&whole)),
            Err(error) => assert!(matches!(error, Error::Stopped { .. }), "{error}"),
        }
    }
    let tempered = tempering(&path);
    let file = folder.0.join("tempered");
    let first = tempered.checkpoint(&file).resume_or_run().unwrap();
    let second = tempered.checkpoint(&file).resume_or_run().unwrap();
    assert_eq!(said(&first), said(&second));
}

#[test]
fn a_time_limit_leaves_what_is_done() {
    let (folder, path) = (Folder::new("time_limit"), narrow_path());
    let ais = || recorded(&path).schedule(Schedule::linear(2_000).unwrap());
    let whole = ais().run().unwrap();
    let limited = ais().threads(2).time_limit(Duration::from_millis(5));
    let mut found = limited.checkpoint(folder.file()).run();
    let mut calls = 1;
    while !found.as_ref().is_ok_and(|run| run.chains() == 63) {
        found = limited.checkpoint(folder.file()).resume();
        calls += 1;
    }
    let run = found.unwrap();
    assert_eq!(said(&run), said(&whole));
    assert!(run.seconds() > 0.005 * f64::from(calls - 1), "{calls}");
}

#[test]
fn a_finished_run_is_there_at_once_and_takes_more_chains() {
    let (folder, path) = (Folder::new("finished"), narrow_path());
    let run = recorded(&path).checkpoint(folder.file()).run().unwrap();
    let written = std::fs::read(folder.file()).unwrap();
    let idle = || {
        let never = |_| -> () { panic!("there is nothing to do") };
        recorded(&path).progress(never)
    };
    let again = idle().checkpoint(folder.file()).resume().unwrap();
    assert_eq!(said(&again), said(&run));
    assert_eq!(again.stopped_by(), StoppedBy::Chains);
    assert_eq!(std::fs::read(folder.file()).unwrap(), written);
    // The last block was not full.
    for chains in [66, 150] {
        let more = || recorded(&path).chains(chains);
        let longer = more().checkpoint(folder.file()).resume().unwrap();
        assert_eq!(said(&longer), said(&more().run().unwrap()));
    }
    let fewer = recorded(&path).checkpoint(folder.file()).resume();
    let message = fewer.unwrap_err().to_string();
    assert!(
        message.contains("chains: got 63, expected at least 150"),
        "{message}"
    );
}

#[test]
fn a_stopped_run_takes_more_chains() {
    let (folder, path) = (Folder::new("takes_more"), narrow_path());
    for pause in [100, 300, 740] {
        let ais = resampled(&path).threads(3).progress(stop(pause));
        let _ = ais.checkpoint(folder.file()).run();
        let more = || resampled(&path).chains(91);
        let longer = more().checkpoint(folder.file()).resume().unwrap();
        assert_eq!(said(&longer), said(&more().run().unwrap()));
    }
}

#[test]
fn a_run_to_a_standard_error_is_there_at_once() {
    let (folder, path) = (Folder::new("standard_error"), narrow_path());
    let until = |error| walk(&path).chains(100_000).until_error(error);
    let whole = until(0.05).run().unwrap();
    assert_eq!(whole.stopped_by(), StoppedBy::StandardError);
    for pause in [200, 4_000] {
        let ais = until(0.05).threads(3).progress(stop(pause));
        let _ = ais.checkpoint(folder.file()).run();
        let run = until(0.05).threads(2).checkpoint(folder.file()).resume();
        assert_eq!(said(&run.unwrap()), said(&whole));
        let never = |_| -> () { panic!("there is nothing to do") };
        let again = until(0.05)
            .progress(never)
            .checkpoint(folder.file())
            .resume();
        let again = again.unwrap();
        assert_eq!(said(&again), said(&whole));
        assert_eq!(again.stopped_by(), StoppedBy::StandardError);
    }
    // A smaller error takes more chains.
    let run = until(0.03).checkpoint(folder.file()).resume().unwrap();
    assert_eq!(said(&run), said(&until(0.03).run().unwrap()));
}

#[test]
fn every_setting_that_differs_from_the_checkpoint_is_named() {
    let (folder, path) = (Folder::new("differs"), narrow_path());
    let ais = || resampled(&path);
    let _ = ais().checkpoint(folder.file()).run().unwrap();
    let linear = |steps| Schedule::linear(steps).unwrap();
    let every = Resampling::every(2).unwrap();
    let curved = Schedule::power(12, 1.5).unwrap();
    let elsewhere = GeometricPath::new(
        Gaussian::standard(2).unwrap(),
        Gaussian::isotropic(dvector![1.0, -2.1], 0.5).unwrap(),
    );
    let kernel = Hmc::new(0.3, 3).unwrap();
    let other_kernel = Ais::new(&path, kernel).recorder(Sums::default());
    let other_kernel = other_kernel
        .schedule(linear(12))
        .block_size(10)
        .chains(63)
        .seed(3);
    let other_kernel = other_kernel.resampling(Resampling::when_ess_below(0.7).unwrap());
    let other_base = Ais::with_base_log_z(&path, Hmc::new(0.3, 2).unwrap(), 1.5);
    let other_base = other_base
        .recorder(Sums::default())
        .schedule(linear(12))
        .block_size(10);
    let other_base = other_base.chains(63).seed(3);
    let other_base = other_base.resampling(Resampling::when_ess_below(0.7).unwrap());
    for (ais, expected) in [
        (
            ais().seed(4),
            "of another run, which has seed 3; this run has 4",
        ),
        (ais().block_size(11), "block_size 10; this run has 11"),
        (
            ais().recorded_stages(7),
            "recorded_stages 1000; this run has 7",
        ),
        (ais().chains(50), "chains: got 50, expected at least 63"),
        (ais().pilot(), "purpose RUN; this run has PILOT"),
        (
            ais().schedule(linear(13)),
            "a number of stages of 12; this run has 13",
        ),
        (ais().schedule(curved), "schedule with beta_1 = 0.0833"),
        (
            ais().resampling(every),
            "resampling Some(Resampling(Resampling { rule: EssBelow(0.7)",
        ),
        (recorded(&path), "; this run has None"),
        (other_base, "a path from another base, with log normalizer"),
        (resampled(&elsewhere), "a path from or to another model"),
        (other_kernel, "a kernel that moves otherwise"),
    ] {
        let message = ais
            .checkpoint(folder.file())
            .resume()
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with(&folder.file().display().to_string()),
            "{message}"
        );
        assert!(message.contains(expected), "{message}, {expected}");
    }
    let label = ais()
        .checkpoint(folder.file())
        .label("of May")
        .resume()
        .unwrap_err();
    let expected = "labelled not at all, expected \"of May\"";
    assert!(label.to_string().contains(expected), "{label}");
}

#[test]
fn a_file_that_can_never_be_written_is_an_error() {
    let (folder, path) = (Folder::new("never_written"), narrow_path());
    let idle = || {
        let never = |_| -> () { panic!("the run began") };
        recorded(&path).progress(never)
    };
    for file in [
        folder.0.join("nowhere/run.ckpt"),
        folder.0.clone(),
        PathBuf::from("/"),
    ] {
        let error = idle().checkpoint(&file).run().unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error}");
        assert!(idle().checkpoint(&file).resume().is_err());
    }
}

#[test]
fn a_file_that_cannot_be_written_any_more_is_a_warning() {
    let (folder, path) = (Folder::new("not_any_more"), narrow_path());
    let away = folder.0.join("away");
    let moved = |run: &annealed::ais::Run<_, Sums>| {
        let warnings = run.warnings().iter();
        let of_checkpoints = |w: &&Warning| matches!(w, Warning::CheckpointNotWritten { .. });
        warnings.filter(of_checkpoints).count()
    };
    for back in [false, true] {
        std::fs::create_dir(&away).unwrap();
        let ais = recorded(&path).threads(2).progress(|at: Progress| {
            if at.done >= 200 {
                let _ = std::fs::remove_dir_all(&away);
            }
            if back && at.done >= 500 {
                let _ = std::fs::create_dir(&away);
            }
        });
        let checkpointed = ais.checkpoint(away.join("run.ckpt"));
        let run = checkpointed.every(Duration::ZERO).run().unwrap();
        let plain = recorded(&path).run().unwrap();
        assert_eq!(run.log_weights(), plain.log_weights());
        // What counts is the last attempt.
        assert_eq!(moved(&run), usize::from(!back), "{run}");
        let _ = std::fs::remove_dir_all(&away);
    }
}

/// A comparison of bytes does not see a field that serde skips.
#[test]
fn states_that_cannot_be_kept_are_refused_before_the_run() {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    struct Hidden {
        #[serde(skip)]
        x: f64,
    }

    let model = || annealed::model::FunctionModel::new(|x: &Hidden| -x.x * x.x);
    let base = model().with_sampler(|rng| Hidden { x: rng.random() });
    let path = GeometricPath::new(base, model());
    struct Turn;
    impl annealed::kernel::SymmetricProposal<Hidden> for Turn {
        fn propose<R: rand::Rng + ?Sized>(
            &self,
            _beta: f64,
            state: &Hidden,
            proposal: &mut Hidden,
            _rng: &mut R,
        ) {
            proposal.x = -state.x;
        }
    }
    let folder = Folder::new("cannot_be_kept");
    let kernel = annealed::kernel::Metropolis(Turn);
    let ais = Ais::with_base_log_z(&path, kernel, 0.0).chains(10);
    let message = ais.checkpoint(folder.file()).run().unwrap_err().to_string();
    assert!(message.contains("states"), "{message}");
    assert!(!folder.file().exists());
}

const CHILD: &str = "ANNEALED_CHECKPOINT";

/// The run that is killed: plain or resampled, seconds of work.
fn long(path: &GaussianPair, resampled: bool) -> Recorded<'_> {
    let ais = recorded(path).chains(123).threads(2);
    let ais = ais.schedule(Schedule::linear(10_000).unwrap());
    match resampled {
        true => ais.resampling(Resampling::when_ess_below(0.7).unwrap()),
        false => ais,
    }
}

/// Goes on with a run if there is a checkpoint, and begins it otherwise.
macro_rules! go_on {
    ($run:expr, $file:expr) => {{
        let run = $run;
        let checkpointed = run.checkpoint($file).every(Duration::from_millis(3));
        let run = match $file.exists() {
            true => checkpointed.resume().unwrap(),
            false => checkpointed.run().unwrap(),
        };
        std::fs::write($file.with_extension("result"), said(&run)).unwrap();
    }};
}

fn long_tempering(path: &GaussianPair) -> Tempering<'_, &GaussianPair, Hmc> {
    tempering(path).rounds(15).threads(2)
}

/// The process that is killed.
#[test]
#[ignore = "is called by another test"]
fn child() {
    if let Ok(file) = std::env::var(CHILD) {
        let (file, path) = (PathBuf::from(file), narrow_path());
        match file.file_stem().unwrap().to_str().unwrap() {
            "tempering" => go_on!(long_tempering(&path), &file),
            kind => go_on!(long(&path, kind == "resampled"), &file),
        }
    }
}

#[test]
fn a_process_that_is_killed_at_any_moment_loses_little() {
    let folder = Folder::new("killed");
    let name = concat!(module_path!(), "::child");
    let name = name.split_once("::").unwrap().1;
    let mut rng = stream(1, Purpose::TESTING, 0);
    for kind in ["plain", "resampled", "tempering"] {
        let file = folder.0.join(format!("{kind}.ckpt"));
        let start = || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let command = command
                .args(["--exact", name, "--ignored"])
                .env(CHILD, &file);
            command.stdout(Stdio::null()).spawn().unwrap()
        };
        let written = || {
            std::fs::metadata(&file)
                .and_then(|file| file.modified())
                .ok()
        };
        let mut killed = 0;
        for i in 0..7 {
            let before = written();
            let mut child = start();
            let has_ended = |child: &mut Child| child.try_wait().unwrap().is_some();
            // Every second one is killed soon after it has written a checkpoint.
            while i % 2 == 1 && written() == before && !has_ended(&mut child) {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(rng.random_range(0..30)));
            killed += u32::from(!has_ended(&mut child));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(killed >= 3, "{kind}: {killed}");
        assert!(start().wait().unwrap().success());
        let found = std::fs::read_to_string(file.with_extension("result")).unwrap();
        let path = narrow_path();
        let whole = match kind {
            "tempering" => said(&long_tempering(&path).run().unwrap()),
            _ => said(&long(&path, kind == "resampled").run().unwrap()),
        };
        assert!(found == whole, "{kind}");
    }
}

/// The sums, which cannot be merged while this flag is set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Torn(Sums);

static TEARS: AtomicBool = AtomicBool::new(false);

impl Merge for Torn {
    fn merge(&mut self, right: Self) {
        assert!(!TEARS.load(Ordering::Relaxed), "torn");
        self.0.merge(right.0);
    }
}

impl<M: annealed::path::Intermediate<State = DVector<f64>>> Recorder<M> for Torn {
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<DVector<f64>>) {
        self.0.record(stage, block);
    }
}

#[test]
fn a_panic_in_merging_leaves_the_checkpoint_before() {
    let (folder, path) = (Folder::new("merging"), narrow_path());
    let ais = |chains| {
        Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap())
            .schedule(Schedule::linear(20).unwrap())
            .block_size(10)
            .recorder(Torn::default())
            .threads(1)
            .chains(chains)
    };
    let _ = ais(30).checkpoint(folder.file()).run().unwrap();
    TEARS.store(true, Ordering::Relaxed);
    let again = ais(80);
    let again = again.checkpoint(folder.file()).every(Duration::ZERO);
    let torn = again.resume().unwrap_err();
    TEARS.store(false, Ordering::Relaxed);
    assert!(torn.to_string().contains("in merging: torn"), "{torn}");
    let least = AtomicU64::new(u64::MAX);
    let resumed = ais(80).progress(|at: Progress| {
        least.fetch_min(at.done, Ordering::Relaxed);
    });
    let resumed = resumed.checkpoint(folder.file()).resume().unwrap();
    assert_eq!(said(&resumed), said(&ais(80).run().unwrap()));
    // The finished blocks of the first call are still there.
    assert!(least.load(Ordering::Relaxed) > 30 * 20);
}

#[test]
fn a_missing_folder_is_named() {
    let (folder, path) = (Folder::new("missing"), narrow_path());
    let file = folder.0.join("none/run.ckpt");
    let message = tempering(&path).checkpoint(&file).run().unwrap_err();
    let expected = format!("there is no folder {}", folder.0.join("none").display());
    assert!(message.to_string().contains(&expected), "{message}");
}
