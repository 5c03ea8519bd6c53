//! Deceleration: schedules with a limit on the step (Kiwaki 2015, Algorithm 3, corrected).

use crate::schedule::Schedule;
use crate::{Error, Result};

impl Schedule {
    /// The schedule with no step longer than `limit`, up to the rounding of a sum of K numbers.
    ///
    /// Its steps are `min(c step_k, limit)` with the one `c >= 1` for which they add up to 1: the
    /// steps below the limit keep their proportions. A schedule within the limit is returned as it
    /// is. Algorithm 3 of Kiwaki (2015) aims for this fixed point; as printed it stops early and
    /// leaves steps that do not add up to 1.
    ///
    /// # Errors
    /// A limit that is not finite and positive, or one too short for the number of steps to get
    /// from 0 to 1.
    pub fn with_step_limit(&self, limit: f64) -> Result<Self> {
        Error::check_positive("step limit", limit)?;
        let steps: Vec<f64> = self.betas().windows(2).map(|b| b[1] - b[0]).collect();
        // Of a sum of K steps.
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

    /// The schedule with a limit on the *speed* `dbeta / dt = K (beta_k - beta_{k-1})`, as by
    /// [`with_step_limit`](Self::with_step_limit). The speed does not depend on the number of
    /// steps: that of the linear schedule is 1.
    ///
    /// The limits .003, .006 and .009 of Kiwaki (2015) are read here as limits of a step on his pilot of
    /// 1,000 steps, which are speeds of 3, 6 and 9. His text does not say so. As limits of a step at
    /// his `K = 100,000` they could not bind.
    ///
    /// # Errors
    /// A limit that is not finite, or below 1.
    pub fn with_speed_limit(&self, limit: f64) -> Result<Self> {
        let long_enough = limit.is_finite() && limit >= 1.0;
        let expected = "at least 1, the linear schedule's";
        Error::check(long_enough, "speed limit", limit, expected)?;
        self.with_step_limit(limit / self.steps() as f64)
    }

    /// The schedule with these steps, which add up to 1 but for rounding.
    fn from_steps(steps: impl Iterator<Item = f64>) -> Result<Self> {
        let mut beta = 0.0;
        let mut betas: Vec<f64> = std::iter::once(0.0)
            .chain(steps.map(|step| {
                beta += step;
                beta
            }))
            .collect();
        if let Some(last) = betas.last_mut() {
            *last = 1.0;
        }
        Self::new(betas)
    }
}

/// The `c` for which `sum_k min(c step_k, limit) = 1`: with the j longest steps at the limit,
/// `c = (1 - j limit) / (sum of the others)`, for the smallest j that leaves no other above it.
fn water_level(steps: &[f64], limit: f64) -> f64 {
    let mut sorted = steps.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    // Summed from the short end, where cancellation would hurt.
    let mut rests = sorted.clone();
    for j in (0..rests.len() - 1).rev() {
        rests[j] += rests[j + 1];
    }
    let level = |j: usize| (1.0 - j as f64 * limit) / rests[j];
    (0..sorted.len())
        .map(|j| (level(j), sorted[j]))
        .find(|&(level, longest)| level * longest <= limit)
        // Only rounding keeps the last step above the limit: all are at it.
        .map_or(f64::INFINITY, |(level, _)| level)
}
