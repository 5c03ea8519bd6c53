//! Products of a weight matrix with layers of 0/1 units, by whatever engine is chosen.

use std::any::Any;

use nalgebra::DMatrix;

use crate::engine::{Available, Engine, vectorized};
use crate::model::rbm::elementwise::add_scaled;
use crate::model::rbm::layers::Layer;
use crate::model::rbm::scalar::Scalar;
#[cfg(target_arch = "x86_64")]
use crate::model::rbm::tables::{self, Columns, TableScratch};
#[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
use crate::model::rbm::tiles::{TiledWeights, UnitBytes};

/// A weight matrix W (outputs x inputs), and the forms that engines want it in.
#[derive(Debug, Clone)]
pub(crate) struct Weights<T: Scalar> {
    matrix: DMatrix<T>,
    transposed: DMatrix<T>,
    #[cfg(target_arch = "x86_64")]
    columns: std::sync::OnceLock<Columns>,
    #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
    tiles: std::sync::OnceLock<TiledWeights>,
}

/// Buffers of a product, one value for a block of chains.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    #[cfg(target_arch = "x86_64")]
    tables: TableScratch,
    #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
    bytes: UnitBytes,
}

impl<T: Scalar> Weights<T> {
    pub(crate) fn new(matrix: DMatrix<T>) -> Self {
        Self {
            transposed: matrix.transpose(),
            matrix,
            #[cfg(target_arch = "x86_64")]
            columns: std::sync::OnceLock::new(),
            #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
            tiles: std::sync::OnceLock::new(),
        }
    }

    /// `scale W U`, on top of what `sums` holds where `add`. The units are 0 or 1.
    pub(crate) fn propagate(
        &self,
        engine: Available,
        scale: T,
        units: &Layer<T>,
        add: bool,
        sums: &mut Layer<T>,
        scratch: &mut Scratch,
    ) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
        if engine.get() == Engine::Amx && T::FIXED_POINT {
            let tiles = self.tiles.get_or_init(|| TiledWeights::new(&self.matrix));
            scratch.bytes.load(engine, units);
            return tiles.multiply(engine, scale, &scratch.bytes, add, sums);
        }
        #[cfg(target_arch = "x86_64")]
        if engine.get() >= Engine::Avx512
            && let Some(weights) = (self as &dyn Any).downcast_ref::<Weights<f32>>()
            && let Some(units) = (units as &dyn Any).downcast_ref()
            && let Some(sums) = (sums as &mut dyn Any).downcast_mut()
        {
            let scale = scale.to_f64() as f32;
            return weights.add_without_multiplying(engine, scale, units, add, sums, scratch);
        }
        if engine.get() > Engine::Portable
            && self.matrix.nrows() >= 64
            && active_share(engine, units) < SPARSE
        {
            return self.add_active(engine, scale, units, add, sums);
        }
        let keep = if add { T::one() } else { T::zero() };
        let (units, mut sums) = (units.matrix(), sums.matrix_mut());
        sums.gemm(scale, &self.matrix, &units, keep);
    }
}

#[cfg(target_arch = "x86_64")]
impl Weights<f32> {
    #[allow(unsafe_code)]
    fn add_without_multiplying(
        &self,
        engine: Available,
        scale: f32,
        units: &Layer<f32>,
        add: bool,
        sums: &mut Layer<f32>,
        scratch: &mut Scratch,
    ) {
        let scratch = &mut scratch.tables;
        // SAFETY: an engine in use is available, and this one has AVX-512.
        unsafe {
            if active_share(engine, units) < SPARSE {
                let columns = self.columns.get_or_init(|| Columns::new(&self.matrix));
                columns.add_active(scale, units, add, sums, scratch);
            } else {
                tables::look_up(&self.transposed, scale, units, add, sums, scratch);
            }
        }
    }
}

impl<T: Scalar> Weights<T> {
    /// The sum of the columns of active units.
    fn add_active(
        &self,
        engine: Available,
        scale: T,
        units: &Layer<T>,
        add: bool,
        sums: &mut Layer<T>,
    ) {
        let outputs = self.matrix.nrows();
        let columns = self.matrix.as_slice();
        vectorized!(engine, FUSED, {
            for chain in 0..units.chains() {
                let sums = &mut sums.chain_mut(chain)[..outputs];
                if !add {
                    sums.fill(T::zero());
                }
                for (input, &unit) in units.chain(chain)[..units.units()].iter().enumerate() {
                    if unit != T::zero() {
                        add_scaled(sums, scale, &columns[input * outputs..][..outputs]);
                    }
                }
            }
        });
    }
}

/// Where fewer units than this are active, adding their columns beats a product with all.
const SPARSE: f64 = 0.25;

fn active_share<T: Scalar>(engine: Available, units: &Layer<T>) -> f64 {
    vectorized!(engine, FUSED, {
        let mut active = 0.0;
        for chain in 0..units.chains() {
            let mut sums = [T::zero(); 16];
            for chunk in units.chain(chain).as_chunks::<16>().0 {
                for l in 0..16 {
                    sums[l] += chunk[l];
                }
            }
            active += sums.iter().map(|x| x.to_f64()).sum::<f64>();
        }
        active / (units.units() * units.chains()) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// All ways through a product against double precision: sizes that fill no register, no tile
    /// and no table, few active units and many, chains that fill no group.
    fn check<T: Scalar>(engine: Available, tolerance: f64) {
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
            let weights = Weights::new(matrix.clone());
            let mut scratch = Scratch::default();
            for (chains, share) in [(1, 0.5), (37, 0.05), (37, 0.6), (150, 0.0), (64, 1.0)] {
                let mut units = Layer::zeros(inputs, chains);
                for chain in 0..chains {
                    let state: Vec<bool> =
                        (0..inputs).map(|_| rng.random::<f64>() < share).collect();
                    units.set_chain(chain, &state);
                }
                for add in [false, true] {
                    let mut sums = Layer::zeros(outputs, chains);
                    sums.fill_chains(&vec![T::nearest(2.5); outputs]);
                    weights.propagate(
                        engine,
                        T::nearest(0.7),
                        &units,
                        add,
                        &mut sums,
                        &mut scratch,
                    );
                    for chain in 0..chains {
                        for output in 0..outputs {
                            let terms = (0..inputs).map(|i| {
                                matrix[(output, i)].to_f64() * units.chain(chain)[i].to_f64()
                            });
                            let size: f64 =
                                matrix.row(output).iter().map(|w| w.to_f64().abs()).sum();
                            let exact = 0.7 * terms.sum::<f64>() + if add { 2.5 } else { 0.0 };
                            let error = sums.chain(chain)[output].to_f64() - exact;
                            assert!(
                                error.abs() <= tolerance * (size + 2.5),
                                "{engine:?}, case {case}, {chains} chains, {share}, {add}: {error:e}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_engine_multiplies_to_the_precision_of_its_numbers() {
        for engine in Engine::ALL.into_iter().filter_map(|e| e.available().ok()) {
            check::<f32>(engine, 4e-7);
            check::<f64>(engine, 1e-15);
        }
    }
}
