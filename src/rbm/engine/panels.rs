//! Products of weights and 0/1 units without multiplications.
//!
//! Where few units are on, their columns of weights are added. Where many are on, sums are looked up in tables ("the
//! method of the four Russians"). A table holds the 16 subset sums of the columns of four inputs. Tables for 32
//! inputs and 32 outputs serve all chains of a block, and stay in the level 1 cache. The order of additions is the
//! same for every instruction set.

use nalgebra::DMatrix;

use crate::num::{Simd, vectorized};
use crate::rbm::Scalar;
use crate::rbm::engine::layers::{LINE, Layer, Row, WIDTH};

/// Number of inputs of a table.
const BITS: usize = 4;
const ENTRIES: usize = 1 << BITS;
/// Number of inputs whose tables are made together.
const INPUTS: usize = LINE / 2;
const TABLES: usize = INPUTS / BITS;

/// A weight matrix in its layout in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WeightMatrix<'a, T> {
    /// Outputs x inputs.
    Upright(&'a DMatrix<T>),
    /// Inputs x outputs.
    Transposed(&'a DMatrix<T>),
}

impl<'a, T: Scalar> WeightMatrix<'a, T> {
    /// Returns the numbers of outputs and inputs.
    pub(crate) fn shape(self) -> (usize, usize) {
        match self {
            Self::Upright(matrix) => matrix.shape(),
            Self::Transposed(matrix) => (matrix.ncols(), matrix.nrows()),
        }
    }

    pub(crate) fn output(self, output: usize) -> impl Iterator<Item = T> + Clone + 'a {
        let (values, rows) = match self {
            Self::Upright(matrix) => (&matrix.as_slice()[output..], matrix.nrows()),
            Self::Transposed(matrix) => {
                let rows = matrix.nrows();
                (&matrix.as_slice()[output * rows..][..rows], 1)
            }
        };
        values.iter().step_by(rows).copied()
    }
}

/// A weight matrix (outputs x inputs) in panels of 32 outputs, with a row for each input.
#[derive(Debug, Clone, Default)]
pub(crate) struct Panels<T> {
    shape: (usize, usize),
    rows: Vec<Row<T>>,
    /// Number of rows of a panel: the inputs, padded to whole tables.
    height: usize,
}

/// The units of a layer that are on, in the form that products need.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveUnits {
    chains: usize,
    /// Whether columns are added, because few units are on.
    few: bool,
    /// One bit for each unit of each chain.
    words: Vec<u64>,
    /// Places of a chain's sums in the tables, by half word and chain; used where many units are on.
    indices: Vec<[u8; TABLES]>,
    /// Indices of the active units, chain after chain; used where few are on.
    active: Vec<u32>,
    /// End of each chain's part of `active`.
    ends: Vec<usize>,
}

impl<T: Scalar> Panels<T> {
    pub(crate) fn set(&mut self, weights: WeightMatrix<'_, T>) {
        let (outputs, inputs) = weights.shape();
        if self.shape != (outputs, inputs) {
            self.shape = (outputs, inputs);
            self.height = inputs.next_multiple_of(BITS);
            self.rows = vec![Row::zero(); outputs.div_ceil(WIDTH) * self.height];
        }
        for (panel, rows) in self.rows.chunks_exact_mut(self.height).enumerate() {
            let first = panel * WIDTH;
            match weights {
                WeightMatrix::Upright(matrix) => {
                    let columns = matrix.as_slice().chunks_exact(outputs);
                    for (row, column) in rows.iter_mut().zip(columns) {
                        row.read(&column[first..]);
                    }
                }
                WeightMatrix::Transposed(matrix) => {
                    let columns = matrix.as_slice()[first * inputs..].chunks_exact(inputs);
                    set_columns(rows, columns.take(WIDTH));
                }
            }
        }
    }

    /// Writes `W u` to `sums` for the outputs of one panel and each chain. `tables` is a buffer.
    pub(crate) fn multiply(
        &self,
        engine: Simd,
        panel: usize,
        units: &ActiveUnits,
        tables: &mut Vec<Row<T>>,
        sums: &mut [Row<T>],
    ) {
        let rows = &self.rows[panel * self.height..][..self.height];
        tables.resize(TABLES * ENTRIES, Row::zero());
        vectorized!(engine, FUSED, {
            if units.few {
                add_active(rows, units, sums);
            } else {
                look_up(rows, units, tables, sums);
            }
        });
    }
}

impl ActiveUnits {
    pub(crate) fn read(&mut self, engine: Simd, layer: &Layer) {
        self.chains = layer.chains();
        self.words.resize(layer.width() * layer.chains(), 0);
        vectorized!(engine, FUSED, {
            let active = self.pack(layer);
            self.few = are_few(active, layer);
            if self.few {
                self.list(layer.width());
            } else {
                self.index(layer.width());
            }
        });
    }

    /// Sets the words from the units of a layer, and returns the number of units that are on.
    #[inline(always)]
    fn pack(&mut self, layer: &Layer) -> usize {
        // Padding may be 1, because draws write to it.
        let padding = layer.width() * LINE - layer.units();
        let mut active = 0;
        for (chain, words) in self.words.chunks_exact_mut(layer.width()).enumerate() {
            for (word, line) in words.iter_mut().zip(layer.chain(chain)) {
                *word = low_bits(&line.0);
            }
            if let Some(last) = words.last_mut() {
                *last &= u64::MAX >> padding;
            }
            active += words.iter().map(|w| w.count_ones() as usize).sum::<usize>();
        }
        active
    }

