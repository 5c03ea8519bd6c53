//! Log p(x) of many data under one decoder: the error of linear decoders, whose log p(x) has a closed form, and the time
//! of a network.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin decoders -- --latents 10 --repeats 100
//! cargo run --release -p annealed-measurements --bin decoders -- --network --stages 100
//! ```

use annealed::many::{LogLikelihoods, LogLikelihoodsRun};
use annealed::model::{Latent, LatentGradient};
use annealed::nalgebra::{DMatrixView, DMatrixViewMut};
use annealed::prelude::*;
use annealed::random::{Purpose, stream};
use clap::Parser;

/// Standard deviation of the noise of a linear decoder.
const NOISE: f64 = 0.5;

#[derive(Parser, Clone)]
struct Options {
    /// Number of latent coordinates of the linear decoder, which has twice as many outputs.
    #[arg(long, default_value_t = 10)]
    latents: usize,
    /// A network 8-32-64 with bits as outputs, in place of the linear decoder.
    #[arg(long)]
    network: bool,
    #[arg(long, default_value_t = 1_000)]
    data: usize,
    #[arg(long, default_value_t = 16)]
    chains: usize,
    #[arg(long, default_value_t = 200)]
    stages: usize,
    #[arg(long, default_value_t = 5)]
    leapfrog: usize,
    /// Seed of the first run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of runs with different seeds, for the same data.
    #[arg(long, default_value_t = 1)]
    repeats: u64,
    #[arg(long)]
    threads: Option<usize>,
}

/// A decoder: outputs `W z`, or of a network `W tanh(V z)`. Outputs are means with noise, or logits of bits.
struct Decoder {
    hidden: Option<DMatrix<f64>>,
    weights: DMatrix<f64>,
    data: DMatrix<f64>,
}

impl Decoder {
    /// Draws weights, and data from the decoder. Columns are data.
    fn simulated(options: &Options) -> annealed::Result<Self> {
        let mut rng = stream(1, Purpose::DATA, 0);
        let mut normal = |rows: usize, columns: usize, scale: f64| {
            let all = Gaussian::standard(rows * columns).map(|law| law.sample(&mut rng) * scale);
            all.map(|all| DMatrix::from_column_slice(rows, columns, all.as_slice()))
        };
        let d = if options.network { 8 } else { options.latents };
        let (hidden, weights, outputs) = match options.network {
            true => (Some(normal(32, 8, 1.0)?), normal(64, 32, 0.5)?, 64),
            false => (None, normal(2 * d, d, (d as f64).powf(-0.5))?, 2 * d),
        };
        let latents = normal(d, options.data, 1.0)?;
        let inner = match &hidden {
            Some(hidden) => (hidden * latents).map(f64::tanh),
            None => latents,
        };
        let (means, noise) = (&weights * inner, normal(outputs, options.data, 1.0)?);
        // A normal number above `-Phi^-1(p)` is a bit of probability p; the logistic law is near the normal one here.
        let data = match options.network {
            true => means.zip_map(&noise, |mean, noise| f64::from(mean + 1.7 * noise > 0.0)),
            false => means + noise * NOISE,
        };
        Ok(Self {
            hidden,
            weights,
            data,
        })
    }

    /// Returns log p(x | z) of outputs, and writes the derivatives by the outputs.
    fn log_likelihood(&self, datum: usize, outputs: &mut [f64]) -> f64 {
        let data = self.data.column(datum);
        let pairs = outputs.iter_mut().zip(data.iter());
        let constant = (NOISE * std::f64::consts::TAU.sqrt()).ln();
        let terms = pairs.map(|(output, x)| match self.hidden {
            Some(_) => {
                let probability = 1.0 / (1.0 + (-*output).exp());
                let term = x * *output - output.max(0.0) - (-output.abs()).exp().ln_1p();
                *output = x - probability;
                term
            }
            None => {
                let off = x - *output;
                *output = off / (NOISE * NOISE);
                -0.5 * off * off / (NOISE * NOISE) - constant
            }
        });
        terms.sum()
    }

    /// Returns the exact log p(x) of each datum of a linear decoder.
    fn exact(&self) -> annealed::Result<Vec<f64>> {
        let n = self.weights.nrows();
        let covariance = &self.weights * self.weights.transpose();
        let covariance = covariance + DMatrix::identity(n, n) * (NOISE * NOISE);
        let law = Gaussian::new(DVector::zeros(n), covariance)?;
        let of = |x| law.log_density(&x) - law.log_normalizer();
        Ok(self
            .data
            .column_iter()
            .map(|x| of(x.into_owned()))
            .collect())
    }
}

