//! The targets that the command line offers by name.

use std::path::{Path, PathBuf};

use annealed::Result;
use annealed::prelude::*;
use annealed_measurements::problems::motion;
use annealed_measurements::problems::regression::Regression;
use annealed_measurements::problems::targets::Wells;
use clap::ValueEnum;

use crate::cox::Cox;
use crate::{seeds, shapes, spins};

/// A target. The doc of each names who posed it; `docs/notes/targets.md` has what others found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Brownian motion of unknown scales, its middle missing, 32-d (inference gym, 2020)
    Brownian,
    /// Logistic regression of 208 sonar returns, 61-d (Geffner and Domke 2021)
    Sonar,
    /// Logistic regression of 1,000 applicants for credit, 25-d (Blessing et al. 2024)
    Credit,
    /// Log-Gaussian Cox process of 126 pines, 1,600-d (Moller, Syversveen and Waagepetersen 1998)
    Lgcp,
    /// Funnel, 10-d (Neal 2003)
    Funnel,
    /// 65,536 modes, 32-d (Noe et al. 2019)
    ManyWell,
    /// Germination of seeds with random effects, 26-d (Breslow and Clayton 1993; Geffner and Domke 2021)
    Seeds,
    /// Five double wells among 45 normal coordinates: 32 modes, 50-d (Richter and Berner 2024)
    DoubleWell,
    /// Two thin shells, 30-d (Feroz, Hobson and Bridges 2009)
    Shells,
    /// Dual of the critical Ising model on an 8 x 8 torus: two modes, 64-d (Li and Wang 2018)
    Ising,
}

/// A target with its log Z, and the settings of a run.
pub struct Target {
    pub model: Box<dyn Differentiable<State = DVector<f64>> + Send + Sync>,
    /// log Z, exact or from long runs.
    pub reference: f64,
    pub base: Base,
    /// Divisor of the budget for a first run, to whose states the base of the next run is fitted: 4 for a quarter.
    pub pilot: Option<u64>,
    /// Whether rounds start from a base fitted to the states of first passes.
    pub fits: bool,
    pub leapfrog_steps: usize,
    pub chains: usize,
}

/// The law from which a run starts.
pub enum Base {
    /// Laplace's approximation, its deviations multiplied by 1.15.
    Laplace,
    Gaussian(Gaussian),
}

impl Name {
    /// Returns the file of data in the folder of data, if there is one.
    pub fn file(self, folder: &Path) -> Option<PathBuf> {
        let name = match self {
            Self::Sonar => "sonar/sonar.csv",
            Self::Credit => "targets/german_credit.csv",
            Self::Lgcp => "targets/pines.csv",
            _ => return None,
        };
        Some(folder.join(name))
    }

    /// Sets up the target. `folder` contains the data files.
    pub fn target(self, folder: &Path) -> Result<Target> {
        let standard = |dimension| Gaussian::standard(dimension).map(Base::Gaussian);
        let file = self.file(folder).unwrap_or_default();
        Ok(match self {
            Self::Brownian => Target {
                pilot: Some(4),
                ..Target::new(motion::brownian()?, 1.187_749, standard(32)?)
            },
            Self::Sonar => Target::new(Regression::sonar(&file)?, -108.381, Base::Laplace),
            Self::Credit => Target::new(Regression::credit(&file)?, -585.098, Base::Laplace),
            Self::Lgcp => Target {
                fits: true,
                leapfrog_steps: 6,
                chains: 64,
                ..Target::new(Cox::read(&file)?, 501.74, standard(1_600)?)
            },
            Self::Funnel => Target::new(shapes::funnel()?, 0.0, standard(10)?),
            Self::ManyWell => Target {
                pilot: Some(2),
                ..Target::new(Wells, Wells::log_z(16), standard(32)?)
            },
            Self::Seeds => Target {
                chains: 128,
                ..Target::new(seeds::seeds()?, seeds::LOG_Z, standard(26)?)
            },
            Self::DoubleWell => Target::new(shapes::wells()?, shapes::wells_log_z(), standard(50)?),
            Self::Shells => Target::new(shapes::shells()?, shapes::shells_log_z(), standard(30)?),
            Self::Ising => {
                let base = Base::Gaussian(spins::couplings()?);
                Target::new(spins::ising()?, spins::log_z()?, base)
            }
        })
    }
}

impl Target {
    /// Starts rounds from a base fitted to the states of first passes, which come from N(0, S^2) with the given S.
    pub fn fit_from(&mut self, deviation: f64) -> Result<()> {
        let origin = DVector::zeros(self.base.dimension(&self.model));
        self.base = Base::Gaussian(Gaussian::isotropic(origin, deviation)?);
        (self.fits, self.pilot) = (true, None);
        Ok(())
    }

    fn new(
        model: impl Differentiable<State = DVector<f64>> + Send + Sync + 'static,
        reference: f64,
        base: Base,
    ) -> Self {
        Self {
            model: Box::new(model),
            reference,
            base,
            pilot: None,
            fits: false,
            leapfrog_steps: 3,
            chains: 256,
        }
    }
}
