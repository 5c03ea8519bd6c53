//! Lower bounds on log Z, and the upper bound on the log likelihood that follows.

use std::fmt::{self, Display, Formatter};

use annealed::Result;
use annealed::ais::Run;
use annealed::estimate::Warning;
use annealed::rbm::{LogLikelihood, Rbm, Start};
use serde_json::Value;

use crate::saved;

/// States of the largest weights, from which the bound that is certain is sought.
const STATES: usize = 256;
/// Starts at fair coins, likewise.
const STARTS: usize = 64;

/// Bounds that hold whatever the chains missed.
pub struct Bounds {
    /// A lower bound on log Z, without a doubt.
    certain: f64,
    /// Whether the run's estimate lies below it.
    is_above_estimate: bool,
    /// One with a confidence of 95%.
    certified: f64,
    /// An upper bound on the mean log likelihood of the data, by the higher of both.
    log_likelihood: Option<f64>,
}

impl Bounds {
    pub fn new(
        rbm: &Rbm,
        run: &Run<Vec<bool>>,
        start: Option<&Start>,
        likelihood: Option<&LogLikelihood>,
    ) -> Result<Self> {
        let mut chains: Vec<usize> = (0..run.chains()).collect();
        let log_weights = run.log_weights();
        chains.sort_by(|&one, &other| log_weights[other].total_cmp(&log_weights[one]));
        let heaviest = chains.iter().take(STATES);
        let states: Vec<_> = heaviest.map(|&chain| run.states()[chain].clone()).collect();
        let certain = rbm.lower_bound(&states, STARTS, run.seed())?.value;
        let certain = start.map_or(certain, |start| certain.max(start.bound().value));
        let certified = run.certified_lower_bound(0.95)?;
        let certified = certified.expect("a forward run has one");
        Ok(Self {
            certain,
            is_above_estimate: certain > run.log_z(),
            certified,
            log_likelihood: likelihood.map(|found| found.upper_bound(certain.max(certified))),
        })
    }

    /// The reasons to doubt a run that it does not know by itself: what the search for the start proves, or these bounds.
    pub fn doubts(&self, run: &Run<Vec<bool>>, start: Option<&Start>) -> Vec<Warning> {
        let mut doubts = start.map_or(Vec::new(), |start| start.warnings_of(run));
        let told = saved::bounds(&doubts).chain(saved::bounds(run.warnings()));
        let (_, upper) = run.interval();
        let (bound, confidence) = match self.certain > self.certified {
            true => (self.certain, 1.0),
            false => (self.certified, 0.95),
        };
        if told.count() == 0 && bound > upper {
            doubts.push(Warning::BelowBound {
                bound,
                confidence,
                upper,
            });
        }
        doubts
    }

    pub fn add_to(&self, json: &mut Value) {
        json["certain_lower_bound"] = self.certain.into();
        json["certified_lower_bound"] = self.certified.into();
        if let Some(bound) = self.log_likelihood {
            json["log_likelihood_upper_bound"] = bound.into();
        }
    }
}

/// `log Z >= 192.272 for certain, 186.441 with 95% confidence; mean log likelihood <= -101.3`.
impl Display for Bounds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (certain, certified) = (self.certain, self.certified);
        let beyond = match self.is_above_estimate {
            true => " (more than estimated)",
            false => "",
        };
        write!(
            f,
            "log Z >= {certain:.3} for certain{beyond}, {certified:.3} with 95% confidence"
        )?;
        match self.log_likelihood {
            Some(bound) => writeln!(f, "; mean log likelihood <= {bound:.3}"),
            None => writeln!(f),
        }
    }
}
