//! The cost metric of a path, and the schedule whose stages have equal cost.

use crate::num::cumulative;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A local cost `m(beta)` of moving along a path, given on a grid of betas and linear in between.
///
/// A schedule of speed `beta'(t)` has the *action* `J = int_0^1 beta'(t)^2 m(beta(t)) dt`. With m the variance of
/// `d/dbeta log f` and perfect transitions it is `K Var[log w]` (Kiwaki 2015, Equation 8). The action is at least the
/// squared *length* `int_0^1 sqrt(m) dbeta`. Short stages reach this bound if `beta'^2 m` is constant.
///
/// ```
/// use annealed::pilot::ScheduleMetric;
/// use annealed::schedule::Schedule;
///
/// // From N(0, 1) to N(0, 1/100), where the best schedule is (100^t - 1) / 99.
/// let grid: Vec<f64> = (0..=1000).map(|k| k as f64 / 1000.0).collect();
/// let g = grid.iter().map(|beta| 0.5 * (99.0 / (1.0 + 99.0 * beta)).powi(2)).collect();
/// let metric = ScheduleMetric::new(grid, g)?;
/// let schedule = metric.schedule(2)?;
/// assert!((schedule.betas()[1] - 1.0 / 11.0).abs() < 1e-4);
/// assert!(metric.action(&schedule) < metric.action(&Schedule::linear(2)?));
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct ScheduleMetric {
    grid: Schedule,
    values: Vec<f64>,
}

impl ScheduleMetric {
    /// Creates the metric from betas that increase from 0 to 1 and the cost at each.
    ///
    /// # Errors
    /// Betas that are no grid from 0 to 1; lengths that differ; a cost that is negative or not finite.
    pub fn new(betas: Vec<f64>, values: Vec<f64>) -> Result<Self> {
        Error::check_dimension("costs", values.len(), betas.len())?;
        let costs = betas.iter().copied().zip(values.iter().copied());
        check_not_negative("cost", costs)?;
        Ok(Self {
            grid: Schedule::new(betas)?,
            values,
        })
    }

    /// Returns the grid.
    pub fn betas(&self) -> &[f64] {
        self.grid.betas()
    }

    /// Returns the cost at each beta of the grid.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the metric with each value averaged over a window of `width` grid points around it (even widths count as
    /// one more). Windows are truncated and renormalised at the ends.
    pub fn smoothed(&self, width: usize) -> Self {
        let (reach, last) = (width / 2, self.values.len() - 1);
        let mean = |k: usize| {
            let window = &self.values[k.saturating_sub(reach)..=k.saturating_add(reach).min(last)];
            window.iter().sum::<f64>() / window.len() as f64
        };
        Self {
            grid: self.grid.clone(),
            values: (0..=last).map(mean).collect(),
        }
    }

    /// Returns the metric with no value below `fraction` of its mean over beta, which bounds the schedule's speed.
    ///
    /// # Errors
    /// A fraction outside (0, 1]; a metric that is 0 everywhere.
    pub fn floored(&self, fraction: f64) -> Result<Self> {
        Error::check_positive_fraction("floor", fraction)?;
        let mean = self.integrate(|m| m);
        if mean == 0.0 {
            return Err(nothing_changes());
        }
        Ok(Self {
            grid: self.grid.clone(),
            values: self.values.iter().map(|m| m.max(fraction * mean)).collect(),
        })
    }

    /// Returns `int_0^1 sqrt(m) dbeta`, by the trapezoid rule. Its square is a lower bound on any action.
    pub fn length(&self) -> f64 {
        self.integrate(f64::sqrt)
    }

    /// Returns the action of a schedule of K stages, `K sum_k (beta_k - beta_{k-1}) int_{k-1}^k m dbeta`. For the
    /// linear schedule it is `int_0^1 m dbeta`.
    pub fn action(&self, schedule: &Schedule) -> f64 {
        let cost = |b: &[f64]| (b[1] - b[0]) * self.between(b[0], b[1]);
        schedule.stages() as f64 * schedule.betas().windows(2).map(cost).sum::<f64>()
    }

