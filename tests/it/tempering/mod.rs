//! Parallel tempering.

mod ladders;
