//! Jobs: tasks one after another, and the loop over the blocks of a task, shared by threads.

#[cfg(feature = "checkpoint")]
use std::sync::Mutex;

use super::execution::{Execution, StoppedBy, caught, caught_once, merging_panicked, side_by_side};
#[cfg(feature = "checkpoint")]
use super::ledger::Share;
use super::ledger::{Closed, Ledger};
use super::meter::Meter;
#[cfg(feature = "checkpoint")]
use super::store::{Keeper, Outbox, Saved};
use super::task::{Format, Halt, Pulse, Save, Stepped, Task};
#[cfg(feature = "checkpoint")]
use super::team::{Team, meanwhile};
use super::tree::{Forest, Merge, Node};
use crate::{Error, Result};

/// The work of one process, alone or together with others, with or without checkpoints. It runs tasks one after another.
#[allow(missing_debug_implementations)] // No user meets it.
pub struct Job<'e> {
    pub(super) meter: Meter<'e>,
    /// The processes that share the work. Only the calling thread communicates with the others.
    #[cfg(feature = "checkpoint")]
    pub(super) team: Option<&'e Team<'e>>,
    /// The writer of checkpoints, if there are any.
    #[cfg(feature = "checkpoint")]
    pub(super) keeper: Option<Keeper<'e>>,
    /// Content of the checkpoint, until the first task takes it.
    #[cfg(feature = "checkpoint")]
    pub(super) saved: Saved,
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
            #[cfg(feature = "checkpoint")]
            keeper: None,
            #[cfg(feature = "checkpoint")]
            saved: Saved::default(),
        })
    }

    /// Sets the name that progress callbacks get for work that is not a run.
    pub(crate) fn named(mut self, task: &'static str) -> Self {
        self.meter.task = task;
        self
    }

    /// Counts chain-steps that an earlier call has done.
    pub(crate) fn skip(&self, chain_steps: u64) {
        self.meter.skip(chain_steps);
    }

    /// Sets the number of chain-steps left to the end of all work. What is skipped later counts against it.
    pub(crate) fn foresee(&self, chain_steps: u64) {
        self.meter.foresee(chain_steps);
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

    /// Runs a task, and returns its outputs in every process. `format` is required if the job saves or shares work.
    pub(crate) fn run<O: Merge + Send>(
        &mut self,
        task: &dyn Task<Output = O>,
        _format: Option<Format<O>>,
    ) -> Result<Closed<O>> {
        #[cfg(feature = "checkpoint")]
        if self.is_kept() {
            return self.run_kept(task, _format.expect(NEEDED));
        }
        self.complete(task)
    }

    /// Returns the value that an earlier call carried last and saved, if any. `check` may refuse this value.
    pub(crate) fn carried<C>(
        &mut self,
        _format: Option<Format<C>>,
        _check: &dyn Fn(&C) -> Result<()>,
    ) -> Result<Option<C>> {
        #[cfg(feature = "checkpoint")]
        if let Some(bytes) = self.saved.carried.take() {
            let carried = (_format.expect(NEEDED).read)("carried value", &bytes);
            let checked = carried.and_then(|carried| _check(&carried).map(|()| Some(carried)));
            return checked.map_err(|error| self.named_by_file(error));
        }
        Ok(None)
    }

    /// Carries a value from one task of a sequence to the next: keeps it in place of the blocks of the task that has
    /// ended. It reaches a file with the next block that is saved; until then the file has the blocks of the task that ended. A
    /// value that ends the work must come last, or a call that resumes would end there. Returns the first process's `reached` in
    /// all processes. The `figures` of
    /// all processes must agree up to rounding.
    pub(crate) fn carry<C>(
        &mut self,
        _format: Option<Format<C>>,
        reached: C,
        _figures: &[f64],
    ) -> Result<C> {
        #[cfg(feature = "checkpoint")]
        if self.is_kept() {
            return self.carry_kept(_format.expect(NEEDED), reached, _figures);
        }
        Ok(reached)
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
        let site = Site::new(&self.meter, task, done);
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
    /// The writer of checkpoints, if there are any.
    #[cfg(feature = "checkpoint")]
    pub(super) keeper: Option<&'a Keeper<'a>>,
    /// The format of outputs that are saved or shared.
    #[cfg(feature = "checkpoint")]
    pub(super) format: Option<Format<O>>,
    /// Outputs of this process, if several share the blocks.
    #[cfg(feature = "checkpoint")]
    pub(super) outbox: Option<Mutex<Outbox>>,
}

impl<'a, O: Merge + Send> Site<'a, O> {
    /// Creates a site with the outputs of finished blocks, whose steps count as done.
    pub(super) fn new(
        meter: &'a Meter<'_>,
        task: &'a dyn Task<Output = O>,
        done: Forest<O>,
    ) -> Self {
        let ledger = Ledger::new(task.blocks(), done, task.last_is_unfilled());
        let costs = ledger
            .finished()
            .into_iter()
            .map(|blocks| task.cost(blocks));
        meter.skip(costs.sum());
        Self {
            task,
            meter,
            ledger,
            #[cfg(feature = "checkpoint")]
            keeper: None,
            #[cfg(feature = "checkpoint")]
            format: None,
            #[cfg(feature = "checkpoint")]
            outbox: None,
        }
    }

    /// Lets several processes decide together when the work ends. This process runs the blocks of `share`.
    #[cfg(feature = "checkpoint")]
    pub(super) fn shared(mut self, share: Option<Share>) -> Self {
        self.ledger.share = share;
        self
    }

    /// Runs blocks until the ledger has none left.
    pub(super) fn run_blocks(&self) {
        while let Some(block) = self.ledger.hand_out() {
            let outcome = self.run_block(block);
            if let Err(message) = caught_once(|| self.enter(block, outcome)) {
                let error = merging_panicked(message, self.task.chains(block));
                self.ledger.fail(block, error);
            }
            // Only after the output is safe, so that every checkpoint contains either the output or the block's state.
            #[cfg(feature = "checkpoint")]
            if let Some(keeper) = self.keeper {
                keeper.end(block);
            }
        }
    }

    fn run_block(&self, block: usize) -> Result<O, Halt> {
        #[cfg(feature = "checkpoint")]
        let saved = self.keeper.and_then(|keeper| keeper.begin(block));
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
        if let Some(keeper) = self.keeper {
            keeper.pass(block, _save, is_canceled, &|| self.finished());
        }
        match is_canceled {
            true => Err(Halt::Canceled),
            false => Ok(()),
        }
    }

    /// Counts chain-steps. Stops the work if a callback, `stop_when` or the time limit asks for it.
    pub(super) fn count(&self, chain_steps: u64) {
        #[cfg(feature = "checkpoint")]
        let age = || self.keeper.map(|keeper| keeper.age());
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
                if let Some(outbox) = &self.outbox {
                    let put = self.put(outbox, &node);
                    return put.unwrap_or_else(|error| self.ledger.fail(block, error));
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
    pub(super) fn guarded<T>(&self, work: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        caught(work).unwrap_or_else(|message| {
            let blocks = self.ledger.blocks();
            let (first, last) = (blocks.start, blocks.end - 1);
            let chains = self.task.chains(first).start..self.task.chains(last).end;
            Err(Error::panicked(message, chains))
        })
    }
}

/// Runners hand formats to all work that is saved or shared.
#[cfg(feature = "checkpoint")]
pub(super) const NEEDED: &str = "kept work has formats";
