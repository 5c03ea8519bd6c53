//! Published estimates for problems whose data are outside of the repository, in `../shared/data`.

use std::path::PathBuf;

use annealed::Result;
use annealed::prelude::*;
use annealed_files::RbmFile;

use super::advice::{Advice, Problem};
use super::logistic::Logistic;
use super::{Entry, entry};
use crate::shared_data;

pub fn published() -> Vec<Entry> {
    let mut found = Vec::new();
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
    // Fewer seeds, because a run takes seconds.
    found
        .into_iter()
        .map(|(_, entry)| entry.seeds(40))
        .collect()
}

fn file(name: &str) -> PathBuf {
    shared_data().join(name)
}

const RBM: &str = "rbm/rbm500_cd25_sm08.npz";

/// Sets up the RBM of Salakhutdinov and Murray (2008) on MNIST: log Z 451.28, ln(Z +- s) 451.19 and 451.37.
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

/// Sets up logistic regression of 208 sonar returns, priors N(0, 20^2) on the intercept and N(0, 5^2) on the others.
/// Its log Z is -125.42, from 100 runs with a standard deviation of .147 (Dau and Chopin 2022). A run has 100 chains.
fn sonar(advice: &Advice) -> Result<Problem> {
    let likelihood = Logistic::sonar(&file(SONAR))?;
    let path = TemperedPath::new(Gaussian::standard(61)?, likelihood);
    Ok(Advice {
        chains: 100,
        stages: None,
        ..*advice
    }
    .leap(-125.42, path)?
    .with_error(0.0147))
}
