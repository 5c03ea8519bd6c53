//! Checks of the targets themselves, and a short run of each.

use std::path::Path;

use annealed::nalgebra::{DMatrix, DVector};
use annealed::prelude::*;
use annealed::random::{Purpose, stream};
use annealed::{Error, Result};
use annealed_measurements::problems::motion;
use clap::ValueEnum;

use crate::named::{Name, Target};
use crate::recipe::Terms;
use crate::{called, seeds};

/// Largest relative error of a gradient.
const TOLERANCE: f64 = 1e-6;
/// Number of gradients in a short run.
const BUDGET: u64 = 40_000;
const CHAINS: usize = 16;

/// Checks and runs all targets. It skips and names the targets whose data are missing.
pub fn all(data: &Path) -> Result<()> {
    values()?;
    for &name in Name::value_variants() {
        let title = called(name);
        if let Some(file) = name.file(data).filter(|file| !file.is_file()) {
            println!(
                "{title}: skipped, as there is no {}; see --data",
                file.display()
            );
            continue;
        }
        let target = name.target(data)?;
        let error = target.gradient_error()?;
        println!("{title}: gradient within {error:.1e} of differences");
        demand(&title, "gradient", error, TOLERANCE)?;
        if name == Name::Lgcp {
            continue; // A run takes minutes without optimisation.
        }
        let found = target.run(Terms {
            budget: BUDGET,
            chains: Some(CHAINS),
            seed: 1,
            threads: 1,
        })?;
        println!("    {}", found.line(target.reference));
    }
    Ok(())
}

/// Compares the printed values of log Z with values from quadrature or in closed form.
fn values() -> Result<()> {
    let dir = Path::new("");
    // Noe et al. 2019 and Midgley et al. 2023 by quadrature; Feroz, Hobson and Bridges 2009, to two decimals; Li and
    // Wang 2018, whose constants are rounded.
    let value = |name: Name| name.target(dir).map(|target| target.reference);
    let printed = [
        ("brownian", motion::log_z(132), 1.187_749, 2e-6),
        ("seeds", seeds::log_z(60), seeds::LOG_Z, 2e-6),
        ("many-well", value(Name::ManyWell)?, 164.695_675, 1e-6),
        ("shells", value(Name::Shells)?, -60.13, 5e-3),
        ("ising", value(Name::Ising)?, 148.655_035, 5e-5),
    ];
    for (name, found, printed, tolerance) in printed {
        println!("{name}: log Z {found:.6}, printed {printed}");
        demand(name, "log Z", (found - printed).abs(), tolerance)?;
    }
    Ok(())
}

fn demand(name: &str, what: &str, error: f64, tolerance: f64) -> Result<()> {
    match error <= tolerance {
        true => Ok(()),
        false => Err(Error::invalid(
            "a target",
            format!("{name}: {what} off by {error:e}"),
            format!("at most {tolerance:e}"),
        )),
    }
}

impl Target {
    /// Returns the largest relative error of the slopes along some random directions, from one state at a time and
    /// from several at once, at states drawn from N(0, I).
    fn gradient_error(&self) -> Result<f64> {
        const STATES: usize = 3;
        let dimension = self.base.dimension(&*self.model);
        let normal = Gaussian::standard(dimension)?;
        let mut rng = stream(1, Purpose::TESTING, 0);
        let states: Vec<DVector<f64>> = (0..STATES).map(|_| normal.sample(&mut rng)).collect();
        let rows = DMatrix::from_fn(STATES, dimension, |i, j| states[i][j]);
        let (mut gradients, mut log_densities) = (DMatrix::zeros(STATES, dimension), [0.0; STATES]);
        self.model.accumulate_gradients(
            rows.as_view(),
            1.0,
            gradients.as_view_mut(),
            &mut log_densities,
        );
        let mut worst = 0.0f64;
        for (i, state) in states.iter().enumerate() {
            let direction = normal.sample(&mut rng).normalize();
            let step = 1e-5;
            let [above, below] =
                [step, -step].map(|step| self.model.log_density(&(state + &direction * step)));
            let slope = (above - below) / (2.0 * step);
            let (alone, together) = (self.model.gradient(state), gradients.row(i).transpose());
            let off = |found: f64| (found - slope).abs() / (1.0 + slope.abs());
            let value = self.model.log_density(state);
            let errors = [
                off(alone.dot(&direction)),
                off(together.dot(&direction)),
                (alone - together).amax() / (1.0 + slope.abs()),
                (value - log_densities[i]).abs() / (1.0 + value.abs()),
            ];
            worst = errors.into_iter().fold(worst, f64::max);
        }
        Ok(worst)
    }
}
