//! Search for a base from which a run finds mass that chains from the path's own base miss.

mod around;
mod bits;
mod climbs;
mod components;
mod cooling;
mod find_modes;
mod found_base;
mod mixture_base;
mod mixture_path;
mod modes;
mod normalizer;
mod population_monte_carlo;
mod runner;
mod search;
mod vectors;

pub use find_modes::{FindModes, Target, Trails};
pub use found_base::FoundBase;
pub use mixture_base::MixtureBase;
pub use mixture_path::MixtureAt;
pub(super) use mixture_path::{MixturePath, from_base};
pub(super) use normalizer::compare_normalizer;
pub use runner::BaseSearch;
pub(super) use search::{ChallengeStream, LawOf, Search, gradient_of};
