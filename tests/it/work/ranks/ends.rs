//! Stops, failures and differences: all ranks end together.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use crate::shared;
use annealed::Error;
use annealed::adaptive::{Challenge, Rounds};
use annealed::ais::{Ais, Merge, Progress, Recorder, StoppedBy};
use annealed::kernel::{Block, Metropolis, RandomWalkMetropolis, Stage, SymmetricProposal};
use annealed::model::{FunctionModel, Gaussian};
use annealed::nested::NestedSmc;
use annealed::path::{GeometricPath, Intermediate, SimdLevel, TemperedPath};
use annealed::population::Resampling;
use annealed::rand::{Rng, RngExt};
use annealed::ranks::Ranks;
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::{Channels, ais, expect_failure, on_ranks, said, walk};
use crate::shared::gaussians::narrow_path;

/// A target whose evaluation takes a while on the ranks for which `is_slow` is true.
macro_rules! slow_path {
    ($is_slow:expr, $pause:expr) => {{
        let (is_slow, pause) = ($is_slow, $pause);
        let model = move |x: &DVector<f64>| {
            if is_slow {
                thread::sleep(pause);
            }
            -x.norm_squared()
        };
        GeometricPath::new(Gaussian::standard(2).unwrap(), shared::function(model))
    }};
}

/// One block a rank, each of hours. The one that is asked to stop may be idle or at work.
#[test]
fn a_stop_asked_of_one_rank_ends_all_within_seconds() {
    for (asked, blocks) in [(0, 3), (1, 3), (2, 2)] {
        let begun = Instant::now();
        let found = on_ranks(3, |world: Channels| {
            let path = slow_path!(true, Duration::from_millis(2));
            let ais = ais(&path).chains(5 * blocks).block_size(5).threads(1);
            let ais = ais.schedule(Schedule::linear(200_000).unwrap());
            let over = || begun.elapsed() > Duration::from_millis(300);
            let ais = ais.stop_when(|| world.rank == asked && over());
            ais.ranks(&world).run().unwrap_err()
        });
        let stopped =
            |error: &Error| matches!(error, Error::Stopped { by, .. } if by == "interrupted");
        assert!(found.iter().all(stopped), "{found:?}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

/// The first pass is a block of rank 0, which hears of a stop by rank 1; the search of a challenge is made by each.
#[test]
fn a_stop_ends_work_that_is_not_shared() {
    let first = Rounds::new(&narrow_path(), walk()).rounds(1).run().unwrap();
    let found = on_ranks(2, |world: Channels| {
        let path = slow_path!(true, Duration::from_micros(50));
        let begun = Instant::now();
        let over = |at: Duration| world.rank == 1 && begun.elapsed() > at;
        let rounds = Rounds::new(&path, walk()).threads(1);
        let rounds = rounds.stop_when(|| over(Duration::from_millis(300)));
        let rounds = rounds.ranks(&world).run().unwrap_err();
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
        let challenge = Challenge::new(&path, walk(), &first).budget(1_000_000_000);
        let challenge = challenge
            .threads(1)
            .stop_when(|| over(Duration::from_millis(600)));
        let challenge = challenge.ranks(&world).run().unwrap_err();
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        [rounds, challenge]
    });
    let stopped = |error: &Error| matches!(error, Error::Stopped { .. });
    assert!(found.iter().flatten().all(stopped), "{found:?}");
}

/// A time limit or callback of one rank is one of all. What is done is the result, alike on all.
#[test]
fn limits_of_one_rank_are_those_of_all() {
    let after = Duration::from_millis(300);
    for (by, limited) in [(StoppedBy::TimeLimit, 0), (StoppedBy::Callback, 1)] {
        let found = on_ranks(2, |world: Channels| {
            let path = slow_path!(world.rank == 1, Duration::from_micros(100));
            let mut ais = ais(&path).chains(20_000).threads(1);
            if world.rank == limited {
                ais = match by {
                    StoppedBy::TimeLimit => ais.time_limit(after),
                    _ => ais.progress(|at: Progress| match at.seconds > after.as_secs_f64() {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }),
                };
            }
            let run = ais.ranks(&world).run().unwrap();
            assert_eq!(run.stopped_by(), by);
            (said(&run), run.chains(), run.log_weights().to_vec())
        });
        assert_eq!(found[0], found[1]);
        let path = slow_path!(false, after);
        let plain = ais(&path).chains(found[0].1).run().unwrap();
        assert_eq!(plain.log_weights(), found[0].2);
    }
}

#[test]
fn the_leftmost_failure_is_reported() {
    let strange = |x: &DVector<f64>| if x[0] > 4.0 { f64::NAN } else { 0.0 };
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), shared::function(strange));
    let mut at_fault = BTreeSet::new();
    for seed in 0..8 {
        let ais = || ais(&path).seed(seed).chains(2_000);
        let expected = ais().threads(1).run().unwrap_err();
        let Error::NonFinite { chain, .. } = expected else {
            panic!("{expected}");
        };
        let rank = chain / 50 % 3;
        let found = on_ranks(3, |world| ais().threads(2).ranks(&world).run());
        assert_eq!(*found[rank].as_ref().unwrap_err(), expected);
        expect_failure(found, rank, &expected.to_string());
        at_fault.insert(rank);
    }
    assert!(at_fault.len() > 1);
}

/// Panics in one block of the last rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Fuse;

impl<M: Intermediate> Recorder<M> for Fuse {
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<M::State>) {
        assert_ne!(block.first_chain(), 250, "the fuse");
    }
}

