//! A narrow and curved valley, in which chains move more slowly than rounds pass their stages.

use annealed::Result;
use annealed::prelude::*;

use crate::cases::{Case, ROUNDS, SetUp};
use crate::runs::seen;

/// Log Z of the chain in a box, by a transfer operator on a grid of 0.005 in each coordinate.
const EXACT: [(&str, usize, f64); 2] = [
    ("valley, 20-d", 20, -90.26547),
    ("valley, 30-d", 30, -137.48749),
];

/// Returns the chain of Rosenbrock's valleys in a box, with four million evaluations.
pub fn valleys() -> Result<Vec<Case>> {
    let case = |(name, dimension, exact)| {
        Ok(Case::new((name, ROUNDS), SetUp::Faulty, 5, move |seed| {
            let priors = Priors::new(
                (0..dimension)
                    .map(|_| Prior::uniform(-5.0, 5.0))
                    .collect::<Result<Vec<_>>>()?,
            )?;
            let likelihood = priors.likelihood(GradientModel::new(dimension, valley)?);
            let path = TemperedPath::new(&priors, likelihood);
            let rounds = Rounds::new(&path, Hmc::new(0.1, 5)?).budget(4_000_000);
            Ok(seen(&rounds.seed(seed).threads(1).run()?, exact))
        }))
    };
    EXACT.into_iter().map(case).collect()
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
