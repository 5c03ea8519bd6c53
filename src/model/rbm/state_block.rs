//! Blocks of states of an RBM's smaller layer, evaluated together without an exponential each.
//!
//! A unit of the other layer contributes `log(1 + e^{y + z})` to a state, with y the part of its
//! logit that the block's states share and z that of the few *low* units in which they differ.
//! `e^z` stands in a table for the whole enumeration and `e^y` is computed once a block, so that
//! a state costs one multiplication and addition a unit; logarithms are taken of products.

use nalgebra::{DMatrix, DVector};

use crate::model::rbm::elementwise::exp_nonpositive;

/// Units of the other layer that are computed together.
const LANES: usize = 8;
/// Low units at most.
const MOST: usize = 5;
/// The largest `|z|`, so that the product of four factors stays within the range of f64.
const LARGEST: f64 = 150.0;
/// Factors at most between two normalisations of a product: `e^(4 * 150)` is in range.
const LARGEST_PRODUCT: f64 = 4.0 * LARGEST;

/// `e^z` for each state of the low units.
#[derive(Debug)]
pub(super) struct LowUnits {
    bits: usize,
    /// Units of the other layer, and a last one that is always on, padded to a multiple of
    /// [`LANES`]. A column for each state.
    factors: DMatrix<f64>,
    /// Factors `1 + e^{y + z}`, over `max(1, e^y)`, whose product is in range.
    in_range: usize,
}

impl LowUnits {
    /// Of an enumeration with weights `U`, a column for each enumerated unit: as many low units
    /// as keep `|z|` in range, down to none.
    pub(super) fn new(weights: &DMatrix<f64>) -> Self {
        let (others, units) = weights.shape();
        let reach = |bits: usize| {
            let row = |i: usize| (0..bits).map(|k| weights[(i, k)].abs()).sum::<f64>();
            (0..others).map(row).fold(0.0, f64::max)
        };
        let most = units.min(MOST);
        // A NaN is no less than the bound either.
        let bits = (0..=most).rev().find(|&bits| reach(bits) <= LARGEST);
        let bits = bits.unwrap_or(0);
        let padded = (others + 1).next_multiple_of(LANES);
        let factors = DMatrix::from_fn(padded, 1 << bits, |i, state| {
            let on = (0..bits).filter(|k| i < others && state >> k & 1 == 1);
            on.map(|k| weights[(i, k)]).sum::<f64>().exp()
        });
        Self {
            bits,
            factors,
            // Each factor is at most 1 + e^|z|.
            in_range: (LARGEST_PRODUCT / (reach(bits) + std::f64::consts::LN_2)) as usize,
        }
    }

    /// Number of low units.
    pub(super) fn bits(&self) -> usize {
        self.bits
    }

    /// Units of the other layer, one that is always on, and padding.
    pub(super) fn rows(&self) -> usize {
        self.factors.nrows()
    }

    fn of_state(&self, state: usize) -> &[[f64; LANES]] {
        let rows = self.factors.nrows();
        self.factors.as_slice()[state * rows..][..rows]
            .as_chunks()
            .0
    }
}

/// The states that share all but the low units.
#[derive(Debug)]
pub(super) struct StateBlock {
    /// `1 / max(1, e^y)` of each unit of the other layer; 0 of the one that is always on.
    off: Vec<[f64; LANES]>,
    /// `e^y / max(1, e^y)`; 1 of the one that is always on, 0 of the padding.
    on: Vec<[f64; LANES]>,
    /// `log f` of each state.
    log_f: Vec<f64>,
}

impl StateBlock {
    pub(super) fn new(low: &LowUnits) -> Self {
        let chunks = low.factors.nrows() / LANES;
        Self {
            off: vec![[1.0; LANES]; chunks],
            on: vec![[0.0; LANES]; chunks],
            log_f: vec![0.0; 1 << low.bits],
        }
    }

    /// Evaluates the block with these y; `linear` is what the enumerated units' biases add to
    /// `log f` of each state.
    pub(super) fn evaluate(
        &mut self,
        low: &LowUnits,
        activation: &DVector<f64>,
        linear: impl Fn(usize) -> f64,
    ) {
        let mut positive = 0.0;
        let (off, on) = (self.off.as_flattened_mut(), self.on.as_flattened_mut());
        for ((off, on), &y) in off.iter_mut().zip(on.iter_mut()).zip(activation.iter()) {
            let e = exp_nonpositive::<f64, false>(-y.abs());
            (*off, *on) = if y > 0.0 { (e, 1.0) } else { (1.0, e) };
            // max(y, 0), but NaN where y is.
            positive += 0.5 * (y + y.abs());
        }
        let always = activation.len();
        (off[always], on[always]) = (0.0, 1.0);
        for state in 0..self.log_f.len() {
            let sum = log_product(&self.off, &self.on, low.of_state(state), low.in_range);
            self.log_f[state] = linear(state) + positive + sum;
        }
    }

