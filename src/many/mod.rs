//! Many data under one latent-variable model: log p(x) of each, by one population of chains.
//!
//! A latent-variable model has a prior p(z) and a likelihood p(x | z), the *decoder*. The log evidence of a datum `x_b` is
//! `log p(x_b) = log int p(z) p(x_b | z) dz`, the log Z of a [`TemperedPath`](crate::path::TemperedPath).
//! [`LogLikelihoods`] estimates it for many data in one run:
//!
//! ```
//! use annealed::many::LogLikelihoods;
//! use annealed::model::{FunctionModel, Latent};
//! use annealed::prelude::*;
//!
//! // x ~ N(z, 1) with the prior z ~ N(0, 1), so that x ~ N(0, 2).
//! let data = [0.3, -1.2, 2.1];
//! let likelihood = move |state: &Latent| {
//!     let off = data[state.datum()] - state.vector[0];
//!     -0.5 * off * off - 0.5 * std::f64::consts::TAU.ln()
//! };
//! let run = LogLikelihoods::new(
//!     Gaussian::standard(1)?,
//!     FunctionModel::new(likelihood),
//!     data.len(),
//!     RandomWalkMetropolis::new(1.0)?,
//! )
//! .stages(50)
//! .run()?;
//! println!("{run}");
//! for found in run.data() {
//!     println!("{}: {}", found.datum, found.estimate);
//! #   let x = data[found.datum];
//! #   let exact = -0.25 * x * x - 0.5 * (2.0 * std::f64::consts::TAU).ln();
//! #   assert!((found.estimate.value() - exact).abs() < 6.0 * found.estimate.standard_error());
//! }
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! # How it works
//!
//! - **One population.** B data with C chains each are B C chains of one annealed run. A chain's state is a
//!   [`Latent`](crate::model::Latent): a vector, and the index of its datum. Chain i starts with the datum `i / C`. Later
//!   the state's own index is the only source. Each call of the model evaluates the rows of a whole block.
//! - **Nothing crosses data.** The first pass resamples within a datum, and adapts a step size for each datum and stage.
//!   In the run itself chains do not interact. A datum's result has the same bits in a run of that datum alone, with the
//!   same streams, schedule and step sizes.
//! - **One schedule.** Each stage of the first pass is as long as the conditional effective sample size of the worse data
//!   allows: that of the datum at the lowest tenth, but never of the worst of three or more data.
//! - **Errors.** Each datum has its error, interval and warnings. The mean over data is corrected by a jackknife over
//!   chains, because the estimate of each `log p(x_b)` is too low by about half its variance, which a mean over data does
//!   not reduce.
//! - **Bounds from above** exist for simulated data, whose latent vectors are known
//!   ([`run_simulated`](LogLikelihoods::run_simulated)).

mod run;
mod runner;
mod simulated;
#[cfg(test)]
mod tests;

pub use run::{DatumLogZ, LogLikelihoodsRun, MeanLogZ};
pub use runner::LogLikelihoods;
pub use simulated::SimulatedRun;
