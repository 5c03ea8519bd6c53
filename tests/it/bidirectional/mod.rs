//! Paths read backward, bounds on both sides, and bridge sampling.

mod missing_modes_of_draws;
mod reverse;
