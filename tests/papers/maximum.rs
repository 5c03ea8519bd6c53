//! A lower bound on the mean of an annealed objective: Barron and Luo (2007), Lemma, with the gain written out.

/// An objective L over `R^d` with a maximum `L*` at `w*`, under the reference `N(0, sigma0^2 I)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Maximum {
    /// Dimension d.
    pub dimension: usize,
    /// `L*`.
    pub value: f64,
    /// `|w*|`.
    pub distance: f64,
    /// B, a bound on `|grad L|`.
    pub lipschitz: f64,
    /// `sigma0`.
    pub prior_deviation: f64,
}

impl Maximum {
    /// A lower bound on the mean of L under `p_gamma`, which is proportional to `p_0 exp(gamma L)`.
    /// With `r = d / (gamma B)`,
    ///
    /// `E L >= L* - B r + 1/gamma log P_0(|w - w*| < r)`,
    ///
    /// where the probability of the ball is replaced by its lower bound
    /// `exp(-|w*|^2 / (2 sigma0^2)) P_0(|w| < r)`. The result is within about 1 of `L*` once gamma is
    /// of the order `d log d`, however many local maxima there are.
    ///
    /// It follows from `gamma E L >= log Z` (Gibbs) and from the values of L on the ball.
    pub fn mean_objective_bound(&self, gain: f64) -> f64 {
        let radius = self.dimension as f64 / (gain * self.lipschitz);
        let offset = self.distance / self.prior_deviation;
        let log_ball = log_ball_probability(self.dimension, radius / self.prior_deviation);
        self.value - self.lipschitz * radius + (log_ball - 0.5 * offset * offset) / gain
    }
}

/// `log P(|x| < radius)` for a standard Gaussian: the incomplete gamma function at d/2 by its
/// power series, all of whose terms are positive.
fn log_ball_probability(dimension: usize, radius: f64) -> f64 {
    let shape = 0.5 * dimension as f64;
    let x = 0.5 * radius * radius;
    if x > shape + 40.0 * (1.0 + shape.sqrt()) {
        return 0.0; // 1 to rounding
    }
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > f64::EPSILON * sum {
        term *= x / (shape + k);
        sum += term;
        k += 1.0;
    }
    (shape * x.ln() - x + sum.ln() - log_gamma_after(dimension)).min(0.0)
}

/// `log Gamma(d/2 + 1)`, by the recurrence from `Gamma(1) = 1` or `Gamma(1/2) = sqrt(pi)`.
fn log_gamma_after(dimension: usize) -> f64 {
    let start = if dimension.is_multiple_of(2) {
        0.0
    } else {
        0.5 * std::f64::consts::PI.ln()
    };
    let factors = (1..=dimension).rev().step_by(2);
    factors.fold(start, |sum, i| sum + (0.5 * i as f64).ln())
}

#[test]
fn ball_probabilities_are_exact_in_one_to_four_dimensions() {
    for (dimension, radius, exact) in [
        (1, 1.0, 0.682_689_492_137_086_f64),
        (2, 1.0, 1.0 - (-0.5_f64).exp()),
        (3, 1.0, 0.198_748_043_098_799),
        (4, 2.0, 1.0 - 3.0 * (-2.0_f64).exp()),
    ] {
        let error = (log_ball_probability(dimension, radius).exp() - exact).abs();
        assert!(error < 1e-13, "{dimension}: {error}");
    }
    assert_eq!(log_ball_probability(3, 1e9), 0.0);
}
