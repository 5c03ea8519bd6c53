//! A drift modifier learned from an ensemble of annealed particles.

use nalgebra::{Cholesky, DMatrix, DVector};
use rand::RngExt;

use crate::drift::DriftModifier;
use crate::drift::langevin::DriftModifiedLangevin;
use crate::estimate::Estimate;
use crate::kernel::{Block, NonFinite, Stage, StepSize};
use crate::model::Differentiable;
use crate::num::pairs;
use crate::path::{AnnealingPath, BetaDerivative};
use crate::population::Population;
use crate::random::{Purpose, stream};
use crate::schedule::{MidBetas, Schedule};
use crate::{Error, Result};

/// Penalties of the regression, relative to the variance of a feature, from which cross-validation chooses.
const PENALTIES: [f64; 5] = [1e-6, 1e-4, 1e-2, 0.1, 1.0];

/// A drift modifier `G = grad h`, `h = sum_j c_j phi_j`, fitted to the particles of a pilot run.
///
/// The growth of the log weight along G is `s - div(G p)/p`, with `s = d/dbeta log f` and the path's density p. It is
/// constant for an exact G. At each stage the coefficients minimise the growth's variance over the weighted particles,
/// by a regression of s on `div(p grad phi_j)/p`. Two-fold cross-validation chooses the penalty. The particles then
/// move with this G, and are resampled when their effective sample size falls below half. The pilot has
/// streams of its own, so a run with the same seed is unbiased. Source of the regression: zero-variance control
/// variates (Mira, Solgi and Imparato 2013).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EnsembleModifier<F> {
    features: F,
    betas: MidBetas,
    coefficients: Vec<DVector<f64>>,
    errors: Vec<f64>,
}

impl<F: Features> EnsembleModifier<F> {
    /// Fits a modifier at the middle of each stage of `schedule`, with `particles` particles. [`DriftModifiedLangevin`]
    /// moves them, with noise of variance `step_size`: a number or a [`StepSize`].
    ///
    /// # Errors
    /// Fewer particles than `2 (features + 1)`; features of another dimension than the path's; a step size that is not
    /// finite and positive; a NaN or an infinity in the pilot; particles that all leave the support.
    pub fn fit<P>(
        path: P,
        features: F,
        schedule: &Schedule,
        step_size: impl TryInto<StepSize, Error: Into<Error>>,
        particles: usize,
        seed: u64,
    ) -> Result<Self>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At: BetaDerivative + Differentiable,
    {
        // Each half of the cross-validation then has at least as many rows as the regression has variables.
        let least = 2 * (features.count() + 1);
        let expected = format!("at least {least}, twice the features and one");
        Error::check(particles >= least, "particles", particles, expected)?;
        let step_size = step_size.try_into().map_err(Into::into)?;
        let first = stream(seed, Purpose::ENSEMBLE, 0);
        let mut particles = Population::start(&path, 0, particles, first)?;
        let dimension = particles.block().states()[0].len();
        Error::check_dimension("features", features.dimension(), dimension)?;
        let mut fitted = Self {
            features,
            betas: MidBetas::of(schedule),
            coefficients: Vec::new(),
            errors: Vec::new(),
        };
        for (k, &beta) in schedule.betas()[1..].iter().enumerate() {
            let middle = path.at(fitted.betas.betas()[k]);
            let stage = Stage::new(k + 1, particles.stage().model, &middle);
            let (coefficients, error) = regress(&fitted.features, stage, particles.block())?;
            fitted.coefficients.push(coefficients);
            fitted.errors.push(error);
            let kernel = DriftModifiedLangevin::new(&fitted, step_size.clone())?;
            particles.advance_to(&kernel, beta)?;
            resample_where_needed(particles.block_mut())?;
        }
        Ok(fitted)
    }

    /// Returns `(beta, share)` at the middle of each stage. The share is the variance of the log weight's growth with
    /// G, divided by the variance without G, by cross-validation.
    pub fn errors(&self) -> impl ExactSizeIterator<Item = (f64, f64)> {
        let errors = self.errors.iter();
        self.betas.betas().iter().copied().zip(errors.copied())
    }
}

