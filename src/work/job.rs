//! The loop over the blocks of a task, shared by threads, and the traits that drive it.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::execution::{Execution, StoppedBy, side_by_side};
#[cfg(feature = "checkpoint")]
use super::ledger::Share;
use super::ledger::{Closed, Ledger};
use super::meter::Meter;
#[cfg(feature = "checkpoint")]
use super::store::Kept;
use super::task::{Halt, Pulse, Save, Stepped, Task};
#[cfg(feature = "checkpoint")]
use super::team::{Team, meanwhile};
use super::tree::{Forest, Merge, Node};
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
        self.job().meter.skip(chain_steps);
    }

    /// Sets the number of chain-steps left to the end of all work.
    fn foresee(&self, chain_steps: u64) {
        self.job().meter.foresee(chain_steps);
    }

    /// Returns the job for tasks that are not saved, and whose blocks are all run by each process.
    fn job(&self) -> &Job<'_>;
}

/// The work of one process, alone or together with others, without checkpoints.
pub(crate) struct Job<'e> {
    pub(super) meter: Meter<'e>,
    /// The processes that share the work. Only the calling thread communicates with the others.
    #[cfg(feature = "checkpoint")]
    pub(super) team: Option<&'e Team<'e>>,
}

impl<'e> Job<'e> {
    /// Creates a job whose clock starts now.
    ///
    /// # Errors
    /// No threads; an `until_error` that is not positive.
    pub(crate) fn new(by: &'e Execution<'e>) -> Result<Self> {
        by.check()?;
        Ok(Self {
            meter: Meter::new(by),
            #[cfg(feature = "checkpoint")]
            team: None,
        })
    }

    /// Sets the name that progress callbacks get for work that is not a run.
    pub(crate) fn named(mut self, task: &'static str) -> Self {
        self.meter.task = task;
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
        self.meter.stopped()
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
        let site = Site::new(self, task, done);
        #[cfg(feature = "checkpoint")]
        let site = site.shared(self.team.map(|_| Share::WHOLE));
        self.work(&site)?;
        site.ledger.close()
    }

    /// Runs the blocks that the ledger hands out. Meanwhile the calling thread exchanges news with other processes, if
    /// there are any.
    ///
    /// # Errors
    /// Threads that cannot be started; the failure of another process. Errors of blocks are in the ledger.
    pub(super) fn work<O: Merge + Send>(&self, site: &Site<'_, O>) -> Result<()> {
        let first = site.task.chains(site.ledger.blocks().start);
        caught(&mut || site.merge()).map_err(|message| merging_panicked(message, first))?;
        let (threads, most) = (self.meter.by.threads, site.ledger.most());
        let worker = || site.run_blocks();
        let work = || side_by_side(threads, (most, site.task.width()), &worker);
        #[cfg(feature = "checkpoint")]
        if let Some(team) = self.team {
            let mut meet = |is_done| {
                let met = site.guarded(&mut || site.meet(team, is_done));
                met.inspect_err(|_| site.ledger.cancel_from(0))
            };
            return meanwhile(&|| site.guarded(&mut || work()), &mut meet);
        }
        work()
    }
}

/// A task at work: what its threads share.
pub(super) struct Site<'a, O> {
    pub(super) task: &'a dyn Task<Output = O>,
    meter: &'a Meter<'a>,
    pub(super) ledger: Ledger<O>,
    #[cfg(feature = "checkpoint")]
    pub(super) kept: Option<Kept<'a, O>>,
}

impl<'a, O: Merge + Send> Site<'a, O> {
    /// Creates a site with the outputs of finished blocks, whose steps count as done.
    pub(super) fn new(job: &'a Job<'_>, task: &'a dyn Task<Output = O>, done: Forest<O>) -> Self {
        let ledger = Ledger::new(task.blocks(), done, task.last_is_unfilled());
        let costs = ledger
            .finished()
            .into_iter()
            .map(|blocks| task.cost(blocks));
        job.skip(costs.sum());
        Self {
            task,
            meter: &job.meter,
            ledger,
            #[cfg(feature = "checkpoint")]
            kept: None,
        }
    }

