//! The loop over the blocks of a task, shared by threads, and the traits that drive it.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::execution::{Execution, StoppedBy, side_by_side};
#[cfg(feature = "checkpoint")]
use super::ledger::Share;
use super::ledger::{Closed, Ledger, Rule};
#[cfg(feature = "checkpoint")]
use super::meeting::Meeting;
use super::progress::Meter;
use super::task::{Halt, Pulse, Save, Stepped, Task};
#[cfg(feature = "checkpoint")]
use super::team::Team;
#[cfg(feature = "checkpoint")]
use super::tree::Node;
use super::tree::{Forest, Merge};
use crate::{Error, Result};

/// Runs tasks one after another: in this process, with checkpoints, or together with other processes.
pub(crate) trait Runs<O>: Counts {
    /// Runs a task, and returns its outputs in every process.
    fn run(&mut self, task: &dyn Task<Output = O>) -> Result<Closed<O>>;
}

/// Carries a value from one task of a sequence to the next, so that a later call can resume and all processes agree.
pub(crate) trait Carries<C> {
    /// Returns the value that an earlier call carried last and saved, if any. `check` may refuse this value.
    fn carried(&mut self, check: &dyn Fn(&C) -> Result<()>) -> Result<Option<C>>;

    /// Returns the first process's `reached` in all processes, and saves it in place of the blocks of the task that has
    /// ended. The `figures` of all processes must agree up to rounding.
    fn carry(&mut self, reached: C, figures: &[f64]) -> Result<C>;
}

/// Counts work for progress callbacks.
pub(crate) trait Counts {
    /// Counts chain-steps that an earlier call has done.
    fn skip(&self, chain_steps: u64) {
        self.job().crew.meter.skip(chain_steps);
    }

    /// Sets the number of chain-steps left to the end of all work.
    fn foresee(&self, chain_steps: u64) {
        self.job().crew.meter.foresee(chain_steps);
    }

    /// Returns the job for tasks that are not saved, and whose blocks are all run by each process.
    fn job(&self) -> &Job<'_>;
}

/// The work of one process, alone or together with others, without checkpoints.
pub(crate) struct Job<'e> {
    crew: Crew<'e>,
    /// The processes that share the work. Only the calling thread communicates with the others.
    #[cfg(feature = "checkpoint")]
    pub(super) team: Option<&'e Team<'e>>,
}

/// The part of a job that its threads share.
struct Crew<'e> {
    by: &'e Execution<'e>,
    meter: Meter<'e>,
    begun: Instant,
}

/// Saves blocks in progress, so that a later call can resume them.
pub(super) trait Saver: Sync {
    /// Marks a block as in progress, and returns its bytes if an earlier call saved it.
    fn begin(&self, block: usize) -> Option<Vec<u8>>;

    /// Is called after each step of a block except the last. `save` encodes the block.
    fn passed(&self, block: usize, save: &dyn Fn() -> Result<Vec<u8>>, is_canceled: bool);

    fn end(&self, block: usize);

    /// Returns the seconds since the last checkpoint.
    fn age(&self) -> f64;

    /// Writes a checkpoint if one is due and no block is in progress.
    #[cfg(feature = "checkpoint")]
    fn tick_at_rest(&self);

    /// Returns whether this call has written a checkpoint.
    #[cfg(feature = "checkpoint")]
    fn has_written(&self) -> bool;

    /// Notes that all processes have written a checkpoint, so that files of earlier calls are no longer needed.
    #[cfg(feature = "checkpoint")]
    fn settle(&self);
}

/// A sender of outputs from threads to all processes.
pub(super) trait Outbox<O>: Sync {
    /// Takes the output of a block.
    fn put(&self, block: usize, output: O) -> Result<()>;

    /// Returns the outputs since the last call, as bytes.
    #[cfg(feature = "checkpoint")]
    fn take_new(&self) -> Vec<Vec<u8>>;

    /// Decodes an output that any process sent, and refuses an output that no block of the task can have.
    #[cfg(feature = "checkpoint")]
    fn read(&self, bytes: &[u8]) -> Result<Node<O>>;
}

/// The current task, and the objects that its threads share.
pub(super) struct Site<'a, O> {
    pub(super) task: &'a dyn Task<Output = O>,
    pub(super) ledger: &'a Ledger<O>,
    pub(super) saver: Option<&'a dyn Saver>,
    /// Sender of outputs to all processes; `None` if they stay in this process.
    pub(super) outbox: Option<&'a dyn Outbox<O>>,
}

