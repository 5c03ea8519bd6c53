//! Pilots, and the schedules that come of them.

mod optimizers;
mod schedules;
mod small_support;
