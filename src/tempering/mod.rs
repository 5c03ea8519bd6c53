//! Parallel tempering: chains at all betas side by side, which exchange their states.
//!
//! ```
//! use annealed::prelude::*;
//!
//! let part = |mean| Gaussian::isotropic(DVector::from_element(2, mean), 0.5);
//! let target = GaussianMixture::new([(0.3, part(-3.0)?), (0.7, part(3.0)?)])?;
//! let base = Gaussian::isotropic(DVector::zeros(2), 4.0)?;
//! let path = GeometricPath::new(base, target);
//! let tempering = Tempering::new(&path, RandomWalkMetropolis::new(0.5)?);
//! let run = tempering.schedule(Schedule::linear(10)?).rounds(8).run()?;
//! println!("{run}");
//! assert!(run.log_z().abs() < 4.0 * run.standard_error());
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`Tempering`] is the runner. [`TemperingRun`] holds log Z, the barrier between base and target, and samples. The
//! method suits targets with many modes, whose shares a single pass through a schedule cannot estimate.

mod ladders;
mod round;
mod rounds;
mod run;
mod runner;
#[cfg(feature = "checkpoint")]
mod saved;

pub use run::TemperingRun;
pub use runner::Tempering;
