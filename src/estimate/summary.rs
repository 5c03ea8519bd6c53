//! A table of parameters, with log Z above.

use std::fmt;

use super::log_z::{self, decimals, is_skewed, write_figures, write_warnings};
use super::quantities::Function;
use super::weighted_states::Values;
use super::{LogZ, Mixing, Quantities, Warning, WeightedStates};
use crate::{Error, Result};

/// A table of parameters or other quantities under the target, made by
/// [`WeightedSample::summary`](super::WeightedSample::summary). It has log Z above and any warnings below.
///
/// ```
/// use annealed::prelude::*;
///
/// // Successes in ten trials, and their probability.
/// let priors = Priors::named([("probability", Prior::uniform(0.0, 1.0)?)])?;
/// let likelihood = FunctionModel::of_slices(|x: &[f64]| 7.0 * x[0].ln() + 3.0 * (1.0 - x[0]).ln());
/// let path = TemperedPath::new(&priors, priors.likelihood(likelihood));
/// let kernel = RandomWalkMetropolis::new(1.0)?;
/// let run = Ais::new(&path, kernel).schedule(Schedule::linear(20)?).run()?;
/// let table = run.summary(&priors)?;
/// println!("{table}");
/// # let row = &table.rows[0];
/// # assert!((row.mean - 8.0 / 12.0).abs() < 4.0 * row.standard_error);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[must_use]
pub struct Summary {
    /// The estimate of log Z.
    pub log_z: f64,
    /// Standard error of log Z.
    pub standard_error: f64,
    /// The 95% interval of log Z.
    pub interval: (f64, f64),
    /// Rows, in the order of the quantities.
    pub rows: Vec<SummaryRow>,
    /// Reasons to doubt the result.
    pub warnings: Vec<Warning>,
}

/// Figures of one quantity under the target.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SummaryRow {
    /// Name of the quantity.
    pub name: String,
    /// The mean.
    pub mean: f64,
    /// Standard deviation of the quantity under the target.
    pub standard_deviation: f64,
    /// The 5% quantile.
    pub q5: f64,
    /// The median.
    pub median: f64,
    /// The 95% quantile.
    pub q95: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
    /// Number of independent draws whose mean would have this error, `(standard deviation / error)^2`; at most the
    /// number of states.
    pub effective_draws: f64,
    /// R-hat of ranks and half chains (Vehtari et al. 2021), for draws of [Markov chains](Self::of_chains): 1 if the
    /// chains agree. It is NaN for other samples.
    pub r_hat: f64,
}

impl Summary {
    pub(super) fn of<'q, S>(
        sample: &WeightedStates<'_, S>,
        result: &dyn LogZ,
        quantities: &Quantities<'q, S>,
    ) -> Result<Self> {
        let row = |(name, f): (&str, &Function<'q, S>)| {
            Ok(SummaryRow::of(name, &Values::ascending(sample, name, f)?))
        };
        Ok(Self {
            log_z: result.log_z(),
            standard_error: result.standard_error(),
            interval: result.interval(),
            rows: quantities.checked()?.map(row).collect::<Result<_>>()?,
            warnings: result.warnings().to_vec(),
        })
    }
}

impl SummaryRow {
    fn of(name: &str, values: &Values) -> Self {
        let (mean, error) = values.mean(|value| value);
        let deviation = values.variance().sqrt();
        let states = values.count() as f64;
        Self {
            name: name.to_owned(),
            mean,
            standard_deviation: deviation,
            q5: values.quantile(0.05).0,
            median: values.quantile(0.5).0,
            q95: values.quantile(0.95).0,
            standard_error: error,
            effective_draws: match error < f64::INFINITY {
                true => (deviation / error).powi(2).min(states),
                false => 0.0,
            },
            r_hat: f64::NAN,
        }
    }

