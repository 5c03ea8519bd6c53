//! Products of a weight matrix with a layer of 0/1 units, by the chosen engine.

use crate::num::{Simd, SimdLevel};
use crate::rbm::Scalar;
use crate::rbm::engine::layers::{Layer, Row};
use crate::rbm::engine::panels::{ActiveUnits, Panels, WeightMatrix};
use crate::rbm::engine::tile_registers::TileRegisters;
use crate::rbm::engine::tiles::TiledWeights;

/// A weight matrix W (outputs x inputs) in the form that its engine needs.
#[derive(Debug, Clone)]
pub(crate) struct Weights<T> {
    engine: Simd,
    form: Form<T>,
}

#[derive(Debug, Clone)]
enum Form<T> {
    Panels(Panels<T>),
    Tiles(TiledWeights),
}

fn by_tiles<T: Scalar>(engine: Simd) -> bool {
    engine.get() == SimdLevel::Amx && T::FIXED_POINT
}

/// The units of a layer, prepared for products by an engine.
#[derive(Debug)]
pub(crate) struct Inputs<'a, T> {
    engine: Simd,
    units: &'a Layer,
    buffers: &'a mut ProductBuffers<T>,
    registers: Option<TileRegisters>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ProductBuffers<T> {
    active: ActiveUnits,
    tables: Vec<Row<T>>,
}

impl<'a, T: Scalar> Inputs<'a, T> {
    pub(crate) fn new(engine: Simd, units: &'a Layer, buffers: &'a mut ProductBuffers<T>) -> Self {
        let registers = if by_tiles::<T>(engine) {
            TileRegisters::configure()
        } else {
            buffers.active.read(engine, units);
            None
        };
        Self {
            engine,
            units,
            buffers,
            registers,
        }
    }

    pub(crate) fn chains(&self) -> usize {
        self.units.chains()
    }
}

impl<T: Scalar> Weights<T> {
    pub(crate) fn new(engine: Simd, matrix: WeightMatrix<'_, T>) -> Self {
        let mut weights = Self::empty(engine);
        weights.set(matrix);
        weights
    }

    pub(crate) fn empty(engine: Simd) -> Self {
        let form = if by_tiles::<T>(engine) {
            Form::Tiles(TiledWeights::default())
        } else {
            Form::Panels(Panels::default())
        };
        Self { engine, form }
    }

    pub(crate) fn set(&mut self, matrix: WeightMatrix<'_, T>) {
        match &mut self.form {
            Form::Panels(panels) => panels.set(matrix),
            Form::Tiles(tiles) => *tiles = TiledWeights::new(matrix),
        }
    }

    /// Writes `W u` to `sums`, for the outputs of one panel and the units `u` of each chain.
    pub(crate) fn multiply(&self, panel: usize, inputs: &mut Inputs<'_, T>, sums: &mut [Row<T>]) {
        assert_eq!(self.engine, inputs.engine, "engine");
        assert_eq!(sums.len(), inputs.chains(), "chains");
        match (&self.form, &inputs.registers) {
            (Form::Panels(panels), _) => {
                let ProductBuffers { active, tables } = &mut *inputs.buffers;
                panels.multiply(self.engine, panel, active, tables, sums);
            }
            (Form::Tiles(tiles), Some(registers)) => {
                tiles.multiply(self.engine, registers, panel, inputs.units, sums);
            }
            (Form::Tiles(_), None) => unreachable!("an engine of tiles has their registers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbm::engine::layers::WIDTH;
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

    /// Compares products with double precision. Sizes fill no register, tile or table; few or many units are on.
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
                Weights::new(engine, WeightMatrix::Upright(&matrix))
            } else {
                Weights::new(engine, WeightMatrix::Transposed(&matrix.transpose()))
            };
            let mut buffers = ProductBuffers::default();
            for (chains, share) in [(1, 0.5), (37, 0.05), (37, 0.6), (150, 0.0), (64, 1.0)] {
                println!("{engine:?}, {outputs} x {inputs}, {chains} chains, {share} on");
                let states = random_states(&mut rng, chains, inputs, share);
                let units = layer(inputs, &states);
                let mut products = Inputs::new(engine, &units, &mut buffers);
                for panel in 0..outputs.div_ceil(WIDTH) {
                    let mut sums = vec![Row([[T::one(); 16]; 2]); chains];
                    weights.multiply(panel, &mut products, &mut sums);
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