    /// Prepares [`look_up`].
    #[inline(always)]
    fn index(&mut self, width: usize) {
        self.indices.resize(2 * self.words.len(), [0; TABLES]);
        for (chain, words) in self.words.chunks_exact(width).enumerate() {
            for (place, &word) in words.iter().enumerate() {
                for half in 0..2 {
                    let word = (word >> (INPUTS * half)) as u32;
                    let index = &mut self.indices[(2 * place + half) * self.chains + chain];
                    for (table, index) in index.iter_mut().enumerate() {
                        let entry = (word >> (BITS * table)) as u8 & (ENTRIES as u8 - 1);
                        *index = (table * ENTRIES) as u8 | entry;
                    }
                }
            }
        }
    }

    /// Prepares [`add_active`].
    #[inline(always)]
    fn list(&mut self, width: usize) {
        self.active.clear();
        self.ends.clear();
        for words in self.words.chunks_exact(width) {
            for (place, &word) in words.iter().enumerate() {
                let mut rest = word;
                while rest != 0 {
                    let unit = (LINE * place) as u32 + rest.trailing_zeros();
                    self.active.push(unit);
                    rest &= rest - 1;
                }
            }
            self.ends.push(self.active.len());
        }
    }
}

/// Returns whether adding the columns of the `active` units is faster than tables. A column costs twice as much as a
/// table's row, because of the caches; making a table costs as much as 45 rows.
fn are_few(active: usize, layer: &Layer) -> bool {
    2 * active < layer.units().div_ceil(BITS) * (layer.chains() + 45)
}

/// Sets the first numbers of the rows, each from one column. A few rows at a time stay in the cache.
fn set_columns<'a, T: Scalar>(rows: &mut [Row<T>], columns: impl Iterator<Item = &'a [T]> + Clone) {
    const CACHED: usize = 128;
    for (part, rows) in rows.chunks_mut(CACHED).enumerate() {
        for (l, column) in columns.clone().enumerate() {
            for (row, &weight) in rows.iter_mut().zip(&column[part * CACHED..]) {
                row.0.as_flattened_mut()[l] = weight;
            }
        }
    }
}

#[inline(always)]
fn look_up<T: Scalar>(
    rows: &[Row<T>],
    units: &ActiveUnits,
    tables: &mut [Row<T>],
    sums: &mut [Row<T>],
) {
    sums.fill(Row::zero());
    let Some(tables) = tables.first_chunk_mut::<{ TABLES * ENTRIES }>() else {
        return;
    };
    let indices = units.indices.chunks_exact(units.chains);
    for (rows, indices) in rows.chunks(INPUTS).zip(indices) {
        make_tables(rows, tables);
        let count = rows.len() / BITS;
        for (sum, index) in sums.iter_mut().zip(indices) {
            *sum = if count == TABLES {
                add_rows(*sum, tables, index)
            } else {
                add_rows(*sum, tables, &index[..count])
            };
        }
    }
}

#[inline(always)]
fn add_active<T: Scalar>(rows: &[Row<T>], units: &ActiveUnits, sums: &mut [Row<T>]) {
    let mut start = 0;
    for (sum, &end) in sums.iter_mut().zip(&units.ends) {
        *sum = add_rows(Row::zero(), rows, &units.active[start..end]);
        start = end;
    }
}

/// Adds the rows at `places` to `first`. Two sums are kept, so that additions need not wait for each other.
#[inline(always)]
fn add_rows<T: Scalar, I: Copy + Into<u32>>(
    first: Row<T>,
    rows: &[Row<T>],
    places: &[I],
) -> Row<T> {
    let row = |place: I| &rows[place.into() as usize];
    let (pairs, rest) = places.as_chunks::<2>();
    let (mut even, mut odd) = (first, Row::zero());
    for &[first, second] in pairs {
        even = even.plus(row(first));
        odd = odd.plus(row(second));
    }
    if let [last] = rest {
        even = even.plus(row(*last));
    }
    even.plus(&odd)
}

#[inline(always)]
fn make_tables<T: Scalar>(rows: &[Row<T>], tables: &mut [Row<T>; TABLES * ENTRIES]) {
    let tables = tables.as_chunks_mut::<ENTRIES>().0;
    for (rows, table) in rows.as_chunks::<BITS>().0.iter().zip(tables) {
        // Entry 0, the empty sum, stays 0.
        for (bit, row) in rows.iter().enumerate() {
            let row = *row;
            for entry in 0..1 << bit {
                table[entry | 1 << bit] = table[entry].plus(&row);
            }
        }
    }
}

/// Gathers the lowest bit of each byte into a word.
#[inline(always)]
fn low_bits(bytes: &[u8; LINE]) -> u64 {
    let (eights, _) = bytes.as_chunks::<8>();
    eights.iter().rev().fold(0, |word, &eight| {
        // The product gathers the bits in its highest byte.
        let bits = u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word << 8 | bits
    })
}
