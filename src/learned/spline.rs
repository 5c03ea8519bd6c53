//! Monotone rational-quadratic splines of one number (Gregory and Delbourgo 1982; Durkan et al. 2019).

use std::ops::Range;

use crate::num::largest;

/// Half the length of the interval that a spline bends. Outside of it the spline is the identity.
pub(super) const REACH: f64 = 8.0;
/// Least length of a bin, relative to the mean length of a bin.
const LEAST_LENGTH: f64 = 0.01;
/// Smooth bound on the log slope at a knot.
const LOG_SLOPE: f64 = 4.0;

/// The parameters of a spline of K bins: the logits of K widths and of K heights, then K - 1 log slopes at inner knots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spline<'a> {
    bins: usize,
    numbers: &'a [f64],
}

/// A bin: its lower left corner, its width and height, and the slopes at both ends.
#[derive(Debug, Clone, Copy)]
struct Bin {
    index: usize,
    corner: [f64; 2],
    sides: [f64; 2],
    slopes: [f64; 2],
}

/// Returns how many numbers describe a spline with `bins` bins.
pub(super) fn numbers(bins: usize) -> usize {
    bins.saturating_mul(3) - 1
}

impl<'a> Spline<'a> {
    pub(super) fn new(bins: usize, numbers: &'a [f64]) -> Self {
        Self { bins, numbers }
    }

    /// Returns the range of the logits of the widths (axis 0) or heights (axis 1) in `numbers`.
    fn logits(&self, axis: usize) -> Range<usize> {
        axis * self.bins..(axis + 1) * self.bins
    }

    /// Returns the lengths of all bins along an axis: at least `LEAST_LENGTH`/K of the interval each.
    fn sides(&self, axis: usize) -> impl Iterator<Item = f64> + Clone {
        let logits = &self.numbers[self.logits(axis)];
        let top = largest(logits);
        let total: f64 = logits.iter().map(|x| (x - top).exp()).sum();
        let least = LEAST_LENGTH / self.bins as f64;
        let share = move |x: &f64| least + (1.0 - LEAST_LENGTH) * (x - top).exp() / total;
        logits.iter().map(move |x| 2.0 * REACH * share(x))
    }

    /// Returns the slope at a knot; 1 at both ends of the interval.
    fn slope(&self, knot: usize) -> f64 {
        match knot {
            0 => 1.0,
            _ if knot == self.bins => 1.0,
            _ => (LOG_SLOPE * (self.numbers[2 * self.bins + knot - 1] / LOG_SLOPE).tanh()).exp(),
        }
    }

    /// Returns the bin that contains `value` along an axis; `None` outside the interval.
    fn bin(&self, axis: usize, value: f64) -> Option<Bin> {
        // False for a NaN.
        let inside = value.abs() < REACH;
        if !inside {
            return None;
        }
        let mut corner = [-REACH; 2];
        let sides = self.sides(0).zip(self.sides(1)).map(|(w, h)| [w, h]);
        for (index, sides) in sides.enumerate() {
            // Rounding may leave the last edge short of the interval's.
            if value < corner[axis] + sides[axis] || index + 1 == self.bins {
                let slopes = [index, index + 1].map(|knot| self.slope(knot));
                return Some(Bin {
                    index,
                    corner,
                    sides,
                    slopes,
                });
            }
            corner = [corner[0] + sides[0], corner[1] + sides[1]];
        }
        None
    }

    /// Returns the spline's value at x and the log of its slope.
    pub(super) fn apply(&self, x: f64) -> (f64, f64) {
        self.bin(0, x).map_or((x, 0.0), |bin| bin.apply(x))
    }

    /// Returns the x at which the spline has the value `y`.
    pub(super) fn invert(&self, y: f64) -> f64 {
        self.bin(1, y).map_or(y, |bin| bin.invert(y))
    }

    /// Backpropagates from `by`, the derivatives of a scalar by the spline's value and log slope at x. Writes the
    /// scalar's derivatives by the spline's parameters to `by_numbers` and returns its derivative by x.
    pub(super) fn differentiate(&self, x: f64, by: [f64; 2], by_numbers: &mut [f64]) -> f64 {
        by_numbers.fill(0.0);
        let Some(bin) = self.bin(0, x) else {
            return by[0];
        };
        let (by_x, by_corner, by_sides, by_slopes) = bin.differentiate(x, by);
        for axis in 0..2 {
            let by_logits = &mut by_numbers[self.logits(axis)];
            // The corner is the sum of all sides before it.
            by_logits[..bin.index].fill(by_corner[axis]);
            by_logits[bin.index] = by_sides[axis];
            let shares = self.sides(axis).map(|side| {
                (side / (2.0 * REACH) - LEAST_LENGTH / self.bins as f64) / (1.0 - LEAST_LENGTH)
            });
            let mean: f64 = shares.clone().zip(&*by_logits).map(|(p, by)| p * by).sum();
            for (by, share) in by_logits.iter_mut().zip(shares) {
                *by = 2.0 * REACH * (1.0 - LEAST_LENGTH) * share * (*by - mean);
            }
        }
        for (knot, by_slope) in [bin.index, bin.index + 1].into_iter().zip(by_slopes) {
            if knot > 0 && knot < self.bins {
                let slope = self.slope(knot);
                let bend = 1.0 - (slope.ln() / LOG_SLOPE).powi(2);
                by_numbers[2 * self.bins + knot - 1] = by_slope * slope * bend;
            }
        }
        by_x
    }
}

