//! The base from which the chains of a row start.

use annealed::rbm::{BaseRate, StartSearch};
use annealed::{Error, Result};
use annealed_files::RbmFile;

/// Kind of base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Start {
    /// Base rates of the training images
    BaseRates,
    /// The uniform distribution
    Uniform,
    /// The base that a search finds for K stages
    Auto,
}

impl Start {
    pub const fn name(self) -> &'static str {
        match self {
            Self::BaseRates => "base rates",
            Self::Uniform => "uniform",
            Self::Auto => "auto",
        }
    }

    /// Returns the base for a run of `steps` stages, and the duration of a search for it in seconds.
    pub fn base(self, file: &RbmFile, steps: usize) -> Result<(BaseRate, f64)> {
        let rbm = &file.rbm;
        match (self, &file.base) {
            (Self::Uniform, _) => {
                let base = BaseRate::uniform(rbm.hidden_units(), rbm.visible_units())?;
                Ok((base, 0.0))
            }
            (Self::BaseRates, Some(base)) => Ok((base.clone(), 0.0)),
            (Self::BaseRates, None) => {
                Err(Error::invalid("start", self.name(), "an RBM with b_base"))
            }
            (Self::Auto, base) => {
                let search = StartSearch::new(steps);
                let search = match base {
                    Some(base) => search.given(base.clone()),
                    None => search,
                };
                let start = search.run(rbm)?;
                eprint!("{start}");
                Ok((start.base().clone(), start.seconds()))
            }
        }
    }
}
