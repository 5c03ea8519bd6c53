//! Runs that several processes share: here threads that gather by channels.
#![cfg(feature = "checkpoint")]

mod bits;
mod checkpoints;
mod ends;
mod files;
mod killed;

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use annealed::kernel::RandomWalkMetropolis;
use annealed::path::AnnealingPath;
use annealed::prelude::{Ais, Schedule};
use annealed::ranks::Ranks;
use annealed::{Error, Result};
use nalgebra::DVector;
use serde::Serialize;

/// Replaces the message that a rank sends; `None` is a lost connection.
type Spoil = dyn FnMut(Vec<u8>) -> Option<Vec<u8>> + Send;

/// One of several ranks. It may lose its connection, or send other bytes than it should.
struct Channels {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
    spoil: RefCell<Box<Spoil>>,
}

impl Channels {
    /// Lets this rank send what `spoil` makes of its messages; `None` is a lost connection.
    fn spoilt(self, spoil: impl FnMut(Vec<u8>) -> Option<Vec<u8>> + Send + 'static) -> Self {
        drop(self.spoil.replace(Box::new(spoil)));
        self
    }
}

impl Ranks for Channels {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn all_gather(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let lost = |_: &dyn std::fmt::Debug| Error::invalid("connection", "a lost one", "one");
        let mine = (self.spoil.borrow_mut())(mine).ok_or_else(|| lost(&"here"))?;
        for to in &self.to {
            to.send(mine.clone()).map_err(|error| lost(&error))?;
        }
        let patience = Duration::from_secs(60);
        let received = self.from.iter().map(|from| from.recv_timeout(patience));
        received
            .map(|found| found.map_err(|error| lost(&error)))
            .collect()
    }
}

fn connected(size: usize) -> Vec<Channels> {
    let mut ends: Vec<_> = (0..size).map(|_| (Vec::new(), Vec::new())).collect();
    for from in 0..size {
        for to in 0..size {
            let (sender, receiver) = channel();
            ends[from].0.push(sender);
            ends[to].1.push(receiver);
        }
    }
    let rank = |(rank, (to, from))| Channels {
        rank,
        to,
        from,
        spoil: RefCell::new(Box::new(Some)),
    };
    ends.into_iter().enumerate().map(rank).collect()
}

/// Calls `work` in a thread for each rank, and returns what comes of it, by rank.
fn on_ranks<T: Send>(size: usize, work: impl Fn(Channels) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let start = |world| scope.spawn(move || work(world));
        let ranks: Vec<_> = connected(size).into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

fn ais<'e, P>(path: P) -> Ais<'e, P, RandomWalkMetropolis>
where
    P: AnnealingPath<State = DVector<f64>>,
{
    Ais::with_base_log_z(path, walk(), 0.0)
        .schedule(Schedule::linear(20).unwrap())
        .chains(1_000)
        .block_size(50)
        .seed(3)
}

/// All that a run says, its times aside.
fn said(run: &impl Serialize) -> String {
    fn timeless(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.remove("seconds");
                fields.values_mut().for_each(timeless);
            }
            serde_json::Value::Array(values) => values.iter_mut().for_each(timeless),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(run).unwrap();
    timeless(&mut value);
    value.to_string()
}

/// All ranks end with the failure of one, which has its own error and the others its name.
fn expect_failure<T>(found: Vec<Result<T>>, at_fault: usize, part: &str) {
    for (rank, found) in found.into_iter().enumerate() {
        let error = found.err().expect("a failure");
        let named = matches!(&error, Error::Rank { rank, .. } if *rank == at_fault);
        assert!(named == (rank != at_fault), "rank {rank}: {error}");
        assert!(error.to_string().contains(part), "rank {rank}: {error}");
    }
}
