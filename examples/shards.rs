//! One run on many machines: each job of an array writes its part of the chains to a file, and a last job merges.
//!
//! ```text
//! cargo run --release --features full --example shards -- run --part 3 --of 8 --folder shards
//! cargo run --release --features full --example shards -- merge --folder shards
//! ```
//!
//! Under Slurm, `#SBATCH --array=0-7` and
//!
//! ```text
//! shards run --part $SLURM_ARRAY_TASK_ID --of $SLURM_ARRAY_TASK_COUNT --folder shards --time-limit 3500
//! ```
//!
//! A job whose time is over, or that gets SIGTERM, writes its finished blocks. The merge lists missing chains; a job
//! that runs again goes on from its file. Without arguments the program shows all this in a temporary folder.

#[path = "../crates/annealed-cli/src/interrupt.rs"]
mod interrupt;
#[path = "../crates/annealed-cli/src/seconds.rs"]
mod seconds;

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use annealed::ais::{Ais, RunPart};
use annealed::kernel::Hmc;
use annealed::prelude::*;
use annealed::{Error, Result};
use clap::{Parser, Subcommand};
use interrupt::Interrupt;
use seconds::seconds;

/// One run on many machines, by files.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run one part and write it to a file
    Run(Job),
    /// Merge the files of a folder
    Merge {
        #[arg(long)]
        folder: PathBuf,
    },
}

#[derive(Debug, Clone, clap::Args)]
struct Job {
    /// The part, from 0
    #[arg(long)]
    part: usize,
    /// Number of parts
    #[arg(long)]
    of: usize,
    /// Folder of the parts
    #[arg(long)]
    folder: PathBuf,
    /// Number of chains of all parts together
    #[arg(long, default_value_t = 16_384)]
    chains: usize,
    /// Number of stages
    #[arg(long, default_value_t = 500)]
    steps: usize,
    /// The seed, the same for all parts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds after which the job writes what is done
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<Duration>,
}

type Shard = RunPart<DVector<f64>>;

fn main() -> ExitCode {
    let interrupt = Interrupt::default();
    let done = match Options::parse().task {
        Some(Task::Run(job)) => listen(&interrupt).and_then(|()| run(&job, &interrupt)),
        Some(Task::Merge { folder }) => merge(&folder),
        None => show(),
    };
    let code = done.map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    );
    interrupt.exit_code_or(code)
}

fn listen(interrupt: &Interrupt) -> Result<()> {
    let listens = interrupt.listen();
    listens.map_err(|error| Error::file("signals", error.to_string()))
}

/// Returns a path to two Gaussian modes in ten dimensions; `log Z` is 0.
fn path() -> Result<GeometricPath<Gaussian, GaussianMixture>> {
    let mode = |x: f64| Gaussian::isotropic(DVector::from_element(10, x), 0.5);
    let target = GaussianMixture::new([(0.75, mode(-1.0)?), (0.25, mode(1.0)?)])?;
    Ok(GeometricPath::new(
        Gaussian::isotropic(DVector::zeros(10), 1.5)?,
        target,
    ))
}

fn run(job: &Job, interrupt: &Interrupt) -> Result<()> {
    let file = job
        .folder
        .join(format!("part-{}-of-{}.json", job.part, job.of));
    fs::create_dir_all(&job.folder).map_err(|error| Error::file(&job.folder, error.to_string()))?;
    let path = path()?;
    let mut ais = Ais::new(&path, Hmc::new(0.2, 3)?)
        .schedule(Schedule::linear(job.steps)?)
        .chains(job.chains)
        .seed(job.seed)
        .stop_when(|| interrupt.is_asked());
    if let Some(time) = job.time_limit {
        ais = ais.time_limit(time);
    }
    let ranges = ais.ranges(job.of)?;
    let Some(range) = ranges.get(job.part) else {
        println!(
            "part {} of {} has nothing to do: {} will do",
            job.part,
            job.of,
            ranges.len()
        );
        return Ok(());
    };
    let shard = match file.exists() {
        true => complete(&ais, read(&file)?, range)?,
        false => ais.run_range(range.clone())?,
    };
    write(&file, &shard)?;
    let (done, of) = (shard.finished(), range.len());
    println!("part {} of {}: {done} of {of} chains", job.part, job.of);
    Ok(())
}

/// Runs the chains of `range` that an earlier job did not finish.
fn complete<P, K>(ais: &Ais<'_, P, K>, mut shard: Shard, range: &Range<usize>) -> Result<Shard>
where
    P: AnnealingPath<State = DVector<f64>> + Sync,
    K: for<'a> TransitionKernel<P::At<'a>> + Sync,
{
    let within = |gap: &Range<usize>| gap.start.max(range.start)..gap.end.min(range.end);
    let gaps = shard.missing();
    for gap in gaps.iter().map(within).filter(|gap| !gap.is_empty()) {
        shard = RunPart::join([shard, ais.run_range(gap)?])?;
    }
    Ok(shard)
}

/// Merges the parts of a folder, and prints what is missing.
fn merge(folder: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::file(folder, error.to_string());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let files = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files: Vec<PathBuf> = files.collect::<io::Result<_>>().map_err(failed)?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    let shards: Vec<Shard> = files.iter().map(|file| read(file)).collect::<Result<_>>()?;
    let run = RunPart::merge(shards)?;
    println!("{} parts: {run}", files.len());
    for chains in run.missing() {
        println!("missing: chains {chains:?}");
    }
    Ok(())
}

fn read(file: &Path) -> Result<Shard> {
    let failed = |error: io::Error| Error::file(file, error.to_string());
    let text = fs::read_to_string(file).map_err(failed)?;
    serde_json::from_str(&text).map_err(|error| Error::file(file, error.to_string()))
}

/// Writes a temporary file and renames it, so that a job that is killed leaves a whole file.
fn write(file: &Path, shard: &Shard) -> Result<()> {
    let beside = file.with_extension("tmp");
    let text =
        serde_json::to_string(shard).map_err(|error| Error::file(file, error.to_string()))?;
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| Error::file(file, error.to_string()))
}

/// Runs eight parts; one is lost for a while, and one runs out of time.
fn show() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("annealed-shards-{}", std::process::id()));
    let interrupt = Interrupt::default();
    let job = |part, time_limit| Job {
        part,
        of: 8,
        folder: folder.clone(),
        chains: 4_096,
        steps: 100,
        seed: 1,
        time_limit,
    };
    for part in [0, 1, 2, 4, 5, 7] {
        run(&job(part, None), &interrupt)?;
    }
    run(&job(6, Some(Duration::ZERO)), &interrupt)?;
    merge(&folder)?;
    println!("\nthe two jobs again:");
    run(&job(3, None), &interrupt)?;
    run(&job(6, None), &interrupt)?;
    merge(&folder)?;
    fs::remove_dir_all(&folder).map_err(|error| Error::file(&folder, error.to_string()))
}
