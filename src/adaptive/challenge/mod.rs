//! A second run that looks for mass that the first run missed.

mod included;
mod judge;
mod result;
mod runner;
mod second;

pub use judge::{Judged, Judgement};
pub use result::ChallengeRun;
pub use runner::Challenge;

pub(super) use included::{Challenged, Challenges, of_path};
pub(super) use judge::CHALLENGE_CONFIDENCE;
pub(super) use second::{Asked, Second, SecondJob};
