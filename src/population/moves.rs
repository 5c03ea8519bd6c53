//! Kernels with their workspaces, as trait objects.

use std::any::Any;
use std::fmt;

use crate::Result;
use crate::kernel::{Block, Stage, TransitionKernel, Workspace};
use crate::path::Intermediate;

/// A kernel for models `M`, with one virtual call per block and stage.
pub(crate) trait Moves<M: Intermediate> {
    /// Takes a block through a stage, as [`TransitionKernel::advance`].
    fn pass(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut AnyWorkspace,
    ) -> Result<()>;
}

impl<M: Intermediate, K: TransitionKernel<M>> Moves<M> for K {
    fn pass(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut AnyWorkspace,
    ) -> Result<()> {
        self.advance(stage, block, workspace.of())
    }
}

/// The workspace of the kernel that has moved a block; empty before.
#[derive(Default)]
pub(crate) struct AnyWorkspace(Option<Box<dyn Erased>>);

/// A kernel's memory of one chain; `None` where no kernel has moved its block.
pub(crate) struct AnyMemory(Option<Box<dyn Remembered>>);

impl AnyWorkspace {
    /// Returns the workspace; a new one where it is empty or of another type.
    pub(crate) fn of<W: Workspace>(&mut self) -> &mut W {
        if !self.0.as_ref().is_some_and(|kept| kept.as_any().is::<W>()) {
            self.0 = Some(Box::new(W::default()));
        }
        let kept = self.0.as_mut().map(|kept| kept.as_any_mut());
        kept.and_then(|kept| kept.downcast_mut())
            .expect("the workspace was made here")
    }

    /// Returns the memories of `chains` chains; default ones where the workspace is empty or of another type.
    pub(crate) fn memories<W: Workspace>(&self, chains: usize) -> Vec<W::Memory> {
        let kept = self
            .0
            .as_ref()
            .and_then(|kept| kept.as_any().downcast_ref());
        let (kept, new): (Option<&W>, _) = (kept, W::default());
        let kept = kept.unwrap_or(&new);
        (0..chains).map(|chain| kept.memory(chain)).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    pub(crate) fn memory(&self, chain: usize) -> AnyMemory {
        AnyMemory(self.0.as_ref().map(|kept| kept.memory_of(chain)))
    }

    pub(crate) fn set_memory(&mut self, chain: usize, memory: AnyMemory) {
        match (memory.0, &mut self.0) {
            (Some(memory), _) => memory.give(self, chain),
            (None, Some(kept)) => kept.forget(chain),
            (None, None) => {}
        }
    }
}

impl fmt::Debug for AnyWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyWorkspace").finish_non_exhaustive()
    }
}

trait Erased: Send {
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn memory_of(&self, chain: usize) -> Box<dyn Remembered>;
    fn forget(&mut self, chain: usize);
}

impl<W: Workspace> Erased for W {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn memory_of(&self, chain: usize) -> Box<dyn Remembered> {
        Box::new(Memory::<W>(self.memory(chain)))
    }

    fn forget(&mut self, chain: usize) {
        self.set_memory(chain, W::default().memory(0));
    }
}

struct Memory<W: Workspace>(W::Memory);

trait Remembered: Send {
    fn give(self: Box<Self>, to: &mut AnyWorkspace, chain: usize);
}

impl<W: Workspace> Remembered for Memory<W> {
    fn give(self: Box<Self>, to: &mut AnyWorkspace, chain: usize) {
        to.of::<W>().set_memory(chain, self.0);
    }
}

/// A function that copies a state.
pub(crate) type CopyState<S> = fn(&S) -> S;
