//! A row: one number for each output of a panel.

use crate::random::LANES;
use crate::rbm::engine::layers::WIDTH;
use crate::rbm::scalar::Scalar;

/// [`WIDTH`] numbers. In single precision they fill two of the widest registers.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Row<T>(pub(crate) [[T; LANES]; WIDTH / LANES]);

impl<T: Scalar> Row<T> {
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self([[T::zero(); LANES]; WIDTH / LANES])
    }

    #[inline(always)]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    /// `factor * self + other`.
    #[inline(always)]
    pub(crate) fn times_plus<const FUSED: bool>(&self, factor: T, other: &Self) -> Self {
        self.zip(other, |a, b| a.multiply_add::<FUSED>(factor, b))
    }

    #[inline(always)]
    fn zip(&self, other: &Self, f: impl Fn(T, T) -> T) -> Self {
        let mut row = *self;
        for (row, other) in row.0.iter_mut().zip(&other.0) {
            for l in 0..LANES {
                row[l] = f(row[l], other[l]);
            }
        }
        row
    }

    /// Writes these numbers to the place of this panel among the numbers for all outputs.
    #[inline(always)]
    pub(crate) fn write(&self, panel: usize, values: &mut [T]) {
        let values = &mut values[panel * WIDTH..];
        let row = self.0.as_flattened();
        match values.first_chunk_mut::<WIDTH>() {
            Some(all) => all.copy_from_slice(row),
            None => values.copy_from_slice(&row[..values.len()]),
        }
    }

    /// Adds `factor` times these numbers to those of this panel among the numbers for all outputs.
    #[inline(always)]
    pub(crate) fn add_scaled(&self, panel: usize, factor: T, values: &mut [T]) {
        let values = values[panel * WIDTH..].iter_mut();
        for (value, &number) in values.zip(self.0.as_flattened()) {
            *value += factor * number;
        }
    }

    /// Takes the first numbers of these, or all where there are fewer than a panel has.
    #[inline(always)]
    pub(crate) fn read(&mut self, values: &[T]) {
        let row = self.0.as_flattened_mut();
        match values.first_chunk::<WIDTH>() {
            Some(all) => row.copy_from_slice(all),
            None => row[..values.len()].copy_from_slice(values),
        }
    }

    /// The rows that hold numbers for all outputs, with zeros up to a whole panel.
    pub(crate) fn panels(values: &[T]) -> Vec<Self> {
        let mut rows = vec![Self::zero(); values.len().div_ceil(WIDTH)];
        for (row, values) in rows.iter_mut().zip(values.chunks(WIDTH)) {
            row.read(values);
        }
        rows
    }
}
