//! The logarithm of the gamma function.

use std::f64::consts::TAU;

/// Where Stirling's series starts.
const LARGE: f64 = 12.0;

/// `log Gamma(x)` for `x > 0`, to an absolute error of about `1e-15 (1 + |log Gamma(x)|)`: Stirling's series, reached by
/// the recursion `Gamma(x + 1) = x Gamma(x)`.
pub(crate) fn ln_gamma(mut x: f64) -> f64 {
    if x.is_infinite() {
        return x;
    }
    let mut product = 1.0;
    while x < LARGE {
        product *= x;
        x += 1.0;
    }
    let (inverse, square) = (x.recip(), x.powi(-2));
    // Bernoulli numbers over 2 k (2 k - 1).
    let coefficients = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
    ];
    let series = coefficients.iter().rev();
    let series = series.fold(0.0, |sum, coefficient| sum * square + coefficient);
    (x - 0.5) * x.ln() - x + 0.5 * TAU.ln() + inverse * series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factorials_and_half_integers() {
        let mut log_factorial = 0.0;
        for n in 1..60 {
            let x = f64::from(n);
            assert!((ln_gamma(x) - log_factorial).abs() < 2e-15 * (6.0 + log_factorial));
            log_factorial += x.ln();
        }
        let half = 0.5 * std::f64::consts::PI.ln();
        assert!((ln_gamma(0.5) - half).abs() < 4e-15);
        assert!((ln_gamma(1.5) - half - 0.5_f64.ln()).abs() < 4e-15);
        // Gamma(x) Gamma(1 - x) sin(pi x) = pi.
        for x in [1e-3, 0.1, 0.3, 0.49] {
            let sine = (std::f64::consts::PI * x).sin().ln();
            assert!((ln_gamma(x) + ln_gamma(1.0 - x) + sine - 2.0 * half).abs() < 1e-14);
        }
    }

    #[test]
    fn extremes_stay_finite() {
        assert!((ln_gamma(1e-300) - 300.0 * 10_f64.ln()).abs() < 1e-11);
        assert!(ln_gamma(1e300).is_finite());
    }
}
