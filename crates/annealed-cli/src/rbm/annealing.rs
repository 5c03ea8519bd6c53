//! The forward run: alone, from saved parts, with checkpoints, or on many processes.

use std::ops::Range;
use std::time::Duration;

use annealed::ais::{Ais, Run, RunPart};
use annealed::rbm::{BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::{Error, Result};

use super::options::Options;
use super::processes::Processes;
use crate::interrupt::Interrupt;
use crate::saved;

pub type Chains = Run<Vec<bool>>;
pub type Done = RunPart<Vec<bool>>;

/// The default number of chains.
pub const CHAINS: usize = 4_096;

/// Reads the files of `--extend`, which must be of a run of `rbm`.
pub fn read_done(options: &Options, rbm: &Rbm) -> Result<Option<Done>> {
    if options.extend.is_empty() {
        return Ok(None);
    }
    if let Some(file) = options
        .extend
        .iter()
        .find(|file| saved::is_of_another(file, rbm))
    {
        let reason = "is a run of another RBM, or of the same weights read the other way round (--square-transposed)";
        return Err(Error::file(file, reason));
    }
    let parts = options.extend.iter().map(|file| saved::read(file));
    let parts: Vec<_> = parts.collect::<Result<_>>()?;
    let joined = RunPart::join(parts);
    joined
        .map(Some)
        .map_err(|error| Error::file(files(options), error))
}

fn files(options: &Options) -> String {
    let names = options.extend.iter().map(|file| file.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the requested number of chains; if it is not set, the number of chains of the run that is extended.
pub fn chains(options: &Options, done: Option<&Done>) -> usize {
    let of = |done: &Done| done.finished() + done.missing().iter().map(Range::len).sum::<usize>();
    options.chains.or(done.map(of)).unwrap_or(CHAINS)
}

/// Creates the runner that the options describe.
pub fn describe<'p>(
    options: &Options,
    chains: usize,
    path: &'p RbmPath,
    schedule: Schedule,
    (interrupt, processes): (&Interrupt, &Processes),
) -> Result<Ais<'p, &'p RbmPath, BlockGibbs>> {
    let mut ais = Ais::new(path, BlockGibbs)
        .schedule(schedule)
        .chains(chains)
        .seed(options.seed)
        .block_size(options.block_size);
    if let Some(threads) = options.threads {
        ais = ais.threads(threads);
    }
    if let Some(error) = options.until_error {
        ais = ais.until_error(error);
    }
    if let Some(time) = options.time_limit {
        ais = ais.time_limit(time);
    }
    if !options.json && processes.speaks() {
        ais = ais.progress_bar();
    }
    let interrupt = interrupt.clone();
    Ok(ais.stop_when(move || interrupt.is_asked()))
}

/// Runs the chains, in this process alone or shared with other processes.
pub fn run<'p>(
    options: &Options,
    ais: &Ais<'p, &'p RbmPath, BlockGibbs>,
    done: Option<Done>,
    processes: &Processes,
) -> Result<Chains> {
    if let Some(done) = done {
        let files = files(options);
        let extended = ais.extend(done);
        let remedy = "to extend it, give --extend with the RBM, base, stages and seed of the command that began it";
        return extended.map_err(|error| match error {
            Error::OtherRun { .. } => Error::file(files, format!("{error}; {remedy}")),
            Error::InvalidArgument {
                argument: "chains",
                value,
                expected,
            } => Error::file(files, Error::invalid("--chains", value, expected)),
            other => other,
        });
    }
    let Some(file) = options.checkpoint_file() else {
        let expected = "--checkpoint FILE or --resume FILE beside it";
        return match (options.checkpoint_every, processes.ranks()) {
            (Some(_), _) => Err(Error::invalid("--checkpoint-every", "no file", expected)),
            (None, Some(ranks)) => ais.ranks(ranks).run(),
            (None, None) => ais.run(),
        };
    };
    let every = options.checkpoint_every.unwrap_or(Duration::from_secs(60));
    let mut checkpointed = ais.checkpoint(file).every(every);
    if let Some(ranks) = processes.ranks() {
        checkpointed = checkpointed.ranks(ranks);
    }
    let is_there = file.try_exists().unwrap_or(true);
    if is_there && !options.mpi {
        eprintln!("going on from {}", file.display());
    }
    let run = match options.resume.is_some() {
        true => checkpointed.resume(),
        false => checkpointed.resume_or_run(),
    };
    run.map_err(|error| match is_there && options.checkpoint.is_some() {
        true => with_a_way_out(error),
        false => error,
    })
}

/// Adds advice to the error for a checkpoint of another run.
fn with_a_way_out(error: Error) -> Error {
    match error {
        Error::File {
            path,
            reason,
            source: None,
        } => {
            let way_out = "repeat the command that began it (RBM, base, stages, seed), give --checkpoint another file, or \
                           delete this one to begin anew";
            Error::file(path, format!("{reason}; {way_out}"))
        }
        other => other,
    }
}
