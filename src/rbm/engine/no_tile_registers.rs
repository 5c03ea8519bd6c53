//! A stand-in for the tile registers of AMX, on targets and in builds that do not have them.

use crate::rbm::engine::layers::Line;
use crate::rbm::engine::tiles::{DigitSums, Tile};

/// A type without values.
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
