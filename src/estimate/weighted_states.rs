//! Weighted states, and the values of functions at them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::effective_draws::Correlation;
use crate::num::WeightSums;
use crate::{Error, Result};

/// The states of a [`WeightedSample`](super::WeightedSample). The lists of log weights and of units have the same
/// order.
#[derive(Debug, Clone)]
pub struct WeightedStates<'s, S> {
    /// The states.
    pub states: &'s [S],
    /// Log weights of the states up to a common constant; `-inf` is a weight of 0.
    pub log_weights: Cow<'s, [f64]>,
    /// Index of each state's unit, such as a chain or a family. Units are independent, but states of one unit are not.
    pub units: Cow<'s, [usize]>,
}

impl<S> WeightedStates<'_, S> {
    /// Refuses states without weight and lists of different lengths.
    pub(super) fn check(&self) -> Result<()> {
        Error::check_dimension("log_weights", self.log_weights.len(), self.states.len())?;
        Error::check_dimension("units", self.units.len(), self.states.len())?;
        super::check(&self.log_weights).map(drop)
    }
}

/// Value of a function at a state of positive weight.
struct Value {
    value: f64,
    /// Normalised weight of the state.
    weight: f64,
    unit: usize,
}

/// Values of a function at the states of positive weight.
pub(super) struct Values(Vec<Value>);

/// Rounding error of a sum of normalised weights.
const ROUNDING: f64 = 1e-12;

/// Effective number of units beyond a quantile below which their weights alone do not give its error.
const ENOUGH: f64 = 20.0;
/// Factor on the probability beyond a quantile, for the part of the distribution that gives the least error.
const WIDE: f64 = 5.0;

impl Values {
    pub(super) fn of<S>(sample: &WeightedStates<'_, S>, f: impl Fn(&S) -> f64) -> Self {
        let weights = WeightSums::of(&*sample.log_weights);
        let states = sample.states.iter().zip(&*sample.log_weights);
        let alive = states
            .zip(&*sample.units)
            .filter(|((_, log_weight), _)| **log_weight > f64::NEG_INFINITY);
        let value = |((state, log_weight), unit): ((&S, &f64), &usize)| Value {
            value: f(state),
            weight: weights.share(*log_weight),
            unit: *unit,
        };
        Self(alive.map(value).collect())
    }

    /// Returns the values in ascending order. Refuses states without weight and values that are not finite.
    pub(super) fn ascending<S>(
        sample: &WeightedStates<'_, S>,
        name: &str,
        f: impl Fn(&S) -> f64,
    ) -> Result<Self> {
        sample.check()?;
        let mut values = Self::of(sample, f);
        check_values(name, values.0.iter().map(|v| v.value))?;
        values.0.sort_by(|a, b| a.value.total_cmp(&b.value));
        Ok(values)
    }

    /// Returns the mean of `g` over the values, and its standard error as in `WeightedSample::expectation`.
    pub(super) fn mean(&self, g: impl Fn(f64) -> f64) -> (f64, f64) {
        let terms = self.0.iter().map(|v| v.weight * g(v.value));
        let mean: f64 = terms.sum();
        let mut parts = BTreeMap::new();
        for v in &self.0 {
            *parts.entry(v.unit).or_insert(0.0) += v.weight * (g(v.value) - mean);
        }
        let parts = Vec::from_iter(parts.into_values());
        let squares: f64 = parts.iter().map(|part: &f64| part.powi(2)).sum();
        let error = match parts.len() {
            0 => return (f64::NAN, f64::INFINITY),
            1 => return (mean, f64::INFINITY),
            units => (squares * (units as f64 / (units as f64 - 1.0))).sqrt(),
        };
        let time = Correlation::clear(parts).map_or(1.0, |found| found.time);
        (mean, error * time.sqrt())
    }

    /// Returns the variance, `sum_i W_i (f(x_i) - mean)^2 / (1 - sum_i W_i^2)`.
    pub(super) fn variance(&self) -> f64 {
        let (mean, _) = self.mean(|value| value);
        let (spread, _) = self.mean(|value| (value - mean).powi(2));
        let repeated: f64 = self.0.iter().map(|v| v.weight.powi(2)).sum();
        // The factor n / (n - 1) of a sample variance, for unequal weights.
        spread / (1.0 - repeated)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the least of the ascending values whose cumulative weight reaches `p`.
    fn at(&self, p: f64) -> f64 {
        let mut sum = 0.0;
        let reaches = |v: &&Value| {
            sum += v.weight;
            sum >= p - ROUNDING
        };
        // The sum of all weights may round to less than p.
        let found = self.0.iter().find(reaches).or(self.0.last());
        found.map_or(f64::NAN, |v| v.value)
    }

    /// Returns the quantile of the ascending values at `p`, and its standard error as in `WeightedSample::quantile`.
    pub(super) fn quantile(&self, p: f64) -> (f64, f64) {
        let found = self.at(p);
        let up_to = |value: f64| f64::from(u8::from(value <= found));
        let below = |value: f64| f64::from(u8::from(value < found));
        let own = self.mean(up_to).1.max(self.mean(below).1);
        let error = own.max(self.least_error(p, found));
        let (low, high) = (p - 2.0 * error, p + 2.0 * error);
        match ROUNDING < low && high < 1.0 - ROUNDING {
            true => (found, 0.25 * (self.at(high) - self.at(low))),
            false => (found, f64::INFINITY),
        }
    }

    /// Returns the least standard error of `F(found)` if few units lie beyond the quantile `found`, as in
    /// `WeightedSample::quantile`. It is infinite if none does, and 0 if there are enough.
    fn least_error(&self, p: f64, found: f64) -> f64 {
        let is_upper = p > 0.5;
        // The weight of the values beyond an edge, and the sum of the squared weights of their units.
        let beyond = |edge: f64| {
            let mut units = BTreeMap::new();
            for v in self.0.iter().filter(|v| (v.value > edge) == is_upper) {
                *units.entry(v.unit).or_insert(0.0) += v.weight;
            }
            let add =
                |(sum, squares): (f64, f64), weight: &f64| (sum + weight, squares + weight.powi(2));
            units.values().fold((0.0, 0.0), add)
        };
        let (sum, squares) = beyond(found);
        if sum <= ROUNDING {
            return f64::INFINITY;
        } else if sum * sum >= ENOUGH * squares {
            return 0.0;
        }
        let part = WIDE * p.min(1.0 - p);
        let (sum, squares) = beyond(self.at(if is_upper { 1.0 - part } else { part }));
        (p * (1.0 - p) * squares / sum).sqrt()
    }
}

/// Refuses values of the quantity `name` that are not finite.
pub(super) fn check_values(name: &str, values: impl IntoIterator<Item = f64>) -> Result<()> {
    match values.into_iter().find(|value| !value.is_finite()) {
        Some(value) => Err(Error::invalid(
            "quantity",
            format!("{name} = {value}"),
            "a finite number at each state",
        )),
        None => Ok(()),
    }
}
