//! Annealing as optimisation: the best point met, and a lower bound on the mean objective.

use crate::ais::{Merge, Recorder};
use crate::chain::{Block, Stage};
use crate::num::WeightedMean;
use crate::path::Intermediate;
use crate::{Error, Result};

/// A recorder of an objective L along a run: its weighted mean at each recorded stage, and the
/// best point that any chain stood on there.
#[derive(Clone)]
pub struct ObjectiveTrace<F, S> {
    objective: F,
    best: Option<(f64, S)>,
    stages: Vec<Traced>,
}

/// L at one stage.
#[derive(Debug, Clone, Copy)]
struct Traced {
    beta: f64,
    mean: WeightedMean,
    best: f64,
}

impl<F: Fn(&S) -> f64, S> ObjectiveTrace<F, S> {
    /// A recorder of this objective, which is to be maximised.
    pub fn new(objective: F) -> Self {
        Self {
            objective,
            best: None,
            stages: Vec::new(),
        }
    }
}

impl<F, S> ObjectiveTrace<F, S> {
    /// The largest value found and its point, or `None` before any finite value.
    pub fn best(&self) -> Option<(f64, &S)> {
        self.best.as_ref().map(|(value, state)| (*value, state))
    }

    /// `(beta_k, mean of L under p_k, largest L among the chains)` at each recorded stage. The gain
    /// at a stage is `beta_k` times the gain at the end of the path.
    pub fn stages(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let row = |stage: &Traced| (stage.beta, stage.mean.get(), stage.best);
        self.stages.iter().map(row)
    }
}

impl<M, F> Recorder<M> for ObjectiveTrace<F, M::State>
where
    M: Intermediate<State: Clone>,
    F: Fn(&M::State) -> f64 + Clone,
{
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        let mut traced = Traced {
            beta: stage.beta,
            mean: WeightedMean::default(),
            best: f64::NEG_INFINITY,
        };
        for (state, &log_weight) in block.states().iter().zip(block.log_weights()) {
            let value = (self.objective)(state);
            traced.mean.add(log_weight, value);
            traced.best = traced.best.max(value);
            if value.is_finite() && self.best.as_ref().is_none_or(|best| value > best.0) {
                self.best = Some((value, state.clone()));
            }
        }
        self.stages.push(traced);
    }
}

impl<F, S> Merge for ObjectiveTrace<F, S> {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.stages.iter_mut().zip(&right.stages) {
            mine.mean.merge(&theirs.mean);
            mine.best = mine.best.max(theirs.best);
        }
        let value = |best: &Option<(f64, S)>| best.as_ref().map_or(f64::NEG_INFINITY, |b| b.0);
        if value(&right.best) > value(&self.best) {
            self.best = right.best;
        }
    }
}

impl<F, S: std::fmt::Debug> std::fmt::Debug for ObjectiveTrace<F, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectiveTrace")
            .field("best", &self.best)
            .field("stages", &self.stages)
            .finish_non_exhaustive()
    }
}

/// An objective L over `R^d` with a maximum `L*` at `w*`, under the reference `N(0, sigma0^2 I)`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    /// It follows from `gamma E L >= log Z` (Gibbs) and from the values of L on the ball. Source:
    /// Barron and Luo (2007), Lemma, with the gain written out.
    ///
    /// # Errors
    /// A dimension of 0; a gain, Lipschitz bound or deviation that is not finite and positive; a
    /// value or distance that is not finite.
    pub fn mean_objective_bound(&self, gain: f64) -> Result<f64> {
        Error::check_positive("gain", gain)?;
        Error::check_positive("lipschitz", self.lipschitz)?;
        Error::check_positive("prior deviation", self.prior_deviation)?;
        Error::check_finite("value and distance", [self.value, self.distance])?;
        Error::check_at_least("dimension", self.dimension, 1)?;
        let radius = self.dimension as f64 / (gain * self.lipschitz);
        let offset = self.distance / self.prior_deviation;
        let log_ball = log_ball_probability(self.dimension, radius / self.prior_deviation);
        Ok(self.value - self.lipschitz * radius + (log_ball - 0.5 * offset * offset) / gain)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ball_probabilities_in_one_to_four_dimensions() {
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
}
