//! Standard normal numbers. Draws are inlined into their loop, so that the generator's state stays in registers.

use std::sync::LazyLock;

use rand::{Rng, RngExt};

/// Number of ziggurat layers, at most 2^11, so that a draw's layer and position use different bits of a random word.
const LAYERS: usize = 512;

/// End of the lowest layer's rectangle, where the tail begins.
const TAIL: f64 = 3.852_046_150_368_391_6;

/// Area of each layer under `exp(-x^2 / 2)` for x > 0; the lowest includes the tail. With it and [`TAIL`] the top is 1.
const AREA: f64 = 0.002_456_766_351_541_353;

/// Factor that turns a position, a signed integer of 53 bits, into a fraction of its layer's width.
const UNIT: f64 = 1.0 / (1u64 << 52) as f64;

/// The distribution `N(0, 1)`, drawn by the ziggurat of Marsaglia and Tsang (2000) with layers of equal area.
pub(crate) struct StandardNormal {
    layers: [ZigguratLayer; LAYERS],
    /// Values of `exp(-x^2 / 2)` at the widths of the layers, and 1 at the top.
    heights: [f64; LAYERS + 1],
}

#[derive(Clone, Copy)]
struct ZigguratLayer {
    /// Width of the layer, times [`UNIT`]. A position times `scale` is the drawn number x.
    scale: f64,
    /// Absolute position below which x lies under the curve for certain.
    inside: u64,
}

impl StandardNormal {
    /// Returns the distribution, whose layers are computed once.
    #[inline]
    pub(crate) fn get() -> &'static Self {
        static LAYERED: LazyLock<StandardNormal> = LazyLock::new(StandardNormal::new);
        &LAYERED
    }

    fn new() -> Self {
        let mut widths = [0.0; LAYERS + 1];
        // The lowest layer is drawn as a rectangle of the same area. Its part beyond `TAIL` stands for the tail.
        widths[0] = AREA / density(TAIL);
        widths[1] = TAIL;
        for i in 2..LAYERS {
            let height = density(widths[i - 1]) + AREA / widths[i - 1];
            widths[i] = (-2.0 * height.ln()).sqrt();
        }
        let layer = |i: usize| ZigguratLayer {
            scale: widths[i] * UNIT,
            inside: (widths[i + 1] / widths[i] / UNIT) as u64,
        };
        Self {
            layers: std::array::from_fn(layer),
            heights: widths.map(density),
        }
    }

    pub(crate) fn fill<R: Rng + ?Sized>(&self, values: &mut [f64], rng: &mut R) {
        for value in values {
            *value = self.draw(rng);
        }
    }

    #[inline(always)]
    pub(crate) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let bits = rng.next_u64();
        let index = bits as usize % LAYERS;
        let layer = self.layers[index];
        let position = bits as i64 >> 11;
        let x = position as f64 * layer.scale;
        if position.unsigned_abs() < layer.inside {
            x
        } else {
            self.draw_outside(index, x, rng)
        }
    }

    /// Finishes a draw if its x lies in the part of layer `index` that the curve crosses, or in the tail.
    #[cold]
    #[inline(never)]
    fn draw_outside<R: Rng + ?Sized>(&self, index: usize, x: f64, rng: &mut R) -> f64 {
        if index == 0 {
            return draw_tail(rng).copysign(x);
        }
        let (low, high) = (self.heights[index], self.heights[index + 1]);
        if low + (high - low) * rng.random::<f64>() < density(x) {
            x
        } else {
            self.draw(rng)
        }
    }
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp()
}

/// Draws a number beyond [`TAIL`], by rejection from an exponential (Marsaglia 1964).
fn draw_tail<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    loop {
        // u lies in [0, 1), so the logarithm of 1 - u is finite.
        let [excess, bound] = [rng.random::<f64>(), rng.random()].map(|u| -(-u).ln_1p());
        let excess = excess / TAIL;
        if 2.0 * bound > excess * excess {
            return TAIL + excess;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream::{Purpose, stream};

    #[test]
    fn layers_end_at_the_top() {
        let normal = StandardNormal::new();
        let width = |i: usize| normal.layers[i].scale / UNIT;
        let top = normal.heights[LAYERS - 1] + AREA / width(LAYERS - 1);
        assert!((top - 1.0).abs() < 1e-12, "{top}");
        let tail = simpson(TAIL, 12.0, 100_000);
        let lowest = TAIL * density(TAIL) + tail;
        assert!((lowest - AREA).abs() < 1e-12, "{lowest}");
    }

    #[test]
    fn draws_are_normal() {
        const CELLS: usize = 80;
        const DRAWS: usize = 4_000_000;
        let mut rng = stream(11, Purpose::RUN, 0);
        let mut values = vec![0.0; DRAWS];
        StandardNormal::get().fill(&mut values, &mut rng);
        // Cells 1/16 wide, from 0 to 5, for each sign.
        let mut counts = [0.0; 2 * CELLS];
        for x in &values {
            let cell = (16.0 * x.abs()) as usize;
            counts[2 * cell.min(CELLS - 1) + usize::from(*x < 0.0)] += 1.0;
        }
        let mut statistic = 0.0;
        for (cell, pair) in counts.chunks(2).enumerate() {
            let start = cell as f64 / 16.0;
            let end = match cell + 1 {
                CELLS => 12.0,
                next => next as f64 / 16.0,
            };
            let expected = DRAWS as f64 * simpson(start, end, 1_000) / std::f64::consts::TAU.sqrt();
            for count in pair {
                statistic += (count - expected) * (count - expected) / expected;
            }
        }
        // Chi-squared with 159 degrees of freedom.
        let freedom = (2 * CELLS - 1) as f64;
        let error = (statistic - freedom) / (2.0 * freedom).sqrt();
        assert!(error.abs() < 4.0, "chi-squared {statistic}");
    }

    #[test]
    fn the_tail_has_its_mean() {
        let mut rng = stream(12, Purpose::RUN, 0);
        let draws = 100_000;
        let mean = (0..draws).map(|_| draw_tail(&mut rng)).sum::<f64>() / f64::from(draws);
        let exact = density(TAIL) / simpson(TAIL, 12.0, 100_000);
        // The deviation beyond `TAIL` is below 1 / TAIL, the deviation of the exponential.
        let se = 1.0 / TAIL / f64::from(draws).sqrt();
        assert!((mean - exact).abs() < 4.0 * se, "{mean} {exact}");
    }

    fn simpson(from: f64, to: f64, intervals: usize) -> f64 {
        let h = (to - from) / (2 * intervals) as f64;
        let at = |i: usize| density(from + i as f64 * h);
        let terms = (0..intervals).map(|i| at(2 * i) + 4.0 * at(2 * i + 1) + at(2 * i + 2));
        terms.sum::<f64>() * h / 3.0
    }
}
