//! Comparison of starts, a searched base and base rates, over machines with a known log Z. The machines come from
//! both papers, from another folder, and from twelve trainings here with other seeds.

use std::path::{Path, PathBuf};
use std::time::Instant;

use annealed::ais::{Ais, Run};
use annealed::data::digits;
use annealed::estimate::Warning;
use annealed::plot::Chart;
use annealed::rbm::{
    BaseRate, BlockGibbs, ContrastiveDivergence, MeanFieldMode, Rbm, RbmFile, RbmPath, StartSearch,
};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::image_sheet::image_sheet;
use crate::machines::{Folders, Machine};
use crate::rows::Lines;

const CHAINS: usize = 256;
/// Log Z and its error for machines too large to enumerate, pooled from the long runs of the papers' tables.
const REFERENCES: [(&str, f64, f64); 3] = [
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

#[derive(Debug, Serialize, Deserialize)]
pub struct Pair {
    machine: String,
    stages: usize,
    seed: u64,
    chosen: String,
    components: usize,
    searched: Outcome,
    base_rates: Outcome,
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
    fn of(run: &Run<Vec<bool>>, more: &[Warning], log_z: f64, seconds: f64) -> Self {
        let (lower, upper) = run.interval();
        let warnings = run.warnings().iter().chain(more);
        Self {
            error: run.log_z() - log_z,
            standard_error: run.standard_error(),
            ess: run.effective_sample_size(),
            covers: (lower..=upper).contains(&log_z),
            warnings: warnings.map(Warning::name).collect(),
            seconds,
        }
    }

    fn is_silent(&self) -> bool {
        self.warnings.is_empty()
    }

    /// Returns whether it is off by more than .1 and by more than four errors, the reference's included.
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
    let mut lines = Lines::read(&lines.join("starts.jsonl"))?;
    if !options.table {
        train(folders, trained)?;
        for file in files(&[&folders.trained, &options.others, trained])? {
            let name = stem(&file);
            if name.contains(&options.only) {
                compare(&name, &RbmFile::read(&file)?, options, &mut lines)?;
            }
        }
    }
    print(&lines.all, &options.stages);
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

/// Trains three machines each by CD-1, CD-5 and PCD on MNIST, and by CD-1 on the 8 x 8 digits.
fn train(folders: &Folders, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    let kinds = [
        ("cd1", 1, false, 20),
        ("cd5", 5, false, 20),
        ("pcd", 1, true, 20),
        ("digits", 1, false, 16),
    ];
    for (name, sweeps, persistent, hidden) in kinds {
        for seed in 1..=3 {
            let file = folder.join(format!("{name}-{hidden}-s{seed}.npz"));
            if file.is_file() {
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

/// Returns the log Z of a machine and its error, where they are known.
fn reference(name: &str, file: &RbmFile) -> Option<(f64, f64)> {
    let known = REFERENCES.iter().find(|(machine, ..)| *machine == name);
    let exact = file.log_z_exact.map(|log_z| (log_z, 0.0));
    exact.or(known.map(|&(_, log_z, error)| (log_z, error)))
}

fn compare(name: &str, file: &RbmFile, options: &Options, lines: &mut Lines<Pair>) -> Result<()> {
    let (Some((log_z, _)), Some(base)) = (reference(name, file), &file.base) else {
        eprintln!("{name}: no log Z or no base rates known, left out");
        return Ok(());
    };
    for &stages in &options.stages {
        for seed in 0..options.seeds {
            let is_it = |p: &Pair| p.machine == name && (p.stages, p.seed) == (stages, seed);
            if lines.all.iter().any(is_it) {
                continue;
            }
            let annealed = |base: &BaseRate| -> Result<Run<Vec<bool>>> {
                let path = RbmPath::new(base.clone(), file.rbm.clone())?;
                let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(stages)?);
                ais.chains(CHAINS).seed(seed).run()
            };
            let begun = Instant::now();
            let start = StartSearch::new(CHAINS, stages)
                .given(base.clone())
                .seed(seed);
            let start = start.run(&file.rbm)?;
            let run = annealed(start.base())?;
            let proofs = start.warnings_of(&run);
            let searched = Outcome::of(&run, &proofs, log_z, begun.elapsed().as_secs_f64());
            let begun = Instant::now();
            let run = annealed(base)?;
            let mut base_rates = Outcome::of(&run, &[], log_z, begun.elapsed().as_secs_f64());
            // Base rates are scored without the bounds.
            base_rates.warnings.retain(|name| name != "BelowBound");
            lines.add(Pair {
                machine: name.into(),
                stages,
                seed,
                chosen: start.candidates()[start.chosen()].name.clone(),
                components: start.base().components().len(),
                searched,
                base_rates,
            })?;
        }
    }
    Ok(())
}

fn print(pairs: &[Pair], stages: &[usize]) {
    let mut machines: Vec<&str> = pairs.iter().map(|pair| &*pair.machine).collect();
    machines.sort_unstable();
    machines.dedup();
    for &stages in stages {
        println!(
            "\n| K = {stages} | runs | chosen | RMSE, base rates | RMSE, searched | silent and off | warned | silent that cover | ESS | time | gain in MSE at equal time |\n|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        );
        let (mut gains, mut all) = (Vec::new(), Vec::new());
        for machine in &machines {
            let of = pairs
                .iter()
                .filter(|p| p.machine == **machine && p.stages == stages);
            let of: Vec<&Pair> = of.collect();
            if !of.is_empty() {
                gains.push(line(machine, &of));
                all.extend(of);
            }
        }
        let log_mean = gains.iter().map(|gain: &f64| gain.ln()).sum::<f64>() / gains.len() as f64;
        line("all", &all);
        println!(
            "\nGain in mean squared error at equal time, geometric mean over machines: {:.1}",
            log_mean.exp()
        );
    }
}

fn line(machine: &str, pairs: &[&Pair]) -> f64 {
    let n = pairs.len() as f64;
    let known = REFERENCES.iter().map(|&(name, _, error)| (name, error));
    let error_of = |pair: &Pair| {
        known
            .clone()
            .find(|(name, _)| *name == pair.machine)
            .map_or(0.0, |(_, e)| e)
    };
    let mean = |f: &dyn Fn(&Pair) -> f64| pairs.iter().map(|pair| f(pair)).sum::<f64>() / n;
    let (searched, base) = (
        |p: &Pair| p.searched.clone(),
        |p: &Pair| p.base_rates.clone(),
    );
    let both = |count: &dyn Fn(&Outcome, f64) -> bool| {
        let counts = [true, false].map(|old| {
            let outcome = |p: &&&Pair| count(&if old { base(p) } else { searched(p) }, error_of(p));
            pairs.iter().filter(outcome).count()
        });
        format!("{} -> {}", counts[0], counts[1])
    };
    let mse = [
        mean(&|p| base(p).error.powi(2)),
        mean(&|p| searched(p).error.powi(2)),
    ];
    let seconds = [mean(&|p| base(p).seconds), mean(&|p| searched(p).seconds)];
    let time = seconds[1] / seconds[0];
    let gain = mse[0] / mse[1] / time;
    let mut chosen: Vec<&str> = pairs.iter().map(|pair| &*pair.chosen).collect();
    chosen.sort_unstable();
    let chosen = chosen
        .chunk_by(|a, b| a == b)
        .map(|same| format!("{} {}", same.len(), same[0]));
    println!(
        "| {machine} | {n} | {} | {:.3} | {:.3} | {} | {} | {} | {:.0} -> {:.0} | {time:.2} | {gain:.1} |",
        chosen.collect::<Vec<_>>().join(", "),
        mse[0].sqrt(),
        mse[1].sqrt(),
        both(&|o, e| o.is_silent() && o.is_off(e)),
        both(&|o, _| !o.is_silent()),
        both(&|o, _| o.is_silent() && o.covers),
        mean(&|p| base(p).ess),
        mean(&|p| searched(p).ess),
    );
    gain
}

/// Draws log Z^ of three starts against K, less the exact value, and the modes that a search starts from.
fn draw(file: &RbmFile, figures: &Path) -> Result<()> {
    let Some((base_rates, log_z)) = file.base.clone().zip(file.log_z_exact) else {
        return Err(Error::invalid("machine", "no base rates or log Z", "both"));
    };
    let coins = BaseRate::uniform(file.rbm.hidden_units(), file.rbm.visible_units())?;
    let mut points = [Vec::new(), Vec::new(), Vec::new()];
    let mut modes = Vec::new();
    for stages in [100, 300, 1_000, 3_000, 10_000, 30_000] {
        let search = StartSearch::new(CHAINS, stages).given(base_rates.clone());
        let start = search.run(&file.rbm)?;
        for (base, points) in [&base_rates, &coins, start.base()]
            .into_iter()
            .zip(&mut points)
        {
            let path = RbmPath::new(base.clone(), file.rbm.clone())?;
            let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(stages)?);
            let run = ais.chains(CHAINS).run()?;
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
