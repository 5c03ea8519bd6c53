//! The run from the RBM back to the base.

use annealed::ais::{Ais, Run};
use annealed::bidirectional::{Approximate, Bridge, Exact, ReverseRun, TargetSamples};
use annealed::rbm::{BlockGibbs, RbmFile, RbmPath};
use annealed::{Error, Result};

use super::options::Reverse;
use super::problem::Problem;

type Chains = Run<Vec<bool>>;
type Back<Q> = ReverseRun<Vec<bool>, Q>;

/// A reverse run, and what it says together with the forward one.
pub enum Backward {
    /// From exact samples.
    Exact(Box<(Back<Exact>, Bridge<Exact>)>),
    /// From samples that are about right.
    Approximate(Box<(Back<Approximate>, Bridge<Approximate>)>),
}

impl Backward {
    pub fn run(
        ais: &Ais<'_, RbmPath, BlockGibbs>,
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
                if !file.exists() {
                    let expected = "expected exact, resampled or a file";
                    return Err(Error::file(file, expected));
                }
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