impl<'e> Job<'e> {
    /// Creates a job whose clock starts now.
    ///
    /// # Errors
    /// No threads; an `until_error` that is not positive.
    pub(crate) fn new(by: &'e Execution<'e>) -> Result<Self> {
        by.check()?;
        let crew = Crew {
            by,
            meter: Meter::new(by.progress.as_deref()),
            begun: Instant::now(),
        };
        Ok(Self {
            crew,
            #[cfg(feature = "checkpoint")]
            team: None,
        })
    }

    /// Sets the name that progress callbacks get for work that is not a run.
    pub(crate) fn named(mut self, task: &'static str) -> Self {
        self.crew.meter.task = task;
        self
    }

    /// Shares the work with other processes, if there are any.
    #[cfg(feature = "checkpoint")]
    pub(super) fn of_team(mut self, team: Option<&'e Team<'e>>) -> Self {
        self.team = team;
        self
    }

    /// Returns `outcome` if it is a success in all processes, otherwise an error in all. Also returns the `figures` of
    /// the first of several processes; the other processes' figures differ at most by rounding.
    pub(crate) fn agreed<U>(
        &self,
        outcome: Result<U>,
        _figures: impl FnOnce(&U) -> Vec<f64>,
    ) -> Result<(U, Option<Vec<f64>>)> {
        #[cfg(feature = "checkpoint")]
        if let Some(team) = self.team {
            let (value, of_first) = team.agreed(outcome, _figures)?;
            return Ok((value, Some(of_first)));
        }
        outcome.map(|value| (value, None))
    }

    /// Returns the reason to stop work that is not a task, if there is one.
    pub(crate) fn stopped(&self) -> Option<StoppedBy> {
        self.crew.stopped()
    }

    /// Runs all blocks of a task. If there are several processes, each runs all blocks.
    pub(crate) fn complete<O: Merge + Send>(
        &self,
        task: &dyn Task<Output = O>,
    ) -> Result<Closed<O>> {
        self.extend(task, Forest::new())
    }

    /// Runs the blocks of a task whose outputs are not in `done`, which contains merged outputs sorted by block.
    pub(crate) fn extend<O: Merge + Send>(
        &self,
        task: &dyn Task<Output = O>,
        done: Forest<O>,
    ) -> Result<Closed<O>> {
        let ledger = Ledger::resumed(task.blocks(), done, task.last_is_unfilled());
        #[cfg(feature = "checkpoint")]
        let ledger = ledger.shared(self.team.map(|_| Share::WHOLE));
        self.skip(finished(task, &ledger));
        self.work(&Site {
            task,
            ledger: &ledger,
            saver: None,
            outbox: None,
        })?;
        ledger.close()
    }

    /// Runs the blocks that the ledger hands out. Meanwhile the calling thread exchanges news with other processes, if
    /// there are any.
    ///
    /// # Errors
    /// Threads that cannot be started; the failure of another process. Errors of blocks are in the ledger.
    pub(super) fn work<O: Merge + Send>(&self, at: &Site<'_, O>) -> Result<()> {
        let (crew, ledger) = (&self.crew, at.ledger);
        let rule = |done: usize, prefix: &Forest<O>| crew.is_enough(at.task, done, prefix);
        // The blocks that several processes left may already be more than the rule asks for.
        let first = at.task.chains(at.task.blocks().start);
        caught(&mut || ledger.merge(&rule)).map_err(|message| merging_panicked(message, first))?;
        if ledger.look(|done, prefix| !prefix.is_empty() && rule(done, prefix)) {
            ledger.stop(StoppedBy::StandardError);
        }
        let worker = || crew.blocks(at, &rule);
        let threads = (ledger.most(), at.task.width());
        let work = || side_by_side(crew.by.threads, threads, &worker);
        #[cfg(feature = "checkpoint")]
        if let Some(team) = self.team {
            let passed = |chain_steps| crew.count(chain_steps, ledger, at.saver);
            return team.meet(&work, &mut Meeting::new(at, &rule, &passed, team));
        }
        work()
    }
}

