//! Small data sets and readers of their formats, for examples and tests.

mod digits;
mod idx;

pub use digits::{Digits, digits};
pub use idx::IdxArray;
