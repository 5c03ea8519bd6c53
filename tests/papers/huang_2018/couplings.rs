//! Invertible transitions: `q(z_t) = q(z_(t-1)) |dz_t / dz_(t-1)|^-1`.

use annealed::kernel::{Stage, TransitionKernel};
use annealed::learned::{Coupling, InvertibleMap, LearnedTransitions, Transition};
use annealed::model::UnnormalizedModel;
use annealed::path::AnnealingPath;
use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;

use super::path_between;
use crate::random_models::{cases, gaussian, streams};

const LARGEST: usize = 5;

/// A map of 2 to 5 coordinates with any weights, and a state.
fn map_and_state() -> impl Strategy<Value = (InvertibleMap, DVector<f64>)> {
    let forms = (1..6usize, 2..=LARGEST);
    // Steep bins make differences of 1e-5 too coarse.
    let numbers = prop::array::uniform2(prop::collection::vec(-0.3..0.3f64, 162));
    let state = prop::collection::vec(-3.0..3.0f64, LARGEST);
    (forms, numbers, state).prop_map(|((hidden, dimension), numbers, state)| {
        let coupling = Coupling { hidden, bins: 3 };
        let map = InvertibleMap::new(coupling, dimension, &mut streams(1)[0]).unwrap();
        let counts = map.parameters().map(<[f64]>::len);
        let parameters = [0, 1].map(|layer| numbers[layer][..counts[layer]].to_vec());
        let map = InvertibleMap::from_parameters(coupling, dimension, parameters).unwrap();
        (map, DVector::from_column_slice(&state[..dimension]))
    })
}

/// `log |det J|` by central differences; `None` near a kink, where two steps disagree.
fn log_volume(map: &InvertibleMap, z: &DVector<f64>) -> Option<f64> {
    let by = |step: f64| {
        let at = |i: usize, step: f64| {
            let mut moved = z.clone();
            moved[i] += step;
            map.apply(&moved).unwrap().0
        };
        let slope = |i| (at(i, step) - at(i, -step)) / (2.0 * step);
        let slopes: Vec<_> = (0..z.len()).map(slope).collect();
        DMatrix::from_columns(&slopes).determinant().abs().ln()
    };
    let (coarse, fine) = (by(1e-5), by(2e-6));
    ((coarse - fine).abs() < 1e-7).then_some(fine)
}

proptest! {
    #![proptest_config(cases(128))]

    /// `log |det J|` of a map, its inverse and the inverse's volume. The volume of the way back, for that
    /// of the way there, is off.
    #[test]
    fn maps_change_volumes_as_they_say((map, z) in map_and_state()) {
        let (reached, found) = map.apply(&z).unwrap();
        prop_assert!((map.invert(&reached).unwrap() - &z).amax() < 1e-9);
        let expected = log_volume(&map, &z);
        prop_assume!(expected.is_some());
        let expected = expected.unwrap();
        prop_assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        prop_assert!((found + expected).abs() > 1e-6 || expected.abs() < 1e-6);
    }

    /// A transition by a map adds `log f_t(z_t) - log f_t(z_(t-1)) + log |det J|` to the weight: `log f_t - log q` with
    /// the density q of the changed variable. Without the volume, or with its sign turned, it would be another.
    #[test]
    fn weights_hold_the_density_of_the_changed_variable(
        (map, z) in map_and_state(),
        ends in prop::array::uniform2(gaussian(LARGEST)),
        beta in 0.0..1.0f64,
    ) {
        prop_assume!(z.len() == LARGEST);
        let volume = log_volume(&map, &z);
        prop_assume!(volume.is_some());
        let volume = volume.unwrap();
        let path = path_between(&ends);
        let (left, reached) = (path.at(beta), path.at(1.0));
        let flow = LearnedTransitions::from_transitions(vec![Transition::Invertible(map.clone())]).unwrap();
        let (mut moved, mut workspace) = (z.clone(), Default::default());
        let stage = Stage::new(1, &left, &reached);
        let step = flow.step(stage, &mut moved, &mut workspace, &mut streams(1)[0]).unwrap();
        prop_assert!((&moved - map.apply(&z).unwrap().0).amax() < 1e-12);
        let without = reached.log_density(&moved) - reached.log_density(&z);
        let near = |expected: f64| (step.correction - expected).abs() < 1e-6 * (1.0 + expected.abs());
        prop_assert!(near(without + volume), "{} {without} {volume}", step.correction);
        prop_assert!(volume.abs() < 1e-3 * (1.0 + without.abs()) || !near(without) && !near(without - volume));
    }
}
