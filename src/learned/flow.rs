//! Learned transitions, one for each stage.

use nalgebra::DVector;

use crate::learned::noise::Noise;
use crate::learned::transition::{Family, Transition};
use crate::model::Sampleable;
use crate::path::AnnealingPath;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// T transitions `q_t(z_t | z_{t-1})` with reverse models `r_t(z_{t-1} | z_t)`, one for each stage of a schedule (Huang
/// et al. 2018). As a kernel, stage t adds to the log weight
///
/// `log f_t(z_t) + log r_t(z_{t-1}|z_t) - log f_{t-1}(z_{t-1}) - log q_t(z_t|z_{t-1})`.
///
/// Then `E[w] = Z_T / Z_0`, however good the training was. The mean log weight is the evidence lower bound less
/// `log Z_0`. For an [`InvertibleMap`](super::InvertibleMap) `log r_t - log q_t` is its `log |det J|` at `z_{t-1}`.
/// Densities along the path should be positive on all of `R^d`: mass that `r_t` puts outside the support of `f_{t-1}`
/// is lost. To add MCMC steps, run `Sequence(flow, kernel)` with a kernel that leaves `p_t` invariant.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::estimate::LogZ;
/// use annealed::learned::{LearnedTransitions, Mean};
/// use annealed::model::Gaussian;
/// use annealed::path::GeometricPath;
/// use annealed::schedule::Schedule;
/// use nalgebra::dvector;
///
/// let path = GeometricPath::new(
///     Gaussian::standard(2)?,
///     Gaussian::isotropic(dvector![1.0, -1.0], 0.8)?,
/// );
/// let flow = LearnedTransitions::new(Mean::Gated { hidden: 8 }, 2, 4, 1)?;
/// let run = Ais::new(&path, flow).schedule(Schedule::linear(4)?).run()?;
/// assert!(run.lower_bound() < run.log_z());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LearnedTransitions {
    pub(super) noise: Noise,
    pub(super) transitions: Vec<Transition>,
}

impl LearnedTransitions {
    /// Creates untrained transitions over `R^dimension`, one for each of `stages` stages. A [`Mean`](super::Mean) gives
    /// pairs of Gaussian densities with random weights, [`Family::Mixture`] gives mixtures of these densities, and a
    /// [`Coupling`](super::Coupling) gives invertible maps.
    ///
    /// # Errors
    /// No stages; a dimension of 0, or of 1 for a coupling; a lack of hidden units, components or bins; more than 2^30
    /// parameters.
    pub fn new(
        family: impl Into<Family>,
        dimension: usize,
        stages: usize,
        seed: u64,
    ) -> Result<Self> {
        Self::untrained(family.into(), dimension, 0, stages, seed)
    }

    pub(super) fn untrained(
        family: Family,
        dimension: usize,
        context: usize,
        stages: usize,
        seed: u64,
    ) -> Result<Self> {
        family.check_size(dimension, context, stages)?;
        let mut rng = stream(seed, Purpose::FLOW_WEIGHTS, 0);
        let transition = |_| family.untrained(dimension, context, &mut rng);
        Self::of_one_shape((0..stages).map(transition).collect::<Result<_>>()?)
    }

    /// Creates a kernel from `transitions`, one for each stage.
    ///
    /// # Errors
    /// No transitions; dimensions that differ; densities that need an observation too.
    pub fn from_transitions(transitions: Vec<Transition>) -> Result<Self> {
        let flow = Self::of_one_shape(transitions)?;
        Error::check_dimension("observation of the transitions", flow.context(), 0)?;
        Ok(flow)
    }

    pub(super) fn of_one_shape(transitions: Vec<Transition>) -> Result<Self> {
        Error::check_not_empty("transitions", transitions.len())?;
        let (dimension, context) = (transitions[0].dimension(), transitions[0].context());
        for transition in &transitions {
            transition.check()?;
            Error::check_dimension("transition", transition.dimension(), dimension)?;
            let found = transition.context();
            Error::check_dimension("observation of a transition", found, context)?;
        }
        let noise = Noise::default();
        Ok(Self { noise, transitions })
    }

    /// Sets the distribution of the noise that stochastic transitions add.
    ///
    /// # Errors
    /// Degrees of freedom of 0.
    pub fn with_noise(self, noise: Noise) -> Result<Self> {
        noise.check()?;
        Ok(Self { noise, ..self })
    }

    /// Returns the transitions for a fixed `observation`. The caller checks its length.
    pub(super) fn given(&self, observation: &[f64]) -> Self {
        let fixed = |t: &Transition| t.given(observation);
        Self {
            transitions: self.transitions.iter().map(fixed).collect(),
            noise: self.noise,
        }
    }

    /// Returns the transitions, in the order of the stages.
    pub fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// Returns the distribution of the noise that stochastic transitions add.
    pub fn noise(&self) -> Noise {
        self.noise
    }

    /// Returns the dimension d of the states.
    pub fn dimension(&self) -> usize {
        self.transitions[0].dimension()
    }

    /// Returns the length of the observation: 0 except in amortised transitions.
    pub(super) fn context(&self) -> usize {
        self.transitions[0].context()
    }

    pub(super) fn check_steps(&self, schedule: &Schedule) -> Result<()> {
        let (steps, stages) = (schedule.stages(), self.transitions.len());
        let expected = format!("{stages}, the number of learned transitions");
        Error::check(steps == stages, "steps of the schedule", steps, expected)
    }

    /// Draws a sample of the path's base, and refuses the path if the sample has another dimension.
    pub(super) fn check_base<P>(&self, path: &P, seed: u64) -> Result<()>
    where
        P: AnnealingPath<State = DVector<f64>>,
    {
        let sample = path.base().sample(&mut stream(seed, Purpose::PROBE, 0));
        Error::check_dimension("state of the base", sample.len(), self.dimension())
    }
}

crate::num::deserialize_checked! {
    LearnedTransitions { noise: Noise, transitions: Vec<Transition> } =>
        Self::from_transitions(transitions).and_then(|flow| flow.with_noise(noise))
}

/// Returns the fraction of the states that is nearest to each mode, in Euclidean distance. All states count the same.
/// To estimate the target's shares, weigh the states by [`expectation`](crate::estimate::WeightedSample::expectation).
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
