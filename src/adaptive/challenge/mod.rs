//! A second run that looks for mass that the first run missed.

mod judge;
mod result;
mod runner;
mod second;

pub use judge::{Judged, Judgement};
pub use result::ChallengeRun;
pub use runner::Challenge;
