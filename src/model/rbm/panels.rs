//! Products of weights and 0/1 units without multiplication.
//!
//! Where many units are on, by table lookup ("the method of the four Russians"): what four inputs
//! add to the outputs of a chain takes one of 16 values, the subset sums of their four columns.
//! The tables of 64 inputs and 32 outputs are made once for all chains of a block and stay in the
//! level 1 cache, so that a chain takes one addition where a matrix product takes four
//! multiplications and additions. Where few are on, their columns are added.
//!
//! Only additions, in an order that no instruction set changes.

use nalgebra::DMatrix;

use crate::engine::{Available, vectorized};
use crate::model::rbm::layers::Layer;
use crate::model::rbm::scalar::Scalar;

/// Numbers that are added together.
const LANES: usize = 16;
/// Outputs of a panel.
const WIDTH: usize = 2 * LANES;
/// Inputs of a table.
const BITS: usize = 4;
/// Entries of a table.
const ENTRIES: usize = 1 << BITS;
/// Tables at hand together, for as many inputs as a word has bits.
const TABLES: usize = u64::BITS as usize / BITS;

/// One number for each output of a panel.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Row<T>([[T; LANES]; 2]);

impl<T: Scalar> Row<T> {
    #[inline(always)]
    fn zero() -> Self {
        Self([[T::zero(); LANES]; 2])
    }

    #[inline(always)]
    fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        for (sum, other) in sum.0.iter_mut().zip(&other.0) {
            for l in 0..LANES {
                sum[l] += other[l];
            }
        }
        sum
    }
}

/// A weight matrix (outputs x inputs) as panels of outputs, each with a row for each input.
#[derive(Debug, Clone)]
pub(crate) struct Panels<T> {
    rows: Vec<Row<T>>,
    /// Rows of a panel: inputs, padded to whole tables.
    height: usize,
}

/// Buffers of a product, one value for a block of chains.
#[derive(Debug, Clone)]
pub(crate) struct PanelScratch<T> {
    /// The inputs of a chain, 0 or 1.
    bytes: Vec<u8>,
    /// A bit for each input of each chain.
    words: Vec<u64>,
    /// For each word of inputs and each chain, where in `tables` its sums stand.
    indices: Vec<[u8; TABLES]>,
    tables: Vec<Row<T>>,
    /// The sums of each chain for the panel at hand.
    sums: Vec<Row<T>>,
    /// The active inputs of each chain, one after another, and where they end.
    active: Vec<u32>,
    ends: Vec<usize>,
}

impl<T: Scalar> Panels<T> {
    pub(crate) fn new(weights: &DMatrix<T>) -> Self {
        let (outputs, inputs) = weights.shape();
        let height = inputs.next_multiple_of(BITS);
        let mut rows = vec![Row::zero(); outputs.div_ceil(WIDTH) * height];
        for (input, column) in weights.column_iter().enumerate() {
            for (panel, weights) in column.as_slice().chunks(WIDTH).enumerate() {
                let row = rows[panel * height + input].0.as_flattened_mut();
                row[..weights.len()].copy_from_slice(weights);
            }
        }
        Self { rows, height }
    }

    /// `scale W U`, on top of what `sums` holds where `add`.
    pub(crate) fn multiply(
        &self,
        engine: Available,
        scale: T,
        units: &Layer<T>,
        add: bool,
        sums: &mut Layer<T>,
        scratch: &mut PanelScratch<T>,
    ) {
        vectorized!(engine, FUSED, {
            let sparse = self.is_sparse(scratch.read(units), units.chains());
            if sparse {
                scratch.list();
            } else {
                scratch.index();
            }
            for (panel, rows) in self.rows.chunks_exact(self.height).enumerate() {
                if sparse {
                    scratch.add_active(rows);
                } else {
                    scratch.look_up(rows);
                }
                for (chain, found) in scratch.sums.iter().enumerate() {
                    let sums = &mut sums.chain_mut(chain)[panel * WIDTH..];
                    for (sums, found) in sums.as_chunks_mut().0.iter_mut().zip(&found.0) {
                        put(found, scale, add, sums);
                    }
                }
            }
        });
    }

    /// Whether to add the columns of the active units, so many in all chains, rather than look
    /// sums up. A column, from the level 2 cache, takes twice the time of a table's row, from level
    /// 1; to make a table takes that of 45 rows.
    #[inline(always)]
    fn is_sparse(&self, active: usize, chains: usize) -> bool {
        2 * active < self.height / BITS * (chains + 45)
    }
}

