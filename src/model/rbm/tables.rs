//! Products of weights and 0/1 units without multiplication, with AVX-512.
//!
//! Where many units are on, by table lookup: the part that four inputs have in a sum takes one of
//! 16 values, the subset sums of their four weights. These fill one register, and one permutation
//! (`vpermps`) looks them up for 16 chains at once. Where few are on, by adding their columns.

use std::arch::x86_64::*;

use nalgebra::DMatrix;

use crate::model::rbm::layers::Layer;

/// Numbers in a register: chains, entries of a table, units whose bits make a word.
const LANES: usize = 16;
/// Inputs of a table.
const BITS: usize = 4;
/// Registers of chains that share a table while it is at hand.
const GROUPS: usize = 4;

type Lanes = [f32; LANES];

/// Buffers of a product.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableScratch {
    /// For each four inputs the table index of each chain of a block.
    indices: Vec<[[u32; LANES]; GROUPS]>,
    /// The active units of a chain.
    active: Vec<u32>,
}

/// Weights (outputs x inputs) with each input's column padded to whole registers.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    columns: Vec<Lanes>,
    /// Registers of a column.
    height: usize,
}

/// `scale W U` by table lookup, on top of what `sums` holds where `add`; W is given transposed
/// (inputs x outputs).
#[target_feature(enable = "avx512f")]
pub(crate) fn look_up(
    transposed: &DMatrix<f32>,
    scale: f32,
    units: &Layer<f32>,
    add: bool,
    sums: &mut Layer<f32>,
    scratch: &mut TableScratch,
) {
    let chains = sums.chains();
    let inputs = transposed.nrows();
    for first in (0..chains).step_by(GROUPS * LANES) {
        let last = chains.min(first + GROUPS * LANES);
        scratch.index(units, first..last);
        let panels = transposed.as_slice().chunks(inputs * LANES).enumerate();
        for (panel, weights) in panels {
            let mut found = [[[0.0; LANES]; LANES]; GROUPS];
            for (output, weights) in weights.chunks_exact(inputs).enumerate() {
                let sums = block_sums(weights, scale, &scratch.indices);
                for (group, sums) in found.iter_mut().zip(sums) {
                    group[output] = sums;
                }
            }
            for (group, found) in found.iter().enumerate() {
                let found = transpose(found);
                let start = first + group * LANES;
                for (chain, found) in (start..last.min(start + LANES)).zip(&found) {
                    put(
                        found,
                        add,
                        &mut sums.chain_mut(chain).as_chunks_mut().0[panel],
                    );
                }
            }
        }
    }
}

impl TableScratch {
    /// The table indices of the units of some chains, each 0 or 1.
    #[target_feature(enable = "avx512f")]
    fn index(&mut self, units: &Layer<f32>, chains: std::ops::Range<usize>) {
        let words = units.units().div_ceil(LANES);
        self.indices
            .resize(words * LANES / BITS, [[0; LANES]; GROUPS]);
        for (place, chain) in chains.enumerate() {
            let words = units.chain(chain).as_chunks::<LANES>().0;
            let tables = self.indices.as_chunks_mut::<{ LANES / BITS }>().0;
            for (word, tables) in words.iter().zip(tables) {
                let bits = bits(word);
                for (i, table) in tables.iter_mut().enumerate() {
                    table[place / LANES][place % LANES] = bits >> (BITS * i);
                }
            }
        }
    }
}

