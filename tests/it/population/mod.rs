//! Resampling between stages, and waste-free populations.

mod resampling;
mod waste_free;
