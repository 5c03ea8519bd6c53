//! How a run is conducted.

use std::time::Instant;

use super::ledger::Ledger;
use super::meter::Meter;
use super::progress::Callback;
use super::stop::{Asked, Budget, StoppedBy};
use super::tree::Merge;
use crate::{Error, Result};

/// On how many threads a run works, until when, and who is told of it. But for where the run ends, its bits do not
/// depend on this.
#[derive(Default)]
pub(crate) struct Conduct<'p> {
    pub(crate) threads: Option<usize>,
    pub(crate) budget: Budget,
    pub(crate) progress: Option<Callback<'p>>,
    pub(crate) stop_when: Option<Asked<'p>>,
}

impl Conduct<'_> {
    pub(crate) fn check(&self) -> Result<()> {
        self.budget.check()?;
        Error::check_at_least("threads", self.threads.unwrap_or(1), 1)
    }

    /// Counts chain-steps done, and stops the work where a callback, a signal or the clock says so.
    pub(crate) fn count<T: Merge>(
        &self,
        chain_steps: u64,
        meter: &Meter<'_>,
        begun: Instant,
        ledger: &Ledger<T>,
    ) {
        let asked = || self.stop_when.as_ref().is_some_and(|asked| asked());
        if meter.add(chain_steps) || ledger.leads() && asked() {
            ledger.stop(StoppedBy::Callback);
        } else if ledger.leads() && self.budget.is_over(begun) {
            ledger.stop(StoppedBy::TimeLimit);
        }
    }
}
