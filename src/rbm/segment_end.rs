//! An RBM at a knot of a path, in the form that sweeps need.

use nalgebra::DVector;

use crate::rbm::engine::{LINE, Panels, Row, WeightGrid, WeightMatrix, WeightPanels};
use crate::rbm::{Rbm, Scalar};

/// The RBM at the end of a segment.
#[derive(Debug, Clone)]
pub(crate) struct SegmentEnd<T: Scalar> {
    pub(crate) rbm: Rbm<T>,
    /// `W`, for products with visible units.
    pub(crate) up: WeightPanels<T>,
    /// `W^T`, for products with hidden units.
    pub(crate) down: WeightPanels<T>,
    /// Factor of the weights in the panels: 1, or the spacing of the grid.
    pub(crate) unit: T,
    pub(crate) hidden_bias: Vec<Row<T>>,
    /// Visible biases minus the visible biases at the segment's start, padded with zeros to a whole line.
    pub(crate) bias_slope: Vec<T>,
}

impl<T: Scalar> SegmentEnd<T> {
    pub(crate) fn new(rbm: Rbm<T>, bias_slope: &DVector<T>) -> Self {
        let mut slope = bias_slope.as_slice().to_vec();
        slope.resize(slope.len().next_multiple_of(LINE), T::zero());
        let panels = |weights| WeightPanels::Exact(Panels::new(weights));
        Self {
            up: panels(WeightMatrix::Upright(rbm.weights())),
            down: panels(WeightMatrix::Transposed(rbm.weights())),
            unit: T::one(),
            hidden_bias: Row::panels(rbm.hidden_bias().as_slice()),
            bias_slope: slope,
            rbm,
        }
    }

    /// Returns the same machine with its weights rounded to a grid; `None` if there is no grid.
    pub(crate) fn on_finest_grid(&self) -> Option<Self> {
        let grid = WeightGrid::finest(self.rbm.weights()).filter(|_| T::HAS_GRID)?;
        Some(self.on_grid(&grid))
    }

    pub(crate) fn on_grid(&self, grid: &WeightGrid) -> Self {
        let rbm = Rbm {
            weights: grid.rounded(),
            hidden_bias: self.rbm.hidden_bias.clone(),
            visible_bias: self.rbm.visible_bias.clone(),
        };
        Self {
            up: WeightPanels::on_grid(WeightMatrix::Upright(&grid.weights)),
            down: WeightPanels::on_grid(WeightMatrix::Transposed(&grid.weights)),
            unit: T::nearest(grid.unit.into()),
            hidden_bias: self.hidden_bias.clone(),
            bias_slope: self.bias_slope.clone(),
            rbm,
        }
    }
}
