//! Lower bounds on log Z, and the resulting upper bound on the log likelihood.

use annealed::Result;
use annealed::ais::Run;
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::rbm::{LogLikelihood, RbmPath, Start};
use serde_json::Value;

use crate::saved;

/// Number of states with the largest weights from which the certain bound is computed.
const STATES: usize = 256;
/// A shorter run's bound is searched for as if the run had this many chain-steps.
const LEAST_STEPS: u64 = 500_000;

/// Bounds that are valid whatever the chains missed.
pub struct Bounds {
    /// A lower bound on log Z that always holds.
    certain: f64,
    /// A lower bound on log Z with a confidence of 95%.
    certified: f64,
}

impl Bounds {
    pub fn new(path: &RbmPath, run: &Run<Vec<bool>>) -> Result<Self> {
        let certified = run.certified_lower_bound(0.95)?;
        // The search for it fails only if log Z overflows.
        let mut certain = run.certain_lower_bound().unwrap_or(f64::NEG_INFINITY);
        if run.chains().saturating_mul(run.schedule().stages()) < LEAST_STEPS as usize {
            let mut chains = Vec::from_iter(run.log_weights().iter().zip(run.states()));
            chains.sort_by(|one, other| other.0.total_cmp(one.0));
            let heaviest = chains.iter().take(STATES);
            let states = Vec::from_iter(heaviest.map(|(_, state)| *state));
            certain = certain.max(path.lower_bound(&states, LEAST_STEPS)?);
        }
        Ok(Self {
            certain,
            certified: certified.expect("a forward run has one"),
        })
    }

    /// Returns warnings that the run does not contain: from the search for the start, and from these bounds.
    pub fn doubts(&self, run: &Run<Vec<bool>>, start: Option<&Start>) -> Vec<Warning> {
        let highest = match self.certain > self.certified {
            true => (self.certain, 1.0),
            false => (self.certified, 0.95),
        };
        saved::doubts(run, start, Some(highest))
    }

    /// Returns an upper bound on the mean log likelihood of the data, from the higher of the two lower bounds.
    pub fn of_scores(&self, likelihood: &LogLikelihood) -> f64 {
        likelihood.upper_bound(self.certain.max(self.certified))
    }

    pub fn add_to(&self, json: &mut Value, likelihood: Option<&LogLikelihood>) {
        json["certain_lower_bound"] = self.certain.into();
        json["certified_lower_bound"] = self.certified.into();
        if let Some(likelihood) = likelihood {
            json["log_likelihood_upper_bound"] = self.of_scores(likelihood).into();
        }
    }

    /// Returns the bounds as text, beside an estimate of log Z: `log Z >= 192.272 for certain, 186.441 with 95%
    /// confidence; mean log likelihood <= -101.3`.
    pub fn text(&self, log_z: f64, likelihood: Option<&LogLikelihood>) -> String {
        let (certain, certified) = (self.certain, self.certified);
        let beyond = match certain - log_z > 1e-9 * (1.0 + log_z.abs()) {
            true => " (more than estimated)",
            false => "",
        };
        let scores = likelihood.map_or(String::new(), |likelihood| {
            format!("; mean log likelihood <= {:.3}", self.of_scores(likelihood))
        });
        format!(
            "log Z >= {certain:.3} for certain{beyond}, {certified:.3} with 95% confidence{scores}"
        )
    }
}
