//! Progress of a long run.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Chain-steps done.
    pub done: u64,
    /// Chain-steps in all.
    pub total: u64,
}

/// Counts chain-steps and calls back about a thousand times a run.
pub(crate) struct Meter<'a> {
    callback: Option<&'a (dyn Fn(Progress) + Sync)>,
    done: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(callback: Option<&'a (dyn Fn(Progress) + Sync)>, total: u64) -> Self {
        Self {
            callback,
            done: AtomicU64::new(0),
            total,
        }
    }

    pub(crate) fn add(&self, chain_steps: usize) {
        let Some(callback) = self.callback else {
            return;
        };
        let before = self.done.fetch_add(chain_steps as u64, Ordering::Relaxed);
        let done = before + chain_steps as u64;
        let total = self.total;
        let tick = (total / 1_000).max(1);
        if done / tick > before / tick {
            callback(Progress { done, total });
        }
    }
}

/// A callback that draws a bar.
#[cfg(feature = "progress")]
pub(crate) fn bar() -> impl Fn(Progress) + Sync {
    let bar = indicatif::ProgressBar::no_length();
    let template = "{wide_bar} {percent}% {human_pos} chain-steps, {eta} left";
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    move |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        if progress.done == progress.total {
            bar.finish_and_clear();
        }
    }
}
