//! Gibbs sampling of ridge superpositions.

use nalgebra::DVector;
use rand::Rng;

use crate::Result;
use crate::drift::projection::{Cell, Projection};
use crate::drift::ridge::RidgeState;
use crate::drift::ridge_function::RidgeFunction;
use crate::drift::ridge_path::{RidgeAt, RidgeVectorAt, ridge_at};
use crate::kernel::{Block, Increment, NonFinite, Stage, Step, TransitionKernel};

/// Gibbs sampling on a [`RidgePath`](crate::drift::RidgePath): it draws all projections z given w, by exact rejection,
/// then w given z. With bounds on intervals ([`RidgeFunction::upper_bound_on`]) the number of proposals grows with the
/// log of the gain. Without them it grows as `exp(gamma/n (bound - f~))`, with the smoothed function f~. A million
/// proposals for one projection end a run with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RidgeGibbs {
    weight: Weight,
}

/// Step of the finite differences for the slope of a log ratio, in deviations of a projection.
const SLOPE_STEP: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Weight {
    Augmented,
    Collapsed,
    Tilted,
}

impl RidgeGibbs {
    /// Creates the kernel whose weights depend on the projections: stage k adds `(beta_k - beta_{k-1}) gamma L(z)` to
    /// the log weight. The weights are exactly unbiased.
    pub const fn augmented() -> Self {
        let weight = Weight::Augmented;
        Self { weight }
    }

    /// Creates the kernel whose weights depend on w alone, with the projections integrated out. Stage k adds
    ///
    /// `sum_i log [E exp(beta_k gamma/n f_i(u_i + delta xi)) / E exp(beta_{k-1} gamma/n f_i(u_i + delta xi))]`,
    ///
    /// with `u_i = x_i . w` and xi a standard normal. These weights have less variance, and are unbiased up to the
    /// error of the quadrature ([`RidgePrior::log_smoothed`](crate::drift::RidgePrior::log_smoothed)).
    pub const fn collapsed() -> Self {
        let weight = Weight::Collapsed;
        Self { weight }
    }

    /// Creates the kernel whose draws of w are tilted by a factor, so that they follow the density of the next stage
    /// (Barron and Luo 2007, slides). In stage k, w has the density `p(w|z) exp(a . w)`, normalised: `N(m + S a, S)`,
    /// with `m = E[w|z]` and S as in [`RidgePrior`](crate::drift::RidgePrior). The factor adapts: a is the gradient at
    /// m of l, the log ratio that [`collapsed`](Self::collapsed) adds. Then z is drawn given w. The stage adds
    ///
    /// `l(w) + a . (m - w) + a' S a / 2`.
    ///
    /// These weights have less variance than the collapsed ones, since the part of l that is linear in w adds none
    /// given z. They are unbiased like the collapsed ones, but take three times as many quadratures.
    ///
    /// ```
    /// use annealed::drift::{RidgeGibbs, RidgePath, Sinusoid};
    /// use annealed::prelude::*;
    /// use nalgebra::dmatrix;
    ///
    /// let wave = |amplitude| Sinusoid { amplitude, frequency: 2.0, phase: 0.0 };
    /// let design = dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0];
    /// let path = RidgePath::new(design, [1.0, -1.0, 0.5].map(wave), 6.0, 1.0, 0.3)?;
    /// let schedule = Schedule::linear(20)?;
    /// let ais = |kernel| Ais::new(&path, kernel).schedule(schedule.clone()).chains(200).seed(1);
    /// let (augmented, tilted) = (ais(RidgeGibbs::augmented()).run()?, ais(RidgeGibbs::tilted()).run()?);
    /// assert!((tilted.log_z() - 1.880842).abs() < 4.0 * tilted.standard_error());
    /// assert!(tilted.standard_error() < augmented.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    #[doc(alias = "adaptive Gibbs annealing")]
    pub const fn tilted() -> Self {
        let weight = Weight::Tilted;
        Self { weight }
    }

    fn increment<F: RidgeFunction, R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, RidgeAt<'_, F>>,
        state: &mut RidgeState,
        cells: &mut Vec<Cell>,
        rng: &mut R,
    ) -> Result<Increment, NonFinite> {
        let log_ratio = match self.weight {
            Weight::Augmented => stage.log_ratio(state),
            // At rest both densities are the same: quadratures would give 0, and a draw needs no tilt.
            _ if stage.is_at_rest() => 0.0,
            Weight::Collapsed => collapsed_log_ratio(stage, &state.w)?,
            Weight::Tilted => {
                let log_ratio = tilt(stage, state, rng)?;
                let log_ratio = NonFinite::check_log_density("log ratio", log_ratio)?;
                let step = sample_projections(stage.model, state, cells, rng)?;
                return Ok(Increment::new(log_ratio, step));
            }
        };
        let log_ratio = NonFinite::check_log_density("log ratio", log_ratio)?;
        let step = sweep(stage.model, state, cells, rng)?;
        Ok(Increment::new(log_ratio, step))
    }
}

impl<F: RidgeFunction> TransitionKernel<RidgeAt<'_, F>> for RidgeGibbs {
    type Workspace = Vec<Cell>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, RidgeAt<'_, F>>,
        state: &mut RidgeState,
        cells: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        sweep(stage.model, state, cells, rng)
    }

    fn advance(
        &self,
        stage: Stage<'_, RidgeAt<'_, F>>,
        block: &mut Block<RidgeState>,
        cells: &mut Self::Workspace,
    ) -> Result<()> {
        block.for_each(stage, |_, state, rng| {
            self.increment(stage, state, cells, rng)
        })
    }
}

