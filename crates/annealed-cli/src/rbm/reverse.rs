//! The run from the RBM back to the base.

use std::fmt::{self, Display, Formatter};

use annealed::ais::{Ais, Run};
use annealed::bidirectional::{Bridge, ReverseRun, TargetSamples};
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::rbm::{BlockGibbs, RbmPath};
use annealed::{Error, Result};
use annealed_files::RbmFile;
use serde_json::{Value, json};

use super::options::Reverse;
use super::problem::Problem;
use crate::figures;

type Chains = Run<Vec<bool>>;

/// A reverse run, and the bridge that joins it with the forward run.
pub struct Backward {
    reverse: ReverseRun<Vec<bool>>,
    pub bridge: Bridge,
}

impl Backward {
    pub fn run(
        ais: &Ais<'_, &RbmPath, BlockGibbs>,
        forward: &Chains,
        problem: &Problem,
        source: &Reverse,
    ) -> Result<Option<Self>> {
        match Self::read(ais, forward, problem, source) {
            Err(Error::Stopped { .. }) => {
                eprintln!("the reverse run was interrupted, and is left out");
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    fn read(
        ais: &Ais<'_, &RbmPath, BlockGibbs>,
        forward: &Chains,
        problem: &Problem,
        source: &Reverse,
    ) -> Result<Self> {
        let chains = forward.chains();
        let samples = match source {
            Reverse::Exact => {
                TargetSamples::exact(problem.rbm.exact_samples(chains, forward.seed())?)
            }
            Reverse::Resampled => ais.resampled(forward, 100)?,
            Reverse::File(file) => {
                let mut states = RbmFile::<f32>::read(file)?.chains.ok_or_else(|| {
                    Error::file(
                        file,
                        "has no `chains`, expected an array of N x D zeros and ones",
                    )
                })?;
                states.truncate(chains);
                TargetSamples::approximate(states)
            }
        };
        let reverse = ais.reverse(&samples)?;
        let bridge = Bridge::new(forward, &reverse)?;
        Ok(Self { reverse, bridge })
    }
}

impl Backward {
    /// Returns the warnings of the bridge that joins the forward and the reverse run.
    pub fn warnings(&self) -> &[Warning] {
        self.bridge.warnings()
    }

    /// Returns the wall time of the reverse run.
    pub fn seconds(&self) -> f64 {
        self.reverse.seconds()
    }

    /// Adds the figures of the reverse run to a report.
    pub fn add_to(&self, json: &mut Value) {
        let Self { reverse, bridge } = self;
        let (lower, upper) = bridge.interval();
        let gap = |warning: &Warning| matches!(warning, Warning::ForwardReverseGap { .. });
        json["upper_bound"] = bridge.upper_bound().into();
        json["bar_log_z"] = bridge.log_z().into();
        json["bar_standard_error"] = bridge.standard_error().into();
        json["bar_interval"] = json!([lower, upper]);
        json["tight_lower_bound"] = bridge.tight_lower_bound().into();
        json["overlap"] = bridge.estimate().overlap().into();
        json["gap"] = bridge.gap().into();
        json["gap_warning"] = bridge.warnings().iter().any(gap).into();
        json["reverse_log_z"] = reverse.log_z().into();
        json["reverse_standard_error"] = reverse.standard_error().into();
        json["reverse_chains"] = reverse.backward().chains().into();
        json["reverse_warnings"] = figures::of_warnings(reverse.warnings());
        if let Some(bound) = bridge.tight_upper_bound() {
            json["tight_upper_bound"] = bound.into();
        }
        json["exact_samples"] = bridge.upper_bound().is_some().into();
    }
}

impl Display for Backward {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { reverse, bridge } = self;
        let Some((upper, tight_upper)) = bridge.upper_bound().zip(bridge.tight_upper_bound())
        else {
            let chains = reverse.backward().chains();
            return writeln!(
                f,
                "from {chains} approximate samples, no bound: {reverse}\njoined (Bennett): {bridge}"
            );
        };
        writeln!(
            f,
            "from exact samples: {reverse}\njoined (Bennett): {bridge}"
        )?;
        writeln!(
            f,
            "bounds in expectation: {:.3} and {upper:.3}; tighter {:.3} and {tight_upper:.3} (these may cross within their errors)",
            bridge.lower_bound(),
            bridge.tight_lower_bound(),
        )
    }
}
