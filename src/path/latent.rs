//! The path from the prior of many data to their posteriors, for kernels with a gradient.

use std::slice::from_mut;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use super::blend::TemperedAt;
use crate::Result;
use crate::model::{
    Coordinates, Differentiable, Gradients, Latent, LatentGradient, LatentPrior, OfDatum,
    check_gradient,
};

impl<P: Differentiable, L: LatentGradient> Gradients for TemperedAt<'_, LatentPrior<P>, L> {
    fn add_gradient(
        &self,
        end: Option<usize>,
        datum: usize,
        position: &DVector<f64>,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut log_density = 0.0;
        let dimension = position.len();
        self.add_gradients(
            end,
            &[datum],
            DMatrixView::from_slice(position.as_slice(), 1, dimension),
            DMatrixViewMut::from_slice(gradient.as_mut_slice(), 1, dimension),
            from_mut(&mut log_density),
        );
        log_density
    }

    fn add_gradients(
        &self,
        end: Option<usize>,
        data: &[usize],
        positions: DMatrixView<'_, f64>,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        if end != Some(1) {
            let (base, log_normalizer) = self.path.prior().parts();
            let gradients = gradients.as_view_mut();
            base.prior
                .accumulate_gradients(positions, 1.0, gradients, log_densities);
            log_densities.iter_mut().for_each(|x| *x -= log_normalizer);
        }
        let likelihood = self.path.likelihood();
        if end == Some(1) {
            return likelihood.accumulate_gradients(data, positions, 1.0, gradients, log_densities);
        }
        if end.is_none() {
            self.blend_runs(log_densities, |run, others| {
                let (first, count) = (run.start, run.len());
                let (latents, gradients) = (
                    positions.rows(first, count),
                    gradients.rows_mut(first, count),
                );
                let data = &data[run];
                likelihood.accumulate_gradients(data, latents, self.beta, gradients, others);
            });
        }
    }

    fn weights_of_ends(&self) -> Option<[f64; 2]> {
        Some([1.0, self.beta])
    }

    /// Checks the gradients of the first datum and of the last one.
    fn check_gradients(&self, states: &[Latent]) -> Result<()> {
        for end in [states.first(), states.last()].into_iter().flatten() {
            let datum = end.datum();
            let of_datum = states.iter().filter(|state| state.datum() == datum);
            let vectors: Vec<DVector<f64>> = of_datum.map(|s| s.coordinates().clone()).collect();
            check_gradient(&OfDatum { model: self, datum }, &vectors)?;
        }
        Ok(())
    }
}
