//! Estimates from weights: intervals, bounds, comparisons, rounding.

mod certified;
mod comparison;
mod log_z;
mod rounding;
mod weights;
