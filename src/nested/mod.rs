//! Rising levels of the likelihood, for targets that tempering gets wrong.
//!
//! A target may hold most of its mass in a region so narrow that no temperature leads there: on the way a wide
//! region holds nearly everything, and chains that have settled in it never leave (a transition of the first
//! order). [`NestedSmc`] restricts the prior to the states above rising levels of the likelihood instead. On that
//! path the narrow region shrinks less than anything else. This is nested sampling as sequential Monte Carlo
//! (Skilling 2006; Salomone et al. 2018): [`NestedSmcRun`] holds the evidence.
//!
//! [`LevelPath`] is the path alone, for annealed runs.

mod island;
mod island_task;
mod path;
mod run;
mod runner;
#[cfg(feature = "checkpoint")]
mod saved;
mod search;
mod settings;
mod state;

pub use path::{LevelAt, LevelPath, LevelPrior};
pub use run::{LevelSummary, NestedSmcRun};
pub use runner::NestedSmc;
pub use state::LevelState;
