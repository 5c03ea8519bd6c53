//! Prints the table of a logistic regression, and writes its draws into a folder as `posterior.csv`, `.npz` and `.json`.
//! `integrations/arviz/check.py` reads them.

use std::path::PathBuf;

use annealed::prelude::*;
use annealed::{Error, Result};
use annealed_files::PosteriorFile;

/// Log dose of carbon disulphide, beetles exposed, beetles killed (Bliss 1935).
const GROUPS: [(f64, f64, f64); 8] = [
    (1.6907, 59.0, 6.0),
    (1.7242, 60.0, 13.0),
    (1.7552, 62.0, 18.0),
    (1.7842, 56.0, 28.0),
    (1.8113, 63.0, 52.0),
    (1.8369, 59.0, 53.0),
    (1.8610, 62.0, 61.0),
    (1.8839, 60.0, 60.0),
];

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let expected = "posterior FOLDER";
    let folder = folder.ok_or_else(|| Error::invalid("arguments", "none", expected))?;
    let normal = |deviation| Prior::normal(0.0, deviation);
    let priors = Priors::named([("intercept", normal(2.0)?), ("slope", normal(5.0)?)])?;
    let log_likelihood = |x: &[f64]| {
        let of_group = |(dose, exposed, killed): (f64, f64, f64)| {
            let logit = x[0] + x[1] * 10.0 * (dose - 1.8);
            killed * logit - exposed * logit.exp().ln_1p()
        };
        GROUPS.into_iter().map(of_group).sum::<f64>()
    };
    let likelihood = priors.likelihood(FunctionModel::of_slices(log_likelihood));
    let path = TemperedPath::new(&priors, likelihood);
    let rounds = Rounds::new(&path, RandomWalkMetropolis::new(0.5)?)
        .chains(1_000)
        .budget(1_000_000);
    let run = rounds.seed(1).run()?;
    let at_half = |u: &DVector<f64>| 1.8 - 0.1 * u[0] / u[1];
    let quantities = || Quantities::from(&priors).with("LD50, log dose", at_half);
    println!("{}", run.summary(quantities())?);
    let file = PosteriorFile::new(&run, quantities(), 100_000, 1)?;
    for name in ["posterior.csv", "posterior.npz", "posterior.json"] {
        file.write(folder.join(name))?;
    }
    Ok(())
}
