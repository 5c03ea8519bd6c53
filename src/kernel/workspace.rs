//! Workspaces: values that a kernel keeps for a block of chains from one step to the next, typed and type-erased.

use std::any::Any;
use std::fmt;

/// Values that a kernel keeps for a block of chains, created by `default()` and filled on first use.
///
/// [`Scratch`] holds buffers, which belong to no chain. [`PerChain`] holds a chain's memory, such as its momentum,
/// which follows the chain when chains are copied or swapped. A pair of workspaces is a workspace too.
pub trait Workspace: Default + Send + 'static {
    /// The part that belongs to one chain; `()` if nothing does.
    type Memory: Clone + Send;

    /// Returns the memory of the chain with index `chain` in the block.
    fn memory(&self, chain: usize) -> Self::Memory;

    /// Sets the memory of a chain.
    fn set_memory(&mut self, chain: usize, memory: Self::Memory);
}

/// Buffers that the chains of a block share, overwritten at each step.
#[derive(Debug, Clone, Default)]
pub struct Scratch<T>(pub T);

impl<T: Default + Send + 'static> Workspace for Scratch<T> {
    type Memory = ();

    fn memory(&self, _chain: usize) {}

    fn set_memory(&mut self, _chain: usize, _memory: ()) {}
}

impl Workspace for () {
    type Memory = ();

    fn memory(&self, _chain: usize) {}

    fn set_memory(&mut self, _chain: usize, _memory: ()) {}
}

/// One value for each chain, `T::default()` before the chain's first step.
#[derive(Debug, Clone, Default)]
pub struct PerChain<T>(Vec<T>);

impl<T: Default + Clone> PerChain<T> {
    /// Returns the chain's value.
    pub fn of(&mut self, chain: usize) -> &mut T {
        if self.0.len() <= chain {
            self.0.resize(chain + 1, T::default());
        }
        &mut self.0[chain]
    }
}

impl<T: Default + Clone + Send + 'static> Workspace for PerChain<T> {
    type Memory = T;

    fn memory(&self, chain: usize) -> T {
        self.0.get(chain).cloned().unwrap_or_default()
    }

    fn set_memory(&mut self, chain: usize, memory: T) {
        *self.of(chain) = memory;
    }
}

impl<A: Workspace, B: Workspace> Workspace for (A, B) {
    type Memory = (A::Memory, B::Memory);

    fn memory(&self, chain: usize) -> Self::Memory {
        (self.0.memory(chain), self.1.memory(chain))
    }

    fn set_memory(&mut self, chain: usize, memory: Self::Memory) {
        self.0.set_memory(chain, memory.0);
        self.1.set_memory(chain, memory.1);
    }
}

/// The workspace of the kernel that moves a block; empty before the first move.
#[derive(Default)]
pub(crate) struct AnyWorkspace(Option<Box<dyn Erased>>);

/// A kernel's memory of one chain; `None` if no kernel has moved its block.
pub(crate) struct AnyMemory(Option<Box<dyn Remembered>>);

impl AnyWorkspace {
    /// Returns the kept workspace if its type is `W`; otherwise replaces it by a new one and returns this.
    pub(crate) fn of<W: Workspace>(&mut self) -> &mut W {
        if !self.0.as_ref().is_some_and(|kept| kept.as_any().is::<W>()) {
            self.0 = Some(Box::new(W::default()));
        }
        let kept = self.0.as_mut().map(|kept| kept.as_any_mut());
        kept.and_then(|kept| kept.downcast_mut())
            .expect("the workspace was made here")
    }

    /// Returns the memories of `chains` chains; new ones if no workspace of type `W` is kept.
    pub(crate) fn memories<W: Workspace>(&self, chains: usize) -> Vec<W::Memory> {
        let kept = self
            .0
            .as_ref()
            .and_then(|kept| kept.as_any().downcast_ref());
        let new = W::default();
        let kept: &W = kept.unwrap_or(&new);
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
