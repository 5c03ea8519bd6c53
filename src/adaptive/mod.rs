//! Runs that adapt as they go: first passes, which find stages and kernel, and annealing in rounds.
//!
//! ```
//! use annealed::prelude::*;
//!
//! // The evidence of a line through four points: intercept and slope by N(0, 1), noise of deviation 0.5.
//! let (x, y) = ([0.0, 1.0, 2.0, 3.0], [0.1, 0.9, 2.1, 2.9]);
//! let log_likelihood = move |line: &DVector<f64>| {
//!     let off = x.iter().zip(&y).map(|(x, y)| (y - line[0] - line[1] * x) / 0.5);
//!     off.map(|z| -0.5 * z * z - (0.5 * std::f64::consts::TAU.sqrt()).ln()).sum()
//! };
//! let path = TemperedPath::new(Gaussian::standard(2)?, FunctionModel::new(log_likelihood));
//! let rounds = Rounds::new(&path, RandomWalkMetropolis::new(0.5)?);
//! println!("{}", rounds.until_error(0.02).run()?);
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! Try [`Rounds`] first: it doubles the stages until the error is small, and improves schedule and kernel.
//! [`FirstPass`] finds stages and kernel of runs that you make yourself. A [`Challenge`] looks for mass that a run
//! missed, by a [`BaseSearch`] and a second run. [`Judged`] judges two results.

mod barrier;
mod base_search;
mod challenge;
mod covariance;
mod first_pass;
mod first_pass_task;
mod fitted;
mod robbins_monro;
mod round;
mod rounds;
mod rounds_run;
#[cfg(feature = "checkpoint")]
mod saved;
mod tuner;

pub use barrier::Barrier;
pub use base_search::{BaseSearch, FindModes, FoundBase, MixtureAt, MixtureBase, Target, Trails};
pub use challenge::{Challenge, ChallengeRun, Judged, Judgement};
pub use first_pass::{FirstPass, FirstPassRun};
pub use fitted::{FittedBase, NotFitted};
pub(crate) use robbins_monro::RobbinsMonro;
pub use rounds::Rounds;
pub use rounds_run::{Round, RoundsRun};
