//! Populations: chains on their way along a path, and their selection between stages.
//!
//! A [`Population`] is the annealing loop itself, for methods of your own. [`Resampling`] and [`WasteFree`] select
//! chains: sequential Monte Carlo.

mod genealogy;
mod moves;
#[allow(clippy::module_inception)] // The room is named by its main type.
mod population;
mod populations;
mod resampling;
#[cfg(feature = "checkpoint")]
mod saved;
mod waste_free;

pub(crate) use genealogy::{Genealogy, Selection};
pub(crate) use moves::{CopyState, Moves};
pub use population::Population;
pub(crate) use population::{sample_base, streams};
pub(crate) use populations::Populations;
pub use resampling::{Resampling, ResamplingScheme};
#[cfg(feature = "checkpoint")]
pub(crate) use saved::SavedPopulation;
pub use waste_free::WasteFree;
