//! Rounds, fitted bases, and challenges of a result.

mod challenge;
mod fitted;
mod rounds;
mod warnings;
