//! Runs without the GIL. Worker threads never touch Python. They send calls of the user's function to the thread on
//! which Python started the run. It makes these calls, checks for signals and shows the progress. The function thus
//! runs in the user's context (`numpy.errstate`, `torch.no_grad`), Ctrl-C reaches it, and no thread waits for the GIL
//! while it holds a lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use annealed::ais::Progress;
use annealed::{Error, Result};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;

use crate::errors::exception;

/// Time between two checks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// Least time between two calls of the function that shows progress.
const APART: Duration = Duration::from_millis(100);

/// Values returned by a user's function: log densities, and gradients row after row, or no gradients.
pub type Values = (Vec<f64>, Vec<f64>);

/// A user's function. Its arguments are states, row after row, and their number.
pub type Function<'f> = dyn Fn(Python<'_>, Vec<f64>, usize) -> PyResult<Values> + Sync + 'f;

/// Number of threads of a run, and the Python function that shows its progress. [`Self::run`] makes the run's calls of
/// the user's function.
pub struct Desk {
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    time_limit: Option<Duration>,
}

/// Channel from worker threads to the calling thread.
pub struct Calls {
    letters: Sender<Letter>,
    stopped: AtomicBool,
    phase: Mutex<Option<&'static str>>,
}

enum Letter {
    Call(Vec<f64>, usize, Sender<Option<Values>>),
    Progress(Progress),
    Done,
}

impl Calls {
    /// Sends the states to the calling thread, which calls the user's function. Returns the function's values.
    ///
    /// # Errors
    /// The user's function raised an exception. The calling thread keeps the exception.
    pub fn call(&self, states: &[f64], n: usize) -> std::result::Result<Values, BoxedError> {
        let (reply, answer) = channel();
        let sent = self.letters.send(Letter::Call(states.to_vec(), n, reply));
        let answer = sent.ok().and_then(|()| answer.recv().ok()).flatten();
        answer.ok_or_else(|| "the Python function raised an exception".into())
    }

    /// Sends the progress of a run to the calling thread, which shows it.
    pub fn progress(&self, at: Progress) {
        let _ = self.letters.send(Letter::Progress(at));
    }

    /// Sets the end of the message for a run that stops in this phase without a result: "before .., so that ..". If
    /// `phase` is `None`, the message is the library's own, which is about blocks of chains.
    pub fn enter(&self, phase: Option<&'static str>) {
        *self.phase.lock().unwrap() = phase;
    }

    /// Returns the message for a run that was stopped without a result.
    fn sentence(&self, by: &str, error: &Error) -> String {
        let phase = self.phase.lock().unwrap();
        phase.map_or_else(|| error.to_string(), |phase| format!("{by} {phase}"))
    }

    /// Returns true if the run has to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Exceptions and interruptions that end a run early.
#[derive(Default)]
struct Raised {
    error: Option<PyErr>,
    interrupts: usize,
}

impl Desk {
    /// Takes the number of threads (`None` for all cores) and a Python function that shows progress.
    pub fn new(threads: Option<usize>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        match threads {
            Some(0) => Err(exception(Error::invalid("threads", 0, "at least 1"))),
            _ => Ok(Self {
                threads,
                progress,
                time_limit: None,
            }),
        }
    }

    /// Sets the time limit of the run, so that the progress shows no more time than is left of it.
    pub fn time_limit(self, time_limit: Option<Duration>) -> Self {
        Self { time_limit, ..self }
    }

    /// Runs `work` on new threads, and makes its calls of `function` on this thread.
    ///
    /// The threads end with the run, so that a process forked afterwards can also start runs.
    ///
    /// # Errors
    /// The user's exception; after Ctrl-C `annealed.Interrupted` with the result of `work`, converted by `shown`; a
    /// `TimeoutError` if a time limit came before any result; or the error of `work`.
    pub fn run<'py, T: Send>(
        &self,
        py: Python<'py>,
        function: &Function<'_>,
        work: impl FnOnce(&Calls) -> Result<T> + Send,
        shown: impl FnOnce(Python<'py>, T) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let threads = match self.threads {
            Some(threads) => threads,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let (letters, inbox) = channel();
        let calls = Calls {
            letters,
            stopped: AtomicBool::new(false),
            phase: Mutex::new(None),
        };
        let (result, mut raised) = (Mutex::new(None), Raised::default());
        py.detach(|| {
            pool.in_place_scope(|scope| {
                scope.spawn(|_| {
                    let _at_the_end = Last(&calls);
                    *result.lock().unwrap() = Some(work(&calls));
                });
                self.serve(inbox, &calls, function, &mut raised);
            });
        });
        let result = result.into_inner().unwrap();
        let result = result.unwrap_or_else(|| Err(Error::invalid("run", "no result", "one")));
        let interrupted = raised.interrupts > 0;
        match (raised.error, result) {
            (Some(error), _) => Err(error),
            (None, Err(ref error @ Error::Stopped { ref by, .. })) => {
                let text = calls.sentence(by, error);
                match interrupted {
                    true => Err(interruption(py, &text, None)?),
                    false => Err(PyTimeoutError::new_err(text)),
                }
            }
            (None, Ok(result)) if interrupted => {
                let text = "interrupted; `result` of this exception holds what was finished";
                Err(interruption(py, text, Some(shown(py, result)?))?)
            }
            (None, result) => shown(py, result.map_err(exception)?),
        }
    }

