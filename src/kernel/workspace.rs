//! Workspaces: the values that a kernel keeps for a block of chains from one step to the next.

/// The values that a kernel keeps for a block of chains. It is made by `default()` and filled on first use.
///
/// Buffers belong to no chain ([`Scratch`]). What belongs to a chain, such as its momentum, is the
/// chain's memory ([`PerChain`]): it follows the chain where chains are copied or change places. A
/// pair of workspaces keeps both.
pub trait Workspace: Default + Send + 'static {
    /// The part that belongs to one chain; `()` where nothing does.
    type Memory: Clone + Send;

    /// Returns the memory of a chain, by its index within the block.
    fn memory(&self, chain: usize) -> Self::Memory;

    /// Gives a chain another memory.
    fn set_memory(&mut self, chain: usize, memory: Self::Memory);
}

/// Buffers, shared by the chains of a block and overwritten at each step.
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

/// One value for each chain, which has its default before the chain's first step.
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
