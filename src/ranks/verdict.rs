//! How all ranks leave a run together: each tells rank 0 how its work ended, and rank 0 tells all how
//! the run did.

use std::ops::Range;
use std::thread;
use std::time::Instant;

use mpi::topology::Communicator;

use super::{Ranks, VERDICT, pause};
use crate::{Error, Result};

impl Ranks {
    /// Does the work of a run, this rank's part of which is `work`. All ranks of `world` call this, and
    /// leave when all have done their part or one has failed. What nobody read by then is gone.
    ///
    /// The work of other ranks learns of a failure by the next [`poll`](Self::poll), which it must call
    /// all the time. A panic ends all processes.
    ///
    /// # Errors
    /// A thread of rayon's pool; that of `work`; [`Error::Rank`] where other ranks failed.
    pub(crate) fn together<T>(
        world: &dyn Communicator,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let mut ranks = Self::new(world)?;
        let outcome = check_thread().and_then(|()| work(&mut ranks));
        if let Err(error) = &outcome {
            ranks.failure = Some(error.clone());
        }
        ranks.leave();
        match ranks.failure.take() {
            Some(error) => Err(error),
            None => outcome,
        }
    }

    /// Rank 0 tells a failure at once, and a success when it knows of all. Verdicts are the last message
    /// of either side, so that none is left when they have come.
    fn leave(&mut self) {
        if self.rank() == 0 {
            self.receive_until(|ranks| ranks.failure.is_some() || ranks.all_ended());
        }
        let verdict = self.verdict();
        self.send_pieces(self.peers(), &verdict, VERDICT);
        self.receive_until(Self::all_ended);
    }

    fn receive_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            if !self.receive() {
                pause(start);
            }
        }
    }

    fn all_ended(&self) -> bool {
        self.ended[self.peers()].iter().all(|&ended| ended)
    }

    /// Those with whom this rank exchanges messages.
    pub(super) fn peers(&self) -> Range<usize> {
        match self.rank() {
            0 => 1..self.size(),
            _ => 0..1,
        }
    }

    /// Nothing, or the rank that failed and what it said.
    fn verdict(&self) -> Vec<u8> {
        let (rank, message) = match &self.failure {
            None => return Vec::new(),
            Some(Error::Rank { rank, message }) => (*rank, message.clone()),
            Some(error) => (self.rank(), error.to_string()),
        };
        [&(rank as u64).to_le_bytes(), message.as_bytes()].concat()
    }
}

/// Refuses a thread of rayon's pool, for whose work the others of the pool might wait for ever.
fn check_thread() -> Result<()> {
    let outside = rayon::current_thread_index().is_none();
    let found = "a call from a thread of rayon's pool";
    Error::check(outside, "world", found, "one from outside of the pool")
}

/// What a verdict says. One that cannot be read is a failure of its sender.
pub(super) fn failure(sender: usize, verdict: &[u8]) -> Option<Error> {
    if verdict.is_empty() {
        return None;
    }
    let (rank, message) = match verdict.split_first_chunk() {
        Some((rank, message)) => (u64::from_le_bytes(*rank) as usize, message),
        None => (sender, verdict),
    };
    let message = String::from_utf8_lossy(message).into_owned();
    Some(Error::Rank { rank, message })
}

/// The others would wait for this rank for ever.
impl Drop for Ranks {
    fn drop(&mut self) {
        if thread::panicking() {
            self.communicator.abort(101);
        }
    }
}
