//! Products of weights and 0/1 units without multiplications.
//!
//! If few units are on, their columns of weights are added. If many are on, sums are looked up in tables ("the method
//! of the four Russians"). A table holds the 16 subset sums of the columns of four inputs. Tables for 32
//! inputs and 32 outputs serve all chains of a block, and stay in the level 1 cache. The order of additions is the
//! same for every instruction set.

use nalgebra::DMatrix;

use crate::num::{Simd, vectorized};
use crate::random::LANES;
use crate::rbm::Scalar;
use crate::rbm::engine::layers::{LINE, Layer, Row, WIDTH};

/// A row with a weight, or a sum of weights, for each output of a panel. It fills a few of the widest registers.
pub(crate) trait PanelRow: Copy + Default {
    /// Number type of a weight, and of a sum of weights.
    type Weight: Copy;
    /// Number of panels of [`WIDTH`] outputs that a row covers.
    const PARTS: usize;

    fn plus(&self, other: &Self) -> Self;

    fn weights_mut(&mut self) -> &mut [Self::Weight];

    /// Returns the weights, or sums, of one group of [`LANES`] outputs.
    fn group(&self, group: usize) -> &[Self::Weight; LANES];
}

impl<T: Scalar> PanelRow for Row<T> {
    type Weight = T;
    const PARTS: usize = 1;

    #[inline(always)]
    fn plus(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    fn weights_mut(&mut self) -> &mut [T] {
        self.0.as_flattened_mut()
    }

    #[inline(always)]
    fn group(&self, group: usize) -> &[T; LANES] {
        &self.0[group]
    }
}

/// Number of inputs whose subset sums a table holds.
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

impl<T> WeightMatrix<'_, T> {
    /// Returns the numbers of outputs and inputs.
    pub(crate) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Upright(matrix) => (matrix.nrows(), matrix.ncols()),
            Self::Transposed(matrix) => (matrix.ncols(), matrix.nrows()),
        }
    }
}

/// A weight matrix (outputs x inputs), split by outputs into panels. A panel has a row `R` for each input.
/// [`places_of_inputs`] puts the four rows of a table side by side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Panels<R> {
    shape: (usize, usize),
    rows: Vec<R>,
    /// Index of each input's row within a panel.
    places: Vec<usize>,
}

/// The units of a layer that are on, in the form that products need.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveUnits {
    chains: usize,
    /// Whether so few units are on that the rows listed in `active` are added; otherwise tables are read at `places`.
    few: bool,
    /// For each half of a line of units, and each chain: the places of the chain's sums in the half's eight tables, a byte
    /// per table. One load reads all of them; eight would wait for the loads of the sums.
    places: Vec<u64>,
    /// Indices of the rows of the active units, chain after chain.
    active: Vec<u32>,
    /// End of each chain's part of `active`.
    ends: Vec<usize>,
}

impl<R: PanelRow> Panels<R> {
    pub(crate) fn new(weights: WeightMatrix<'_, R::Weight>) -> Self {
        let mut panels = Self::default();
        panels.set(weights);
        panels
    }

    pub(crate) fn set(&mut self, weights: WeightMatrix<'_, R::Weight>) {
        let (outputs, inputs) = weights.shape();
        let width = R::PARTS * WIDTH;
        let height = inputs.next_multiple_of(BITS);
        if self.shape != (outputs, inputs) {
            self.shape = (outputs, inputs);
            self.rows = vec![R::default(); outputs.div_ceil(width) * height];
            self.places = places_of_inputs(inputs).collect();
        }
        for (panel, rows) in self.rows.chunks_exact_mut(height).enumerate() {
            let first = panel * width;
            match weights {
                WeightMatrix::Upright(matrix) => {
                    let columns = matrix.as_slice().chunks_exact(outputs);
                    for (&place, column) in self.places.iter().zip(columns) {
                        let weights = rows[place].weights_mut().iter_mut().zip(&column[first..]);
                        weights.for_each(|(to, weight)| *to = *weight);
                    }
                }
                WeightMatrix::Transposed(matrix) => {
                    let columns = matrix.as_slice()[first * inputs..].chunks_exact(inputs);
                    set_columns(rows, &self.places, columns.take(width));
                }
            }
        }
    }

