//! Rising levels of the likelihood, for targets that tempering gets wrong.
//!
//! No temperature leads to a narrow region if a wide one holds nearly all mass on the way (a first-order transition).
//! [`NestedSmc`] restricts the prior to the states above rising levels instead; [`NestedSmcRun`] holds the evidence.
//! The method is nested sampling as sequential Monte Carlo (Skilling 2006; Salomone et al. 2018). [`LevelPath`] is its
//! path alone, for annealed runs.

mod first_pass;
mod island;
mod island_task;
mod path;
mod run;
mod runner;
#[cfg(feature = "checkpoint")]
mod saved;
mod settings;

pub use path::LevelState;
pub use path::{LevelAt, LevelPath, LevelPrior};
pub use run::{LevelSummary, NestedSmcRun};
pub use runner::NestedSmc;
