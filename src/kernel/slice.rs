//! Slice sampling, coordinate by coordinate.

use nalgebra::DVector;
use rand::{Rng, RngExt};

use crate::kernel::step_size::StepSize;
use crate::kernel::vector::advance_vectors;
use crate::kernel::{Block, Invariant, NonFinite, Stage, Step, TransitionKernel, own_reversal};
use crate::path::Intermediate;
use crate::{Error, Result};

/// Widths by which an interval may be stepped out, and halvings after which a coordinate stays.
const WIDTHS: u32 = 64;
const SHRINKAGES: usize = 200;
/// Evaluations of the density that a coordinate takes, about.
const EVALUATIONS: usize = 6;

/// Slice sampling by stepping out and shrinkage, one coordinate after another.
///
/// Each coordinate is drawn anew, uniformly from the part of an interval where the density is above a random level.
/// The interval grows in steps of `width` until both ends are below the level, and shrinks towards the state at each
/// point that is below. Nothing has to be tuned: a width that is wrong by a factor of ten either way costs a few
/// evaluations, no acceptance. The interval is at most 64 widths long.
///
/// A sweep visits the coordinates in their order or in the opposite one, with equal probability. The kernel leaves
/// `p_k` invariant and is its own reversal: its correction is 0. It needs no gradient, and is at home on bounded
/// supports ([`UniformBox`](crate::model::UniformBox)). Strongly correlated coordinates move slowly: there
/// [`Hmc`](crate::kernel::Hmc) or a preconditioned random walk is better.
///
/// A coordinate takes about 6 evaluations of the density, which budgets count for each.
///
/// ```
/// use annealed::prelude::*;
///
/// // x^2 (1 - x) on (0, 1): log Z = log B(3, 2).
/// let likelihood = FunctionModel::of_slices(|x: &[f64]| 2.0 * x[0].ln() + (1.0 - x[0]).ln());
/// let path = TemperedPath::new(UniformBox::new([(0.0, 1.0)])?, likelihood);
/// let run = Ais::new(&path, Slice::new(0.5)?).schedule(Schedule::linear(20)?).seed(1).run()?;
/// # assert!((run.log_z() + 12f64.ln()).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Source: Neal (2003), Figures 3 and 5.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slice {
    width: StepSize,
}

impl Slice {
    /// Makes a kernel with this first width of the intervals, in units of the state: a number or a
    /// [`StepSize`]. About two standard deviations of a coordinate are best.
    ///
    /// # Errors
    /// Where the number is not finite and positive.
    pub fn new(width: impl TryInto<StepSize, Error: Into<Error>>) -> Result<Self> {
        let width = width.try_into().map_err(Into::into)?;
        Ok(Self { width })
    }
}

impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for Slice {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        _chain: usize,
        state: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let width = self.width.at(stage.beta);
        let mut here = log_density(stage.model, state)?;
        let (dimension, backward) = (state.len(), rng.random::<bool>());
        for place in 0..dimension {
            let index = if backward {
                dimension - 1 - place
            } else {
                place
            };
            let mut line = Line {
                model: stage.model,
                state,
                index,
            };
            here = line.draw(here, width, rng)?;
        }
        Ok(Step::invariant())
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        workspace: &mut (),
    ) -> Result<()> {
        advance_vectors(self, stage, block, workspace)
    }

    fn evaluations(&self, dimension: usize) -> usize {
        dimension.saturating_mul(EVALUATIONS).saturating_add(2)
    }
}

own_reversal! { [M: Intermediate<State = DVector<f64>>] Slice, M }

impl<M: Intermediate<State = DVector<f64>>> Invariant<M> for Slice {}

fn log_density<M>(model: &M, state: &DVector<f64>) -> Result<f64, NonFinite>
where
    M: Intermediate<State = DVector<f64>>,
{
    NonFinite::check_log_density("log density", model.log_density(state))
        .map_err(|fault| fault.at_state(state.as_slice()))
}

/// The states that differ in one coordinate.
struct Line<'s, M> {
    model: &'s M,
    state: &'s mut DVector<f64>,
    index: usize,
}

impl<M: Intermediate<State = DVector<f64>>> Line<'_, M> {
    /// Draws the coordinate from the slice, and returns the log density there. A state off the support has no slice
    /// and stays.
    fn draw<R: Rng + ?Sized>(
        &mut self,
        here: f64,
        width: f64,
        rng: &mut R,
    ) -> Result<f64, NonFinite> {
        if here == f64::NEG_INFINITY {
            return Ok(here);
        }
        let start = self.state[self.index];
        let level = here + (1.0 - rng.random::<f64>()).ln();
        let (mut low, mut high) = self.step_out(start, level, width, rng)?;
        for _ in 0..SHRINKAGES {
            let x = low + (high - low) * rng.random::<f64>();
            let there = self.at(x)?;
            if there >= level {
                return Ok(there);
            }
            if x < start {
                low = x;
            } else {
                high = x;
            }
        }
        // Rounding has left nothing of the interval but the start.
        self.state[self.index] = start;
        Ok(here)
    }

    /// Returns an interval about the start whose ends are below the level, or have been moved by their share of
    /// the widths.
    fn step_out<R: Rng + ?Sized>(
        &mut self,
        start: f64,
        level: f64,
        width: f64,
        rng: &mut R,
    ) -> Result<(f64, f64), NonFinite> {
        let mut low = start - width * rng.random::<f64>();
        let mut high = low + width;
        let left = rng.random_range(0..WIDTHS);
        for _ in 0..left {
            if self.at(low)? < level {
                break;
            }
            low -= width;
        }
        for _ in left..WIDTHS - 1 {
            if self.at(high)? < level {
                break;
            }
            high += width;
        }
        Ok((low, high))
    }

    /// Returns the log density with another coordinate, which the state takes.
    fn at(&mut self, x: f64) -> Result<f64, NonFinite> {
        if !x.is_finite() {
            return Ok(f64::NEG_INFINITY);
        }
        self.state[self.index] = x;
        log_density(self.model, self.state)
    }
}
