//! The path from the prior of many data to their posteriors, for kernels with a gradient.

use std::slice::from_mut;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use super::blend::{TemperedAt, TemperedPath};
use crate::model::{
    Differentiable, Gradients, Latent, LatentGradient, LatentPrior, NormalizedModel, Sampleable,
    UnnormalizedModel,
};
use crate::path::Normalized;

/// A tempered posterior of many data at rows of latent vectors, given the datum of each row. Its log density is a sum of
/// log prior and log likelihood with these weights.
#[derive(Debug)]
pub struct LatentRows<'r, P, L> {
    path: &'r TemperedPath<LatentPrior<P>, L>,
    data: &'r [usize],
    weights: [f64; 2],
}

impl<'p, P, L> Gradients for TemperedAt<'p, LatentPrior<P>, L>
where
    P: Sampleable + NormalizedModel + Differentiable,
    L: LatentGradient,
{
    type Rows<'r>
        = LatentRows<'r, P, L>
    where
        Self: 'r;

    fn rows<'r>(&'r self, data: &'r [usize]) -> LatentRows<'r, P, L> {
        LatentRows {
            path: self.path,
            data,
            weights: [1.0, self.beta],
        }
    }
}

impl<P, L> UnnormalizedModel for LatentRows<'_, P, L>
where
    P: Sampleable + NormalizedModel + Differentiable,
    L: LatentGradient,
{
    type State = DVector<f64>;

    fn log_density(&self, vector: &DVector<f64>) -> f64 {
        let state = Latent::new(self.data[0], vector.clone());
        self.path.at(self.weights[1]).log_density(&state)
    }

    fn epsilon(&self) -> f64 {
        self.path.likelihood().epsilon()
    }
}

impl<P, L> Differentiable for LatentRows<'_, P, L>
where
    P: Sampleable + NormalizedModel + Differentiable,
    L: LatentGradient,
{
    fn accumulate_gradient(
        &self,
        vector: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (mut log_density, dimension) = (0.0, vector.len());
        let row = DMatrixView::from_slice(vector.as_slice(), 1, dimension);
        let gradient = DMatrixViewMut::from_slice(gradient.as_mut_slice(), 1, dimension);
        self.accumulate_gradients(row, scale, gradient, from_mut(&mut log_density));
        log_density
    }

    /// Does not evaluate the likelihood where the prior's density is 0.
    fn accumulate_gradients(
        &self,
        rows: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let [to_prior, to_likelihood] = self.weights;
        log_densities.fill(0.0);
        if to_prior > 0.0 {
            let prior = Normalized::new(&self.path.prior().model().prior);
            prior.accumulate_gradients(rows, scale, gradients.as_view_mut(), log_densities);
        }
        let at = self.path.at(to_likelihood);
        at.blend_runs(log_densities, |run, found| {
            let (first, count) = (run.start, run.len());
            self.path.likelihood().accumulate_gradients(
                &self.data[run],
                rows.rows(first, count),
                scale * to_likelihood,
                gradients.rows_mut(first, count),
                found,
            );
        });
    }

    fn end_weights(&self) -> Option<[f64; 2]> {
        Some(self.weights)
    }

    fn with_end(
        &self,
        end: usize,
        work: &mut dyn FnMut(&dyn Differentiable<State = DVector<f64>>),
    ) {
        let mut weights = [0.0; 2];
        weights[end] = 1.0;
        work(&LatentRows { weights, ..*self });
    }
}
