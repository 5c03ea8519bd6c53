//! Blocks of states of an RBM's smaller layer that are evaluated together.
//!
//! States of a block differ in a few units of the enumerated layer, the *low* units. Each unit of the other layer adds
//! `log(1 + e^{y + z})` to a log density: y is shared by the block, and z comes from the low units. A table holds
//! `e^z`, and `e^y` is computed once per block. A state then costs one multiplication and one addition per unit.
//! Logarithms are only taken of products of many factors.

use nalgebra::{DMatrix, DVector};

use crate::num::{Simd, largest, vectorized};
use crate::rbm::engine::exp_nonpositive;

/// Largest number of low units.
const MOST: usize = 5;
/// Length of the arrays of a block. Entries beyond the states of the low units are not used.
pub(crate) const STATES: usize = 1 << MOST;
/// Largest `|z|`. The product of four factors then stays within the range of f64.
const LARGEST: f64 = 150.0;
/// Largest logarithm of a product between two normalisations; `e^(4 * 150)` is in range.
const LARGEST_PRODUCT: f64 = 4.0 * LARGEST;

/// The contribution of the low units to the log density, for each of their states.
#[derive(Debug)]
pub(crate) struct LowUnits {
    bits: usize,
    /// `e^z` for each unit of the other layer.
    factors: Vec<[f64; STATES]>,
    /// Sum of the biases of the low units that are on.
    linear: [f64; STATES],
    /// Number of factors `(1 + e^{y + z}) / max(1, e^y)` whose product stays in range.
    in_range: usize,
}

impl LowUnits {
    /// Creates the table from `weights`, with a column for each enumerated unit, and the biases of these units. As many
    /// units are low as keep `|z|` in range, at most 5 and perhaps none.
    pub(crate) fn new(weights: &DMatrix<f64>, bias: &DVector<f64>) -> Self {
        let (others, units) = weights.shape();
        let reach = |bits: usize| {
            let row = |i: usize| (0..bits).map(|k| weights[(i, k)].abs()).sum::<f64>();
            (0..others).map(row).fold(0.0, f64::max)
        };
        let most = units.min(MOST);
        // A NaN fails the comparison too.
        let bits = (0..=most).rev().find(|&bits| reach(bits) <= LARGEST);
        let bits = bits.unwrap_or(0);
        let on = |state: usize| (0..bits).filter(move |k| state >> k & 1 == 1);
        let factor = |i: usize, state| on(state).map(|k| weights[(i, k)]).sum::<f64>().exp();
        let factors = |i| std::array::from_fn(|state| factor(i, state));
        Self {
            bits,
            factors: (0..others).map(factors).collect(),
            linear: std::array::from_fn(|state| on(state).map(|k| bias[k]).sum()),
            // Each factor lies between `e^-reach` and `2 e^reach`.
            in_range: (LARGEST_PRODUCT / (reach(bits) + std::f64::consts::LN_2)) as usize,
        }
    }

    pub(crate) fn bits(&self) -> usize {
        self.bits
    }
}

/// The states that agree in all units but the low ones.
#[derive(Debug)]
pub(crate) struct StateBlock {
    engine: Simd,
    /// `1 / max(1, e^y)` for each unit of the other layer.
    off: Vec<f64>,
    /// `e^y / max(1, e^y)` for each unit of the other layer.
    on: Vec<f64>,
    log_f: [f64; STATES],
    states: usize,
}

impl StateBlock {
    /// Creates a block. All SIMD levels give the same bits, because no multiplication is fused with an addition.
    pub(crate) fn new(engine: Simd, low: &LowUnits) -> Self {
        Self {
            engine,
            off: vec![1.0; low.factors.len()],
            on: vec![0.0; low.factors.len()],
            log_f: [0.0; STATES],
            states: 1 << low.bits,
        }
    }

    /// Sets `log f` of each state, from the shared logits `activation` and the bias term `linear` of the units that
    /// are not low.
    pub(crate) fn evaluate(&mut self, low: &LowUnits, activation: &DVector<f64>, linear: f64) {
        let shared = linear + sum_of_positive(activation.as_slice());
        let product = vectorized!(self.engine, FUSED, {
            self.exponentiate(activation.as_slice());
            self.product(low)
        });
        for (state, log_f) in self.log_f.iter_mut().enumerate() {
            *log_f = shared + low.linear[state] + product.ln(state);
        }
    }

    #[inline(always)]
    fn exponentiate(&mut self, y: &[f64]) {
        for ((off, on), &y) in self.off.iter_mut().zip(&mut self.on).zip(y) {
            let e = exp_nonpositive::<f64, false>(-y.abs());
            *off = if y > 0.0 { e } else { 1.0 };
            *on = if y > 0.0 { 1.0 } else { e };
        }
    }

    /// Returns `prod_i (off_i + on_i low_i)` for each state, where `low_i` is `e^z` of unit i of the other layer.
    #[inline(always)]
    fn product(&self, low: &LowUnits) -> Product {
        let mut product = Product {
            mantissas: [1.0; STATES],
            exponents: [0; STATES],
        };
        let groups = self
            .off
            .chunks(low.in_range)
            .zip(self.on.chunks(low.in_range));
        for ((off, on), low) in groups.zip(low.factors.chunks(low.in_range)) {
            for ((&off, &on), low) in off.iter().zip(on).zip(low) {
                product.multiply(off, on, low);
            }
            product.normalise();
        }
        product
    }

    pub(crate) fn log_f(&self) -> &[f64] {
        &self.log_f[..self.states]
    }

    /// Returns the largest `log f`, ignoring NaN.
    pub(crate) fn highest(&self) -> f64 {
        largest(self.log_f())
    }

