//! Counts over seeds: how many intervals of a cell hold, and which warnings appear.

use std::collections::BTreeMap;

use annealed::Result;
use annealed::estimate::{LogZ, Mbar, Warning};
use annealed_measurements::problems::seeds::over_seeds;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::cell::Cell;

/// Differences of two states, counted. *Silent* ones have no warning.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) all: usize,
    pub(crate) silent: usize,
    /// Silent 95% intervals that contain the exact difference.
    pub(crate) held: usize,
    /// Silent differences that are wrong by more than four standard errors.
    pub(crate) far: usize,
    /// Sum of squared errors over standard errors, of silent differences.
    squares: f64,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.silent += other.silent;
        self.held += other.held;
        self.far += other.far;
        self.squares += other.squares;
    }

    /// Returns the root mean square of errors over standard errors.
    pub(crate) fn ratio(&self) -> f64 {
        (self.squares / self.silent as f64).sqrt()
    }

    fn of(found: &dyn LogZ, exact: f64) -> Self {
        let is_silent = found.warnings().is_empty();
        let (lower, upper) = found.interval();
        // An error of 0 counts as a tiny one, because files of counts have no infinities.
        let off = (found.log_z() - exact) / found.standard_error().max(1e-9);
        Self {
            all: 1,
            silent: usize::from(is_silent),
            held: usize::from(is_silent && lower <= exact && exact <= upper),
            far: usize::from(is_silent && off.abs() > 4.0),
            squares: if is_silent { off * off } else { 0.0 },
        }
    }
}

/// The counts of a cell.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) name: String,
    pub(crate) seeds: u64,
    /// Differences of neighbours, and of the last state and the first one.
    pub(crate) near: Count,
    /// Differences of the last state and the first one.
    pub(crate) ends: Count,
    /// Differences that cross the gap.
    pub(crate) crossing: Count,
    /// Least standard error of a difference that crosses the gap, over the one-sided gap.
    pub(crate) least: Option<f64>,
    /// Warnings of neighbours and ends.
    pub(crate) names: BTreeMap<String, usize>,
}

impl Tally {
    /// Runs all seeds of a cell.
    pub(crate) fn of(cell: &Cell, seeds: u64) -> Result<Self> {
        let mut tally = Self {
            name: cell.name.clone(),
            seeds,
            ..Self::default()
        };
        let all = over_seeds(seeds, |seed| Self::of_seed(cell, seed))?;
        all.iter().for_each(|one| tally.add(one));
        Ok(tally)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.near.add(&other.near);
        self.ends.add(&other.ends);
        self.crossing.add(&other.crossing);
        let least = [self.least, other.least].into_iter().flatten();
        self.least = least.min_by(f64::total_cmp);
        for (name, count) in &other.names {
            *self.names.entry(name.clone()).or_default() += count;
        }
    }

    fn of_seed(cell: &Cell, seed: u64) -> Result<Self> {
        let table = (cell.draw)(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let (log_f, labels) = (table.log_densities.clone(), table.labels.clone());
        let mbar = Mbar::from_labels(log_f, labels, table.how.clone())?;
        let (mut tally, last) = (Self::default(), cell.log_z.len() - 1);
        let pairs = (1..=last).map(|state| (state, state - 1));
        for (i, j) in pairs.chain([(last, 0)]) {
            let found = mbar.difference(i, j)?;
            let count = Count::of(&found, cell.log_z[i] - cell.log_z[j]);
            tally.near.add(&count);
            if (i, j) == (last, 0) {
                tally.ends.add(&count);
            }
            for warning in found.warnings() {
                let name = match warning {
                    Warning::InState { warning, .. } => warning.name(),
                    other => other.name(),
                };
                *tally.names.entry(name).or_default() += 1;
            }
        }
        if let Some(first) = cell.gap {
            let gap = table.one_sided_gap(first, &mbar.log_z());
            for (i, j) in (first..=last).flat_map(|i| (0..first).map(move |j| (i, j))) {
                let found = mbar.difference(i, j)?;
                let exact = cell.log_z[i] - cell.log_z[j];
                tally.crossing.add(&Count::of(&found, exact));
                let ratio = found.standard_error() / gap;
                tally.least = Some(tally.least.map_or(ratio, |least| least.min(ratio)));
            }
        }
        Ok(tally)
    }
}
