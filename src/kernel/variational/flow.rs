//! A sequence of learned transitions, run as a kernel.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::conditional::{ConditionalGaussian, Mean, Pass};
use crate::ais::{Block, Purpose, stream};
use crate::error::{Error, Result};
use crate::kernel::{Increment, NonFinite, Stage, Step, TransitionKernel};
use crate::model::UnnormalizedModel;
use crate::path::Intermediate;
use crate::schedule::Schedule;

/// One learned transition: `q_t(z'|z)` forward and `r_t(z|z')` backward.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    pub(super) forward: ConditionalGaussian,
    pub(super) backward: ConditionalGaussian,
}

impl Transition {
    /// From its two densities.
    ///
    /// # Errors
    /// Dimensions that differ.
    pub fn new(forward: ConditionalGaussian, backward: ConditionalGaussian) -> Result<Self> {
        let (found, expected) = (backward.dimension(), forward.dimension());
        Error::check_dimension("backward density", found, expected)?;
        Ok(Self { forward, backward })
    }

    /// `q_t(z_t | z_{t-1})`.
    pub fn forward(&self) -> &ConditionalGaussian {
        &self.forward
    }

    /// `r_t(z_{t-1} | z_t)`.
    pub fn backward(&self) -> &ConditionalGaussian {
        &self.backward
    }

    fn dimension(&self) -> usize {
        self.forward.dimension()
    }
}

/// T transitions `q_t(z_t | z_{t-1})` with reverse models `r_t(z_{t-1} | z_t)`, one for each stage
/// of a schedule of T steps (Huang et al. 2018). As a kernel, stage t adds
///
/// `log f_t(z_t) + log r_t(z_{t-1}|z_t) - log f_{t-1}(z_{t-1}) - log q_t(z_t|z_{t-1})`
///
/// to the log weight, so that `E[w] = Z_T / Z_0` whatever the training achieved, or without any.
/// The mean of the log weight is the evidence lower bound less `log Z_0`. A transition may be
/// followed by a kernel that leaves `p_t` invariant: `Then(flow, kernel)`.
///
/// The densities along the path should be positive on all of `R^d`: what `r_t` puts outside of the
/// support of `f_{t-1}` is lost, and `E[w]` falls short of `Z_T / Z_0` by it. Running it panics
/// where the states do not have its dimension.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::kernel::variational::{LearnedTransitions, Mean};
/// use annealed::model::Gaussian;
/// use annealed::{path::GeometricPath, schedule::Schedule};
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(
        try_from = "Vec<(ConditionalGaussian, ConditionalGaussian)>",
        into = "Vec<(ConditionalGaussian, ConditionalGaussian)>"
    )
)]
pub struct LearnedTransitions {
    pub(super) transitions: Vec<Transition>,
}

impl LearnedTransitions {
    /// Untrained transitions over `R^dimension`, one for each of `stages` stages, with random
    /// weights from the seed.
    ///
    /// # Errors
    /// No stages; a dimension of 0; no hidden units where the mean has some.
    pub fn new(mean: Mean, dimension: usize, stages: usize, seed: u64) -> Result<Self> {
        let mut rng = stream(seed, Purpose::Training, 1);
        let transition = |_| {
            let forward = ConditionalGaussian::new(mean, dimension, &mut rng)?;
            Transition::new(
                forward,
                ConditionalGaussian::new(mean, dimension, &mut rng)?,
            )
        };
        Self::from_transitions((0..stages).map(transition).collect::<Result<_>>()?)
    }

    /// From transitions already made.
    ///
    /// # Errors
    /// No transitions; dimensions that differ.
    pub fn from_transitions(transitions: Vec<Transition>) -> Result<Self> {
        let Some(first) = transitions.first() else {
            return Err(Error::invalid("transitions", 0, "at least 1"));
        };
        for transition in &transitions {
            let (found, expected) = (transition.dimension(), first.dimension());
            Error::check_dimension("transition", found, expected)?;
        }
        Ok(Self { transitions })
    }

