//! Both layers of many chains at once: a column a chain, rows padded to whole chunks.

use nalgebra::{DMatrix, DMatrixView, DMatrixViewMut, Dyn, U1};

use crate::model::rbm::elementwise::padded;
use crate::model::rbm::{Rbm, Scalar};

/// Bytes of a cache line and of the widest register.
const LINE: usize = 64;

/// Values of one layer's units for a number of chains. The padding rows take part in elementwise
/// work and are left out of products.
#[derive(Debug, Clone)]
pub(crate) struct Layer<T: Scalar> {
    units: usize,
    chains: usize,
    /// Units with padding.
    rows: usize,
    values: Vec<T>,
    /// Where in `values` the first chain begins: at a cache line.
    start: usize,
}

impl<T: Scalar> Layer<T> {
    pub(crate) fn zeros(units: usize, chains: usize) -> Self {
        let rows = padded(units);
        let values = vec![T::zero(); rows * chains + LINE / size_of::<T>()];
        Self {
            units,
            chains,
            rows,
            start: values
                .as_ptr()
                .align_offset(LINE)
                .min(values.len() - rows * chains),
            values,
        }
    }

    /// Number of units, without padding.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Number of chains.
    pub(crate) fn chains(&self) -> usize {
        self.chains
    }

    /// The units of one chain, with padding.
    #[inline(always)]
    pub(crate) fn chain(&self, chain: usize) -> &[T] {
        &self.values[self.start + chain * self.rows..][..self.rows]
    }

    /// As [`chain`](Self::chain), to write to.
    #[inline(always)]
    pub(crate) fn chain_mut(&mut self, chain: usize) -> &mut [T] {
        &mut self.values[self.start + chain * self.rows..][..self.rows]
    }

    /// The units of all chains (units x chains), without padding.
    pub(crate) fn matrix(&self) -> DMatrixView<'_, T, U1, Dyn> {
        let (units, chains, rows) = (Dyn(self.units), Dyn(self.chains), Dyn(self.rows));
        DMatrixView::from_slice_with_strides_generic(
            &self.values[self.start..],
            units,
            chains,
            U1,
            rows,
        )
    }

    /// As [`matrix`](Self::matrix), to write to.
    pub(crate) fn matrix_mut(&mut self) -> DMatrixViewMut<'_, T, U1, Dyn> {
        let (units, chains, rows) = (Dyn(self.units), Dyn(self.chains), Dyn(self.rows));
        let values = &mut self.values[self.start..];
        DMatrixViewMut::from_slice_with_strides_generic(values, units, chains, U1, rows)
    }

    /// As [`matrix`](Self::matrix), transposed (chains x units); only for a right factor, see
    /// [`propagate_down`].
    pub(crate) fn transposed(&self) -> DMatrixView<'_, T, Dyn, Dyn> {
        let values = &self.values[self.start..];
        DMatrixView::from_slice_with_strides(values, self.chains, self.units, self.rows, 1)
    }

    /// Gives all chains the same values, and 0 in the padding.
    pub(crate) fn fill_chains(&mut self, values: &[T]) {
        for chain in 0..self.chains() {
            let (units, padding) = self.chain_mut(chain).split_at_mut(values.len());
            units.copy_from_slice(values);
            padding.fill(T::zero());
        }
    }

    /// Takes a chain's units from bits.
    #[inline(always)]
    pub(crate) fn set_chain(&mut self, chain: usize, state: &[bool]) {
        assert_eq!(state.len(), self.units, "length of the state");
        for (value, &on) in self.chain_mut(chain).iter_mut().zip(state) {
            *value = if on { T::one() } else { T::zero() };
        }
    }
}

/// A vector with zeros up to a whole number of chunks.
pub(crate) fn pad<T: Scalar>(values: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let length = padded(values.len());
    let mut padded: Vec<T> = values.collect();
    padded.resize(length, T::zero());
    padded
}

/// `a 1^T + W V`: the hidden activations of all chains, 0 in the padding.
pub(crate) fn propagate_up<T: Scalar>(rbm: &Rbm<T>, visible: &Layer<T>, hidden: &mut Layer<T>) {
    hidden.fill_chains(rbm.hidden_bias().as_slice());
    let weights = rbm.weights();
    hidden
        .matrix_mut()
        .gemm(T::one(), weights, &visible.matrix(), T::one());
}

/// `W^T H`: what the hidden units add to the visible logits of all chains.
///
/// Takes the transposed weights (D x M) as a matrix of their own. A strided view as the left
/// factor is no way out: where a size is 5 or less, the fallback of nalgebra 0.35
/// (`axcpy_uninit`) writes past its end.
pub(crate) fn propagate_down<T: Scalar>(
    transposed: &DMatrix<T>,
    hidden: &Layer<T>,
    visible: &mut Layer<T>,
) {
    visible
        .matrix_mut()
        .gemm(T::one(), transposed, &hidden.matrix(), T::zero());
}