/// The kernel over the vectors `(w, z)` of [`RidgePath::into_vectors`](super::RidgePath::into_vectors).
impl<F: RidgeFunction> TransitionKernel<RidgeVectorAt<'_, F>> for RidgeGibbs {
    type Workspace = Vec<Cell>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, RidgeVectorAt<'_, F>>,
        state: &mut DVector<f64>,
        cells: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let model = ridge_at(stage.model);
        in_parts(model, state, |state| sweep(&model, state, cells, rng))
    }

    fn advance(
        &self,
        stage: Stage<'_, RidgeVectorAt<'_, F>>,
        block: &mut Block<DVector<f64>>,
        cells: &mut Self::Workspace,
    ) -> Result<()> {
        let [previous, model] = [stage.previous, stage.model].map(ridge_at);
        let mut parts = Stage::new(stage.index, &previous, &model);
        if stage.is_at_rest() {
            parts = parts.rest();
        }
        block.for_each(stage, |_, state, rng| {
            in_parts(model, state, |state| {
                self.increment(parts, state, cells, rng)
            })
        })
    }
}

/// Draws z given w, then w given z.
fn sweep<F: RidgeFunction, R: Rng + ?Sized>(
    model: &RidgeAt<'_, F>,
    state: &mut RidgeState,
    cells: &mut Vec<Cell>,
    rng: &mut R,
) -> Result<Step, NonFinite> {
    let step = sample_projections(model, state, cells, rng)?;
    model.path().base().sample_direction(state, rng);
    Ok(step)
}

/// Draws z given w.
fn sample_projections<F: RidgeFunction, R: Rng + ?Sized>(
    model: &RidgeAt<'_, F>,
    state: &mut RidgeState,
    cells: &mut Vec<Cell>,
    rng: &mut R,
) -> Result<Step, NonFinite> {
    let prior = model.path().base();
    let centres = prior.design() * &state.w;
    let functions = model.path().functions();
    for ((z, &centre), f) in state.z.iter_mut().zip(&centres).zip(functions) {
        let projection = Projection {
            function: f,
            scale: model.scale(),
            centre,
            deviation: prior.deviation(),
        };
        *z = projection.sample(cells, rng)?;
    }
    Ok(Step::invariant())
}

/// Calls a function on the two parts of the vector `(w, z)`, and writes them back.
fn in_parts<F: RidgeFunction, T>(
    model: RidgeAt<'_, F>,
    state: &mut DVector<f64>,
    change: impl FnOnce(&mut RidgeState) -> T,
) -> T {
    let (n, d) = model.path().base().design().shape();
    let mut parts = RidgeState {
        w: state.rows(0, d).into_owned(),
        z: state.rows(d, n).into_owned(),
    };
    let result = change(&mut parts);
    state.rows_mut(0, d).copy_from(&parts.w);
    state.rows_mut(d, n).copy_from(&parts.z);
    result
}

/// Draws w given z with the factor `exp(a . w)` of [`RidgeGibbs::tilted`], and returns the log weight
/// `l(w) + log E[exp(a . w)|z] - a . w`, where l is the stage's collapsed log ratio.
fn tilt<F: RidgeFunction, R: Rng + ?Sized>(
    stage: Stage<'_, RidgeAt<'_, F>>,
    state: &mut RidgeState,
    rng: &mut R,
) -> Result<f64, NonFinite> {
    let prior = stage.model.path().base();
    let mean = prior.mean_direction(&state.z);
    let mut slopes = prior.design() * &mean;
    // Inexact slopes add variance but no bias: the normalizer below is exact for any factor that depends on z alone.
    let step = SLOPE_STEP * prior.deviation();
    for (index, u) in slopes.iter_mut().enumerate() {
        let at = |sign: f64| smoothed_log_ratio(stage, index, *u + sign * step);
        *u = (at(1.0)? - at(-1.0)?) / (2.0 * step);
    }
    let factor = prior.design().tr_mul(&slopes);
    let shift = prior.shift(&factor);
    prior.sample_direction(state, rng);
    state.w += &shift;
    let normalizer = factor.dot(&mean) + 0.5 * factor.dot(&shift);
    Ok(collapsed_log_ratio(stage, &state.w)? + normalizer - factor.dot(&state.w))
}

/// Returns the change over a stage of the log density of w, with z integrated out.
fn collapsed_log_ratio<F: RidgeFunction>(
    stage: Stage<'_, RidgeAt<'_, F>>,
    w: &DVector<f64>,
) -> Result<f64, NonFinite> {
    let centres = stage.model.path().base().design() * w;
    let terms = centres.iter().enumerate();
    terms
        .map(|(index, &u)| smoothed_log_ratio(stage, index, u))
        .sum()
}

/// Returns the term of ridge `index` in the sum [`collapsed_log_ratio`]. The argument `u` is the projection `x_i . w`.
fn smoothed_log_ratio<F: RidgeFunction>(
    stage: Stage<'_, RidgeAt<'_, F>>,
    index: usize,
    u: f64,
) -> Result<f64, NonFinite> {
    let path = stage.model.path();
    let smoothed = |model: &RidgeAt<'_, F>| {
        let found = path
            .base()
            .log_smoothed(&path.functions()[index], u, model.scale());
        found.map_err(|_| {
            NonFinite::new(
                "quadrature of a ridge function over its projection",
                f64::NAN,
                "a function that varies less within a deviation, or weights that are augmented",
            )
        })
    };
    Ok(smoothed(stage.model)? - smoothed(stage.previous)?)
}