    /// The transitions, first stage first.
    pub fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// Dimension d of the states.
    pub fn dimension(&self) -> usize {
        self.transitions[0].dimension()
    }

    pub(super) fn check_steps(&self, schedule: &Schedule) -> Result<()> {
        let (steps, stages) = (schedule.steps(), self.transitions.len());
        if steps == stages {
            return Ok(());
        }
        let expected = format!("{stages}, the number of learned transitions");
        Err(Error::invalid("steps of the schedule", steps, expected))
    }

    /// Proposals for all chains in the workspace, whose `states` and `noise` are set.
    ///
    /// A stage beyond the last transition, which `check_schedule` refuses, panics.
    fn propose(&self, index: usize, workspace: &mut FlowWorkspace) {
        let Transition { forward, backward } = &self.transitions[index - 1];
        let FlowWorkspace {
            states,
            noise,
            proposals,
            forward: q,
            backward: r,
        } = workspace;
        forward.forward(states, q);
        displace(proposals, q, noise);
        backward.forward(proposals, r);
    }
}

/// `z' = mu + sigma eps`.
pub(super) fn displace(proposals: &mut DMatrix<f64>, q: &Pass, noise: &DMatrix<f64>) {
    proposals.clone_from(&q.means);
    for (k, proposal) in proposals.iter_mut().enumerate() {
        *proposal += q.log_deviations[k].exp() * noise[k];
    }
}

/// States, noise, proposals and densities of the chains of a block, one column each.
#[derive(Debug, Clone)]
pub struct FlowWorkspace {
    states: DMatrix<f64>,
    noise: DMatrix<f64>,
    proposals: DMatrix<f64>,
    forward: Pass,
    backward: Pass,
}

impl Default for FlowWorkspace {
    fn default() -> Self {
        let empty = || DMatrix::zeros(0, 0);
        Self {
            states: empty(),
            noise: empty(),
            proposals: empty(),
            forward: Pass::default(),
            backward: Pass::default(),
        }
    }
}

impl FlowWorkspace {
    fn set_size(&mut self, dimension: usize, size: usize) {
        if self.states.shape() != (dimension, size) {
            self.states = DMatrix::zeros(dimension, size);
            self.noise = DMatrix::zeros(dimension, size);
        }
    }

    /// Takes a chain's state and draws its noise.
    fn load<R: Rng + ?Sized>(&mut self, column: usize, state: &DVector<f64>, rng: &mut R) {
        self.states.set_column(column, state);
        for noise in self.noise.column_mut(column).iter_mut() {
            *noise = rng.sample(StandardNormal);
        }
    }

    /// Moves a chain to its proposal and returns `log r - log q`; leaves the old state in the
    /// workspace.
    fn unload(&self, column: usize, state: &mut DVector<f64>) -> Result<f64, NonFinite> {
        state.copy_from(&self.proposals.column(column));
        if let Some(&value) = state.iter().find(|x| !x.is_finite()) {
            return Err(NonFinite {
                quantity: "proposal of a learned transition",
                value,
                expected: "finite coordinates",
            });
        }
        let log_forward = self.forward.log_density(column, state.as_slice());
        let left = self.states.column(column);
        let log_backward = self.backward.log_density(column, left.as_slice());
        Ok(log_backward - log_forward)
    }
}

impl LearnedTransitions {
    /// One chain by itself: the move and `log r - log q`.
    fn propose_one<R: Rng + ?Sized>(
        &self,
        index: usize,
        state: &mut DVector<f64>,
        workspace: &mut FlowWorkspace,
        rng: &mut R,
    ) -> Result<f64, NonFinite> {
        workspace.set_size(self.dimension(), 1);
        workspace.load(0, state, rng);
        self.propose(index, workspace);
        workspace.unload(0, state)
    }
}

/// What was known of a chain before its move.
struct Departure {
    log_ratio: f64,
    log_density: f64,
}

