//! The kernel that moves nothing, with which a run of one stage weighs draws of its base: importance sampling.

use rand::Rng;

use super::{Block, NonFinite, Stage, Step, TransitionKernel};
use crate::Result;
use crate::path::Intermediate;

pub(crate) struct Rest;

impl<M: Intermediate> TransitionKernel<M> for Rest {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        _stage: Stage<'_, M>,
        _state: &mut M::State,
        (): &mut (),
        _rng: &mut R,
    ) -> Result<Step, NonFinite> {
        Ok(Step::unmoved())
    }

    fn advance(&self, stage: Stage<'_, M>, block: &mut Block<M::State>, (): &mut ()) -> Result<()> {
        block.weigh(stage)
    }
}
