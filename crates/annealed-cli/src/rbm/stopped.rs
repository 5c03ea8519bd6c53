//! Messages for an interrupted run: which chains are kept, and how to continue.

use std::error::Error as AnyError;

use annealed::Error;
use annealed::ais::StoppedBy;

use super::annealing::Chains;
use super::options::Options;

/// The phases of the work, which an interruption can end.
#[derive(Debug, Clone, Copy)]
pub enum Phase {
    Search,
    Schedule,
    Run,
}

/// Explains what is kept if a phase was interrupted before there was a result. Returns other errors unchanged.
pub fn before_a_result(error: Error, options: &Options, phase: Phase) -> Box<dyn AnyError> {
    let Error::Stopped { by, chains } = &error else {
        return error.into();
    };
    let checkpoint = options.checkpoint_file().filter(|file| file.exists());
    let text = match (phase, checkpoint) {
        (Phase::Search, _) => {
            "during the search for a start, and nothing is kept: run the same command again, or skip the search by --base \
             data-rate or --base uniform"
                .to_owned()
        }
        (Phase::Schedule, _) => {
            "during the pilot of the schedule, and nothing is kept: run the same command again, or use a smaller \
             --pilot-stages"
                .to_owned()
        }
        (Phase::Run, Some(file)) => format!(
            "before there was a result; what is done is kept in {}; to continue, run the same command again",
            file.display()
        ),
        (Phase::Run, None) => format!(
            "before the first {chains} chains were done, and nothing is kept: use --checkpoint FILE to keep unfinished work, \
             or a smaller --block-size for an earlier first result"
        ),
    };
    format!("{by} {text}").into()
}

/// Returns `chains`, the requested number, if the run was stopped before all of them were done.
pub fn asked(run: &Chains, chains: usize) -> Option<usize> {
    let by = run.stopped_by();
    matches!(by, StoppedBy::Callback | StoppedBy::TimeLimit).then_some(chains)
}

/// Explains how to continue a run that was stopped when some of `chains` were done. `None` if nothing is left to do.
pub fn to_go_on(options: &Options, run: &Chains, chains: usize) -> Option<String> {
    let (by, chains) = (run.stopped_by(), asked(run, chains)?);
    let kept = match (options.checkpoint_file(), &options.save) {
        (Some(file), _) => {
            format!(
                "kept in {}; to continue, run the same command again",
                file.display()
            )
        }
        (None, Some(file)) => {
            let file = file.display();
            format!(
                "kept in {file}; to continue, run the same command with --chains {chains} --extend {file}"
            )
        }
        (None, None) => "in no file: use --save FILE or --checkpoint FILE to keep them".to_owned(),
    };
    Some(format!(
        "{by}: {} of {chains} chains are done and {kept}",
        run.chains()
    ))
}
