//! Weights on a grid, whose sums over 0/1 units are integers of 16 bits: exact, and the same for every instruction set.

use nalgebra::DMatrix;

use crate::random::LANES;
use crate::rbm::Scalar;
use crate::rbm::engine::layers::GROUPS;
use crate::rbm::engine::panels::PanelRow;
use crate::rbm::model::largest_sum;

/// Weights, or sums of weights, as multiples of the grid's spacing, for `G` groups of outputs.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Integers<const G: usize>([[i16; LANES]; G]);

/// Integers for as many outputs as fill two lines of the cache.
pub(crate) type Wide = Integers<{ 2 * GROUPS }>;

/// Integers for the outputs of a panel.
pub(crate) type Narrow = Integers<GROUPS>;

impl<const G: usize> Default for Integers<G> {
    #[inline(always)]
    fn default() -> Self {
        Self([[0; LANES]; G])
    }
}

impl<const G: usize> PanelRow for Integers<G> {
    type Weight = i16;
    const PARTS: usize = G / GROUPS;

    #[inline(always)]
    fn plus(&self, other: &Self) -> Self {
        let mut row = *self;
        for (row, other) in row.0.iter_mut().zip(&other.0) {
            for l in 0..LANES {
                row[l] = row[l].wrapping_add(other[l]);
            }
        }
        row
    }

    fn weights_mut(&mut self) -> &mut [i16] {
        self.0.as_flattened_mut()
    }

    #[inline(always)]
    fn group(&self, group: usize) -> &[i16; LANES] {
        &self.0[group]
    }
}

/// A matrix of weights, rounded to multiples of `unit`.
#[derive(Debug, Clone)]
pub(crate) struct WeightGrid {
    /// Spacing of the grid, with 9 significant bits: its multiples up to 2^15 are exact in single precision.
    pub(crate) unit: f32,
    pub(crate) weights: DMatrix<i16>,
}

impl WeightGrid {
    /// Rounds `weights` to the finest grid on which no sum over active units, of either layer, exceeds 16 bits. Returns
    /// `None` if there is no such grid.
    ///
    /// Rounding adds at most half the spacing to each of the n weights of a sum. A largest sum L therefore needs the
    /// spacing `L / (32,767 - n / 2)`.
    pub(crate) fn finest<T: Scalar>(weights: &DMatrix<T>) -> Option<Self> {
        let (hidden, visible) = largest_sums(weights);
        // With too many inputs the divisor is 0 and the spacing infinite, which `round_up` refuses.
        let needed = |sum: f64, n: usize| sum / (f64::from(i16::MAX) - 0.5 * n as f64).max(0.0);
        let unit = needed(hidden, weights.ncols()).max(needed(visible, weights.nrows()));
        Self::of(weights, round_up(unit)?)
    }

    /// Rounds `weights` to multiples of `unit`; `None` if a sum exceeds 16 bits.
    pub(crate) fn of<T: Scalar>(weights: &DMatrix<T>, unit: f32) -> Option<Self> {
        let weights = weights.map(|w| (w.as_() / f64::from(unit)).round() as i16);
        let (hidden, visible) = largest_sums(&weights.map(f64::from));
        (hidden.max(visible) <= f64::from(i16::MAX)).then_some(Self { unit, weights })
    }

    /// Returns the rounded weights as numbers of the type `T`.
    pub(crate) fn rounded<T: Scalar>(&self) -> DMatrix<T> {
        self.weights
            .map(|w| T::nearest(f64::from(self.unit) * f64::from(w)))
    }
}

/// Returns the largest absolute sum of weights over active units into any hidden unit, and into any visible unit.
fn largest_sums<T: Scalar>(weights: &DMatrix<T>) -> (f64, f64) {
    let hidden = weights.row_iter().map(|row| largest_sum(row));
    let visible = weights.column_iter().map(|column| largest_sum(column));
    (hidden.fold(0.0, f64::max), visible.fold(0.0, f64::max))
}

/// Returns a number of 9 significant bits just above `x`; `None` if it is not a normal number.
fn round_up(x: f64) -> Option<f32> {
    const DROPPED: u32 = 15;
    let bits = (x as f32).to_bits();
    let above = f32::from_bits(((bits >> DROPPED) + 1) << DROPPED);
    (above.is_normal() && x.is_finite()).then_some(above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Simd;
    use crate::rbm::engine::layers::Layer;
    use crate::rbm::engine::panels::{ActiveUnits, Panels, WeightMatrix};
    use rand::{RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// The spacing `L / 32,767` would ignore rounding: with it, sums exceed 16 bits for 87 of the 200 matrices.
    #[test]
    fn rounded_sums_stay_within_16_bits() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut outside = 0;
        for _ in 0..200 {
            let weights = DMatrix::from_fn(1, 784, |_, _| rng.sample::<f64, _>(StandardNormal));
            let (largest, _) =
                largest_sums(&WeightGrid::finest(&weights).unwrap().weights.map(f64::from));
            assert!((32_200.0..=32_767.0).contains(&largest), "{largest}");
            let tight = largest_sums(&weights).0 / f64::from(i16::MAX);
            outside += usize::from(WeightGrid::of(&weights, tight as f32).is_none());
        }
        assert!(outside > 50, "{outside}");
    }

    /// Computes the largest sum that fits into 16 bits, once by adding columns and once by tables.
    #[test]
    fn a_sum_at_the_limit_is_exact() {
        for (inputs, chains) in [(7, 1), (64, 300)] {
            let each = (32_767.0 / inputs as f64).floor();
            let mut weights = DMatrix::from_element(3, inputs, each);
            weights[(0, 0)] += 32_767.0 - each * inputs as f64;
            weights.row_mut(1).neg_mut();
            weights[(2, 0)] = 0.0;
            let grid = WeightGrid::of(&weights, 1.0).unwrap();
            let mut layer = Layer::zeros(inputs, chains);
            (0..chains).for_each(|chain| layer.load(chain, &vec![true; inputs]));
            let (engine, mut active) = (Simd::best(), ActiveUnits::default());
            active.read(engine, &layer);
            let panels: Panels<Wide> = Panels::new(WeightMatrix::Upright(&grid.weights));
            let mut sums = vec![Wide::default(); chains];
            panels.multiply(engine, 0, &active, &mut sums);
            for sums in sums {
                let exact = weights.column_sum();
                assert_eq!(f64::from(sums.0[0][0]), 32_767.0);
                assert_eq!(f64::from(sums.0[0][1]), exact[1]);
                assert_eq!(f64::from(sums.0[0][2]), exact[2]);
            }
        }
    }

    #[test]
    fn multiples_of_the_unit_are_exact_in_single_precision() {
        for x in [1e-6, 0.003, 0.0178, 0.5, 7.3] {
            let unit = round_up(x).unwrap();
            assert!(
                f64::from(unit) > x && f64::from(unit) < 1.005 * x,
                "{x}: {unit}"
            );
            for n in [32_767.0, 12_345.0, 3.0] {
                assert_eq!(f64::from(n as f32 * unit), n * f64::from(unit));
            }
        }
        assert_eq!(round_up(0.0), None);
        assert_eq!(round_up(f64::INFINITY), None);
    }
}