impl Departure {
    fn new<M: Intermediate>(stage: &Stage<M>, state: &M::State) -> Result<Self, NonFinite> {
        let log_density = stage.previous.log_density(state);
        Ok(Self {
            log_ratio: NonFinite::check_log_density("log ratio", stage.log_ratio(state))?,
            log_density: NonFinite::check_log_density("log density", log_density)?,
        })
    }

    /// The whole increment, computed at once: no support that shrinks makes it `-inf + inf`.
    fn increment(self, arrival: f64, backward_over_forward: f64) -> Result<Increment, NonFinite> {
        let arrival = NonFinite::check_log_density("log density of the proposal", arrival)?;
        let log_weight = arrival + backward_over_forward - self.log_density;
        Ok(Increment {
            log_ratio: self.log_ratio,
            log_weight,
            step: Step::corrected(log_weight - self.log_ratio),
        })
    }
}

impl<M: UnnormalizedModel<State = DVector<f64>>> TransitionKernel<M> for LearnedTransitions {
    type Workspace = FlowWorkspace;

    /// A chain off the support of `f_k` has weight 0 already, and stays.
    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        _chain: usize,
        state: &mut DVector<f64>,
        workspace: &mut FlowWorkspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let here = NonFinite::check_log_density("log density", stage.model.log_density(state))?;
        if here == f64::NEG_INFINITY {
            return Ok(Step::corrected(0.0));
        }
        let backward_over_forward = self.propose_one(stage.index, state, workspace, rng)?;
        let there = stage.model.log_density(state);
        let there = NonFinite::check_log_density("log density of the proposal", there)?;
        Ok(Step::corrected(there - here + backward_over_forward))
    }

    fn increment<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        _chain: usize,
        state: &mut DVector<f64>,
        workspace: &mut FlowWorkspace,
        rng: &mut R,
    ) -> Result<Increment, NonFinite>
    where
        M: Intermediate,
    {
        let departure = Departure::new(stage, state)?;
        let backward_over_forward = self.propose_one(stage.index, state, workspace, rng)?;
        departure.increment(stage.model.log_density(state), backward_over_forward)
    }

    fn advance(
        &self,
        stage: &Stage<M>,
        block: &mut Block<DVector<f64>>,
        workspace: &mut FlowWorkspace,
    ) -> Result<()>
    where
        M: Intermediate,
    {
        let alive: Vec<usize> = (0..block.len()).filter(|&i| block.is_alive(i)).collect();
        workspace.set_size(self.dimension(), alive.len());
        for (column, &chain) in alive.iter().enumerate() {
            let (state, rng) = block.chain_mut(chain);
            workspace.load(column, state, rng);
        }
        self.propose(stage.index, workspace);
        for (column, &chain) in alive.iter().enumerate() {
            let (state, _) = block.chain_mut(chain);
            let increment = Departure::new(stage, state).and_then(|departure| {
                let backward_over_forward = workspace.unload(column, state)?;
                departure.increment(stage.model.log_density(state), backward_over_forward)
            });
            block.add(stage, chain, increment)?;
        }
        Ok(())
    }

    fn check_schedule(&self, schedule: &Schedule) -> Result<()> {
        self.check_steps(schedule)
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Vec<(ConditionalGaussian, ConditionalGaussian)>> for LearnedTransitions {
    type Error = Error;

    fn try_from(pairs: Vec<(ConditionalGaussian, ConditionalGaussian)>) -> Result<Self> {
        let transitions = pairs.into_iter().map(|(q, r)| Transition::new(q, r));
        Self::from_transitions(transitions.collect::<Result<_>>()?)
    }
}

#[cfg(feature = "serde")]
impl From<LearnedTransitions> for Vec<(ConditionalGaussian, ConditionalGaussian)> {
    fn from(flow: LearnedTransitions) -> Self {
        let transitions = flow.transitions.into_iter();
        transitions.map(|t| (t.forward, t.backward)).collect()
    }
}
