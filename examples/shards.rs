//! One run on many machines: each job of an array writes its part of the chains to a file, and a last job merges the
//! files.
//!
//! ```text
//! cargo run --release --features full --example shards -- run part-3.json --part 3 --of 8
//! cargo run --release --features full --example shards -- merge part-*.json
//! ```
//!
//! Under Slurm use `#SBATCH --array=0-7`, `--part $SLURM_ARRAY_TASK_ID` and `--of $SLURM_ARRAY_TASK_COUNT`.
//!
//! A job that runs out of time, or gets SIGTERM, writes its finished blocks. The merge lists missing chains, and a job
//! that is started again continues from its file. Without arguments the program shows all this in a temporary folder.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annealed::ais::RunPart;
use annealed::prelude::*;
use clap::{Args, Parser};
use signal_hook::consts::SIGTERM;
use signal_hook::flag::register;

/// One run on many machines, by files.
#[derive(Debug, Parser)]
enum Task {
    /// Run one part and write it to a file
    Run(Job),
    /// Merge the files of all parts
    Merge { files: Vec<PathBuf> },
}

#[derive(Debug, Clone, Args)]
struct Job {
    /// File of the part, which is gone on with if it is there
    file: PathBuf,
    /// The part, from 0
    #[arg(long)]
    part: usize,
    /// Number of parts
    #[arg(long)]
    of: usize,
    /// Seconds after which the job writes what is done
    #[arg(long, default_value_t = 3_600)]
    time_limit: u64,
}

type Shard = RunPart<DVector<f64>>;
type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    if std::env::args().len() == 1 {
        return show();
    }
    match Task::parse() {
        Task::Run(job) => run(&job),
        Task::Merge { files } => merge(&files),
    }
}

/// Returns a path to two Gaussian modes in ten dimensions; log Z is 0.
fn path() -> annealed::Result<GeometricPath<Gaussian, GaussianMixture>> {
    let mode = |x: f64| Gaussian::isotropic(DVector::from_element(10, x), 0.5);
    let target = GaussianMixture::new([(0.75, mode(-1.0)?), (0.25, mode(1.0)?)])?;
    let base = Gaussian::isotropic(DVector::zeros(10), 1.5)?;
    Ok(GeometricPath::new(base, target))
}

/// Runs the chains of the part that its file does not contain yet.
fn run(job: &Job) -> Done {
    let stop = Arc::new(AtomicBool::new(false));
    register(SIGTERM, Arc::clone(&stop))?;
    let path = path()?;
    // All parts have the same settings and the same seed.
    let ais = Ais::new(&path, Hmc::new(0.2, 3)?)
        .schedule(Schedule::linear(100)?)
        .chains(4_096)
        .seed(1)
        .stop_when(|| stop.load(Ordering::Relaxed))
        .time_limit(Duration::from_secs(job.time_limit));
    let ranges = ais.ranges(job.of)?;
    let range = ranges
        .get(job.part)
        .ok_or("no chains are left for this part")?;
    let shard = if job.file.exists() {
        let mut shard = read(&job.file)?;
        for gap in shard.missing() {
            let gap = gap.start.max(range.start)..gap.end.min(range.end);
            if !gap.is_empty() {
                shard = RunPart::join([shard, ais.run_range(gap)?])?;
            }
        }
        shard
    } else {
        ais.run_range(range.clone())?
    };
    write(&job.file, &shard)?;
    let done = shard.finished();
    println!("part {}: {done} of {} chains", job.part, range.len());
    Ok(())
}

/// Merges parts and prints the missing chains.
fn merge(files: &[PathBuf]) -> Done {
    let shards: Done<Vec<Shard>> = files.iter().map(|file| read(file)).collect();
    let run = RunPart::merge(shards?)?;
    println!("{} parts: {run}", files.len());
    for chains in run.missing() {
        println!("missing: chains {chains:?}");
    }
    assert!(run.log_z().abs() <= 4.0 * run.standard_error());
    Ok(())
}

fn read(file: &Path) -> Done<Shard> {
    Ok(serde_json::from_str(&fs::read_to_string(file)?)?)
}

/// Writes a temporary file and renames it, so that a killed job never leaves a partial file.
fn write(file: &Path, shard: &Shard) -> Done {
    let beside = file.with_extension("tmp");
    fs::write(&beside, serde_json::to_string(shard)?)?;
    Ok(fs::rename(&beside, file)?)
}

/// Runs eight parts. One is lost for a while, and one runs out of time.
fn show() -> Done {
    let folder = std::env::temp_dir().join(format!("annealed-shards-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let file = |part| folder.join(format!("part-{part}.json"));
    let job = |part, time_limit| Job {
        file: file(part),
        part,
        of: 8,
        time_limit,
    };
    for part in [0, 1, 2, 4, 5, 7] {
        run(&job(part, 60))?;
    }
    run(&job(6, 0))?;
    merge(&[0, 1, 2, 4, 5, 6, 7].map(file))?;
    println!("\nthe two jobs again:");
    run(&job(3, 60))?;
    run(&job(6, 60))?;
    merge(&[0, 1, 2, 3, 4, 5, 6, 7].map(file))?;
    Ok(fs::remove_dir_all(&folder)?)
}
