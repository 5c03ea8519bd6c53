//! The likelihood of data under a harmonium.

use crate::harmonium::model::Harmonium;
use crate::harmonium::visible::VisibleUnits;
use crate::model::UnnormalizedModel;
use crate::rbm::LogLikelihood;
use crate::{Error, Result};

impl<V: VisibleUnits> Harmonium<V> {
    /// The mean log likelihood of data, given `log Z` of the machine, from a run or exact, beside that under independent
    /// units, the `base`.
    ///
    /// ```
    /// use annealed::harmonium::{CategoricalUnits, Harmonium};
    /// use annealed::rbm::ContrastiveDivergence;
    ///
    /// // Two units of three categories, which are always in the same one.
    /// let data: Vec<Vec<usize>> = (0..300).map(|row| vec![row % 3; 2]).collect();
    /// let base = CategoricalUnits::from_data(3, &data, 1.0)?;
    /// let start = Harmonium::start(4, base.clone(), 1)?;
    /// let machine = ContrastiveDivergence::new(1).train_harmonium(start, &data)?.harmonium;
    /// let found = machine.log_likelihood(&data, machine.exact_log_normalizer()?, &base)?;
    /// assert!(found.mean > found.base_rate + 0.5);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where there are no data, a row is no state of the visible units, the base has another number of units, or `log_z` is not
    /// finite.
    pub fn log_likelihood(&self, data: &[V::State], log_z: f64, base: &V) -> Result<LogLikelihood> {
        Error::check_number("log_z", log_z)?;
        Error::check_dimension("base", base.units(), self.visible().units())?;
        self.check_data(data)?;
        let base_log_z = base.log_normalizer();
        let scores = data.iter().map(|row| {
            let of_base = base.log_density(row) - base_log_z;
            (self.log_density(row), of_base)
        });
        let fair_coins = -self.visible().log_states();
        Ok(LogLikelihood::of_scores(log_z, scores, fair_coins))
    }

    /// Refuses a lack of data, and rows that are no state of the visible units.
    pub(crate) fn check_data(&self, data: &[V::State]) -> Result<()> {
        Error::check_not_empty("data", data.len())?;
        data.iter()
            .try_for_each(|row| self.visible().check_state("row of data", row))
    }
}
