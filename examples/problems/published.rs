//! Published estimates for problems whose data lie beside the repository, in `../shared/data`.

use std::path::PathBuf;

use annealed::prelude::*;
use annealed::{Error, Result};

use super::advice::{Advice, Problem};
use super::logistic::Logistic;
use super::{Entry, entry};

/// Those of the two whose data are there.
pub fn published() -> Vec<Entry> {
    let mut found = Vec::new();
    #[cfg(feature = "npz")]
    found.push((
        RBM,
        entry(
            "RBM 784 x 500, CD25",
            "published; Salakhutdinov and Murray 2008",
            cd25,
        ),
    ));
    found.push((
        SONAR,
        entry("sonar, logistic", "published; Dau and Chopin 2022", sonar),
    ));
    let is_there = |(name, _): &(&str, Entry)| {
        let is_file = file(name).is_file();
        if !is_file {
            eprintln!("skipped: reads ../shared/data/{name}, which is not there");
        }
        is_file
    };
    found.retain(is_there);
    // A run takes seconds.
    found
        .into_iter()
        .map(|(_, entry)| entry.seeds(40))
        .collect()
}

fn file(name: &str) -> PathBuf {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data");
    PathBuf::from(shared).join(name)
}

#[cfg(feature = "npz")]
const RBM: &str = "rbm/rbm500_cd25_sm08.npz";

/// The RBM that Salakhutdinov and Murray (2008) trained on MNIST: log Z 451.28, ln(Z +- s) 451.19 and
/// 451.37.
#[cfg(feature = "npz")]
fn cd25(advice: &Advice) -> Result<Problem> {
    let file = RbmFile::<f32>::read(file(RBM))?;
    let base = match file.base {
        Some(base) => base,
        None => BaseRate::uniform(file.rbm.hidden_units(), file.rbm.visible_units())?,
    };
    let path = RbmPath::new(base, file.rbm)?;
    let problem = advice.follow(451.28, path, BlockGibbs)?;
    Ok(problem.with_error(0.09))
}

const SONAR: &str = "sonar/sonar.csv";

/// Logistic regression of 208 sonar returns on 60 predictors of mean 0 and standard deviation .5, priors
/// N(0, 20^2) on the intercept and N(0, 5^2) on the others: -125.42 by 100 runs of a standard deviation of
/// .147 (Dau and Chopin 2022). A run has 100 chains, since it takes seconds.
fn sonar(_: &Advice) -> Result<Problem> {
    let (x, labels) = read_sonar()?;
    // The state is in units of the prior's deviations.
    let scale = DVector::from_fn(61, |j, _| if j == 0 { 20.0 } else { 5.0 });
    let x = x * DMatrix::from_diagonal(&scale);
    let likelihood = Logistic::new(x, &labels);
    let path = TemperedPath::new(Gaussian::standard(61)?, likelihood);
    Ok(Advice { chains: 100 }
        .leap(-125.42, path)?
        .with_error(0.0147))
}

/// Predictors, the first of them 1, and whether a return came from metal.
fn read_sonar() -> Result<(DMatrix<f64>, Vec<bool>)> {
    let file = file(SONAR);
    let text = std::fs::read_to_string(&file).map_err(|error| Error::io(&file, error))?;
    let line = |line: &str| {
        let (numbers, label) = line.rsplit_once(',')?;
        let numbers = numbers.split(',').map(|field| field.trim().parse().ok());
        let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
        (numbers.len() == 60).then(|| (numbers, label.trim() == "M"))
    };
    let lines: Option<Vec<_>> = text.lines().map(line).collect();
    let lines =
        lines.ok_or_else(|| Error::file(&file, "expected 60 numbers and a label a line"))?;
    let mut x = DMatrix::from_fn(lines.len(), 61, |i, j| match j {
        0 => 1.0,
        _ => lines[i].0[j - 1],
    });
    for mut column in x.column_iter_mut().skip(1) {
        let (mean, deviation) = (column.mean(), column.variance().sqrt());
        column.apply(|value| *value = 0.5 * (*value - mean) / deviation);
    }
    Ok((x, lines.into_iter().map(|(_, label)| label).collect()))
}
