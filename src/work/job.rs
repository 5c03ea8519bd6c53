//! The loop over the blocks of a task, shared by threads, and the traits that drive it.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use super::execution::{Execution, StoppedBy};
use super::ledger::{Closed, Ledger, Rule};
use super::progress::Meter;
use super::task::{AtWork, Erased, Task, Work};
use super::threads::{Meanwhile, side_by_side};
use super::tree::{Forest, Merge};
use crate::{Error, Result};

/// Runs tasks one after another: in this process, with checkpoints, or together with other processes.
pub(crate) trait Runs<T: Task>: Counts {
    /// Runs a task. Returns `None` in a process that does not lead.
    fn run(&mut self, task: &T) -> Result<Option<Closed<T::Output>>>;
}

/// Carries a value from one task of a sequence to the next, so that a later call can resume and all processes agree.
pub(crate) trait Carries<C> {
    /// Returns the value that an earlier call carried last, unless `check` refuses what a file says.
    fn carried(&mut self, check: &dyn Fn(&C) -> Result<()>) -> Result<Option<C>>;

    /// Takes the leading process's value and returns it in all processes. Drops what was saved of the last task.
    fn carry(&mut self, reached: Option<C>) -> Result<C>;
}

/// Counts work for progress callbacks.
pub(crate) trait Counts {
    /// Counts chain-steps that an earlier call has done.
    fn skip(&self, chain_steps: u64) {
        self.alone().meter.skip(chain_steps);
    }

    /// Sets the number of chain-steps left to the end of all work.
    fn foresee(&self, chain_steps: u64) {
        self.alone().meter.foresee(chain_steps);
    }

    /// Returns the work of this process alone, for tasks that each process does by itself, and that begin anew.
    fn alone(&self) -> &Job<'_>;
}

/// The work of one process, without checkpoints.
pub(crate) struct Job<'e> {
    by: &'e Execution<'e>,
    meter: Meter<'e>,
    begun: Instant,
}

/// Saves blocks at work, so that a later call can resume them.
pub(super) trait Saver<O>: Sync {
    /// Marks a block as at work, and returns its bytes if an earlier call saved it.
    fn begin(&self, block: usize) -> Option<Vec<u8>>;

    /// Notes that a block has made a step other than its last.
    fn passed(&self, block: usize, at: &dyn AtWork<O>, is_canceled: bool);

    fn end(&self, block: usize);

    /// Returns the seconds since the last checkpoint; `None` where this process writes none.
    fn age(&self) -> Option<f64>;
}

/// The work of several threads, as the calling thread sees it.
#[cfg_attr(not(feature = "mpi"), allow(dead_code))] // Only processes that share their work look.
pub(crate) struct Site<'a, O> {
    pub(super) ledger: &'a Ledger<O>,
    pub(super) rule: Rule<'a, O>,
    /// Counts blocks that another process has finished.
    pub(super) arrived: &'a dyn Fn(Range<usize>) -> Result<()>,
    pub(super) are_done: &'a dyn Fn() -> bool,
}

