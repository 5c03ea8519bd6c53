//! A variational autoencoder on the embedded digits. Its encoder is a flow of learned transitions; annealed
//! importance sampling measures the held-out log likelihood.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin digits_autoencoder               # one seed, short
//! cargo run --release -p annealed-measurements --bin digits_autoencoder -- --full     # the table of docs/notes/variational.md
//! cargo run --release -p annealed-measurements --bin digits_autoencoder -- --full --decoder decoder.txt
//! ```

use std::time::Instant;

use annealed::Error;
use annealed::adaptive::FirstPass;
use annealed::ais::Ais;
use annealed::data::digits;
use annealed::estimate::LogZ;
use annealed::kernel::Hmc;
use annealed::learned::{
    AmortizedTransitions, LearnedTransitions, Likelihood, Mean, Noise, Objective, Training,
};
use annealed::model::Gaussian;
use annealed::path::TemperedPath;
use annealed::schedule::Schedule;
use annealed_measurements::autoencoder::{Autoencoder, BernoulliDecoder, TrainableDecoder};
use clap::Parser;
use nalgebra::DVector;

const LATENT: usize = 8;
const HIDDEN: usize = 64;
const TRANSITIONS: usize = 4;
const BATCH: usize = 128;
const TRAINING_IMAGES: usize = 1_437;

#[derive(Parser)]
struct Options {
    /// Three seeds, long trainings, more held-out images.
    #[arg(long)]
    full: bool,
    /// Number of seeds; 1, with --full 3.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Iterations of the annealed objectives; 100, with --full 3000.
    #[arg(long)]
    iterations: Option<usize>,
    /// Held-out images to score; 4, with --full 120 of 360.
    #[arg(long)]
    images: Option<usize>,
    /// Learning rate before its decay; the default was the best for each method with --validate.
    #[arg(long, default_value_t = 4e-3)]
    rate: f64,
    /// Tuning mode: training on the first 1,200 images, scores of the 237 after them.
    #[arg(long)]
    validate: bool,
    /// Stages of the annealed runs with HMC.
    #[arg(long, default_value_t = 100)]
    stages: usize,
    /// In place of all scores, writes the parameters of a decoder to this file, a line each. Its training is the
    /// beta-annealed ELBO with equal updates, by the first seed.
    #[arg(long)]
    decoder: Option<std::path::PathBuf>,
}

/// A training method; `updates` is relative to the annealed objectives.
struct Method {
    name: &'static str,
    objective: Objective,
    updates: usize,
}

const WARM_UP: Objective = Objective::WarmUp { until: 0.5 };
const METHODS: [Method; 4] = [
    Method {
        name: "AVO",
        objective: Objective::Annealed,
        updates: 1,
    },
    Method {
        name: "loss-calibrated .5",
        objective: Objective::LossCalibrated { weight: 0.5 },
        updates: 1,
    },
    Method {
        name: "beta-annealed ELBO, equal updates",
        objective: WARM_UP,
        updates: 1,
    },
    Method {
        name: "beta-annealed ELBO, equal gradients",
        objective: WARM_UP,
        updates: TRANSITIONS,
    },
];

type Trained = Autoencoder<BernoulliDecoder>;
type PosteriorPath<'a> = TemperedPath<&'a Gaussian, Likelihood<'a, BernoulliDecoder>>;

/// Means over images; `variance` is the squared standard error of `log_likelihood` from the number of chains.
#[derive(Default)]
struct Score {
    log_likelihood: f64,
    variance: f64,
    lower_bound: f64,
    ess: f64,
}

impl Score {
    fn add(&mut self, run: &annealed::ais::Run<DVector<f64>>, images: usize) {
        let share = 1.0 / images as f64;
        self.log_likelihood += share * run.log_z();
        self.variance += (share * run.standard_error()).powi(2);
        self.lower_bound += share * run.lower_bound();
        self.ess += share * run.effective_sample_size() / run.chains() as f64;
    }
}

fn main() -> annealed::Result<()> {
    let options = Options::parse();
    let pick =
        |set: Option<usize>, short, full| set.unwrap_or(if options.full { full } else { short });
    let iterations = pick(options.iterations, 100, 3_000);
    let images = pick(options.images, 4, 120);
    let seeds = options.seeds.unwrap_or(if options.full { 3 } else { 1 });
    let data = vectors();
    let (train, held_out) = match options.validate {
        true => data[..TRAINING_IMAGES].split_at(1_200),
        false => data.split_at(TRAINING_IMAGES),
    };
    let held_out = &held_out[..images.clamp(1, held_out.len())];
    if let Some(path) = &options.decoder {
        let (rate, seed) = (options.rate, options.first_seed);
        let found = trained(&METHODS[2], train, iterations, rate, seed)?;
        let parameters = found.decoder.parameters();
        let lines: String = parameters.iter().map(|x| format!("{x}\n")).collect();
        return std::fs::write(path, lines).map_err(|error| Error::io(path, error));
    }
    for seed in options.first_seed..options.first_seed + seeds {
        for method in &METHODS {
            let begun = Instant::now();
            let trained = trained(method, train, iterations, options.rate, seed)?;
            let seconds = begun.elapsed().as_secs_f64();
            let name = method.name;
            println!("seed {seed}, {name}: trained in {seconds:.1} s");
            report(&trained, held_out, &options, seed)?;
        }
    }
    single_image(&held_out[0])
}

