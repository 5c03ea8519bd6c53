//! Rising levels of the likelihood, for targets that tempering gets wrong.
//!
//! ```
//! use annealed::prelude::*;
//!
//! // Half of the evidence in a spike, to which no temperature leads.
//! let part = |deviation| Gaussian::isotropic(DVector::zeros(2), deviation);
//! let likelihood = GaussianMixture::new([(0.5, part(0.5)?), (0.5, part(0.005)?)])?;
//! let problem = TemperedPath::new(part(2.0)?, likelihood);
//! println!("{}", NestedSmc::new(&problem, RandomWalkMetropolis::new(1.0)?).run()?);
//! # Ok::<(), annealed::Error>(())
//! ```
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

pub use path::{LevelAt, LevelPath, LevelState};
pub use run::{LevelSummary, NestedSmcRun};
pub use runner::NestedSmc;
