//! A network of ridge functions, fitted one unit at a time to a small set of measurements.
//!
//! The data are the volume of the timber of 31 black cherry trees, with diameter and height (Meyer 1953, Forest
//! Mensuration; Ryan, Joiner and Ryan 1976, Minitab Student Handbook), as in the table `trees` of R.
//!
//! A unit `tanh(x . w)` maximises `L(w) = 1/n sum_i r_i tanh(x_i . w)` over the residuals r; least squares then
//! refits all outer coefficients. Annealed Gibbs on the augmented ridge model, simulated annealing (Metropolis) and
//! gradient ascent seek the maximum, each from 20 starts with 100 steps.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin ridge_network -- --gain 300
//! ```

use annealed::ais::{Ais, Merge, Recorder};
use annealed::drift::{RidgeGibbs, RidgePath, RidgeState, Tanh};
use annealed::kernel::{Block, RandomWalkMetropolis, Stage};
use annealed::model::{FunctionModel, Gaussian, Sampleable};
use annealed::path::{Intermediate, TemperedPath};
use annealed::random::{Purpose, stream};
use annealed::schedule::Schedule;
use clap::Parser;
use nalgebra::{DMatrix, DVector};

const DIAMETER: [f64; 31] = [
    8.3, 8.6, 8.8, 10.5, 10.7, 10.8, 11.0, 11.0, 11.1, 11.2, 11.3, 11.4, 11.4, 11.7, 12.0, 12.9,
    12.9, 13.3, 13.7, 13.8, 14.0, 14.2, 14.5, 16.0, 16.3, 17.3, 17.5, 17.9, 18.0, 18.0, 20.6,
];
const HEIGHT: [f64; 31] = [
    70.0, 65.0, 63.0, 72.0, 81.0, 83.0, 66.0, 75.0, 80.0, 75.0, 79.0, 76.0, 76.0, 69.0, 75.0, 74.0,
    85.0, 86.0, 71.0, 64.0, 78.0, 80.0, 74.0, 72.0, 77.0, 81.0, 82.0, 80.0, 80.0, 80.0, 87.0,
];
const VOLUME: [f64; 31] = [
    10.3, 10.3, 10.2, 16.4, 18.8, 19.7, 15.6, 18.2, 22.6, 19.9, 24.2, 21.0, 21.4, 21.3, 19.1, 22.2,
    33.8, 27.4, 25.7, 24.9, 34.5, 31.7, 36.3, 38.3, 42.6, 55.4, 55.7, 58.3, 51.5, 51.0, 77.0,
];
const TREES: usize = 31;
const UNITS: usize = 4;
const CHAINS: usize = 20;
const STEPS: usize = 100;
/// Standard deviation of the reference for w.
const WIDE: f64 = 3.0;
const SEEDS: u64 = 10;
const ASCENT: f64 = 2.0;

#[derive(Parser)]
struct Options {
    /// Gain at the end of both kinds of annealing.
    #[arg(long, default_value_t = 300.0)]
    gain: f64,
}

fn standardized(values: &[f64; TREES]) -> [f64; TREES] {
    let n = TREES as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    values.map(|v| (v - mean) / variance.sqrt())
}

/// Returns one row per tree: diameter, height, 1.
fn design() -> DMatrix<f64> {
    let (diameter, height) = (standardized(&DIAMETER), standardized(&HEIGHT));
    DMatrix::from_fn(TREES, 3, |i, j| [diameter[i], height[i], 1.0][j])
}

/// A recorder of the state with the largest objective.
#[derive(Clone)]
struct Best<F, S> {
    objective: F,
    best: Option<(f64, S)>,
}

impl<F: Fn(&S) -> f64, S> Best<F, S> {
    fn new(objective: F) -> Self {
        let best = None;
        Self { objective, best }
    }
}

impl<M, F> Recorder<M> for Best<F, M::State>
where
    M: Intermediate<State: Clone>,
    F: Fn(&M::State) -> f64 + Clone,
{
    fn record(&mut self, _stage: Stage<'_, M>, block: &Block<M::State>) {
        for state in block.states() {
            let value = (self.objective)(state);
            if self.best.as_ref().is_none_or(|best| value > best.0) {
                self.best = Some((value, state.clone()));
            }
        }
    }
}

impl<F, S> Merge for Best<F, S> {
    fn merge(&mut self, right: Self) {
        let value = |best: &Option<(f64, S)>| best.as_ref().map_or(f64::NEG_INFINITY, |b| b.0);
        if value(&right.best) > value(&self.best) {
            self.best = right.best;
        }
    }
}

struct Unit<'a> {
    design: &'a DMatrix<f64>,
    residuals: &'a DVector<f64>,
    gain: f64,
    seed: u64,
}