/// One output's sums for the chains of a block. A permutation uses the lowest four bits of an
/// index.
#[inline]
#[target_feature(enable = "avx512f")]
fn block_sums(weights: &[f32], scale: f32, indices: &[[[u32; LANES]; GROUPS]]) -> [Lanes; GROUPS] {
    let mut sums = [_mm512_setzero_ps(); GROUPS];
    let (quads, rest) = weights.as_chunks::<BITS>();
    for (weights, indices) in quads.iter().zip(indices) {
        add_looked_up(&mut sums, weights, indices);
    }
    if !rest.is_empty() {
        let mut last = [0.0; BITS];
        last[..rest.len()].copy_from_slice(rest);
        add_looked_up(&mut sums, &last, &indices[quads.len()]);
    }
    let mut scaled = [[0.0; LANES]; GROUPS];
    for (scaled, sum) in scaled.iter_mut().zip(sums) {
        *scaled = store(_mm512_mul_ps(sum, _mm512_set1_ps(scale)));
    }
    scaled
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add_looked_up(
    sums: &mut [__m512; GROUPS],
    weights: &[f32; BITS],
    indices: &[[u32; LANES]; GROUPS],
) {
    let table = subset_sums(weights);
    for (sum, indices) in sums.iter_mut().zip(indices) {
        *sum = _mm512_add_ps(*sum, _mm512_permutexvar_ps(load_indices(indices), table));
    }
}

/// Entry i: the sum of the weights whose bit in i is set.
#[inline]
#[target_feature(enable = "avx512f")]
fn subset_sums(weights: &[f32; BITS]) -> __m512 {
    let &[a, b, c, d] = weights;
    _mm512_add_ps(
        _mm512_add_ps(
            _mm512_maskz_mov_ps(0xaaaa, _mm512_set1_ps(a)),
            _mm512_maskz_mov_ps(0xcccc, _mm512_set1_ps(b)),
        ),
        _mm512_add_ps(
            _mm512_maskz_mov_ps(0xf0f0, _mm512_set1_ps(c)),
            _mm512_maskz_mov_ps(0xff00, _mm512_set1_ps(d)),
        ),
    )
}

impl Columns {
    pub(crate) fn new(weights: &DMatrix<f32>) -> Self {
        let height = weights.nrows().div_ceil(LANES);
        let mut columns = vec![[0.0; LANES]; height * weights.ncols()];
        for (column, padded) in weights.column_iter().zip(columns.chunks_exact_mut(height)) {
            for (w, to) in column.iter().zip(padded.as_flattened_mut()) {
                *to = *w;
            }
        }
        Self { columns, height }
    }

    /// `scale W U` by the columns of active units, on top of what `sums` holds where `add`.
    #[target_feature(enable = "avx512f")]
    pub(crate) fn add_active(
        &self,
        scale: f32,
        units: &Layer<f32>,
        add: bool,
        sums: &mut Layer<f32>,
        scratch: &mut TableScratch,
    ) {
        let active = &mut scratch.active;
        for chain in 0..units.chains() {
            let active = list_active(units.chain(chain), active);
            let sums = sums.chain_mut(chain).as_chunks_mut().0;
            let mut row = 0;
            while row < self.height {
                row += match self.height - row {
                    8.. => self.add_rows::<8>(row, scale, active, add, sums),
                    4.. => self.add_rows::<4>(row, scale, active, add, sums),
                    _ => self.add_rows::<1>(row, scale, active, add, sums),
                };
            }
        }
    }

    /// Rows from `row` on, as many registers as stay at hand; returns their number.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add_rows<const ROWS: usize>(
        &self,
        row: usize,
        scale: f32,
        active: &[u32],
        add: bool,
        sums: &mut [Lanes],
    ) -> usize {
        let mut totals = [_mm512_setzero_ps(); ROWS];
        for &unit in active {
            let column = &self.columns[unit as usize * self.height + row..][..ROWS];
            for (total, weights) in totals.iter_mut().zip(column) {
                *total = _mm512_add_ps(*total, load(weights));
            }
        }
        for (total, sums) in totals.into_iter().zip(&mut sums[row..]) {
            let total = store(_mm512_mul_ps(total, _mm512_set1_ps(scale)));
            put(&total, add, sums);
        }
        ROWS
    }
}

