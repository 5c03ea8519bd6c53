//! The volume of the timber of 31 black cherry trees, with diameter and height (Meyer 1953, Forest Mensuration; Ryan,
//! Joiner and Ryan 1976, Minitab Student Handbook), as in the table `trees` of R.

use annealed::Result;
use annealed::drift::Tanh;
use annealed::kernel::StepSize;
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector};

use crate::unit::{Annealing, Unit, refit};

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
/// Standard deviation of the projections.
const DEVIATION: f64 = 0.5;
const SEEDS: u64 = 10;
const ASCENT: f64 = 2.0;

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

/// Returns a schedule whose gain rises with the logarithm of the stage.
pub fn logarithmic(steps: usize) -> Result<Schedule> {
    let top = (1.0 + steps as f64).ln();
    let beta = |k: usize| (1.0 + k as f64).ln() / top;
    Schedule::new((0..=steps).map(|k| if k == steps { 1.0 } else { beta(k) }))
}

type Seek<'a> = &'a dyn Fn(&Unit<'_, Tanh>) -> Result<()>;

/// Returns for each unit the root mean squared residual, as a share of the volumes' deviation, and the objective.
fn fit(seek: Seek<'_>, seed: u64) -> Result<([f64; UNITS], [f64; UNITS])> {
    let design = design();
    let volumes = DVector::from_column_slice(&standardized(&VOLUME));
    let mut columns = DMatrix::from_element(TREES, 1, 1.0);
    let mut residuals = volumes.clone();
    let (mut errors, mut objectives) = ([0.0; UNITS], [0.0; UNITS]);
    for index in 0..UNITS {
        let tanh = |&amplitude: &f64| Tanh {
            amplitude,
            slope: 1.0,
            offset: 0.0,
        };
        let functions = residuals.iter().map(tanh).collect();
        let seed = seed * UNITS as u64 + index as u64;
        let unit = Unit::new(&design, functions, (WIDE, f64::INFINITY), seed);
        seek(&unit)?;
        let (objective, w) = unit.best();
        objectives[index] = objective;
        (residuals, _) = refit(&mut columns, (&design * &w).map(f64::tanh), &volumes);
        errors[index] = (residuals.norm_squared() / TREES as f64).sqrt();
    }
    Ok((errors, objectives))
}

/// Fits networks by three methods, and prints means over the seeds.
pub fn run(gain: f64) -> Result<()> {
    let annealing = Annealing {
        chains: CHAINS,
        schedule: logarithmic(STEPS)?,
        gain,
    };
    let methods: [(&str, Seek<'_>); 3] = [
        ("annealed Gibbs", &|unit| {
            unit.annealed_gibbs(&annealing, DEVIATION)
        }),
        ("simulated annealing", &|unit| {
            unit.simulated_annealing(&annealing, StepSize::constant(1.0)?)
        }),
        ("gradient ascent", &|unit| {
            unit.ascent((CHAINS * STEPS) as f64, ASCENT, 1.0)
        }),
    ];
    println!(
        "{TREES} trees, {UNITS} units, {SEEDS} seeds, gain {gain}; mean over seeds after each unit"
    );
    for (name, seek) in methods {
        let begun = std::time::Instant::now();
        let (mut errors, mut first) = ([0.0; UNITS], 0.0);
        let mut worst: f64 = 0.0;
        for seed in 0..SEEDS {
            let (found, objectives) = fit(seek, seed)?;
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
