//! Annealed runs: [`Ais`] takes a path, a kernel, a schedule and a seed, and gives a [`Run`].
//!
//! The [`Run`] holds log Z with its interval, the reasons to doubt it
//! ([`Warning`](crate::estimate::Warning)) and the weighted samples. A [`Recorder`] watches a run from
//! inside. [`Ais::reverse`] reads the path backward from [`TargetSamples`], and a [`Bridge`] joins both
//! directions. A [`PartialRun`] holds some chains of a run, so that several processes can share the work.
//! A [`Population`] is the loop itself, for methods of your own.

mod block_result;
mod bridge;
mod figures;
#[cfg(feature = "checkpoint")]
mod fingerprint;
mod lineage;
#[cfg(feature = "mpi")]
mod on_ranks;
mod partial;
mod pool;
mod population;
mod populations;
mod probe;
mod raise;
mod recorder;
mod report;
mod resample;
mod resampling;
mod reverse;
mod reverse_run;
mod run;
mod runner;
mod sandwich;
#[cfg(feature = "checkpoint")]
mod saved;
mod settings;
mod stages;
mod target_samples;
mod task;
mod waste_free;

pub use bridge::{Bridge, BridgeStage};
#[cfg(feature = "checkpoint")]
pub(crate) use fingerprint::fingerprint;
pub use partial::PartialRun;
pub use population::Population;
pub(crate) use populations::Populations;
pub use raise::Raise;
pub use recorder::{Expectations, Recorder};
pub use report::Report;
pub use resampling::{Resampling, ResamplingScheme};
pub use reverse_run::ReverseRun;
pub use run::Run;
pub use runner::Ais;
pub use sandwich::{Sandwich, SandwichReport};
#[cfg(feature = "checkpoint")]
pub(crate) use saved::SavedPopulation;
pub use stages::StageSummary;
pub use target_samples::{Approximate, Exact, IsExact, Quality, TargetSamples};
pub use waste_free::WasteFree;

#[cfg(feature = "progress")]
pub use crate::work::progress_bar;
pub use crate::work::{Merge, Progress, SoFar, StoppedBy, Verdict};
