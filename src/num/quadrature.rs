//! Adaptive quadrature of positive functions that are given by their logarithms.

use crate::num::{WeightSums, largest};

const MAX_CELLS: usize = 1 << 14;
/// Largest difference of the Kronrod and the Gauss rule in a cell, relative to the integral. The Kronrod rule, which is
/// used, has a far smaller error.
const TOLERANCE: f64 = 1e-8;

/// Abscissas from the middle to the end of `[-1, 1]` with their Kronrod and Gauss weights (the rules of 15 and 7
/// points; QUADPACK, Piessens et al. 1983). Each but the first stands for two points, x and -x.
const RULES: [(f64, f64, f64); 8] = [
    (0.0, 0.209_482_141_084_727_83, 0.417_959_183_673_469_4),
    (0.207_784_955_007_898_47, 0.204_432_940_075_298_9, 0.0),
    (
        0.405_845_151_377_397_2,
        0.190_350_578_064_785_4,
        0.381_830_050_505_118_9,
    ),
    (0.586_087_235_467_691_1, 0.169_004_726_639_267_9, 0.0),
    (
        0.741_531_185_599_394_4,
        0.140_653_259_715_525_92,
        0.279_705_391_489_276_64,
    ),
    (0.864_864_423_359_769_1, 0.104_790_010_322_250_18, 0.0),
    (
        0.949_107_912_342_758_5,
        0.063_092_092_629_978_55,
        0.129_484_966_168_869_7,
    ),
    (0.991_455_371_120_812_6, 0.022_935_322_010_529_224, 0.0),
];

/// A cell of the range of integration, with the log of its integral by the Kronrod rule and the log of its error bound,
/// the difference of the Kronrod and the Gauss rule.
struct Panel {
    low: f64,
    high: f64,
    log_integral: f64,
    log_error: f64,
}

impl Panel {
    fn new(log_f: &impl Fn(f64) -> f64, low: f64, high: f64) -> Self {
        let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
        let at = RULES.map(|(x, ..)| [-1.0, 1.0].map(|side| log_f(middle + side * x * half)));
        // The shift stays finite even if f is 0 throughout.
        let shift = largest(at.as_flattened()).max(f64::MIN);
        let (mut kronrod, mut difference) = (0.0, 0.0);
        for ((x, weight, gauss), log_f) in RULES.into_iter().zip(at) {
            let both = log_f.map(|log_f| (log_f - shift).exp());
            let f = if x == 0.0 { both[0] } else { both[0] + both[1] };
            kronrod += weight * f;
            difference += (weight - gauss) * f;
        }
        Self {
            low,
            high,
            log_integral: shift + (half * kronrod).ln(),
            log_error: shift + (half * difference.abs()).ln(),
        }
    }

    fn halves(&self, log_f: &impl Fn(f64) -> f64) -> [Self; 2] {
        let middle = 0.5 * (self.low + self.high);
        [(self.low, middle), (middle, self.high)].map(|(low, high)| Self::new(log_f, low, high))
    }
}

/// Returns `log int exp(log_f)` from `low` to `high`, to a relative error of about 1e-8. Halves `cells` equal cells
/// until the rules agree; may miss narrow features. `None` for too many cells, or if `log_f` is NaN or `+inf`.
pub(crate) fn log_integral(
    log_f: impl Fn(f64) -> f64,
    low: f64,
    high: f64,
    cells: usize,
) -> Option<f64> {
    let mut evaluated = cells;
    if evaluated > MAX_CELLS {
        return None;
    }
    let edge = |i: usize| low + (high - low) * (i as f64 / cells as f64);
    let first = |i| Panel::new(&log_f, edge(i), edge(i + 1));
    let mut open: Vec<Panel> = (0..cells).map(first).collect();
    let mut settled = WeightSums::default();
    loop {
        let mut total = settled;
        open.iter().for_each(|cell| total.add(cell.log_integral));
        let tolerated = total.log_sum() + TOLERANCE.ln();
        open.retain(|cell| {
            let settles = cell.log_error <= tolerated;
            if settles {
                settled.add(cell.log_integral);
            }
            !settles
        });
        if open.is_empty() {
            return Some(total.log_sum());
        }
        evaluated += 2 * open.len();
        if evaluated > MAX_CELLS || total.log_sum().is_nan() {
            return None;
        }
        open = open.iter().flat_map(|cell| cell.halves(&log_f)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{PI, TAU};

    #[test]
    fn integrals_in_closed_form() {
        let close = |found: Option<f64>, exact: f64| {
            let found = found.unwrap();
            assert!((found - exact).abs() < 1e-7, "{found} {exact}");
        };
        let normal = |x: f64| -0.5 * x * x;
        close(log_integral(normal, -9.0, 9.0, 18), 0.5 * TAU.ln());
        let high = |x: f64| normal(x) + 1e5;
        close(log_integral(high, -9.0, 9.0, 18), 1e5 + 0.5 * TAU.ln());
        let jump = |x: f64| if x < 1.0 / 3.0 { 0.0 } else { 3.0 };
        let exact = (1.0 / 3.0 + 2.0 / 3.0 * 3f64.exp()).ln();
        close(log_integral(jump, 0.0, 1.0, 1), exact);
        // The integral is I_0(1) for any number of waves.
        for waves in [1.0, 4.0, 64.0, 1000.0] {
            let wave = |x: f64| (2.0 * PI * waves * x).sin();
            let exact = 1.266_065_877_752_008_4_f64.ln();
            close(log_integral(wave, 0.0, 1.0, 4), exact);
        }
        let nothing = f64::NEG_INFINITY;
        assert_eq!(log_integral(|_| nothing, 0.0, 1.0, 4), Some(nothing));
    }

    #[test]
    fn what_cannot_be_integrated_gives_none() {
        for log_f in [|_| f64::NAN, |_| f64::INFINITY, |x: f64| (1e9 * x).sin()] {
            assert_eq!(log_integral(log_f, 0.0, 1.0, 1), None);
        }
        assert_eq!(log_integral(|_| 0.0, 0.0, 1.0, usize::MAX), None);
    }
}