impl UnnormalizedModel for Decoder {
    type State = Latent;

    fn log_density(&self, z: &Latent) -> f64 {
        let mut outputs = match &self.hidden {
            Some(hidden) => &self.weights * (hidden * &z.vector).map(f64::tanh),
            None => &self.weights * &z.vector,
        };
        self.log_likelihood(z.datum(), outputs.as_mut_slice())
    }

    fn evaluates_batches(&self) -> bool {
        true
    }
}

impl LatentGradient for Decoder {
    fn accumulate_gradients(
        &self,
        data: &[usize],
        latents: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_likelihoods: &mut [f64],
    ) {
        // Columns are chains.
        let latents = latents.transpose();
        let inner = self
            .hidden
            .as_ref()
            .map(|hidden| (hidden * &latents).map(f64::tanh));
        let mut outputs = &self.weights * inner.as_ref().unwrap_or(&latents);
        for (mut column, (&datum, to)) in outputs
            .column_iter_mut()
            .zip(data.iter().zip(log_likelihoods))
        {
            *to = self.log_likelihood(datum, column.as_mut_slice());
        }
        let slopes = self.weights.tr_mul(&outputs);
        let slopes = match (&self.hidden, inner) {
            (Some(hidden), Some(inner)) => {
                hidden.tr_mul(&slopes.zip_map(&inner, |s, h| s * (1.0 - h * h)))
            }
            _ => slopes,
        };
        gradients += slopes.transpose() * scale;
    }
}

fn main() -> annealed::Result<()> {
    let options = Options::parse();
    let decoder = Decoder::simulated(&options)?;
    let prior = Gaussian::standard(
        decoder
            .hidden
            .as_ref()
            .map_or(options.latents, DMatrix::ncols),
    )?;
    let exact = if options.network {
        None
    } else {
        Some(decoder.exact()?)
    };
    let run = LogLikelihoods::new(
        prior,
        decoder,
        options.data,
        Hmc::new(0.2, options.leapfrog)?,
    )
    .chains(options.chains)
    .stages(options.stages)
    .threads(options.threads);
    let (mut run, mut held) = (run, 0);
    for seed in (options.seed..).take(options.repeats as usize) {
        run = run.seed(seed);
        let found = run.run()?;
        println!("seed {seed}, {:.1} s: {found}", found.seconds());
        let errors = found
            .data()
            .iter()
            .map(|datum| datum.estimate.standard_error());
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_by(f64::total_cmp);
        let of = |share: f64| errors[(share * (errors.len() - 1) as f64) as usize];
        println!(
            "standard error of a datum: median {:.3}, 90% {:.3}, 99% {:.3}",
            of(0.5),
            of(0.9),
            of(0.99)
        );
        if let Some(exact) = &exact {
            held += u64::from(compare(&found, exact)?);
        }
    }
    if exact.is_some() {
        println!("{held} of {} intervals of the mean hold", options.repeats);
    }
    Ok(())
}

/// Prints the errors of a run, and returns whether the interval of the mean contains the exact mean.
fn compare(found: &LogLikelihoodsRun, exact: &[f64]) -> annealed::Result<bool> {
    let (mean, n) = (found.mean(), exact.len() as f64);
    let (lower, upper) = mean.interval_at(0.95)?;
    let exact_mean = exact.iter().sum::<f64>() / n;
    let error = mean.value - exact_mean;
    let (mut wrong, mut silent, mut inside) = (0, 0, 0);
    for datum in found.data() {
        let (estimate, exact) = (&datum.estimate, exact[datum.datum]);
        let off = (estimate.value() - exact).abs();
        let (lower, upper) = estimate.interval();
        inside += u32::from(lower <= exact && exact <= upper);
        if off > 0.3 && off > 4.0 * estimate.standard_error() {
            wrong += 1;
            silent += u32::from(datum.warnings.is_empty());
        }
    }
    println!(
        "mean off by {error:.4} ({:.2} errors); {:.1}% of the data's intervals hold; {wrong} data wrong, {silent} silent",
        error / mean.standard_error,
        100.0 * f64::from(inside) / n,
    );
    Ok(lower <= exact_mean && exact_mean <= upper)
}
