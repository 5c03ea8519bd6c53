//! Stands for the matrix tiles of AMX on targets and in builds that do not have them.

use crate::rbm::engine::layers::Line;
use crate::rbm::engine::tiles::{DigitSums, Tile};

/// Has no value.
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
