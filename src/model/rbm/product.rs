//! Products of a weight matrix with layers of 0/1 units, by whatever engine is chosen.

use std::sync::OnceLock;

use nalgebra::DMatrix;

use crate::engine::{Available, Engine};
use crate::model::rbm::layers::Layer;
use crate::model::rbm::panels::{PanelScratch, Panels};
use crate::model::rbm::scalar::Scalar;
#[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
use crate::model::rbm::tiles::{TiledWeights, UnitBytes};

/// A weight matrix W (outputs x inputs), and the forms that engines want it in.
#[derive(Debug, Clone)]
pub(crate) struct Weights<T: Scalar> {
    matrix: DMatrix<T>,
    panels: OnceLock<Panels<T>>,
    #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
    tiles: OnceLock<TiledWeights>,
}

/// Buffers of a product, one value for a block of chains.
#[derive(Debug, Clone)]
pub(crate) struct Scratch<T> {
    panels: PanelScratch<T>,
    #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
    bytes: UnitBytes,
}

impl<T> Default for Scratch<T> {
    fn default() -> Self {
        Self {
            panels: PanelScratch::default(),
            #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
            bytes: UnitBytes::default(),
        }
    }
}

impl<T: Scalar> Weights<T> {
    pub(crate) fn new(matrix: DMatrix<T>) -> Self {
        Self {
            matrix,
            panels: OnceLock::new(),
            #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
            tiles: OnceLock::new(),
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
        scratch: &mut Scratch<T>,
    ) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
        if engine.get() == Engine::Amx && T::FIXED_POINT {
            let tiles = self.tiles.get_or_init(|| TiledWeights::new(&self.matrix));
            scratch.bytes.load(engine, units);
            return tiles.multiply(engine, scale, &scratch.bytes, add, sums);
        }
        if engine.get() > Engine::Portable {
            let panels = self.panels.get_or_init(|| Panels::new(&self.matrix));
            return panels.multiply(engine, scale, units, add, sums, &mut scratch.panels);
        }
        let keep = if add { T::one() } else { T::zero() };
        let (units, mut sums) = (units.matrix(), sums.matrix_mut());
        sums.gemm(scale, &self.matrix, &units, keep);
    }
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
