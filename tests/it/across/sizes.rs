//! Sizes cost what there is to do: a setting far beyond the work ends at once, and one that is work without end is
//! refused.

use crate::shared;
use annealed::adaptive::{FirstPass, Rounds};
use annealed::ais::{Ais, Run, RunPart};
use annealed::bidirectional::TargetSamples;
use annealed::estimate::LogZ;
use annealed::kernel::RandomWalkMetropolis;
use annealed::learned::{LearnedTransitions, Mean, Objective, Training};
use annealed::model::Gaussian;
use annealed::nested::NestedSmc;
use annealed::path::{GeometricPath, TemperedPath};
use annealed::pilot::{Friction, Pilot};
use annealed::population::{Resampling, WasteFree};
use annealed::rbm::{
    BaseRate, ContrastiveDivergence, MomentChains, PersistentMatching, Rbm, RbmMatching,
};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::{DMatrix, DVector, dvector};

/// Sizes that no run here has work for.
const LARGE: [usize; 3] = [1 << 20, 1 << 30, usize::MAX];

type Path = GeometricPath<Gaussian, Gaussian>;

fn path() -> Path {
    let target = Gaussian::isotropic(dvector![1.0], 0.5).unwrap();
    GeometricPath::new(Gaussian::standard(1).unwrap(), target)
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(1.0).unwrap()
}

fn ais(path: &Path) -> Ais<'_, &Path, RandomWalkMetropolis> {
    let schedule = Schedule::linear(10).unwrap();
    Ais::new(path, walk()).schedule(schedule).chains(100)
}

fn assert_same<R>(found: &Run<DVector<f64>, R>, expected: &Run<DVector<f64>, R>) {
    assert_eq!(found.log_weights(), expected.log_weights());
    assert_eq!(found.states(), expected.states());
}

#[test]
fn a_block_larger_than_the_run_is_the_run() {
    let path = path();
    let ways: [fn(_) -> _; 3] = [
        |ais: Ais<'_, _, _>| ais,
        |ais| ais.resampling(Resampling::every(1).unwrap()),
        |ais| ais.waste_free(WasteFree::new(10).unwrap()),
    ];
    for size in LARGE {
        for way in ways {
            let expected = way(ais(&path).block_size(100)).run().unwrap();
            let large = way(ais(&path).block_size(size));
            assert_same(&large.run().unwrap(), &expected);
            let parts = large.ranges(3).unwrap().into_iter();
            let parts = parts.map(|part| large.run_range(part).unwrap());
            assert_same(&RunPart::merge(parts).unwrap(), &expected);
        }
        let large = ais(&path).block_size(size);
        let samples = TargetSamples::draw(&Gaussian::standard(1).unwrap(), 50, 1);
        let reverse = large.reverse(&samples).unwrap();
        let expected = ais(&path).block_size(50).reverse(&samples).unwrap();
        assert_eq!(reverse.log_z(), expected.log_z());
        assert!(large.raise(&[dvector![1.0]], 20).is_ok());
        let longer = ais(&path).block_size(size).chains(150);
        let extended = longer.extend(large.run().unwrap()).unwrap();
        assert_same(&extended, &longer.run().unwrap());
    }
}

#[test]
fn sizes_far_beyond_the_work_cost_only_the_work() {
    let path = path();
    let likelihood = shared::function(|x: &DVector<f64>| -8.0 * x[0] * x[0]);
    let problem = TemperedPath::new(Gaussian::standard(1).unwrap(), likelihood);
    let survey = Pilot::new(50, 40).survey(&path, &walk(), 1).unwrap();
    for size in LARGE {
        assert!(ais(&path).recorded_stages(size).threads(size).run().is_ok());
        let tempering = || Tempering::new(&path, walk()).rounds(3).threads(size);
        assert!(tempering().block_size(size).run().is_ok());
        let levels = || NestedSmc::new(&problem, walk()).chains(8).moves(5);
        assert!(levels().threads(size).run().is_ok());
        let pass = FirstPass::new(&path, walk()).threads(size);
        assert!(pass.block_size(size).run().is_ok());
        let rounds = || Rounds::new(&path, walk()).block_size(size);
        assert!(rounds().rounds(2).run().is_ok());
        assert!(rounds().rounds(size).budget(100_000).run().is_ok());
        assert!(Friction::default().bins(size).schedule(&survey, 50).is_ok());
        let bounded = [
            tempering().samples(size).run().map(drop),
            levels().kept(size).run().map(drop),
            levels().max_levels(size).run().map(drop),
        ];
        for found in bounded {
            assert_eq!(found.is_ok(), size < usize::MAX, "{found:?}");
        }
    }
}

/// A run must not ask for memory in advance for each unit of its work.
#[test]
fn work_without_end_is_refused_or_begun() {
    let rbm = || {
        let (a, b) = (dvector![0.1, 0.2], dvector![0.0, 0.1, 0.2]);
        Rbm::<f64>::new(DMatrix::from_element(2, 3, 0.3), a, b).unwrap()
    };
    let refused = |result: Result<(), String>, argument: &str| {
        let error = result.unwrap_err();
        assert!(error.contains(&format!("invalid {argument}")), "{error}");
    };
    let text = |error: annealed::Error| error.to_string();
    let moments = rbm().exact_moments().unwrap();
    for size in [1 << 30, usize::MAX] {
        let matching = PersistentMatching::full().particles(size);
        let found = matching.match_moments(&rbm(), &moments);
        refused(found.map(drop).map_err(text), "particles");
    }
    let size = usize::MAX;
    let found = MomentChains::full().chains(size).moments(&rbm());
    refused(found.map(drop).map_err(text), "chains");
    refused(
        BaseRate::mean_field(&rbm(), size, 1)
            .map(drop)
            .map_err(text),
        "starts",
    );
    let flow = || LearnedTransitions::new(Mean::Affine, 1, 2, 1).unwrap();
    refused(
        flow().samples(&path(), size, 1).map(drop).map_err(text),
        "count",
    );
    let training = Training::new(Objective::Annealed).batch_size(size);
    let found = training.train(flow(), &path(), &Schedule::linear(2).unwrap());
    refused(
        found.map(drop).map_err(|error| error.to_string()),
        "batch_size",
    );
    // More epochs than memory could list: training begins, and the callback leaves it.
    let data = vec![vec![true, false, true]; 10];
    for epochs in [1 << 40, usize::MAX] {
        let training = ContrastiveDivergence::new(1).epochs(epochs);
        let left = std::panic::catch_unwind(|| {
            let trained = training.train_with(rbm(), &data, |epoch, _| {
                assert!(epoch.index < 3, "enough");
            });
            trained.map(drop)
        });
        let message = left.unwrap_err();
        assert_eq!(message.downcast_ref::<&str>(), Some(&"enough"));
    }
}
