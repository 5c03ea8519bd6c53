//! Models and priors, one state at a time and in batches, and evidences.

mod batch_model;
mod batches;
mod evidence;
mod extreme_priors;
mod joint_priors;
mod models;
