//! The promises of the crate, a module for each. They share one binary, so that the generic code
//! of the library is compiled once for all of them.

mod adaptive;
mod adaptive_laws;
mod allocations;
mod bad_input;
mod blocks;
mod budget_coverage;
mod budgets;
mod checkpoint;
mod determinism;
mod estimate;
mod exact;
mod finite_state;
#[path = "../../examples/common/image_sheet.rs"]
mod image_sheet;
mod invariance;
mod kernels;
mod latin;
mod levels;
mod missing_mass;
mod models;
mod moments;
mod paths;
mod preconditioner;
mod progress;
mod rbm;
mod rbm_files;
mod rbm_gibbs;
mod rbm_moments;
mod rbm_spline;
mod rbm_training;
mod resampling;
mod reverse;
mod ridge;
mod ridge_vectors;
mod rounds;
mod schedule_optimizers;
mod schedules;
mod serialization;
mod tempered_transitions;
mod tempering;
mod unbiasedness;
mod value_stability;
mod variational;
mod waste_free;
