//! Schedules: the inverse temperatures of the stages along a path.
//!
//! ```
//! use annealed::prelude::*;
//!
//! let even = Schedule::linear(100)?;
//! let slow_at_first = Schedule::power(100, 3.0)?;
//! let own = Schedule::new(vec![0.0, 0.01, 0.1, 1.0])?;
//! assert_eq!(own.stages(), 3);
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`Schedule::linear`] and [`Schedule::power`] are fair starts; module [`pilot`](crate::pilot) chooses better ones.

use std::fs;
use std::path::Path;

use crate::num::cumulative;
use crate::{Error, Result};

/// A validated schedule `0 = beta_0 < beta_1 < ... < beta_K = 1` of K stages.
///
/// ```
/// use annealed::schedule::Schedule;
///
/// let schedule = Schedule::new([0.0, 0.6, 0.8, 1.0])?;
/// assert_eq!(schedule.stages(), 3);
/// let slower = schedule.with_step_limit(0.4)?;
/// assert!((slower.betas()[2] - 0.7).abs() < 1e-12);
/// assert!(Schedule::new([0.0, 0.5, 0.5, 1.0]).is_err()); // betas increase
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[must_use]
pub struct Schedule {
    betas: Vec<f64>,
}

impl Schedule {
    /// Creates the schedule `beta_k = k / K`.
    ///
    /// # Errors
    /// `stages` of 0.
    pub fn linear(stages: usize) -> Result<Self> {
        Self::power(stages, 1.0)
    }

    /// Creates the schedule `beta_k = (k / K)^exponent`; an exponent above 1 spends more stages near the base.
    ///
    /// # Errors
    /// `stages` of 0; an exponent that is not finite and positive; neighbouring betas that coincide in f64.
    pub fn power(stages: usize, exponent: f64) -> Result<Self> {
        Error::check_positive("exponent", exponent)?;
        Error::check_count("stages", stages, 1)?;
        Self::new((0..=stages).map(|k| (k as f64 / stages as f64).powf(exponent)))
    }

    /// Creates the schedule of pieces `(stages, end)`: `stages` equal stages from the end of the previous piece (0 at
    /// first) to `end`. The last piece ends at 1.
    ///
    /// # Errors
    /// A piece without stages; ends that do not increase to 1.
    pub fn piecewise_linear(pieces: &[(usize, f64)]) -> Result<Self> {
        let stages = pieces
            .iter()
            .fold(0_usize, |sum, piece| sum.saturating_add(piece.0));
        Error::check_count("stages", stages, 1)?;
        let mut betas = vec![0.0];
        let mut start = 0.0;
        for &(stages, end) in pieces {
            Error::check_at_least("stages of a piece", stages, 1)?;
            let at = |k: usize| start + (end - start) * (k as f64 / stages as f64);
            betas.extend((1..stages).map(at));
            // The end as given, because `at(stages)` may miss it by rounding.
            betas.push(end);
            start = end;
        }
        Self::new(betas)
    }

    /// Creates the schedule of Salakhutdinov and Murray (2008) with `stages` stages: 500, 4,000 and 10,000 equal stages
    /// on `[0, 0.5]`, `[0.5, 0.9]` and `[0.9, 1]`, in these proportions.
    ///
    /// # Errors
    /// `stages` below 29, the fewest that allow these proportions in whole numbers.
    #[doc(alias = "SM08")]
    pub fn salakhutdinov_murray(stages: usize) -> Result<Self> {
        Error::check_count("stages", stages, 29)?;
        let first = (stages as f64 * 500.0 / 14_500.0).round() as usize;
        let second = (stages as f64 * 4_000.0 / 14_500.0).round() as usize;
        Self::piecewise_linear(&[(first, 0.5), (second, 0.9), (stages - first - second, 1.0)])
    }

    /// Creates the schedule of these betas.
    ///
    /// # Errors
    /// Betas that do not start at 0, increase strictly and end at 1.
    pub fn new(betas: impl IntoIterator<Item = f64>) -> Result<Self> {
        let betas: Vec<f64> = betas.into_iter().collect();
        let found = format!("{} values", betas.len());
        let expected = "at least the two values 0 and 1";
        Error::check(betas.len() >= 2, "schedule", found, expected)?;
        let (first, last) = (betas[0], betas[betas.len() - 1]);
        let ends = format!("{first} to {last}");
        let from_base_to_target = first == 0.0 && last == 1.0;
        Error::check(from_base_to_target, "schedule", ends, "values from 0 to 1")?;
        // This is also false for a NaN.
        let increases = |k: &usize| betas[k - 1] < betas[*k];
        let Some(k) = (1..betas.len()).find(|k| !increases(k)) else {
            return Ok(Self { betas });
        };
        let (last, before, here) = (k - 1, betas[k - 1], betas[k]);
        let found = format!("beta_{last} = {before} then beta_{k} = {here}");
        let expected = "strictly increasing values";
        Err(Error::invalid("schedule", found, expected))
    }

