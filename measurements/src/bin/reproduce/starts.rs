//! Compares two starts, the mixture that a search finds and base rates, on machines with a known log Z. The machines
//! come from both papers, from another folder, and from twelve trainings here with other seeds; two are traps.

use std::path::{Path, PathBuf};

use annealed::ais::{Ais, Run};
use annealed::data::digits;
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::rbm::{
    BaseRate, BlockGibbs, ContrastiveDivergence, MeanFieldMode, Rbm, RbmPath, StartSearch,
};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use annealed_files::RbmFile;
use annealed_measurements::image_sheet::image_sheet;
use annealed_plot::Chart;
use serde::{Deserialize, Serialize};

use crate::machines::{Folders, Machine};
use crate::rows::Lines;
use crate::traps;

/// Number of chains of the runs from one base, chosen from several. The mixture is compared with these runs.
const CHAINS_OF_CHOICE: usize = 256;
/// Log Z and its error for machines too large to enumerate, pooled from the long runs of the papers' tables.
const REFERENCES: [(&str, f64, f64); 4] = [
    ("bars-200", 258.70, 0.015),
    ("cd1-500", 656.343, 0.025),
    ("pcd-500", 467.80, 0.02),
    ("rbm500_cd25_sm08", 451.245, 0.015),
];

// Options of the comparison. (A doc comment would become the program's help.)
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Numbers of stages
    #[arg(long = "stages", value_delimiter = ',', default_value = "1000,10000")]
    stages: Vec<usize>,
    /// Runs of each machine at each number of stages
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Numbers of chains
    #[arg(long, value_delimiter = ',', default_value = "256,512,1000")]
    chains: Vec<usize>,
    /// Only machines whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of other RBMs
    #[arg(long, default_value = "../shared/data/rbm")]
    others: PathBuf,
    /// Table of the lines that are there, without runs
    #[arg(long)]
    table: bool,
    /// Figures of log Z^ of three starts against K on CD1(20), and of its modes
    #[arg(long)]
    picture: bool,
}

/// A run from the base that the search chose before it mixed bases, and a run from base rates.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pair {
    machine: String,
    stages: usize,
    seed: u64,
    searched: Outcome,
    base_rates: Outcome,
}

/// A run from the mixture that the search finds.
#[derive(Debug, Serialize, Deserialize)]
struct Mixed {
    machine: String,
    stages: usize,
    chains: usize,
    seed: u64,
    components: usize,
    /// Shares of the bases that found mass.
    shares: Vec<(String, f64)>,
    search_seconds: f64,
    run: Outcome,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Outcome {
    /// `log Z^ - log Z`.
    error: f64,
    standard_error: f64,
    ess: f64,
    covers: bool,
    warnings: Vec<String>,
    seconds: f64,
}

impl Outcome {
    fn of(run: &Run<Vec<bool>>, log_z: f64) -> Self {
        let (lower, upper) = run.interval();
        Self {
            error: run.log_z() - log_z,
            standard_error: run.standard_error(),
            ess: run.effective_sample_size(),
            covers: (lower..=upper).contains(&log_z),
            warnings: run.warnings().iter().map(Warning::name).collect(),
            seconds: run.seconds(),
        }
    }

    fn is_silent(&self) -> bool {
        self.warnings.is_empty()
    }

