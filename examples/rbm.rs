//! The log partition function of a restricted Boltzmann machine, with an interval, next to the exact value.
//!
//! Trains an RBM on embedded digits, enumerates log Z, estimates it by annealed importance sampling, and scores
//! held-out digits. For an RBM from a file: `cargo run --release -p annealed-cli -- rbm --help`.
//!
//! ```text
//! cargo run --release --example rbm -- --chains 1000
//! ```

use std::time::Instant;

use annealed::data;
use annealed::prelude::*;
use clap::Parser;

/// Train an RBM on the embedded 8 x 8 digits, and estimate its log partition function.
#[derive(Debug, Parser)]
struct Options {
    /// Number of chains N
    #[arg(long, default_value_t = 4_096)]
    chains: usize,
    /// Number of stages K
    #[arg(long, default_value_t = 10_000)]
    steps: usize,
    /// Seed of training and run; one seed gives the same figures for any number of threads
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const HIDDEN_UNITS: usize = 20;

fn main() -> annealed::Result<()> {
    let Options {
        chains,
        steps,
        seed,
    } = Options::parse();
    let (held_out, training) = digits();
    let rbm = train(&training, seed)?;
    let base = BaseRate::from_data(HIDDEN_UNITS, &training, 1.0)?;
    let path = RbmPath::new(base.clone(), rbm.clone())?;
    let run = Ais::new(&path, BlockGibbs)
        .schedule(Schedule::linear(steps)?)
        .chains(chains)
        .seed(seed)
        .run()?;
    println!("{run}");
    let exact = rbm.exact_log_normalizer()?;
    let error = run.log_z() - exact;
    println!("exact log Z = {exact:.3}, error {error:+.3}");
    // A run with a larger error must at least warn.
    assert!(error.abs() <= 4.0 * run.standard_error() || !run.warnings().is_empty());

    let likelihood = rbm.log_likelihood(&held_out, run.log_z(), &base)?;
    let (lower, upper) = run.interval();
    let log_f = likelihood.mean + run.log_z();
    println!(
        "log likelihood of {} held-out images: {:.3} nats an image, +- {:.3} over images (95% interval from the forward \
         log Z alone: {:.3} to {:.3}); under the base-rate model {:.3}",
        likelihood.rows,
        likelihood.mean,
        likelihood.standard_error,
        log_f - upper,
        log_f - lower,
        likelihood.base_rate,
    );
    let engine = run
        .simd_level()
        .map_or("generic".into(), |engine| engine.to_string());
    let (seconds, rate) = (run.seconds(), run.chain_steps_per_second());
    println!(
        "{chains} chains of {steps} stages in {seconds:.1} s, {rate:.3e} chain-steps a second ({engine})"
    );
    Ok(())
}

/// Returns every fifth digit, which is held out, and the other digits.
fn digits() -> (Vec<Vec<bool>>, Vec<Vec<bool>>) {
    let images = data::digits().images.into_iter().enumerate();
    let (held_out, training): (Vec<_>, Vec<_>) = images.partition(|(index, _)| index % 5 == 0);
    let images = |rows: Vec<(usize, Vec<bool>)>| rows.into_iter().map(|(_, image)| image).collect();
    (images(held_out), images(training))
}

fn train(training: &[Vec<bool>], seed: u64) -> annealed::Result<Rbm> {
    eprintln!("training an RBM on {} digits", training.len());
    let begun = Instant::now();
    let start = Rbm::from_data(HIDDEN_UNITS, training, seed)?;
    let trained = ContrastiveDivergence::new(1)
        .persistent(true)
        .epochs(200)
        .learning_rate(0.05, 0.0)
        .seed(seed)
        .train(start, training)?;
    println!(
        "trained an RBM, {} visible and {HIDDEN_UNITS} hidden units, on {} handwritten digits in {:.1} s",
        trained.rbm.visible_units(),
        training.len(),
        begun.elapsed().as_secs_f64()
    );
    Ok(trained.rbm)
}
