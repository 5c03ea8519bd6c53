//! Nested sequential Monte Carlo over levels of the likelihood.

mod levels;