    /// Returns the schedule with further betas, for example betas to [record](crate::ais::Ais::record_at). A beta that
    /// is already in the schedule is not added again.
    ///
    /// # Errors
    /// A beta outside [0, 1].
    pub fn with_betas(&self, betas: impl IntoIterator<Item = f64>) -> Result<Self> {
        let further: Vec<f64> = betas.into_iter().collect();
        let indexed = further.iter().copied().enumerate();
        let within = |beta| (0.0..=1.0).contains(&beta);
        Error::check_each("betas", "index", indexed, within, "numbers in [0, 1]")?;
        let mut all = [self.betas.as_slice(), &further].concat();
        all.sort_by(f64::total_cmp);
        all.dedup();
        Self::new(all)
    }

    /// Returns the K + 1 values `beta_0 = 0` to `beta_K = 1`.
    pub fn betas(&self) -> &[f64] {
        &self.betas
    }

    /// Returns the index k from 0 of the stage with `beta_k <= beta < beta_{k+1}`. A `beta` of 1 is in the last stage,
    /// and a `beta` outside `[0, 1]` in the nearest stage.
    pub fn interval(&self, beta: f64) -> usize {
        let after = self.betas.partition_point(|&b| b <= beta);
        after.saturating_sub(1).min(self.stages() - 1)
    }

    /// Returns the number of stages K.
    pub fn stages(&self) -> usize {
        self.betas.len() - 1
    }

    /// Returns the index of `beta` in the schedule; `None` if the schedule does not contain it.
    pub(crate) fn stage_at(&self, beta: f64) -> Option<usize> {
        let place = self.betas.binary_search_by(|other| other.total_cmp(&beta));
        place.ok()
    }

    pub(crate) fn check_found(&self, found: &Self) -> Result<()> {
        Error::check_found("a number of stages of", &found.stages(), &self.stages())?;
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

/// Files: text with one beta in each line.
impl Schedule {
    /// Writes the betas as text, one per line, with enough digits to restore every bit.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let lines: String = self
            .betas()
            .iter()
            .map(|beta| format!("{beta}\n"))
            .collect();
        fs::write(&path, lines).map_err(|error| Error::io(path, error))
    }

    /// Reads a file that [`save`](Self::save) wrote. It skips empty lines and lines that start with `#`.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read, a line is not a number, or the numbers are not a schedule.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
        let betas: Result<Vec<f64>> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
            .map(|(index, line)| {
                line.trim().parse().map_err(|_| {
                    let place = index + 1;
                    Error::file(path, format!("line {place} is {line:?}, expected a number"))
                })
            })
            .collect();
        Self::new(betas?).map_err(|error| Error::file(path, error))
    }
}

/// Deceleration: limits on the step (Kiwaki 2015, Algorithm 3, corrected).
impl Schedule {
    /// Creates a schedule with no step longer than `limit`, up to the rounding of a sum of K numbers. The steps
    /// `step_k` of this schedule become `min(c step_k, limit)`, with the `c >= 1` at which they add up to 1. A schedule
    /// within the limit is unchanged. Algorithm 3 of Kiwaki (2015) as printed stops early, before they add up to 1.
    ///
    /// # Errors
    /// A limit that is not finite and positive, or too short to get from 0 to 1.
    #[doc(alias = "deceleration")]
    pub fn with_step_limit(&self, limit: f64) -> Result<Self> {
        Error::check_positive("step limit", limit)?;
        let steps: Vec<f64> = self.betas().windows(2).map(|b| b[1] - b[0]).collect();
        // The bound on the rounding error of a sum of K steps.
        let rounding = 2.0 * steps.len() as f64 * f64::EPSILON;
        if steps.iter().all(|&step| step <= limit + rounding) {
            return Ok(self.clone());
        }
        let arrives = steps.len() as f64 * limit >= 1.0 - rounding;
        let expected = format!("at least {}, 1 / K", 1.0 / steps.len() as f64);
        Error::check(arrives, "step limit", limit, expected)?;
        let level = water_level(&steps, limit);
        Self::from_steps(steps.iter().map(|step| (level * step).min(limit)))
    }

    /// Creates the schedule with a limit on the *speed* `dbeta / dt = K (beta_k - beta_{k-1})`, which is 1 for the
    /// linear schedule; see [`with_step_limit`](Self::with_step_limit). We read the limits .003, .006 and .009 of
    /// Kiwaki (2015) as steps of a pilot of 1,000 steps: speeds of 3, 6 and 9.
    ///
    /// # Errors
    /// A limit that is not finite, or below 1.
    #[doc(alias = "deceleration")]
    pub fn with_speed_limit(&self, limit: f64) -> Result<Self> {
        let long_enough = limit.is_finite() && limit >= 1.0;
        let expected = "at least 1, the linear schedule's";
        Error::check(long_enough, "speed limit", limit, expected)?;
        self.with_step_limit(limit / self.stages() as f64)
    }

