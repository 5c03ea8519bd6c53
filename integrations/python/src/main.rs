//! Prints log Z of some runs as JSON, in bits: `crates/annealed-python/tests/test_same_bits.py` repeats them.

use annealed::bidirectional::BridgeSampling;
use annealed::kernel::GibbsWithGradients;
use annealed::model::{Bits, StudentT};
use annealed::prelude::*;

/// A number in (-1, 1) for each pair of indices, the same in Python to the last bit.
fn number(i: usize, j: usize) -> f64 {
    ((37 * i + 101 * j) % 64) as f64 / 32.0 - 1.0
}

/// The run of an RBM, as the program `annealed rbm` makes it.
fn rbm() -> annealed::Result<[f64; 2]> {
    let (hidden, visible) = (12, 20);
    let weights = DMatrix::from_fn(hidden, visible, |i, j| number(i, j) as f32);
    let biases = |units, row| DVector::from_fn(units, |i, _| number(row, i) as f32);
    let rbm: Rbm = Rbm::new(weights, biases(hidden, 50), biases(visible, 51))?;
    let start = StartSearch::new(300).seed(7).run(&rbm)?;
    let path = start.path(rbm)?;
    let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(300)?);
    let run = ais.chains(300).seed(7).run()?;
    Ok([run.log_z(), run.interval().1])
}

/// Measurements of N(mu, sigma^2).
const MEASURED: [f64; 4] = [1.25, 0.5, 2.0, 1.75];

/// Returns a log likelihood of operations that round alike everywhere; not a normal one, which takes a logarithm.
fn log_likelihood(mu: f64, sigma: f64) -> f64 {
    let term = |y: f64| {
        let z = (y - mu) / (1.0 + sigma);
        -0.5 * z * z - sigma
    };
    let [a, b, c, d] = MEASURED.map(term);
    ((a + b) + c) + d
}

fn priors() -> annealed::Result<Priors> {
    Priors::named([
        ("mu", Prior::normal(0.0, 2.0)?),
        ("sigma", Prior::half_cauchy(1.0)?),
    ])
}

/// The rounds from the prior, by random walks.
fn evidence() -> annealed::Result<[f64; 2]> {
    let function = |x: &[f64], _: usize| {
        let rows = x.chunks(2);
        Ok(rows.map(|x| log_likelihood(x[0], x[1])).collect())
    };
    let priors = priors()?;
    let likelihood = priors.likelihood(BatchModel::of_values(2, function)?);
    let path = TemperedPath::new(&priors, likelihood);
    let rounds = Rounds::new(&path, RandomWalkMetropolis::new(0.5)?);
    let run = rounds.budget(100_000).seed(3).run()?;
    Ok([run.log_z(), run.interval().1])
}

/// Bridge sampling from draws that are the same in Python.
fn draws() -> annealed::Result<[f64; 2]> {
    let priors = priors()?;
    let function = |x: &[f64]| log_likelihood(x[0], x[1]);
    let path = TemperedPath::new(
        &priors,
        priors.likelihood(FunctionModel::of_slices(function)),
    );
    let draw = |i: usize| priors.state(&[1.0 + number(i, 3), 1.5 + number(i, 11)]);
    let chains = [0, 1].map(|chain| (0..40).map(|i| draw(40 * chain + i)).collect());
    let [one, other]: [annealed::Result<Vec<_>>; 2] = chains;
    let found = BridgeSampling::<StudentT>::new(&path.at(1.0), &[one?, other?], 5)?;
    Ok([found.log_z(), found.interval().1])
}

/// A density without a prior, from normal laws by Hamiltonian dynamics.
fn energy() -> annealed::Result<[f64; 2]> {
    let parts = |x: &[f64]| (x[0] * x[0] - 1.5, x[1] - 0.5 * x[0]);
    let function = |x: &[f64], _: usize| {
        let value = |(s, t): (f64, f64)| -(s * s) - t * t;
        let values = x.chunks(2).map(|x| value(parts(x))).collect();
        let slopes = |x: &[f64]| {
            let (s, t) = parts(x);
            [-4.0 * s * x[0] + t, -2.0 * t]
        };
        Ok((values, x.chunks(2).flat_map(slopes).collect()))
    };
    let base = Gaussian::isotropic(DVector::zeros(2), 2.0)?;
    let path = GeometricPath::new(base, BatchModel::new(2, function)?);
    let run = Rounds::new(&path, Hmc::new(0.3, 3)?)
        .budget(200_000)
        .seed(3)
        .run()?;
    Ok([run.log_z(), run.interval().1])
}

/// A density of 12 bits, by Gibbs with gradients.
fn bits() -> annealed::Result<[f64; 2]> {
    let weights = Vec::from_iter((0..12).map(|i| number(i, 5)));
    let score = |x: &[f64]| x.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>();
    let function = |x: &[f64], _: usize| {
        let scores = Vec::from_iter(x.chunks(12).map(score));
        let values = scores.iter().map(|s| s * (1.5 - 0.125 * s * s)).collect();
        let slopes = |s: &f64| {
            weights
                .iter()
                .map(|w| (1.5 - 0.375 * s * s) * w)
                .collect::<Vec<_>>()
        };
        Ok((values, scores.iter().flat_map(slopes).collect()))
    };
    let path = GeometricPath::new(Bits::fair(12)?, BatchModel::new(12, function)?);
    let kernel = Repeat::new(GibbsWithGradients, 3)?;
    let run = Rounds::fixed(&path, kernel).budget(200_000).seed(3).run()?;
    Ok([run.log_z(), run.interval().1])
}

fn main() -> annealed::Result<()> {
    let text = |[log_z, upper]: [f64; 2]| format!("[{}, {}]", log_z.to_bits(), upper.to_bits());
    let runs = [
        ("rbm", rbm()?),
        ("evidence", evidence()?),
        ("draws", draws()?),
        ("energy", energy()?),
        ("bits", bits()?),
    ];
    let runs = runs.map(|(name, found)| format!("\"{name}\": {}", text(found)));
    println!("{{{}}}", runs.join(", "));
    Ok(())
}
