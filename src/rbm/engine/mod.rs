//! The inner loops of an RBM: 0/1 units of many chains, products of weights with them, and unit functions.

mod categorical;
mod elementwise;
mod layers;
mod panels;
mod product;
mod tile;
#[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
mod tile_registers;
mod tiles;

pub(super) use categorical::{Categorical, CategoricalBuffers};
pub(super) use elementwise::{
    Positions, add_scaled, dot, draw_units, exp_nonpositive, logits_to_probabilities,
    softplus_gain, total, weigh_and_draw,
};
pub(super) use layers::{LINE, Layer, Row, Words};
pub(super) use panels::WeightMatrix;
pub(super) use product::{Inputs, ProductBuffers, Weights};

/// A stand-in for the tile registers of AMX, in builds without them.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", feature = "amx")))]
mod tile_registers {
    use crate::rbm::engine::layers::Line;
    use crate::rbm::engine::tile::{DigitSums, Tile};

    #[derive(Debug)]
    pub(crate) enum TileRegisters {}

    impl TileRegisters {
        pub(crate) fn configure() -> Option<Self> {
            None
        }

        pub(crate) fn multiply(&self, _: &[Line], _: &[Tile], _: &mut [DigitSums; 2]) {
            match *self {}
        }
    }
}
