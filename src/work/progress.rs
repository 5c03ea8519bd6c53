//! Progress of a long run: the report to a callback, and the meter that counts steps and calls it.

use std::fmt;
#[cfg(feature = "progress")]
use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Name of work that comes before or after a run, such as `search for a start`; empty for a run. The figures count
    /// this work only.
    pub task: &'static str,
    /// Number of chain-steps done, including earlier calls that this call resumes. A chain-step is a stage or a move of
    /// one chain.
    pub done: u64,
    /// Total number of chain-steps, if nothing stops the run early. The forecast changes if the run finds its own
    /// stages.
    pub total: u64,
    /// Seconds since this call began.
    pub seconds: f64,
    /// Forecast of the seconds left if nothing stops the run early; infinite before the first step.
    pub seconds_left: f64,
    /// Estimate from the finished chains. It is `None` before the first chain, and in runs of
    /// [`Tempering`](crate::tempering::Tempering), `NestedSmc` and pilots.
    pub so_far: Option<SoFar>,
    /// Seconds since the last checkpoint, or since this call began; `None` in a run without checkpoints. A value far
    /// above the interval between checkpoints shows that checkpoints cannot be written.
    pub checkpoint_age: Option<f64>,
}

/// Estimate from the finished chains of an unfinished run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SoFar {
    /// Number of finished chains.
    pub chains: usize,
    /// Estimate of `log Z_K`.
    pub log_z: f64,
    /// Effective sample size of the weights, `(sum w)^2 / sum w^2`.
    pub effective_sample_size: f64,
}

/// Writes one line, such as `42% done, log Z so far 208.63 (ESS 391 of 512 chains), 3 min left`, or
/// `search for a start: 25% done, 4 s left of it`.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.task.is_empty() {
            write!(f, "{}: ", self.task)?;
        }
        let share = 100.0 * self.done as f64 / self.total.max(1) as f64;
        write!(f, "{share:.0}% done")?;
        if let Some(so_far) = self.so_far {
            let (log_z, ess) = (so_far.log_z, so_far.effective_sample_size);
            let chains = so_far.chains;
            write!(
                f,
                ", log Z so far {log_z:.3} (ESS {ess:.0} of {chains} chains)"
            )?;
        }
        if self.seconds_left.is_finite() {
            write!(f, ", {} left", Span(self.seconds_left))?;
            f.write_str(if self.task.is_empty() { "" } else { " of it" })?;
        }
        match self.checkpoint_age {
            Some(age) => write!(f, ", last checkpoint {} ago", Span(age)),
            None => Ok(()),
        }
    }
}

/// A time in seconds, shown in a suitable unit.
struct Span(f64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds if seconds < 120.0 => write!(f, "{seconds:.0} s"),
            seconds if seconds < 7_200.0 => write!(f, "{:.0} min", seconds / 60.0),
            seconds => write!(f, "{:.1} h", seconds / 3_600.0),
        }
    }
}

/// A return value of a progress callback: nothing, or a [`ControlFlow`] whose `Break` stops the run.
pub trait Verdict {
    /// Returns whether the run should stop.
    fn stops(self) -> bool;
}

impl Verdict for () {
    fn stops(self) -> bool {
        false
    }
}

impl Verdict for ControlFlow<()> {
    fn stops(self) -> bool {
        self.is_break()
    }
}

pub(super) type Listener<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync + 'a);

pub(crate) type Callback<'p> = Box<dyn Fn(Progress) -> ControlFlow<()> + Sync + 'p>;

pub(crate) fn callback<'p, V: Verdict>(
    progress: impl Fn(Progress) -> V + Sync + 'p,
) -> Callback<'p> {
    Box::new(move |at| match progress(at).stops() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
}

#[cfg(feature = "progress")]
pub(super) fn progress_bar() -> Callback<'static> {
    match stderr().is_terminal() {
        true => callback(drawn_bar()),
        false => callback(lines()),
    }
}

