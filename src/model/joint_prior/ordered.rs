//! Parameters in increasing order.

use libm::lgamma;
use rand::Rng;

use crate::model::Prior;
use crate::model::transformed_prior::{TransformedPrior, times};
use crate::num::with_slice;
use crate::{Error, Result};

/// The distribution of n sorted independent parameters, with coordinates u. The prior's coordinate v increases with a
/// parameter: `v_0 = u_0`, `v_i = v_{i-1} + exp u_i`, so `log p(u) = log n! + sum_i log p(v_i) + sum_{i > 0} u_i`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub(super) struct Ordered {
    prior: Prior,
    count: usize,
}

impl Ordered {
    pub(super) fn new(prior: Prior, count: usize) -> Result<Self> {
        Error::check_count("count", count, 1)?;
        Ok(Self { prior, count })
    }
}

/// Returns the parameters' coordinates v under the prior, in increasing order.
fn positions(u: &[f64]) -> impl Iterator<Item = f64> {
    let gaps = u.iter().enumerate();
    gaps.scan(0.0, |v, (i, u)| {
        *v += if i == 0 { *u } else { u.exp() };
        Some(*v)
    })
}

/// Adds the derivatives in u to `gradient`, given the derivatives `slopes` in the coordinates v. The coordinate `v_i`
/// depends on `u_0` to `u_i`.
fn pull_positions_back(u: &[f64], slopes: &[f64], gradient: &mut [f64]) {
    let mut later = 0.0;
    for i in (1..u.len()).rev() {
        later += slopes[i];
        // A gap that overflowed moves no parameter: its part is 0, not infinity times 0.
        gradient[i] += times(u[i].exp(), later);
    }
    gradient[0] += later + slopes[0];
}

impl TransformedPrior for Ordered {
    fn coordinates(&self) -> usize {
        self.count
    }

    fn accumulate_gradient(&self, u: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
        with_slice(u.len(), |slopes| {
            // The first term belongs to the sorted order. The second is the log of the Jacobian of the gaps `e^u`.
            let mut log_density = lgamma(self.count as f64 + 1.0) + u[1..].iter().sum::<f64>();
            for (slope, v) in slopes.iter_mut().zip(positions(u)) {
                if v.is_infinite() {
                    return f64::NEG_INFINITY;
                }
                let (of_one, own) = self.prior.log_density(v);
                log_density += of_one;
                *slope = scale * own;
            }
            if log_density > f64::NEG_INFINITY {
                pull_positions_back(u, slopes, gradient);
                gradient[1..].iter_mut().for_each(|slope| *slope += scale);
            }
            log_density
        })
    }

    fn sample(&self, rng: &mut dyn Rng, u: &mut [f64]) {
        u.iter_mut().for_each(|u| *u = self.prior.sample(rng));
        u.sort_unstable_by(f64::total_cmp);
        for i in (1..u.len()).rev() {
            // Two equal draws would give a coordinate of `-inf`.
            u[i] = (u[i] - u[i - 1]).max(f64::MIN_POSITIVE).ln();
        }
    }

    fn write_parameters(&self, u: &[f64], _: &[f64], x: &mut [f64]) {
        for (x, v) in x.iter_mut().zip(positions(u)) {
            *x = self.prior.parameter(v).0;
        }
    }

    fn pull_back(&self, u: &[f64], _: &[f64], by_x: &mut [f64], _: &mut [f64], by_u: &mut [f64]) {
        for (slope, v) in by_x.iter_mut().zip(positions(u)) {
            *slope = times(*slope, self.prior.parameter(v).1);
        }
        pull_positions_back(u, by_x, by_u);
    }

    fn write_coordinates(&self, x: &[f64], _: &[f64], u: &mut [f64]) {
        let mut previous = 0.0;
        for (i, (u, x)) in u.iter_mut().zip(x).enumerate() {
            let v = self.prior.coordinate(*x);
            *u = if i == 0 { v } else { (v - previous).ln() };
            previous = v;
        }
    }

    fn support(&self) -> String {
        format!("increasing numbers, each {}", self.prior.support())
    }
}

crate::num::deserialize_checked! {
    Ordered { prior: Prior, count: usize } => Self::new(prior, count)
}
