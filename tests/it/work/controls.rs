//! Every runner can be stopped, gone on with and limited in time: the bits are those of a run that was left alone.
#![cfg(feature = "checkpoint")]

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::shared::{
    self,
    gaussians::{GaussianPair, narrow_path},
};
use annealed::Error;
use annealed::adaptive::{Challenge, ChallengeRun, Rounds, RoundsRun};
use annealed::ais::{Ais, Progress, Run};
use annealed::estimate::LogZ;
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::model::Gaussian;
use annealed::nested::{NestedSmc, NestedSmcRun};
use annealed::path::TemperedPath;
use annealed::population::{Resampling, WasteFree};
use annealed::schedule::Schedule;
use annealed::tempering::{Tempering, TemperingRun};
use nalgebra::DVector;

type Vector = DVector<f64>;

/// A file of its own, which goes with this value.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("annealed-controls-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// All bits of a result that do not depend on time.
trait Said {
    fn said(&self) -> String;
}

fn bits(log_z: f64, error: f64, more: &dyn std::fmt::Debug) -> String {
    format!("{} {} {more:?}", log_z.to_bits(), error.to_bits())
}

impl Said for Run<Vector> {
    fn said(&self) -> String {
        bits(
            self.log_z(),
            self.standard_error(),
            &(self.states(), self.stages()),
        )
    }
}

impl Said for TemperingRun<Vector> {
    fn said(&self) -> String {
        let more = (self.states(), self.schedule(), self.evaluations());
        bits(self.log_z(), self.standard_error(), &more)
    }
}

impl Said for NestedSmcRun<Vector> {
    fn said(&self) -> String {
        let more = (self.states(), self.levels(), self.evaluations());
        bits(self.log_z(), self.standard_error(), &more)
    }
}

impl<K: std::fmt::Debug> Said for RoundsRun<Vector, K> {
    fn said(&self) -> String {
        let rounds = self
            .rounds()
            .iter()
            .map(|round| (round.stages, round.log_z));
        let more = (
            rounds.collect::<Vec<_>>(),
            self.run().states(),
            self.kernel(),
        );
        bits(self.log_z(), self.standard_error(), &more)
    }
}

impl Said for ChallengeRun<'_, Vector> {
    fn said(&self) -> String {
        let (judgement, second) = (self.judgement(), self.second());
        let more = (judgement, second.states(), self.evaluations());
        bits(second.log_z(), second.standard_error(), &more)
    }
}

