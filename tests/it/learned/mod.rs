//! Learned transitions, couplings, and the objectives that train them.

mod couplings;
mod far_modes;
mod variational;
