//! A stage, from the model that a chain leaves to the model that it reaches, and what a kernel reports of a move there.

use crate::Error;
use crate::path::Intermediate;

/// One stage of a schedule, from the model that a chain leaves to the model that it reaches.
#[derive(Debug)]
pub struct Stage<'m, M> {
    /// Index k of the stage, 1 to K: from `beta_{k-1}` to `beta_k`.
    pub index: usize,
    /// `beta_k`, for parameters that vary along the path, such as a step size.
    pub beta: f64,
    /// The model left, `f_{k-1}`.
    pub previous: &'m M,
    /// The model reached, `f_k`: the one that the kernel works on.
    pub model: &'m M,
}

impl<M> Clone for Stage<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Stage<'_, M> {}

impl<'m, M: Intermediate> Stage<'m, M> {
    /// Stage `index` from one intermediate model to the next.
    pub fn new(index: usize, previous: &'m M, model: &'m M) -> Self {
        Self {
            index,
            beta: model.beta(),
            previous,
            model,
        }
    }

    /// The same stage for a chain that has reached the model already: it moves there once more and
    /// is not weighed again.
    #[must_use]
    pub fn rest(self) -> Self {
        Self {
            previous: self.model,
            ..self
        }
    }

    /// Whether the model is the same one at both ends.
    pub fn is_at_rest(&self) -> bool {
        std::ptr::eq(self.previous, self.model)
    }

    /// The path's part of the log weight, `log f_k(x) - log f_{k-1}(x)`. At rest it is 0, and no
    /// density is evaluated.
    pub fn log_ratio(&self, state: &M::State) -> f64 {
        if self.is_at_rest() {
            0.0
        } else {
            self.model.log_ratio(self.previous, state)
        }
    }
}

/// The report of a kernel on one move of one chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// `log f_k(x') - log f_k(x) + log B_k(x|x') - log F_k(x'|x)`; 0 where the kernel leaves
    /// `p_k` invariant and B is its reversal.
    pub correction: f64,
    /// The accept-reject decisions of the step, and its moves that needed none.
    pub decisions: Decisions,
    /// The weight of a backward move whose way back the run does not see; see
    /// [`with_backward_move`](Self::with_backward_move).
    pub missed: f64,
}

/// A chain whose move raises its log weight by more than this is one of `e^10`, or 22,000.
const UNSEEN: f64 = 10.0;

/// Accept-reject decisions, counted, and beside them the moves that needed none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decisions {
    /// Number of proposals.
    pub proposals: u64,
    /// Expected number of those accepted: the sum of their acceptance probabilities, which has less
    /// variance than the count of outcomes.
    pub accepted: f64,
    /// Number of moves made without a decision, as those of Gibbs sampling.
    pub undecided: u64,
}

impl Decisions {
    /// The acceptance: the mean acceptance probability of a proposal. `None` without proposals.
    pub fn acceptance(&self) -> Option<f64> {
        (self.proposals > 0).then(|| self.accepted / self.proposals as f64)
    }

    /// Decisions made since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            proposals: self.proposals.saturating_sub(earlier.proposals),
            accepted: self.accepted - earlier.accepted,
            undecided: self.undecided.saturating_sub(earlier.undecided),
        }
    }
}

/// Counts saturate, which only those of a damaged file can make them do.
impl std::ops::AddAssign for Decisions {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.proposals = self.proposals.saturating_add(more.proposals);
        self.accepted += more.accepted;
        self.undecided = self.undecided.saturating_add(more.undecided);
    }
}

impl Step {
    /// A step of an invariant kernel without accept-reject decisions.
    pub const fn invariant() -> Self {
        Self::corrected(0.0)
    }

    /// A step of a kernel that is not invariant, with its correction.
    pub const fn corrected(correction: f64) -> Self {
        Self {
            correction,
            decisions: Decisions {
                proposals: 0,
                accepted: 0.0,
                undecided: 1,
            },
            missed: 0.0,
        }
    }

