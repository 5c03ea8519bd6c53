//! The likelihood of data under an RBM.

use std::fmt;

use crate::estimate::{Warning, write_warnings};
use crate::model::{NormalizedModel, UnnormalizedModel};
use crate::num::{Moments, exceeds};
use crate::rbm::base_rate::check_data;
use crate::rbm::{BaseRate, Rbm, Scalar};
use crate::{Error, Result};

/// Mean log likelihood of data under an RBM and under its base-rate model, in nats per row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LogLikelihood {
    /// Mean over the rows of `log f(v) - log Z`.
    pub mean: f64,
    /// The log Z used for `mean`.
    pub log_z: f64,
    /// Standard error of `mean` over the rows; infinite for a single row. It leaves out the error of log Z.
    pub standard_error: f64,
    /// Mean log likelihood of the same rows under the base-rate model.
    pub base_rate: f64,
    /// Log likelihood of a row if all states are equally likely: `-D log 2` for 0/1 units (fair coins), `-D log q` for
    /// units of q categories, `-inf` for Gaussian ones.
    pub fair_coins: f64,
    /// Standard error of `mean - base_rate` over the rows; infinite for a single row.
    pub difference_error: f64,
    /// Number of rows.
    pub rows: usize,
    /// `log f(v) - log Z` of each row. [`ScoreDifference`](crate::estimate::ScoreDifference) compares two models by it.
    pub by_row: Vec<f64>,
}

impl LogLikelihood {
    /// Scores `data`, which is not empty, under `machine` with this `log_z` and under `base`.
    pub(super) fn of<M: UnnormalizedModel>(
        machine: &M,
        log_z: f64,
        base: &impl NormalizedModel<State = M::State>,
        fair_coins: f64,
        data: &[M::State],
    ) -> Self {
        let base_log_z = base.log_normalizer();
        let [mut model, mut base_rate, mut difference] = [Moments::default(); 3];
        let by_row = data.iter().map(|row| machine.log_density(row) - log_z);
        let by_row = Vec::from_iter(by_row);
        for (row, &of_model) in data.iter().zip(&by_row) {
            let of_base = base.log_density(row) - base_log_z;
            model.add(of_model);
            base_rate.add(of_base);
            difference.add(of_model - of_base);
        }
        Self {
            mean: model.mean(),
            log_z,
            standard_error: model.standard_error(),
            base_rate: base_rate.mean(),
            fair_coins,
            difference_error: difference.standard_error(),
            rows: data.len(),
            by_row,
        }
    }

    /// Returns an upper bound on `mean`, from a lower bound on log Z. It is certain with [`Rbm::lower_bound`]. With
    /// [`certified_lower_bound`](crate::estimate::LogZ::certified_lower_bound) it has the confidence of that bound.
    pub fn upper_bound(&self, log_z_bound: f64) -> f64 {
        self.mean + self.log_z - log_z_bound
    }

    /// Returns [`Warning::BelowBaseRate`] if the RBM scores below the base-rate model or fair coins by more than two
    /// standard errors of the difference.
    pub fn warning(&self) -> Option<Warning> {
        let below_base = exceeds(self.base_rate, self.mean + 2.0 * self.difference_error);
        let below_coins = exceeds(self.fair_coins, self.mean + 2.0 * self.standard_error);
        (below_base || below_coins).then_some(Warning::BelowBaseRate {
            log_likelihood: self.mean,
            base_rate: self.base_rate,
            fair_coins: self.fair_coins,
        })
    }
}

/// Writes `log likelihood of 297 rows: -22.537 nats a row, +- 0.280 over rows; under base rates -27.211` and any warning.
impl fmt::Display for LogLikelihood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mean,
            standard_error,
            base_rate,
            rows,
            ..
        } = self;
        write!(
            f,
            "log likelihood of {rows} rows: {mean:.3} nats a row, +- {standard_error:.3} over rows; under base rates \
             {base_rate:.3}"
        )?;
        write_warnings(f, self.warning().as_slice())
    }
}

