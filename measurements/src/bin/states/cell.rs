//! Laws of data with a known log Z of each state, one for each cell of the table.

use annealed::estimate::{Dependence, log_mean_exp, log_sum_exp};
use nalgebra::DMatrix;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Draws of all states, as `Mbar::from_labels` takes them.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) log_densities: DMatrix<f64>,
    pub(crate) labels: Vec<usize>,
    pub(crate) how: Dependence,
}

impl Table {
    /// Returns the distance of the estimates of log Z between the states below and from `first` on, from the draws of each
    /// of these groups alone, at the given log Z within the groups.
    pub(crate) fn one_sided_gap(&self, first: usize, log_z: &[f64]) -> f64 {
        let mut counts = vec![0.0_f64; log_z.len()];
        self.labels.iter().for_each(|state| counts[*state] += 1.0);
        let (counts, (draws, states)) = (&counts, self.log_densities.shape());
        let density = |second: bool, draw: usize| {
            let group = if second { first..states } else { 0..first };
            let total: f64 = counts[group.clone()].iter().sum();
            let term =
                |k: usize| (counts[k] / total).ln() - log_z[k] + self.log_densities[(draw, k)];
            log_sum_exp(group.map(term))
        };
        let estimate = |second: bool| {
            let own = (0..draws).filter(|draw| (self.labels[*draw] >= first) == second);
            let ratio = |draw| density(!second, draw) - density(second, draw);
            log_mean_exp(&Vec::from_iter(own.map(ratio)))
        };
        (estimate(false) + estimate(true)).abs()
    }
}

/// Draws a table anew.
type Draw = dyn Fn(&mut Xoshiro256PlusPlus) -> Table + Send + Sync;

/// A law of tables.
pub(crate) struct Cell {
    pub(crate) name: String,
    /// Exact log Z of each state.
    pub(crate) log_z: Vec<f64>,
    /// First state beyond a gap without overlap.
    pub(crate) gap: Option<usize>,
    pub(crate) draw: Box<Draw>,
}
