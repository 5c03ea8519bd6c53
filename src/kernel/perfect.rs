//! Perfect transitions: exact samples at every beta.

use rand::Rng;

use crate::Result;
use crate::chain::{NonFinite, Stage, Step};
use crate::kernel::{Invariant, TransitionKernel, own_reversal};
use crate::model::Sampleable;
use crate::path::Intermediate;

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
