//! Progress of a long run: the report to a callback.

use std::fmt;
#[cfg(feature = "progress")]
use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;
#[cfg(feature = "progress")]
use std::sync::{Mutex, PoisonError};

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Name of work that comes before or after a run, such as `search for a start`; empty for a run. The figures count
    /// this work only.
    pub task: &'static str,
    /// Number of chain-steps done, including earlier calls that this call resumes. A chain-step is a stage or a move of
    /// one chain, or a draw of a fitted base.
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
            write!(f, ", {} left", span(self.seconds_left))?;
            f.write_str(if self.task.is_empty() { "" } else { " of it" })?;
        }
        match self.checkpoint_age {
            Some(age) => write!(f, ", last checkpoint {} ago", span(age)),
            None => Ok(()),
        }
    }
}

/// Returns a time in a suitable unit.
fn span(seconds: f64) -> String {
    match seconds {
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
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

/// A progress callback, which returns whether the run should stop.
pub(crate) type Callback<'p> = Box<dyn Fn(Progress) -> bool + Sync + 'p>;

pub(crate) fn callback<'p, V: Verdict>(
    progress: impl Fn(Progress) -> V + Sync + 'p,
) -> Callback<'p> {
    Box::new(move |at| progress(at).stops())
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
