//! Every runner gives the bits of one process on all ranks.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared;
use annealed::adaptive::{Challenge, Rounds};
use annealed::ais::{Progress, StoppedBy};
use annealed::estimate::LogZ;
use annealed::kernel::Hmc;
use annealed::model::Gaussian;
use annealed::nested::NestedSmc;
use annealed::path::TemperedPath;
use annealed::population::{Resampling, WasteFree};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::{DMatrix, DVector};

use super::{Channels, ais, on_ranks, said, walk};
use crate::shared::gaussians::narrow_path;

/// All ranks have the bits of one process, for one to three ranks and threads.
macro_rules! assert_same {
    ($make:expr, $said:expr) => {{
        let (make, said) = ($make, $said);
        let whole = said(&make().run().unwrap());
        for size in 1..=3 {
            let found = on_ranks(size, |world: Channels| {
                let threads = (size + world.rank) % 3 + 1;
                said(&make().threads(threads).ranks(&world).run().unwrap())
            });
            assert_eq!(found.len(), size);
            assert!(found.iter().all(|found| *found == whole), "{size} ranks");
        }
    }};
    ($make:expr) => {
        assert_same!($make, said)
    };
}

/// Also with fewer blocks than ranks, and with a last block that is not full.
#[test]
fn annealed_runs_have_the_bits_of_one_process() {
    let path = narrow_path();
    for chains in [1, 50, 120, 1_010] {
        assert_same!(|| ais(&path).chains(chains));
    }
    assert_same!(|| ais(&path).resampling(Resampling::every(5).unwrap()));
    assert_same!(|| ais(&path).waste_free(WasteFree::new(10).unwrap()));
}

#[test]
fn runs_of_rbms_have_the_bits_of_one_process() {
    let weights = DMatrix::from_fn(3, 4, |i, j| (i + j) as f64 / 5.0);
    let rbm = Rbm::new(weights, DVector::zeros(3), DVector::zeros(4)).unwrap();
    let path = RbmPath::new(BaseRate::uniform(3, 4).unwrap(), rbm).unwrap();
    let schedule = || Schedule::linear(20).unwrap();
    assert_same!(|| annealed::ais::Ais::new(&path, BlockGibbs)
        .schedule(schedule())
        .chains(300)
        .block_size(50));
}

/// The decision is made of what all have gathered, at the usual looks.
#[test]
fn runs_until_an_error_have_the_bits_of_one_process() {
    let path = narrow_path();
    for error in [0.1, 0.03] {
        assert_same!(|| ais(&path).chains(100_000).until_error(error));
    }
    let found = on_ranks(2, |world| {
        let until = ais(&path).chains(100_000).until_error(0.03);
        until.ranks(&world).run().unwrap().stopped_by()
    });
    assert_eq!(found, [StoppedBy::StandardError; 2]);
    let islands = || ais(&path).resampling(Resampling::every(5).unwrap());
    assert_same!(|| islands().chains(100_000).until_error(0.04));
}

#[test]
fn tempered_runs_have_the_bits_of_one_process() {
    let path = narrow_path();
    let kernel = Hmc::new(0.3, 2).unwrap();
    for (ladders, block_size) in [(2, 2), (5, 2), (8, 1)] {
        assert_same!(|| Tempering::with_base_log_z(&path, &kernel, 0.0)
            .schedule(Schedule::linear(5).unwrap())
            .ladders(ladders)
            .block_size(block_size)
            .rounds(6));
    }
    assert_same!(|| Tempering::with_base_log_z(&path, walk(), 0.0)
        .rounds(9)
        .until_error(0.1));
}

#[test]
fn runs_over_levels_have_the_bits_of_one_process() {
    let likelihood = shared::function(|x: &DVector<f64>| -8.0 * x.norm_squared());
    let problem = TemperedPath::new(Gaussian::standard(2).unwrap(), likelihood);
    let nested = || {
        NestedSmc::new(&problem, walk())
            .chains(16)
            .moves(8)
            .kept(50)
    };
    let said = |run: &annealed::nested::NestedSmcRun<_>| {
        let log_z = (run.log_z(), run.standard_error(), run.islands());
        (log_z, run.states().to_vec())
    };
    assert_same!(|| nested().islands(7), said);
    assert_same!(|| nested().islands(200).until_error(0.1), said);
}

#[test]
fn rounds_have_the_bits_of_one_process() {
    let path = narrow_path();
    let rounds = || {
        Rounds::new(&path, Hmc::new(0.3, 2).unwrap())
            .chains(60)
            .block_size(20)
    };
    let said = |run: &annealed::adaptive::RoundsRun<_, _>| {
        let states = run.run().states().to_vec();
        (run.log_z(), run.standard_error(), run.evaluations(), states)
    };
    assert_same!(|| rounds().rounds(3), said);
    assert_same!(|| rounds().budget(40_000).fitted(), said);
    assert_same!(|| rounds().rounds(6).until_error(0.1), said);
}

#[test]
fn challenges_have_the_bits_of_one_process() {
    let path = narrow_path();
    let first = Rounds::new(&path, walk()).rounds(2).run().unwrap();
    assert_same!(
        || Challenge::new(&path, walk(), &first).budget(20_000),
        |run: &annealed::adaptive::ChallengeRun<'_, _>| {
            let second = run.second().states().to_vec();
            (
                run.log_z(),
                run.evaluations(),
                run.warnings().to_vec(),
                second,
            )
        }
    );
}

/// Each rank counts its own steps, and blocks of others when they have come.
#[test]
fn progress_counts_the_work_of_all() {
    let path = narrow_path();
    let done = on_ranks(3, |world| {
        let most = AtomicU64::new(0);
        let count = |at: Progress| {
            assert_eq!(at.total, 20_000);
            most.fetch_max(at.done, Ordering::Relaxed);
        };
        let _ = ais(&path).progress(count).ranks(&world).run().unwrap();
        most.into_inner()
    });
    assert_eq!(done, [20_000; 3]);
}
