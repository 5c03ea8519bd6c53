//! Draws that lack a mode: bridge sampling cannot know, a second witness does.

use annealed::bidirectional::{BridgeSampling, TargetSamples};
use annealed::model::StudentT;
use annealed::prelude::*;
use annealed::random::{Purpose, stream};

fn mode(mean: f64) -> Gaussian {
    Gaussian::isotropic(DVector::from_element(3, mean), 1.0).unwrap()
}

/// The modes are 14 deviations apart.
#[test]
fn a_challenge_from_the_fitted_law_finds_the_mode_that_draws_lack() {
    let target = GaussianMixture::new([(0.5, mode(-4.0)), (0.5, mode(4.0))]).unwrap();
    let mut rng = stream(1, Purpose::TESTING, 0);
    let chains = [(); 4].map(|()| Vec::from_iter((0..1_000).map(|_| mode(-4.0).sample(&mut rng))));
    let found = BridgeSampling::<StudentT>::new(&target, &chains, 1).unwrap();
    assert!((found.log_z() + 2_f64.ln()).abs() < 0.01 && found.warnings().is_empty());
    assert!(
        found.to_string().contains("unvisited modes not counted"),
        "{found}"
    );

    let path = GeometricPath::new(found.law().clone(), &target);
    let kernel = RandomWalkMetropolis::new(0.8).unwrap();
    let rounds = Rounds::new(&path, kernel.clone()).budget(100_000);
    let first = rounds.run().unwrap();
    let run = Challenge::new(&path, kernel, &first).run().unwrap();
    let error = run.standard_error();
    assert!(run.log_z().abs() <= 4.0 * error && error < 0.05, "{run}");
    let agreement = Agreement::new(&found, &run).unwrap();
    assert!(agreement.contradiction.is_some(), "{agreement}");
}

#[test]
fn runs_between_the_fitted_law_and_the_draws_agree() {
    let target = StudentT::new(mode(1.0), 5.0).unwrap();
    let mut rng = stream(2, Purpose::TESTING, 0);
    let chains = [(); 4].map(|()| Vec::from_iter((0..500).map(|_| target.sample(&mut rng))));
    let found = BridgeSampling::<GaussianMixture>::new(&target, &chains, 1).unwrap();
    let path = GeometricPath::new(found.law().clone(), &target);
    let ais = Ais::new(&path, RandomWalkMetropolis::new(0.8).unwrap());
    let ais = ais.schedule(Schedule::linear(50).unwrap()).chains(500);
    let draws = TargetSamples::approximate(chains.concat());
    let bridge = Bridge::new(&ais.run().unwrap(), &ais.reverse(&draws).unwrap()).unwrap();
    for result in [&found as &dyn LogZ, &bridge] {
        let (off, error) = (
            result.log_z() - target.log_normalizer(),
            result.standard_error(),
        );
        assert!(off.abs() <= 4.0 * error && error < 0.03, "{result}");
    }
}
