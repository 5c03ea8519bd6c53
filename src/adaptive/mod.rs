//! Runs that adapt as they go: sequential Monte Carlo that finds its stages, annealing in rounds, tuned kernels.
//!
//! Try [`Rounds`] first: it doubles the stages until the error is small, and improves schedule and kernel.
//! [`AdaptiveSmc`] finds stages and kernel in one pass of a population, [`StepSizes`] the step sizes of a kernel.

mod barrier;
mod base_search;
mod challenge;
mod covariance;
mod first_pass;
mod refit;
mod round;
mod rounds;
mod rounds_challenge;
mod rounds_run;
#[cfg(feature = "checkpoint")]
mod saved;
mod smc;
mod step_sizes;
mod tuner;

pub use barrier::{Barrier, BarrierRecorder};
pub use base_search::{BaseSearch, FindModes, FoundBase, MixtureAt, MixtureBase, Target, Trails};
pub use challenge::{Challenge, ChallengeRun, Judged, Judgement};
pub use refit::{NoRefit, Refit};
pub use rounds::Rounds;
pub use rounds_run::{Round, RoundsRun};
pub use smc::{AdaptiveSmc, AdaptiveSmcRun, FirstPass};
pub(crate) use step_sizes::RobbinsMonro;
pub use step_sizes::{StepSizes, Tuned};