impl<F: Features> DriftModifier for EnsembleModifier<F> {
    /// Writes G with the coefficients of the nearest stage.
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>) {
        let (left, right, part) = self.betas.around(beta);
        let nearest = if part <= 0.5 { left } else { right };
        // During the fit later stages have no coefficients yet.
        let nearest = nearest.min(self.coefficients.len() - 1);
        self.features
            .field_into(&self.coefficients[nearest], state, modifier);
    }
}

/// Fits the coefficients at the model at the end of `stage`, and returns them with their cross-validated error.
fn regress<M: BetaDerivative<State = DVector<f64>> + Differentiable>(
    features: &impl Features,
    stage: Stage<'_, M>,
    particles: &Block<DVector<f64>>,
) -> Result<(DVector<f64>, f64)> {
    let middle = stage.model;
    let columns = features.count() + 1;
    let mut rows = DMatrix::zeros(columns, particles.len());
    let mut log_weights = vec![f64::NEG_INFINITY; particles.len()];
    let mut gradient = DVector::zeros(particles.states()[0].len());
    for i in particles.alive() {
        let state = &particles.states()[i];
        let place = (i, stage.index, stage.beta);
        let at = |error: NonFinite| error.of_model(middle, place, i..i + 1);
        let here = middle.gradient_into(state, &mut gradient);
        let here = NonFinite::check_log_density("log density", here).map_err(at)?;
        if here == f64::NEG_INFINITY {
            continue;
        }
        let mut row = rows.column_mut(i);
        let row = row.as_mut_slice();
        features.generator_into(state, &gradient, &mut row[..columns - 1]);
        row[columns - 1] = middle.beta_derivative(state);
        let row = row.iter().copied();
        Error::check_finite("features or beta derivative of a particle", row)?;
        let half_way = NonFinite::check_log_density("log ratio", stage.log_ratio(state));
        log_weights[i] = particles.log_weights()[i] + half_way.map_err(at)?;
    }
    let estimate = Estimate::from_log_weights(&log_weights)?;
    let weights: Vec<f64> = log_weights
        .iter()
        .map(|x| (x - estimate.value()).exp())
        .collect();
    Ok(cross_validated(&rows, &weights))
}

/// Resamples systematically if the effective sample size is below half the particles.
fn resample_where_needed(particles: &mut Block<DVector<f64>>) -> Result<()> {
    let estimate = Estimate::from_log_weights(particles.log_weights())?;
    if estimate.effective_sample_size() >= 0.5 * particles.len() as f64 {
        return Ok(());
    }
    let mut due = particles.rng_mut(0).random::<f64>();
    let count = particles.len();
    let mut chosen = Vec::with_capacity(count);
    let mut cumulative = 0.0;
    for (state, log_weight) in particles.states().iter().zip(particles.log_weights()) {
        cumulative += (log_weight - estimate.value()).exp();
        while due < cumulative && chosen.len() < count {
            chosen.push(state.clone());
            due += 1.0;
        }
    }
    // Rounding may leave a particle to choose.
    while let (true, Some(last)) = (chosen.len() < count, chosen.last()) {
        chosen.push(last.clone());
    }
    particles.replace_states(chosen);
    Ok(())
}

/// Returns the coefficients fitted to all particles with the penalty of the smallest cross-validation error, and that
/// error.
fn cross_validated(rows: &DMatrix<f64>, weights: &[f64]) -> (DVector<f64>, f64) {
    let fold = |keep: &dyn Fn(usize) -> bool| {
        let kept = weights.iter().enumerate();
        covariance(rows, kept.map(|(i, &w)| if keep(i) { w } else { 0.0 }))
    };
    let halves = [fold(&|i| i % 2 == 0), fold(&|i| i % 2 == 1)];
    let mut best = (f64::INFINITY, PENALTIES[0]);
    for penalty in PENALTIES {
        let left = |from: usize| unexplained(&halves[1 - from], &solve(&halves[from], penalty));
        let share = 0.5 * (left(0) + left(1));
        if share < best.0 {
            best = (share, penalty);
        }
    }
    (solve(&fold(&|_| true), best.1), best.0)
}

