//! Checks of derivatives against central differences, for tests.

const STEP: f64 = 1e-5;

/// Whether each derivative is the slope of `value(i, step)`, which is the value where argument i has
/// moved by `step`, to an error of at most `tolerance (1 + |derivative|)`.
pub(super) fn agree(
    derivatives: &[f64],
    tolerance: f64,
    mut value: impl FnMut(usize, f64) -> f64,
) -> Vec<bool> {
    let mut agrees = |(i, derivative): (usize, &f64)| {
        let difference = (value(i, STEP) - value(i, -STEP)) / (2.0 * STEP);
        (derivative - difference).abs() <= tolerance * (1.0 + derivative.abs())
    };
    derivatives.iter().enumerate().map(&mut agrees).collect()
}

/// The share of derivatives that agree. A kink of a rectifier or of a clamp within a step makes few
/// of them disagree.
pub(super) fn share(agree: &[bool]) -> f64 {
    agree.iter().filter(|&&agrees| agrees).count() as f64 / agree.len() as f64
}