impl Merge for Fuse {
    fn merge(&mut self, _right: Self) {}
}

#[test]
fn a_panic_of_one_rank_ends_all() {
    let path = narrow_path();
    let found = on_ranks(3, |world| ais(&path).recorder(Fuse).ranks(&world).run());
    expect_failure(
        found,
        2,
        "panic in chains 250..300 at stage 1 (beta = 0.05)",
    );
    // The callback is called by the thread that waits for the others, too.
    let found = on_ranks(2, |world: Channels| {
        let path = slow_path!(world.rank == 1, Duration::from_millis(1));
        let patient = world.rank == 1;
        let callback = |at: Progress| assert!(patient || at.seconds < 0.2, "no patience");
        ais(&path)
            .progress(callback)
            .threads(1)
            .ranks(&world)
            .run()
            .map(drop)
    });
    expect_failure(found, 0, "no patience");
}

#[test]
fn what_differs_between_ranks_is_named() {
    let path = narrow_path();
    let other_path = GeometricPath::new(
        Gaussian::standard(2).unwrap(),
        Gaussian::isotropic(DVector::zeros(2), 0.5).unwrap(),
    );
    let steps = |steps| Schedule::linear(steps).unwrap();
    let wide = || RandomWalkMetropolis::new(0.6).unwrap();
    let ladders = |path, kernel| Tempering::with_base_log_z(path, kernel, 0.0).rounds(2);
    macro_rules! assert_named {
        ($same:expr, $other:expr, $part:expr) => {
            let found = on_ranks(3, |world: Channels| match world.rank {
                1 => $other.ranks(&world).run().map(drop),
                _ => $same.ranks(&world).run().map(drop),
            });
            expect_failure(found, 1, $part);
        };
    }
    let base = || ais(&path);
    assert_named!(base(), base().seed(4), "which has seed 4; this run has 3");
    assert_named!(
        base(),
        base().chains(999),
        "which has chains 999; this run has 1000"
    );
    assert_named!(
        base(),
        base().schedule(steps(25)),
        "a number of stages of 25; this run has 20"
    );
    let until = || base().until_error(0.1);
    assert_named!(
        until(),
        base().until_error(0.2),
        "which has until_error Some(0.2)"
    );
    let rounds_until = |error| Rounds::new(&path, walk()).until_error(error);
    assert_named!(
        rounds_until(0.1),
        rounds_until(0.2),
        "which has until_error Some(0.2)"
    );
    let resampled = || base().resampling(Resampling::every(5).unwrap());
    assert_named!(base(), resampled(), "which has resampling");
    assert_named!(
        base(),
        base().block_size(0),
        "invalid block_size: got 0, expected at least 1"
    );
    assert_named!(
        base(),
        ais(&other_path),
        "which has a path from or to another model"
    );
    let narrow = || Ais::with_base_log_z(&path, walk(), 0.0).chains(50);
    let other = || Ais::with_base_log_z(&path, wide(), 0.0).chains(50);
    assert_named!(narrow(), other(), "which has a kernel that moves otherwise");
    assert_named!(
        ladders(&path, walk()),
        ladders(&path, walk()).rounds(3),
        "which has rounds 3"
    );
    assert_named!(
        ladders(&path, walk()),
        ladders(&path, wide()),
        "which has a kernel"
    );
    assert_named!(
        ladders(&path, walk()),
        ladders(&other_path, walk()),
        "which has a path"
    );
    let rounds = |path| Rounds::new(path, walk()).rounds(1);
    assert_named!(
        rounds(&path),
        rounds(&path).seed(1),
        "which has seed 1; this run has 0"
    );
    assert_named!(rounds(&path), rounds(&other_path), "which has a path");
    let likelihood = |a: f64| shared::function(move |x: &DVector<f64>| -a * x.norm_squared());
    let problem = |a| TemperedPath::new(Gaussian::standard(2).unwrap(), likelihood(a));
    let (one, two) = (problem(8.0), problem(8.1));
    let nested = |problem| NestedSmc::new(problem, walk()).islands(2);
    assert_named!(
        nested(&one),
        nested(&two),
        "which has a path from or to another model"
    );
    assert_named!(
        nested(&one),
        nested(&one).seed(1),
        "which has seed 1; this run has 0"
    );
}