impl Unit<'_> {
    fn objective(&self, w: &DVector<f64>) -> f64 {
        (self.design * w).map(f64::tanh).dot(self.residuals) / TREES as f64
    }

    fn gradient(&self, w: &DVector<f64>) -> DVector<f64> {
        let slopes = (self.design * w).map(|u| 1.0 - u.tanh().powi(2));
        self.design.tr_mul(&slopes.component_mul(self.residuals)) / TREES as f64
    }

    /// Returns a schedule whose gain rises with the logarithm of the stage.
    fn schedule() -> annealed::Result<Schedule> {
        let top = (1.0 + STEPS as f64).ln();
        Schedule::new((0..=STEPS).map(|k| {
            if k == STEPS {
                1.0
            } else {
                (1.0 + k as f64).ln() / top
            }
        }))
    }

    fn annealed_gibbs(&self) -> annealed::Result<DVector<f64>> {
        let ridge = |&amplitude: &f64| Tanh {
            amplitude,
            slope: 1.0,
            offset: 0.0,
        };
        let functions = self.residuals.iter().map(ridge);
        let path = RidgePath::new(self.design.clone(), functions, self.gain, WIDE, 0.5)?;
        let best = Best::new(|state: &RidgeState| self.objective(&state.w));
        let run = Ais::new(&path, RidgeGibbs::augmented())
            .schedule(Self::schedule()?)
            .recorder(best)
            .chains(CHAINS)
            .seed(self.seed)
            .run()?;
        let best = run.recorder().best.as_ref();
        Ok(best.map_or(DVector::zeros(3), |(_, state)| state.w.clone()))
    }

    fn simulated_annealing(&self) -> annealed::Result<DVector<f64>> {
        let objective = FunctionModel::new(|w: &DVector<f64>| self.gain * self.objective(w));
        let prior = Gaussian::isotropic(DVector::zeros(3), WIDE)?;
        let path = TemperedPath::new(prior, objective);
        let run = Ais::new(&path, RandomWalkMetropolis::new(1.0)?)
            .schedule(Self::schedule()?)
            .recorder(Best::new(|w: &DVector<f64>| self.objective(w)))
            .chains(CHAINS)
            .seed(self.seed)
            .run()?;
        let best = run.recorder().best.as_ref();
        Ok(best.map_or(DVector::zeros(3), |(_, w)| w.clone()))
    }

    /// Climbs in fixed steps, from as many starts as there are chains.
    fn gradient_ascent(&self) -> annealed::Result<DVector<f64>> {
        let prior = Gaussian::isotropic(DVector::zeros(3), WIDE)?;
        let mut best = DVector::zeros(3);
        for chain in 0..CHAINS {
            let mut w = prior.sample(&mut stream(self.seed, Purpose::TRAINING, chain));
            for _ in 0..STEPS {
                w += self.gradient(&w) * ASCENT;
                if self.objective(&w) > self.objective(&best) {
                    best.copy_from(&w);
                }
            }
        }
        Ok(best)
    }
}

/// Returns for each unit the root mean squared residual, as a share of the volumes' deviation, and the objective.
fn fit(
    seek: impl Fn(&Unit<'_>) -> annealed::Result<DVector<f64>>,
    gain: f64,
    seed: u64,
) -> annealed::Result<([f64; UNITS], [f64; UNITS])> {
    let design = design();
    let volumes = DVector::from_column_slice(&standardized(&VOLUME));
    let mut columns = DMatrix::from_element(TREES, 1, 1.0);
    let mut residuals = volumes.clone();
    let (mut errors, mut objectives) = ([0.0; UNITS], [0.0; UNITS]);
    for unit in 0..UNITS {
        let problem = Unit {
            design: &design,
            residuals: &residuals,
            gain,
            seed: seed * UNITS as u64 + unit as u64,
        };
        let w = seek(&problem)?;
        objectives[unit] = problem.objective(&w);
        columns = columns.clone().insert_column(unit + 1, 0.0);
        columns.set_column(unit + 1, &(&design * &w).map(f64::tanh));
        let svd = columns.clone().svd(true, true);
        let coefficients = svd
            .solve(&volumes, 1e-9)
            .unwrap_or_else(|_| DVector::zeros(unit + 2));
        residuals = &volumes - &columns * coefficients;
        errors[unit] = (residuals.norm_squared() / TREES as f64).sqrt();
    }
    Ok((errors, objectives))
}

type Seek = fn(&Unit<'_>) -> annealed::Result<DVector<f64>>;

fn main() -> annealed::Result<()> {
    let gain = Options::parse().gain;
    let methods: [(&str, Seek); 3] = [
        ("annealed Gibbs", |unit| unit.annealed_gibbs()),
        ("simulated annealing", |unit| unit.simulated_annealing()),
        ("gradient ascent", |unit| unit.gradient_ascent()),
    ];
    println!(
        "{TREES} trees, {UNITS} units, {SEEDS} seeds, gain {gain}; mean over seeds after each unit"
    );
    for (name, seek) in methods {
        let begun = std::time::Instant::now();
        let (mut errors, mut first) = ([0.0; UNITS], 0.0);
        let mut worst: f64 = 0.0;
        for seed in 0..SEEDS {
            let (found, objectives) = fit(seek, gain, seed)?;
            for (sum, error) in errors.iter_mut().zip(found) {
                *sum += error / SEEDS as f64;
            }
            first += objectives[0] / SEEDS as f64;
            worst = worst.max(found[UNITS - 1]);
        }
        let errors = errors.map(|e| format!("{e:.4}")).join(" ");
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{name:>20}: first L {first:.4}; RMS residual {errors}; worst last {worst:.4}; \
             {seconds:.1} s"
        );
    }
    Ok(())
}
