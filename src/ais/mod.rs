//! Annealed runs: [`Ais`] takes a path, a kernel, a schedule and a seed, and gives a [`Run`].
//!
//! ```
//! use annealed::prelude::*;
//!
//! let target = Gaussian::isotropic(DVector::from_element(3, 2.0), 0.5)?;
//! let path = GeometricPath::new(Gaussian::standard(3)?, &target);
//! let run = Ais::new(&path, Hmc::new(0.3, 5)?)
//!     .schedule(Schedule::linear(100)?)
//!     .chains(500)
//!     .seed(1)
//!     .run()?;
//! println!("{run}"); // log Z with its error and interval, and any warning
//! let (mean, error) = run.expectation(|x| x[0]);
//! assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! A [`Run`] holds log Z with its interval, [warnings](crate::estimate::Warning) and weighted samples. A [`Recorder`]
//! observes the chains during the run. A [`RunPart`] holds some of the chains, so that processes can share the work.

mod block_result;
#[cfg(feature = "checkpoint")]
mod fingerprint;
mod partial;
mod recorder;
mod run;
mod runner;
#[cfg(feature = "checkpoint")]
mod saved;
mod settings;
mod stages;
mod task;

#[cfg(all(test, feature = "checkpoint"))]
pub(crate) use fingerprint::fingerprint;
#[cfg(feature = "checkpoint")]
pub(crate) use fingerprint::identity;
pub use partial::RunPart;
pub use recorder::{Expectations, Recorder};
pub use run::Run;
pub use runner::Ais;
#[cfg(feature = "checkpoint")]
pub(crate) use saved::block_codec;
pub(crate) use settings::Settings;
pub use stages::StageSummary;
pub(crate) use task::BlockCodec;

pub use crate::work::{Execution, Merge, Progress, SoFar, StoppedBy};
