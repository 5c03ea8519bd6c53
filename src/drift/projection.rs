//! Exact draws of one projection of a ridge superposition, by adaptive rejection.

use rand::{Rng, RngExt};

use crate::drift::ridge_function::RidgeFunction;
use crate::kernel::NonFinite;
use crate::num::largest;
use crate::random::draw_index;

const MAX_PROPOSALS: usize = 1_000_000;
/// Number of cells that are split freely. If there are more, a cell is split only if this takes away a tenth of the
/// mass under its envelope.
const FEW_CELLS: usize = 64;

/// The conditional density of a projection z given w: `exp(scale f(z)) N(z; centre, deviation^2)` up to a factor.
/// Adaptive rejection (Gilks and Wild 1992) draws `x = (z - centre) / deviation`. In each cell the log envelope adds
/// the bound of f ([`RidgeFunction::upper_bound_on`]) and the tangent to `-x^2/2` at the cell's point nearest to 0.
#[derive(Debug)]
pub(super) struct Projection<'f, F> {
    pub(super) function: &'f F,
    pub(super) scale: f64,
    pub(super) centre: f64,
    pub(super) deviation: f64,
}

/// An interval of the standardised projection x. It lies on one side of 0 or contains 0.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    low: f64,
    high: f64,
    /// Point nearest to 0, where the tangent to `-x^2/2` is taken.
    nearest: f64,
    bound: f64,
    /// Log of the envelope's integral.
    log_mass: f64,
}

impl<F: RidgeFunction> Projection<'_, F> {
    /// Draws the projection. `cells` is working space.
    pub(super) fn sample<R: Rng + ?Sized>(
        &self,
        cells: &mut Vec<Cell>,
        rng: &mut R,
    ) -> Result<f64, NonFinite> {
        cells.clear();
        // Tails must begin away from 0: in a cell that reaches 0 the envelope is flat, and its mass would be infinite.
        let ends = [f64::NEG_INFINITY, -1.0, 1.0, f64::INFINITY];
        cells.extend(ends.windows(2).map(|ends| self.cell(ends[0], ends[1])));
        for _ in 0..MAX_PROPOSALS {
            let index = pick(cells, rng);
            let cell = cells[index];
            let x = cell.draw(rng);
            let z = self.z(x);
            let below = self.function.value(z) - cell.bound;
            check_bound(below, cell.bound)?;
            let gaussian_below = -0.5 * (x - cell.nearest).powi(2);
            if rng.random::<f64>() < (self.scale * below + gaussian_below).exp() {
                return Ok(z);
            }
            self.halve(cells, index);
        }
        Err(NonFinite::new(
            "number of refused proposals for a projection",
            MAX_PROPOSALS as f64,
            "bounds closer to the ridge function, or a smaller gain",
        ))
    }

    fn z(&self, x: f64) -> f64 {
        self.centre + self.deviation * x
    }

    fn cell(&self, low: f64, high: f64) -> Cell {
        let nearest = 0f64.clamp(low, high);
        let (rate, width) = (nearest.abs(), high - low);
        let integral = if rate > 0.0 {
            -(-rate * width).exp_m1() / rate
        } else {
            width
        };
        let bound = self.function.upper_bound_on(self.z(low), self.z(high));
        Cell {
            low,
            high,
            nearest,
            bound,
            log_mass: self.scale * bound - 0.5 * rate * rate + integral.ln(),
        }
    }

    /// Splits a cell, unless there are many cells and the split removes little of the envelope's mass.
    fn halve(&self, cells: &mut Vec<Cell>, index: usize) {
        let whole = cells[index];
        let middle = whole.middle();
        let parts = [self.cell(whole.low, middle), self.cell(middle, whole.high)];
        let left = parts.map(|part| (part.log_mass - whole.log_mass).exp());
        if cells.len() < FEW_CELLS || left[0] + left[1] < 0.9 {
            cells[index] = parts[0];
            cells.push(parts[1]);
        }
    }
}

impl Cell {
    /// Draws from the envelope, which falls exponentially away from 0, or is flat where the cell reaches 0.
    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let (uniform, width) = (rng.random::<f64>(), self.high - self.low);
        if self.nearest == 0.0 {
            return self.low + width * uniform;
        }
        let below = (-self.nearest.abs() * width).exp_m1();
        self.nearest - (uniform * below).ln_1p() / self.nearest
    }

    /// Returns the point that splits the cell: its middle, or, for an infinite tail, twice its start.
    fn middle(&self) -> f64 {
        if (self.high - self.low).is_finite() {
            0.5 * (self.low + self.high)
        } else {
            2.0 * self.nearest
        }
    }
}

/// Draws the index of a cell, in proportion to its mass.
fn pick<R: Rng + ?Sized>(cells: &[Cell], rng: &mut R) -> usize {
    let masses = cells.iter().map(|cell| cell.log_mass);
    let largest = largest(masses.clone());
    let masses = masses.map(|log_mass| (log_mass - largest).exp());
    draw_index(masses.clone(), masses.sum(), rng)
}

