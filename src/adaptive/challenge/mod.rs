//! A second run that looks for what the first one missed.

mod around;
mod base;
mod bits;
mod climbs;
mod components;
mod cooling;
mod included;
mod judge;
mod modes;
mod normalizer;
mod path;
mod population_monte_carlo;
mod proposal;
mod result;
mod runner;
mod search;
mod vectors;

pub use base::RivalBase;
pub use judge::Judgement;
pub use path::RivalAt;
pub(super) use path::from_base;
pub use proposal::{Proposals, Rivals, Target, Trails};
pub use result::ChallengeRun;
pub use runner::Challenge;

pub(super) use included::{Asked, Challenges, of_path};
pub(super) use judge::Second;
#[cfg(feature = "checkpoint")]
pub(super) use search::Base;
pub(super) use search::{LEAST_MOVES, SecondJob, gradient_of};
