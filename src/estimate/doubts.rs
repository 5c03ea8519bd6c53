//! Constructors that return a warning only if the numbers given to them require it.

use super::advice::Remedy;
use super::warning::Warning;
use crate::num::exceeds;

impl Warning {
    pub(crate) fn error_not_reached(
        asked: Option<f64>,
        reached: f64,
        chains: Option<usize>,
        remedy: Remedy,
    ) -> Option<Self> {
        let asked = asked.filter(|&asked| reached > asked)?;
        let budget = match remedy {
            Remedy::Budget { budget, .. } => Some(budget),
            _ => None,
        };
        Some(Self::ErrorNotReached {
            asked,
            reached,
            chains,
            budget,
            advice: remedy.advice(reached / asked),
        })
    }

    /// Returns [`BelowBound`](Self::BelowBound) if `bound` is above `upper` by more than rounding.
    pub(crate) fn below_bound(bound: f64, confidence: f64, upper: f64) -> Option<Self> {
        exceeds(bound, upper).then_some(Self::BelowBound {
            bound,
            confidence,
            upper,
        })
    }

    /// Returns [`Rounding`](Self::Rounding) if rounding may move an estimate by more than a quarter of its standard
    /// error and more than 1e-6.
    pub(crate) fn rounding(rounding_error: f64, standard_error: f64) -> Option<Self> {
        (rounding_error > 1e-6_f64.max(0.25 * standard_error)).then_some(Self::Rounding {
            rounding_error,
            standard_error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_above_an_interval_by_rounding_is_no_doubt() {
        let warns = |bound, upper| Warning::below_bound(bound, 1.0, upper).is_some();
        assert!(!warns(612.742 + 2e-13, 612.742) && !warns(1e-16, -0.0));
        assert!(warns(612.743, 612.742) && warns(1e-6, 0.0));
        assert!(!warns(0.0, f64::INFINITY));
    }
}
