//! A progress bar.

use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::progress::{Callback, Progress, callback};

/// A callback that draws a bar on a terminal (standard error), and elsewhere writes a line after 10, 20, 40, ..
/// seconds, later every ten minutes.
///
/// Runners have it as their `progress_bar`. By itself it is for calls that take a callback, as
/// [`ScheduleOptimizer::optimize_with_progress`](crate::pilot::ScheduleOptimizer::optimize_with_progress) does.
pub fn progress_bar() -> impl Fn(Progress) -> ControlFlow<()> + Sync {
    let bar: Callback<'_> = match stderr().is_terminal() {
        true => callback(drawn_bar()),
        false => callback(lines()),
    };
    bar
}

fn drawn_bar() -> impl Fn(Progress) + Sync {
    let bar = indicatif::ProgressBar::no_length();
    let bar = bar.with_finish(indicatif::ProgressFinish::AndClear);
    let template = "{wide_bar} {msg}";
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    move |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        bar.set_message(progress.to_string());
        if progress.done == progress.total {
            bar.finish_and_clear();
        }
    }
}

/// Writes a line to standard error after 10, 20, 40, .. seconds, and from then on every ten minutes.
fn lines() -> impl Fn(Progress) + Sync {
    let due = Mutex::new(10.0);
    move |progress| {
        let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.seconds >= *due {
            eprintln!("{progress}");
            *due = progress.seconds + progress.seconds.min(600.0);
        }
    }
}