/// Returns the weighted covariance of the features and of s, the regressed variable: a row each, a column per particle.
fn covariance(rows: &DMatrix<f64>, weights: impl Iterator<Item = f64>) -> DMatrix<f64> {
    let weights = DVector::from_iterator(rows.ncols(), weights);
    // All weight may lie in the other half of the cross-validation.
    let total = weights.sum().max(f64::MIN_POSITIVE);
    let mean = rows * &weights / total;
    let mut centred = rows.clone();
    for (mut column, weight) in centred.column_iter_mut().zip(&weights) {
        column -= &mean;
        column *= (weight / total).sqrt();
    }
    &centred * centred.transpose()
}

/// Regresses the last variable on the others. The penalty on a coefficient is in proportion to its variable's variance.
fn solve(covariance: &DMatrix<f64>, penalty: f64) -> DVector<f64> {
    let count = covariance.nrows() - 1;
    // A feature that is constant on all particles gets the coefficient 0.
    let scales = DVector::from_fn(count, |j, _| match covariance[(j, j)].sqrt() {
        0.0 => 1.0,
        scale => scale,
    });
    let correlation = DMatrix::from_fn(count, count, |i, j| {
        let ridge = if i == j { penalty } else { 0.0 };
        covariance[(i, j)] / (scales[i] * scales[j]) + ridge
    });
    let target = DVector::from_fn(count, |j, _| covariance[(j, count)] / scales[j]);
    match Cholesky::new(correlation) {
        Some(cholesky) => cholesky.solve(&target).component_div(&scales),
        // Rounding outweighs the penalty: no modifier.
        None => DVector::zeros(count),
    }
}

/// Returns the share of the last variable's variance that `coefficients` leave unexplained.
fn unexplained(covariance: &DMatrix<f64>, coefficients: &DVector<f64>) -> f64 {
    let count = coefficients.len();
    let residual = coefficients.clone().insert_row(count, -1.0);
    residual.dot(&(covariance * &residual)) / covariance[(count, count)].max(f64::MIN_POSITIVE)
}

crate::num::deserialize_checked! {
    EnsembleModifier<F: Features> {
        features: F,
        betas: MidBetas,
        coefficients: Vec<DVector<f64>>,
        errors: Vec<f64>,
    } => self.checked()
}

#[cfg(feature = "serde")]
impl<F: Features> EnsembleModifier<F> {
    fn checked(self) -> Result<Self> {
        let stages = self.betas.betas().len();
        Error::check_dimension("coefficients", self.coefficients.len(), stages)?;
        Error::check_dimension("errors", self.errors.len(), stages)?;
        Error::check_finite("errors", self.errors.iter().copied())?;
        for coefficients in &self.coefficients {
            Error::check_dimension("coefficients", coefficients.len(), self.features.count())?;
            Error::check_finite("coefficients", coefficients.iter().copied())?;
        }
        Ok(self)
    }
}

/// Functions `phi_j` of a vector, which span the modifiers `G = sum_j c_j grad phi_j`.
pub trait Features {
    /// Returns the dimension of the states.
    fn dimension(&self) -> usize;

    /// Returns the number of features.
    fn count(&self) -> usize;

    /// Writes `sum_j c_j grad phi_j(x)` to `field`.
    fn field_into(
        &self,
        coefficients: &DVector<f64>,
        state: &DVector<f64>,
        field: &mut DVector<f64>,
    );

    /// Writes `div(p grad phi_j) / p = laplacian phi_j + grad phi_j . grad log p` at x to `generated`, for each j.
    fn generator_into(
        &self,
        state: &DVector<f64>,
        log_density_gradient: &DVector<f64>,
        generated: &mut [f64],
    );
}

/// The coordinates, their products, and Gaussian bumps `exp(-|x - c|^2 / (2 l^2))` of widths l at centres c. The
/// polynomials give the affine fields, which are exact between Gaussians. A bump at least as wide as a mode gathers
/// mass there.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BumpFeatures {
    dimension: usize,
    bumps: Vec<Bump>,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Bump {
    centre: DVector<f64>,
    /// `1 / l^2`.
    precision: f64,
}