    fn from_steps(steps: impl Iterator<Item = f64>) -> Result<Self> {
        let mut betas = cumulative(steps);
        // The sum of the steps may miss 1 by rounding.
        if let Some(last) = betas.last_mut() {
            *last = 1.0;
        }
        Self::new(betas)
    }
}

/// Returns the `c` for which `sum_k min(c step_k, limit) = 1`. If the j longest steps are at the limit, c is
/// `(1 - j limit) / (sum of the other steps)`. The right j is the smallest that leaves no other step above the limit.
fn water_level(steps: &[f64], limit: f64) -> f64 {
    let mut sorted = steps.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    // Summed from the short end, because differences from the total would cancel.
    let mut rests = sorted.clone();
    for j in (0..rests.len() - 1).rev() {
        rests[j] += rests[j + 1];
    }
    let level = |j: usize| (1.0 - j as f64 * limit) / rests[j];
    (0..sorted.len())
        .map(|j| (level(j), sorted[j]))
        .find(|&(level, longest)| level * longest <= limit)
        // If only rounding keeps the last step above the limit, all steps are at the limit.
        .map_or(f64::INFINITY, |(level, _)| level)
}

crate::num::deserialize_checked! { Schedule as (betas: Vec<f64>) => Self::new(betas) }

/// The middle betas of a schedule's stages, at which a drift modifier is tabulated.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub(crate) struct MidBetas {
    /// At least one beta; strictly increasing.
    betas: Vec<f64>,
}

impl MidBetas {
    pub(crate) fn of(schedule: &Schedule) -> Self {
        let stages = schedule.betas().windows(2);
        let betas = stages.map(|ends| 0.5 * (ends[0] + ends[1])).collect();
        Self { betas }
    }

    #[cfg(any(feature = "serde", test))]
    fn new(betas: Vec<f64>) -> Result<Self> {
        let inside = betas.iter().all(|beta| (0.0..=1.0).contains(beta));
        let increasing = betas.windows(2).all(|pair| pair[0] < pair[1]);
        let fit = !betas.is_empty() && inside && increasing;
        let expected = "at least one, strictly increasing within [0, 1]";
        Error::check(fit, "betas of a modifier", format!("{betas:?}"), expected)?;
        Ok(Self { betas })
    }

    pub(crate) fn betas(&self) -> &[f64] {
        &self.betas
    }

    /// Returns the indices of the middle betas left and right of `beta`. They are equal if `beta` is a middle beta or
    /// beyond the ends. The third number is the position between left and right, in `[0, 1)`.
    pub(crate) fn around(&self, beta: f64) -> (usize, usize, f64) {
        let last = self.betas.len() - 1;
        let (low, high) = (self.betas[0], self.betas[last]);
        // Guess first: most schedules are even, and a kernel asks for the middles themselves.
        // A single middle beta makes this NaN, which the cast turns into index 0.
        let guess = (((beta - low) / (high - low) * last as f64).round() as usize).min(last);
        if self.betas[guess] == beta {
            return (guess, guess, 0.0);
        }
        let right = self.betas.partition_point(|&knot| knot < beta);
        if right == 0 || right > last || self.betas[right] == beta {
            let index = right.min(last);
            return (index, index, 0.0);
        }
        let left = right - 1;
        let part = (beta - self.betas[left]) / (self.betas[right] - self.betas[left]);
        (left, right, part)
    }
}

crate::num::deserialize_checked! { MidBetas as (betas: Vec<f64>) => Self::new(betas) }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_between_at_and_beyond_the_middles() {
        let uneven = MidBetas::new(vec![0.1, 0.2, 0.6, 0.9]).unwrap();
        assert_eq!(uneven.around(0.0), (0, 0, 0.0));
        assert_eq!(uneven.around(1.0), (3, 3, 0.0));
        for (index, &beta) in uneven.betas().iter().enumerate() {
            assert_eq!(uneven.around(beta), (index, index, 0.0));
        }
        let (left, right, part) = uneven.around(0.3);
        assert_eq!((left, right), (1, 2));
        assert!((part - 0.25).abs() < 1e-15);
        let one = MidBetas::new(vec![0.5]).unwrap();
        let around = [0.2, 0.5, 0.8].map(|beta| one.around(beta));
        assert_eq!(around, [(0, 0, 0.0); 3]);
        assert!(MidBetas::new(vec![]).is_err());
        assert!(MidBetas::new(vec![0.5, 0.5]).is_err());
        assert!(MidBetas::new(vec![0.5, f64::NAN]).is_err());
    }
}
