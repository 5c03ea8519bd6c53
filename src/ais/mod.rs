//! Annealed runs: [`Ais`] takes a path, a kernel, a schedule and a seed, and gives a [`Run`].
//!
//! The [`Run`] holds log Z with its interval, the reasons to doubt it
//! ([`Warning`](crate::estimate::Warning)) and the weighted samples. A [`Recorder`] watches a run from
//! inside. [`Ais::reverse`] reads the path backward from [`TargetSamples`], and a [`Bridge`] joins both
//! directions. A [`PartialRun`] holds some chains of a run, so that several processes can share the work.
//! A [`Population`] is the loop itself, for methods of your own.

#[cfg(feature = "checkpoint")]
mod block_snapshot;
mod block_streams;
mod blocks;
mod bridge;
#[cfg(feature = "checkpoint")]
mod checkpoint;
#[cfg(feature = "mpi")]
mod checkpoint_on_ranks;
mod conduct;
#[cfg(feature = "mpi")]
mod exchange;
mod figures;
#[cfg(feature = "checkpoint")]
mod fingerprint;
mod in_progress;
#[cfg(feature = "checkpoint")]
mod kept;
mod ledger;
mod lineage;
mod meter;
#[cfg(feature = "mpi")]
mod on_ranks;
mod outcome;
mod oversight;
mod partial;
mod passage;
mod pool;
mod population;
mod populations;
mod probe;
mod progress;
#[cfg(feature = "progress")]
mod progress_bar;
mod raise;
mod recorder;
mod report;
mod resample;
mod resampling;
mod reverse;
mod reverse_run;
mod route;
mod run;
mod runner;
mod sandwich;
mod settings;
#[cfg(feature = "checkpoint")]
mod snapshot;
mod stages;
mod stop;
mod target_samples;
mod threads;
mod tree;
mod waste_free;

pub(crate) use blocks::{AtSite, Site, caught, run_blocks, work_through};
pub use bridge::{Bridge, BridgeStage};
pub(crate) use conduct::Conduct;
#[cfg(feature = "mpi")]
pub(crate) use exchange::{Post, exchange};
#[cfg(feature = "checkpoint")]
pub(crate) use fingerprint::{check_same, fingerprint, guarded};
pub(crate) use ledger::{Ledger, Share, Watch};
pub(crate) use meter::Meter;
#[cfg(feature = "mpi")]
pub(crate) use on_ranks::{check_engine, check_fingerprint};
pub use partial::PartialRun;
pub(crate) use passage::panicked;
pub use population::Population;
pub(crate) use populations::{Populations, in_pool};
pub(crate) use progress::{Callback, Listener, callback};
pub use progress::{Progress, SoFar, Verdict};
#[cfg(feature = "progress")]
pub use progress_bar::progress_bar;
pub use raise::Raise;
pub use recorder::{Expectations, Recorder};
pub use report::Report;
pub use resampling::{Resampling, ResamplingScheme};
pub use reverse_run::ReverseRun;
pub use run::Run;
pub use runner::Ais;

pub use sandwich::{Sandwich, SandwichReport};
pub use stages::StageSummary;
pub use stop::StoppedBy;
pub use target_samples::{Approximate, Exact, IsExact, Quality, TargetSamples};
pub use tree::Merge;
pub(crate) use tree::{Forest, Node, fold};
pub use waste_free::WasteFree;
