//! The problems of `shared`: each value by a second way, each problem solved.

mod autoencoder;
mod exact;
mod latin;
