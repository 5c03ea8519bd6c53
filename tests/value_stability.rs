//! Seeded figures, pinned: a change of the random stream, or of what is drawn from it, is a
//! decision that belongs in the changelog.

use annealed::ais::{Ais, Purpose, stream};
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::model::Gaussian;
use annealed::path::GeometricPath;
use annealed::schedule::Schedule;
use approx::assert_relative_eq;
use nalgebra::{dmatrix, dvector};
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
    assert_eq!(found, [0; 5]);
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
    assert_relative_eq!(walk.log_z(), 0.0, max_relative = 1e-10);
    let hmc = Ais::new(&path, Hmc::new(0.3, 3).unwrap());
    let hmc = hmc.schedule(schedule).chains(200).seed(7).run().unwrap();
    assert_relative_eq!(hmc.log_z(), 0.0, max_relative = 1e-10);
}
