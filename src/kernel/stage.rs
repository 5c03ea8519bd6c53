//! A stage of a schedule, and a kernel's report of a move there.

use std::ops::Range;

use crate::Error;
use crate::model::UnnormalizedModel;
use crate::path::Intermediate;

/// One stage of a schedule, from the model that a chain leaves to the model that it reaches.
#[derive(Debug)]
pub struct Stage<'m, M> {
    /// Index k of the stage, 1 to K: from `beta_{k-1}` to `beta_k`. One more is counted if a run moves from a surrogate of the
    /// target to the target.
    pub index: usize,
    /// `beta_k`, for parameters that vary along the path, such as a step size.
    pub beta: f64,
    /// The model left, `f_{k-1}`.
    pub previous: &'m M,
    /// The model reached, `f_k`, at which the kernel moves.
    pub model: &'m M,
}

crate::num::copy! { for ['a, M] Stage<'a, M> }

impl<'m, M: Intermediate> Stage<'m, M> {
    /// Creates stage `index` from one intermediate model to the next.
    pub fn new(index: usize, previous: &'m M, model: &'m M) -> Self {
        Self {
            index,
            beta: model.beta(),
            previous,
            model,
        }
    }

    /// Returns the stage at rest, for chains that are weighed already: both of its ends are the model reached.
    #[must_use]
    pub fn rest(self) -> Self {
        Self {
            previous: self.model,
            ..self
        }
    }

    /// Returns whether both ends are the same model.
    pub fn is_at_rest(&self) -> bool {
        std::ptr::eq(self.previous, self.model)
    }

    /// Returns the path's part of the log weight, `log f_k(x) - log f_{k-1}(x)`. At rest it is 0, without evaluation.
    pub fn log_ratio(&self, state: &M::State) -> f64 {
        if self.is_at_rest() {
            0.0
        } else {
            self.model.log_ratio(self.previous, state)
        }
    }
}

/// A kernel's report on one move of one chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// `log f_k(x') - log f_k(x) + log B_k(x|x') - log F_k(x'|x)`; 0 if F is invariant and B its reversal.
    pub correction: f64,
    /// Accept-reject decisions of the step, and its moves without one.
    pub decisions: Decisions,
    /// Weight of a backward move that forward chains hardly ever make; see
    /// [`with_backward_move`](Self::with_backward_move).
    pub missed: f64,
}

/// Gain in log weight above which a move counts as missed: at most one forward chain in `e^10` makes it.
const UNSEEN: f64 = 10.0;

/// Counts of accept-reject decisions, and of moves without one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decisions {
    /// Number of proposals.
    pub proposals: u64,
    /// Expected number of accepted proposals, the sum of their acceptance probabilities.
    pub accepted: f64,
    /// Number of moves made without a decision, such as Gibbs draws.
    pub undecided: u64,
}

impl Decisions {
    /// Returns the mean acceptance probability of a proposal; `None` without proposals.
    pub fn acceptance(&self) -> Option<f64> {
        (self.proposals > 0).then(|| self.accepted / self.proposals as f64)
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            proposals: self.proposals.saturating_sub(earlier.proposals),
            accepted: self.accepted - earlier.accepted,
            undecided: self.undecided.saturating_sub(earlier.undecided),
        }
    }
}

/// Counts saturate, since a damaged file may hold any count.
impl std::ops::AddAssign for Decisions {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.proposals = self.proposals.saturating_add(more.proposals);
        self.accepted += more.accepted;
        self.undecided = self.undecided.saturating_add(more.undecided);
    }
}

impl Step {
    /// Creates the step of an invariant kernel that makes no accept-reject decision.
    pub const fn invariant() -> Self {
        Self::corrected(0.0)
    }

    /// Creates the step of a kernel that is not invariant, with its correction.
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

    pub(crate) fn unmoved() -> Self {
        Self {
            decisions: Decisions::default(),
            ..Self::invariant()
        }
    }

    /// Creates a Metropolis-Hastings step whose proposal had this acceptance probability.
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

    /// Records a draw y of the backward kernel `B_k(y|x)` at the state x before the move. `log_weight` is the log
    /// importance weight of y, and `gain` the correction of the forward move from y to x.
    ///
    /// A kernel that does not leave `p_k` invariant should call this. Hardly any forward chain makes a move with a gain
    /// above 10. If moves with a gain above 10 carry a large share of the mean weight, the run warns
    /// ([`Warning::MissingMass`](crate::estimate::Warning::MissingMass)). A kernel that is its own backward kernel
    /// passes its own proposal, with 0 as `log_weight` and minus the correction as `gain`.
    #[must_use]
    pub fn with_backward_move(mut self, log_weight: f64, gain: f64) -> Self {
        if gain > UNSEEN {
            self.missed = log_weight.exp();
        }
        self
    }

    /// Returns this step followed by another at the same model: corrections and decisions add up.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        self.correction += next.correction;
        self.decisions += next.decisions;
        self.missed += next.missed;
        self
    }
}

/// The effect of one stage on one chain: the path's part and the kernel's part of the log weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Increment {
    /// `log f_k(x) - log f_{k-1}(x)` at the state before the move.
    pub log_ratio: f64,
    /// Increment of the log weight: `log_ratio + step.correction`, or computed as a whole if the sum would be
    /// `-inf + inf`.
    pub log_weight: f64,
    /// The kernel's report.
    pub step: Step,
}

impl Increment {
    /// Creates the sum of the path's part and the kernel's correction.
    pub fn new(log_ratio: f64, step: Step) -> Self {
        Self {
            log_ratio,
            log_weight: log_ratio + step.correction,
            step,
        }
    }
}

/// A NaN or an infinity that a kernel met. The block turns it into an [`Error::NonFinite`] with chain, stage and beta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NonFinite {
    /// Name of the quantity, such as "log density of the proposal".
    pub quantity: &'static str,
    /// The value found.
    pub value: f64,
    /// Description of the acceptable values.
    pub expected: &'static str,
    /// Index and value of the state's largest coordinate by absolute value; `None` without coordinates.
    pub largest: Option<(usize, f64)>,
}

impl NonFinite {
    /// Creates a report that `quantity` is `value` instead of `expected`.
    pub const fn new(quantity: &'static str, value: f64, expected: &'static str) -> Self {
        Self {
            quantity,
            value,
            expected,
            largest: None,
        }
    }

    /// Returns the report with the state's largest coordinate by absolute value.
    #[cold]
    #[must_use]
    pub fn at_state(self, coordinates: &[f64]) -> Self {
        let coordinates = coordinates.iter().copied().enumerate();
        let largest = coordinates.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
        Self { largest, ..self }
    }

    /// Returns the value unless it is NaN or `+inf`.
    ///
    /// # Errors
    /// If the value is NaN or `+inf`.
    #[inline]
    pub fn check_log_density(quantity: &'static str, value: f64) -> Result<f64, Self> {
        if value < f64::INFINITY {
            Ok(value)
        } else {
            Err(Self::new(quantity, value, "a number below +inf"))
        }
    }

    /// Returns this error with its place (chain, stage, beta). If the model has failed, returns the model's failure
    /// instead, with the `chains` that move together.
    pub(crate) fn of_model(
        self,
        model: &(impl UnnormalizedModel + ?Sized),
        (chain, stage, beta): (usize, usize, f64),
        chains: Range<usize>,
    ) -> Error {
        match model.failure() {
            None => self.at(chain, stage, beta),
            Some(source) => Error::Model {
                source,
                chains,
                stage,
                beta,
            },
        }
    }

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
