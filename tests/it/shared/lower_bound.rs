//! Checks of lower bounds on log Z against exact values.

use annealed::rbm::LogZBound;
use proptest::prelude::*;

/// Returns the log of a sum, with the largest term apart and the smallest added first, so that it has all its digits where
/// it is small.
pub fn log_sum(mut logs: Vec<f64>) -> f64 {
    logs.sort_by(f64::total_cmp);
    let largest = logs.pop().unwrap();
    let others: f64 = logs.iter().map(|x| (x - largest).exp()).sum();
    largest + others.ln_1p()
}

/// Checks that the bound and all its parts are at most `exact`, but for rounding relative to at least `scale`.
pub fn check_bound(bound: &LogZBound, exact: f64, scale: f64) -> Result<(), TestCaseError> {
    let most = exact + 1e-12 * exact.abs().max(scale);
    let modes = bound.modes.iter().map(|mode| mode.bound);
    for value in modes.clone().chain([bound.value, bound.configurations]) {
        prop_assert!(value <= most, "{value} above {exact}");
    }
    let best = bound.modes[0].bound;
    prop_assert!(modes.clone().all(|mode| mode <= best));
    prop_assert_eq!(bound.value, best.max(bound.configurations));
    Ok(())
}
