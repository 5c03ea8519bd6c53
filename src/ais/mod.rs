//! Annealed runs: [`Ais`] takes a path, a kernel, a schedule and a seed, and gives a [`Run`].
//!
//! The [`Run`] holds log Z with its interval, the reasons to doubt it
//! ([`Warning`](crate::estimate::Warning)) and the weighted samples. A [`Recorder`] watches a run from
//! inside. [`Ais::reverse`] reads the path backward from [`TargetSamples`], and a [`Bridge`] joins both
//! directions. A [`PartialRun`] holds some chains of a run, so that several processes can share the work.
//! A [`Population`] is the loop itself, for methods of your own.

mod blocks;
mod bridge;
mod lineage;
mod partial;
mod population;
mod populations;
mod progress;
mod raise;
mod recorder;
mod resample;
mod resampling;
mod reverse;
mod reverse_run;
mod run;
mod runner;
mod sandwich;
mod settings;
mod stages;
mod target_samples;
mod threads;
mod tree;
mod waste_free;

pub(crate) use blocks::{caught, run_blocks};
pub use bridge::{Bridge, BridgeStage};
pub use partial::PartialRun;
pub use population::Population;
pub(crate) use populations::{Populations, in_pool};
pub(crate) use progress::Meter;
pub use progress::Progress;
#[cfg(feature = "progress")]
pub(crate) use progress::bar;
pub use raise::Raise;
pub use recorder::{Expectations, Recorder};
pub use resampling::{Resampling, ResamplingScheme};
pub use reverse_run::ReverseRun;
pub use run::Run;
pub use runner::Ais;
pub(crate) use runner::panicked;
pub use sandwich::{Sandwich, SandwichReport};
pub use stages::StageSummary;
pub use target_samples::{Approximate, Exact, IsExact, TargetSamples};
pub use tree::Merge;
pub(crate) use tree::fold;
pub use waste_free::WasteFree;
