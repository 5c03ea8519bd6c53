//! Adaptive Gibbs annealing: draws of w given z with a change factor, so that they track the density.

use annealed::drift::{RidgeFunction, RidgeGibbs, RidgePath, RidgeState, Sinusoid};
use annealed::kernel::{Block, Stage, TransitionKernel};
use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;

use crate::random_models::{cases, mean_and_error, streams};

const CHAINS: usize = 4_000;

/// Up to four waves of gain 1 in up to three dimensions, with a state.
fn waves() -> impl Strategy<Value = (RidgePath<Sinusoid>, RidgeState)> {
    let numbers = prop::collection::vec(-1.0..1.0f64, 4 * 3 + 4 + 3 + 4);
    (1..5usize, 1..4usize, 0.1..0.3f64, numbers).prop_map(|(n, d, deviation, x)| {
        let design = DMatrix::from_column_slice(n, d, &x[..n * d]);
        let wave = |&amplitude: &f64| Sinusoid {
            amplitude,
            frequency: 1.0,
            phase: 0.3,
        };
        let functions = x[12..12 + n].iter().map(wave);
        let w = DVector::from_column_slice(&x[16..16 + d]);
        let z = &design * &w + DVector::from_column_slice(&x[19..19 + n]) * deviation;
        let path = RidgePath::new(design, functions, 2.0, 0.5, deviation).unwrap();
        (path, RidgeState { w, z })
    })
}

/// The change of the log density of w over a stage, with z integrated out.
fn log_ratio(path: &RidgePath<Sinusoid>, w: &DVector<f64>, betas: [f64; 2]) -> f64 {
    let centres = path.base().design() * w;
    let terms = path.functions().iter().zip(&centres).map(|(f, &u)| {
        let [left, reached] = betas.map(|beta| {
            let scale = path.at(beta).scale();
            path.base().log_smoothed(f, u, scale).unwrap()
        });
        reached - left
    });
    terms.sum()
}

proptest! {
    #![proptest_config(cases(6))]

    /// Given any z, `E[exp(l(w) + log E[exp(a.w)|z] - a.w)]` over w drawn with the factor is `E[exp(l(w))|z]`, and the
    /// exponent varies less than l does: to first order in w the factor takes all of it.
    #[test]
    fn a_change_factor_keeps_the_mean_and_takes_the_variance(
        (path, state) in waves(), betas in (0.0..0.5f64, 0.1..0.5f64)
    ) {
        let betas = [betas.0, betas.0 + betas.1];
        let plain: Vec<f64> = streams(CHAINS).into_iter().map(|mut rng| {
            let mut state = state.clone();
            path.base().sample_direction(&mut state, &mut rng);
            log_ratio(&path, &state.w, betas)
        }).collect();
        let mut block = Block::new(0, vec![state; CHAINS], streams(CHAINS));
        let ends = betas.map(|beta| path.at(beta));
        let stage = Stage::new(1, &ends[0], &ends[1]);
        RidgeGibbs::tilted().advance(stage, &mut block, &mut Default::default()).unwrap();
        let tilted = block.log_weights();
        let [(a, a_error), (b, b_error)] = [&plain[..], tilted]
            .map(|logs| mean_and_error(logs.iter().map(|x| x.exp()).collect::<Vec<_>>().into_iter()));
        prop_assert!((a - b).abs() < 4.0 * a_error.hypot(b_error) + 1e-9, "{} {}", a, b);
        let largest = path.functions().iter().map(RidgeFunction::upper_bound).fold(0.0, f64::max);
        prop_assert!(b_error < 0.3 * a_error || a_error < 1e-4 * largest, "{} {}", a_error, b_error);
    }
}