    /// `log f` of each state.
    pub(super) fn log_f(&self) -> &[f64] {
        &self.log_f
    }

    /// Adds `sum_s p(s) E[unit | s]` for the units of the other layer, then `sum_s p(s)` and
    /// zeros, to `total`, and the sums over the states in which low unit k is on to column k.
    pub(super) fn add_means(
        &self,
        low: &LowUnits,
        p: &[f64],
        columns: &mut DMatrix<f64>,
        total: &mut [f64],
    ) {
        let rows = columns.nrows();
        for chunk in 0..self.on.len() {
            let mut terms = [[0.0; LANES]; 1 << MOST];
            let terms = &mut terms[..p.len()];
            self.means(low, p, chunk, terms);
            for k in 0..low.bits {
                let sum = fold_pairs(&mut terms[..p.len() >> k]);
                let start = k * rows + chunk * LANES;
                add(&mut columns.as_mut_slice()[start..start + LANES], &sum);
            }
            add(&mut total[chunk * LANES..][..LANES], &terms[0]);
        }
    }

    /// `p(s) E[unit | s]` for one chunk of units: `p on low / (off + on low)`. Reciprocals are
    /// taken four at a time, of their product.
    #[inline(always)]
    fn means(&self, low: &LowUnits, p: &[f64], chunk: usize, terms: &mut [[f64; LANES]]) {
        let mut sums = [[1.0; LANES]; 1 << MOST];
        for (state, (term, sum)) in terms.iter_mut().zip(&mut sums).enumerate() {
            let factor = &low.of_state(state)[chunk];
            for l in 0..LANES {
                let e = self.on[chunk][l] * factor[l];
                sum[l] = self.off[chunk][l] + e;
                term[l] = p[state] * e;
            }
        }
        for (terms, sums) in terms.chunks_mut(4).zip(sums.as_chunks::<4>().0) {
            let inverses = reciprocals(sums);
            for (term, inverse) in terms.iter_mut().zip(&inverses) {
                for l in 0..LANES {
                    term[l] *= inverse[l];
                }
            }
        }
    }
}

/// `log prod_i (off_i + on_i low_i)`, the product kept in range by taking exponents out.
#[inline(always)]
fn log_product(
    off: &[[f64; LANES]],
    on: &[[f64; LANES]],
    low: &[[f64; LANES]],
    in_range: usize,
) -> f64 {
    let mut products = [1.0; LANES];
    let mut exponents = [0_i64; LANES];
    let groups = off.chunks(in_range).zip(on.chunks(in_range));
    for ((off, on), low) in groups.zip(low.chunks(in_range)) {
        for ((off, on), low) in off.iter().zip(on).zip(low) {
            for l in 0..LANES {
                products[l] *= off[l] + on[l] * low[l];
            }
        }
        for l in 0..LANES {
            // Normal and positive: in range.
            let bits = products[l].to_bits();
            exponents[l] += (bits >> 52) as i64 - 1023;
            products[l] = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
        }
    }
    let exponent: i64 = exponents.iter().sum();
    products.iter().product::<f64>().ln() + exponent as f64 * std::f64::consts::LN_2
}

/// The reciprocals of four, from that of their product.
#[inline(always)]
fn reciprocals(values: &[[f64; LANES]; 4]) -> [[f64; LANES]; 4] {
    let mut inverses = [[0.0; LANES]; 4];
    for l in 0..LANES {
        let [a, b, c, d] = values.map(|value| value[l]);
        let (ab, cd) = (a * b, c * d);
        let inverse = 1.0 / (ab * cd);
        let (inverse_ab, inverse_cd) = (inverse * cd, inverse * ab);
        inverses[0][l] = inverse_ab * b;
        inverses[1][l] = inverse_ab * a;
        inverses[2][l] = inverse_cd * d;
        inverses[3][l] = inverse_cd * c;
    }
    inverses
}

/// Replaces entries `2j` and `2j + 1` by their sum at `j`, and returns the sum of the odd ones.
#[inline(always)]
fn fold_pairs(terms: &mut [[f64; LANES]]) -> [f64; LANES] {
    let mut odd = [0.0; LANES];
    for j in 0..terms.len() / 2 {
        let (left, right) = (terms[2 * j], terms[2 * j + 1]);
        for l in 0..LANES {
            odd[l] += right[l];
            terms[j][l] = left[l] + right[l];
        }
    }
    odd
}

#[inline(always)]
fn add(sums: &mut [f64], terms: &[f64; LANES]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += term;
    }
}
