//! Data from four waves in growing dimension, `y = sum_k b_k sin(w_k . x) + noise`, fitted one wave at a time.

use std::fs;

use annealed::Result;
use annealed::drift::Sinusoid;
use annealed::kernel::StepSize;
use annealed::model::{Gaussian, Sampleable};
use annealed::random::{Purpose, stream};
use annealed::schedule::Schedule;
use clap::ValueEnum;
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use crate::trees::logarithmic;
use crate::unit::{Annealing, Unit, refit};

pub const DATA: usize = 500;
/// Number of data on which the error is measured.
const HELD_OUT: usize = 1_000;
const HEIGHTS: [f64; 4] = [2.0, 1.5, 1.0, 0.5];
const NOISE: f64 = 0.25;
/// The longest direction that counts, in norms of the reference.
const RADIUS: f64 = 2.0;
/// Length of a step of ascent, in gradients of the objective of residuals with deviation 1.
const RATE: f64 = 2.0;
/// Evaluations of L that the tables of a modifier take.
const TABLES: f64 = 1_100.0;

/// Returns the evaluations of L that a stage of annealed Gibbs sampling takes, as a pilot counted them. Larger gains take
/// more proposals.
fn gibbs_stage(d: usize) -> f64 {
    10.8 * (d as f64 / 5.0).powf(0.18)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Annealed Gibbs sampling
    Gibbs,
    /// A modified Langevin step before each sweep of annealed Gibbs sampling
    Modified,
    /// One draw at the gain d log d
    Draw,
    /// Simulated annealing by Metropolis moves
    Simulated,
    /// Gradient ascent from draws of the reference
    Ascent,
    /// Gradient ascent from draws that are ten times as short
    NearZero,
    /// Ten times the evaluations, and climbs from the true directions: the first unit alone
    Best,
}

impl Method {
    /// In the order in which they are run: the cheap ones first.
    pub const ALL: [Self; 7] = [
        Self::Ascent,
        Self::NearZero,
        Self::Simulated,
        Self::Draw,
        Self::Gibbs,
        Self::Best,
        Self::Modified,
    ];
    /// In the order of the tables.
    pub const COMPARED: [Self; 6] = [
        Self::Gibbs,
        Self::Modified,
        Self::Draw,
        Self::Simulated,
        Self::Ascent,
        Self::NearZero,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Gibbs => "annealed Gibbs",
            Self::Modified => "modified Langevin and Gibbs",
            Self::Draw => "a draw at d log d",
            Self::Simulated => "simulated annealing",
            Self::Ascent => "ascent",
            Self::NearZero => "ascent from near 0",
            Self::Best => "best",
        }
    }
}

/// One fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// Root mean square of the norm of a direction `w_k`. These are draws of the reference.
    pub norm: f64,
    pub dimension: usize,
    pub seed: u64,
    pub method: Method,
    /// Evaluations of L for each unit: the budget.
    pub budget: f64,
    /// The same, as they were made, mean over the units.
    pub evaluations: f64,
    /// Seconds of processor time, which a loaded machine does not change.
    pub seconds: f64,
    /// L of each unit, for residuals whose deviation is 1.
    pub objectives: Vec<f64>,
    /// Root mean square error on held-out data after each unit, in deviations of these data.
    pub held_out: Vec<f64>,
}

impl Line {
    pub fn key(&self) -> (f64, usize, u64, Method) {
        (self.norm, self.dimension, self.seed, self.method)
    }
}

struct Data {
    design: DMatrix<f64>,
    targets: DVector<f64>,
}

/// The training data, the held-out data, and the true directions.
struct Case {
    training: Data,
    held_out: Data,
    truth: Vec<DVector<f64>>,
    norm: f64,
}

impl Case {
    fn new(norm: f64, d: usize, seed: u64) -> Result<Self> {
        let mut rng = stream(seed, Purpose::DATA, d);
        let reference = Gaussian::isotropic(DVector::zeros(d), norm / (d as f64).sqrt())?;
        let truth = HEIGHTS.map(|_| reference.sample(&mut rng)).to_vec();
        let mut data = |n: usize| -> Result<Data> {
            let numbers: DVector<f64> = Gaussian::standard(n * (d + 1))?.sample(&mut rng);
            let design = DMatrix::from_column_slice(n, d, &numbers.as_slice()[n..]);
            let mut targets = numbers.rows(0, n) * NOISE;
            for (height, w) in HEIGHTS.iter().zip(&truth) {
                targets += (&design * w).map(f64::sin) * *height;
            }
            Ok(Data { design, targets })
        };
        Ok(Self {
            training: data(DATA)?,
            held_out: data(HELD_OUT)?,
            truth,
            norm,
        })
    }

    /// Returns the unit for these residuals, scaled to a deviation of 1.
    fn unit(&self, residuals: &DVector<f64>, seed: u64) -> Unit<'_, Sinusoid> {
        let scale = deviation(residuals);
        let wave = |residual: &f64| Sinusoid {
            amplitude: residual / scale,
            frequency: 1.0,
            phase: 0.0,
        };
        let functions = residuals.iter().map(wave).collect();
        let design = &self.training.design;
        let reference = self.norm / (design.ncols() as f64).sqrt();
        let lengths = (reference, RADIUS * self.norm);
        Unit::new(design, functions, lengths, seed)
    }
}

/// Returns the processor time of this process, or 0 where `/proc` does not have it. A tick has ten milliseconds.
fn core_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

