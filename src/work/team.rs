//! The processes of one run, which gather messages. If a process fails in a gathering, no further gathering follows.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bytes::{decode, encode};
use super::execution::check_outside_pool;
use super::identity::is_close;
use super::ledger::Share;
use crate::{Error, Result};

/// Shortest and longest pause between two meetings. A pause is a tenth of the time since the work began.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// First byte of a message with a value, and first byte of a message with a failure.
const VALUE: u8 = 0;
const FAILURE: u8 = 1;

/// The processes of a run, seen from one of them.
///
/// All processes call [`all_gather`](Self::all_gather) in the same order, each from the thread that began the run. A
/// process that can no longer reach the others returns an error and does not call again.
pub trait Ranks {
    /// Returns the index of this process, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Sends the bytes of this process to all, and returns the bytes of all processes, by rank. Waits for the slowest.
    ///
    /// # Errors
    /// For example a lost connection.
    fn all_gather(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>>;
}

/// The processes of a run, seen from one of them. Only the thread that began the run communicates with the others.
pub(crate) struct Team<'e> {
    ranks: &'e dyn Ranks,
    /// Whether the processes have stopped working together, after a failure that all of them received.
    has_parted: Cell<bool>,
}

impl<'e> Team<'e> {
    /// Runs `work` in all processes of `ranks`. They leave together: all with a result, or all with an error.
    ///
    /// # Errors
    /// A rank that is not below the number of processes; a call from a thread of rayon's pool; the error of `work`, or
    /// [`Error::Rank`] if it failed in another process.
    pub(crate) fn together<T>(
        ranks: &'e dyn Ranks,
        work: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let team = Self {
            ranks,
            has_parted: Cell::new(false),
        };
        let (rank, size) = (ranks.rank(), ranks.size());
        let expected = format!("less than {size}, the number of processes");
        // A refusal by these checks is part of the outcome, so that the other processes learn of it below.
        let outcome = Error::check(rank < size, "rank", rank, expected)
            .and_then(|()| check_outside_pool())
            .and_then(|()| work(&team));
        if team.has_parted.get() {
            return outcome;
        }
        let mut done = None;
        team.gather(outcome.map(|outcome| done = Some(outcome)))?;
        Ok(done.expect("no process has failed"))
    }

    pub(crate) fn share(&self) -> Share {
        Share {
            rank: self.ranks.rank(),
            size: self.ranks.size(),
        }
    }

    /// Returns the values of all processes, by rank. If one has failed, all return an error and no longer work
    /// together: the process at fault its own error, the others [`Error::Rank`].
    ///
    /// # Errors
    /// These errors; a message that cannot be written or read.
    pub(crate) fn gather<T: Serialize + DeserializeOwned>(
        &self,
        mine: Result<T>,
    ) -> Result<Vec<T>> {
        let mine = mine.and_then(|mine| encode("message to other ranks", &mine));
        let read = |(rank, bytes): (usize, Vec<u8>)| {
            let value = decode("message", &bytes);
            value.map_err(|error| of_rank(rank, &error))
        };
        let all = self.gather_bytes(mine)?;
        all.into_iter().enumerate().map(read).collect()
    }

    fn gather_bytes(&self, mine: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        if self.has_parted.get() {
            mine?;
            return Err(Error::invalid("ranks", "a call after a failure", "none"));
        }
        let (sent, own) = match mine {
            Ok(value) => (message(VALUE, &value), None),
            Err(error) => (message(FAILURE, &self.failure(&error)), Some(error)),
        };
        let all = self.ranks.all_gather(sent).and_then(|all| self.values(all));
        self.has_parted.set(own.is_some() || all.is_err());
        match own {
            Some(error) => Err(error),
            None => all,
        }
    }

    /// Extracts the values from messages, unless one message is a failure.
    fn values(&self, mut all: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let expected = format!("{}, one of each process", self.ranks.size());
        let fits = all.len() == self.ranks.size();
        Error::check(fits, "gathered messages", all.len(), expected)?;
        for (rank, bytes) in all.iter_mut().enumerate() {
            match bytes.first() {
                Some(&VALUE) => drop(bytes.remove(0)),
                Some(&FAILURE) => return Err(heard(rank, &bytes[1..])),
                _ => {
                    let message = "a message that is neither value nor failure".to_owned();
                    return Err(Error::Rank { rank, message });
                }
            }
        }
        Ok(all)
    }