impl Bin {
    /// Returns `u (1 - u)`, the mean slope s and `t = d1 + d0 - 2 s`. Here u is a place in the bin, from 0 to 1, and d0
    /// and d1 are the slopes at the bin's ends.
    fn terms(&self, u: f64) -> [f64; 3] {
        let mean = self.sides[1] / self.sides[0];
        let bend = self.slopes[0] + self.slopes[1] - 2.0 * mean;
        [u * (1.0 - u), mean, bend]
    }

    /// Returns the value `y0 + h N / D` and the log of the slope `s^2 M / D^2` at x, in a bin of height h above y0.
    /// With u, s, t, d0 and d1 as in [`terms`](Self::terms), `N = s u^2 + d0 u (1 - u)`, `D = s + t u (1 - u)` and
    /// `M = d1 u^2 + 2 s u (1 - u) + d0 (1 - u)^2`.
    fn apply(&self, x: f64) -> (f64, f64) {
        let u = (x - self.corner[0]) / self.sides[0];
        let ([v, s, t], [d0, d1]) = (self.terms(u), self.slopes);
        let (n, d) = (s * u * u + d0 * v, s + t * v);
        let m = d1 * u * u + 2.0 * s * v + d0 * (1.0 - u) * (1.0 - u);
        let value = self.corner[1] + self.sides[1] * n / d;
        (value, 2.0 * (s.ln() - d.ln()) + m.ln())
    }

    /// Returns the x with the value `y`. Solves `(y - y0) D = h N` (see [`apply`](Self::apply)), which is quadratic in
    /// u, by the formula that avoids cancellation.
    fn invert(&self, y: f64) -> f64 {
        let y = y - self.corner[1];
        let ([_, s, t], h, d0) = (self.terms(0.0), self.sides[1], self.slopes[0]);
        let (a, b, c) = (h * (s - d0) + y * t, h * d0 - y * t, -s * y);
        // Only rounding can make the discriminant negative, because the spline is monotone.
        let root = (b * b - 4.0 * a * c).max(0.0).sqrt();
        self.corner[0] + self.sides[0] * 2.0 * c / (-b - root)
    }

    /// Backpropagates from `by`, the derivatives of a scalar by the value and by the log slope at x. Returns the
    /// scalar's derivatives by x, by the bin's corner, by its width and height, and by the slopes at its ends.
    fn differentiate(&self, x: f64, by: [f64; 2]) -> (f64, [f64; 2], [f64; 2], [f64; 2]) {
        let [w, h] = self.sides;
        let u = (x - self.corner[0]) / w;
        let ([v, s, t], [d0, d1]) = (self.terms(u), self.slopes);
        let (n, d) = (s * u * u + d0 * v, s + t * v);
        let m = d1 * u * u + 2.0 * s * v + d0 * (1.0 - u) * (1.0 - u);
        let r = 1.0 - 2.0 * u;
        // The derivatives of N, D and M by u, s, d0 and d1.
        let by_n = [2.0 * s * u + d0 * r, u * u, v, 0.0];
        let by_d = [t * r, 1.0 - 2.0 * v, v, v];
        let by_m = [
            2.0 * (d1 * u + s * r - d0 * (1.0 - u)),
            2.0 * v,
            (1.0 - u) * (1.0 - u),
            u * u,
        ];
        let derivative = |k: usize| {
            let of_value = h * (by_n[k] - n / d * by_d[k]) / d;
            let of_log_slope = by_m[k] / m - 2.0 * by_d[k] / d;
            by[0] * of_value + by[1] * of_log_slope
        };
        let [by_u, by_s, by_d0, by_d1] = [0, 1, 2, 3].map(derivative);
        let by_s = by_s + by[1] * 2.0 / s;
        let by_width = -(by_u * u + by_s * s) / w;
        let by_height = by[0] * n / d + by_s / w;
        let by_x = by_u / w;
        (by_x, [-by_x, by[0]], [by_width, by_height], [by_d0, by_d1])
    }
}
