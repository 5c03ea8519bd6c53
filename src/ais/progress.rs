//! Progress of a long run.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Chain-steps done, those of an earlier call that this one resumes included.
    pub done: u64,
    /// Chain-steps in all, if nothing stops the run before.
    pub total: u64,
    /// Seconds since this call began.
    pub seconds: f64,
    /// Seconds that the rest would take, if nothing stops the run before; infinite where nothing is done yet.
    pub seconds_left: f64,
    /// What the chains that are done say; `None` while there are none.
    pub so_far: Option<SoFar>,
}

/// What finished chains say while a run goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SoFar {
    /// Number of finished chains.
    pub chains: usize,
    /// The estimate of `log Z_K` from them.
    pub log_z: f64,
    /// `(sum w)^2 / sum w^2` of their weights.
    pub effective_sample_size: f64,
}

/// One line, as `42% done, log Z so far 208.63 (ESS 391 of 512 chains), 3 min left`.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        match self.seconds_left {
            left if left < 120.0 => write!(f, ", {left:.0} s left"),
            left if left < 7_200.0 => write!(f, ", {:.0} min left", left / 60.0),
            left if left.is_finite() => write!(f, ", {:.1} h left", left / 3_600.0),
            _ => Ok(()),
        }
    }
}

/// What a progress callback may return: nothing, or a [`ControlFlow`] whose `Break` stops the run.
pub trait Verdict {
    /// Whether the run is to stop.
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

/// A progress callback, which says whether to stop.
pub(crate) type Callback<'p> = Box<dyn Fn(Progress) -> bool + Sync + 'p>;

/// The callback that a user gave.
pub(crate) fn callback<'p, V: Verdict>(
    progress: impl Fn(Progress) -> V + Sync + 'p,
) -> Callback<'p> {
    Box::new(move |at| progress(at).stops())
}

/// At least so often a callback is called, where stages are short enough.
const INTERVAL: Duration = Duration::from_millis(100);

/// Counts chain-steps, and calls back about a thousand times a run and ten times a second.
pub(crate) struct Meter<'a> {
    callback: Option<&'a (dyn Fn(Progress) -> bool + Sync)>,
    begun: Instant,
    /// Chain-steps done before this call.
    before: u64,
    done: AtomicU64,
    total: u64,
    /// When the callback was last called, in intervals since the beginning.
    called: AtomicU64,
    so_far: Mutex<Option<SoFar>>,
}

impl<'a> Meter<'a> {
    /// Of a run with so many chain-steps, of which some are done.
    pub(crate) fn new(callback: Option<&'a Callback<'_>>, before: u64, total: u64) -> Self {
        Self {
            callback: callback.map(|callback| &**callback as _),
            begun: Instant::now(),
            before,
            done: AtomicU64::new(before),
            total,
            called: AtomicU64::new(0),
            so_far: Mutex::default(),
        }
    }

    /// Whether anyone listens.
    pub(crate) fn is_watched(&self) -> bool {
        self.callback.is_some()
    }

    /// What the chains that are done say.
    pub(crate) fn set(&self, so_far: SoFar) {
        *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = Some(so_far);
    }

    /// Counts chain-steps. Returns whether the callback says that the run is to stop.
    pub(crate) fn add(&self, chain_steps: u64) -> bool {
        let Some(callback) = self.callback else {
            return false;
        };
        let before = self.done.fetch_add(chain_steps, Ordering::Relaxed);
        let done = before + chain_steps;
        let tick = (self.total / 1_000).max(1);
        let now = (self.begun.elapsed().as_millis() / INTERVAL.as_millis()) as u64;
        let late = self.called.fetch_max(now, Ordering::Relaxed) < now;
        (late || done / tick > before / tick) && callback(self.at(done))
    }

    fn at(&self, done: u64) -> Progress {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = (done - self.before) as f64 / seconds;
        Progress {
            done,
            total: self.total,
            seconds,
            seconds_left: self.total.saturating_sub(done) as f64 / rate,
            so_far: *self.so_far.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// A callback that draws a bar on a terminal, and elsewhere writes a line now and then.
#[cfg(feature = "progress")]
pub(crate) fn bar<'p>() -> Callback<'p> {
    use std::io::{IsTerminal, stderr};
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

/// Writes a line to standard error after 10, 20, 40, .. seconds, and from then on every ten minutes.
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