    /// Returns true if log Z is off by more than .1 and by more than four errors, which include the reference's.
    fn is_off(&self, of_reference: f64) -> bool {
        let error = self.standard_error.hypot(of_reference);
        self.error.abs() > 0.1_f64.max(4.0 * error)
    }
}

pub fn run(options: &Options, folders: &Folders, lines: &Path, figures: &Path) -> Result<()> {
    if options.picture {
        return draw(&Machine::Cd1_20.read(folders)?, figures);
    }
    let trained = Path::new("target/reproduction/starts");
    let old = Lines::<Pair>::read(&lines.join("starts.jsonl"))?;
    let mut lines = Lines::read(&lines.join("mixtures.jsonl"))?;
    if !options.table {
        train(folders, trained, &options.only)?;
        for file in files(&[&folders.trained, &options.others, trained])? {
            let name = stem(&file);
            if name.contains(&options.only) {
                compare(&name, &RbmFile::read(&file)?, options, &mut lines)?;
            }
        }
    }
    print(&lines.all, &old.all, options);
    Ok(())
}

fn stem(file: &Path) -> String {
    file.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn files(folders: &[&Path]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))?;
        let mut found: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        found.retain(|file| file.extension().is_some_and(|extension| extension == "npz"));
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

/// Trains three machines each by CD-1, CD-5 and PCD on MNIST, and by CD-1 on the 8 x 8 digits, and creates the traps.
fn train(folders: &Folders, folder: &Path, only: &str) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    let bars = folders.trained.join("bars-200.npz");
    if !bars.is_file() {
        traps::train_bars(&bars)?;
    }
    traps::write_pattern(&folder.join("pattern-100.npz"))?;
    let kinds = [
        ("cd1", 1, false, 20),
        ("cd5", 5, false, 20),
        ("pcd", 1, true, 20),
        ("digits", 1, false, 16),
    ];
    for (name, sweeps, persistent, hidden) in kinds {
        for seed in 1..=3 {
            let file = folder.join(format!("{name}-{hidden}-s{seed}.npz"));
            if file.is_file() || !stem(&file).contains(only) {
                continue;
            }
            let images = match name {
                "digits" => digits().images,
                _ => folders.training_images()?,
            };
            let rate = if persistent { 0.05 } else { 0.1 };
            let trained = ContrastiveDivergence::new(sweeps)
                .persistent(persistent)
                .batch_size(100)
                .epochs(250_000_usize.div_ceil(images.len() / 100))
                .learning_rate(rate, 0.0)
                .seed(seed)
                .train(Rbm::<f32>::from_data(hidden, &images, seed)?, &images)?;
            let of = RbmFile {
                log_z_exact: Some(trained.rbm.exact_log_normalizer()?),
                base: Some(BaseRate::from_data(hidden, &images, 1.0)?),
                rbm: trained.rbm,
                chains: None,
            };
            of.write(&file)?;
            eprintln!("{}: trained", file.display());
        }
    }
    Ok(())
}

/// Returns the log Z of a machine and its error, if they are known.
fn reference(name: &str, file: &RbmFile) -> Option<(f64, f64)> {
    let known = REFERENCES.iter().find(|(machine, ..)| *machine == name);
    let exact = file.log_z_exact.map(|log_z| (log_z, 0.0));
    exact.or(known.map(|&(_, log_z, error)| (log_z, error)))
}

fn compare(name: &str, file: &RbmFile, options: &Options, lines: &mut Lines<Mixed>) -> Result<()> {
    let (Some((log_z, _)), Some(base)) = (reference(name, file), &file.base) else {
        eprintln!("{name}: no log Z or no base rates known, left out");
        return Ok(());
    };
    for &stages in &options.stages {
        for seed in 0..options.seeds {
            let is_there = |chains: usize| {
                lines.all.iter().any(|line| {
                    (&*line.machine, line.stages, line.chains, line.seed)
                        == (name, stages, chains, seed)
                })
            };
            let missing = options.chains.iter().filter(|&&chains| !is_there(chains));
            let missing = Vec::from_iter(missing.copied());
            if missing.is_empty() {
                continue;
            }
            // The search does not depend on the number of chains.
            let search = StartSearch::new(stages).given(base.clone()).seed(seed);
            let start = search.run(&file.rbm)?;
            let path = start.path(file.rbm.clone())?;
            for chains in missing {
                let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(stages)?);
                let run = ais.chains(chains).seed(seed).run()?;
                let found = start.candidates().iter().filter(|one| one.share > 0.0);
                lines.add(Mixed {
                    machine: name.into(),
                    stages,
                    chains,
                    seed,
                    components: start.base().components().len(),
                    shares: found.map(|one| (one.name.clone(), one.share)).collect(),
                    search_seconds: start.seconds(),
                    run: Outcome::of(&run, log_z),
                })?;
            }
        }
    }
    Ok(())
}

fn print(lines: &[Mixed], old: &[Pair], options: &Options) {
    let mut machines: Vec<&str> = lines.iter().map(|line| &*line.machine).collect();
    machines.sort_unstable();
    machines.dedup();
    for &stages in &options.stages {
        println!(
            "\n| K = {stages} | N | runs | RMSE, chosen | RMSE, mixed | silent and off | warned | silent that cover | ESS / N, chosen | ESS / N, mixed | components | search, s | run, s |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
        );
        for &chains in &options.chains {
            let of = |machine: Option<&str>| {
                let is_of = |name: &str| machine.is_none_or(|machine| machine == name);
                let lines = lines.iter().filter(|line| {
                    (line.stages, line.chains) == (stages, chains) && is_of(&line.machine)
                });
                let old = old
                    .iter()
                    .filter(|pair| pair.stages == stages && is_of(&pair.machine));
                let lines: Vec<&Mixed> = lines.collect();
                if !lines.is_empty() {
                    row(
                        machine.unwrap_or("all"),
                        chains,
                        &lines,
                        &Vec::from_iter(old),
                    );
                }
            };
            machines.iter().for_each(|machine| of(Some(machine)));
            of(None);
        }
    }
}

