//! An RBM with Gaussian visible units and 0/1 hidden units, its path from a Gaussian, and block Gibbs.

use std::f64::consts::{LN_2, TAU};

use annealed::Result;
use annealed::estimate::log_sum_exp;
use annealed::kernel::{NonFinite, Stage, Step, TransitionKernel};
use annealed::model::{Gaussian, UnnormalizedModel};
use annealed::path::{AnnealingPath, Intermediate};
use annealed::random::{Purpose, stream};
use annealed::rbm::{sigmoid, softplus};
use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// An RBM with `log f(v) = -|v - b|^2 / 2 + sum_j softplus(a_j + W_j v)`, a mixture of `2^M` Gaussians of covariance I.
#[derive(Debug, Clone)]
pub struct GaussianRbm {
    /// W, M x D.
    weights: DMatrix<f64>,
    hidden_bias: DVector<f64>,
    visible_bias: DVector<f64>,
}

impl GaussianRbm {
    /// Creates a machine whose weight rows have norm `norm` and random directions. The hidden biases make it nearly
    /// symmetric about `b + W^T (1/2, .., 1/2)`, so that no hidden state outweighs all others.
    pub fn random(hidden: usize, visible: usize, norm: f64, seed: u64) -> Self {
        let mut rng = stream(seed, Purpose::RBM_WEIGHTS, 0);
        let mut normal = |_, _| rng.sample::<f64, _>(StandardNormal);
        let visible_bias = DVector::from_fn(visible, &mut normal);
        let mut weights = DMatrix::from_fn(hidden, visible, &mut normal);
        let rest = 0.3 * DVector::from_fn(hidden, &mut normal);
        for mut row in weights.row_iter_mut() {
            row *= norm / row.norm();
        }
        let centre = &visible_bias + 0.5 * weights.row_sum_tr();
        Self {
            hidden_bias: rest - &weights * centre,
            weights,
            visible_bias,
        }
    }

    fn hidden_units(&self) -> usize {
        self.hidden_bias.len()
    }

    fn activation(&self, visible: &DVector<f64>) -> DVector<f64> {
        &self.hidden_bias + &self.weights * visible
    }

    fn quadratic(&self, visible: &DVector<f64>) -> f64 {
        -0.5 * (visible - &self.visible_bias).norm_squared()
    }

    /// Returns for each hidden state h the mean `b + W^T h` of v given h, and its log mass without `(2 pi)^(D / 2)`:
    /// `a.h + (|b + W^T h|^2 - |b|^2) / 2`.
    fn components(&self) -> impl Iterator<Item = (DVector<f64>, f64)> {
        (0..1_usize << self.hidden_units()).map(|state| {
            let bit = |j, _| f64::from((state >> j & 1) as u8);
            let hidden = DVector::from_fn(self.hidden_units(), bit);
            let mean = &self.visible_bias + self.weights.tr_mul(&hidden);
            let gain = 0.5 * (mean.norm_squared() - self.visible_bias.norm_squared());
            let log_mass = self.hidden_bias.dot(&hidden) + gain;
            (mean, log_mass)
        })
    }

    pub fn exact_log_normalizer(&self) -> f64 {
        let masses: Vec<f64> = self.components().map(|(_, mass)| mass).collect();
        0.5 * self.visible_bias.len() as f64 * TAU.ln() + log_sum_exp(&masses)
    }

    pub fn exact_samples(&self, count: usize, seed: u64) -> Vec<DVector<f64>> {
        let mut rng = stream(seed, Purpose::DATA, 0);
        let (means, masses): (Vec<_>, Vec<_>) = self.components().unzip();
        let log_total = log_sum_exp(&masses);
        let mut draw = || {
            let mut rest = rng.random::<f64>();
            let chosen = masses.iter().position(|mass| {
                rest -= (mass - log_total).exp();
                rest < 0.0
            });
            let mean = &means[chosen.unwrap_or(0)];
            mean.map(|x| x + rng.sample::<f64, _>(StandardNormal))
        };
        (0..count).map(|_| draw()).collect()
    }

