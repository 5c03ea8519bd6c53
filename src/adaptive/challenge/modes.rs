//! Modes of a target: where chains end, and where climbs lead from draws that the known modes do not explain.

use nalgebra::DVector;

use super::climbs::tops;
use super::proposal::{Target, Trails};
use super::vectors::{fits, laplace};
use crate::model::{Gaussian, Sampleable, UnnormalizedModel};
use crate::num::log_sum_exp;

/// Most modes.
const MOST: usize = 16;
/// Drop in log density on the line between two states that parts their modes.
const DROP: f64 = 1.0;
/// Number of searches, each of which knows the modes of those before.
const SEARCHES: usize = 3;
/// Factor of the covariance with which states around a mode are drawn.
const WIDE: f64 = 4.0;
/// Draws around modes for each draw of the base.
const AROUND: usize = 3;
/// Most local optima of a search that are compared with the modes.
const TOPS: usize = 200;
/// Share of the evaluations left that Laplace's approximations may take at a time.
const LAPLACE: u64 = 8;

/// A mode, by the best state found there, the chains that end there, and Gaussians around it.
pub(super) struct Mode {
    best: DVector<f64>,
    log_density: f64,
    chains: Vec<usize>,
    /// Laplace's approximation where there is one, and fits to the chains, from the highest power down.
    pub(super) gaussians: Vec<Gaussian>,
}

/// Returns the modes where the chains end, and those to which climbs lead.
pub(super) fn modes(trails: &Trails<DVector<f64>>, target: &Target<'_, DVector<f64>>) -> Vec<Mode> {
    let mut modes = Vec::new();
    let ends = trails.ends().iter().enumerate();
    let mut ends: Vec<_> = ends
        .map(|(chain, end)| Mode::new(target.log_density(end), end.clone(), vec![chain]))
        .collect();
    ends.sort_by(|a, b| b.log_density.total_cmp(&a.log_density));
    ends.into_iter()
        .for_each(|end| add(&mut modes, end, target));
    fit(&mut modes, trails, target);
    let each = trails.draws().len().div_ceil(SEARCHES).max(1);
    for draws in trails.draws().chunks(each) {
        let starts = unexplained(&modes, draws, target);
        let found = tops(starts, target, 2 * draws.len() as u64).into_iter();
        for (log_density, top) in found.take(TOPS) {
            add(&mut modes, Mode::new(log_density, top, Vec::new()), target);
        }
        fit(&mut modes, trails, target);
    }
    modes
}

/// Adds what is near to no mode, and joins its chains to the mode that it is near to.
fn add(modes: &mut Vec<Mode>, new: Mode, target: &Target<'_, DVector<f64>>) {
    if new.log_density == f64::NEG_INFINITY {
        return;
    }
    match modes.iter().position(|mode| mode.is_near(&new, target)) {
        Some(mode) => modes[mode].chains.extend(new.chains),
        None if modes.len() < MOST => modes.push(new),
        None => {}
    }
}

/// Puts Gaussians around the modes that have none.
fn fit(modes: &mut [Mode], trails: &Trails<DVector<f64>>, target: &Target<'_, DVector<f64>>) {
    let all = modes.len() as u64;
    for mode in modes.iter_mut().filter(|mode| mode.gaussians.is_empty()) {
        let fits = fits(trails, &mode.chains);
        let share = target.left() / (LAPLACE * all);
        let laplace = laplace(&mode.best, fits.first(), target, share);
        mode.gaussians = laplace.into_iter().chain(fits).collect();
    }
}

/// Returns draws of the base and others around the modes, with their log densities: those first whose density is most
/// above what the Gaussians around the modes explain.
fn unexplained(
    modes: &[Mode],
    draws: &[DVector<f64>],
    target: &Target<'_, DVector<f64>>,
) -> Vec<(f64, DVector<f64>)> {
    let known = modes.iter().filter_map(|mode| mode.gaussians.first());
    let wide: Vec<Gaussian> = known.filter_map(|known| known.scaled(WIDE).ok()).collect();
    let mut states = draws.to_vec();
    let each = AROUND * draws.len() / wide.len().max(1);
    let rng = &mut *target.rng.borrow_mut();
    for wide in &wide {
        states.extend((0..each).map(|_| wide.sample(rng)));
    }
    let mut rated: Vec<(f64, f64, DVector<f64>)> = states
        .into_iter()
        .map(|state| {
            let log_density = target.log_density(&state);
            let explained = modes.iter().filter_map(|mode| mode.explained(&state));
            let explained = log_sum_exp(explained).max(f64::MIN);
            (log_density - explained, log_density, state)
        })
        .collect();
    rated.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    let rated = rated.into_iter();
    rated.map(|(_, density, state)| (density, state)).collect()
}

impl Mode {
    fn new(log_density: f64, best: DVector<f64>, chains: Vec<usize>) -> Self {
        Self {
            best,
            log_density,
            chains,
            gaussians: Vec::new(),
        }
    }

    /// Returns the log density at a state if the mode is a Gaussian; `None` where no Gaussian is known.
    fn explained(&self, state: &DVector<f64>) -> Option<f64> {
        let known = self.gaussians.first()?;
        let below = known.log_density(known.mean()) - known.log_density(state);
        Some(self.log_density - below)
    }

    /// Returns whether the density does not drop on the line from a lower mode to this one.
    fn is_near(&self, lower: &Self, target: &Target<'_, DVector<f64>>) -> bool {
        let between = |share: f64| &lower.best * (1.0 - share) + &self.best * share;
        [0.5, 0.25, 0.75]
            .into_iter()
            .all(|share| target.log_density(&between(share)) >= lower.log_density - DROP)
    }
}
