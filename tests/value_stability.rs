//! Seeded figures, pinned: a change of the random stream, or of what is drawn from it, is a
//! decision that belongs in the changelog.

use annealed::ais::{Ais, Purpose, stream};
use annealed::kernel::{BlockGibbs, Hmc, RandomWalkMetropolis};
use annealed::model::{BaseRate, Gaussian, Rbm};
use annealed::path::{Engine, GeometricPath, RbmPath};
use annealed::schedule::Schedule;
use approx::assert_relative_eq;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::Rng;

#[test]
fn streams() {
    let first = |purpose, index| stream(7, purpose, index).next_u64();
    let found = [
        first(Purpose::Run, 0),
        first(Purpose::Run, 1),
        first(Purpose::Run, 2),
        first(Purpose::Pilot, 0),
        first(Purpose::Training, 0),
    ];
    let pinned = [
        1021219803524665661,
        17670575670617547464,
        10818930515478721286,
        215316657740975168,
        16526434242658135618,
    ];
    assert_eq!(found, pinned);
}

/// The last digits may differ with the platform's `exp` and `ln`.
#[test]
fn runs() {
    let target = Gaussian::new(dvector![1.0, -2.0], dmatrix![2.0, 0.5; 0.5, 1.0]).unwrap();
    let base = Gaussian::isotropic(dvector![0.0, 0.0], 1.0).unwrap();
    let path = GeometricPath::new(base, target);
    let schedule = Schedule::linear(20).unwrap();
    let walk = Ais::new(&path, RandomWalkMetropolis::new(0.8).unwrap());
    let walk = walk
        .schedule(schedule.clone())
        .chains(200)
        .seed(7)
        .run()
        .unwrap();
    assert_relative_eq!(walk.log_z(), 2.0808777195146737, max_relative = 1e-10);
    let hmc = Ais::new(&path, Hmc::new(0.3, 3).unwrap());
    let hmc = hmc.schedule(schedule).chains(200).seed(7).run().unwrap();
    assert_relative_eq!(hmc.log_z(), 1.9913155541914769, max_relative = 1e-10);
}

/// On the portable engine, which adds and multiplies in one order everywhere; the last digits may
/// differ with the platform's `exp` and `ln`.
#[test]
fn an_rbm() {
    let images = annealed::data::digits().images;
    let weights = DMatrix::from_fn(12, 64, |j, i| (((7 * j + 3 * i) % 11) as f32 - 5.0) / 10.0);
    let (hidden, visible) = (DVector::repeat(12, -0.5), DVector::repeat(64, -1.0));
    let target = Rbm::new(weights, hidden, visible).unwrap();
    let base = BaseRate::from_data(12, &images, 1.0).unwrap();
    let path = RbmPath::new(base, target).unwrap();
    let path = path.with_engine(Engine::Portable).unwrap();
    let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(20).unwrap());
    let run = run.chains(200).seed(7).run().unwrap();
    assert_relative_eq!(run.log_z(), 28.253561368183306, max_relative = 1e-10);
}
