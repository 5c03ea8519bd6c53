//! A gradient by automatic differentiation: the likelihood is written once, for plain and for dual numbers.
//!
//! A drug's concentration in the blood falls as `a e^(-k t)` and is measured with a relative error s. The parameters
//! a, k and s are above 0 and have priors. The chains move in unbounded coordinates.
//!
//! ```text
//! cargo run --release --features num-dual --example automatic_gradient
//! ```

use annealed::num_dual::DualNum;
use annealed::prelude::*;

/// Hours and milligrams per litre of each measurement.
const MEASURED: [(f64, f64); 8] = [
    (0.5, 8.85),
    (1.0, 7.72),
    (2.0, 6.61),
    (4.0, 4.20),
    (6.0, 3.12),
    (8.0, 1.94),
    (12.0, 0.93),
    (16.0, 0.39),
];

/// Returns the log likelihood of a, k and s, for any kind of number.
fn log_likelihood<D: DualNum<Primitive = f64> + Copy>(parameters: &[D]) -> D {
    let [a, k, s] = [parameters[0], parameters[1], parameters[2]];
    let mut sum = D::from(0.0);
    for (hours, concentration) in MEASURED {
        // The logarithm of a measurement is normal.
        let off = (a.ln() - k * hours - concentration.ln()) / s;
        sum -= off * off * 0.5 + s.ln() + 0.5 * std::f64::consts::TAU.ln() + concentration.ln();
    }
    sum
}

fn main() -> annealed::Result<()> {
    let priors = Priors::new([
        Prior::log_normal(2.0, 1.0)?,
        Prior::gamma(2.0, 5.0)?,
        Prior::half_normal(0.2)?,
    ])?;
    let likelihood = priors.likelihood(DualModel::new(3, log_likelihood)?);
    let posterior = TemperedPath::new(&priors, likelihood);
    let target = posterior.at(1.0);

    let laplace = Gaussian::laplace(&target, priors.state(&[5.0, 0.1, 0.1])?)?;
    let shape = Preconditioner::covariance(&laplace.covariance())?;
    let path = GeometricPath::new(StudentT::new(laplace, 5.0)?, &target);
    let run = Ais::new(&path, Hmc::new(0.4, 3)?.preconditioned(shape))
        .schedule(Schedule::linear(20)?)
        .seed(1)
        .run()?;
    println!("from Laplace's approximation, 20 stages: {run}");
    for (i, name) in ["a", "k", "s"].into_iter().enumerate() {
        let (mean, error) = run.expectation(|u| priors.parameters(u)[i]);
        println!("{name} = {mean:.4} +- {error:.4}");
    }

    let rounds = Rounds::new(&posterior, Hmc::new(0.1, 5)?);
    let rounds = rounds.budget(5_000_000).seed(2).run()?;
    println!("from the prior, in rounds: {rounds}");
    let agreement = Agreement::new(&run, &rounds)?;
    println!("{agreement}");
    assert!(agreement.pooled.is_some());
    Ok(())
}
