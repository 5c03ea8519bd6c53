//! The logistic function and its integral, softplus, in double precision.

/// `log(1 + e^x)`, computed without overflow.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `log 1/(1 + e^-x)`; `-inf` for `-inf`.
pub(crate) fn log_sigmoid(x: f64) -> f64 {
    -softplus(-x)
}

/// `1 / (1 + e^-x)`, computed without overflow and accurately in both tails.
pub fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x >= 0.0 {
        1.0 / (1.0 + e)
    } else {
        e / (1.0 + e)
    }
}

/// `softplus(y) - softplus(y - d)`, without the cancellation of the plain difference.
///
/// It is `-log(1 + sigmoid(y) (e^-d - 1))`. For large `d`, where this would meet `inf * 0`, the plain
/// difference is accurate.
pub fn softplus_increment(y: f64, d: f64) -> f64 {
    if d.abs() < 1.0 {
        -(sigmoid(y) * (-d).exp_m1()).ln_1p()
    } else {
        softplus(y) - softplus(y - d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_increment_agrees_with_the_difference_and_survives_extremes() {
        for y in [-800.0, -300.0, -30.0, -1.5, 0.0, 0.3, 20.0, 300.0, 800.0] {
            for d in [-900.0, -2.0, -0.7, -1e-3, 0.0, 1e-3, 0.5, 3.0, 900.0] {
                let difference = softplus(y) - softplus(y - d);
                let error = (softplus_increment(y, d) - difference).abs();
                assert!(error < 1e-12 * (1.0 + y.abs()), "y {y}, d {d}: {error}");
            }
        }
        // Relative accuracy where the plain difference has none.
        let (y, d) = (300.0, 1e-14);
        assert!((softplus_increment(y, d) / d - 1.0).abs() < 1e-12);
    }

    #[test]
    fn sigmoid_is_accurate_in_both_tails() {
        assert!((sigmoid(-40.0) / (-40.0_f64).exp() - 1.0).abs() < 1e-15);
        assert_eq!(sigmoid(-1e3), 0.0);
        assert_eq!(sigmoid(1e3), 1.0);
        assert_eq!(sigmoid(0.0), 0.5);
    }
}