impl<T> Default for PanelScratch<T> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            words: Vec::new(),
            indices: Vec::new(),
            tables: Vec::new(),
            sums: Vec::new(),
            active: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl<T: Scalar> PanelScratch<T> {
    /// Takes the units as bits and counts the active ones.
    #[inline(always)]
    fn read(&mut self, units: &Layer<T>) -> usize {
        let words = units.units().div_ceil(u64::BITS as usize);
        self.words.resize(words * units.chains(), 0);
        self.sums.resize(units.chains(), Row::zero());
        self.bytes.clear();
        self.bytes.resize(words * u64::BITS as usize, 0);
        let mut active = 0;
        for (chain, words) in self.words.chunks_exact_mut(words).enumerate() {
            // Padding is not 0: it takes part in draws.
            let units = &units.chain(chain)[..units.units()];
            for (byte, &unit) in self.bytes.iter_mut().zip(units) {
                *byte = u8::from(unit != T::zero());
            }
            for (word, bytes) in words.iter_mut().zip(self.bytes.as_chunks::<64>().0) {
                *word = pack(bytes);
                active += word.count_ones() as usize;
            }
        }
        active
    }

    /// Prepares [`look_up`](Self::look_up).
    #[inline(always)]
    fn index(&mut self) {
        let chains = self.sums.len();
        let zero = Row::zero();
        self.tables.resize(TABLES * ENTRIES, zero);
        self.indices.resize(self.words.len(), [0; TABLES]);
        let words = self.words.len() / chains;
        for (chain, chain_words) in self.words.chunks_exact(words).enumerate() {
            for (place, &word) in chain_words.iter().enumerate() {
                let index = &mut self.indices[place * chains + chain];
                for (table, index) in index.iter_mut().enumerate() {
                    let entry = (word >> (BITS * table)) as u8 & (ENTRIES as u8 - 1);
                    *index = (table * ENTRIES) as u8 | entry;
                }
            }
        }
    }

    /// The sums for one panel, given its rows, by tables.
    #[inline(always)]
    fn look_up(&mut self, rows: &[Row<T>]) {
        let chains = self.sums.len();
        self.sums.fill(Row::zero());
        let Some(tables) = self.tables.first_chunk_mut::<{ TABLES * ENTRIES }>() else {
            return;
        };
        let groups = rows.chunks(TABLES * BITS);
        for (rows, indices) in groups.zip(self.indices.chunks_exact(chains)) {
            make_tables(rows, tables);
            let count = rows.len() / BITS;
            for (sum, index) in self.sums.iter_mut().zip(indices) {
                if count == TABLES {
                    add_entries(tables, index, sum);
                } else {
                    add_entries(tables, &index[..count], sum);
                }
            }
        }
    }

    /// Prepares [`add_active`](Self::add_active).
    #[inline(always)]
    fn list(&mut self) {
        let words = self.words.len() / self.sums.len();
        self.active.clear();
        self.ends.clear();
        for words in self.words.chunks_exact(words) {
            for (place, &word) in words.iter().enumerate() {
                let mut rest = word;
                while rest != 0 {
                    self.active.push(64 * place as u32 + rest.trailing_zeros());
                    rest &= rest - 1;
                }
            }
            self.ends.push(self.active.len());
        }
    }

    /// The sums for one panel, given its rows, by active inputs.
    #[inline(always)]
    fn add_active(&mut self, rows: &[Row<T>]) {
        let mut start = 0;
        for (sum, &end) in self.sums.iter_mut().zip(&self.ends) {
            let mut total = Row::zero();
            for &input in &self.active[start..end] {
                total = total.plus(&rows[input as usize]);
            }
            *sum = total;
            start = end;
        }
    }
}

/// The subset sums of each four rows.
#[inline(always)]
fn make_tables<T: Scalar>(rows: &[Row<T>], tables: &mut [Row<T>; TABLES * ENTRIES]) {
    let tables = tables.as_chunks_mut::<ENTRIES>().0;
    for (rows, table) in rows.as_chunks::<BITS>().0.iter().zip(tables) {
        // The first row, the empty sum, stays 0.
        for (bit, row) in rows.iter().enumerate() {
            let row = *row;
            for entry in 0..1 << bit {
                table[entry | 1 << bit] = table[entry].plus(&row);
            }
        }
    }
}

#[inline(always)]
fn add_entries<T: Scalar>(tables: &[Row<T>; TABLES * ENTRIES], index: &[u8], sum: &mut Row<T>) {
    let mut total = *sum;
    for &entry in index {
        total = total.plus(&tables[usize::from(entry)]);
    }
    *sum = total;
}

#[inline(always)]
fn put<T: Scalar>(found: &[T; LANES], scale: T, add: bool, sums: &mut [T; LANES]) {
    for l in 0..LANES {
        let before = if add { sums[l] } else { T::zero() };
        sums[l] = before + scale * found[l];
    }
}

/// The lowest bit of each byte.
#[inline(always)]
fn pack(bytes: &[u8; 64]) -> u64 {
    let (eights, _) = bytes.as_chunks::<8>();
    eights.iter().rev().fold(0, |word, &eight| {
        // Gathered in the highest byte of the product.
        let bits = u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word << 8 | bits
    })
}