/// The indices of the units that are on, without a branch.
#[inline]
#[target_feature(enable = "avx512f")]
fn list_active<'a>(units: &[f32], list: &'a mut Vec<u32>) -> &'a [u32] {
    list.resize(units.len() + LANES, 0);
    let mut indices = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut count = 0;
    for units in units.as_chunks().0 {
        let bits = bits(units);
        let compressed = store_indices(_mm512_maskz_compress_epi32(bits as u16, indices));
        list[count..][..LANES].copy_from_slice(&compressed);
        count += bits.count_ones() as usize;
        indices = _mm512_add_epi32(indices, _mm512_set1_epi32(LANES as i32));
    }
    &list[..count]
}

/// A bit for each unit that is on.
#[inline]
#[target_feature(enable = "avx512f")]
fn bits(units: &Lanes) -> u32 {
    _mm512_cmp_ps_mask::<_CMP_NEQ_OQ>(load(units), _mm512_setzero_ps()).into()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn put(found: &Lanes, add: bool, sums: &mut Lanes) {
    let found = load(found);
    *sums = store(if add {
        _mm512_add_ps(load(sums), found)
    } else {
        found
    });
}

/// In four rounds of exchanges between registers: of single numbers, pairs, fours and eights.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: &[Lanes; LANES]) -> [Lanes; LANES] {
    let (mut rows, source) = ([_mm512_setzero_ps(); LANES], rows);
    for (row, source) in rows.iter_mut().zip(source) {
        *row = load(source);
    }
    let mut exchanged = [_mm512_setzero_ps(); LANES];
    for i in 0..LANES / 2 {
        exchanged[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        exchanged[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    for i in 0..LANES / 4 {
        for k in 0..2 {
            let a = _mm512_castps_pd(exchanged[4 * i + k]);
            let b = _mm512_castps_pd(exchanged[4 * i + k + 2]);
            rows[4 * i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            rows[4 * i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
    for k in 0..4 {
        for i in 0..2 {
            let (a, b) = (rows[8 * i + k], rows[8 * i + k + 4]);
            exchanged[8 * i + k] = _mm512_shuffle_f32x4::<0x88>(a, b);
            exchanged[8 * i + k + 4] = _mm512_shuffle_f32x4::<0xdd>(a, b);
        }
    }
    let mut columns = [[0.0; LANES]; LANES];
    for k in 0..8 {
        let (a, b) = (exchanged[k], exchanged[8 + k]);
        columns[k] = store(_mm512_shuffle_f32x4::<0x88>(a, b));
        columns[k + 8] = store(_mm512_shuffle_f32x4::<0xdd>(a, b));
    }
    columns
}

#[allow(unsafe_code)]
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &Lanes) -> __m512 {
    // SAFETY: 16 floats are readable, and no alignment is asked for.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

#[allow(unsafe_code)]
#[inline]
#[target_feature(enable = "avx512f")]
fn load_indices(indices: &[u32; LANES]) -> __m512i {
    // SAFETY: 16 words are readable, and no alignment is asked for.
    unsafe { _mm512_loadu_si512(indices.as_ptr().cast()) }
}

#[allow(unsafe_code)]
#[inline]
#[target_feature(enable = "avx512f")]
fn store_indices(register: __m512i) -> [u32; LANES] {
    let mut indices = [0; LANES];
    // SAFETY: 16 words are writable, and no alignment is asked for.
    unsafe { _mm512_storeu_si512(indices.as_mut_ptr().cast(), register) };
    indices
}

#[allow(unsafe_code)]
#[inline]
#[target_feature(enable = "avx512f")]
fn store(register: __m512) -> Lanes {
    let mut values = [0.0; LANES];
    // SAFETY: 16 floats are writable, and no alignment is asked for.
    unsafe { _mm512_storeu_ps(values.as_mut_ptr(), register) };
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn transposes() {
        if !is_x86_feature_detected!("avx512f") {
            return;
        }
        let rows = std::array::from_fn(|i| std::array::from_fn(|j| (16 * i + j) as f32));
        // SAFETY: the processor has AVX-512 F.
        let columns = unsafe { transpose(&rows) };
        for i in 0..LANES {
            for j in 0..LANES {
                assert_eq!(columns[j][i], rows[i][j]);
            }
        }
    }
}