#[cfg(feature = "progress")]
fn drawn_bar() -> impl Fn(Progress) + Sync {
    let bar = indicatif::ProgressBar::no_length();
    let bar = bar.with_finish(indicatif::ProgressFinish::AndClear);
    let template = "{wide_bar} {msg}";
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    move |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        bar.set_message(progress.to_string());
        if progress.done == progress.total {
            bar.finish_and_clear();
        }
    }
}

/// Writes a line to standard error after 10, 20, 40, .. seconds, and later every ten minutes.
#[cfg(feature = "progress")]
fn lines() -> impl Fn(Progress) + Sync {
    let due = Mutex::new(10.0);
    move |progress| {
        let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.seconds >= *due {
            eprintln!("{progress}");
            *due = progress.seconds + progress.seconds.min(600.0);
        }
    }
}

/// Longest time between two calls of the callback if steps are short enough.
const INTERVAL: Duration = Duration::from_millis(100);

/// Counts chain-steps. Calls the callback after each thousandth of the run, and at least ten times a second.
pub(crate) struct Meter<'a> {
    callback: Option<Listener<'a>>,
    /// Name of the work, empty for a run.
    pub(super) task: &'static str,
    begun: Instant,
    /// Chain-steps done before this call.
    before: AtomicU64,
    done: AtomicU64,
    total: AtomicU64,
    /// Time of the callback's last call, as the number of [`INTERVAL`]s since `begun`.
    called: AtomicU64,
    is_stopped: AtomicBool,
    so_far: Mutex<Option<SoFar>>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(callback: Option<Listener<'a>>) -> Self {
        Self {
            callback,
            task: "",
            begun: Instant::now(),
            before: AtomicU64::new(0),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            called: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            so_far: Mutex::default(),
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.callback.is_some()
    }

    pub(super) fn set(&self, so_far: SoFar) {
        *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = Some(so_far);
    }

    pub(super) fn skip(&self, chain_steps: u64) {
        self.before.fetch_add(chain_steps, Ordering::Relaxed);
        self.done.fetch_add(chain_steps, Ordering::Relaxed);
    }

    pub(super) fn foresee(&self, chain_steps: u64) {
        let done = self.done.load(Ordering::Relaxed);
        let total = done.saturating_add(chain_steps);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Counts chain-steps, if there is a callback. Returns whether the callback has stopped the run.
    pub(super) fn add(&self, chain_steps: u64, checkpoint_age: &dyn Fn() -> Option<f64>) -> bool {
        let Some(callback) = self.callback else {
            return false;
        };
        let before = self.done.fetch_add(chain_steps, Ordering::Relaxed);
        let done = before + chain_steps;
        let total = self.total.load(Ordering::Relaxed);
        let tick = (total / 1_000).max(1);
        let now = (self.begun.elapsed().as_millis() / INTERVAL.as_millis()) as u64;
        // Of several threads that come at the same time, only the first finds an older time.
        let late = self.called.fetch_max(now, Ordering::Relaxed) < now;
        let is_due = late || done / tick > before / tick || done == total;
        if is_due && callback(self.at(done, checkpoint_age())).is_break() {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn at(&self, done: u64, checkpoint_age: Option<f64>) -> Progress {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = (done - self.before.load(Ordering::Relaxed)) as f64 / seconds;
        let total = self.total.load(Ordering::Relaxed);
        Progress {
            task: self.task,
            done,
            total,
            seconds,
            seconds_left: total.saturating_sub(done) as f64 / rate,
            so_far: *self.so_far.lock().unwrap_or_else(PoisonError::into_inner),
            checkpoint_age,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_no_run_has_a_name_and_a_time_of_its_own() {
        let at = |task| Progress {
            task,
            done: 25,
            total: 100,
            seconds: 1.0,
            seconds_left: 3.0,
            so_far: None,
            checkpoint_age: None,
        };
        let search = at("search for a start").to_string();
        assert_eq!(search, "search for a start: 25% done, 3 s left of it");
        assert_eq!(at("").to_string(), "25% done, 3 s left");
    }
}
