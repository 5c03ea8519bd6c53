//! Diagnostics of a trained flow: its samples after each transition, and the modes that they reach.

use nalgebra::DVector;

use crate::learned::flow::LearnedTransitions;
use crate::learned::minibatch::Minibatch;
use crate::path::AnnealingPath;
use crate::random::{Purpose, stream};
use crate::{Error, Result};

impl LearnedTransitions {
    /// Unweighted samples along the flow: entry t holds `z_t` of each of `count` trajectories,
    /// from `z_0`, drawn from the base, to `z_T`. Weighted samples, with ELBO and log Z, come from a
    /// run ([`Ais`](crate::ais::Ais)).
    ///
    /// # Errors
    /// No samples, or more than 2^30; a base of another dimension.
    pub fn samples<P>(&self, path: &P, count: usize, seed: u64) -> Result<Vec<Vec<DVector<f64>>>>
    where
        P: AnnealingPath<State = DVector<f64>>,
    {
        Error::check_count("count", count, 1)?;
        self.check_base(path, seed)?;
        let mut batch = Minibatch::new(self, count);
        let mut rng = stream(seed, Purpose::Evaluation, 0);
        batch.draw(std::slice::from_ref(path), self.noise, &mut rng);
        batch.follow(self);
        Ok((0..=self.transitions.len())
            .map(|t| batch.states_at(t).collect())
            .collect())
    }
}

/// The fraction of the states that is nearest to each mode, in Euclidean distance.
///
/// All states count the same. The states of a run therefore give the shares of the flow, not those of
/// the target, which are weighted means ([`Run::expectation`](crate::ais::Run::expectation)).
///
/// # Errors
/// No states or no modes; dimensions that differ; a coordinate that is not finite.
///
/// ```
/// use annealed::learned::mode_occupancy;
/// use nalgebra::dvector;
///
/// let modes = [dvector![-4.0], dvector![4.0]];
/// let states = [dvector![3.0], dvector![5.0], dvector![-4.5], dvector![2.0]];
/// assert_eq!(mode_occupancy(&states, &modes)?, [0.25, 0.75]);
/// # Ok::<(), annealed::Error>(())
/// ```
pub fn mode_occupancy(states: &[DVector<f64>], modes: &[DVector<f64>]) -> Result<Vec<f64>> {
    Error::check_not_empty("states", states.len())?;
    Error::check_not_empty("modes", modes.len())?;
    for point in states.iter().chain(modes) {
        Error::check_dimension("state or mode", point.len(), modes[0].len())?;
        Error::check_finite("state or mode", point.iter().copied())?;
    }
    let mut counts = vec![0_usize; modes.len()];
    for state in states {
        let distances = modes.iter().map(|mode| (state - mode).norm_squared());
        let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        counts[nearest.map_or(0, |(index, _)| index)] += 1;
    }
    let share = |count| count as f64 / states.len() as f64;
    Ok(counts.into_iter().map(share).collect())
}
