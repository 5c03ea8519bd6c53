//! Fits without Monte Carlo: maximum likelihood, and the best bound of a Gaussian or a pair of Gaussians for each datum.

use std::f64::consts::{E, FRAC_2_PI, FRAC_2_SQRT_PI, LN_2, SQRT_2, TAU};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::model::{Fold, Folded, Theta};

/// The laws of z that a fit may use for a datum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// The posterior itself, so that the fit is the one of maximum likelihood.
    Posterior,
    /// `N(m, d^2)`.
    Gaussian,
    /// `1/2 N(m, d^2) + 1/2 N(-m, d^2)`, as symmetric as the posterior.
    Mixture,
}

/// The bound on `log p(x)` by the best law of a family, and the means of h(z) and h(z)^2 under this law.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    pub bound: f64,
    first: f64,
    second: f64,
}

/// The fit of a family to data.
#[derive(Debug, Clone, Copy)]
pub struct Fit {
    pub theta: Theta,
    /// Mean bound over the data.
    pub bound: f64,
}

/// Step of the quadrature over `t`, where `z = exp(t - exp(-t))` makes it converge exponentially on the half line.
pub const STEP: f64 = 0.005;
const ENDS: (f64, f64) = (-3.5, 3.0);
/// Ratios `r = m / d` are searched on the scale of asinh r.
const RATIO_STEP: f64 = 0.15;
const RATIO_STEPS: usize = 40;
const TOLERANCE: f64 = 1e-7;

pub struct Fitter {
    fold: Fold,
    family: Family,
    /// Points z > 0, with the logarithms of their weights. The weights contain the prior of z and of -z.
    points: Vec<(f64, f64)>,
    /// Members of unit deviation, for the coarse search.
    members: Vec<Member>,
}

/// A law of z with mean r and deviation 1: the means of z^2, h and h^2, and the entropy.
#[derive(Debug, Clone, Copy)]
struct Member {
    square: f64,
    first: f64,
    second: f64,
    entropy: f64,
}

impl Fitter {
    pub fn new(fold: Fold, family: Family, step: f64) -> Self {
        let count = ((ENDS.1 - ENDS.0) / step) as usize;
        let point = |i: usize| {
            let t = ENDS.0 + step * i as f64;
            let z = (t - (-t).exp()).exp();
            let slope = z * (1.0 + (-t).exp());
            let prior = -0.5 * (z * z + TAU.ln());
            (z, LN_2 + prior + (slope * step).ln())
        };
        let mut fitter = Self {
            fold,
            family,
            points: (0..=count).map(point).collect(),
            members: Vec::new(),
        };
        let members = (0..=RATIO_STEPS).map(|i| fitter.member(RATIO_STEP * i as f64));
        fitter.members = members.collect();
        fitter
    }

    pub fn moments(&self, theta: Theta, x: f64) -> Moments {
        match self.family {
            Family::Posterior => self.posterior(theta, x),
            Family::Gaussian | Family::Mixture => self.best(theta, x),
        }
    }

    fn posterior(&self, theta: Theta, x: f64) -> Moments {
        let fold = self.fold;
        let model = Folded { fold, theta };
        let logs = self
            .points
            .iter()
            .map(|&(z, weight)| weight + model.log_density(x, z));
        let logs: Vec<f64> = logs.collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sums = [0.0; 3];
        for (&(z, _), log) in self.points.iter().zip(logs) {
            let (mass, h) = ((log - top).exp(), fold.value(z));
            for (sum, power) in sums.iter_mut().zip([1.0, h, h * h]) {
                *sum += mass * power;
            }
        }
        Moments {
            bound: top + sums[0].ln(),
            first: sums[1] / sums[0],
            second: sums[2] / sums[0],
        }
    }

    fn member(&self, asinh_ratio: f64) -> Member {
        let r = asinh_ratio.sinh();
        let square = r * r + 1.0;
        let (first, second) = match self.fold {
            Fold::Square => (square, r.powi(4) + 6.0 * r * r + 3.0),
            Fold::Absolute => {
                let peak = FRAC_2_PI.sqrt() * (-0.5 * r * r).exp();
                (peak + r * erf(r / SQRT_2), square)
            }
        };
        let apart = if self.family == Family::Mixture {
            split(r, 0.125)
        } else {
            0.0
        };
        Member {
            square,
            first,
            second,
            entropy: 0.5 * (TAU * E).ln() + apart,
        }
    }

    /// Returns the best bound over m and d: over d in closed form, over m / d by a grid and a golden section.
    fn best(&self, theta: Theta, x: f64) -> Moments {
        let bound = |member: &Member| self.widened(theta, x, member).bound;
        let grid: Vec<f64> = self.members.iter().map(bound).collect();
        let top = (0..grid.len()).max_by(|&a, &b| grid[a].total_cmp(&grid[b]));
        let top = top.unwrap_or(0) as f64;
        let ends = [(top - 1.0).max(0.0), top + 1.0].map(|i| i * RATIO_STEP);
        let place = golden(ends, |asinh| bound(&self.member(asinh)));
        self.widened(theta, x, &self.member(place))
    }

