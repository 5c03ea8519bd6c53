//! Products of a weight matrix with layers of 0/1 units, by whatever engine is chosen.

use nalgebra::DMatrix;

use crate::engine::Engine;
use crate::model::rbm::layers::Layer;
use crate::model::rbm::scalar::Scalar;
#[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
use crate::model::rbm::tiles::{TiledWeights, UnitBytes};

/// A weight matrix (outputs x inputs), and the form that the engine wants it in, made on first use.
#[derive(Debug, Clone)]
pub(crate) struct Weights<T: Scalar> {
    matrix: DMatrix<T>,
    #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
    tiles: std::sync::OnceLock<TiledWeights>,
}

/// Buffers of a product, one value for a block of chains.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
    bytes: UnitBytes,
}

impl<T: Scalar> Weights<T> {
    pub(crate) fn new(matrix: DMatrix<T>) -> Self {
        Self {
            matrix,
            #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
            tiles: std::sync::OnceLock::new(),
        }
    }

    /// `scale W U`, on top of what `sums` holds where `add`. The units are 0 or 1.
    pub(crate) fn propagate(
        &self,
        engine: Engine,
        scale: T,
        units: &Layer<T>,
        add: bool,
        sums: &mut Layer<T>,
        scratch: &mut Scratch,
    ) {
        match engine {
            #[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
            Engine::Amx if T::FIXED_POINT => {
                let tiles = self.tiles.get_or_init(|| TiledWeights::new(&self.matrix));
                scratch.bytes.load(units);
                tiles.multiply(scale, &scratch.bytes, add, sums);
            }
            _ => {
                let _ = scratch;
                let keep = if add { T::one() } else { T::zero() };
                let (units, mut sums) = (units.matrix(), sums.matrix_mut());
                sums.gemm(scale, &self.matrix, &units, keep);
            }
        }
    }
}
