//! The meter of a job: counts steps, calls the progress callback, and says when to stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::execution::{Execution, StoppedBy};
use super::progress::{Progress, SoFar};

/// Longest time between two calls of the callback if steps are short enough.
const INTERVAL: Duration = Duration::from_millis(100);

/// Counts chain-steps, and says when to stop. Calls the callback after each thousandth of the run, and at least ten times
/// a second.
pub(crate) struct Meter<'a> {
    pub(super) by: &'a Execution<'a>,
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
    pub(super) fn new(by: &'a Execution<'a>) -> Self {
        Self {
            by,
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

    /// Sets the estimate for progress callbacks, if there is a callback.
    pub(super) fn set(&self, so_far: impl FnOnce() -> Option<SoFar>) {
        if self.by.progress.is_some()
            && let Some(so_far) = so_far()
        {
            *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = Some(so_far);
        }
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

    /// Counts chain-steps. Returns the reason to stop, if a callback, `stop_when` or the time limit asks for it.
    pub(super) fn count(
        &self,
        chain_steps: u64,
        checkpoint_age: &dyn Fn() -> Option<f64>,
    ) -> Option<StoppedBy> {
        match self.add(chain_steps, checkpoint_age) {
            true => Some(StoppedBy::Callback),
            false => self.stopped(),
        }
    }

    /// Returns the reason to stop, if `stop_when` or the time limit asks for it.
    pub(super) fn stopped(&self) -> Option<StoppedBy> {
        let limit = self.by.time_limit;
        let is_over = || limit.is_some_and(|limit| self.begun.elapsed() >= limit);
        let is_asked = self.by.stop_when.as_ref().is_some_and(|asked| asked());
        let asked = is_asked.then_some(StoppedBy::Callback);
        asked.or_else(|| is_over().then_some(StoppedBy::TimeLimit))
    }

    /// Counts chain-steps, if there is a callback. Returns whether the callback has stopped the run.
    fn add(&self, chain_steps: u64, checkpoint_age: &dyn Fn() -> Option<f64>) -> bool {
        let Some(callback) = &self.by.progress else {
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
        if is_due && callback(self.at(done, checkpoint_age())) {
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
            // A forecast may have been too small.
            total: total.max(done),
            seconds,
            seconds_left: total.saturating_sub(done) as f64 / rate,
            so_far: *self.so_far.lock().unwrap_or_else(PoisonError::into_inner),
            checkpoint_age,
        }
    }
}
