//! Both directions of a path: reverse runs from samples of the target, beside forward runs.
//!
//! ```
//! use annealed::prelude::*;
//!
//! let target = Gaussian::isotropic(DVector::from_element(2, 3.0), 0.1)?;
//! let path = GeometricPath::new(Gaussian::standard(2)?, &target);
//! let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5)?).schedule(Schedule::linear(50)?);
//! let samples = TargetSamples::draw(&target, 200, 1);
//! let bridge = Bridge::new(&ais.run()?, &ais.reverse(&samples)?)?;
//! println!("{bridge}"); // between a lower and an upper bound
//! assert!((bridge.log_z() - target.log_normalizer()).abs() < 4.0 * bridge.standard_error());
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`Ais::reverse`](crate::ais::Ais::reverse) runs from [`TargetSamples`] back to the base. A [`Bridge`] joins both
//! directions, [`Bounds`] bound log Z from both sides, and [`Raise`] bounds log-likelihoods. [`BridgeSampling`] needs
//! only draws of the target.

mod bounds;
mod bridge;
mod bridge_sampling;
mod raise;
mod reverse;
mod target_samples;

pub use bounds::Bounds;
pub use bridge::{Bridge, BridgeStage};
pub use bridge_sampling::BridgeSampling;
pub use raise::Raise;
pub use reverse::ReverseRun;
pub use target_samples::TargetSamples;