impl<T: Scalar> Rbm<T> {
    /// Returns the mean log likelihood of `data`, given the RBM's `log_z`, exact or from a run.
    ///
    /// ```
    /// use annealed::prelude::*;
    ///
    /// let digits = annealed::data::digits().images;
    /// let (training, held_out) = digits.split_at(1_500);
    /// let start = Rbm::<f32>::from_data(10, training, 0)?;
    /// let rbm = ContrastiveDivergence::new(1).epochs(20).train(start, training)?.rbm;
    /// let base = BaseRate::from_data(10, training, 1.0)?;
    /// let found = rbm.log_likelihood(held_out, rbm.exact_log_normalizer()?, &base)?;
    /// assert!(found.mean > found.base_rate);
    /// println!("{found}");
    /// assert_eq!(found.warning(), None);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `data` is empty, the length of a row or of `base` is not D, or `log_z` is not finite.
    pub fn log_likelihood(
        &self,
        data: &[Vec<bool>],
        log_z: f64,
        base: &BaseRate<T>,
    ) -> Result<LogLikelihood> {
        Error::check_number("log_z", log_z)?;
        Error::check_dimension("row of data", check_data(data)?, self.visible_units())?;
        Error::check_dimension("base", base.visible_units(), self.visible_units())?;
        let fair_coins = -(self.visible_units() as f64) * std::f64::consts::LN_2;
        Ok(LogLikelihood::of(self, log_z, base, fair_coins, data))
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;

    use super::*;
    use crate::rbm::ContrastiveDivergence;

    #[test]
    fn means_are_those_of_sums_by_hand() {
        let rbm = Rbm::new(
            DMatrix::from_row_slice(1, 2, &[1.0, -2.0]),
            vec![0.5].into(),
            vec![0.25, -0.75].into(),
        )
        .unwrap();
        let base = BaseRate::new(1, vec![1.0, 0.0].into()).unwrap();
        let data = [vec![true, false], vec![false, true], vec![true, true]];
        let log_f =
            |v: [f64; 2]| 0.25 * v[0] - 0.75 * v[1] + (1.0 + (0.5 + v[0] - 2.0 * v[1]).exp()).ln();
        let states = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];
        let log_z = states.map(|v| log_f(v).exp()).iter().sum::<f64>().ln();
        let likelihoods = [states[1], states[2], states[3]].map(|v| log_f(v) - log_z);
        let mean = likelihoods.iter().sum::<f64>() / 3.0;
        let base_of = |v: [f64; 2]| v[0] - (1.0 + 1_f64.exp()).ln() - 2_f64.ln();
        let base_rate = [states[1], states[2], states[3]]
            .map(base_of)
            .iter()
            .sum::<f64>()
            / 3.0;
        let found = rbm.log_likelihood(&data, log_z, &base).unwrap();
        assert!((found.mean - mean).abs() < 1e-14, "{found:?} {mean}");
        assert!(
            (found.base_rate - base_rate).abs() < 1e-14,
            "{found:?} {base_rate}"
        );
        assert_eq!(found.rows, 3);
        for (of_row, exact) in found.by_row.iter().zip(likelihoods) {
            assert!((of_row - exact).abs() < 1e-14, "{of_row} {exact}");
        }
        // The bound is half a nat below log Z, and half a nat above the mean.
        assert!((found.upper_bound(log_z - 0.5) - mean - 0.5).abs() < 1e-13);
        assert!(
            rbm.log_likelihood(&data[..1], log_z, &base)
                .unwrap()
                .standard_error
                .is_infinite()
        );
        assert!(rbm.log_likelihood(&[], log_z, &base).is_err());
        assert!(rbm.log_likelihood(&[vec![true]], log_z, &base).is_err());
        assert!(rbm.log_likelihood(&data, f64::NAN, &base).is_err());
        let other = BaseRate::uniform(1, 3).unwrap();
        assert!(rbm.log_likelihood(&data, log_z, &other).is_err());
    }

    /// Returns rows of three patterns of 12 units. One unit of every third row is flipped.
    fn patterns() -> Vec<Vec<bool>> {
        let on = |row: usize, unit: usize| match row % 10 {
            0..5 => unit < 2,
            5..8 => (2..5).contains(&unit),
            _ => unit < 5,
        };
        let flipped = |row: usize, unit: usize| row.is_multiple_of(3) && 7 * row % 12 == unit;
        let row = |row| {
            (0..12)
                .map(|unit| on(row, unit) != flipped(row, unit))
                .collect()
        };
        (0..400).map(row).collect()
    }

    /// Trains a machine of 12 x 12 units, then exchanges its parameters or inverts the data.
    #[test]
    fn exchanged_parameters_score_below_the_base_rates() {
        let data = patterns();
        let start = Rbm::<f64>::from_data(12, &data, 0).unwrap();
        let rbm = ContrastiveDivergence::new(1)
            .epochs(60)
            .learning_rate(0.05, 0.0)
            .train(start, &data)
            .unwrap()
            .rbm;
        let base = BaseRate::from_data(12, &data, 1.0).unwrap();
        let (w, a, b) = (&rbm.weights, &rbm.hidden_bias, &rbm.visible_bias);
        let warning = |rbm: &Rbm<f64>, data: &[Vec<bool>]| {
            let log_z = rbm.exact_log_normalizer().unwrap();
            let found = rbm.log_likelihood(data, log_z, &base).unwrap();
            found.warning().map(|warning| warning.name())
        };
        let expected = Some("BelowBaseRate".to_owned());
        let transposed = Rbm::new(w.transpose(), a.clone(), b.clone()).unwrap();
        let exchanged = Rbm::new(w.clone(), b.clone(), a.clone()).unwrap();
        let inverted: Vec<Vec<bool>> = data
            .iter()
            .map(|row| row.iter().map(|on| !on).collect())
            .collect();
        assert_eq!(warning(&rbm, &data), None);
        assert_eq!(warning(&transposed, &data), expected);
        assert_eq!(warning(&exchanged, &data), expected);
        // Inverted data score below the base rates, but above fair coins.
        assert_eq!(warning(&rbm, &inverted), expected);
        // A machine equal to its base rates gets no warning.
        assert_eq!(warning(&base.to_rbm().unwrap(), &data), None);
    }
}
