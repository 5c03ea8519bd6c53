//! Schedules: the inverse temperatures of the stages along a path.
//!
//! [`Schedule::linear`] and [`Schedule::power`] are fair starts; the module [`pilot`](crate::pilot) chooses
//! better ones.

mod deceleration;
mod file;

use crate::{Error, Result};

/// A validated schedule `0 = beta_0 < beta_1 < ... < beta_K = 1` of K stages.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[must_use]
pub struct Schedule {
    betas: Vec<f64>,
}

impl Schedule {
    /// `beta_k = k / K`.
    ///
    /// # Errors
    /// Where `steps` is 0.
    pub fn linear(steps: usize) -> Result<Self> {
        Self::power(steps, 1.0)
    }

    /// `beta_k = (k / K)^exponent`; an exponent above 1 spends more stages near the base.
    ///
    /// # Errors
    /// Where `steps` is 0, the exponent is not finite and positive, or two neighbouring betas
    /// coincide in f64.
    pub fn power(steps: usize, exponent: f64) -> Result<Self> {
        Error::check_positive("exponent", exponent)?;
        Error::check_count("steps", steps, 1)?;
        Self::new((0..=steps).map(|k| (k as f64 / steps as f64).powf(exponent)))
    }

    /// Pieces `(steps, end)`: `steps` equal stages from the previous piece's end (0 at first) to
    /// `end`; the last piece ends at 1.
    ///
    /// # Errors
    /// Where a piece has no steps, or the ends do not increase to 1.
    pub fn piecewise_linear(pieces: &[(usize, f64)]) -> Result<Self> {
        let steps = pieces
            .iter()
            .fold(0_usize, |sum, piece| sum.saturating_add(piece.0));
        Error::check_count("steps", steps, 1)?;
        let mut betas = vec![0.0];
        let mut start = 0.0;
        for &(steps, end) in pieces {
            Error::check_at_least("steps of a piece", steps, 1)?;
            let at = |k: usize| start + (end - start) * (k as f64 / steps as f64);
            betas.extend((1..steps).map(at));
            betas.push(end);
            start = end;
        }
        Self::new(betas)
    }

    /// The schedule of Salakhutdinov and Murray (2008): 500, 4,000 and 10,000 equal stages on
    /// `[0, 0.5]`, `[0.5, 0.9]` and `[0.9, 1]`, in these proportions for `steps` stages.
    ///
    /// # Errors
    /// Where `steps` is below 29, the fewest that keep the proportions with a whole number each.
    pub fn salakhutdinov_murray(steps: usize) -> Result<Self> {
        Error::check_count("steps", steps, 29)?;
        let first = (steps as f64 * 500.0 / 14_500.0).round() as usize;
        let second = (steps as f64 * 4_000.0 / 14_500.0).round() as usize;
        Self::piecewise_linear(&[(first, 0.5), (second, 0.9), (steps - first - second, 1.0)])
    }

    /// Takes the betas as they are.
    ///
    /// # Errors
    /// Where they do not start at 0, increase strictly and end at 1.
    pub fn new(betas: impl IntoIterator<Item = f64>) -> Result<Self> {
        let betas: Vec<f64> = betas.into_iter().collect();
        let found = format!("{} values", betas.len());
        let expected = "at least the two values 0 and 1";
        Error::check(betas.len() >= 2, "schedule", found, expected)?;
        let (first, last) = (betas[0], betas[betas.len() - 1]);
        let ends = format!("{first} to {last}");
        let from_base_to_target = first == 0.0 && last == 1.0;
        Error::check(from_base_to_target, "schedule", ends, "values from 0 to 1")?;
        // A NaN does not increase either.
        let increases = |k: &usize| betas[k - 1] < betas[*k];
        let Some(k) = (1..betas.len()).find(|k| !increases(k)) else {
            return Ok(Self { betas });
        };
        let (last, before, here) = (k - 1, betas[k - 1], betas[k]);
        let found = format!("beta_{last} = {before} then beta_{k} = {here}");
        let expected = "strictly increasing values";
        Err(Error::invalid("schedule", found, expected))
    }

    /// The K + 1 values `beta_0 = 0` to `beta_K = 1`.
    pub fn betas(&self) -> &[f64] {
        &self.betas
    }

    /// Index k of the stage that beta lies in, `beta_k <= beta < beta_{k+1}`; the last for 1, and
    /// the nearest for a beta outside `[0, 1]`.
    pub fn interval(&self, beta: f64) -> usize {
        let after = self.betas.partition_point(|&b| b <= beta);
        after.saturating_sub(1).min(self.steps() - 1)
    }

    /// Number of stages K.
    pub fn steps(&self) -> usize {
        self.betas.len() - 1
    }

    /// Refuses a schedule found elsewhere that is not this one.
    pub(crate) fn check_found(&self, found: &Self) -> Result<()> {
        Error::check_found("a number of stages of", &found.steps(), &self.steps())?;
        let mut betas = found.betas.iter().zip(&self.betas).enumerate();
        let Some((k, (found, expected))) = betas.find(|(_, (found, mine))| found != mine) else {
            return Ok(());
        };
        Err(Error::OtherRun {
            setting: "a schedule with",
            found: format!("beta_{k} = {found}"),
            expected: expected.to_string(),
        })
    }
}

crate::num::deserialize_checked! { Schedule as (betas: Vec<f64>) => Self::new(betas) }