    /// Writes `W u` to `sums` for the outputs of one panel and the units `u` of each chain.
    pub(crate) fn multiply(&self, engine: Simd, panel: usize, units: &ActiveUnits, sums: &mut [R]) {
        assert_eq!(sums.len(), units.chains, "chains");
        let height = self.shape.1.next_multiple_of(BITS);
        let rows = &self.rows[panel * height..][..height];
        vectorized!(engine, FUSED, {
            if units.few {
                add_active(rows, units, sums);
            } else {
                look_up(rows, units, sums);
            }
        });
    }
}

impl ActiveUnits {
    pub(crate) fn chains(&self) -> usize {
        self.chains
    }

    pub(crate) fn read(&mut self, engine: Simd, layer: &Layer) {
        self.chains = layer.chains();
        vectorized!(engine, FUSED, {
            self.find_places(layer);
            let entries = self.places.iter().map(|&places| entries_at(places));
            let active: usize = entries.map(|bits| bits.count_ones() as usize).sum();
            let few = few_units(layer);
            self.few = active < few;
            if self.few {
                // `list` writes eight indices at a time, so up to eight lie beyond the last active unit.
                self.active.resize(few + 8, 0);
                self.list(layer.units().div_ceil(INPUTS));
            }
        });
    }

    #[inline(always)]
    fn find_places(&mut self, layer: &Layer) {
        let (units, width, chains) = (layer.units(), layer.width(), layer.chains());
        self.places.resize(2 * width * chains, 0);
        // `chunks_exact_mut` panics for a size of 0, which would occur without chains.
        for (line, halves) in self.places.chunks_exact_mut(1.max(2 * chains)).enumerate() {
            let tables = tables_of(line, units);
            // Padding may be 1, because draws write to it.
            let inside = |unit| u8::from(line * LINE + unit < units);
            let mut all = entries(&std::array::from_fn(inside), tables);
            for table in tables..2 * TABLES {
                all[table / TABLES] &= !(0xff << (8 * (table % TABLES)));
            }
            let (first, second) = halves.split_at_mut(chains);
            for (chain, both) in first.iter_mut().zip(second).enumerate() {
                let found = entries(&layer.chain(chain)[line].0, tables);
                *both.0 = found[0] & all[0] | FIRST_PLACES;
                *both.1 = found[1] & all[1] | FIRST_PLACES;
            }
        }
    }

    /// Lists the rows of each chain's active units in `active`, for the first `halves` half lines. For a pair of tables
    /// it always writes eight indices, to avoid branches. Active units come first; the next pair overwrites the rest.
    #[inline(always)]
    fn list(&mut self, halves: usize) {
        self.ends.clear();
        let (room, chains) = (&mut self.active[..], self.chains);
        let mut end = 0;
        for chain in 0..chains {
            for half in 0..halves {
                let entries = entries_at(self.places[half * chains + chain]);
                let pairs = entries | entries >> BITS;
                for pair in 0..TABLES / 2 {
                    let first = (half * INPUTS + 8 * pair) as u32;
                    let (count, places) = &PLACES[(pairs >> (16 * pair)) as usize & 0xff];
                    let room = &mut room[end..end + 8];
                    for (room, place) in room.iter_mut().zip(places) {
                        *room = first + u32::from(*place);
                    }
                    end += usize::from(*count);
                }
            }
            self.ends.push(end);
        }
    }
}

