//! Populations: chains that move along a path, and their selection between stages.
//!
//! ```
//! use annealed::prelude::*;
//!
//! let target = Gaussian::isotropic(DVector::from_element(2, 3.0), 0.1)?;
//! let path = GeometricPath::new(Gaussian::standard(2)?, &target);
//! let ais = Ais::new(&path, RandomWalkMetropolis::new(0.2)?).schedule(Schedule::linear(50)?);
//! let run = ais.chains(1_000).resampling(Resampling::when_ess_below(0.5)?).run()?;
//! println!("{run}"); // sequential Monte Carlo
//! assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! A [`Population`] is the annealing loop itself, for building your own methods. [`Resampling`] and [`WasteFree`]
//! select chains (sequential Monte Carlo).

#[allow(clippy::module_inception)] // The room is named by its main type.
mod population;
mod populations;
mod resampling;
mod selection;
mod waste_free;

pub use crate::random::resampling_scheme::ResamplingScheme;
pub use population::Population;
pub(crate) use population::{Moves, sample_base, streams};
pub(crate) use populations::{DatumOf, Populations, check_alive};
pub use resampling::Resampling;
pub(crate) use selection::{CopyState, Genealogy, Selection};
pub use waste_free::WasteFree;
