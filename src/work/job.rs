//! The loop over the blocks of a task, shared by threads, and what carries it out.

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

/// Carries out tasks, one after another: here, with checkpoints, or together with other processes.
pub(crate) trait Runs<T: Task>: Counts {
    /// Does a task. Returns `None` in a process that does not lead.
    fn run(&mut self, task: &T) -> Result<Option<Closed<T::Output>>>;
}

/// Carries a value from one task of a sequence to the next, so that a later call goes on there and all processes agree.
pub(crate) trait Carries<C> {
    /// Returns the value with which an earlier call left off.
    fn carried(&mut self) -> Result<Option<C>>;

    /// Takes the value in the process that leads, and returns it in all. What was kept of the last task is dropped.
    fn carry(&mut self, reached: Option<C>) -> Result<C>;
}

/// Counts work for those who watch it.
pub(crate) trait Counts {
    /// Counts chain-steps that an earlier call has done.
    fn skip(&self, chain_steps: u64);

    /// Says that so many chain-steps are left from here to the end of all work.
    fn foresee(&self, chain_steps: u64);
}

/// The work of one process that leaves nothing behind.
pub(crate) struct Job<'e> {
    by: &'e Execution<'e>,
    meter: Meter<'e>,
    begun: Instant,
}

/// Saves blocks at work, for a later call to go on from.
pub(super) trait Saver<O>: Sync {
    /// Returns the block as an earlier call left it, which is at work from now on.
    fn begin(&self, block: usize) -> Option<Vec<u8>>;

    /// Takes note of a step of a block, not its last.
    fn passed(&self, block: usize, at: &dyn AtWork<O>, is_canceled: bool);

    /// Takes note of a block that is not at work any more.
    fn end(&self, block: usize);

    /// Returns the seconds since a checkpoint was written, where this process writes them.
    fn age(&self) -> Option<f64>;
}

/// The work of several threads, as the thread that has called them sees it.
#[cfg_attr(not(feature = "mpi"), allow(dead_code))] // Only processes that share their work look.
pub(crate) struct Site<'a, O> {
    pub(super) ledger: &'a Ledger<O>,
    pub(super) rule: Rule<'a, O>,
    /// Counts blocks that another process has finished.
    pub(super) arrived: &'a dyn Fn(Range<usize>) -> Result<()>,
    /// Whether all threads are done.
    pub(super) are_done: &'a dyn Fn() -> bool,
}

/// Goes on in the thread that calls while others work.
pub(crate) type AtSite<'a, O> = &'a mut dyn FnMut(&Site<'_, O>) -> Result<()>;

impl<'e> Job<'e> {
    /// Begins work whose clock runs from now on.
    ///
    /// # Errors
    /// No threads; an error to reach that is not positive.
    pub(crate) fn new(by: &'e Execution<'e>) -> Result<Self> {
        Self::led(by, true)
    }

    /// As [`new`](Self::new), in one of several processes, of which the first leads.
    pub(super) fn led(by: &'e Execution<'e>, leads: bool) -> Result<Self> {
        by.check()?;
        Ok(Self {
            by,
            meter: Meter::new(by.progress.as_deref().filter(|_| leads)),
            begun: Instant::now(),
        })
    }

    /// Does the blocks of a task of which some are done. These are given from left to right.
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

    /// Does the blocks that a ledger hands out, and `meanwhile` on the thread that calls.
    ///
    /// # Errors
    /// Threads that cannot be had, or the error of `meanwhile`. Those of blocks are in the ledger.
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
                // Not before the ledger has it: a checkpoint holds the one or the other.
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
        let meanwhile = meanwhile
            .as_mut()
            .map(|meanwhile| meanwhile as Meanwhile<'_>);
        let crew = (ledger.most(), task.width());
        side_by_side(self.by.threads, crew, &worker, meanwhile)?;
        outcome
    }

    /// Takes a block through the steps that are left to it. The error is `None` where it was canceled.
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

    /// Counts chain-steps done, and stops the work where a callback, a signal or the clock says so.
    fn count<O: Merge>(&self, chain_steps: u64, ledger: &Ledger<O>, saver: Option<&dyn Saver<O>>) {
        let age = || saver.and_then(Saver::age);
        if self.meter.add(chain_steps, &age) || ledger.leads() && self.by.is_asked() {
            ledger.stop(StoppedBy::Callback);
        } else if ledger.leads() && self.by.is_over(self.begun) {
            ledger.stop(StoppedBy::TimeLimit);
        }
    }

    /// Whether the first blocks are enough. Those who watch learn of them.
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

/// Returns the chain-steps of the blocks in a ledger that are done.
pub(super) fn finished<O: Merge>(work: &dyn Work<O>, ledger: &Ledger<O>) -> u64 {
    let costs = ledger.look_at_all(|node| work.cost(node.blocks()));
    costs.into_iter().sum()
}

impl Counts for Job<'_> {
    fn skip(&self, chain_steps: u64) {
        self.meter.skip(chain_steps);
    }

    fn foresee(&self, chain_steps: u64) {
        self.meter.foresee(chain_steps);
    }
}

impl<T: Task> Runs<T> for Job<'_> {
    fn run(&mut self, task: &T) -> Result<Option<Closed<T::Output>>> {
        self.extend(task, Forest::new()).map(Some)
    }
}

impl<C> Carries<C> for Job<'_> {
    fn carried(&mut self) -> Result<Option<C>> {
        Ok(None)
    }

    fn carry(&mut self, reached: Option<C>) -> Result<C> {
        Ok(reached.expect("the only process leads"))
    }
}

/// Returns the error of a panic in the merging of the outputs of these chains.
pub(crate) fn merging_panicked(message: String, chains: Range<usize>) -> Error {
    Error::panicked(format!("in merging: {message}"), chains)
}

/// Ends all work where a panic passes by: the others would wait for what never comes.
struct EndsByPanic<'l, O: Merge>(&'l Ledger<O>);

impl<O: Merge> Drop for EndsByPanic<'_, O> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel_from(0);
        }
    }
}

/// Does the work, or returns the text of a panic in it.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let (mut work, mut done) = (Some(work), None);
    caught_any(&mut || done = work.take().map(|work| work()))?;
    Ok(done.expect("the work did not panic"))
}

/// Compiled once.
fn caught_any(work: &mut dyn FnMut()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a payload that is no text".to_owned())
}