pub(crate) type AtSite<'a, O> = &'a mut dyn FnMut(&Site<'_, O>) -> Result<()>;

impl<'e> Job<'e> {
    /// Creates a job whose clock starts now.
    ///
    /// # Errors
    /// No threads; an `until_error` that is not positive.
    pub(crate) fn new(by: &'e Execution<'e>) -> Result<Self> {
        Self::led(by, true)
    }

    /// Names the work for progress callbacks, where it is no run of its own.
    pub(crate) fn named(mut self, task: &'static str) -> Self {
        self.meter.task = task;
        self
    }

    /// Creates a job in one of several processes. Only the leading one calls back.
    pub(super) fn led(by: &'e Execution<'e>, leads: bool) -> Result<Self> {
        by.check()?;
        Ok(Self {
            by,
            meter: Meter::new(by.progress.as_deref().filter(|_| leads)),
            begun: Instant::now(),
        })
    }

    /// Runs all blocks of a task.
    pub(crate) fn complete<T: Task>(&self, task: &T) -> Result<Closed<T::Output>> {
        self.go_on(&Erased::new(task), Forest::new())
    }

    /// Runs the blocks of a task that are not in `done`, whose nodes are sorted from left to right.
    pub(crate) fn extend<T: Task>(
        &mut self,
        task: &T,
        done: Forest<T::Output>,
    ) -> Result<Closed<T::Output>> {
        self.go_on(&Erased::new(task), done)
    }

    fn go_on<O: Merge + Send>(&self, work: &dyn Work<O>, done: Forest<O>) -> Result<Closed<O>> {
        let ledger = Ledger::resumed(work.blocks(), done, work.last_is_unfilled());
        self.skip(finished(work, &ledger));
        self.work(work, &ledger, None, None)?;
        ledger.close()
    }

    /// Runs the blocks that `ledger` hands out, and `meanwhile` on the calling thread.
    ///
    /// # Errors
    /// Threads that cannot be started, or the error of `meanwhile`. Errors of blocks are in the ledger.
    pub(super) fn work<O: Merge + Send>(
        &self,
        task: &dyn Work<O>,
        ledger: &Ledger<O>,
        saver: Option<&dyn Saver<O>>,
        meanwhile: Option<AtSite<'_, O>>,
    ) -> Result<()> {
        let rule = |done: usize, prefix: &Forest<O>| self.is_enough(task, done, prefix);
        if ledger.look(|done, prefix| !prefix.is_empty() && rule(done, prefix)) {
            ledger.stop(StoppedBy::StandardError);
        }
        let worker = || {
            while let Some(block) = ledger.hand_out() {
                let output = self.block(task, block, ledger, saver);
                if let Err(message) = caught(|| ledger.enter(block, output, &rule)) {
                    ledger.fail(block, merging_panicked(message, task.chains(block)));
                }
                // After the ledger has the output, so that every checkpoint holds one or the other.
                if let Some(saver) = saver {
                    saver.end(block);
                }
            }
        };
        let arrived = |blocks: Range<usize>| {
            let counted = caught(|| self.count(task.cost(blocks.clone()), ledger, saver));
            let chains = || task.chains(blocks.start).start..task.chains(blocks.end).start;
            counted.map_err(|message| Error::panicked(message, chains()))
        };
        let mut outcome = Ok(());
        let mut meanwhile = meanwhile.map(|meanwhile| {
            |are_done: &dyn Fn() -> bool| {
                let _ends = EndsByPanic(ledger);
                outcome = meanwhile(&Site {
                    ledger,
                    rule: &rule,
                    arrived: &arrived,
                    are_done,
                });
            }
        });
        let meanwhile = meanwhile.as_mut().map(|at_site| at_site as Meanwhile<'_>);
        let crew = (ledger.most(), task.width());
        side_by_side(self.by.threads, crew, &worker, meanwhile)?;
        outcome
    }

    /// Takes a block through its remaining steps. The error is `None` if the block was canceled.
    fn block<O: Merge>(
        &self,
        task: &dyn Work<O>,
        block: usize,
        ledger: &Ledger<O>,
        saver: Option<&dyn Saver<O>>,
    ) -> Result<O, Option<Error>> {
        let mut at = None;
        let passed = caught(|| {
            let saved = saver.and_then(|saver| saver.begin(block));
            let at = at.insert(task.begin(block, saved.as_deref())?);
            loop {
                let step = at.step()?;
                if let Some(left) = step.left {
                    self.meter.foresee(left.saturating_add(step.cost));
                }
                self.count(step.cost, ledger, saver);
                if step.is_last {
                    return Ok(at.finish()?);
                }
                let is_canceled = ledger.is_canceled(block);
                if let Some(saver) = saver {
                    saver.passed(block, &**at, is_canceled);
                }
                if is_canceled {
                    return Err(None);
                }
            }
        });
        passed.unwrap_or_else(|message| {
            let place = at.map(|at| at.place());
            let (chains, stage, beta) = place.unwrap_or((task.chains(block), 0, 0.0));
            Err(Some(Error::Panicked {
                message,
                chains,
                stage,
                beta,
            }))
        })
    }

    /// Counts chain-steps. Stops the work if a callback, `stop_when` or the time limit asks for it.
    fn count<O: Merge>(&self, chain_steps: u64, ledger: &Ledger<O>, saver: Option<&dyn Saver<O>>) {
        let age = || saver.and_then(Saver::age);
        if self.meter.add(chain_steps, &age) || ledger.leads() && self.by.is_asked() {
            ledger.stop(StoppedBy::Callback);
        } else if ledger.leads() && self.by.is_over(self.begun) {
            ledger.stop(StoppedBy::TimeLimit);
        }
    }

    /// Returns whether the first `blocks` blocks are precise enough, and updates the progress estimate.
    fn is_enough<O>(&self, task: &dyn Work<O>, blocks: usize, prefix: &Forest<O>) -> bool {
        if self.meter.is_watched()
            && let Some(so_far) = task.so_far(prefix)
        {
            self.meter.set(so_far);
        }
        let enough = self.by.until_error;
        enough.is_some_and(|enough| task.suffices(enough, blocks, prefix))
    }
}

/// Returns the chain-steps of the finished blocks in `ledger`.
pub(super) fn finished<O: Merge>(work: &dyn Work<O>, ledger: &Ledger<O>) -> u64 {
    let costs = ledger.look_at_all(|node| work.cost(node.blocks()));
    costs.into_iter().sum()
}

impl Counts for Job<'_> {
    fn alone(&self) -> &Job<'_> {
        self
    }
}

impl<T: Task> Runs<T> for Job<'_> {
    fn run(&mut self, task: &T) -> Result<Option<Closed<T::Output>>> {
        self.complete(task).map(Some)
    }
}

impl<C> Carries<C> for Job<'_> {
    fn carried(&mut self, _: &dyn Fn(&C) -> Result<()>) -> Result<Option<C>> {
        Ok(None)
    }

    fn carry(&mut self, reached: Option<C>) -> Result<C> {
        Ok(reached.expect("the only process leads"))
    }
}

pub(crate) fn merging_panicked(message: String, chains: Range<usize>) -> Error {
    Error::panicked(format!("in merging: {message}"), chains)
}

/// Cancels all work when a panic unwinds past it. Otherwise other threads would wait forever.
struct EndsByPanic<'l, O: Merge>(&'l Ledger<O>);

impl<O: Merge> Drop for EndsByPanic<'_, O> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel_from(0);
        }
    }
}

/// Runs `work`, and returns the message if it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let (mut work, mut done) = (Some(work), None);
    caught_any(&mut || done = work.take().map(|work| work()))?;
    Ok(done.expect("the work did not panic"))
}

/// Not generic, so that it is compiled once.
fn caught_any(work: &mut dyn FnMut()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a payload that is no text".to_owned())
}
