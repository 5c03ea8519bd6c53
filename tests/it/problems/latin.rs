//! Latin squares counted exactly: a state, a path and a kernel of a user's own.

use annealed::adaptive::{Round, Rounds};
use annealed::ais::Ais;
use annealed::estimate::{Estimate, LogZ};
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, Intermediate};
use annealed::population::WasteFree;
use annealed::random::{Purpose, StreamRng, stream};
use annealed::schedule::Schedule;
use annealed::testing;
use rand::RngExt;

use crate::shared::latin::{Exchanges, LOG_COUNTS, LatinPath};

#[test]
fn exchanges_leave_each_model_invariant() {
    let path = LatinPath::new(3, 4.0);
    for beta in [0.1, 0.4] {
        let model = path.at(beta);
        let sample = |rng: &mut StreamRng| loop {
            let rows = path.base().sample(rng);
            if rng.random::<f64>() < model.log_density(&rows).exp() {
                return rows;
            }
        };
        let check = |targeted| {
            let kernel = Exchanges {
                proposals: 2,
                targeted,
            };
            let statistic = |rows: &_| model.log_density(rows);
            testing::invariance(&model, &kernel, sample, statistic, 2, 25_000, 1).unwrap()
        };
        for targeted in [0.0, 0.8] {
            assert!(
                check(targeted).passes(),
                "{beta}, {targeted}: {:?}",
                check(targeted)
            );
        }
    }
}

#[test]
fn the_squares_of_small_orders_are_counted() {
    for (order, exact) in LOG_COUNTS.into_iter().take(3) {
        let path = LatinPath::new(order, 7.0);
        let kernel = Exchanges {
            proposals: 10,
            targeted: 0.8,
        };
        let run = Ais::new(&path, kernel)
            .schedule(Schedule::linear(60).unwrap())
            .chains(6_000)
            .block_size(200)
            .waste_free(WasteFree::new(20).unwrap())
            .run()
            .unwrap();
        let error = run.log_z() - exact;
        assert!(
            error.abs() < 4.0 * run.standard_error(),
            "{order}: {run}, exact {exact}"
        );
        assert!(run.standard_error() < 0.05, "{order}: {run}");
    }
}

/// In the first round, of few stages, no chain reaches a square.
#[test]
fn a_round_without_survivors_is_not_the_last() {
    let path = LatinPath::new(11, 7.0);
    let kernel = Exchanges {
        proposals: 22,
        targeted: 0.8,
    };
    let rounds = Rounds::fixed(&path, kernel).budget(3_600_000).seed(3);
    let rounds = rounds.run().unwrap();
    let lost = |round: &Round| round.log_z == f64::NEG_INFINITY;
    assert!(rounds.rounds().iter().any(lost), "{rounds}");
    let error = rounds.log_z() - LOG_COUNTS[7].1;
    assert!(error.abs() < 4.0 * rounds.standard_error(), "{rounds}");
    assert!(rounds.standard_error() < 0.3, "{rounds}");
}

/// Squares drawn from the base, weighed at once: no kernel, no stages.
#[test]
fn violations_are_those_of_the_definition() {
    let path = LatinPath::new(4, 1.0);
    let mut rng = stream(1, Purpose::TESTING, 0);
    let target = path.at(1.0);
    let mut draw = |_| target.log_ratio(&path.at(0.0), &path.base().sample(&mut rng));
    let weights: Vec<f64> = (0..400_000).map(&mut draw).collect();
    let estimate = Estimate::from_log_weights(&weights).unwrap();
    let log_count = estimate.value() + path.base().log_normalizer();
    assert!((log_count - LOG_COUNTS[0].1).abs() < 4.0 * estimate.standard_error());
    assert!(estimate.standard_error() < 0.05);
}
