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

/// `log sum_i exp(x_i)` in one pass; `-inf` for no terms, NaN where one is.
pub(crate) fn log_sum_exp(terms: impl IntoIterator<Item = f64>) -> f64 {
    let (mut max, mut sum) = (f64::NEG_INFINITY, 0.0);
    for x in terms {
        if x > max {
            sum = sum * (max - x).exp() + 1.0;
            max = x;
        } else if x != f64::NEG_INFINITY {
            sum += (x - max).exp();
        }
    }
    if sum == 0.0 { max } else { max + sum.ln() }
}

/// Writes zeros. A call of `memset`, which the compiler would make of any such loop, costs more than
/// a few stores.
#[inline]
pub(crate) fn set_zero(values: &mut [f64]) {
    if values.len() < 8 {
        let zero = std::hint::black_box(0.0);
        values.iter_mut().for_each(|value| *value = zero);
    } else {
        values.fill(0.0);
    }
}

/// `weight * x`, where a weight of zero makes even an infinity vanish.
#[inline]
pub(crate) fn weighted(weight: f64, x: f64) -> f64 {
    if weight == 0.0 && x.is_infinite() {
        0.0
    } else {
        weight * x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn sums_in_log_space_at_the_extremes() {
        assert_eq!(log_add_exp(-INF, -INF), -INF);
        assert_eq!(log_add_exp(-INF, 3.0), 3.0);
        assert_eq!(log_add_exp(1000.0, 1000.0), 1000.0 + 2f64.ln());
        assert_eq!(log_sum_exp([]), -INF);
        assert_eq!(log_sum_exp([-INF, -INF]), -INF);
        assert_eq!(log_sum_exp([-INF, 5.0, -INF]), 5.0);
        let exact = -1000.0 + (1.0 + 1f64.exp() + (-1f64).exp()).ln();
        assert!((log_sum_exp([-1000.0, -999.0, -1001.0]) - exact).abs() < 1e-12);
    }

    #[test]
    fn nan_is_never_masked() {
        assert!(log_add_exp(1.0, f64::NAN).is_nan() && log_add_exp(f64::NAN, -INF).is_nan());
        for terms in [
            [f64::NAN, 1.0],
            [1.0, f64::NAN],
            [-INF, f64::NAN],
            [f64::NAN, -INF],
        ] {
            assert!(log_sum_exp(terms).is_nan(), "{terms:?}");
        }
        assert!(weighted(0.0, f64::NAN).is_nan());
        assert_eq!(weighted(0.0, -INF), 0.0);
    }
}
