//! Parallel tempering: chains at all betas side by side, which exchange their states.
//!
//! [`Tempering`] runs it and [`TemperingRun`] holds log Z, the barrier between base and target, and samples. It suits
//! targets of many modes, whose shares chains on a single pass through a schedule cannot settle.

mod ladders;
mod round;
mod rounds;
mod run;
mod runner;
#[cfg(feature = "checkpoint")]
mod saved;

pub use run::TemperingRun;
pub use runner::Tempering;
