//! Tests to be run as 1, 2 and 3 processes by `mpirun`, because MPI begins once in a process.

use mpi::Threading;
use mpi::point_to_point::{Destination, Source};
use mpi::topology::{Communicator, SimpleCommunicator};

use super::{Ranks, messages};
use crate::{Error, Result};

#[test]
fn ranks_exchange_messages_and_leave_together() {
    let world = SimpleCommunicator::world();
    expect_argument(Ranks::together(&world, |_| Ok(())), "without MPI");
    let (_universe, _) = mpi::initialize_with_threading(Threading::Funneled).unwrap();
    for largest_piece in [1_000, super::LARGEST_PIECE] {
        large_messages_pass_each_other(&world, largest_piece);
    }
    many_messages_keep_their_order(&world);
    what_nobody_read_is_not_seen_by_the_next_run(&world);
    the_programs_own_messages_stay(&world);
    rounds(&world);
    for failing in 0..world.size() as usize {
        one_failure_ends_all(&world, failing);
    }
    what_is_no_message_is_an_error(&world);
    rounds(&world);
}

fn expect_argument<T>(outcome: Result<T>, part: &str) {
    let Err(Error::InvalidArgument { value, .. }) = outcome.map(|_| ()) else {
        panic!("no error about an argument");
    };
    assert!(value.contains(part), "{value}");
}

fn pattern(rank: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| ((i * i + i / 251 + 31 * rank) % 256) as u8)
        .collect()
}

/// Receives `count` messages of each other rank on rank 0, in order of arrival.
fn gather(ranks: &mut Ranks, count: usize) -> Result<Vec<(usize, Vec<u8>)>> {
    (0..count * (ranks.size() - 1))
        .map(|_| ranks.wait())
        .collect()
}

/// Sends from both sides before receiving, with sizes at, below and above a piece, and zero.
fn large_messages_pass_each_other(world: &dyn Communicator, largest_piece: usize) {
    let lengths = [5_000_000, 0, 1_000, 999, 1_001, 2_000, 10_000_000];
    let done = Ranks::together(world, |ranks| {
        ranks.largest_piece = largest_piece;
        let rank = ranks.rank();
        if rank == 0 {
            for length in lengths {
                ranks.send_to_all(&pattern(0, length));
            }
            let mut received = vec![Vec::new(); ranks.size()];
            for (from, message) in gather(ranks, lengths.len())? {
                received[from].push(message);
            }
            for (from, messages) in received.iter().enumerate().skip(1) {
                assert!(
                    messages
                        .iter()
                        .eq(&lengths.map(|length| pattern(from, length)))
                );
            }
        } else {
            for length in lengths {
                ranks.send(0, &pattern(rank, length));
            }
            for length in lengths {
                assert!(ranks.wait()? == (0, pattern(0, length)));
            }
        }
        Ok(())
    });
    done.unwrap();
}

fn many_messages_keep_their_order(world: &dyn Communicator) {
    let count = 20_000;
    let done = Ranks::together(world, |ranks| {
        if ranks.rank() > 0 {
            (0..count as u64).for_each(|i| ranks.send(0, &i.to_le_bytes()));
            return Ok(());
        }
        let mut next = vec![0u64; ranks.size()];
        for (from, message) in gather(ranks, count)? {
            assert_eq!(message, next[from].to_le_bytes());
            next[from] += 1;
        }
        assert!(ranks.poll()?.is_none());
        Ok(())
    });
    done.unwrap();
}

fn what_nobody_read_is_not_seen_by_the_next_run(world: &dyn Communicator) {
    for run in 0..50u8 {
        let done = Ranks::together(world, |ranks| {
            let peer = ranks.peers();
            for rank in peer.clone() {
                for _ in 0..3 {
                    ranks.send(rank, &vec![run; 100_000]);
                }
            }
            for _ in peer {
                let (_, message) = ranks.wait()?;
                assert!(message == [run; 100_000]);
            }
            Ok(())
        });
        done.unwrap();
    }
}

fn the_programs_own_messages_stay(world: &dyn Communicator) {
    let last = world.process_at_rank(world.size() - 1);
    if world.rank() == 0 {
        last.send_with_tag(&[7u8; 3], super::MESSAGE);
    }
    let polled = Ranks::together(world, |ranks| ranks.poll());
    assert!(polled.unwrap().is_none());
    if world.rank() == world.size() - 1 {
        let (message, _) = world.process_at_rank(0).receive_vec::<u8>();
        assert_eq!(message, [7; 3]);
    }
}

/// Sends numbers to rank 0, and their sum back to all, ten times.
fn rounds(world: &dyn Communicator) {
    let sum = Ranks::together(world, |ranks| {
        let mut sum = ranks.rank() as u64;
        for _ in 0..10 {
            if ranks.rank() == 0 {
                for (_, message) in gather(ranks, 1)? {
                    sum += u64::from(message[0]);
                }
                sum %= 97;
                ranks.send_to_all(&[sum as u8]);
            } else {
                ranks.send(0, &[sum as u8]);
                sum = u64::from(ranks.wait()?.1[0]);
            }
        }
        Ok(sum)
    });
    let others = world.size() as u64 - 1;
    let first = others * (others + 1) / 2;
    let expected = (1..10).fold(first, |sum, _| sum * (1 + others) % 97);
    assert_eq!(sum.unwrap(), expected);
}

/// Fails on one rank while the others wait for messages that never come.
fn one_failure_ends_all(world: &dyn Communicator, failing: usize) {
    let outcome = Ranks::together(world, |ranks| match ranks.rank() == failing {
        true => Err(Error::invalid("steps", 0, "at least 1")),
        false => ranks.wait(),
    });
    let own = Error::invalid("steps", 0, "at least 1");
    let told = Error::Rank {
        rank: failing,
        message: own.to_string(),
    };
    let expected = match world.rank() as usize == failing {
        true => own,
        false => told,
    };
    assert_eq!(outcome.unwrap_err(), expected);
}

fn what_is_no_message_is_an_error(world: &dyn Communicator) {
    let last = world.size() as usize - 1;
    let outcome = Ranks::together(world, |ranks| {
        if ranks.rank() == last {
            ranks.send_pieces(0..1, b"what?", 9);
        }
        ranks.wait()
    });
    let message = "a message has tag 9, expected one from 0 to 2".to_owned();
    let error = Error::Rank {
        rank: last,
        message,
    };
    assert_eq!(outcome.unwrap_err(), error);
}

#[test]
fn a_verdict_that_cannot_be_read_is_a_failure() {
    let said = |verdict: &[u8]| messages::failure(3, verdict).map(|error| error.to_string());
    assert_eq!(said(&[]), None);
    assert_eq!(said(b"what?").unwrap(), "rank 3: what?");
    assert_eq!(
        said(&[2, 0, 0, 0, 0, 0, 0, 0, 255]).unwrap(),
        "rank 2: \u{fffd}"
    );
}
