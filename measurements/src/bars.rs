//! Synthetic images of bars.

use annealed::random::{Purpose, stream};
use rand::RngExt;

/// Returns `rows` images of `side` x `side` pixels with one to three bars and 3% noise, from stream `index` of seed 0.
pub fn bars(side: usize, rows: usize, index: usize) -> Vec<Vec<bool>> {
    let mut rng = stream(0, Purpose::DATA, index);
    let mut image = || {
        let mut image = vec![false; side * side];
        for _ in 0..rng.random_range(1..=3) {
            let (place, upright) = (rng.random_range(0..side), rng.random::<bool>());
            for i in 0..side {
                image[if upright {
                    side * i + place
                } else {
                    side * place + i
                }] = true;
            }
        }
        let noisy = image.iter().map(|&on| on != (rng.random::<f64>() < 0.03));
        noisy.collect()
    };
    (0..rows).map(|_| image()).collect()
}
