//! Published estimates for problems whose data lie beside the repository, in `../shared/data`.

use std::path::PathBuf;

use annealed::prelude::*;
use annealed::{Error, Result};

use super::Entry;
use super::advice::{Advice, Problem};

/// Chains of a run, each of which takes seconds.
const CHAINS: usize = 100;

/// Those of the two whose data are there.
pub fn published() -> Vec<Entry> {
    let mut found = Vec::new();
    #[cfg(feature = "npz")]
    found.push((RBM, super::entry("RBM 784 x 500, CD25", cd25)));
    found.push((SONAR, super::entry("sonar, logistic", sonar)));
    let is_there = |(name, _): &(&str, Entry)| {
        let is_file = file(name).is_file();
        if !is_file {
            eprintln!("skipped: reads ../shared/data/{name}, which is not there");
        }
        is_file
    };
    let entries = found.into_iter().filter(is_there);
    let few = |(_, entry)| Entry {
        most_seeds: 20,
        ..entry
    };
    entries.map(few).collect()
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
fn cd25(_: &Advice) -> Result<Problem> {
    let file = RbmFile::<f32>::read(file(RBM))?;
    let base = match file.base {
        Some(base) => base,
        None => BaseRate::uniform(file.rbm.hidden_units(), file.rbm.visible_units())?,
    };
    let path = RbmPath::new(base, file.rbm)?;
    let problem = Advice { chains: CHAINS }.follow(451.28, path, BlockGibbs)?;
    Ok(problem.with_error(0.09))
}

const SONAR: &str = "sonar/sonar.csv";

/// Logistic regression of 208 sonar returns on 60 predictors of mean 0 and standard deviation .5, priors
/// N(0, 20^2) on the intercept and N(0, 5^2) on the others: -125.42 by 100 runs of a standard deviation of
/// .147 (Dau and Chopin 2022).
fn sonar(_: &Advice) -> Result<Problem> {
    let (x, y) = read_sonar()?;
    // The state is in units of the prior's deviations.
    let scale = DVector::from_fn(61, |j, _| if j == 0 { 20.0 } else { 5.0 });
    let x = x * DMatrix::from_diagonal(&scale);
    // Each row times the sign of its label.
    let signed = DMatrix::from_fn(x.nrows(), 61, |i, j| y[i] * x[(i, j)]);
    let rows = signed.clone();
    let likelihood = FunctionModel::new(move |w: &DVector<f64>| {
        -(&rows * w).iter().map(|m| (-m).exp().ln_1p()).sum::<f64>()
    })
    .with_gradient(move |w: &DVector<f64>| {
        let margins = &signed * w;
        signed.tr_mul(&margins.map(|m| 1.0 / (1.0 + m.exp())))
    });
    let path = TemperedPath::new(Gaussian::standard(61)?, likelihood);
    Ok(Advice { chains: CHAINS }
        .leap(-125.42, path)?
        .with_error(0.0147))
}

/// Predictors, the first of them 1, and labels 1 and -1.
fn read_sonar() -> Result<(DMatrix<f64>, DVector<f64>)> {
    let file = file(SONAR);
    let text = std::fs::read_to_string(&file).map_err(|error| Error::io(&file, error))?;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let number = |field: &str| field.trim().parse::<f64>().ok();
    let numbers = rows
        .iter()
        .map(|row| row[..60].iter().map(|field| number(field)).collect());
    let numbers: Option<Vec<Vec<f64>>> = numbers.collect();
    let numbers =
        numbers.ok_or_else(|| Error::file(&file, "expected 60 numbers and a label a line"))?;
    let mut x = DMatrix::from_fn(
        rows.len(),
        61,
        |i, j| if j == 0 { 1.0 } else { numbers[i][j - 1] },
    );
    for j in 1..61 {
        let mut column = x.column_mut(j);
        let (mean, deviation) = (column.mean(), column.variance().sqrt());
        column.apply(|value| *value = 0.5 * (*value - mean) / deviation);
    }
    let label = |i: usize| if rows[i][60].trim() == "M" { 1.0 } else { -1.0 };
    let y = DVector::from_fn(rows.len(), |i, _| label(i));
    Ok((x, y))
}
