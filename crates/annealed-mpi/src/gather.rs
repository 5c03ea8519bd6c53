//! Gathers the bytes of all processes, which may differ in number, in pieces that MPI can count.

use std::thread;
use std::time::{Duration, Instant};

use mpi::Count;
use mpi::collective::CommunicatorCollectives;
use mpi::datatype::PartitionMut;
use mpi::request::{LocalScope, scope};
use mpi::topology::SimpleCommunicator;

/// Returns the bytes of all processes, by rank. A piece has at most `piece` bytes, and fewer if the pieces that all
/// processes send at once would otherwise have 2^31 bytes or more together.
pub fn gathered(world: &SimpleCommunicator, mine: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let lengths = lengths(world, mine.len());
    let piece = piece.clamp(1, (Count::MAX as usize / lengths.len()).max(1));
    let mut all: Vec<Vec<u8>> = lengths
        .iter()
        .map(|&length| Vec::with_capacity(length))
        .collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    for start in (0..longest).step_by(piece) {
        let part = |length: usize| start.min(length)..(start + piece).min(length);
        let counts: Vec<Count> = lengths
            .iter()
            .map(|&length| part(length).len() as Count)
            .collect();
        let ends = counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        let ends: Vec<Count> = ends.collect();
        let starts: Vec<Count> = ends
            .iter()
            .zip(&counts)
            .map(|(end, count)| end - count)
            .collect();
        let mut pieces = vec![0_u8; ends.last().map_or(0, |&end| end as usize)];
        let mut partition = PartitionMut::new(&mut pieces[..], counts, &starts[..]);
        world.all_gather_varcount_into(&mine[part(mine.len())], &mut partition);
        for (rank, bytes) in all.iter_mut().enumerate() {
            bytes.extend(&pieces[starts[rank] as usize..ends[rank] as usize]);
        }
    }
    all
}

/// Returns the number of bytes of each process. A process that waits here yields its core to processes at work.
fn lengths(world: &SimpleCommunicator, mine: usize) -> Vec<usize> {
    use mpi::topology::Communicator;
    let mut lengths = vec![0_u64; world.size() as usize];
    let (mine, begun) = (mine as u64, Instant::now());
    scope(|scope: &LocalScope<'_>| {
        let mut waiting = world.immediate_all_gather_into(scope, &mine, &mut lengths[..]);
        while let Err(still) = waiting.test() {
            waiting = still;
            pause(begun);
        }
    });
    lengths.into_iter().map(|length| length as usize).collect()
}

/// Pauses during a wait. MPI makes progress only during its calls, so pauses start short and grow to a millisecond.
fn pause(begun: Instant) {
    let pause = begun.elapsed() / 10;
    match pause < Duration::from_micros(20) {
        true => thread::yield_now(),
        false => thread::sleep(pause.min(Duration::from_millis(1))),
    }
}