    /// Scales a member by the best d. With u = d^p, where h(d z) = d^p h(z), it maximises `b u - a u^2 + log(u) / p`.
    fn widened(&self, [log_sigma, log_scale]: Theta, x: f64, member: &Member) -> Moments {
        let [precision, scale] = [(-2.0 * log_sigma).exp(), log_scale.exp()];
        let mut a = 0.5 * scale * scale * precision * member.second;
        let mut b = x * scale * precision * member.first;
        let p = match self.fold {
            Fold::Square => {
                b -= 0.5 * member.square;
                2.0
            }
            Fold::Absolute => {
                a += 0.5 * member.square;
                1.0
            }
        };
        let root = (b * b + 8.0 * a / p).sqrt();
        // Both forms are equal; each is free of cancellation for its sign of b.
        let u = if b > 0.0 {
            (b + root) / (4.0 * a)
        } else {
            2.0 / (p * (root - b))
        };
        let normal = -TAU.ln() - log_sigma - 0.5 * x * x * precision;
        Moments {
            bound: normal + u * (b - a * u) + u.ln() / p + member.entropy,
            first: u * member.first,
            second: u * u * member.second,
        }
    }

    /// Returns the parameters that maximise the data's bound with these laws of z, and the mean bound at `theta`.
    fn step(&self, theta: Theta, data: &[f64]) -> (Theta, f64) {
        let count = data.len() as f64;
        let all: Vec<_> = data.iter().map(|&x| (x, self.moments(theta, x))).collect();
        let mean = |of: &dyn Fn(f64, &Moments) -> f64| {
            all.iter().map(|(x, moments)| of(*x, moments)).sum::<f64>() / count
        };
        let [cross, second] = [mean(&|x, m| x * m.first), mean(&|_, m| m.second)];
        let variance = mean(&|x, _| x * x) - cross * cross / second;
        let next = [0.5 * variance.ln(), (cross / second).ln()];
        (next, mean(&|_, m| m.bound))
    }

    /// Alternates laws of z and parameters from `start`, with extrapolated steps (Varadhan and Roland 2008).
    pub fn fit(&self, start: Theta, data: &[f64]) -> Fit {
        let mut theta = start;
        loop {
            let (once, bound) = self.step(theta, data);
            let (twice, _) = self.step(once, data);
            let first = [0, 1].map(|i| once[i] - theta[i]);
            let second = [0, 1].map(|i| twice[i] - once[i]);
            if first[0].hypot(first[1]).max(second[0].hypot(second[1])) < TOLERANCE {
                return Fit { theta, bound };
            }
            let bend = [0, 1].map(|i| second[i] - first[i]);
            let stride = (first[0].hypot(first[1]) / bend[0].hypot(bend[1])).max(1.0);
            let far = [0, 1].map(|i| theta[i] + stride * (2.0 * first[i] + stride * bend[i]));
            let (landed, reached) = self.step(far, data);
            theta = if reached >= bound { landed } else { twice };
        }
    }
}

/// Returns the entropy of `1/2 N(r, 1) + 1/2 N(-r, 1)`, less the entropy of one component.
fn split(r: f64, step: f64) -> f64 {
    let count = (9.0 / step) as i32;
    let lost = |i: i32| {
        let e = step * f64::from(i);
        let density = (-0.5 * e * e).exp() / TAU.sqrt();
        // log(1 + e^-y) is e^-y or -y beyond these ends, and the density is negligible there.
        step * density * (-2.0 * r * (r + e)).min(700.0).exp().ln_1p()
    };
    LN_2 - (-count..=count).map(lost).sum::<f64>()
}

