//! Numerics that several models share.

/// `log(exp(a) + exp(b))`; `-inf` where both are.
pub(crate) fn log_add_exp(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY {
        high
    } else {
        high + (low - high).exp().ln_1p()
    }
}

/// `weight * x`, where a weight of zero makes even `-inf` vanish.
pub(crate) fn weighted(weight: f64, x: f64) -> f64 {
    if weight == 0.0 && x == f64::NEG_INFINITY {
        0.0
    } else {
        weight * x
    }
}
