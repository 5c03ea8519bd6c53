//! Compares annealing through checkpoints of training with a searched start and base rates, at equal processor time.
//!
//! The machines have 20 hidden units, so that log Z is exact. `docs/notes/bases.md` has the results.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin checkpoints -- --stages 1000 --seeds 10
//! ```

use std::fs;
use std::path::PathBuf;

use annealed::Result;
use annealed::ais::{Ais, Run};
use annealed::estimate::LogZ;
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, ContrastiveDivergence, Rbm, RbmPath, StartSearch};
use annealed::schedule::Schedule;
use annealed_files::BinaryData;
use annealed_measurements::bars::bars;
use clap::Parser;
use rand::RngExt;

const HIDDEN: usize = 20;
const CHAINS: usize = 256;

#[derive(Debug, Parser)]
struct Options {
    /// Number of stages of the run after the search; the others get the time of both
    #[arg(long, default_value_t = 1_000)]
    stages: usize,
    /// Runs for each row
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// Only machines whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Binarised training images of MNIST, whose machines are skipped without them
    #[arg(
        long,
        default_value = "../shared/data/mnist/train-images-binarized-idx3-ubyte.gz"
    )]
    mnist: PathBuf,
}

/// A training: its data, and its settings.
struct Training {
    name: &'static str,
    data: Vec<Vec<bool>>,
    settings: ContrastiveDivergence,
}

/// A trained machine with its checkpoints, at epochs 1, 2, 4, ..
struct Trained {
    base: BaseRate,
    checkpoints: Vec<Rbm>,
    rbm: Rbm,
    exact: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    for training in trainings(&options)? {
        if training.name.contains(&options.only) {
            compare(&training, &options)?;
        }
    }
    Ok(())
}

fn trainings(options: &Options) -> Result<Vec<Training>> {
    let pcd = |epochs| {
        ContrastiveDivergence::new(1)
            .persistent(true)
            .epochs(epochs)
    };
    let mut trainings = vec![
        Training {
            name: "line",
            data: line(),
            settings: pcd(256).learning_rate(0.05, 0.01),
        },
        Training {
            name: "clusters",
            data: clusters(),
            settings: pcd(256).learning_rate(0.05, 0.01),
        },
        Training {
            name: "clusters-slow",
            data: clusters(),
            settings: pcd(256).learning_rate(0.005, 0.001),
        },
        Training {
            name: "bars",
            data: bars(20, 3_000, 3),
            settings: pcd(64).learning_rate(0.05, 0.0),
        },
    ];
    if options.mnist.is_file() {
        let images = BinaryData::read(&options.mnist)?.into_rows();
        let images = images[..10_000].to_vec();
        let cd = ContrastiveDivergence::new(1).batch_size(100).epochs(256);
        trainings.push(Training {
            name: "mnist-cd1",
            data: images.clone(),
            settings: cd,
        });
        let pcd = pcd(256).batch_size(100).learning_rate(0.05, 0.0);
        trainings.push(Training {
            name: "mnist-pcd",
            data: images,
            settings: pcd,
        });
    }
    Ok(trainings)
}

/// Returns 100 units along a line: they are fair coins in its middle and nearly certain at both ends.
fn line() -> Vec<Vec<bool>> {
    let mut rng = stream(0, Purpose::DATA, 1);
    let mut row = || {
        let place = [-5.0, 0.0, 5.0][rng.random_range(0..3)];
        let on = |unit: usize, draw: f64| {
            let sign = if unit.is_multiple_of(2) { 1.0 } else { -1.0 };
            draw < 1.0 / (1.0 + f64::exp(-sign * place))
        };
        (0..100).map(|unit| on(unit, rng.random())).collect()
    };
    (0..3_000).map(|_| row()).collect()
}

/// Returns four tight clusters and a broad one around random prototypes of 100 units.
fn clusters() -> Vec<Vec<bool>> {
    let mut rng = stream(0, Purpose::DATA, 2);
    let mut prototype = || Vec::from_iter((0..100).map(|_| rng.random::<bool>()));
    let prototypes: Vec<_> = (0..5).map(|_| prototype()).collect();
    let mut row = || {
        let cluster = rng.random_range(0..5);
        let flip = if cluster == 0 { 0.3 } else { 0.02 };
        let unit = |&on: &bool| on != (rng.random::<f64>() < flip);
        prototypes[cluster].iter().map(unit).collect()
    };
    (0..3_000).map(|_| row()).collect()
}