    /// Creates the row of a quantity from its draws by Markov chains, each in the order in which they were drawn. The
    /// number of effective draws is computed from ranks and half chains (the bulk ESS of Vehtari et al. 2021). It also
    /// allows for chains that take turns, and for blocks that differ.
    ///
    /// ```
    /// use annealed::estimate::SummaryRow;
    ///
    /// let chains = [[1.0, 2.0, 0.5, 1.5, 3.0, 2.5].repeat(5), [2.0, 0.0, 3.5, 1.0, 2.0, 1.5].repeat(5)];
    /// let row = SummaryRow::of_chains("mu", &chains)?;
    /// println!("{}", SummaryRow::table(&[row]));
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// No chain, a chain of fewer than four draws, a number that is not finite.
    pub fn of_chains(name: &str, chains: &[Vec<f64>]) -> Result<Self> {
        Error::check_not_empty("chains", chains.len())?;
        for chain in chains {
            Error::check_at_least("draws of a chain", chain.len(), 4)?;
        }
        let states = chains.concat();
        let units = Vec::from_iter(0..states.len());
        let sample = WeightedStates {
            states: &states,
            log_weights: vec![0.0; states.len()].into(),
            units: units.into(),
        };
        let row = Self::of(name, &Values::ascending(&sample, name, |x| *x)?);
        let mixing = Mixing::of(chains);
        Ok(Self {
            standard_error: row.standard_deviation / mixing.effective.sqrt(),
            effective_draws: mixing.effective,
            r_hat: mixing.r_hat,
            ..row
        })
    }

    /// Returns an aligned table of the rows. It has a column for R-hat if a row has one.
    pub fn table(rows: &[Self]) -> String {
        let mut table = vec![COLUMNS.map(String::from).to_vec()];
        table.extend(rows.iter().map(Self::cells));
        if rows.iter().all(|row| row.r_hat.is_nan()) {
            table
                .iter_mut()
                .for_each(|row| row.truncate(COLUMNS.len() - 1));
        }
        log_z::table(&table, true)
    }

    /// Returns the texts of the row's cells. The standard error decides the number of decimals.
    fn cells(&self) -> Vec<String> {
        let digits = decimals(self.standard_error);
        let figures = [
            self.mean,
            self.standard_deviation,
            self.q5,
            self.median,
            self.q95,
            self.standard_error,
        ];
        let figures = figures.map(|x| format!("{x:.digits$}"));
        let rest = [
            format!("{:.0}", self.effective_draws),
            format!("{:.2}", self.r_hat),
        ];
        [vec![self.name.clone()], figures.to_vec(), rest.to_vec()].concat()
    }
}

/// Headings of the columns.
const COLUMNS: [&str; 9] = [
    "", "mean", "sd", "5%", "50%", "95%", "error", "draws", "R-hat",
];

/// Writes log Z, an aligned table and any warnings. The last two columns are the standard error of the mean and the
/// effective draws.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = (self.log_z, self.standard_error, self.interval);
        write!(f, "log Z = ")?;
        write_figures(f, figures, is_skewed(self.log_z, self.interval), "")?;
        write!(f, ")")?;
        write!(f, "\n{}", SummaryRow::table(&self.rows))?;
        write_warnings(f, &self.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, mean: f64, error: f64) -> SummaryRow {
        SummaryRow {
            name: name.into(),
            mean,
            standard_deviation: 1.0,
            q5: mean - 1.6,
            median: mean,
            q95: mean + 1.6,
            standard_error: error,
            effective_draws: error.powi(-2),
            r_hat: f64::NAN,
        }
    }

    #[test]
    fn chains_without_draws_are_refused() {
        let refused = |chains: &[Vec<f64>]| {
            let row = SummaryRow::of_chains("mu", chains);
            row.unwrap_err().to_string()
        };
        assert!(refused(&[]).contains("chains"));
        assert!(refused(&[vec![1.0, 2.0, 3.0]]).contains("draws of a chain"));
        assert!(refused(&[vec![1.0, 2.0, 3.0, f64::NAN]]).contains("mu"));
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Summary {
            log_z: -23.4,
            standard_error: 0.021,
            interval: (-23.442, -23.358),
            rows: vec![row("intercept", -12.0, 0.05), row("b", 0.5, 0.1)],
            warnings: vec![],
        };
        let text = "\
log Z = -23.400 +- 0.021 (95% interval -23.442 to -23.358)
              mean     sd       5%      50%      95%  error  draws
intercept  -12.000  1.000  -13.600  -12.000  -10.400  0.050    400
b            0.500  1.000   -1.100    0.500    2.100  0.100    100";
        assert_eq!(table.to_string(), text);
        table.warnings.push(Warning::FewChains { chains: 9 });
        let text = table.to_string();
        assert!(text.contains("100\nwarning: "), "{text}");
    }
}
