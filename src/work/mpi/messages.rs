//! Messages between ranks in postcard's format, which keeps every bit, and the common end of a run: each rank tells
//! rank 0 how its work ended, and rank 0 tells all how the run did.

use std::ops::Range;
use std::thread;
use std::time::Instant;

use mpi::topology::Communicator;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Ranks, VERDICT, pause};
use crate::work::store::{decode, encode};
use crate::{Error, Result};

impl Ranks {
    /// Sends a value, and returns when it is on its way.
    ///
    /// # Errors
    /// A value that postcard cannot write, as for `encode`.
    pub(crate) fn tell<T: Serialize>(&mut self, to: usize, value: &T) -> Result<()> {
        self.send(to, &written(value)?);
        Ok(())
    }

    pub(crate) fn tell_all<T: Serialize>(&mut self, value: &T) -> Result<()> {
        self.send_to_all(&written(value)?);
        Ok(())
    }

    /// Returns the next value with its sender; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Error::Rank`] if a rank has failed or sent an unreadable value.
    pub(crate) fn look<T: DeserializeOwned>(&mut self) -> Result<Option<(usize, T)>> {
        let message = self.poll()?;
        message
            .map(|(rank, bytes)| Ok((rank, read(rank, &bytes)?)))
            .transpose()
    }

    /// Waits for the next value, and returns it with its sender.
    ///
    /// # Errors
    /// The errors of [`look`](Self::look).
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> Result<(usize, T)> {
        let (rank, bytes) = self.wait()?;
        Ok((rank, read(rank, &bytes)?))
    }
}

fn written(value: &impl Serialize) -> Result<Vec<u8>> {
    encode("message to another rank", value)
}

fn read<T: DeserializeOwned>(rank: usize, bytes: &[u8]) -> Result<T> {
    decode("message", bytes).map_err(|error| Error::Rank {
        rank,
        message: error.to_string(),
    })
}

impl Ranks {
    /// Runs this rank's part `work`. All ranks of `world` call this, and leave when all are done or one has failed.
    /// Unread messages are dropped. `work` learns of a failure elsewhere by [`poll`](Self::poll), which it must call
    /// all the time. A panic ends all processes.
    ///
    /// # Errors
    /// A call from a thread of rayon's pool; the error of `work`; [`Error::Rank`] if other ranks failed.
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

    /// Exchanges verdicts. Rank 0 sends a failure at once, and a success when all have ended. Verdicts come last on
    /// either side, so that no message is left.
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

    /// Returns the ranks with which this one exchanges messages.
    pub(super) fn peers(&self) -> Range<usize> {
        match self.rank() {
            0 => 1..self.size(),
            _ => 0..1,
        }
    }

    /// Encodes the failure with its rank; empty after a success.
    fn verdict(&self) -> Vec<u8> {
        let (rank, message) = match &self.failure {
            None => return Vec::new(),
            Some(Error::Rank { rank, message }) => (*rank, message.clone()),
            Some(error) => (self.rank(), error.to_string()),
        };
        [&(rank as u64).to_le_bytes(), message.as_bytes()].concat()
    }
}

/// Refuses a thread of rayon's pool, because other threads of the pool might wait for it forever.
fn check_thread() -> Result<()> {
    let outside = rayon::current_thread_index().is_none();
    let found = "a call from a thread of rayon's pool";
    Error::check(outside, "world", found, "one from outside of the pool")
}

/// Decodes a verdict. An unreadable one is a failure of its sender.
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

/// Ends all processes after a panic, because the others would wait forever.
impl Drop for Ranks {
    fn drop(&mut self) {
        if thread::panicking() {
            self.communicator.abort(101);
        }
    }
}
