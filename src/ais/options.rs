//! What a user sets of a run, apart from path, kernel and recorder.

use super::partial::Settings;
use super::stages::Windows;
use crate::num::Engine;
use crate::random::Purpose;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// The options of a run, not yet checked. They do not depend on the types of path and kernel, and
/// neither does the code that checks them.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) log_base_normalizer: f64,
    pub(super) schedule: Option<Schedule>,
    pub(super) chains: usize,
    pub(super) seed: u64,
    pub(super) purpose: Purpose,
    pub(super) threads: Option<usize>,
    pub(super) block_size: usize,
    pub(super) recorded_stages: usize,
}

impl Options {
    pub(super) fn new(log_base_normalizer: f64) -> Self {
        Self {
            log_base_normalizer,
            schedule: None,
            chains: 1_000,
            seed: 0,
            purpose: Purpose::Run,
            threads: None,
            block_size: 128,
            recorded_stages: 1_000,
        }
    }

    /// The settings of the run, with the engine of its path.
    ///
    /// # Errors
    /// An option out of range.
    pub(super) fn settings(&self, engine: Option<Engine>) -> Result<Settings> {
        Error::check_at_least("chains", self.chains, 1)?;
        Error::check_at_least("block_size", self.block_size, 1)?;
        Error::check_at_least("recorded_stages", self.recorded_stages, 1)?;
        Error::check_at_least("threads", self.threads.unwrap_or(1), 1)?;
        Error::check_number("log normalizer of the base", self.log_base_normalizer)?;
        let schedule = match &self.schedule {
            Some(schedule) => schedule.clone(),
            None => Schedule::linear(1_000)?,
        };
        Ok(Settings {
            windows: Windows::new(schedule.steps(), self.recorded_stages),
            schedule,
            chains: self.chains,
            block_size: self.block_size,
            seed: self.seed,
            purpose: self.purpose,
            log_base_normalizer: self.log_base_normalizer,
            engine,
        })
    }
}
