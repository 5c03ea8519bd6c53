//! Drift-modified Langevin steps, their modifiers, and ridge superpositions.

mod langevin;
mod laws;
mod ridge;
mod ridge_vectors;
