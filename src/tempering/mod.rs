//! Parallel tempering: chains at all betas side by side, which exchange their states.
//!
//! [`Tempering`] takes a path, a kernel, the betas to start from and a seed, and gives a
//! [`TemperingRun`]: log Z, the barrier between base and target, and samples of the target. It is for
//! targets of many modes, among which chains that pass a schedule once cannot settle their shares.

mod ladders;
#[cfg(feature = "mpi")]
mod on_ranks;
mod pair;
mod round;
mod rounds;
mod run;
mod runner;
#[cfg(feature = "checkpoint")]
mod saved;
mod trip;

pub use run::TemperingRun;
pub use runner::Tempering;