impl BumpFeatures {
    /// Creates the polynomials up to degree 2, and one bump of every width at every centre.
    ///
    /// # Errors
    /// A dimension of 0; a centre of another length or not finite; a width or its square not finite and positive.
    pub fn new(dimension: usize, centres: &[DVector<f64>], widths: &[f64]) -> Result<Self> {
        let mut bumps = Vec::new();
        for centre in centres {
            for &width in widths {
                Error::check_positive("width", width)?;
                bumps.push(Bump {
                    centre: centre.clone(),
                    precision: width.powi(-2),
                });
            }
        }
        Self::from_bumps(dimension, bumps)
    }

    fn from_bumps(dimension: usize, bumps: Vec<Bump>) -> Result<Self> {
        Error::check_count("dimension", dimension, 1)?;
        for Bump { centre, precision } in &bumps {
            Error::check_dimension("centre", centre.len(), dimension)?;
            Error::check_finite("centre", centre.iter().copied())?;
            Error::check_positive("precision of a bump", *precision)?;
        }
        Ok(Self { dimension, bumps })
    }

    fn polynomials(&self) -> usize {
        self.dimension * (self.dimension + 3) / 2
    }
}

impl Bump {
    /// Returns the bump's value at `state`, and the squared distance of `state` from the centre.
    fn at(&self, state: &DVector<f64>) -> (f64, f64) {
        let pairs = state.iter().zip(self.centre.iter());
        let distance: f64 = pairs.map(|(x, c)| (x - c) * (x - c)).sum();
        ((-0.5 * self.precision * distance).exp(), distance)
    }
}

impl Features for BumpFeatures {
    fn dimension(&self) -> usize {
        self.dimension
    }

    fn count(&self) -> usize {
        self.polynomials() + self.bumps.len()
    }

    fn field_into(
        &self,
        coefficients: &DVector<f64>,
        state: &DVector<f64>,
        field: &mut DVector<f64>,
    ) {
        let d = self.dimension;
        field.copy_from(&coefficients.rows(0, d));
        for ((i, j), &c) in pairs(d).zip(coefficients.iter().skip(d)) {
            field[i] += c * state[j];
            field[j] += c * state[i];
        }
        let bumps = coefficients.iter().skip(self.polynomials());
        for (bump, &c) in self.bumps.iter().zip(bumps) {
            let pull = -c * bump.precision * bump.at(state).0;
            field.axpy(pull, state, 1.0);
            field.axpy(-pull, &bump.centre, 1.0);
        }
    }

    fn generator_into(
        &self,
        state: &DVector<f64>,
        log_density_gradient: &DVector<f64>,
        generated: &mut [f64],
    ) {
        let (x, g, d) = (state, log_density_gradient, self.dimension);
        generated[..d].copy_from_slice(g.as_slice());
        for ((i, j), value) in pairs(d).zip(&mut generated[d..]) {
            let laplacian = if i == j { 2.0 } else { 0.0 };
            *value = laplacian + x[i] * g[j] + x[j] * g[i];
        }
        let along = g.dot(x);
        for (bump, value) in self.bumps.iter().zip(&mut generated[self.polynomials()..]) {
            let (height, distance) = bump.at(x);
            let curvature = bump.precision * distance - d as f64;
            let slope = along - g.dot(&bump.centre);
            *value = height * bump.precision * (curvature - slope);
        }
    }
}

crate::num::deserialize_checked! {
    BumpFeatures { dimension: usize, bumps: Vec<Bump> } => Self::from_bumps(dimension, bumps)
}

#[cfg(test)]
mod tests {
    use nalgebra::dmatrix;

    use super::*;

    /// A narrow bump that no particle reaches is 0 on all of them.
    #[test]
    fn a_constant_feature_leaves_the_other_coefficients_as_they_are() {
        let with = dmatrix![2.0, 0.0, 1.0; 0.0, 0.0, 0.0; 1.0, 0.0, 3.0];
        let without = dmatrix![2.0, 1.0; 1.0, 3.0];
        for penalty in PENALTIES {
            let (with, without) = (solve(&with, penalty), solve(&without, penalty));
            assert_eq!((with[0], with[1]), (without[0], 0.0));
            assert!(with[0] > 0.2);
        }
    }
}