    /// Returns `f e^-reference` of each state, and 0 in the entries beyond. No `log f` may exceed `reference`.
    pub(crate) fn relative(&self, reference: f64) -> [f64; STATES] {
        let mut p = [0.0; STATES];
        vectorized!(self.engine, FUSED, {
            for (p, log_f) in p.iter_mut().zip(self.log_f()) {
                *p = exp_nonpositive::<f64, false>(log_f - reference);
            }
        });
        p
    }

    /// Adds `p(s) E[unit | s]` to `sums`, for each unit of the other layer and each state s of the block. Sets `total`
    /// to the sums of these terms over the block.
    pub(crate) fn add_means(
        &self,
        low: &LowUnits,
        p: &[f64; STATES],
        sums: &mut [[f64; STATES]],
        total: &mut [f64],
    ) {
        vectorized!(self.engine, FUSED, {
            let units = self.off.iter().zip(&self.on).zip(&low.factors);
            for (((&off, &on), low), (sums, total)) in units.zip(sums.iter_mut().zip(total)) {
                let terms = means(off, on, low, p);
                *total = sum(&terms);
                for s in 0..STATES {
                    sums[s] += terms[s];
                }
            }
        });
    }
}

/// Returns `sum_i max(y_i, 0)`; NaN if an entry is NaN.
fn sum_of_positive(y: &[f64]) -> f64 {
    let (chunks, rest) = y.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for chunk in chunks {
        for (sum, y) in sums.iter_mut().zip(chunk) {
            *sum += 0.5 * (y + y.abs());
        }
    }
    let rest = rest.iter().map(|y| 0.5 * (y + y.abs()));
    sums.iter().sum::<f64>() + rest.sum::<f64>()
}

/// A product of positive numbers for each state, as mantissa and exponent.
struct Product {
    mantissas: [f64; STATES],
    exponents: [i64; STATES],
}

impl Product {
    /// Multiplies each state's product by `off + on low`. Products must stay in range until the next normalisation.
    #[inline(always)]
    fn multiply(&mut self, off: f64, on: f64, low: &[f64; STATES]) {
        let mantissas = &mut self.mantissas;
        for s in 0..STATES {
            mantissas[s] *= off + on * low[s];
        }
    }

    #[inline(always)]
    fn normalise(&mut self) {
        for s in 0..STATES {
            // The mantissa is normal and positive, because it is in range.
            let bits = self.mantissas[s].to_bits();
            self.exponents[s] += (bits >> 52) as i64 - 1023;
            self.mantissas[s] = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
        }
    }

    fn ln(&self, state: usize) -> f64 {
        self.mantissas[state].ln() + self.exponents[state] as f64 * std::f64::consts::LN_2
    }
}

/// Returns `p(s) E[unit | s] = p on low / (off + on low)` for each state s and one unit of the other layer.
#[inline(always)]
fn means(off: f64, on: f64, low: &[f64; STATES], p: &[f64; STATES]) -> [f64; STATES] {
    let (mut terms, mut sums) = ([0.0; STATES], [0.0; STATES]);
    for s in 0..STATES {
        let e = on * low[s];
        sums[s] = off + e;
        terms[s] = p[s] * e;
    }
    let inverses = reciprocals(&sums);
    for s in 0..STATES {
        terms[s] *= inverses[s];
    }
    terms
}

/// Returns the reciprocals of the values, from one division for every four.
#[inline(always)]
fn reciprocals(values: &[f64; STATES]) -> [f64; STATES] {
    const QUARTER: usize = STATES / 4;
    let mut inverses = [0.0; STATES];
    for s in 0..QUARTER {
        let (a, b) = (values[s], values[s + QUARTER]);
        let (c, d) = (values[s + 2 * QUARTER], values[s + 3 * QUARTER]);
        let (ab, cd) = (a * b, c * d);
        let inverse = 1.0 / (ab * cd);
        let (inverse_ab, inverse_cd) = (inverse * cd, inverse * ab);
        inverses[s] = inverse_ab * b;
        inverses[s + QUARTER] = inverse_ab * a;
        inverses[s + 2 * QUARTER] = inverse_cd * d;
        inverses[s + 3 * QUARTER] = inverse_cd * c;
    }
    inverses
}

#[inline(always)]
fn sum(terms: &[f64; STATES]) -> f64 {
    const QUARTER: usize = STATES / 4;
    let mut sums = [0.0; QUARTER];
    for s in 0..QUARTER {
        let (a, b) = (terms[s], terms[s + QUARTER]);
        let (c, d) = (terms[s + 2 * QUARTER], terms[s + 3 * QUARTER]);
        sums[s] = (a + b) + (c + d);
    }
    ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::SimdLevel;

    #[test]
    fn every_engine_gives_the_same_bits() {
        let weights = DMatrix::from_fn(101, 6, |i, k| ((7 * i + 3 * k) % 11) as f64 * 0.4 - 1.7);
        let activation = DVector::from_fn(101, |i, _| (i as f64).sin() * 9.0);
        let low = LowUnits::new(&weights, &DVector::from_element(6, 0.3));
        let evaluated = |engine: SimdLevel| {
            let mut block = StateBlock::new(engine.available().unwrap(), &low);
            block.evaluate(&low, &activation, 0.7);
            let p = block.relative(block.highest());
            let (mut sums, mut total) = (vec![[0.0; STATES]; 101], vec![0.0; 101]);
            block.add_means(&low, &p, &mut sums, &mut total);
            (block.log_f, p, sums, total)
        };
        let portable = evaluated(SimdLevel::Portable);
        assert!(portable.0.iter().all(|log_f| log_f.is_finite()) && portable.3[0] > 0.0);
        for engine in SimdLevel::ALL.into_iter().filter(|e| e.is_available()) {
            assert_eq!(evaluated(engine), portable, "{engine}");
        }
    }
}