fn deviation(values: &DVector<f64>) -> f64 {
    (values.norm_squared() / values.len() as f64).sqrt()
}

/// Settings that a pilot of two seeds chose.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Settings {
    /// Evaluations of L for each unit
    #[arg(long, default_value_t = 5_000.0)]
    budget: f64,
    /// The final gain of annealed Gibbs sampling, in d log d
    #[arg(long, default_value_t = 20.0)]
    gain: f64,
    /// The final gain of simulated annealing, in d log d
    #[arg(long, default_value_t = 4.0)]
    simulated_gain: f64,
    /// Chains of each annealing
    #[arg(long, default_value_t = 4)]
    chains: usize,
    /// Standard deviation of the augmented projections
    #[arg(long, default_value_t = 1.0)]
    deviation: f64,
}

impl Settings {
    /// Returns an annealing of so many evaluations, if a stage of one chain takes `stage`. The gain is in d log d.
    fn annealing(&self, d: usize, evaluations: f64, stage: f64, gain: f64) -> Result<Annealing> {
        let stages = (evaluations / (stage * self.chains as f64)) as usize;
        Ok(Annealing {
            chains: self.chains,
            schedule: Schedule::linear(stages.max(1))?,
            gain: gain * d as f64 * (d as f64).ln(),
        })
    }

    fn seek(
        &self,
        method: Method,
        unit: &Unit<'_, Sinusoid>,
        d: usize,
    ) -> Result<(f64, DVector<f64>)> {
        let Self { budget, gain, .. } = *self;
        match method {
            Method::Gibbs => {
                let annealing = self.annealing(d, budget, gibbs_stage(d), gain)?;
                unit.annealed_gibbs(&annealing, self.deviation)?;
            }
            Method::Modified => {
                let stage = gibbs_stage(d) + 3.0;
                let annealing = self.annealing(d, budget - TABLES, stage, gain)?;
                unit.modified_langevin(&annealing, self.deviation)?;
            }
            Method::Draw => return unit.draw(&self.annealing(d, budget, 1.0, 1.0)?),
            Method::Simulated => self.simulated(unit, d)?,
            Method::Ascent | Method::Best => unit.ascent(budget, RATE, 1.0)?,
            Method::NearZero => unit.ascent(budget, RATE, 0.1)?,
        }
        Ok(unit.best())
    }

    /// Runs simulated annealing, whose proposals shrink as the peaks get narrower.
    fn simulated(&self, unit: &Unit<'_, Sinusoid>, d: usize) -> Result<()> {
        let annealing = self.annealing(d, self.budget, 1.0, self.simulated_gain)?;
        let step = |beta: f64| {
            let precision = unit.reference.powi(-2) + 0.5 * beta * annealing.gain;
            (beta, 2.0 / (precision * d as f64).sqrt())
        };
        let step = StepSize::knots([0.0, 0.03, 0.1, 0.3, 1.0].map(step))?;
        let schedule = logarithmic(annealing.schedule.stages())?;
        let annealing = Annealing {
            schedule,
            ..annealing
        };
        unit.simulated_annealing(&annealing, step)
    }

    /// Fits one network, or seeks the best first unit.
    pub fn run(&self, norm: f64, dimension: usize, seed: u64, method: Method) -> Result<Line> {
        let begun = core_seconds();
        let case = Case::new(norm, dimension, seed)?;
        let mut line = Line {
            norm,
            dimension,
            seed,
            method,
            budget: self.budget,
            evaluations: 0.0,
            seconds: 0.0,
            objectives: Vec::new(),
            held_out: Vec::new(),
        };
        match method {
            Method::Best => self.best(&case, &mut line)?,
            _ => self.fit(&case, &mut line)?,
        }
        line.seconds = core_seconds() - begun;
        Ok(line)
    }

    fn fit(&self, case: &Case, line: &mut Line) -> Result<()> {
        let Data { design, targets } = &case.training;
        let [mut columns, mut found] = [DATA, HELD_OUT].map(|n| DMatrix::zeros(n, 0));
        let mut residuals = targets.clone();
        for index in 0..HEIGHTS.len() {
            let unit = case.unit(&residuals, line.seed * HEIGHTS.len() as u64 + index as u64);
            let (objective, w) = self.seek(line.method, &unit, line.dimension)?;
            line.evaluations += unit.evaluations() / HEIGHTS.len() as f64;
            line.objectives.push(objective);
            let coefficients;
            (residuals, coefficients) = refit(&mut columns, (design * &w).map(f64::sin), targets);
            found = found.insert_column(index, 0.0);
            found.set_column(index, &(&case.held_out.design * &w).map(f64::sin));
            let errors = &case.held_out.targets - &found * coefficients;
            line.held_out
                .push(deviation(&errors) / deviation(&case.held_out.targets));
        }
        Ok(())
    }

    /// Seeks the largest L of the first unit: by climbs from the true directions, and by ascent with ten times the
    /// evaluations.
    fn best(&self, case: &Case, line: &mut Line) -> Result<()> {
        let unit = case.unit(&case.training.targets, line.seed * HEIGHTS.len() as u64);
        for w in &case.truth {
            unit.climb(w.clone(), RATE);
            unit.climb(-w, RATE);
        }
        line.objectives.push(unit.best().0);
        unit.ascent(unit.evaluations() + 10.0 * self.budget, RATE, 1.0)?;
        line.objectives.push(unit.best().0);
        line.evaluations = unit.evaluations();
        Ok(())
    }
}
