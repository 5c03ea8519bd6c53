//! Runners that are sequences of tasks: levels, adaptive runs and rounds, with and without checkpoints.

use std::ops::ControlFlow;

use annealed::adaptive::{AdaptiveSmc, Challenge, Rounds};
use annealed::ais::Progress;
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::model::{FunctionModel, Gaussian};
use annealed::mpi::topology::Communicator;
use annealed::nested::NestedSmc;
use annealed::path::TemperedPath;
use nalgebra::DVector;

use crate::checkpoints::File;
use crate::path;

/// A row of the table: the bits on all processes together are those of one, whole or gone on with.
macro_rules! row {
    ($world:ident, $make:expr, $said:expr) => {{
        let (make, said) = ($make, $said);
        let whole = said(&make().run().unwrap());
        let found = make().threads(2).run_on($world).unwrap();
        assert_eq!(found.is_some(), $world.rank() == 0);
        assert!(found.is_none_or(|found| said(&found) == whole));
        for share in [0.1, 0.5, 0.9] {
            let file = File::new($world);
            let stop = |at: Progress| match at.done as f64 >= share * at.total as f64 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let _ = make().progress(stop).checkpoint(&file.0).run_on($world);
            let resumed = make().checkpoint(&file.0).resume_on($world).unwrap();
            assert!(
                resumed.is_none_or(|resumed| said(&resumed) == whole),
                "{share}"
            );
            if $world.rank() == 0 {
                let again = make().checkpoint(&file.0).resume().unwrap();
                assert!(said(&again) == whole, "{share}, alone");
            }
        }
    }};
}

pub fn check(world: &dyn Communicator) {
    let likelihood = FunctionModel::new(|x: &DVector<f64>| -8.0 * x.norm_squared());
    let problem = TemperedPath::new(Gaussian::standard(2).unwrap(), likelihood);
    let walk = || RandomWalkMetropolis::new(0.5).unwrap();
    row!(
        world,
        || NestedSmc::new(&problem, walk())
            .islands(7)
            .chains(16)
            .moves(8)
            .kept(50),
        |run: &annealed::nested::NestedSmcRun<_>| (
            run.log_z(),
            run.standard_error(),
            run.states().to_vec()
        )
    );
    let path = path();
    row!(
        world,
        || AdaptiveSmc::new(&path, walk())
            .chains(100)
            .moves(2)
            .block_size(25),
        |run: &annealed::adaptive::AdaptiveSmcRun<_, _>| {
            (
                run.second.log_z(),
                run.evaluations(),
                run.second.states().to_vec(),
            )
        }
    );
    row!(
        world,
        || Rounds::new(&path, Hmc::new(0.3, 2).unwrap())
            .chains(60)
            .rounds(3)
            .block_size(20),
        |run: &annealed::adaptive::RoundsRun<_, _>| {
            (
                run.log_z(),
                run.standard_error(),
                run.run().states().to_vec(),
            )
        }
    );
    let first = Rounds::new(&path, walk()).rounds(2).run().unwrap();
    row!(
        world,
        || Challenge::new(&path, walk(), &first).budget(20_000),
        |run: &annealed::adaptive::ChallengeRun<'_, _>| {
            (
                run.log_z(),
                run.evaluations(),
                run.second().states().to_vec(),
            )
        }
    );
    row!(
        world,
        || Rounds::new(&path, walk()).chains(60).rounds(3).challenge(),
        |run: &annealed::adaptive::RoundsRun<_, _>| {
            (
                run.log_z(),
                run.evaluations(),
                run.second().map(|second| second.states().to_vec()),
            )
        }
    );
}
