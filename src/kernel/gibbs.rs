//! Kernels that draw exactly: coordinate Gibbs and perfect transitions.

use rand::{Rng, RngExt};

use crate::Result;
use crate::kernel::{Invariant, NonFinite, Reversal, Stage, Step, TransitionKernel, own_reversal};
use crate::model::{FullConditionals, Sampleable};
use crate::path::Intermediate;

/// Coordinate Gibbs (a heat bath). A step draws n times a single coordinate from its conditional
/// given the others, n being the number of coordinates.
///
/// Each draw leaves `p_k` invariant, and so does the step, with correction 0. A systematic sweep
/// is not reversible: its [reversal](Reversal) visits the coordinates in the opposite order. The weight
/// of an annealed run needs only the invariance, since the backward kernel is the reversal by definition.
///
/// Every model of the path must have full conditionals. Of this crate's paths `GaussianPath`, `MomentPath`
/// and splines of these do.
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
    /// Visits the coordinates 0 to n - 1 in order.
    pub const fn systematic() -> Self {
        Self {
            scan: Scan::Systematic,
        }
    }

    /// Visits the coordinates n - 1 to 0 in order: the reversal of a [systematic](Self::systematic) sweep.
    pub const fn reversed() -> Self {
        Self {
            scan: Scan::Reversed,
        }
    }

    /// Visits n coordinates chosen uniformly, with replacement; reversible.
    pub const fn random_scan() -> Self {
        Self { scan: Scan::Random }
    }
}

impl<M: FullConditionals + Intermediate> TransitionKernel<M> for CoordinateGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        _chain: usize,
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

/// Replaces the state by an exact sample of `p_k`, which is the best that any kernel can do. It needs
/// a path all of whose models can be sampled. Its correction is 0.
///
/// With perfect transitions the log weight is a sum of independent terms. Most theory on schedules
/// assumes this (Grosse, Maddison and Salakhutdinov 2013, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PerfectTransitions;

impl<M: Sampleable + Intermediate> TransitionKernel<M> for PerfectTransitions {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        _chain: usize,
        state: &mut M::State,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        *state = stage.model.sample(rng);
        Ok(Step::invariant())
    }
}

own_reversal! { [M: Sampleable + Intermediate] PerfectTransitions, M }

impl<M: Sampleable + Intermediate> Invariant<M> for PerfectTransitions {}
