//! Transition kernels, blocks of chains, and what a chain knows of its state.

mod bits;
mod blocks;
mod divergence;
mod invariance;
mod kernels;
mod known;
mod missing_mass;
mod preconditioner;