/// Stops a run once so many chain-steps are done.
fn stop_at(steps: u64) -> impl Fn(Progress) -> ControlFlow<()> + Sync {
    move |at| match at.done >= steps {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// One row of the table: a runner made by an expression, which is tried with all controls.
macro_rules! row {
    ($name:literal, $make:expr) => {{
        let make = $make;
        let whole = make().threads(1).run().unwrap().said();
        for threads in [2, 8] {
            assert_eq!(make().threads(threads).run().unwrap().said(), whole, "{threads} threads");
        }
        // Progress goes to its end.
        let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
        let watch = |at: Progress| {
            done.fetch_max(at.done, Ordering::Relaxed);
            total.store(at.total, Ordering::Relaxed);
        };
        assert_eq!(make().progress(watch).run().unwrap().said(), whole);
        let steps = total.load(Ordering::Relaxed);
        assert_eq!(done.load(Ordering::Relaxed), steps);
        let place = Place::new($name);
        let (file, copy) = (&place.0, place.0.with_extension("killed"));
        for share in [0.0, 0.07, 0.3, 0.55, 0.8, 0.97] {
            // Stopped by its callback, and gone on with.
            let moment = (share * steps as f64) as u64;
            let stopped = make().threads(2).progress(stop_at(moment));
            let found = stopped.checkpoint(file).run();
            assert!(!matches!(&found, Err(error) if !matches!(error, Error::Stopped { .. })));
            let resumed = make().threads(2).checkpoint(file).resume().unwrap();
            assert_eq!(resumed.said(), whole, "stopped at {moment} of {steps}");
            // Killed: the file as it was at some moment.
            let taken = Mutex::new(false);
            let take = |at: Progress| {
                let mut taken = taken.lock().unwrap();
                if at.done >= moment && !*taken {
                    fs::copy(file, &copy).unwrap();
                    *taken = true;
                }
            };
            let run = make().threads(2).progress(take);
            let run = run.checkpoint(file).every(Duration::ZERO).run();
            assert_eq!(run.unwrap().said(), whole);
            let resumed = make().checkpoint(&copy).resume().unwrap();
            assert_eq!(resumed.said(), whole, "killed at {moment} of {steps}");
        }
        fs::remove_file(copy).unwrap();
        // No time at all leaves no result, or that of what was finished.
        let limited = make().time_limit(Duration::ZERO).checkpoint(file).run();
        assert!(!matches!(&limited, Err(error) if !matches!(error, Error::Stopped { .. })));
        assert_eq!(make().checkpoint(file).resume_or_run().unwrap().said(), whole);
        // Asked to stop from the first step on.
        let asked = AtomicBool::new(true);
        let stopped = make().threads(1).stop_when(|| asked.load(Ordering::Relaxed)).run();
        assert!(stopped.is_err() || stopped.unwrap().said() != whole);
    }};
}

fn plain(path: &GaussianPair) -> Ais<'_, &GaussianPair, Hmc> {
    Ais::new(path, Hmc::new(0.3, 2).unwrap())
        .schedule(Schedule::linear(9).unwrap())
        .chains(70)
        .block_size(16)
}

#[test]
fn plain_runs_keep_their_bits_when_stopped_and_continued() {
    let path = narrow_path();
    row!("plain", || plain(&path));
}

#[test]
fn resampled_runs_keep_their_bits_when_stopped_and_continued() {
    let path = narrow_path();
    row!("resampled", || plain(&path)
        .resampling(Resampling::when_ess_below(0.8).unwrap()));
}

#[test]
fn waste_free_runs_keep_their_bits_when_stopped_and_continued() {
    let path = narrow_path();
    row!("waste-free", || plain(&path)
        .waste_free(WasteFree::new(4).unwrap()));
}

#[test]
fn tempered_runs_keep_their_bits_when_stopped_and_continued() {
    let path = narrow_path();
    row!("tempering", || {
        Tempering::new(&path, Hmc::new(0.3, 2).unwrap())
            .schedule(Schedule::linear(4).unwrap())
            .ladders(5)
            .block_size(2)
            .rounds(5)
            .samples(20)
    });
}

#[test]
fn runs_over_levels_keep_their_bits_when_stopped_and_continued() {
    let likelihood = shared::function(|x: &Vector| -8.0 * x.norm_squared());
    let problem = TemperedPath::new(Gaussian::standard(2).unwrap(), likelihood);
    let walk = RandomWalkMetropolis::new(0.5).unwrap();
    row!("levels", || NestedSmc::new(&problem, walk.clone())
        .islands(6)
        .chains(16)
        .moves(8)
        .kept(50));
}

#[test]
fn rounds_keep_their_bits_when_stopped_and_continued() {
    let path = narrow_path();
    let kernel = || Hmc::new(0.3, 2).unwrap();
    row!("rounds", || Rounds::new(&path, kernel())
        .chains(60)
        .rounds(3)
        .block_size(20));
    row!("fitted", || Rounds::new(&path, kernel())
        .chains(60)
        .rounds(3)
        .block_size(20)
        .fitted());
}

#[test]
fn challenges_keep_their_bits_when_stopped_and_continued() {
    let path = narrow_path();
    let first = plain(&path).run().unwrap();
    let kernel = || Hmc::new(0.3, 2).unwrap();
    row!("challenge", || Challenge::new(&path, kernel(), &first)
        .budget(20_000));
}

/// The last round gets the rest of the budget. It may have far more than twice as many stages as the round before.
#[test]
fn rounds_with_a_very_long_last_round_continue() {
    let path = narrow_path();
    let make = || {
        let rounds = Rounds::new(&path, RandomWalkMetropolis::new(0.5).unwrap());
        rounds.chains(2).rounds(1).budget(500_000)
    };
    let total = AtomicU64::new(0);
    let watch = |at: Progress| total.store(at.total, Ordering::Relaxed);
    let whole = make().progress(watch).run().unwrap();
    assert!(whole.rounds().last().unwrap().stages > 200_000);
    let place = Place::new("long-last-round");
    let moment = total.load(Ordering::Relaxed) - 1;
    let stopped = make().progress(stop_at(moment)).checkpoint(&place.0).run();
    assert!(!matches!(&stopped, Err(error) if !matches!(error, Error::Stopped { .. })));
    // The second time from the file of a finished run.
    for _ in 0..2 {
        let resumed = make().checkpoint(&place.0).resume().unwrap();
        assert_eq!(resumed.said(), whole.said());
    }
}
