//! Annealed runs: [`Ais`] takes a path, a kernel, a schedule and a seed, and gives a [`Run`].
//!
//! The [`Run`] holds log Z, its interval, what to doubt of it ([`Warning`](crate::estimate::Warning))
//! and the weighted samples. A [`Recorder`] watches a run from inside, a [`PartialRun`] is a part of
//! one that another process may finish, and a [`Population`] is the loop itself, for methods of your
//! own.

mod options;
mod partial;
mod population;
mod progress;
mod recorder;
mod run;
mod runner;
mod stages;
mod threads;
mod tree;

pub use partial::PartialRun;
pub use population::Population;
pub use progress::Progress;
pub use recorder::{Expectations, Recorder};
pub use run::Run;
pub use runner::Ais;
pub use stages::StageSummary;
pub use tree::Merge;
