//! Products of the units of a layer with weights, which are exact or on a grid.

use crate::num::Simd;
use crate::rbm::Scalar;
use crate::rbm::engine::grid::{Narrow, Wide};
use crate::rbm::engine::layers::{Row, WIDTH};
use crate::rbm::engine::panels::{ActiveUnits, PanelRow, Panels, WeightMatrix};

/// Weights as numbers, or as integers on a grid. Layers of few outputs use narrow rows.
#[derive(Debug, Clone)]
pub(crate) enum WeightPanels<T> {
    Exact(Panels<Row<T>>),
    Wide(Panels<Wide>),
    Narrow(Panels<Narrow>),
}

impl<T> WeightPanels<T> {
    pub(crate) fn on_grid(weights: WeightMatrix<'_, i16>) -> Self {
        match weights.shape().0 <= WIDTH {
            true => Self::Narrow(Panels::new(weights)),
            false => Self::Wide(Panels::new(weights)),
        }
    }
}

/// Products of each chain's units with one panel of weights, at both ends of a segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Products<R> {
    pub(crate) start: Vec<R>,
    pub(crate) end: Vec<R>,
}

impl<R> Products<R> {
    /// Multiplies the weights of panel `place`, at both ends of a segment, with the units of each chain.
    pub(crate) fn find<T>(
        &mut self,
        engine: Simd,
        (start, end): (Option<&WeightPanels<T>>, &WeightPanels<T>),
        place: usize,
        units: &ActiveUnits,
    ) where
        R: WeightForm<T>,
    {
        self.start.resize(units.chains(), R::default());
        self.end.resize(units.chains(), R::default());
        let ends = [(start, &mut self.start), (Some(end), &mut self.end)];
        for (weights, sums) in ends {
            if let Some(panels) = weights.and_then(R::panels) {
                panels.multiply(engine, place, units, sums);
            }
        }
    }
}

/// Buffers for products, one for each form of [`WeightPanels`].
#[derive(Debug, Clone, Default)]
pub(crate) struct ProductBuffers<T> {
    exact: Products<Row<T>>,
    wide: Products<Wide>,
    narrow: Products<Narrow>,
}

/// A row of weights in one of the forms of [`WeightPanels`]. A sum of integers is a multiple of the grid's spacing.
pub(crate) trait WeightForm<T>: PanelRow<Weight: Into<T>> {
    /// Returns the weights if they have this form.
    fn panels(weights: &WeightPanels<T>) -> Option<&Panels<Self>>;

    fn products(buffers: &mut ProductBuffers<T>) -> &mut Products<Self>;
}

macro_rules! weight_form {
    ($row:ty, $form:ident, $products:ident) => {
        impl<T: Scalar> WeightForm<T> for $row {
            fn panels(weights: &WeightPanels<T>) -> Option<&Panels<Self>> {
                match weights {
                    WeightPanels::$form(panels) => Some(panels),
                    _ => None,
                }
            }

            fn products(buffers: &mut ProductBuffers<T>) -> &mut Products<Self> {
                &mut buffers.$products
            }
        }
    };
}

weight_form! { Row<T>, Exact, exact }
weight_form! { Wide, Wide, wide }
weight_form! { Narrow, Narrow, narrow }