impl Crew<'_> {
    /// Runs blocks until the ledger has none left.
    fn blocks<O: Merge + Send>(&self, at: &Site<'_, O>, rule: Rule<'_, O>) {
        let (task, ledger) = (at.task, at.ledger);
        while let Some(block) = ledger.hand_out() {
            let outcome = self.block(at, block);
            let entered = caught_once(|| match (outcome, at.outbox) {
                // The ledgers of several processes take outputs at meetings only, so that all reach the same decisions.
                (Ok(output), Some(outbox)) => {
                    let sent = outbox.put(block, output);
                    sent.unwrap_or_else(|error| ledger.fail(block, error));
                }
                (outcome, _) => ledger.enter(block, outcome, rule),
            });
            if let Err(message) = entered {
                ledger.fail(block, merging_panicked(message, task.chains(block)));
            }
            // Only after the output is safe, so that every checkpoint contains either the output or the block's state.
            if let Some(saver) = at.saver {
                saver.end(block);
            }
        }
    }

    /// Runs a block. The error is `None` if the block was canceled.
    fn block<O: Merge + Send>(&self, at: &Site<'_, O>, block: usize) -> Result<O, Option<Error>> {
        let saved = at.saver.and_then(|saver| saver.begin(block));
        let step = |stepped, save: Save<'_>| self.step(at, block, stepped, save);
        let mut pulse = Pulse::new(at.task.chains(block), saved, &step);
        let done = caught(&mut || at.task.run(block, &mut pulse));
        let (chains, stage, beta) = pulse.place;
        match done {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(Halt::Canceled)) => Err(None),
            Ok(Err(Halt::Failed(error))) => Err(Some(error)),
            Err(message) => Err(Some(Error::Panicked {
                message,
                chains,
                stage,
                beta,
            })),
        }
    }

    /// Counts a step of a block, as [`Pulse::step`].
    fn step<O: Merge>(
        &self,
        at: &Site<'_, O>,
        block: usize,
        stepped: Stepped,
        save: Save<'_>,
    ) -> Result<(), Halt> {
        if let Some(left) = stepped.left {
            // `foresee` adds to the steps counted so far, which do not include this step.
            self.meter.foresee(left.saturating_add(stepped.cost));
        }
        self.count(stepped.cost, at.ledger, at.saver);
        // A finished block keeps its output even if it was canceled. Checkpoints then contain the output.
        if stepped.is_last {
            return Ok(());
        }
        // Read once, so that a block that ends here as canceled has left its bytes.
        let is_canceled = at.ledger.is_canceled(block);
        if let Some(saver) = at.saver {
            saver.passed(block, save, is_canceled);
        }
        match is_canceled {
            true => Err(Halt::Canceled),
            false => Ok(()),
        }
    }

    /// Counts chain-steps. Stops the work if a callback, `stop_when` or the time limit asks for it.
    fn count<O: Merge>(&self, chain_steps: u64, ledger: &Ledger<O>, saver: Option<&dyn Saver>) {
        let age = || saver.map(Saver::age);
        let by = match self.meter.add(chain_steps, &age) {
            true => Some(StoppedBy::Callback),
            false => self.stopped(),
        };
        by.into_iter().for_each(|by| ledger.ask_to_stop(by));
    }

    /// Returns the reason to stop, if `stop_when` or the time limit asks for it.
    fn stopped(&self) -> Option<StoppedBy> {
        let over = || self.by.is_over(self.begun).then_some(StoppedBy::TimeLimit);
        let asked = self.by.is_asked().then_some(StoppedBy::Callback);
        asked.or_else(over)
    }

    /// Returns whether the standard error from the first `blocks` blocks is small enough to end the run. Updates the
    /// estimate for progress callbacks.
    fn is_enough<O: Merge + Send>(
        &self,
        task: &dyn Task<Output = O>,
        blocks: usize,
        prefix: &Forest<O>,
    ) -> bool {
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
pub(super) fn finished<O: Merge + Send>(work: &dyn Task<Output = O>, ledger: &Ledger<O>) -> u64 {
    let costs = ledger.look_at_all(|node| work.cost(node.blocks()));
    costs.into_iter().sum()
}

impl Counts for Job<'_> {
    fn job(&self) -> &Job<'_> {
        self
    }
}

impl<O: Merge + Send> Runs<O> for Job<'_> {
    fn run(&mut self, task: &dyn Task<Output = O>) -> Result<Closed<O>> {
        self.complete(task)
    }
}

impl<C> Carries<C> for Job<'_> {
    fn carried(&mut self, _: &dyn Fn(&C) -> Result<()>) -> Result<Option<C>> {
        Ok(None)
    }

    fn carry(&mut self, reached: C, _: &[f64]) -> Result<C> {
        Ok(reached)
    }
}

pub(crate) fn merging_panicked(message: String, chains: Range<usize>) -> Error {
    Error::panicked(format!("in merging: {message}"), chains)
}

/// Runs `work`, and returns the message if it panics. It is not generic in `work`, so that it is compiled only once per
/// type of result.
pub(crate) fn caught<T>(work: &mut dyn FnMut() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(message)
}

/// Runs `work`, which consumes its captured values, as [`caught`] does.
pub(crate) fn caught_once<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let mut work = Some(work);
    caught(&mut || work.take().expect("called once")())
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a payload that is no text".to_owned())
}
