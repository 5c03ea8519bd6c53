//! One run: annealing in rounds, from the target's base or from one that is fitted to states of a first run or of
//! earlier rounds.

use annealed::Result;
use annealed::adaptive::{Rounds, RoundsRun};
use annealed::model::Differentiable;
use annealed::prelude::*;
use annealed_measurements::problems::meter::{Counted, Meter};

use crate::named::{Base, Target};

/// Deviations of a base, in those of Laplace's approximation or of the states that it is fitted to.
const WIDER: f64 = 1.15;

/// Evaluations that the library's count leaves out, at most: those of first states and of checks of the gradient.
const UNSEEN: u64 = 2_500;

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

    /// Anneals in rounds at a budget of gradients, each of which the library counts as two evaluations.
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
            .budget(2 * gradients.saturating_sub(UNSEEN))
            .seed(terms.seed)
            .threads(terms.threads);
        match self.refits {
            true => rounds.refit().run(),
            false => rounds.run(),
        }
    }
}

/// Fits a Gaussian of independent coordinates to the states of a run, wider than they are.
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
