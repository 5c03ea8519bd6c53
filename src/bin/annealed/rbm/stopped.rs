//! Words for an interrupted run: the chains that are kept, and how to go on.

use std::error::Error as AnyError;

use annealed::Error;
use annealed::ais::StoppedBy;

use super::annealing::Chains;
use super::options::Options;

/// Says what an interruption before any result leaves; `phase` is what was interrupted. Other errors stay as they are.
pub fn before_a_result(error: Error, options: &Options, phase: Phase) -> Box<dyn AnyError> {
    let Error::Stopped { by, chains } = &error else {
        return error.into();
    };
    let checkpoint = options.checkpoint_file().filter(|file| file.exists());
    let text = match (phase, checkpoint) {
        (Phase::Search, _) => format!(
            "{by} during the search for a start, of which nothing is kept: begin anew, or without a search by \
             --base data-rate or --base uniform"
        ),
        (Phase::Schedule, _) => {
            format!("{by} during the pilot of the schedule, of which nothing is kept: begin anew")
        }
        (Phase::Run, Some(file)) => {
            let file = file.display();
            format!("{by}: what is done is kept in {file}; to go on: the same command again")
        }
        (Phase::Run, None) => format!(
            "{by} before the first {chains} chains were done, of which nothing is kept: --checkpoint FILE keeps what is \
             done, and a smaller --block-size has a first result sooner"
        ),
    };
    let start = match (&options.save_start, phase) {
        (Some(file), Phase::Schedule | Phase::Run) if file.exists() => {
            format!(" (--start {} spares the search)", file.display())
        }
        _ => String::new(),
    };
    (text + &start).into()
}

/// The parts of the work that end at an interruption.
#[derive(Debug, Clone, Copy)]
pub enum Phase {
    Search,
    Schedule,
    Run,
}

/// Says how to go on with a run that was stopped when some of `chains` were done; `None` if nothing is left to do.
pub fn to_go_on(options: &Options, run: &Chains, chains: usize) -> Option<String> {
    let by = run.stopped_by();
    if !matches!(by, StoppedBy::Callback | StoppedBy::TimeLimit) {
        return None;
    }
    let done = format!("{by}: {} of {chains} chains are done", run.chains());
    Some(match (options.checkpoint_file(), &options.save) {
        (Some(file), _) => {
            let file = file.display();
            format!("{done} and kept in {file}; to go on: the same command again")
        }
        (None, Some(file)) => format!(
            "{done} and kept in {file}; to go on: the same command with --chains {chains} --extend {file}",
            file = file.display()
        ),
        (None, None) => {
            format!("{done} and in no file: --save FILE or --checkpoint FILE keeps them")
        }
    })
}
