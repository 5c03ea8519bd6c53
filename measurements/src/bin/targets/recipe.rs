//! One run: annealing in rounds, from the target's base or from a base fitted to the states of a first run or of
//! earlier rounds.

use annealed::Result;
use annealed::adaptive::{Rounds, RoundsRun};
use annealed::model::Differentiable;
use annealed::prelude::*;
use annealed_measurements::problems::meter::{Counted, Meter};

use crate::named::{Base, Target};

/// Factor on the deviations of a base, relative to Laplace's approximation or to the states to which it is fitted.
const WIDER: f64 = 1.15;

/// Largest number of evaluations that the library does not count: at first states, and in checks of the gradient.
const UNSEEN: u64 = 2_500;

#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Number of gradients to spend, pilots and tuning included. A value counts as one, with or without its gradient.
    pub budget: u64,
    pub chains: Option<usize>,
    pub seed: u64,
    pub threads: usize,
}

pub struct Found {
    pub log_z: f64,
    pub standard_error: f64,
    pub interval: (f64, f64),
    /// Number of evaluations counted by the model.
    pub gradients: u64,
    /// Number of evaluations counted by the library.
    pub evaluations: u64,
    pub warnings: Vec<Warning>,
    pub seconds: f64,
}

impl Target {
    pub fn run(&self, terms: Terms) -> Result<Found> {
        let meter = Meter::default();
        let model = Counted::new(&*self.model, 1, &meter);
        let mut base = self.base.of(&model)?;
        if let Some(share) = self.pilot {
            let pilot = self.rounds(base, &model, terms.budget / share, terms)?;
            base = fitted(pilot.run())?;
        }
        let left = terms.budget - meter.spent();
        let rounds = self.rounds(base, &model, left, terms)?;
        Ok(Found {
            log_z: rounds.log_z(),
            standard_error: rounds.standard_error(),
            interval: rounds.interval(),
            gradients: meter.spent(),
            evaluations: rounds.evaluations(),
            warnings: rounds.warnings().to_vec(),
            seconds: rounds.seconds(),
        })
    }

    /// Anneals in rounds with a budget of gradients.
    fn rounds(
        &self,
        base: Gaussian,
        model: &(impl Differentiable + Send + Sync),
        gradients: u64,
        terms: Terms,
    ) -> Result<RoundsRun<DVector<f64>, Hmc>> {
        let path = GeometricPath::new(base, model);
        let rounds = Rounds::new(&path, Hmc::new(0.3, self.leapfrog_steps)?)
            .chains(terms.chains.unwrap_or(self.chains))
            .budget(gradients.saturating_sub(UNSEEN))
            .seed(terms.seed)
            .threads(terms.threads);
        match self.fits {
            true => rounds.fitted().run(),
            false => rounds.run(),
        }
    }
}

/// Fits a Gaussian with independent coordinates to the states of a run, with larger deviations than theirs.
fn fitted(run: &Run<DVector<f64>>) -> Result<Gaussian> {
    let dimension = run.states()[0].len();
    let mean = DVector::from_fn(dimension, |i, _| run.expectation(|x| x[i]).0);
    let square = |i: usize, _| run.expectation(|x| (x[i] - mean[i]).powi(2)).0;
    let variances = DVector::from_fn(dimension, square) * (WIDER * WIDER);
    Gaussian::diagonal(mean, variances)
}

impl Found {
    /// Formats the estimate with its error, interval, cost and warnings.
    pub fn line(&self, reference: f64) -> String {
        let (lower, upper) = self.interval;
        let names: Vec<String> = self.warnings.iter().map(Warning::name).collect();
        format!(
            "{:.4} +- {:.4} ({lower:.4} to {upper:.4}), off by {:+.4}; {} gradients, {:.1} s {}",
            self.log_z,
            self.standard_error,
            self.log_z - reference,
            self.gradients,
            self.seconds,
            names.join(", ")
        )
    }
}

impl Base {
    pub fn dimension(&self, model: &dyn UnnormalizedModel<State = DVector<f64>>) -> usize {
        match self {
            Self::Gaussian(gaussian) => gaussian.dimension(),
            Self::Laplace => model.state_dimension().expect("a regression knows it"),
        }
    }

    /// Returns the base. Finding it may take gradients of the target.
    pub fn of(&self, model: &impl Differentiable) -> Result<Gaussian> {
        match self {
            Self::Gaussian(gaussian) => Ok(gaussian.clone()),
            Self::Laplace => {
                let start = DVector::zeros(self.dimension(model));
                let laplace = Gaussian::laplace(model, start)?;
                let wider = laplace.covariance() * (WIDER * WIDER);
                Gaussian::new(laplace.mean().clone(), wider)
            }
        }
    }
}
