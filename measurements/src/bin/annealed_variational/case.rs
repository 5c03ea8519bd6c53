//! A target, the training of a flow to it, and its scores.

use std::time::Instant;

use annealed::ais::Ais;
use annealed::estimate::LogZ;
use annealed::learned::{
    AuxiliaryPath, LearnedTransitions, Noise, TrainedTransitions, Training, mode_occupancy,
};
use annealed::model::{
    Differentiable, Gaussian, GaussianMixture, NormalizedModel, UnnormalizedModel,
};
use annealed::path::{AnnealingPath, GeometricPath};
use annealed::schedule::Schedule;
use nalgebra::DVector;
use serde_json::{Value, json};

use crate::Options;
use crate::names::{ObjectiveName, TransitionName, name};

const BATCH: usize = 256;
pub const CHAINS: usize = 50_000;
/// Noise for log Z. Its tails bound the variance of the weights.
const NOISE: Noise = Noise::Student {
    degrees_of_freedom: 5,
};

/// A target with modes of equal mass and log Z = 0.
pub struct Case {
    pub modes: Vec<DVector<f64>>,
    pub deviation: f64,
    pub transitions: usize,
}

pub struct Outcome {
    pub occupancy: Vec<f64>,
    pub elbo: f64,
    pub log_z: f64,
    pub interval: (f64, f64),
    pub ess: f64,
    pub target_gradients: u64,
    pub seconds: f64,
}

pub type Path = GeometricPath<Gaussian, GaussianMixture>;

impl Case {
    pub fn path(&self) -> annealed::Result<Path> {
        let mass = 1.0 / self.modes.len() as f64;
        let component =
            |mode: &DVector<f64>| Ok((mass, Gaussian::isotropic(mode.clone(), self.deviation)?));
        let components: annealed::Result<Vec<_>> = self.modes.iter().map(component).collect();
        Ok(GeometricPath::new(
            Gaussian::standard(self.modes[0].len())?,
            GaussianMixture::new(components?)?,
        ))
    }

    pub fn train<P>(
        &self,
        path: P,
        objective: ObjectiveName,
        transition: TransitionName,
        seed: u64,
        options: &Options,
    ) -> annealed::Result<TrainedTransitions>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At: Differentiable,
    {
        let dimension = self.modes[0].len();
        let states = path.base().state_dimension().unwrap_or(dimension);
        let flow =
            LearnedTransitions::new(transition.family(dimension), states, self.transitions, seed)?;
        let objective = objective.objective(options.weight);
        let iterations = if options.table { 500 } else { 1_500 };
        let gradients = options.iterations.unwrap_or(iterations) * self.transitions;
        let trained = Training::new(objective)
            .iterations(gradients / objective.gradients_per_sample(self.transitions))
            .batch_size(BATCH)
            .learning_rate(options.rate.unwrap_or_else(|| transition.rate()))
            .seed(seed)
            .train(flow, path, &self.schedule()?)?;
        Ok(trained)
    }

    pub fn schedule(&self) -> annealed::Result<Schedule> {
        Schedule::linear(self.transitions)
    }

    pub fn run(
        &self,
        objective: ObjectiveName,
        transition: TransitionName,
        seed: u64,
        options: &Options,
    ) -> annealed::Result<Outcome> {
        let path = self.path()?;
        if transition.has_auxiliary() {
            // One auxiliary variable for each coordinate.
            let path = AuxiliaryPath::new(&path, self.modes[0].len())?;
            return self.run_on(&path, objective, transition, seed, options);
        }
        self.run_on(&path, objective, transition, seed, options)
    }

    /// Trains a flow and scores it: ELBO and occupancy as trained, log Z and ESS with `NOISE`.
    pub fn run_on<P>(
        &self,
        path: P,
        objective: ObjectiveName,
        transition: TransitionName,
        seed: u64,
        options: &Options,
    ) -> annealed::Result<Outcome>
    where
        P: AnnealingPath<State = DVector<f64>> + Send + Sync,
        P::Base: NormalizedModel,
        P::At: Differentiable,
    {
        let start = Instant::now();
        let trained = self.train(&path, objective, transition, seed, options)?;
        let seconds = start.elapsed().as_secs_f64();
        let run = |flow: &LearnedTransitions| {
            let ais = Ais::new(&path, flow).schedule(self.schedule()?);
            ais.chains(CHAINS).seed(seed).run()
        };
        let as_trained = run(&trained.flow)?;
        let weighted = run(&trained.flow.with_noise(NOISE)?)?;
        let dimension = self.modes[0].len();
        let own =
            |state: &DVector<f64>| state.rows(state.len() - dimension, dimension).into_owned();
        let states: Vec<_> = as_trained.states().iter().map(own).collect();
        Ok(Outcome {
            occupancy: mode_occupancy(&states, &self.modes)?,
            elbo: as_trained.lower_bound(),
            log_z: weighted.log_z(),
            interval: weighted.interval(),
            ess: weighted.effective_sample_size(),
            target_gradients: trained.target_gradients,
            seconds,
        })
    }
}

impl Outcome {
    /// Returns the number of modes that received more than a quarter of their share.
    pub fn modes(&self) -> usize {
        let share = 1.0 / self.occupancy.len() as f64;
        self.occupancy.iter().filter(|&&o| o > share / 4.0).count()
    }

    pub fn print(&self, [case, transition, objective]: [String; 3], seed: u64) {
        let occupancy: Vec<String> = self.occupancy.iter().map(|o| format!("{o:.2}")).collect();
        println!(
            "{case:6} {transition:16} {objective:19} seed {seed}: {} modes, ELBO {:6.3}, \
             log Z {:6.3} ({:.3} to {:.3}), ESS {:5.0} of {CHAINS}, occupancy {}",
            self.modes(),
            self.elbo,
            self.log_z,
            self.interval.0,
            self.interval.1,
            self.ess,
            occupancy.join(" ")
        );
    }

    pub fn json(&self, transition: TransitionName) -> Value {
        json!({
            "transition": name(transition),
            "modes": self.modes(),
            "occupancy": self.occupancy,
            "elbo": self.elbo,
            "log_z": self.log_z,
            "log_z_interval": [self.interval.0, self.interval.1],
            "divergence_bound": -self.elbo,
            "ess": self.ess,
            "target_gradients": self.target_gradients,
            "seconds": self.seconds,
        })
    }
}