/// For each byte, the number of its bits that are 1, and their places.
const PLACES: [(u8, [u8; 8]); 256] = {
    let mut all = [(0, [0; 8]); 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                all[byte].1[all[byte].0 as usize] = bit;
                all[byte].0 += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    all
};

/// Returns the number of active units, in all chains, below which adding their columns is faster than tables. A column
/// costs twice as much as a table's row, because of the caches, and making a table as much as adding 45 rows.
fn few_units(layer: &Layer) -> usize {
    (layer.units().div_ceil(BITS) * (layer.chains() + 45)).div_ceil(2)
}

/// Copies column l of a matrix to entry l of the rows at `places`. It fills a few rows at a time, which stay in the
/// cache.
fn set_columns<'a, R: PanelRow<Weight: 'a>>(
    rows: &mut [R],
    places: &[usize],
    columns: impl Iterator<Item = &'a [R::Weight]> + Clone,
) {
    const CACHED: usize = 2 * LINE;
    for (part, places) in places.chunks(CACHED).enumerate() {
        for (l, column) in columns.clone().enumerate() {
            for (&place, &weight) in places.iter().zip(&column[part * CACHED..]) {
                rows[place].weights_mut()[l] = weight;
            }
        }
    }
}

#[inline(always)]
fn look_up<R: PanelRow>(rows: &[R], units: &ActiveUnits, sums: &mut [R]) {
    sums.fill(R::default());
    let mut tables = [R::default(); TABLES * ENTRIES];
    let places = units.places.chunks_exact(units.chains);
    for (rows, places) in rows.chunks(INPUTS).zip(places) {
        make_tables(rows, &mut tables);
        let count = rows.len() / BITS;
        for (sum, places) in sums.iter_mut().zip(places) {
            let entry = |table| &tables[(places >> (8 * table)) as usize % (TABLES * ENTRIES)];
            // All parts but the last have all tables: a constant number, for which the compiler unrolls the loop.
            *sum = if count == TABLES {
                add_rows(*sum, (0..TABLES).map(entry))
            } else {
                add_rows(*sum, (0..count).map(entry))
            };
        }
    }
}

#[inline(always)]
fn add_active<R: PanelRow>(rows: &[R], units: &ActiveUnits, sums: &mut [R]) {
    let mut start = 0;
    for (sum, &end) in sums.iter_mut().zip(&units.ends) {
        let active = units.active[start..end].iter();
        *sum = add_rows(R::default(), active.map(|&unit| &rows[unit as usize]));
        start = end;
    }
}

/// Adds `rows` to `first`. It keeps two sums in turn, whose additions need not wait for each other.
#[inline(always)]
fn add_rows<'a, R: PanelRow + 'a>(first: R, mut rows: impl Iterator<Item = &'a R>) -> R {
    let (mut even, mut odd) = (first, R::default());
    while let Some(row) = rows.next() {
        even = even.plus(row);
        let Some(row) = rows.next() else { break };
        odd = odd.plus(row);
    }
    even.plus(&odd)
}

#[inline(always)]
fn make_tables<R: PanelRow>(rows: &[R], tables: &mut [R; TABLES * ENTRIES]) {
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

/// Returns the number of tables for line number `line` of a layer of `units` units.
fn tables_of(line: usize, units: usize) -> usize {
    LINE.min(units - line * LINE).div_ceil(BITS)
}

/// Returns the index of each input's row. Table t of the T tables of a line has the inputs t, T + t, 2 T + t and
/// 3 T + t of the line. [`entries`] can therefore handle several tables at once.
fn places_of_inputs(inputs: usize) -> impl Iterator<Item = usize> {
    (0..inputs).map(move |input| {
        let (line, unit) = (input / LINE, input % LINE);
        let tables = tables_of(line, inputs);
        line * LINE + unit % tables * BITS + unit / tables
    })
}

/// Returns the index of the entry that a chain needs in each table of a line, a byte per table, given the line's
/// `units` as bytes of 0 or 1. Only the first `tables` bytes have a meaning.
#[inline(always)]
fn entries(units: &[u8; LINE], tables: usize) -> [u64; 2] {
    let of_half = |first: usize| {
        let bits = (0..BITS).map(|bit| {
            let units = units[first + bit * tables..].first_chunk();
            u64::from_le_bytes(*units.expect("at most 16 tables of four units")) << bit
        });
        bits.fold(0, |entries, bit| entries | bit)
    };
    [of_half(0), of_half(TABLES)]
}

/// Places of the empty sums (entry 0 of a table) of eight tables of 16 entries, stored one after another; a byte each.
const FIRST_PLACES: u64 = 0x7060_5040_3020_1000;

/// Returns each of `places`, which count through all tables, as an index within its own table; a byte per table.
#[inline(always)]
fn entries_at(places: u64) -> u64 {
    places & 0x0f0f_0f0f_0f0f_0f0f
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::SimdLevel;
    use nalgebra::DMatrix;
    use rand::{Rng, RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn random_states(rng: &mut impl Rng, chains: usize, units: usize, on: f64) -> Vec<Vec<bool>> {
        let mut state = |_| (0..units).map(|_| rng.random::<f64>() < on).collect();
        (0..chains).map(&mut state).collect()
    }

    fn layer(units: usize, states: &[Vec<bool>]) -> Layer {
        let mut layer = Layer::zeros(units, states.len());
        // Padding may be on, as draws leave it.
        for panel in 0..units.div_ceil(WIDTH) {
            layer.panel_mut(panel).for_each(|units| units.fill(1));
        }
        for (chain, state) in states.iter().enumerate() {
            layer.load(chain, state);
        }
        layer
    }

    /// Compares `sums`, for the outputs from `first` on, with the sums over the units of `state` that are on.
    fn check_sums<T: Scalar>(
        matrix: &DMatrix<T>,
        state: &[bool],
        first: usize,
        sums: &[T],
        tolerance: f64,
    ) {
        let padding = sums.iter().skip(matrix.nrows() - first);
        assert!(padding.into_iter().all(|sum| *sum == T::zero()), "padding");
        for (output, sum) in (first..matrix.nrows()).zip(sums) {
            let row = matrix.row(output);
            let on = row.iter().zip(state).filter(|(_, on)| **on);
            let exact: f64 = on.map(|(w, _)| w.as_()).sum();
            let size: f64 = row.iter().map(|w| w.as_().abs()).sum();
            let error = sum.as_() - exact;
            assert!(
                error.abs() <= tolerance * size,
                "output {output}: {error:e}"
            );
        }
    }

    /// Compares products with sums in double precision, for few and many active units. Most numbers of inputs do not
    /// fill whole tables.
    fn check<T: Scalar>(engine: Simd, tolerance: f64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let sizes = [
            (1, 1),
            (3, 2),
            (17, 5),
            (64, 64),
            (70, 131),
            (130, 67),
            (500, 20),
        ];
        for (case, (outputs, inputs)) in sizes.into_iter().enumerate() {
            let matrix = DMatrix::from_fn(outputs, inputs, |_, _| {
                T::nearest(rng.random::<f64>().powi(5) * if rng.random() { 9.0 } else { -9.0 })
            });
            let weights = if case % 2 == 0 {
                Panels::<Row<T>>::new(WeightMatrix::Upright(&matrix))
            } else {
                Panels::new(WeightMatrix::Transposed(&matrix.transpose()))
            };
            let mut active = ActiveUnits::default();
            for (chains, share) in [(1, 0.5), (37, 0.05), (37, 0.6), (150, 0.0), (64, 1.0)] {
                println!("{engine:?}, {outputs} x {inputs}, {chains} chains, {share} on");
                let states = random_states(&mut rng, chains, inputs, share);
                let units = layer(inputs, &states);
                active.read(engine, &units);
                for panel in 0..outputs.div_ceil(WIDTH) {
                    let mut sums = vec![Row([[T::one(); 16]; 2]); chains];
                    weights.multiply(engine, panel, &active, &mut sums);
                    for (sums, state) in sums.iter().zip(&states) {
                        let sums = sums.0.as_flattened();
                        check_sums(&matrix, state, panel * WIDTH, sums, tolerance);
                    }
                }
            }
        }
    }

    #[test]
    fn every_engine_multiplies_to_the_precision_of_its_numbers() {
        for engine in SimdLevel::ALL
            .into_iter()
            .filter_map(|e| e.available().ok())
        {
            check::<f32>(engine, 4e-7);
            check::<f64>(engine, 1e-15);
        }
    }
}
