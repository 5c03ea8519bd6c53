//! The uniform prior on a box.

use annealed::prelude::*;
use rand::{Rng, RngExt};

/// Uniform on `[low, high]^dimension`: `f = 1` inside.
pub struct UniformBox {
    dimension: usize,
    low: f64,
    high: f64,
}

impl UniformBox {
    pub fn new(dimension: usize, low: f64, high: f64) -> Self {
        Self {
            dimension,
            low,
            high,
        }
    }
}

impl UnnormalizedModel for UniformBox {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let inside = state.iter().all(|x| (self.low..=self.high).contains(x));
        if inside { 0.0 } else { f64::NEG_INFINITY }
    }
}

impl NormalizedModel for UniformBox {
    fn log_normalizer(&self) -> f64 {
        self.dimension as f64 * (self.high - self.low).ln()
    }
}

impl Sampleable for UniformBox {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        DVector::from_fn(self.dimension, |_, _| rng.random_range(self.low..self.high))
    }
}
