//! The program of an integration: trains on the digits, with log Z and held-out likelihoods along the way.

use std::path::Path;
use std::time::Instant;

use annealed::estimate::LogZ;
use annealed::model::{Gaussian, NormalizedModel, UnnormalizedModel};
use annealed::nalgebra::DVector;
use annealed_plot::Chart;

use super::checks::{anneal, batched, per_chain};
use super::digits::{self, PIXELS};
use super::training::train;
use super::{Failed, Network, layers};

/// Numbers of updates at which log Z is estimated.
const LOOKS: [usize; 9] = [0, 50, 100, 200, 300, 400, 600, 800, 1_000];

/// A look at the training: log Z with its interval, and the mean held-out log likelihood, which has the error of log Z.
struct Look {
    update: usize,
    log_z: f64,
    interval: (f64, f64),
    likelihood: f64,
}

/// Trains, prints and draws into `folder`.
pub fn run<N: Network>(name: &str, folder: &Path) -> Result<(), Failed> {
    let begun = Instant::now();
    let digits = digits::noisy(0)?;
    let base = digits::base_of(&digits.training)?;
    let layers = layers(&[PIXELS, 128, 64, 1], 1.0, 0)?;
    let mut network = N::new(&layers, &base)?;
    println!(
        "held-out log likelihood, nats an image: {:.2} of the base\n",
        of_base(&base, &digits.held_out)
    );
    println!("updates  held-out  log Z");
    let mut looks: Vec<Look> = Vec::new();
    train(
        &mut network,
        (&digits.training, &base),
        &LOOKS,
        |update, network| {
            let run = network.log_z(base.clone())?;
            let likelihood = mean_log_density(network, &digits.held_out)? - run.log_z();
            println!("{update:7}  {likelihood:8.2}  {run}");
            looks.push(Look {
                update,
                log_z: run.log_z(),
                interval: run.interval(),
                likelihood,
            });
            Ok(())
        },
    )?;
    draw(name, folder, &looks)?;
    compare(&network, &base);
    println!("\n{:.0} s in all", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Returns the mean log density of rows, not normalised.
fn mean_log_density<N: Network>(network: &N, rows: &[f32]) -> Result<f64, Failed> {
    let n = rows.len() / PIXELS;
    let (values, _) = network.log_densities(rows, n)?;
    Ok(values.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64)
}

/// Returns the mean log likelihood of rows by the base.
fn of_base(base: &Gaussian, rows: &[f32]) -> f64 {
    let row = |row: &[f32]| {
        base.log_density(&DVector::from_iterator(
            PIXELS,
            row.iter().map(|x| f64::from(*x)),
        ))
    };
    let sum: f64 = rows.chunks(PIXELS).map(row).sum();
    sum / (rows.len() / PIXELS) as f64 - base.log_normalizer()
}

/// Draws log Z and the held-out log likelihood along the training.
fn draw(name: &str, folder: &Path, looks: &[Look]) -> Result<(), Failed> {
    std::fs::create_dir_all(folder)?;
    let picture = |file: &str, chart: Chart| -> Result<(), Failed> {
        let path = folder.join(file);
        chart.save(&path)?;
        println!("{}", path.display());
        Ok(())
    };
    println!();
    let points = looks
        .iter()
        .map(|look| (look.update as f64, look.log_z, look.interval));
    let chart = Chart::new(
        &format!("log Z along the training, {name}"),
        "updates",
        "log Z",
    );
    picture("log-z.svg", chart.line_with_errors("95% interval", points))?;
    let points = looks.iter().map(|look| {
        let likelihood = |log_z: f64| look.likelihood + look.log_z - log_z;
        let (low, high) = look.interval;
        (
            look.update as f64,
            look.likelihood,
            (likelihood(high), likelihood(low)),
        )
    });
    let chart = Chart::new(
        &format!("Held-out digits, {name}"),
        "updates",
        "log likelihood, nats an image",
    );
    picture(
        "likelihood.svg",
        chart.line_with_errors("95% interval of log Z", points),
    )
}

/// Compares batches with single states, by few stages.
fn compare<N: Network>(network: &N, base: &Gaussian) {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let batch = anneal(batched(network, PIXELS, &calls), base, 0.1, (512, 5));
    let single = anneal(per_chain(network, PIXELS), base, 0.1, (512, 5));
    println!(
        "\nfive stages: log Z {:.5} in batches ({} calls, {:.2} s), {:.5} chain by chain ({:.2} s)",
        batch.log_z(),
        calls.into_inner(),
        batch.seconds(),
        single.log_z(),
        single.seconds()
    );
}