    /// No move: the chain is weighed and stays where it is.
    pub(crate) fn unmoved() -> Self {
        Self {
            decisions: Decisions::default(),
            ..Self::invariant()
        }
    }

    /// A Metropolis-Hastings step whose proposal had this acceptance probability.
    pub const fn metropolis(acceptance: f64) -> Self {
        Self {
            correction: 0.0,
            decisions: Decisions {
                proposals: 1,
                accepted: acceptance,
                undecided: 0,
            },
            missed: 0.0,
        }
    }

    /// With a draw y of the backward kernel `B_k(y|x)` at the state x before the move, of importance weight
    /// `exp(log_weight)`, and with the correction `gain` that the forward move from y to x would have.
    ///
    /// Under `x ~ p_k` the forward moves of a gain above g hold the share `P(gain > g)` of the mean weight,
    /// while at most one chain in `e^g` makes one. Where backward moves have gains above 10, that share of
    /// log Z is missing from the estimate, and the run warns
    /// ([`Warning::MissingMass`](crate::estimate::Warning::MissingMass)). A kernel that does not leave `p_k`
    /// invariant should report it. One that is its own backward kernel has drawn y already: it is the
    /// proposal, its weight is 1 and its gain minus the correction.
    #[must_use]
    pub fn with_backward_move(mut self, log_weight: f64, gain: f64) -> Self {
        if gain > UNSEEN {
            self.missed = log_weight.exp();
        }
        self
    }

    /// This step followed by another at the same model: corrections and decisions add.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        self.correction += next.correction;
        self.decisions += next.decisions;
        self.missed += next.missed;
        self
    }
}

/// What one stage does to one chain: the path's part and the kernel's part of the log weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Increment {
    /// `log f_k(x) - log f_{k-1}(x)` at the state before the move.
    pub log_ratio: f64,
    /// What is added to the log weight: `log_ratio + step.correction`, unless the kernel had to
    /// compute the whole at once (a support that shrinks makes it `-inf + inf`).
    pub log_weight: f64,
    /// What the kernel reported.
    pub step: Step,
}

impl Increment {
    /// The sum of the path's part and the kernel's correction.
    pub fn new(log_ratio: f64, step: Step) -> Self {
        Self {
            log_ratio,
            log_weight: log_ratio + step.correction,
            step,
        }
    }
}

/// A NaN or an infinity that a kernel met.
///
/// It becomes an [`Error::NonFinite`] where chain, stage and beta are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NonFinite {
    /// What was being computed, such as "log density of the proposal".
    pub quantity: &'static str,
    /// The value found.
    pub value: f64,
    /// What would have been accepted.
    pub expected: &'static str,
    /// Of the state where it was met the coordinate of the largest absolute value, with its index, where states have
    /// coordinates.
    pub largest: Option<(usize, f64)>,
}

impl NonFinite {
    /// This value of a quantity, where another was expected.
    pub const fn new(quantity: &'static str, value: f64, expected: &'static str) -> Self {
        Self {
            quantity,
            value,
            expected,
            largest: None,
        }
    }

    /// As met at a state of these coordinates, the largest of which the error names.
    #[cold]
    #[must_use]
    pub fn at_state(self, coordinates: &[f64]) -> Self {
        let coordinates = coordinates.iter().copied().enumerate();
        let largest = coordinates.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
        Self { largest, ..self }
    }

    /// Passes a log density on unless it is NaN or `+inf`.
    ///
    /// # Errors
    /// For NaN and `+inf`.
    #[inline]
    pub fn check_log_density(quantity: &'static str, value: f64) -> Result<f64, Self> {
        if value < f64::INFINITY {
            Ok(value)
        } else {
            Err(Self::new(quantity, value, "a number below +inf"))
        }
    }

    /// The error that says where it was met.
    pub(crate) fn at(self, chain: usize, stage: usize, beta: f64) -> Error {
        Error::NonFinite {
            quantity: self.quantity,
            value: self.value,
            expected: self.expected,
            largest: self.largest,
            chain,
            stage,
            beta,
        }
    }
}
