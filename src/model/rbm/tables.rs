//! Products of weights and 0/1 units by table lookup, with AVX-512.
//!
//! The part that four inputs have in a sum takes one of 16 values, the subset sums of their four
//! weights. These fill one register, and one permutation (`vpermps`) looks them up for 16 chains at
//! once: a quarter of the additions of a dense product, and no multiplication.

use std::arch::x86_64::*;

use nalgebra::DMatrix;

use crate::model::rbm::layers::Layer;

/// Chains that share a register, entries of a table, and units whose bits make a word.
const LANES: usize = 16;
/// Inputs of a table.
const BITS: usize = 4;
/// Registers of chains that share a table while it is at hand.
const GROUPS: usize = 8;

/// For each four inputs the table index of each chain, in groups of 16 chains.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableIndices {
    /// By group of chains, then by four inputs.
    indices: Vec<[u32; LANES]>,
    /// Tables of an output.
    tables: usize,
}

impl TableIndices {
    /// Takes the units of a layer, each 0 or 1.
    #[target_feature(enable = "avx512f")]
    fn load(&mut self, layer: &Layer<f32>) {
        let chunks = layer.units().div_ceil(LANES);
        self.tables = chunks * LANES / BITS;
        let groups = layer.chains().div_ceil(LANES).next_multiple_of(GROUPS);
        self.indices.clear();
        self.indices.resize(groups * self.tables, [0; LANES]);
        for chain in 0..layer.chains() {
            let group = &mut self.indices[chain / LANES * self.tables..][..self.tables];
            let units = layer.chain(chain).as_chunks::<LANES>().0;
            for (units, tables) in units.iter().zip(group.chunks_exact_mut(LANES / BITS)) {
                let bits = bits(units);
                for (i, indices) in tables.iter_mut().enumerate() {
                    indices[chain % LANES] = bits >> (BITS * i) & 0xf;
                }
            }
        }
    }
}

/// A bit for each unit.
#[target_feature(enable = "avx512f")]
fn bits(units: &[f32; LANES]) -> u32 {
    _mm512_cmp_ps_mask::<_CMP_NEQ_OQ>(load(units), _mm512_setzero_ps()).into()
}

/// `scale W U`, on top of what `sums` holds where `add`; `weights` is outputs x inputs, as
/// `transposed` (inputs x outputs) has its columns at hand.
#[target_feature(enable = "avx512f")]
pub(crate) fn multiply(
    transposed: &DMatrix<f32>,
    scale: f32,
    units: &Layer<f32>,
    add: bool,
    sums: &mut Layer<f32>,
    indices: &mut TableIndices,
) {
    indices.load(units);
    let chains = sums.chains();
    let tables = indices.tables;
    let blocks = indices.indices.chunks_exact(GROUPS * tables);
    for (block, indices) in blocks.enumerate() {
        let first = block * GROUPS * LANES;
        let here = first..chains.min(first + GROUPS * LANES);
        for (panel, columns) in transposed_panels(transposed) {
            let mut found = [[[0.0; LANES]; GROUPS]; LANES];
            for (found, weights) in found.iter_mut().zip(columns) {
                *found = lookups(weights, scale, indices, tables);
            }
            for chain in here.clone() {
                let (group, lane) = ((chain - first) / LANES, chain % LANES);
                let sums = &mut sums.chain_mut(chain).as_chunks_mut::<LANES>().0[panel];
                for (sum, found) in sums.iter_mut().zip(&found) {
                    let found = found[group][lane];
                    *sum = if add { *sum + found } else { found };
                }
            }
        }
    }
}

/// The weights of 16 outputs after another, each a slice over the inputs.
fn transposed_panels(
    transposed: &DMatrix<f32>,
) -> impl Iterator<Item = (usize, std::slice::ChunksExact<'_, f32>)> {
    let inputs = transposed.nrows();
    let panels = transposed.as_slice().chunks(inputs * LANES).enumerate();
    panels.map(move |(panel, weights)| (panel, weights.chunks_exact(inputs)))
}

/// One output's sums for a block of chains.
#[target_feature(enable = "avx512f")]
fn lookups(
    weights: &[f32],
    scale: f32,
    indices: &[[u32; LANES]],
    tables: usize,
) -> [[f32; LANES]; GROUPS] {
    let mut sums = [_mm512_setzero_ps(); GROUPS];
    let groups: [&[[u32; LANES]]; GROUPS] =
        std::array::from_fn(|group| &indices[group * tables..][..tables]);
    let (quads, rest) = weights.as_chunks::<BITS>();
    for (k, weights) in quads.iter().enumerate() {
        let table = subset_sums(weights);
        for (sum, indices) in sums.iter_mut().zip(groups) {
            *sum = _mm512_add_ps(
                *sum,
                _mm512_permutexvar_ps(load_indices(&indices[k]), table),
            );
        }
    }
    if !rest.is_empty() {
        let table = subset_sums(&std::array::from_fn(|i| {
            rest.get(i).copied().unwrap_or(0.0)
        }));
        for (sum, indices) in sums.iter_mut().zip(groups) {
            let indices = load_indices(&indices[quads.len()]);
            *sum = _mm512_add_ps(*sum, _mm512_permutexvar_ps(indices, table));
        }
    }
    sums.map(|sum| store(_mm512_mul_ps(sum, _mm512_set1_ps(scale))))
}

/// Entry i: the sum of the weights whose bit in i is set.
#[target_feature(enable = "avx512f")]
fn subset_sums(weights: &[f32; BITS]) -> __m512 {
    const SET: [u16; BITS] = [0xaaaa, 0xcccc, 0xf0f0, 0xff00];
    let mut table = _mm512_maskz_mov_ps(SET[0], _mm512_set1_ps(weights[0]));
    for bit in 1..BITS {
        table = _mm512_mask_add_ps(table, SET[bit], table, _mm512_set1_ps(weights[bit]));
    }
    table
}

#[allow(unsafe_code)]
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; LANES]) -> __m512 {
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
fn store(register: __m512) -> [f32; LANES] {
    let mut values = [0.0; LANES];
    // SAFETY: 16 floats are writable, and no alignment is asked for.
    unsafe { _mm512_storeu_ps(values.as_mut_ptr(), register) };
    values
}