    /// Encodes an error with the rank at fault.
    fn failure(&self, error: &Error) -> Vec<u8> {
        let (rank, text) = match error {
            Error::Rank { rank, message } => (*rank, message.clone()),
            error => (self.ranks.rank(), error.to_string()),
        };
        [&(rank as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    /// Returns the first process's bytes in all processes. The `figures` of all processes must agree up to rounding.
    ///
    /// # Errors
    /// [`Error::Rank`] with the first rank whose figures differ; the errors of [`gather`](Self::gather).
    pub(crate) fn led(&self, mine: Result<Vec<u8>>, figures: &[f64]) -> Result<Vec<u8>> {
        let bytes = match self.ranks.rank() {
            0 => mine,
            _ => mine.map(|_| Vec::new()),
        };
        let mut all = self.gather(bytes.map(|bytes| (figures.to_vec(), bytes)))?;
        check_alike(all.iter().map(|(figures, _)| figures.as_slice()))?;
        Ok(all.swap_remove(0).1)
    }

    /// Returns an outcome that is a success in all processes or a failure in all. After a failure all processes
    /// continue. Compares `figures` as [`led`](Self::led) does, and also returns the figures of the first process.
    pub(crate) fn agreed<T>(
        &self,
        mine: Result<T>,
        figures: impl FnOnce(&T) -> Vec<f64>,
    ) -> Result<(T, Vec<f64>)> {
        let told = match &mine {
            Ok(value) => Ok(figures(value)),
            Err(error) => Err(error.to_string()),
        };
        let all: Vec<Result<Vec<f64>, String>> = self.gather(Ok(told))?;
        let value = mine?;
        let mut found = Vec::new();
        for (rank, told) in all.into_iter().enumerate() {
            found.push(told.map_err(|message| Error::Rank { rank, message })?);
        }
        check_alike(found.iter().map(Vec::as_slice))?;
        Ok((value, found.swap_remove(0)))
    }
}

/// Runs `work` on another thread, and meanwhile calls `meet` until it returns true, with whether the work is done. If
/// `meet` fails, it has told the work to end. Neither may panic.
pub(super) fn meanwhile(
    work: &(dyn Fn() -> Result<()> + Sync),
    meet: &mut dyn FnMut(bool) -> Result<bool>,
) -> Result<()> {
    thread::scope(|scope| {
        let (at_work, ended) = channel();
        let worker = scope.spawn(move || {
            // Dropped when the work ends. The meetings then find the channel closed.
            let _at_work = at_work;
            work()
        });
        let met = meet_until_done(&ended, meet);
        let worked = worker.join().expect("the work catches its panics");
        met.and(worked)
    })
}

fn meet_until_done(ended: &Receiver<()>, meet: &mut dyn FnMut(bool) -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let pause = (begun.elapsed() / 10).clamp(PAUSES.0, PAUSES.1);
        let waited = ended.recv_timeout(pause);
        if meet(waited == Err(RecvTimeoutError::Disconnected))? {
            return Ok(());
        }
    }
}

/// Returns the values of all processes, or of the only one.
pub(super) fn gather<T: Serialize + DeserializeOwned>(
    team: Option<&Team<'_>>,
    mine: Result<T>,
) -> Result<Vec<T>> {
    match team {
        Some(team) => team.gather(mine),
        None => mine.map(|mine| vec![mine]),
    }
}

fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind], content].concat()
}

/// Decodes a failure that rank `sender` sent. The rank at fault may be another.
fn heard(sender: usize, failure: &[u8]) -> Error {
    let (rank, text) = match failure.split_first_chunk() {
        Some((rank, text)) => (u64::from_le_bytes(*rank) as usize, text),
        None => (sender, failure),
    };
    let message = String::from_utf8_lossy(text).into_owned();
    Error::Rank { rank, message }
}

pub(super) fn of_rank(rank: usize, error: &Error) -> Error {
    let message = error.to_string();
    Error::Rank { rank, message }
}

/// Refuses a process whose figures differ from the first process's figures by more than rounding.
fn check_alike<'f>(mut all: impl Iterator<Item = &'f [f64]>) -> Result<()> {
    let first = all.next().unwrap_or_default();
    for (rank, figures) in (1..).zip(all) {
        if let Some(message) = difference(figures, first) {
            return Err(Error::Rank { rank, message });
        }
    }
    Ok(())
}

/// Describes the first figure that differs from rank 0's figure by more than rounding.
fn difference(mine: &[f64], first: &[f64]) -> Option<String> {
    let (mine_len, first_len) = (mine.len(), first.len());
    if mine_len != first_len {
        return Some(format!("has found {mine_len} figures, rank 0 {first_len}"));
    }
    let alike = |x: f64, y: f64| x.is_nan() && y.is_nan() || is_close(x, y, 1.0);
    let (x, y) = mine.iter().zip(first).find(|(x, y)| !alike(**x, **y))?;
    Some(format!("has found {x} where rank 0 found {y}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of two ranks. The other sends one message.
    struct Scripted(Vec<u8>);

    impl Ranks for Scripted {
        fn rank(&self) -> usize {
            0
        }

        fn size(&self) -> usize {
            2
        }

        fn all_gather(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
            Ok(vec![mine, self.0.clone()])
        }
    }

    fn led(theirs: &[f64]) -> Result<String> {
        let sent = encode("message", &(theirs, Vec::<u8>::new()))?;
        let world = Scripted(message(VALUE, &sent));
        let team = Team {
            ranks: &world,
            has_parted: Cell::new(false),
        };
        let led = team.led(Ok(b"first".to_vec()), &[1e9, f64::NAN, 0.5])?;
        Ok(String::from_utf8(led).unwrap())
    }

    #[test]
    fn figures_that_differ_by_more_than_rounding_name_their_rank() {
        assert_eq!(led(&[1e9 + 10.0, f64::NAN, 0.5]).unwrap(), "first");
        for theirs in [&[1e9, f64::NAN, 0.51][..], &[1e9, 0.0, 0.5], &[1e9]] {
            let refused = led(theirs).unwrap_err();
            assert!(matches!(refused, Error::Rank { rank: 1, .. }), "{refused}");
        }
    }

    #[test]
    fn after_a_failure_nothing_is_gathered() {
        let failed = Scripted(message(
            FAILURE,
            &[&5_u64.to_le_bytes()[..], b"lost"].concat(),
        ));
        let outcome = Team::together(&failed, |team| {
            let refused = team.gather(Ok(1)).unwrap_err();
            let lost = Error::Rank {
                rank: 5,
                message: "lost".to_owned(),
            };
            assert_eq!(refused, lost);
            assert!(team.has_parted.get() && team.gather(Ok(1)).is_err());
            Ok(7)
        });
        assert_eq!(outcome.unwrap(), 7);
    }
}
