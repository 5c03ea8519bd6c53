//! The meter of a run, which counts chain-steps and calls back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::blocks::caught;
use super::progress::{Listener, Progress, SoFar};
use super::stop::StoppedBy;
use crate::{Error, Result};

/// At least so often a callback is called, where stages are short enough.
const INTERVAL: Duration = Duration::from_millis(100);

/// Counts chain-steps, and calls back about a thousand times a run and ten times a second.
pub(crate) struct Meter<'a> {
    callback: Option<Listener<'a>>,
    begun: Instant,
    /// Chain-steps done before this call.
    before: u64,
    done: AtomicU64,
    total: AtomicU64,
    /// When the callback was last called, in intervals since the beginning.
    called: AtomicU64,
    /// Whether the callback has said so.
    is_stopped: AtomicBool,
    so_far: Mutex<Option<SoFar>>,
    checkpoint_age: Option<Age<'a>>,
}

/// Seconds since a checkpoint was written, where there are any.
type Age<'a> = &'a (dyn Fn() -> Option<f64> + Sync);

impl<'a> Meter<'a> {
    /// Of a run with so many chain-steps, of which some are done.
    pub(crate) fn new(callback: Option<Listener<'a>>, before: u64, total: u64) -> Self {
        Self {
            callback,
            begun: Instant::now(),
            before,
            done: AtomicU64::new(before),
            total: AtomicU64::new(total),
            called: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            so_far: Mutex::default(),
            checkpoint_age: None,
        }
    }

    /// Of a run that leaves checkpoints.
    pub(crate) fn saved(mut self, checkpoint_age: Age<'a>) -> Self {
        self.checkpoint_age = Some(checkpoint_age);
        self
    }

    /// Whether anyone listens.
    pub(crate) fn is_watched(&self) -> bool {
        self.callback.is_some()
    }

    /// What the chains that are done say.
    pub(crate) fn set(&self, so_far: SoFar) {
        *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = Some(so_far);
    }

    /// From here on so many chain-steps more are foreseen.
    pub(crate) fn foresee(&self, chain_steps: u64) {
        let done = self.done.load(Ordering::Relaxed);
        let total = done.saturating_add(chain_steps);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Counts chain-steps. Returns whether the callback has said that the run is to stop.
    pub(crate) fn add(&self, chain_steps: u64) -> bool {
        let Some(callback) = self.callback else {
            return false;
        };
        let before = self.done.fetch_add(chain_steps, Ordering::Relaxed);
        let done = before + chain_steps;
        let tick = (self.total.load(Ordering::Relaxed) / 1_000).max(1);
        let now = (self.begun.elapsed().as_millis() / INTERVAL.as_millis()) as u64;
        let late = self.called.fetch_max(now, Ordering::Relaxed) < now;
        let is_due = late || done / tick > before / tick;
        if is_due && callback(self.at(done)).is_break() {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Counts chain-steps of a pilot with so many chains.
    ///
    /// # Errors
    /// [`Error::Stopped`] where the callback says so; a panic in it.
    pub(crate) fn count(&self, chain_steps: u64, chains: usize) -> Result<()> {
        match caught(|| self.add(chain_steps)) {
            Ok(false) => Ok(()),
            Ok(true) => Err(Error::Stopped {
                by: StoppedBy::Callback.to_string(),
                chains,
            }),
            Err(message) => Err(Error::panicked(message, 0..chains)),
        }
    }

    fn at(&self, done: u64) -> Progress {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = (done - self.before) as f64 / seconds;
        let total = self.total.load(Ordering::Relaxed);
        Progress {
            done,
            total,
            seconds,
            seconds_left: total.saturating_sub(done) as f64 / rate,
            so_far: *self.so_far.lock().unwrap_or_else(PoisonError::into_inner),
            checkpoint_age: self.checkpoint_age.and_then(|age| age()),
        }
    }
}