    pub(crate) fn at(&self, beta: f64) -> f64 {
        let right = self.right_of(beta);
        let (a, b) = (self.betas()[right - 1], self.betas()[right]);
        let share = (beta - a) / (b - a);
        self.values[right - 1] * (1.0 - share) + self.values[right] * share
    }

    /// Returns `int m dbeta` over an interval within `[0, 1]`.
    pub(crate) fn between(&self, start: f64, end: f64) -> f64 {
        let inner = &self.betas()[self.right_of(start)..self.right_of(end)];
        let mut left = (start, self.at(start));
        let mut area = 0.0;
        for &beta in inner.iter().chain([&end]) {
            let right = (beta, self.at(beta));
            area += 0.5 * (left.1 + right.1) * (right.0 - left.0);
            left = right;
        }
        area
    }

    /// Returns the index, at least 1, of the first grid beta not below `beta`.
    fn right_of(&self, beta: f64) -> usize {
        let last = self.values.len() - 1;
        self.betas().partition_point(|&b| b < beta).clamp(1, last)
    }

    /// Returns the schedule whose stages have equal length: `beta_k` has the share `k / K` of the total length below it
    /// (cumulative trapezoid rule, inverted linearly). With short stages its action tends to the minimum, the squared
    /// length.
    ///
    /// # Errors
    /// `stages` of 0; a metric that is 0 somewhere, which [`floored`](Self::floored) prevents.
    pub fn schedule(&self, stages: usize) -> Result<Schedule> {
        let costs = self.betas().iter().zip(self.values.iter().copied());
        let expected = "positive costs: the schedule would leap";
        Error::check_each("cost", "beta =", costs, |m| m != 0.0, expected)?;
        interpolate(self.betas(), &self.cumulative(f64::sqrt), stages)
    }

    /// Returns `int_0^beta f(m)` at each beta of the grid.
    fn cumulative(&self, f: impl Fn(f64) -> f64) -> Vec<f64> {
        let parts = self.betas().windows(2).zip(self.values.windows(2));
        cumulative(parts.map(|(b, m)| 0.5 * (f(m[0]) + f(m[1])) * (b[1] - b[0])))
    }

    fn integrate(&self, f: impl Fn(f64) -> f64) -> f64 {
        // The first entry is 0, so that there is a last one.
        self.cumulative(f).last().copied().unwrap_or_default()
    }
}

pub(crate) fn check_not_negative(
    argument: &'static str,
    figures: impl IntoIterator<Item = (f64, f64)>,
) -> Result<()> {
    let holds = |x: f64| x.is_finite() && x >= 0.0;
    let expected = "finite numbers of at least 0";
    Error::check_each(argument, "beta =", figures, holds, expected)
}

/// Returns the error for a path along which nothing changes, because base and target are the same.
pub(crate) fn nothing_changes() -> Error {
    let expected = "a path along which something changes";
    Error::invalid("cost", "0 everywhere", expected)
}

/// Returns the schedule of `stages` stages that covers equal shares of a distance, which is given at betas from 0 to 1
/// and linear in between.
pub(crate) fn interpolate(betas: &[f64], distance: &[f64], stages: usize) -> Result<Schedule> {
    Error::check_count("stages", stages, 1)?;
    let total = distance[distance.len() - 1];
    let mut right = 1;
    let inner = (1..stages).map(|k| {
        let reached = total * (k as f64 / stages as f64);
        while distance[right] < reached {
            right += 1;
        }
        let share = (reached - distance[right - 1]) / (distance[right] - distance[right - 1]);
        betas[right - 1] + share * (betas[right] - betas[right - 1])
    });
    let inner: Vec<f64> = inner.collect();
    Schedule::new(std::iter::once(0.0).chain(inner).chain([1.0]))
}

crate::num::deserialize_checked! {
    ScheduleMetric as (parts: (Vec<f64>, Vec<f64>)) => Self::new(parts.0, parts.1)
}
crate::num::serialize_as! { ScheduleMetric as metric ((metric.betas(), metric.values())) }
