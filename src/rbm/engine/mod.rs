//! The inner loops of an RBM: 0/1 units of many chains, products of weights with them, and unit functions.

mod categorical;
mod elementwise;
mod grid;
mod layers;
mod panels;
mod products;

pub(super) use categorical::{Categorical, CategoricalBuffers};
pub(super) use elementwise::{
    Positions, add, dot, draw_units, exp_nonpositive, logits_to_probabilities, softplus_gain,
    total, weigh_and_draw,
};
pub(super) use grid::{Narrow, WeightGrid, Wide};
pub(super) use layers::{GROUPS, LINE, Layer, Row, Words};
pub(super) use panels::{ActiveUnits, PanelRow, Panels, WeightMatrix};
pub(super) use products::{ProductBuffers, WeightForm, WeightPanels};