    /// Makes the calls of the user's function that worker threads request, until the work is done.
    fn serve(
        &self,
        inbox: Receiver<Letter>,
        calls: &Calls,
        function: &Function<'_>,
        raised: &mut Raised,
    ) {
        let (begun, mut shown) = (Instant::now(), None::<Instant>);
        loop {
            let letter = match inbox.recv_timeout(LOOK) {
                Ok(Letter::Done) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(letter) => Some(letter),
                Err(RecvTimeoutError::Timeout) => None,
            };
            Python::attach(|py| {
                let outcome = match letter {
                    Some(Letter::Call(states, n, reply)) => {
                        let values = raised.call(py, states, n, function);
                        let _ = reply.send(values);
                        Ok(())
                    }
                    Some(Letter::Progress(at)) if shown.is_none_or(|at| at.elapsed() >= APART) => {
                        shown = Some(Instant::now());
                        self.show(py, at, begun.elapsed().as_secs_f64())
                    }
                    _ => Ok(()),
                };
                raised.note(py, outcome.and_then(|()| py.check_signals()));
            });
            if raised.ends() {
                calls.stopped.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Shows the progress `at` after so many `seconds`. If the time limit comes before the end of the steps, the total is
    /// the number of steps until then.
    fn show(&self, py: Python<'_>, mut at: Progress, seconds: f64) -> PyResult<()> {
        let Some(progress) = &self.progress else {
            return Ok(());
        };
        if let Some(limit) = self.time_limit.map(|limit| limit.as_secs_f64()) {
            let left = (limit - seconds).max(0.0);
            if left < at.seconds_left {
                let total = at.done as f64 * limit.max(seconds) / seconds;
                at.total = at.total.min(total.ceil() as u64);
                at.seconds_left = left;
            }
        }
        progress
            .call1(py, (at.to_string(), at.done, at.total))
            .map(drop)
    }
}

impl Raised {
    fn ends(&self) -> bool {
        self.error.is_some() || self.interrupts > 0
    }

    /// Calls the user's function. Returns `None` after an exception. If the first Ctrl-C interrupts the function, it is
    /// called again with the same states, so that the run can finish its step and return the work done so far.
    fn call(
        &mut self,
        py: Python<'_>,
        states: Vec<f64>,
        n: usize,
        function: &Function<'_>,
    ) -> Option<Values> {
        if self.error.is_some() {
            return None;
        }
        let again = (self.interrupts == 0).then(|| states.clone());
        let mut outcome = function(py, states, n);
        if let (Err(error), Some(states)) = (&outcome, again)
            && error.is_instance_of::<PyKeyboardInterrupt>(py)
        {
            self.interrupts += 1;
            outcome = function(py, states, n);
        }
        match outcome {
            Ok(values) => Some(values),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    /// Records an exception. The first Ctrl-C is not recorded as an exception; it only stops the run.
    fn note(&mut self, py: Python<'_>, outcome: PyResult<()>) {
        let Err(error) = outcome else {
            return;
        };
        let is_interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py);
        if is_interrupt {
            self.interrupts += 1;
        }
        if !is_interrupt || self.interrupts > 1 {
            self.error.get_or_insert(error);
        }
    }
}

/// A guard. When it is dropped, `Desk::serve` returns, even if the work panics.
struct Last<'c>(&'c Calls);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        let _ = self.0.letters.send(Letter::Done);
    }
}

/// Returns `annealed.Interrupted` with the finished part of the result.
fn interruption(py: Python<'_>, text: &str, result: Option<Bound<'_, PyAny>>) -> PyResult<PyErr> {
    let class = py.import("annealed")?.getattr("Interrupted")?;
    Ok(PyErr::from_value(class.call1((text, result))?))
}

/// Placeholder for runs without a user's function.
pub fn no_function(_: Python<'_>, _: Vec<f64>, _: usize) -> PyResult<Values> {
    Err(PyValueError::new_err("no function to call"))
}