/// Refuses a value above its bound, or a NaN. A small excess is allowed, since a value at the bound may be rounded up.
fn check_bound(below: f64, bound: f64) -> Result<(), NonFinite> {
    if below <= 1e-9 * (1.0 + bound.abs()) {
        return Ok(());
    }
    Err(NonFinite::new(
        "ridge function less its upper bound",
        below,
        "at most 0",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::ridge_function::{Bounded, Sinusoid, Tanh};
    use crate::random::{Purpose, stream};

    const CENTRE: f64 = 0.4;
    const DEVIATION: f64 = 0.3;
    const DRAWS: usize = 16_000;

    fn wave(amplitude: f64, frequency: f64, phase: f64) -> Sinusoid {
        Sinusoid {
            amplitude,
            frequency,
            phase,
        }
    }

    fn step(amplitude: f64, slope: f64, offset: f64) -> Tanh {
        Tanh {
            amplitude,
            slope,
            offset,
        }
    }

    fn distribution(function: &impl RidgeFunction, scale: f64) -> (Vec<f64>, f64) {
        let (low, spacing) = (CENTRE - 60.0 * DEVIATION, 1e-4);
        let log_density = |i: usize| {
            let z = low + (i as f64 + 0.5) * spacing;
            scale * function.value(z) - 0.5 * ((z - CENTRE) / DEVIATION).powi(2)
        };
        let logs: Vec<f64> = (0..360_000).map(log_density).collect();
        let largest = largest(&logs);
        let mut sum = 0.0;
        let mut add = |log: &f64| {
            sum += (log - largest).exp();
            sum
        };
        let mut cumulative: Vec<f64> = logs.iter().map(&mut add).collect();
        cumulative.iter_mut().for_each(|c| *c /= sum);
        (cumulative, low)
    }

    /// Tests draws by Kolmogorov-Smirnov at the level `2 exp(-2 n d^2)` = 1e-4. Returns the largest number of cells.
    fn draws_follow(function: &impl RidgeFunction, scale: f64) -> usize {
        let (cumulative, low) = distribution(function, scale);
        let projection = Projection {
            function,
            scale,
            centre: CENTRE,
            deviation: DEVIATION,
        };
        let mut rng = stream(1, Purpose::RUN, 0);
        let mut cells = Vec::new();
        let mut most = 0;
        let mut uniform: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let z = projection.sample(&mut cells, &mut rng).unwrap();
                most = most.max(cells.len());
                cumulative[((z - low) / 1e-4) as usize]
            })
            .collect();
        uniform.sort_by(f64::total_cmp);
        let draws = DRAWS as f64;
        let distance = uniform.iter().enumerate().map(|(i, u)| {
            let (below, above) = (i as f64 / draws, (i as f64 + 1.0) / draws);
            (u - below).abs().max((above - u).abs())
        });
        let distance = distance.fold(0.0, f64::max);
        assert!(distance < 2.23 / draws.sqrt(), "{scale}: {distance}");
        most
    }

    #[test]
    fn draws_have_the_conditional_s_law_at_small_and_large_gain() {
        let square = Bounded::new(|z: f64| -(0.3 - z.tanh()).powi(2), 0.0);
        let square = square.with_slope(2.6).unwrap();
        for scale in [0.1, 1.0, 14.0, 100.0, 1_000.0] {
            let most = [
                draws_follow(&wave(-1.0, 2.0, 0.5), scale),
                draws_follow(&step(1.0, -3.0, -6.0), scale),
                draws_follow(&square, scale),
            ];
            assert!(most.iter().all(|&cells| cells < 80), "{scale}: {most:?}");
        }
        // Without bounds on intervals: exp(2) proposals each.
        draws_follow(&Bounded::new(f64::sin, 3.0), 1.0);
    }

    #[test]
    fn bounds_on_intervals_hold_and_tend_to_the_function() {
        let functions: [Box<dyn RidgeFunction>; 3] = [
            Box::new(wave(-1.3, -2.0, 0.4)),
            Box::new(step(-0.7, 2.0, 0.1)),
            Box::new(Bounded::new(f64::sin, 1.0).with_slope(1.0).unwrap()),
        ];
        for f in functions {
            for i in -200..200 {
                for width in [1e-6, 0.03, 1.0, 5.0] {
                    let low = 0.05 * f64::from(i);
                    let bound = f.upper_bound_on(low, low + width);
                    let inside = (0..=100).map(|j| f.value(low + 0.01 * f64::from(j) * width));
                    let largest = largest(inside);
                    assert!(bound >= largest - 1e-12, "{low} {width}: {bound} {largest}");
                    assert!(bound <= largest + 3.0 * width);
                }
            }
            assert!(f.upper_bound_on(0.0, f64::INFINITY) <= f.upper_bound());
        }
        let level = wave(1.0, 0.0, 0.5);
        assert_eq!(level.upper_bound_on(1.0, f64::INFINITY), 0.5f64.sin());
    }
}
