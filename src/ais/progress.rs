//! Progress of a long run.

use std::fmt;
use std::ops::ControlFlow;

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Chain-steps done, those of an earlier call that this one resumes included: passages of a stage by a chain, or
    /// moves of a chain where it stays.
    pub done: u64,
    /// Chain-steps in all, if nothing stops the run before. Where stages or levels are found on the way, these
    /// are as many as are foreseen, and change.
    pub total: u64,
    /// Seconds since this call began.
    pub seconds: f64,
    /// Seconds that the rest would take, if nothing stops the run before; infinite where nothing is done yet.
    pub seconds_left: f64,
    /// What the chains that are done say; `None` while there are none, and of runs of
    /// [`Tempering`](crate::tempering::Tempering) and pilots.
    pub so_far: Option<SoFar>,
    /// Seconds since a checkpoint was written, or since this call began; `None` where the run leaves none. Where it
    /// grows far beyond the interval, checkpoints cannot be written.
    pub checkpoint_age: Option<f64>,
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
        if self.seconds_left.is_finite() {
            write!(f, ", {} left", Span(self.seconds_left))?;
        }
        match self.checkpoint_age {
            Some(age) => write!(f, ", last checkpoint {} ago", Span(age)),
            None => Ok(()),
        }
    }
}

/// A time in seconds, in the unit that suits it.
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

/// Who is called with the progress of a run, and may stop it.
pub(crate) type Listener<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync + 'a);

/// The function that a user gave.
pub(crate) type Callback<'p> = Box<dyn Fn(Progress) -> ControlFlow<()> + Sync + 'p>;

/// A function of the user as a callback.
pub(crate) fn callback<'p, V: Verdict>(
    progress: impl Fn(Progress) -> V + Sync + 'p,
) -> Callback<'p> {
    Box::new(move |at| match progress(at).stops() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
}