/// Each makes the search, here from other states of the user, which the comparison before it does not see.
#[test]
fn a_search_that_differs_names_its_rank() {
    let path = narrow_path();
    let first = Rounds::new(&path, walk()).rounds(2).run().unwrap();
    let found = on_ranks(2, |world: Channels| {
        let states = (0..world.rank).map(|_| DVector::repeat(2, 3.0));
        let challenge = Challenge::new(&path, walk(), &first).budget(20_000);
        let challenge = challenge.states(states.collect::<Vec<_>>());
        challenge.ranks(&world).run().expect_err("a failure")
    });
    let named = |error: &Error| matches!(error, Error::Rank { rank: 1, .. });
    assert!(found.iter().all(named), "{found:?}");
}

/// One rank makes another call: without checkpoints, or another run.
#[test]
fn calls_that_differ_are_refused() {
    let path = narrow_path();
    let found = on_ranks(2, |world: Channels| match world.rank {
        1 => ais(&path)
            .checkpoint("/no/such/file")
            .ranks(&world)
            .run()
            .map(drop),
        _ => ais(&path).ranks(&world).run().map(drop),
    });
    expect_failure(found, 1, "which has the call");
    let found = on_ranks(2, |world: Channels| match world.rank {
        1 => Tempering::new(&path, walk()).ranks(&world).run().map(drop),
        _ => ais(&path).ranks(&world).run().map(drop),
    });
    assert!(found.into_iter().all(|found| found.is_err()));
}

#[test]
fn engines_that_differ_are_refused() {
    if SimdLevel::best() == SimdLevel::Portable {
        return;
    }
    let weights = DMatrix::from_fn(3, 4, |i, j| (i + j) as f64 / 5.0);
    let rbm = Rbm::new(weights, DVector::zeros(3), DVector::zeros(4)).unwrap();
    let found = on_ranks(2, |world: Channels| {
        let engine = [SimdLevel::best(), SimdLevel::Portable][world.rank];
        let path = RbmPath::new(BaseRate::uniform(3, 4).unwrap(), rbm.clone()).unwrap();
        let path = path.with_simd_level(engine).unwrap();
        Ais::new(&path, BlockGibbs).chains(10).ranks(&world).run()
    });
    expect_failure(found, 1, "which has engine portable");
}

/// A state that comes back from serde as another.
#[derive(Clone)]
struct Rounded(f64);

impl Serialize for Rounded {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Rounded {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        f64::deserialize(from).map(|x| Self(x.round()))
    }
}

struct Turn;

impl SymmetricProposal<Rounded> for Turn {
    fn propose<G: Rng + ?Sized>(&self, _: f64, state: &Rounded, to: &mut Rounded, rng: &mut G) {
        to.0 = state.0 + rng.random::<f64>() - 0.5;
    }
}

#[test]
fn states_that_cannot_be_sent_are_refused() {
    let target = FunctionModel::new(|x: &Rounded| 3.0 * x.0.cos());
    let base = FunctionModel::new(|_: &Rounded| 0.0).with_sampler(|rng| Rounded(rng.random()));
    let path = GeometricPath::new(base, target);
    let found = on_ranks(2, |world| {
        let ais = Ais::with_base_log_z(&path, Metropolis(Turn), 0.0).chains(10);
        ais.ranks(&world)
            .run()
            .err()
            .expect("a failure")
            .to_string()
    });
    assert!(
        found
            .iter()
            .all(|found| found.contains("once they are read")),
        "{found:?}"
    );
}

