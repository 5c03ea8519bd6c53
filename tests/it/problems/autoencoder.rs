//! The decoder to bits and the optimiser of the shared autoencoder.

use annealed::learned::{Decoder, Likelihood};
use annealed::testing;
use nalgebra::{DVector, dvector};
use proptest::prelude::*;

use crate::shared::autoencoder::{Adam, BernoulliDecoder, TrainableDecoder};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn gradients_agree_with_finite_differences(
        latent in 1usize..5,
        hidden in 1usize..8,
        observed in 1usize..9,
        seed in 0u64..1_000_000,
    ) {
        let decoder = BernoulliDecoder::new(latent, hidden, observed, seed);
        let z = DVector::from_fn(latent, |i, _| 1.3 * (i as f64 + seed as f64).sin());
        let x = DVector::from_fn(observed, |i, _| (i % 2) as f64);
        let likelihood = Likelihood::new(&decoder, &x).unwrap();
        // A rectifier's kink within a step is rare, but not impossible.
        prop_assert!(testing::gradient_error(&likelihood, &z).unwrap() < 1e-6);
        let mut gradient = vec![0.0; decoder.parameters().len()];
        decoder.accumulate_parameter_gradient(&x, &z, 2.0, &mut gradient);
        for (i, derivative) in gradient.into_iter().enumerate() {
            let at = |step: f64| {
                let mut moved = decoder.clone();
                moved.parameters_mut()[i] += step;
                2.0 * moved.log_likelihood(&x, &z)
            };
            let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
            prop_assert!((derivative - difference).abs() <= 1e-6 * (1.0 + derivative.abs()));
        }
    }
}

#[test]
fn probabilities_of_all_images_sum_to_one() {
    let decoder = BernoulliDecoder::new(2, 4, 3, 5);
    let z = dvector![0.3, -1.2];
    let image = |bits: u32| DVector::from_fn(3, |i, _| f64::from(bits >> i & 1));
    let probability = |bits| decoder.log_likelihood(&image(bits), &z).exp();
    let total: f64 = (0..8).map(probability).sum();
    assert!((total - 1.0).abs() < 1e-14, "{total}");
}

#[test]
fn adam_finds_the_top_of_a_parabola() {
    let mut adam = Adam::new(1);
    let mut parameter = [0.0];
    for _ in 0..2_000 {
        let gradient = [3.0 - parameter[0]];
        adam.ascend(&mut parameter, &gradient, 0.01);
    }
    assert!((parameter[0] - 3.0).abs() < 1e-3, "{}", parameter[0]);
}