    /// Returns the same machine in coordinates `U^T v` for an orthogonal U. Its log Z is the same.
    pub fn rotated(&self, axes: &DMatrix<f64>) -> Self {
        Self {
            weights: &self.weights * axes,
            hidden_bias: self.hidden_bias.clone(),
            visible_bias: axes.tr_mul(&self.visible_bias),
        }
    }

    pub fn visible_bias(&self) -> &DVector<f64> {
        &self.visible_bias
    }
}

/// The path that mixes energies, from a Gaussian with independent coordinates and no weights:
///
/// `log f_beta(v) = (1 - beta) log f_0(v) - beta |v - b|^2 / 2 + sum_j softplus(beta (a_j + W_j v)) - M log 2`.
#[derive(Debug, Clone)]
pub struct GaussianRbmPath {
    pub base: Gaussian,
    /// Precisions of the base; `linear` is their product with the means.
    precisions: DVector<f64>,
    linear: DVector<f64>,
    target: GaussianRbm,
}

impl GaussianRbmPath {
    pub fn new(mean: DVector<f64>, variances: DVector<f64>, target: GaussianRbm) -> Result<Self> {
        let precisions = variances.map(f64::recip);
        Ok(Self {
            linear: precisions.component_mul(&mean),
            precisions,
            base: Gaussian::diagonal(mean, variances)?,
            target,
        })
    }

    /// Returns the amount by which log Z of the machine exceeds log Z of the path's end.
    pub fn free_units(&self) -> f64 {
        self.target.hidden_units() as f64 * LN_2
    }
}

#[derive(Debug, Clone, Copy)]
pub struct GaussianRbmAt<'a> {
    path: &'a GaussianRbmPath,
    beta: f64,
}

impl<'p> AnnealingPath for &'p GaussianRbmPath {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At = GaussianRbmAt<'p>;

    fn base(&self) -> &Gaussian {
        &self.base
    }

    fn at(&self, beta: f64) -> GaussianRbmAt<'p> {
        GaussianRbmAt { path: self, beta }
    }
}

impl UnnormalizedModel for GaussianRbmAt<'_> {
    type State = DVector<f64>;

    fn log_density(&self, visible: &DVector<f64>) -> f64 {
        let GaussianRbmPath { base, target, .. } = self.path;
        let activation = target.activation(visible);
        let hidden: f64 = activation.iter().map(|x| softplus(self.beta * x)).sum();
        (1.0 - self.beta) * base.log_density(visible)
            + self.beta * target.quadratic(visible)
            + hidden
            - self.path.free_units()
    }
}

impl Intermediate for GaussianRbmAt<'_> {
    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, previous: &Self, visible: &DVector<f64>) -> f64 {
        let GaussianRbmPath { base, target, .. } = self.path;
        let gain = |x: &f64| softplus(self.beta * x) - softplus(previous.beta * x);
        let step = self.beta - previous.beta;
        step * (target.quadratic(visible) - base.log_density(visible))
            + target.activation(visible).iter().map(gain).sum::<f64>()
    }
}

/// A kernel that draws all hidden units given the visible ones, then all visible units.
#[derive(Debug, Clone, Copy)]
pub struct GaussianBlockGibbs;

impl TransitionKernel<GaussianRbmAt<'_>> for GaussianBlockGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, GaussianRbmAt<'_>>,
        visible: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let GaussianRbmAt { path, beta } = *stage.model;
        let on = |x: f64| f64::from(rng.random::<f64>() < sigmoid(beta * x));
        let hidden = path.target.activation(visible).map(on);
        let field = &path.target.visible_bias + path.target.weights.tr_mul(&hidden);
        for (i, unit) in visible.iter_mut().enumerate() {
            let precision = (1.0 - beta) * path.precisions[i] + beta;
            let mean = ((1.0 - beta) * path.linear[i] + beta * field[i]) / precision;
            *unit = mean + rng.sample::<f64, _>(StandardNormal) / precision.sqrt();
        }
        Ok(Step::invariant())
    }
}
