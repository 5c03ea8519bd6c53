//! A lower bound, which is certain to hold, on log Z of a harmonium.

use nalgebra::{DMatrix, DVector, DVectorView};

use crate::rbm::LogZBound;
use crate::rbm::harmonium::VisibleUnits;
use crate::rbm::harmonium::model::Harmonium;
use crate::rbm::lower_bound::Effort;
use crate::rbm::mean_field::{BLOCK, Layer, MeanField, coin_blocks};
use crate::{Error, Result};

impl<V: VisibleUnits> Harmonium<V> {
    /// Computes a lower bound on log Z, which is certain to hold. The search begins at the visible `states`, which may
    /// be empty, and at `starts` random hidden states.
    ///
    /// For means mu of the hidden units, `a.mu + H(mu) + A(W^T mu) <= log Z`. H is their entropy, and A the convex log
    /// normalizer of the visible units in a field. The sum of `f(h) = exp(a.h + A(W^T h))` over *distinct* hidden
    /// states is also at most Z. [`Rbm::lower_bound`](crate::rbm::Rbm::lower_bound) describes the search.
    ///
    /// # Errors
    /// If there are neither states nor starts, a state is invalid, or log Z overflows.
    ///
    /// ```
    /// use annealed::harmonium::{GaussianUnits, Harmonium};
    /// use annealed::nalgebra::{dmatrix, dvector};
    ///
    /// let units = GaussianUnits::new(dvector![0.0, 1.0], dvector![1.0, 0.5])?;
    /// let machine = Harmonium::new(dmatrix![1.0, -2.0; 0.5, 3.0], dvector![0.5, -1.0], units)?;
    /// let bound = machine.lower_bound(&[dvector![1.0, 2.0]], 10, 0)?;
    /// // The search finds all four hidden configurations; the mean field of the best mode is lower.
    /// assert!((bound.value - machine.exact_log_normalizer()?).abs() < 1e-12);
    /// assert!(bound.modes[0].bound < bound.value);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn lower_bound(&self, states: &[V::State], starts: usize, seed: u64) -> Result<LogZBound> {
        let states: Vec<&V::State> = states.iter().collect();
        self.bound_from(&states, starts, seed, Effort::full(starts))
    }

    pub(crate) fn bound_from(
        &self,
        states: &[&V::State],
        starts: usize,
        seed: u64,
        effort: Effort,
    ) -> Result<LogZBound> {
        for state in states {
            self.visible.check_state("state", state)?;
        }
        Error::check_count("states and starts", states.len().saturating_add(starts), 1)?;
        let equations = MeanField::of(
            self,
            self.weights.clone(),
            self.hidden_bias.clone(),
            DVector::zeros(self.visible.statistic_count()),
        );
        let given = states.chunks(BLOCK).map(|block| self.statistics(block));
        let random = coin_blocks(self.hidden_units(), starts, seed);
        let random = random.map(|hidden| equations.visible_means(&hidden));
        Ok(equations
            .explore(&Vec::from_iter(given.chain(random)), seed, effort)?
            .0)
    }

    fn statistics(&self, states: &[&V::State]) -> DMatrix<f64> {
        let mut columns = DMatrix::zeros(self.visible.statistic_count(), states.len());
        for (mut column, state) in columns.column_iter_mut().zip(states) {
            for (index, value) in self.visible.statistics(state) {
                column[index] = value;
            }
        }
        columns
    }
}

impl<V: VisibleUnits> Layer for &Harmonium<V> {
    fn means(&self, fields: DVectorView<'_, f64>) -> DVector<f64> {
        self.visible.tilted(&fields.into_owned()).mean_statistics()
    }

    fn log_normalizer(&self, fields: &[f64], step: f64, direction: &[f64]) -> f64 {
        let fields = fields
            .iter()
            .zip(direction)
            .map(|(x, slope)| x + step * slope);
        let fields = DVector::from_iterator(self.visible.statistic_count(), fields);
        self.visible.tilted(&fields).log_normalizer()
    }

    /// Returns the largest change of a hidden logit. Unlike changes of statistics, it has no unit of measurement.
    fn size(&self, step: DVector<f64>) -> f64 {
        (&self.weights * step).amax()
    }
}
