//! Small runs for the tests of pictures.

use annealed::nalgebra::DVector;

use annealed::ais::{Ais, Run};
use annealed::bidirectional::{Bridge, TargetSamples};
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::Gaussian;
use annealed::path::GeometricPath;
use annealed::schedule::Schedule;

type Path = GeometricPath<Gaussian, Gaussian>;

pub(super) fn path() -> Path {
    let target = Gaussian::isotropic(DVector::from_vec(vec![1.0, 2.0]), 0.5).unwrap();
    GeometricPath::new(Gaussian::standard(2).unwrap(), target)
}

pub(super) fn ais(path: &Path, stages: usize) -> Ais<'_, Path, RandomWalkMetropolis> {
    let kernel = RandomWalkMetropolis::new(0.7).unwrap();
    Ais::new(path, kernel).schedule(Schedule::linear(stages).unwrap())
}

/// A forward run of 200 chains, joined with a reverse run of 150.
pub(super) fn both_directions() -> (Run<DVector<f64>>, Bridge) {
    let path = path();
    let samples = TargetSamples::draw(path.target(), 150, 7);
    let ais = ais(&path, 40).chains(200);
    let (forward, reverse) = (ais.run().unwrap(), ais.reverse(&samples).unwrap());
    let bridge = Bridge::new(&forward, &reverse).unwrap();
    (forward, bridge)
}
