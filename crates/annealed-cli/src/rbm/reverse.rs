//! The run from the RBM back to the base.

use std::fmt::{self, Display, Formatter};

use annealed::ais::{Ais, Run};
use annealed::bidirectional::{Approximate, Bridge, Exact, Quality, ReverseRun, TargetSamples};
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
type Back<Q> = ReverseRun<Vec<bool>, Q>;

/// A reverse run, and the bridge that joins it with the forward run.
pub enum Backward {
    /// From exact samples.
    Exact(Box<(Back<Exact>, Bridge<Exact>)>),
    /// From approximate samples.
    Approximate(Box<(Back<Approximate>, Bridge<Approximate>)>),
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
                let states = problem.rbm.exact_samples(chains, forward.seed())?;
                let reverse = ais.reverse(&TargetSamples::exact(states))?;
                let bridge = Bridge::new(forward, &reverse)?;
                return Ok(Self::Exact(Box::new((reverse, bridge))));
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
        Ok(Self::Approximate(Box::new((reverse, bridge))))
    }
}

impl Backward {
    /// Returns the warnings of the bridge that joins the forward and the reverse run.
    pub fn warnings(&self) -> &[Warning] {
        match self {
            Self::Exact(both) => both.1.warnings(),
            Self::Approximate(both) => both.1.warnings(),
        }
    }

    /// Returns the wall time of the reverse run.
    pub fn seconds(&self) -> f64 {
        match self {
            Self::Exact(both) => both.0.seconds(),
            Self::Approximate(both) => both.0.seconds(),
        }
    }

    /// Adds the figures of the reverse run to a report.
    pub fn add_to(&self, json: &mut Value) {
        json["upper_bound"] = Value::Null;
        match self {
            Self::Exact(both) => {
                add(json, &both.0, &both.1);
                json["upper_bound"] = both.1.upper_bound().into();
                json["tight_upper_bound"] = both.1.tight_upper_bound().into();
                json["exact_samples"] = true.into();
            }
            Self::Approximate(both) => {
                add(json, &both.0, &both.1);
                json["exact_samples"] = false.into();
            }
        }
    }
}

fn add<Q: Quality>(json: &mut Value, reverse: &Back<Q>, bridge: &Bridge<Q>) {
    let (lower, upper) = bridge.interval();
    let gap = |warning: &Warning| matches!(warning, Warning::ForwardReverseGap { .. });
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
}

impl Display for Backward {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(both) => {
                let (reverse, bridge) = both.as_ref();
                writeln!(
                    f,
                    "from exact samples: {reverse}\njoined (Bennett): {bridge}"
                )?;
                let bounds = (bridge.lower_bound(), bridge.upper_bound());
                let tighter = (bridge.tight_lower_bound(), bridge.tight_upper_bound());
                writeln!(
                    f,
                    "bounds in expectation: {:.3} and {:.3}; tighter {:.3} and {:.3} (these may cross within their errors)",
                    bounds.0, bounds.1, tighter.0, tighter.1,
                )
            }
            Self::Approximate(both) => {
                let (reverse, bridge) = both.as_ref();
                let chains = reverse.backward().chains();
                writeln!(
                    f,
                    "from {chains} approximate samples, no bound: {reverse}\njoined (Bennett): {bridge}"
                )
            }
        }
    }
}
