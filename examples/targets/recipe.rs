//! One run: Laplace's approximation where it is asked for, then annealing in rounds.

use annealed::Result;
use annealed::adaptive::Rounds;
use annealed::model::Differentiable;
use annealed::prelude::*;

use crate::counted::Counted;
use crate::named::{Base, Target};

/// Deviations of a base, in those of Laplace's approximation.
const WIDER: f64 = 1.15;

#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Gradients to spend, pilots and tuning included. A value with its gradient counts as one, and so does a value.
    pub budget: u64,
    pub chains: Option<usize>,
    pub seed: u64,
    pub threads: usize,
}

pub struct Found {
    pub log_z: f64,
    pub standard_error: f64,
    pub interval: (f64, f64),
    /// Evaluations that the model has counted.
    pub gradients: u64,
    /// Evaluations by the library's count, where a value and its gradient are two.
    pub evaluations: u64,
    pub warnings: Vec<Warning>,
    pub seconds: f64,
}

impl Target {
    pub fn run(&self, terms: Terms) -> Result<Found> {
        let model = Counted::new(&*self.model);
        let path = GeometricPath::new(self.base.of(&model)?, &model);
        let left = terms.budget.saturating_sub(model.spent());
        let rounds = Rounds::new(&path, Hmc::new(0.3, self.leapfrog_steps)?)
            .chains(terms.chains.unwrap_or(self.chains))
            .budget(2 * left)
            .seed(terms.seed)
            .threads(terms.threads)
            .run()?;
        Ok(Found {
            log_z: rounds.log_z(),
            standard_error: rounds.standard_error(),
            interval: rounds.interval(),
            gradients: model.spent(),
            evaluations: rounds.evaluations(),
            warnings: rounds.warnings().to_vec(),
            seconds: rounds.seconds(),
        })
    }
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

    /// Returns the base, which may take gradients of the target to find.
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