fn train(training: &Training) -> Result<Trained> {
    let base = BaseRate::from_data(HIDDEN, &training.data, 1.0)?;
    let start = Rbm::from_data(HIDDEN, &training.data, 1)?;
    let mut checkpoints = Vec::new();
    let settings = training.settings.seed(1);
    let trained = settings.train_with(start, &training.data, |epoch, rbm: &Rbm| {
        if (epoch.index + 1).is_power_of_two() {
            checkpoints.push(rbm.clone());
        }
    })?;
    checkpoints.pop(); // the machine itself
    let exact = trained.rbm.exact_log_normalizer()?;
    Ok(Trained {
        base,
        checkpoints,
        rbm: trained.rbm,
        exact,
    })
}

fn compare(training: &Training, options: &Options) -> Result<()> {
    let name = training.name;
    println!("\n{name}");
    let trained = train(training)?;
    let Trained {
        base,
        checkpoints,
        rbm,
        exact,
    } = &trained;
    println!("{} checkpoints, log Z = {exact:.3}", checkpoints.len());
    println!(
        "| machine | start | stages | RMSE | mean error | off and silent | warned | 95% holds | ESS / N | CPU s |"
    );
    let searched = |seed| {
        let start = StartSearch::new(options.stages)
            .given(base.clone())
            .seed(seed)
            .threads(1)
            .run(rbm)?;
        run(&start.path(rbm.clone())?, options.stages, seed)
    };
    let auto = timed(options.seeds, searched)?;
    print_row(name, "search", options.stages, &auto, *exact);
    let models = [checkpoints.as_slice(), std::slice::from_ref(rbm)].concat();
    let knots = Schedule::linear(models.len())?;
    let through = RbmPath::through(base.clone(), models, knots)?;
    let straight = RbmPath::new(base.clone(), rbm.clone())?;
    for (start, path) in [("checkpoints", through), ("base rates", straight)] {
        let (_, seconds) = timed(2, |seed| run(&path, options.stages, seed))?;
        let stages = (options.stages as f64 * auto.1 / seconds) as usize;
        let found = timed(options.seeds, |seed| run(&path, stages, seed))?;
        print_row(name, start, stages, &found, *exact);
    }
    Ok(())
}

fn run(path: &RbmPath, stages: usize, seed: u64) -> Result<Run<Vec<bool>>> {
    let ais = Ais::new(path, BlockGibbs).schedule(Schedule::linear(stages)?);
    ais.chains(CHAINS).seed(seed).threads(1).run()
}

/// Returns the results for all seeds, and the mean processor time.
fn timed<T>(seeds: u64, run: impl Fn(u64) -> Result<T>) -> Result<(Vec<T>, f64)> {
    let begun = cpu_seconds();
    let runs = (0..seeds).map(run).collect::<Result<Vec<T>>>()?;
    Ok((runs, (cpu_seconds() - begun) / seeds as f64))
}

/// Returns the processor time of this process (Linux).
fn cpu_seconds() -> f64 {
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").expect("processor times of Linux");
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = after_name.split(' ').skip(11).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

type Timed = (Vec<Run<Vec<bool>>>, f64);

fn print_row(machine: &str, start: &str, stages: usize, (runs, seconds): &Timed, exact: f64) {
    let mean =
        |f: &dyn Fn(&Run<Vec<bool>>) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
    let error = |run: &Run<Vec<bool>>| run.log_z() - exact;
    let count =
        |holds: &dyn Fn(&Run<Vec<bool>>) -> bool| runs.iter().filter(|run| holds(run)).count();
    let off = |run: &Run<Vec<bool>>| error(run).abs() > f64::max(0.1, 4.0 * run.standard_error());
    let holds = |run: &Run<Vec<bool>>| (run.interval().0..=run.interval().1).contains(&exact);
    println!(
        "| {machine} | {start} | {stages} | {:.3} | {:+.3} | {} | {} | {} | {:.2} | {seconds:.1} |",
        mean(&|run| error(run).powi(2)).sqrt(),
        mean(&error),
        count(&|run| run.warnings().is_empty() && off(run)),
        count(&|run| !run.warnings().is_empty()),
        count(&holds),
        mean(&|run| run.effective_sample_size()) / CHAINS as f64,
    );
}
