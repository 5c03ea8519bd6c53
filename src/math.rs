//! Scalar functions that keep their digits in log space.

/// `log sum_i e^{x_i}`, in one pass; `-inf` for no terms.
pub(crate) fn log_sum_exp(terms: impl IntoIterator<Item = f64>) -> f64 {
    let (mut max, mut sum) = (f64::NEG_INFINITY, 0.0);
    for x in terms {
        if x > max {
            sum = sum * (max - x).exp() + 1.0;
            max = x;
        } else if x > f64::NEG_INFINITY {
            sum += (x - max).exp();
        } else if x.is_nan() {
            return x;
        }
    }
    if sum > 0.0 { max + sum.ln() } else { max }
}

/// `log(1 + e^x)`.
pub(crate) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `1 / (1 + e^{-x})`.
pub(crate) fn sigmoid(x: f64) -> f64 {
    if x < 0.0 {
        let e = x.exp();
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_sums_survive_extremes() {
        let inf = f64::INFINITY;
        assert_eq!(log_sum_exp([]), -inf);
        assert_eq!(log_sum_exp([-inf, -inf]), -inf);
        assert_eq!(log_sum_exp([-inf, 5.0, -inf]), 5.0);
        assert!((log_sum_exp([-1000.0, -999.0, -1001.0]) - -998.592_394).abs() < 1e-6);
        assert!(log_sum_exp([1.0, f64::NAN, 2.0]).is_nan());
    }

    #[test]
    fn softplus_and_sigmoid_survive_extremes() {
        assert_eq!(softplus(1000.0), 1000.0);
        assert_eq!(softplus(-800.0), 0.0);
        assert!((softplus(-30.0) / (-30f64).exp() - 1.0).abs() < 1e-12);
        assert_eq!(sigmoid(-800.0), 0.0);
        assert_eq!(sigmoid(800.0), 1.0);
        assert!((sigmoid(1.3) + sigmoid(-1.3) - 1.0).abs() < 1e-15);
    }
}
