//! Harmoniums with Gaussian and categorical visible units, and with a kind of units from outside of the library.

mod bounds;
mod exact;
mod input;
mod runs;
mod training;

use annealed::harmonium::{CategoricalUnits, GaussianUnits, Harmonium};
use annealed::random::{Purpose, stream};
use nalgebra::{DMatrix, DVector, dvector};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::shared::lower_bound::{check_bound, log_sum};

/// Normal numbers of this deviation.
fn normal(rows: usize, columns: usize, deviation: f64, seed: u64) -> DMatrix<f64> {
    let mut rng = stream(seed, Purpose::DATA, 0);
    DMatrix::from_fn(rows, columns, |_, _| {
        deviation * rng.sample::<f64, _>(StandardNormal)
    })
}

fn column(rows: usize, deviation: f64, seed: u64) -> DVector<f64> {
    normal(rows, 1, deviation, seed).column(0).into_owned()
}

/// Two Gaussian units, and hidden ones that separate modes.
fn gaussian(hidden: usize) -> Harmonium<GaussianUnits> {
    let units = GaussianUnits::new(dvector![0.4, -0.7], dvector![0.8, 1.3]).unwrap();
    Harmonium::new(normal(hidden, 2, 1.5, 1), column(hidden, 1.0, 2), units).unwrap()
}

/// Three units of three categories.
fn categorical(hidden: usize) -> Harmonium<CategoricalUnits> {
    let units = CategoricalUnits::new(normal(3, 3, 0.7, 3)).unwrap();
    Harmonium::new(normal(hidden, 9, 1.5, 4), column(hidden, 1.0, 5), units).unwrap()
}

fn wide() -> GaussianUnits {
    GaussianUnits::new(dvector![0.2, 0.3], dvector![2.0, 2.5]).unwrap()
}

fn bits(count: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1_usize << count).map(move |state| (0..count).map(|k| state >> k & 1 == 1).collect())
}

/// All states of three units of three categories.
fn triples() -> impl Iterator<Item = Vec<usize>> {
    (0..27).map(|state| vec![state % 3, state / 3 % 3, state / 9])
}

fn biases_of(bias: &DVector<f64>, h: &[bool]) -> f64 {
    (0..h.len()).filter(|&j| h[j]).map(|j| bias[j]).sum()
}

fn assert_close(found: f64, expected: f64) {
    let error = (found - expected).abs();
    assert!(error < 1e-10 * (1.0 + expected.abs()), "{found} {expected}");
}
