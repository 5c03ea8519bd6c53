//! Prints log Z of runs as JSON, in bits: `crates/annealed-python/tests/test_same_bits.py` repeats them.

use annealed::adaptive::{Challenge, FirstPass, RoundsRun};
use annealed::bidirectional::{Bridge, BridgeSampling, TargetSamples};
use annealed::estimate::{LogZSum, ScoreDifference};
use annealed::kernel::{GibbsWithGradients, Preconditioner};
use annealed::model::{Bits, StudentT};
use annealed::nested::NestedSmc;
use annealed::prelude::*;
use annealed::tempering::Tempering;

/// A number in (-1, 1) for each pair of indices, the same in Python to the last bit.
fn number(i: usize, j: usize) -> f64 {
    ((37 * i + 101 * j) % 64) as f64 / 32.0 - 1.0
}

/// Returns the figures that are compared.
fn figures(result: &dyn LogZ) -> [f64; 2] {
    [result.log_z(), result.interval().1]
}

/// The run of an RBM, as the program `annealed rbm` makes it; and the scores of rows by it, and by a log Z of 100.
fn rbm() -> annealed::Result<[[f64; 2]; 2]> {
    let (hidden, visible) = (12, 20);
    let weights = DMatrix::from_fn(hidden, visible, |i, j| number(i, j) as f32);
    let biases = |units, row| DVector::from_fn(units, |i, _| number(row, i) as f32);
    let rbm: Rbm = Rbm::new(weights, biases(hidden, 50), biases(visible, 51))?;
    let start = StartSearch::new(300).seed(7).run(&rbm)?;
    let path = start.path(rbm)?;
    let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(300)?);
    let run = ais.chains(300).seed(7).run()?;
    let rows = (0..30).map(|i| Vec::from_iter((0..visible).map(|j| number(i, j) > 0.0)));
    let rows = Vec::from_iter(rows);
    let base = BaseRate::from_data(hidden, &rows, 1.0)?;
    let rbm = path.target();
    let [one, other] = [run.log_z(), 100.0].map(|log_z| rbm.log_likelihood(&rows, log_z, &base));
    let (one, other) = (one?.by_row, other?.by_row);
    let scores = ScoreDifference::new([&one, &other], [Some(&run), None])?;
    Ok([figures(&run), [scores.value, scores.interval.1]])
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

/// Returns the log likelihoods of a batch.
fn values(x: &[f64], _: usize) -> Result<Vec<f64>, Failed> {
    let rows = x.chunks(2);
    Ok(rows.map(|x| log_likelihood(x[0], x[1])).collect())
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Returns the log likelihoods of a batch, and their gradients.
fn values_and_gradients(x: &[f64], n: usize) -> Result<(Vec<f64>, Vec<f64>), Failed> {
    let slopes = |x: &[f64]| {
        let (mu, scale) = (x[0], 1.0 + x[1]);
        let [a, b, c, d] = MEASURED.map(|y| {
            let z = (y - mu) / scale;
            [(y - mu) / (scale * scale), z * z / scale - 1.0]
        });
        [0, 1].map(|i| ((a[i] + b[i]) + c[i]) + d[i])
    };
    Ok((values(x, n)?, x.chunks(2).flat_map(slopes).collect()))
}

/// The rounds from the prior by random walks, a challenge to them, a run back from samples, and other ways to the evidence.
fn evidences() -> annealed::Result<Vec<(&'static str, [f64; 2])>> {
    let priors = priors()?;
    let likelihood = priors.likelihood(BatchModel::of_values(2, values)?);
    let path = TemperedPath::new(&priors, likelihood);
    let kernel = RandomWalkMetropolis::new(0.5)?;
    let rounds: RoundsRun<_, _> = Rounds::new(&path, kernel.clone())
        .budget(100_000)
        .seed(3)
        .run()?;
    let challenge = Challenge::new(&path, kernel.clone(), &rounds)
        .budget(50_000)
        .seed(3)
        .run()?;
    let sample = |i: usize| priors.state(&[1.0 + number(i, 3), 1.5 + number(i, 11)]);
    let samples = (0..40).map(sample).collect::<annealed::Result<_>>()?;
    let last = rounds.run();
    let ais = Ais::new(&path, rounds.kernel().clone())
        .schedule(last.schedule().clone())
        .chains(last.chains())
        .block_size(last.block_size())
        .seed(3);
    let reverse = Bridge::new(
        &ais.run()?,
        &ais.reverse(&TargetSamples::approximate(samples))?,
    )?;
    let first = FirstPass::new(&path, kernel.clone()).seed(4).run()?;
    let tempering = Tempering::new(&path, first.kernel)
        .schedule(first.barrier.schedule(20)?)
        .block_size(8)
        .rounds(5);
    let nested = NestedSmc::new(&path, kernel)
        .islands(4)
        .chains(8)
        .moves(8)
        .seed(4)
        .run()?;
    let draws = draws()?;
    let sum = LogZSum::new([&rounds as &dyn LogZ, &draws])?;
    let models = ModelComparison::new([("evidence", &rounds as &dyn LogZ), ("draws", &draws)])?;
    let model = models.models.iter().find(|model| model.name == "evidence");
    let model = model.expect("it is one of the models");
    Ok(vec![
        ("evidence", figures(&rounds)),
        ("challenge", figures(&challenge)),
        ("reverse", figures(&reverse)),
        ("tempering", figures(&tempering.seed(4).run()?)),
        ("nested", figures(&nested)),
        ("laplace", figures(&laplace()?)),
        ("draws", figures(&draws)),
        ("log_z_sum", figures(&sum)),
        ("compare", [model.probability, model.probability_interval.1]),
    ])
}

/// The rounds from Student's t around Laplace's approximation.
fn laplace() -> annealed::Result<impl LogZ> {
    let priors = priors()?;
    let likelihood = priors.likelihood(BatchModel::new(2, values_and_gradients)?);
    let posterior = TemperedPath::new(&priors, likelihood);
    let target = posterior.at(1.0);
    let laplace = Gaussian::laplace(&target, DVector::zeros(2))?;
    let shape = Preconditioner::covariance(&laplace.covariance())?;
    let path = GeometricPath::new(StudentT::new(laplace, 5.0)?, &target);
    let kernel = Hmc::new(0.3, 3)?.preconditioned(shape);
    Rounds::new(&path, kernel).budget(100_000).seed(3).run()
}

/// Bridge sampling from draws that are the same in Python.
fn draws() -> annealed::Result<impl LogZ> {
    let priors = priors()?;
    let function = |x: &[f64]| log_likelihood(x[0], x[1]);
    let path = TemperedPath::new(
        &priors,
        priors.likelihood(FunctionModel::of_slices(function)),
    );
    let draw = |i: usize| priors.state(&[1.0 + number(i, 3), 1.5 + number(i, 11)]);
    let chains = [0, 1].map(|chain| (0..40).map(|i| draw(40 * chain + i)).collect());
    let [one, other]: [annealed::Result<Vec<_>>; 2] = chains;
    BridgeSampling::<StudentT>::new(&path.at(1.0), &[one?, other?], 5)
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
    let [rbm, scores] = rbm()?;
    let mut runs = evidences()?;
    runs.extend([("rbm", rbm), ("scores", scores)]);
    runs.extend([("energy", energy()?), ("energy_of_bits", bits()?)]);
    let runs = runs
        .into_iter()
        .map(|(name, found)| format!("\"{name}\": {}", text(found)));
    println!("{{{}}}", Vec::from_iter(runs).join(", "));
    Ok(())
}
