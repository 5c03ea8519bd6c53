//! Islands: blocks of chains that are resampled, each with an estimate of its own.

use annealed::ais::Run;
use annealed::estimate::log_mean_exp;
use annealed::population::ResamplingScheme;

use super::mean_and_error;

pub const SCHEMES: [ResamplingScheme; 4] = [
    ResamplingScheme::Multinomial,
    ResamplingScheme::Residual,
    ResamplingScheme::Stratified,
    ResamplingScheme::Systematic,
];

/// Returns the mean of the islands' estimates of `Z_K/Z_0` over the true one, minus 1, and its standard error.
pub fn bias_of<S>(run: &Run<S>, island: usize, log_ratio: f64) -> (f64, f64) {
    let islands = run.log_weights().chunks(island);
    mean_and_error(islands.map(|w| (log_mean_exp(w) - log_ratio).exp() - 1.0))
}
