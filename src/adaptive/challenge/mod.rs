//! A second run that looks for what the first one missed.

mod base;
mod bits;
mod components;
mod cooling;
mod judge;
mod path;
mod proposal;
mod runner;
mod shares;
mod vectors;

pub use base::RivalBase;
pub use judge::{ChallengeRun, Judgement};
pub use path::{RivalAt, RivalPath};
pub use proposal::{Proposals, Rivals, Target, Trails};
pub use runner::Challenge;