    /// Lets several processes decide together when the work ends. This process runs the blocks of `share`.
    #[cfg(feature = "checkpoint")]
    pub(super) fn shared(mut self, share: Option<Share>) -> Self {
        self.ledger.share = share;
        self
    }

    /// Runs blocks until the ledger has none left.
    fn run_blocks(&self) {
        while let Some(block) = self.ledger.hand_out() {
            let outcome = self.run_block(block);
            if let Err(message) = caught_once(|| self.enter(block, outcome)) {
                let error = merging_panicked(message, self.task.chains(block));
                self.ledger.fail(block, error);
            }
            // Only after the output is safe, so that every checkpoint contains either the output or the block's state.
            #[cfg(feature = "checkpoint")]
            if let Some(keeper) = self.keeper() {
                keeper.end(block);
            }
        }
    }

    fn run_block(&self, block: usize) -> Result<O, Halt> {
        #[cfg(feature = "checkpoint")]
        let saved = self.keeper().and_then(|keeper| keeper.begin(block));
        #[cfg(not(feature = "checkpoint"))]
        let saved = None;
        let step = |stepped, save: Save<'_>| self.step(block, stepped, save);
        let mut pulse = Pulse::new(self.task.chains(block), saved, &step);
        let done = caught(&mut || self.task.run(block, &mut pulse));
        let (chains, stage, beta) = pulse.place;
        done.unwrap_or_else(|message| {
            Err(Halt::Failed(Error::Panicked {
                message,
                chains,
                stage,
                beta,
            }))
        })
    }

    /// Counts a step of a block, as [`Pulse::step`].
    fn step(&self, block: usize, stepped: Stepped, _save: Save<'_>) -> Result<(), Halt> {
        if let Some(left) = stepped.left {
            // `foresee` adds to the steps counted so far, which do not include this step.
            self.meter.foresee(left.saturating_add(stepped.cost));
        }
        self.count(stepped.cost);
        // A finished block keeps its output even if it was canceled. Checkpoints then contain the output.
        if stepped.is_last {
            return Ok(());
        }
        // Read once, so that a block that ends here as canceled has left its bytes.
        let is_canceled = self.ledger.is_canceled(block);
        #[cfg(feature = "checkpoint")]
        self.save(block, _save, is_canceled);
        match is_canceled {
            true => Err(Halt::Canceled),
            false => Ok(()),
        }
    }

    /// Counts chain-steps. Stops the work if a callback, `stop_when` or the time limit asks for it.
    pub(super) fn count(&self, chain_steps: u64) {
        #[cfg(feature = "checkpoint")]
        let age = || self.keeper().map(|keeper| keeper.age());
        #[cfg(not(feature = "checkpoint"))]
        let age = || None;
        if let Some(by) = self.meter.count(chain_steps, &age) {
            self.ledger.ask_to_stop(by);
        }
    }

    fn enter(&self, block: usize, outcome: Result<O, Halt>) {
        match outcome {
            Err(Halt::Canceled) => {}
            Err(Halt::Failed(error)) => self.ledger.fail(block, error),
            Ok(output) => {
                let node = Node::leaf(block, output);
                // The ledgers of several processes take outputs at meetings only, so that all reach the same decisions.
                #[cfg(feature = "checkpoint")]
                if let Some(sent) = self.send(&node) {
                    return sent.unwrap_or_else(|error| self.ledger.fail(block, error));
                }
                self.ledger.take(node);
                self.merge();
            }
        }
    }

    /// Merges finished blocks, until the standard error is small enough to end the run. Updates the estimate for
    /// progress callbacks.
    pub(super) fn merge(&self) {
        self.ledger.merge(&|blocks, prefix| {
            self.meter.set(|| self.task.so_far(prefix));
            let enough = self.meter.by.until_error;
            enough.is_some_and(|enough| self.task.suffices(enough, blocks, prefix))
        });
    }

    /// Runs `work`. A panic becomes an error that names all chains of the task.
    #[cfg(feature = "checkpoint")]
    fn guarded<T>(&self, work: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        caught(work).unwrap_or_else(|message| {
            let blocks = self.ledger.blocks();
            let (first, last) = (blocks.start, blocks.end - 1);
            let chains = self.task.chains(first).start..self.task.chains(last).end;
            Err(Error::panicked(message, chains))
        })
    }
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
