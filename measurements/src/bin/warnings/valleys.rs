//! A narrow and curved valley, in which chains move more slowly than rounds pass their stages.

use annealed::Result;
use annealed::adaptive::Challenge;
use annealed::prelude::*;

use crate::cases::{CHALLENGED, Case, ROUNDS, Seen, SetUp};
use crate::challenged::{SHARE, judged};
use crate::runs::seen;

/// Evaluations of the rounds, and of their challenge.
const BUDGET: u64 = 4_000_000;
/// Names of a case without and with a challenge, dimension, and log Z.
type Valley = ([&'static str; 2], usize, f64);

/// Log Z of the chain in a box, by a transfer operator on a grid of 0.005 in each coordinate.
const EXACT: [Valley; 2] = [
    (["valley, 20-d", "challenged, valley, 20-d"], 20, -90.26547),
    (["valley, 30-d", "challenged, valley, 30-d"], 30, -137.48749),
];

/// Returns the chain of Rosenbrock's valleys in a box, with and without a challenge.
pub fn valleys() -> Result<Vec<Case>> {
    let alone = |([name, _], dimension, exact): Valley| {
        Case::new((name, ROUNDS), SetUp::Faulty, 5, move |seed| {
            run(dimension, seed, (exact, false))
        })
    };
    let challenged = |([_, name], dimension, exact): Valley| {
        let of = (name, CHALLENGED);
        Case::new(of, SetUp::Faulty, SHARE, move |seed| {
            run(dimension, seed, (exact, true))
        })
    };
    let cases = EXACT.map(|valley| [alone(valley), challenged(valley)]);
    Ok(cases.into_iter().flatten().collect())
}

/// Runs rounds, and a challenge to them if `challenges` is true.
fn run(dimension: usize, seed: u64, (exact, challenges): (f64, bool)) -> Result<Seen> {
    let priors = Priors::new(vec![Prior::uniform(-5.0, 5.0)?; dimension])?;
    let likelihood = priors.likelihood(GradientModel::new(dimension, valley)?);
    let path = TemperedPath::new(&priors, likelihood);
    let kernel = Hmc::new(0.1, 5)?;
    let rounds = Rounds::new(&path, kernel.clone()).budget(BUDGET);
    let first = rounds.seed(seed).threads(1).run()?;
    if !challenges {
        return Ok(seen(&first, exact));
    }
    let challenge = Challenge::new(&path, kernel, &first).with_gradient();
    let challenge = challenge.seed(seed).threads(1).run()?;
    Ok(judged(&first, &challenge, exact))
}

fn valley(x: &[f64], gradient: &mut [f64]) -> f64 {
    (1..x.len())
        .map(|i| {
            let (off, left) = (x[i] - x[i - 1] * x[i - 1], 1.0 - x[i - 1]);
            gradient[i - 1] += 400.0 * off * x[i - 1] + 2.0 * left;
            gradient[i] -= 200.0 * off;
            -100.0 * off * off - left * left
        })
        .sum()
}
