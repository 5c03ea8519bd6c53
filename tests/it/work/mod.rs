//! How a run is executed: threads, ranks, checkpoints, limits, progress.

mod checkpoint;
mod controls;
mod determinism;
mod progress;
mod ranks;
