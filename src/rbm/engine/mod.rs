//! The inner loops of an RBM: a layer of 0/1 units for many chains, products of weights with it,
//! and what is done to each unit, for every instruction set.

mod categorical;
mod elementwise;
mod layers;
mod panels;
mod product;
mod row;
#[cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux", feature = "amx")),
    path = "no_tile_registers.rs"
)]
mod tile_registers;
mod tiles;
mod words;

pub(super) use categorical::{Categorical, CategoricalBuffers};
pub(super) use elementwise::{
    Positions, add_scaled, dot, draw_units, exp_nonpositive, logits_to_probabilities,
    softplus_gain, total, weigh_and_draw,
};
pub(super) use layers::{LINE, Layer};
pub(super) use panels::WeightMatrix;
pub(super) use product::{Inputs, ProductBuffers, Weights};
pub(super) use row::Row;
pub(super) use words::Words;
