//! The extension module `annealed._annealed`, which takes arrays and returns results. Users call the package `annealed`
//! in the folder `python`, which converts their data and contains the documentation.

mod bridge_sampling;
mod challenge;
mod comparison;
mod convert;
mod desk;
mod energy;
mod errors;
mod evidence;
mod free_energy;
mod kept;
mod likelihood;
mod log_z;
mod many;
mod mbar;
mod nested;
mod posterior;
mod priors;
mod problem;
mod rbm;
mod rbm_reverse;
mod reverse;
mod stan;
mod tempering;
mod words;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _annealed {
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use super::bridge_sampling::{BridgeSampling, bridge_sampling};
    #[pymodule_export]
    use super::challenge::challenge;
    #[pymodule_export]
    use super::comparison::{LogZSum, compare, log_z_sum, score_difference};
    #[pymodule_export]
    use super::energy::{challenge_log_z, log_z};
    #[pymodule_export]
    use super::errors::NonFinite;
    #[pymodule_export]
    use super::evidence::evidence;
    #[pymodule_export]
    use super::free_energy::free_energy;
    #[pymodule_export]
    use super::likelihood::_time_calls;
    #[pymodule_export]
    use super::log_z::{LogZ, log_ratio};
    #[pymodule_export]
    use super::many::log_likelihoods;
    #[pymodule_export]
    use super::mbar::{States, mbar};
    #[pymodule_export]
    use super::nested::nested;
    #[pymodule_export]
    use super::posterior::Evidence;
    #[pymodule_export]
    use super::priors::{Prior, prior, prior_draws};
    #[pymodule_export]
    use super::rbm::{RbmRun, rbm};
    #[pymodule_export]
    use super::rbm_reverse::BothDirections;
    #[pymodule_export]
    use super::reverse::reverse;
    #[pymodule_export]
    use super::stan::stan;
    #[pymodule_export]
    use super::tempering::tempering;
    #[pymodule_export]
    use super::words::_phrases;
}
