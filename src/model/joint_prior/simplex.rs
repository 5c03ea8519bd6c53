//! The Dirichlet distribution of probabilities that sum to 1, by stick breaking.

use rand::Rng;

use crate::model::Prior;
use crate::model::prior::{ROUNDED, TINY};
use crate::model::transformed_prior::{TransformedPrior, accumulate_each, times};
use crate::num::{log_sigmoid, sigmoid};
use crate::{Error, Result};

/// The Dirichlet distribution: `x_k = b_k (1 - b_0) .. (1 - b_{k-1})`, with independent sticks `b_k = sigmoid(u_k)` of
/// beta distributions. The parameters of stick k are `alpha_k` and the sum of the later entries of alpha. The last
/// probability is what the others leave.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Simplex {
    alpha: Vec<f64>,
    sticks: Vec<Prior>,
}

impl Simplex {
    pub(super) fn new(alpha: Vec<f64>) -> Result<Self> {
        Error::check_at_least("entries of alpha", alpha.len(), 2)?;
        let (within, expected) = (1e-3..=1e9, "numbers in [1e-3, 1e9]");
        let each = alpha.iter().copied().enumerate();
        Error::check_each("alpha", "index", each, |a| within.contains(&a), expected)?;
        let sum = alpha.iter().sum::<f64>();
        Error::check(sum <= 1e9, "sum of alpha", sum, "at most 1e9")?;
        let mut later = 0.0;
        let mut sticks = Vec::with_capacity(alpha.len() - 1);
        for pair in alpha.windows(2).rev() {
            later += pair[1];
            sticks.push(Prior::beta(pair[0], later)?);
        }
        sticks.reverse();
        Ok(Self { alpha, sticks })
    }
}

/// Returns each probability x and `dx / d log x`. The derivative is x, or 0 if x is clamped to the last number inside
/// (0, 1).
fn probabilities(u: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let mut log_left = 0.0;
    let mut log_of_stick = move |u: f64| {
        let log = log_left + log_sigmoid(u);
        log_left += log_sigmoid(-u);
        log
    };
    // The last probability is all that is left, as for a stick of 1.
    let sticks = u.iter().copied().chain([f64::INFINITY]);
    sticks.map(move |u| {
        let x = log_of_stick(u).exp();
        match TINY < x && x < 1.0 {
            true => (x, x),
            false => (x.clamp(TINY, 1f64.next_down()), 0.0),
        }
    })
}

impl TransformedPrior for Simplex {
    fn coordinates(&self) -> usize {
        self.sticks.len()
    }

    fn parameters(&self) -> usize {
        self.alpha.len()
    }

    fn accumulate_gradient(&self, u: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
        accumulate_each(&self.sticks, u, scale, gradient)
    }

    fn sample(&self, rng: &mut dyn Rng, u: &mut [f64]) {
        for (u, stick) in u.iter_mut().zip(&self.sticks) {
            *u = stick.sample(rng);
        }
    }

    fn write_parameters(&self, u: &[f64], _: &[f64], x: &mut [f64]) {
        for (x, (probability, _)) in x.iter_mut().zip(probabilities(u)) {
            *x = probability;
        }
    }

    /// Uses `d log x_k / du_k = 1 - b_k`, and `d log x_k / du_j = -b_j` for j before k.
    fn pull_back(&self, u: &[f64], _: &[f64], by_x: &mut [f64], _: &mut [f64], by_u: &mut [f64]) {
        for (slope, (_, derivative)) in by_x.iter_mut().zip(probabilities(u)) {
            *slope = times(*slope, derivative);
        }
        let mut later = by_x[u.len()];
        for j in (0..u.len()).rev() {
            by_u[j] += by_x[j] * sigmoid(-u[j]) - later * sigmoid(u[j]);
            later += by_x[j];
        }
    }

    /// Divides the probabilities by their sum, because the coordinates are ratios.
    fn write_coordinates(&self, x: &[f64], _: &[f64], u: &mut [f64]) {
        let sum = x.iter().sum::<f64>();
        let mut later = match (sum - 1.0).abs() < ROUNDED {
            true => x[u.len()],
            false => f64::NAN,
        };
        for j in (0..u.len()).rev() {
            u[j] = x[j].ln() - later.ln();
            later += x[j];
        }
    }

    fn support(&self) -> String {
        "numbers above 0 whose sum is 1".into()
    }
}

crate::num::deserialize_checked! { Simplex as (alpha: Vec<f64>) => Self::new(alpha) }
crate::num::serialize_as! { Simplex as simplex (simplex.alpha) }