/// Returns the error function of `x >= 0`, by a series whose terms are all positive.
fn erf(x: f64) -> f64 {
    if x > 6.0 {
        return 1.0;
    }
    let mut term = x;
    let mut sum = x;
    let mut n = 1.0;
    while term > 1e-17 * sum {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// Returns the maximum of a unimodal function between `ends`.
fn golden(mut ends: [f64; 2], value: impl Fn(f64) -> f64) -> f64 {
    let share = 0.5 * (5.0_f64.sqrt() - 1.0);
    let inner = |[left, right]: [f64; 2]| {
        let part = share * (right - left);
        [right - part, left + part]
    };
    let mut places = inner(ends);
    let mut values = places.map(&value);
    for _ in 0..36 {
        if values[0] >= values[1] {
            ends[1] = places[1];
            places = inner(ends);
            values = [value(places[0]), values[0]];
        } else {
            ends[0] = places[0];
            places = inner(ends);
            values = [values[1], value(places[1])];
        }
    }
    0.5 * (ends[0] + ends[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const THETAS: [Theta; 3] = [[-1.4, 0.0], [-0.7, 0.2], [0.3, -0.3]];
    const DATA: [f64; 7] = [-1.5, -0.3, 0.0, 0.4, 1.0, 3.0, 12.0];
    const FOLDS: [Fold; 2] = [Fold::Square, Fold::Absolute];

    fn each(mut check: impl FnMut(Fold, Theta, f64)) {
        for fold in FOLDS {
            for theta in THETAS {
                DATA.iter().for_each(|&x| check(fold, theta, x));
            }
        }
    }

    #[test]
    fn quadrature_agrees_with_a_finer_one_and_with_a_closed_form() {
        each(|fold, theta, x| {
            let [coarse, fine] = [STEP, STEP / 2.0].map(|step| {
                let found = Fitter::new(fold, Family::Posterior, step).moments(theta, x);
                [found.bound, found.first, found.second]
            });
            for (a, b) in coarse.iter().zip(fine) {
                assert!((a - b).abs() < 1e-8, "{fold:?} {theta:?} {x}: {a} {b}");
            }
            if fold == Fold::Absolute {
                // x is skew normal: 2 N(x; 0, s^2 + sigma^2) Phi(x s / (sigma sqrt(s^2 + sigma^2))).
                let [sigma, s] = theta.map(f64::exp);
                let total = sigma.hypot(s);
                let normal = -0.5 * ((x / total).powi(2) + TAU.ln()) - total.ln();
                let slant = x * s / (sigma * total) / SQRT_2;
                let tail = erf(slant.abs());
                let phi = if slant > 0.0 { 1.0 + tail } else { 1.0 - tail };
                let expected = normal + phi.ln();
                let tolerance = 1e-8 + 1e-14 / phi;
                assert!((coarse[0] - expected).abs() < tolerance, "{theta:?} {x}");
            }
        });
    }

    #[test]
    fn entropies_agree_with_a_finer_quadrature() {
        for i in 0..=RATIO_STEPS {
            let r = (RATIO_STEP * i as f64).sinh();
            let [coarse, fine] = [0.125, 0.03125].map(|step| split(r, step));
            assert!((coarse - fine).abs() < 1e-8, "{r}: {coarse} {fine}");
        }
        assert!(split(0.0, 0.125).abs() < 1e-12 && (split(20.0, 0.125) - LN_2).abs() < 1e-12);
    }

    /// Integrates the bound on log p(x) of a law with density q(z).
    fn bound_by_quadrature(model: &Folded, x: f64, q: impl Fn(f64) -> f64) -> f64 {
        let term = |i: i32| {
            let z = 4e-3 * f64::from(i);
            let density = q(z).max(1e-300);
            let joint = model.log_density(x, z) - 0.5 * (z * z + TAU.ln());
            4e-3 * density * (joint - density.ln())
        };
        (-3_000..=3_000).map(term).sum()
    }

    fn normal(z: f64, m: f64, d: f64) -> f64 {
        (-0.5 * ((z - m) / d).powi(2)).exp() / (d * TAU.sqrt())
    }

    #[test]
    fn no_law_on_a_grid_is_better_than_the_best() {
        let x = 1.0;
        let families = [Family::Gaussian, Family::Mixture];
        for (fold, family) in FOLDS
            .iter()
            .flat_map(|&fold| families.map(|family| (fold, family)))
        {
            for theta in THETAS {
                let model = Folded { fold, theta };
                let best = Fitter::new(fold, family, STEP).moments(theta, x).bound;
                let mut found = f64::NEG_INFINITY;
                for (m, d) in
                    (0..900).map(|i| (0.05 * f64::from(i % 30), 0.05 * 1.13_f64.powi(i / 30)))
                {
                    let law = |z: f64| match family {
                        Family::Gaussian => normal(z, m, d),
                        _ => 0.5 * (normal(z, m, d) + normal(z, -m, d)),
                    };
                    found = found.max(bound_by_quadrature(&model, x, law));
                }
                let below = best - found;
                assert!(
                    (-1e-5..0.02).contains(&below),
                    "{model:?} {family:?} {below}"
                );
            }
        }
    }

    #[test]
    fn larger_families_have_better_bounds() {
        each(|fold, theta, x| {
            let families = [Family::Gaussian, Family::Mixture, Family::Posterior];
            let bounds = families.map(|f| Fitter::new(fold, f, STEP).moments(theta, x).bound);
            assert!(bounds.is_sorted_by(|a, b| *a <= b + 1e-9), "{bounds:?}");
        });
    }

    #[test]
    fn maximum_likelihood_has_no_slope() {
        for fold in FOLDS {
            let theta = [-0.7, 0.0];
            let data = Folded { fold, theta }.draw(200, 1);
            let fitter = Fitter::new(fold, Family::Posterior, STEP);
            let fit = fitter.fit(theta, &data);
            let mean = |theta: Theta| fitter.step(theta, &data).1;
            for i in 0..2 {
                let at = |step: f64| {
                    let mut moved = fit.theta;
                    moved[i] += step;
                    mean(moved)
                };
                let slope = (at(1e-4) - at(-1e-4)) / 2e-4;
                let curvature = (at(1e-2) + at(-1e-2) - 2.0 * fit.bound) / 1e-4;
                assert!(
                    slope.abs() < 1e-5 && curvature < -0.1,
                    "{slope} {curvature}"
                );
            }
        }
    }
}
