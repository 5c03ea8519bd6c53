//! The densities that unweighted chains track, with and without the drift modifier.

use std::path::Path;

use annealed::ais::Run;
use annealed::drift::DriftModifiedLangevin;
use annealed::kernel::UnadjustedLangevin;
use annealed_measurements::problems::bumps::{GRID, modifier, path};
use annealed_plot::{Chart, save_column};
use nalgebra::DVector;

use crate::run;

const EPS: f64 = 0.02;
const PARTICLES: usize = 10_000;
const BIN: f64 = 0.1;
const REACH: f64 = 5.0;

pub fn draw(folder: &Path) -> annealed::Result<()> {
    let charts: annealed::Result<Vec<Chart>> = [2.0, 4.0, 8.0].map(chart).into_iter().collect();
    save_column(&charts?, folder.join("adaptive-densities.svg"))
}

/// Charts one gain. The gain rises by EPS a stage, so that this run is the beginning of any longer one.
fn chart(gain: f64) -> annealed::Result<Chart> {
    let path = path(1, gain)?;
    let steps = (gain / EPS).round() as usize;
    let modified = DriftModifiedLangevin::new(modifier(gain, steps)?, EPS)?;
    let adaptive = run(&path, modified, steps, PARTICLES)?;
    let naive = run(&path, UnadjustedLangevin::new(EPS)?, steps, PARTICLES)?;
    let nodes = (0..GRID.points).map(|i| GRID.node(i)).zip(GRID.exact(gain));
    let exact = nodes.filter(|(w, _)| w.abs() < REACH);
    Ok(Chart::new(&format!("Gain {gain}"), "w", "density")
        .line("exact", exact)
        .histogram("adaptive", (-REACH, REACH), &densities(&adaptive))
        .histogram("naive", (-REACH, REACH), &densities(&naive)))
}

/// Returns the density of the unweighted particles in each bin.
fn densities(run: &Run<DVector<f64>>) -> Vec<f64> {
    let bins = (2.0 * REACH / BIN).round() as usize;
    let mut counts = vec![0_u32; bins];
    for state in run.states() {
        let bin = ((state[0] + REACH) / BIN).floor();
        if (0.0..bins as f64).contains(&bin) {
            counts[bin as usize] += 1;
        }
    }
    let density = |&count: &u32| f64::from(count) / (PARTICLES as f64 * BIN);
    counts.iter().map(density).collect()
}
