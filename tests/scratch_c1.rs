#[path = "it/certified.rs"]
mod certified;
#[path = "it/rbm_bases.rs"]
mod rbm_bases;
#[path = "it/rbm_lower_bound.rs"]
mod rbm_lower_bound;
