//! Populations: chains on their way along a path, and their selection between stages.
//!
//! A [`Population`] is the annealing loop itself, for methods of your own. [`Resampling`] and [`WasteFree`] select
//! chains: sequential Monte Carlo.

#[allow(clippy::module_inception)] // The room is named by its main type.
mod population;
mod populations;
mod resampling;
mod selection;
mod waste_free;

pub use population::Population;
#[cfg(feature = "checkpoint")]
pub(crate) use population::SavedPopulation;
pub(crate) use population::{Moves, sample_base, streams};
pub(crate) use populations::Populations;
pub use resampling::{Resampling, ResamplingScheme};
pub(crate) use selection::{Chains, CopyState, Genealogy, Members, Selection};
pub use waste_free::WasteFree;