fn trained(
    method: &Method,
    data: &[DVector<f64>],
    iterations: usize,
    rate: f64,
    seed: u64,
) -> annealed::Result<Trained> {
    let training = Training::new(method.objective)
        .iterations(iterations * method.updates)
        .batch_size(BATCH)
        .learning_rate(rate)
        .seed(seed);
    let (encoder, decoder) = (encoder(seed)?, decoder(seed));
    Ok(Autoencoder::train(
        training,
        encoder,
        decoder,
        data,
        &schedule()?,
    )?)
}

fn vectors() -> Vec<DVector<f64>> {
    let bits = |image: Vec<bool>| image.into_iter().map(|bit| f64::from(u8::from(bit)));
    let images = digits().images.into_iter();
    images
        .map(|image| DVector::from_iterator(64, bits(image)))
        .collect()
}

fn encoder(seed: u64) -> annealed::Result<AmortizedTransitions> {
    let mean = Mean::Gated { hidden: HIDDEN };
    AmortizedTransitions::new(mean, LATENT, 64, TRANSITIONS, seed)
}

fn decoder(seed: u64) -> BernoulliDecoder {
    BernoulliDecoder::new(LATENT, HIDDEN, 64, seed)
}

fn schedule() -> annealed::Result<Schedule> {
    Schedule::linear(TRANSITIONS)
}

fn report(
    trained: &Trained,
    images: &[DVector<f64>],
    options: &Options,
    seed: u64,
) -> annealed::Result<()> {
    let by_flow = score_by_flow(trained, images, seed)?;
    let by_hmc = score_by_hmc(&trained.decoder, images, options.stages, seed)?;
    println!(
        "    held-out log p(x): {:.3} +- {:.3} by HMC (ESS/N {:.2}), {:.3} +- {:.3} by the encoder \
         (ESS/N {:.2}); ELBO {:.3}",
        by_hmc.log_likelihood,
        by_hmc.variance.sqrt(),
        by_hmc.ess,
        by_flow.log_likelihood,
        by_flow.variance.sqrt(),
        by_flow.ess,
        by_flow.lower_bound
    );
    Ok(())
}

/// Scores the encoder with Student noise; the lower bound keeps the noise of training.
fn score_by_flow(trained: &Trained, images: &[DVector<f64>], seed: u64) -> annealed::Result<Score> {
    let prior = Gaussian::standard(LATENT)?;
    let mut score = Score::default();
    let mut bound = Score::default();
    for x in images {
        let path = posterior(&prior, &trained.decoder, x)?;
        let flow = trained.encoder.flow.given(x)?;
        let trusted = flow.clone().with_noise(Noise::Student {
            degrees_of_freedom: 10,
        })?;
        let ais = |flow| Ais::new(&path, flow).seed(seed);
        score.add(&ais(trusted).schedule(schedule()?).run()?, images.len());
        bound.add(&ais(flow).schedule(schedule()?).run()?, images.len());
    }
    score.lower_bound = bound.lower_bound;
    Ok(score)
}

/// Scores the decoder by annealing from the prior with HMC, which a first pass tunes on the first image.
fn score_by_hmc(
    decoder: &BernoulliDecoder,
    images: &[DVector<f64>],
    stages: usize,
    seed: u64,
) -> annealed::Result<Score> {
    let prior = Gaussian::standard(LATENT)?;
    let schedule = Schedule::power(stages, 2.0)?;
    let first = posterior(&prior, decoder, &images[0])?;
    let pass = FirstPass::new(&first, Hmc::new(0.5, 3)?);
    let hmc = pass.seed(seed).run()?.kernel;
    let mut score = Score::default();
    for x in images {
        let path = posterior(&prior, decoder, x)?;
        let ais = Ais::new(&path, &hmc).schedule(schedule.clone());
        score.add(&ais.chains(64).seed(seed).run()?, images.len());
    }
    Ok(score)
}

fn posterior<'a>(
    prior: &'a Gaussian,
    decoder: &'a BernoulliDecoder,
    x: &'a DVector<f64>,
) -> annealed::Result<PosteriorPath<'a>> {
    Ok(TemperedPath::new(prior, Likelihood::new(decoder, x)?))
}

/// Trains and runs a flow for one image alone, without an encoder.
fn single_image(x: &DVector<f64>) -> annealed::Result<()> {
    let prior = Gaussian::standard(LATENT)?;
    let decoder = decoder(1);
    let path = posterior(&prior, &decoder, x)?;
    let flow = LearnedTransitions::new(Mean::Gated { hidden: 16 }, LATENT, TRANSITIONS, 1)?;
    let training = Training::new(Objective::Annealed).iterations(200);
    let trained = training.train(flow, &path, &schedule()?)?;
    let run = Ais::new(&path, trained.flow).schedule(schedule()?).run()?;
    println!("one image under an untrained decoder, a flow for it alone: {run}");
    Ok(())
}
