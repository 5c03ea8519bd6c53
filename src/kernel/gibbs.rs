//! Kernels that draw exactly: coordinate Gibbs and perfect transitions.

use rand::{Rng, RngExt};

use crate::Result;
use crate::kernel::{
    Invariant, NonFinite, Reversal, Stage, Step, TransitionKernel, detailed_balance,
};
use crate::model::{FullConditionals, Sampleable};
use crate::path::Intermediate;

/// Coordinate Gibbs (a heat bath). For n coordinates a step makes n draws, each of one coordinate given the others.
///
/// The kernel leaves `p_k` invariant, with correction 0. A systematic sweep is not reversible: its
/// [reversal](Reversal) visits the coordinates in the opposite order. Every model of the path must have full
/// conditionals, as in `GaussianPath`, `MomentPath` and splines of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CoordinateGibbs {
    scan: Scan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Scan {
    Systematic,
    Reversed,
    Random,
}

impl CoordinateGibbs {
    /// Creates a sweep through the coordinates 0 to n - 1 in order.
    pub const fn systematic() -> Self {
        Self {
            scan: Scan::Systematic,
        }
    }

    /// Creates a sweep from coordinate n - 1 to 0, the reversal of a [systematic](Self::systematic) sweep.
    pub const fn reversed() -> Self {
        Self {
            scan: Scan::Reversed,
        }
    }

    /// Creates a scan of n coordinates chosen uniformly with replacement; it is reversible.
    pub const fn random_scan() -> Self {
        Self { scan: Scan::Random }
    }
}

impl<M: FullConditionals + Intermediate> TransitionKernel<M> for CoordinateGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut M::State,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let coordinates = stage.model.coordinates();
        for position in 0..coordinates {
            let index = match self.scan {
                Scan::Systematic => position,
                Scan::Reversed => coordinates - 1 - position,
                Scan::Random => rng.random_range(0..coordinates),
            };
            stage.model.sample_coordinate(state, index, rng);
        }
        Ok(Step::invariant())
    }
}

impl<M: FullConditionals + Intermediate> Invariant<M> for CoordinateGibbs {}

impl<M: FullConditionals + Intermediate> Reversal<M> for CoordinateGibbs {
    type Reversed<'k> = Self;

    fn reversal(&self) -> Self {
        match self.scan {
            Scan::Systematic => Self::reversed(),
            Scan::Reversed => Self::systematic(),
            Scan::Random => Self::random_scan(),
        }
    }
}

/// A kernel that draws an exact sample of `p_k`, with correction 0. It needs a path whose models can all be sampled.
///
/// The log weight is then a sum of independent terms, as most theory on schedules assumes (Grosse, Maddison and
/// Salakhutdinov 2013, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PerfectTransitions;

impl<M: Sampleable + Intermediate> TransitionKernel<M> for PerfectTransitions {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut M::State,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        *state = stage.model.sample(rng);
        Ok(Step::invariant())
    }
}

detailed_balance! { [M: Sampleable + Intermediate] PerfectTransitions, M }