/// The messages of rank 1 that hold outputs lose a byte on their way.
#[test]
fn damaged_outputs_are_those_of_their_rank() {
    let path = narrow_path();
    let found = on_ranks(3, |world: Channels| {
        let is_bad = world.rank == 1;
        let world = world.spoilt(move |mut bytes| {
            if is_bad && bytes.len() > 5_000 {
                bytes.truncate(bytes.len() - 1_000);
            }
            Some(bytes)
        });
        ais(&path).ranks(&world).run().expect_err("a failure")
    });
    let named = |error: &Error| matches!(error, Error::Rank { rank: 1, .. });
    assert!(found.iter().all(named), "{found:?}");
}

/// Outputs that are whole but another rank's, and bytes that no rank sends.
#[test]
fn strange_messages_are_refused() {
    let path = narrow_path();
    for (twice, part) in [
        (true, "expected blocks of this task"),
        (false, "neither value nor"),
    ] {
        let found = on_ranks(2, |world: Channels| {
            let (is_bad, mut before) = (world.rank == 1, Vec::new());
            let world = world.spoilt(move |bytes| {
                if !is_bad || bytes.len() < 5_000 && before.is_empty() {
                    return Some(bytes);
                }
                if !twice {
                    return Some(vec![7]);
                }
                // The outputs of the first meeting, again and again.
                if before.is_empty() {
                    before = bytes.clone();
                }
                Some(before.clone())
            });
            let model = slow_path!(true, Duration::from_micros(20));
            let ais = ais(&model).chains(4_000).threads(1);
            match twice {
                true => ais.ranks(&world).run().err(),
                false => super::ais(&path).ranks(&world).run().err(),
            }
        });
        for error in found {
            let error = error.expect("a failure");
            assert!(matches!(error, Error::Rank { rank: 1, .. }), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

#[test]
fn a_lost_connection_is_an_error_everywhere() {
    let path = narrow_path();
    for after in 0..4 {
        let found = on_ranks(3, |world: Channels| {
            let (is_bad, mut sent) = (world.rank == 1, 0);
            let world = world.spoilt(move |bytes| {
                sent += 1;
                (!is_bad || sent <= after).then_some(bytes)
            });
            ais(&path)
                .ranks(&world)
                .run()
                .expect_err("a failure")
                .to_string()
        });
        assert!(
            found.iter().all(|found| found.contains("a lost one")),
            "{found:?}"
        );
    }
}

/// An engine that states a rank beyond its size, or gathers too few messages.
#[test]
fn engines_that_do_not_gather_are_refused() {
    struct Odd(usize);
    impl Ranks for Odd {
        fn rank(&self) -> usize {
            self.0
        }
        fn size(&self) -> usize {
            2
        }
        fn all_gather(&self, mine: Vec<u8>) -> annealed::Result<Vec<Vec<u8>>> {
            Ok(vec![mine])
        }
    }
    let path = narrow_path();
    let refused = |rank| ais(&path).ranks(&Odd(rank)).run().unwrap_err().to_string();
    assert!(refused(2).contains("invalid rank: got 2"), "{}", refused(2));
    assert!(
        refused(0).contains("gathered messages: got 1, expected 2"),
        "{}",
        refused(0)
    );
}

#[test]
fn the_others_hear_of_a_rank_beyond_the_number_of_processes() {
    let path = narrow_path();
    let found = super::on_ranks(2, |mut world| {
        if world.rank == 1 {
            world.rank = 2;
        }
        ais(&path).ranks(&world).run().unwrap_err().to_string()
    });
    assert!(
        found
            .iter()
            .all(|found| found.contains("invalid rank: got 2")),
        "{found:?}"
    );
}

/// Its work would wait for itself.
#[cfg(feature = "rayon")]
#[test]
fn threads_of_the_pool_are_refused() {
    let path = narrow_path();
    let world = super::connected(1).pop().unwrap();
    let run = move || ais(&path).ranks(&world).run().unwrap_err().to_string();
    let (found, ()) = rayon::join(run, || ());
    assert!(found.contains("one from outside of the pool"), "{found}");
}
