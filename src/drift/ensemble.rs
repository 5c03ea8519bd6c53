//! A drift modifier learned from an ensemble of annealed particles.

use nalgebra::{Cholesky, DMatrix, DVector};
use rand::RngExt;

use crate::ais::Population;
use crate::chain::{Block, NonFinite, Stage};
use crate::drift::DriftModifier;
use crate::drift::features::Features;
use crate::drift::langevin::DriftModifiedLangevin;
use crate::drift::middles::Middles;
use crate::estimate::Estimate;
use crate::kernel::StepSize;
use crate::model::Differentiable;
use crate::path::{AnnealingPath, BetaDerivative};
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Penalties tried, relative to the variance of a feature.
const PENALTIES: [f64; 5] = [1e-6, 1e-4, 1e-2, 0.1, 1.0];

/// A drift modifier `G = grad h`, `h = sum_j c_j phi_j`, fitted to the particles of a pilot run.
///
/// Along the flow of G the log weight grows by `s - div(G p)/p` for each unit of beta. This rate is
/// constant for an exact G. The coefficients at a stage minimise the variance of that rate over the
/// weighted particles. This is a least-squares regression of s on `div(p grad phi_j)/p`, with a
/// penalty chosen by two-fold cross-validation. The particles then move on with the G just found,
/// and are resampled where their effective sample size falls below half.
///
/// [`errors`](Self::errors) reports the share of the variance of s that is left on particles held out
/// of the fit. It says nothing of regions that the pilot's particles do not reach. The pilot has the
/// random streams of [`Purpose::Ensemble`], so that a run with the same seed is independent of it
/// and unbiased.
///
/// Source of the regression: zero-variance control variates (Mira, Solgi and Imparato 2013).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EnsembleModifier<F> {
    features: F,
    betas: Middles,
    coefficients: Vec<DVector<f64>>,
    errors: Vec<f64>,
}

impl<F: Features> EnsembleModifier<F> {
    /// Fits a modifier at the middle of each stage of the schedule with `particles` particles,
    /// moved by [`DriftModifiedLangevin`] with noise of variance `step_size`, a number or a
    /// [`StepSize`].
    ///
    /// A particle visits one new point at each stage. The fit evaluates one gradient there, and the
    /// kernel as many as in a run.
    ///
    /// # Errors
    /// Fewer particles than twice the coefficients, which are one more than the features; features
    /// of another dimension than the path's; a step size that is not finite and positive; a NaN or
    /// an infinity met by the pilot; particles that all leave the support.
    pub fn fit<'p, P>(
        path: &'p P,
        features: F,
        schedule: &Schedule,
        step_size: impl TryInto<StepSize, Error: Into<Error>>,
        particles: usize,
        seed: u64,
    ) -> Result<Self>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At<'p>: BetaDerivative + Differentiable,
    {
        let least = 2 * (features.count() + 1);
        let expected = format!("at least {least}, twice the features and one");
        Error::check(particles >= least, "particles", particles, expected)?;
        let step_size = step_size.try_into().map_err(Into::into)?;
        let first = stream(seed, Purpose::Ensemble, 0);
        let mut particles = Population::start(path, 0, particles, first)?;
        let dimension = particles.block().states()[0].len();
        Error::check_dimension("features", features.dimension(), dimension)?;
        let mut fitted = Self {
            features,
            betas: Middles::of(schedule),
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

    /// `(beta, share)` at the middle of each stage. The share is the variance of the log weight's
    /// growth with G over that without G, on particles that were not fitted to.
    pub fn errors(&self) -> impl ExactSizeIterator<Item = (f64, f64)> {
        let errors = self.errors.iter();
        self.betas.betas().iter().copied().zip(errors.copied())
    }
}

impl<F: Features> DriftModifier for EnsembleModifier<F> {
    /// With the coefficients of the nearest stage.
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>) {
        let (left, right, part) = self.betas.around(beta);
        let nearest = if part <= 0.5 { left } else { right };
        // During the fit later stages have no coefficients yet.
        let nearest = nearest.min(self.coefficients.len() - 1);
        self.features
            .field_into(&self.coefficients[nearest], state, modifier);
    }
}

/// The coefficients at the model that a stage leads to, the middle, and their error.
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
        let at = |error: NonFinite| error.at(i, stage.index, stage.beta);
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

/// Systematic resampling where the effective sample size is below half: a particle of relative
/// weight w leaves w copies on average.
fn resample_where_needed(particles: &mut Block<DVector<f64>>) -> Result<()> {
    let estimate = Estimate::from_log_weights(particles.log_weights())?;
    if estimate.effective_sample_size() >= 0.5 * particles.len() as f64 {
        return Ok(());
    }
    let mut due = particles.chain_mut(0).1.random::<f64>();
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
    // Rounding may leave one to choose, at the far end.
    while let (true, Some(last)) = (chosen.len() < count, chosen.last()) {
        chosen.push(last.clone());
    }
    particles.replace_states(chosen);
    Ok(())
}

/// Coefficients from all particles with the penalty that predicts best from one half to the other,
/// and the share of variance that it leaves there.
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

/// The weighted covariance of features and target, one row of `rows` each.
fn covariance(rows: &DMatrix<f64>, weights: impl Iterator<Item = f64>) -> DMatrix<f64> {
    let weights = DVector::from_iterator(rows.ncols(), weights);
    let total = weights.sum().max(f64::MIN_POSITIVE);
    let mean = rows * &weights / total;
    let mut centred = rows.clone();
    for (mut column, weight) in centred.column_iter_mut().zip(&weights) {
        column -= &mean;
        column *= (weight / total).sqrt();
    }
    &centred * centred.transpose()
}

/// Least squares of the last variable on the others, each penalised in proportion to its variance.
fn solve(covariance: &DMatrix<f64>, penalty: f64) -> DVector<f64> {
    let count = covariance.nrows() - 1;
    let scales = DVector::from_fn(count, |j, _| {
        covariance[(j, j)].sqrt().max(f64::MIN_POSITIVE)
    });
    let correlation = DMatrix::from_fn(count, count, |i, j| {
        let ridge = if i == j { penalty } else { 0.0 };
        covariance[(i, j)] / (scales[i] * scales[j]) + ridge
    });
    let target = DVector::from_fn(count, |j, _| covariance[(j, count)] / scales[j]);
    match Cholesky::new(correlation) {
        Some(cholesky) => cholesky.solve(&target).component_div(&scales),
        // Only where rounding outweighs the penalty: no modifier.
        None => DVector::zeros(count),
    }
}

/// The share of the last variable's variance that these coefficients leave.
fn unexplained(covariance: &DMatrix<f64>, coefficients: &DVector<f64>) -> f64 {
    let count = coefficients.len();
    let residual = coefficients.clone().insert_row(count, -1.0);
    residual.dot(&(covariance * &residual)) / covariance[(count, count)].max(f64::MIN_POSITIVE)
}

crate::num::deserialize_checked! {
    EnsembleModifier<F: Features> {
        features: F,
        betas: Middles,
        coefficients: Vec<DVector<f64>>,
        errors: Vec<f64>,
    } => EnsembleModifier { features, betas, coefficients, errors }.checked()
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
