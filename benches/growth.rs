//! Growth of the time and memory of annealing an RBM with D, M, N and K, on one thread; writes a figure. Each number
//! covers two orders of magnitude while the others stay fixed.
//!
//! ```text
//! cargo bench -p annealed-benches --bench growth -- ../docs/figures/cost-growth.svg 5
//! ```
//!
//! Each run is a process of its own, so that its peak memory can be read. The last argument is the number of rounds;
//! figures are medians over rounds. Times are wall times, so the machine should be idle.

use std::process::Command;
use std::time::Instant;
use std::{env, fs, io};

use annealed::prelude::*;
use annealed::rand::{RngExt, SeedableRng};
use annealed_plot::{Chart, save_column};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

const NAMES: [&str; 4] = ["D", "M", "N", "K"];
/// Visible units D, hidden units M, chains N and stages K.
const STANDARD: [usize; 4] = [784, 128, 256, 256];
const FACTORS: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];
const LEAST: [usize; 4] = [64, 16, 128, 64];

type Failure = Box<dyn std::error::Error>;

/// Time and peak memory of one run.
#[derive(Debug, Clone, Copy)]
struct Cost {
    seconds: f64,
    megabytes: f64,
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().skip(1).collect();
    if let Some(sizes) = words.strip_prefix(&["--run".to_string()]) {
        let sizes: Result<Vec<usize>, _> = sizes.iter().map(|size| size.parse()).collect();
        let cost = run(sizes?.try_into().map_err(|_| "expected D M N K")?)?;
        println!("{} {}", cost.seconds, cost.megabytes);
        return Ok(());
    }
    let mut words = words.iter().filter(|word| !word.starts_with("--"));
    let figure = words.next().map_or("cost-growth.svg", |word| word);
    let rounds = words.next().map_or(Ok(5), |word| word.parse())?;
    let measured = measure(rounds)?;
    println!("| | from | to | seconds | exponent | of the upper half | MB |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (which, line) in measured.iter().enumerate() {
        print_row(which, line);
    }
    draw(&measured, figure)
}

fn draw(measured: &[Vec<Cost>], file: &str) -> Result<(), Failure> {
    let chart = |title, label| {
        let chart = Chart::new(title, "times the least", label);
        chart.logarithmic_x().logarithmic_y()
    };
    let mut seconds = chart("Time of a run", "seconds");
    let mut memory = chart("Peak memory of the process", "MB");
    for (which, line) in measured.iter().enumerate() {
        let name = format!("{} from {}", NAMES[which], LEAST[which]);
        let points = || FACTORS.iter().map(|&f| f as f64).zip(line);
        seconds = seconds.line(&name, points().map(|(f, cost)| (f, cost.seconds)));
        memory = memory.line(&name, points().map(|(f, cost)| (f, cost.megabytes)));
    }
    Ok(save_column(&[seconds, memory], file)?)
}

/// Returns the median costs at each size of each of the four numbers.
fn measure(rounds: usize) -> Result<Vec<Vec<Cost>>, Failure> {
    let mut found = vec![vec![Vec::new(); FACTORS.len()]; NAMES.len()];
    for round in 0..rounds {
        for (which, line) in found.iter_mut().enumerate() {
            for (costs, factor) in line.iter_mut().zip(FACTORS) {
                let mut sizes = STANDARD;
                sizes[which] = LEAST[which] * factor;
                costs.push(run_apart(sizes)?);
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    let lines = found
        .iter()
        .map(|line| line.iter().map(|costs| middle(costs)).collect());
    Ok(lines.collect())
}

fn middle(costs: &[Cost]) -> Cost {
    let median = |of: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Cost {
        seconds: median(|cost| cost.seconds),
        megabytes: median(|cost| cost.megabytes),
    }
}

/// Runs one case in a process of its own.
fn run_apart(sizes: [usize; 4]) -> Result<Cost, Failure> {
    let words = sizes.map(|size| size.to_string());
    let output = Command::new(env::current_exe()?)
        .arg("--run")
        .args(words)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(seconds), Some(megabytes)) => Ok(Cost {
            seconds: seconds?,
            megabytes: megabytes?,
        }),
        _ => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

/// Times the making of the path and the run, without the random weights.
fn run([visible, hidden, chains, stages]: [usize; 4]) -> Result<Cost, Failure> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut normal = |scale: f64| (scale * rng.sample::<f64, _>(StandardNormal)) as f32;
    let scale = 0.5 / (hidden as f64).sqrt();
    let weights = DMatrix::from_fn(hidden, visible, |_, _| normal(scale));
    let biases = DVector::repeat(visible, -2.0);
    let target = Rbm::new(weights, DVector::zeros(hidden), biases.clone())?;
    let begun = Instant::now();
    let path = RbmPath::new(BaseRate::new(hidden, biases)?, target)?;
    let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(stages)?);
    let _run = ais.chains(chains).threads(1).run()?;
    Ok(Cost {
        seconds: begun.elapsed().as_secs_f64(),
        megabytes: peak_kilobytes()? / 1024.0,
    })
}

fn peak_kilobytes() -> io::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| io::Error::other("no VmHWM in /proc/self/status"))
}

fn print_row(which: usize, line: &[Cost]) {
    let points: Vec<(f64, f64)> = FACTORS
        .iter()
        .zip(line)
        .map(|(&factor, cost)| ((factor as f64).ln(), cost.seconds.ln()))
        .collect();
    let (first, last) = (line[0], line[line.len() - 1]);
    println!(
        "| {} | {} | {} | {:.3} to {:.2} | {:.2} | {:.2} | {:.0} to {:.0} |",
        NAMES[which],
        LEAST[which],
        LEAST[which] * FACTORS[FACTORS.len() - 1],
        first.seconds,
        last.seconds,
        slope(&points),
        slope(&points[points.len() / 2..]),
        first.megabytes,
        last.megabytes,
    );
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let products: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    products / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}
