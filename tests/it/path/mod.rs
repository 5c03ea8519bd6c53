//! Paths between two models, and paths of averaged moments.

mod batch_paths;
mod moment_averages;
mod paths;
