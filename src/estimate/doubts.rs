//! Constructors that return a warning only if the numbers given to them require it.

use super::advice::Remedy;
use super::warning::Warning;

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

    pub(crate) fn below_bound(bound: f64, confidence: f64, upper: f64) -> Option<Self> {
        (bound > upper).then_some(Self::BelowBound {
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
