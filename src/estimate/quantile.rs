//! Quantiles of the normal and Student's distribution.

use std::f64::consts::FRAC_PI_2;

/// Returns the standard normal quantile at `p` in (0, 1), to about 7 digits: PPND7 of Wichura (1988), algorithm AS 241.
pub(crate) fn normal(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * (((59.10937472 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179)
            / (((67.18756360 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
    }
    let r = (-p.min(1.0 - p).ln()).sqrt();
    let magnitude = if r <= 5.0 {
        let r = r - 1.6;
        (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777)
            / ((0.12021132975 * r + 0.73700164250) * r + 1.0)
    } else {
        let r = r - 5.0;
        (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150)
            / ((0.012258202635 * r + 0.24197894225) * r + 1.0)
    };
    magnitude.copysign(q)
}

/// Returns Student's quantile at `p` in (0, 1) for any real `dof >= 1`: exact for 1 and 2, to 3% between them, and
/// above 2 by algorithm 396 of Hill (1970), to 3 digits at least and to 6 from `dof = 5`.
pub(crate) fn student(p: f64, dof: f64) -> f64 {
    let two_tails = 2.0 * p.min(1.0 - p);
    let magnitude = if dof > 2.0 {
        hill(two_tails, dof)
    } else {
        let one = 1.0 / (two_tails * FRAC_PI_2).tan();
        let square = 2.0 / (two_tails * (2.0 - two_tails)) - 2.0;
        let two = square.max(0.0).sqrt();
        let share = 2.0 / dof - 1.0;
        one.powf(share) * two.powf(1.0 - share)
    };
    magnitude.copysign(p - 0.5)
}

fn hill(two_tails: f64, n: f64) -> f64 {
    let a = 1.0 / (n - 0.5);
    let b = 48.0 / (a * a);
    let c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * FRAC_PI_2).sqrt() * n;
    let y = (d * two_tails).powf(2.0 / n);
    let square = if y > 0.05 + a {
        let x = normal(0.5 * two_tails);
        let small = match n < 5.0 {
            true => 0.3 * (n - 4.5) * (x + 0.6),
            false => 0.0,
        };
        let c = (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b + c + small;
        let y = x * x;
        let y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        (a * y * y).exp_m1()
    } else {
        let tail = ((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0;
        ((1.0 / tail + 0.5 / (n + 4.0)) * y - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / y
    };
    (n * square).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabled_quantiles() {
        let tabled = [
            (0.975, 1.959964),
            (0.5, 0.0),
            (0.05, -1.644854),
            (1e-9, -5.997807),
        ];
        for (p, expected) in tabled {
            assert!((normal(p) - expected).abs() < 2e-6, "normal {p}");
        }
        for (p, dof, expected) in [
            (0.975, 1.0, 12.706205),
            (0.55, 1.0, 0.158384),
            (0.975, 2.0, 4.302653),
            (0.975, 3.0, 3.182446),
            (0.975, 4.0, 2.776445),
            (0.025, 10.0, -2.228139),
            (0.95, 30.0, 1.697261),
            (0.9995, 5.0, 6.868827),
            (0.6, 7.0, 0.263167),
            (0.975, 1e6, 1.959966),
        ] {
            let error = student(p, dof) / expected - 1.0;
            assert!(error.abs() < 2e-4, "student {p}, {dof}: {error}");
        }
    }
}