fn row(machine: &str, chains: usize, lines: &[&Mixed], old: &[&Pair]) {
    let is_silent_and_off = |line: &&&Mixed| {
        let known = REFERENCES.iter().find(|(name, ..)| *name == line.machine);
        line.run.is_silent() && line.run.is_off(known.map_or(0.0, |&(.., error)| error))
    };
    let count = |is: &dyn Fn(&&&Mixed) -> bool| lines.iter().filter(|line| is(line)).count();
    let mean = |f: &dyn Fn(&Mixed) -> f64| {
        lines.iter().map(|line| f(line)).sum::<f64>() / lines.len() as f64
    };
    let of_choice = |f: &dyn Fn(&Outcome) -> f64| {
        old.iter().map(|pair| f(&pair.searched)).sum::<f64>() / old.len() as f64
    };
    println!(
        "| {machine} | {chains} | {} | {:.3} | {:.3} | {} | {} | {} | {:.2} | {:.2} | {:.0} | {:.1} | {:.1} |",
        lines.len(),
        of_choice(&|run| run.error.powi(2)).sqrt(),
        mean(&|line| line.run.error.powi(2)).sqrt(),
        count(&is_silent_and_off),
        count(&|line| !line.run.is_silent()),
        count(&|line| line.run.is_silent() && line.run.covers),
        of_choice(&|run| run.ess) / CHAINS_OF_CHOICE as f64,
        mean(&|line| line.run.ess / line.chains as f64),
        mean(&|line| line.components as f64),
        mean(&|line| line.search_seconds),
        mean(&|line| line.run.seconds),
    );
}

/// Draws log Z^ of three starts minus the exact value against K, and the modes from which a search starts.
fn draw(file: &RbmFile, figures: &Path) -> Result<()> {
    let Some((base_rates, log_z)) = file.base.clone().zip(file.log_z_exact) else {
        return Err(Error::invalid("machine", "no base rates or log Z", "both"));
    };
    let coins = BaseRate::uniform(file.rbm.hidden_units(), file.rbm.visible_units())?;
    let mut points = [Vec::new(), Vec::new(), Vec::new()];
    let mut modes = Vec::new();
    for stages in [100, 300, 1_000, 3_000, 10_000, 30_000] {
        let search = StartSearch::new(stages).given(base_rates.clone());
        let start = search.run(&file.rbm)?;
        for (base, points) in [&base_rates, &coins, start.base()]
            .into_iter()
            .zip(&mut points)
        {
            let path = RbmPath::new(base.clone(), file.rbm.clone())?;
            let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(stages)?);
            let run = ais.chains(CHAINS_OF_CHOICE).run()?;
            let (lower, upper) = run.interval();
            points.push((
                stages as f64,
                run.log_z() - log_z,
                (lower - log_z, upper - log_z),
            ));
        }
        modes = start.bound().modes.clone();
    }
    let mut chart = Chart::new("CD1(20): log Ẑ - log Z", "K", "nats").logarithmic_x();
    for (name, points) in ["base rates", "fair coins", "searched"]
        .into_iter()
        .zip(points)
    {
        chart = chart.line_with_errors(name, points);
    }
    chart.save(figures.join("starts-log-z.svg"))?;
    let image = |mode: &MeanFieldMode| mode.visible.iter().map(|&p| p > 0.5).collect();
    let mut images: Vec<Vec<bool>> = modes.iter().take(8).map(image).collect();
    images.insert(
        0,
        base_rates
            .visible_bias()
            .iter()
            .map(|&logit| logit > 0.0)
            .collect(),
    );
    let sheet = image_sheet(
        28,
        &[("base rates, then the eight best modes".to_owned(), images)],
    );
    let name = figures.join("starts-modes.svg");
    std::fs::write(&name, sheet).map_err(|error| Error::io(&name, error))
}
