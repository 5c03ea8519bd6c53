//! Slice sampling, coordinate by coordinate.

use nalgebra::DVector;
use rand::{Rng, RngExt};

use crate::kernel::step_size::StepSize;
use crate::kernel::{Block, Increment, NonFinite, Stage, Step, TransitionKernel, detailed_balance};
use crate::path::{Ends, Intermediate};
use crate::{Error, Result};

/// Greatest length of an interval, as a multiple of the kernel's width.
const WIDTHS: u32 = 64;
/// Number of shrinkages after which a coordinate stays where it is.
const SHRINKAGES: usize = 200;
/// Approximate number of density evaluations for a coordinate.
const EVALUATIONS: usize = 6;

/// Slice sampling by stepping out and shrinkage, one coordinate after another.
///
/// An interval grows in steps of `width`, to at most 64 widths, until both ends fall below a random level of the
/// density. It then shrinks until a uniform draw lies above the level. A coordinate takes about 6 evaluations.
///
/// A sweep takes the coordinates in rising or falling order, with equal probability, so the kernel is its own reversal.
/// It leaves `p_k` invariant, with correction 0. It needs no gradient and suits bounded supports
/// ([`UniformBox`](crate::model::UniformBox)). For strong correlations use [`Hmc`](crate::kernel::Hmc). Chains are
/// evaluated one by one, even if the model [evaluates batches](crate::model::UnnormalizedModel::evaluates_batches).
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
    /// Creates a kernel whose intervals start with this `width`, in units of the state: a number or a [`StepSize`].
    /// About two standard deviations of a coordinate are best.
    ///
    /// # Errors
    /// If the number is not finite and positive.
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
        state: &mut DVector<f64>,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        // At rest: `step` is the move alone, to which `advance` adds the log ratio.
        let mut known = Ends::UNKNOWN;
        Ok(self.move_from(stage.rest(), (state, &mut known), rng)?.step)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        _workspace: &mut (),
    ) -> Result<()> {
        block.each(stage, |block, chain| {
            let (state, known, rng) = block.known_mut(chain);
            self.move_from(stage, (state, known), rng)
        })
    }

    fn evaluations(&self, dimension: usize) -> usize {
        let weight = usize::from(!M::HAS_ENDS);
        dimension.saturating_mul(EVALUATIONS).saturating_add(weight)
    }
}

impl Slice {
    fn move_from<M: Intermediate<State = DVector<f64>>, R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        (state, known): (&mut DVector<f64>, &mut Ends),
        rng: &mut R,
    ) -> Result<Increment, NonFinite> {
        let (log_ratio, here) = stage.weigh(state, known);
        let log_ratio = check("log ratio", log_ratio, state)?;
        let here = check("log density", here, state)?;
        let width = self.width.at(stage.beta);
        let (dimension, backward) = (state.len(), rng.random::<bool>());
        let mut line = SliceLine {
            stage,
            state,
            index: 0,
            here,
            known: *known,
            found: *known,
        };
        for place in 0..dimension {
            line.index = match backward {
                true => dimension - 1 - place,
                false => place,
            };
            line.draw(width, rng)?;
        }
        *known = line.known;
        Ok(Increment::new(log_ratio, Step::invariant()))
    }
}

detailed_balance! { [M: Intermediate<State = DVector<f64>>] Slice, M }

#[inline]
fn check(quantity: &'static str, value: f64, state: &DVector<f64>) -> Result<f64, NonFinite> {
    NonFinite::check_log_density(quantity, value).map_err(|fault| fault.at_state(state.as_slice()))
}

struct SliceLine<'s, M> {
    stage: Stage<'s, M>,
    state: &'s mut DVector<f64>,
    index: usize,
    here: f64,
    /// Log densities of the current state at the ends of the path.
    known: Ends,
    /// Log densities of the last state evaluated, at the ends of the path.
    found: Ends,
}

impl<M: Intermediate<State = DVector<f64>>> SliceLine<'_, M> {
    /// Draws the coordinate from the slice. A state off the support stays.
    fn draw<R: Rng + ?Sized>(&mut self, width: f64, rng: &mut R) -> Result<(), NonFinite> {
        let here = self.here;
        if here == f64::NEG_INFINITY {
            return Ok(());
        }
        let start = self.state[self.index];
        // The uniform number is in (0, 1], so that its logarithm is finite.
        let level = here + (1.0 - rng.random::<f64>()).ln();
        let (mut low, mut high) = self.step_out(start, level, width, rng)?;
        for _ in 0..SHRINKAGES {
            let x = low + (high - low) * rng.random::<f64>();
            let there = self.at(x)?;
            if there >= level {
                (self.here, self.known) = (there, self.found);
                return Ok(());
            }
            if x < start {
                low = x;
            } else {
                high = x;
            }
        }
        // Rounding has left nothing of the interval but the start.
        self.state[self.index] = start;
        Ok(())
    }

    /// Returns an interval about `start`. At each end the density is below the level, or the allowed steps are used up.
    fn step_out<R: Rng + ?Sized>(
        &mut self,
        start: f64,
        level: f64,
        width: f64,
        rng: &mut R,
    ) -> Result<(f64, f64), NonFinite> {
        let mut low = start - width * rng.random::<f64>();
        let mut high = low + width;
        // A random division of the widths between both ends keeps the kernel reversible (Neal 2003, Figure 3).
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

    /// Sets the coordinate to `x`, and returns the log density there.
    #[inline(always)]
    fn at(&mut self, x: f64) -> Result<f64, NonFinite> {
        if !x.is_finite() {
            return Ok(f64::NEG_INFINITY);
        }
        self.state[self.index] = x;
        let (there, ends) = self.stage.evaluate(self.state);
        self.found = ends;
        check("log density", there, self.state)
    }
}
