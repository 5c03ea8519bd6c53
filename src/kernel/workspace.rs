//! Workspaces: values that a kernel keeps for a block of chains from one step to the next.

/// Values that a kernel keeps for a block of chains, created by `default()` and filled on first use.
///
/// [`Scratch`] holds buffers, which belong to no chain. [`PerChain`] holds a chain's memory, such as its momentum,
/// which follows the chain when chains are copied or swapped. A pair of workspaces keeps both.
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

/// One value for each chain; the default before the chain's first step.
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
