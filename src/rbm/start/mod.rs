//! The search for a base from which annealing to an RBM finds its mass.

mod pool;
mod search;

use std::fmt::{self, Display, Formatter};

use crate::ais::Run;
use crate::estimate::Warning;
use crate::rbm::{BaseRate, LogZBound, Rbm, Scalar};
use crate::{Error, Result};

pub use search::StartSearch;

/// The base that a [`StartSearch`](super::StartSearch) chose, and the bases that it tried.
///
/// With the feature `serde` it can be saved, so that parts of a run and later runs start from the same base.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Start<T: Scalar = f32> {
    /// A hash of the parameters of the RBM.
    machine: u64,
    chosen: usize,
    candidates: Vec<Candidate<T>>,
    bound: LogZBound,
    seconds: f64,
}

impl<T: Scalar> Start<T> {
    /// Returns the base to start from.
    pub fn base(&self) -> &BaseRate<T> {
        &self.candidates[self.chosen].base
    }

    /// Returns the candidate that was chosen, by its index among the [`candidates`](Self::candidates).
    pub fn chosen(&self) -> usize {
        self.chosen
    }

    /// Returns the bases that were tried, in the order of their pilots.
    pub fn candidates(&self) -> &[Candidate<T>] {
        &self.candidates
    }

    /// Returns the lower bound on log Z that is certain, with the modes that the search started from.
    pub fn bound(&self) -> &LogZBound {
        &self.bound
    }

    /// Returns the seconds that the search took.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Refuses an RBM with other parameters than the one that the search was for.
    ///
    /// # Errors
    /// Another RBM.
    pub fn check(&self, rbm: &Rbm<T>) -> Result<()> {
        let found = "that of an RBM with other parameters";
        let expected = "the start of a search for this RBM";
        Error::check(hash(rbm) == self.machine, "start", found, expected)
    }

    /// Returns the reasons to doubt a run from this start: the certain bound or the highest certified bound of a candidate,
    /// where it exceeds the upper end of the interval and the run does not warn of a bound itself; and
    /// [`Warning::WeakSearch`] where no pilot had an effective sample size above 16.
    pub fn warnings_of<S, R>(&self, run: &Run<S, R>) -> Vec<Warning> {
        let is_bound = |warning: &Warning| matches!(warning, Warning::BelowBound { .. });
        let is_told = run.warnings().iter().any(is_bound);
        let certified = self.candidates.iter().map(|candidate| candidate.certified);
        let certified = certified.fold(f64::NEG_INFINITY, f64::max);
        let (bound, confidence) = match self.bound.value >= certified {
            true => (self.bound.value, 1.0),
            false => (certified, CONFIDENCE),
        };
        let below = Warning::below_bound(bound, confidence, run.interval().1);
        below
            .filter(|_| !is_told)
            .into_iter()
            .chain(self.weakness())
            .collect()
    }

    /// Warns where no pilot has enough effective samples to tell what it missed.
    fn weakness(&self) -> Option<Warning> {
        let sizes = self.candidates.iter().map(|one| one.effective_sample_size);
        let ess = sizes.fold(0.0, f64::max);
        let least = self.candidates.iter().map(|one| one.chains).min()?;
        (ess <= FEW.min(0.5 * least as f64)).then_some(Warning::WeakSearch { ess })
    }

    /// Returns the candidates whose estimates lie below that of the surest by more than three errors of both, and by more
    /// than .1.
    ///
    /// They miss mass, or need more stages.
    pub fn too_low(&self) -> Vec<&Candidate<T>> {
        let reference = reference(&self.candidates);
        let surest = self
            .candidates
            .iter()
            .find(|candidate| candidate.log_z == reference);
        let error = surest.map_or(0.0, |candidate| candidate.standard_error);
        let is_low = |candidate: &&Candidate<T>| {
            let joint = candidate.standard_error.hypot(error);
            reference - candidate.log_z > 0.1_f64.max(3.0 * joint)
        };
        self.candidates.iter().filter(is_low).collect()
    }
}

crate::num::deserialize_checked! {
    Start<T: Scalar> {
        machine: u64,
        chosen: usize,
        candidates: Vec<Candidate<T>>,
        bound: LogZBound,
        seconds: f64,
    } => {
        let expected = format!("an index below {}", candidates.len());
        Error::check(chosen < candidates.len(), "chosen", chosen, expected)
            .map(|()| Self { machine, chosen, candidates, bound, seconds })
    }
}

/// The FNV-1a hash of the parameters.
fn hash<T: Scalar>(rbm: &Rbm<T>) -> u64 {
    let biases = rbm.hidden_bias().iter().chain(rbm.visible_bias());
    let parameters = rbm.weights().iter().chain(biases);
    parameters.fold(0xcbf2_9ce4_8422_2325, |hash, parameter| {
        let bits: f64 = parameter.as_();
        let bytes = bits.to_bits().to_le_bytes().into_iter();
        bytes.fold(hash, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    })
}

/// The confidence of the certified bounds of all candidates together.
const CONFIDENCE: f64 = 0.95;
/// Effective samples of the best pilot of a search that may have missed much, at most.
const FEW: f64 = 16.0;

/// A table: a line for each candidate, which says where it is [too low](Start::too_low), and the bound that is certain.
impl<T: Scalar> Display for Start<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "starts, by pilots (* chosen):")?;
        let header = [
            "base",
            "components",
            "stages",
            "chains",
            "log Z",
            "error",
            "ESS",
            "log Z >=",
        ];
        let [base, components, stages, chains, log_z, error, ess, bound] = header;
        writeln!(
            f,
            "  {base:<12} {components:>10} {stages:>8} {chains:>6} {log_z:>10} {error:>6} {ess:>5} {bound:>10}"
        )?;
        let too_low = self.too_low();
        for (index, candidate) in self.candidates.iter().enumerate() {
            let is_low = too_low.iter().any(|low| std::ptr::eq(*low, candidate));
            writeln!(
                f,
                "{} {:<12} {:>10} {:>8} {:>6} {:>10.3} {:>6.3} {:>5.0} {:>10.3}{}",
                if index == self.chosen { '*' } else { ' ' },
                candidate.name,
                candidate.base.components().len(),
                candidate.stages,
                candidate.chains,
                candidate.log_z,
                candidate.standard_error,
                candidate.effective_sample_size,
                candidate.certified,
                if is_low { "  too low" } else { "" },
            )?;
        }
        writeln!(
            f,
            "  log Z >= {:.3} for certain; the bounds in the table hold together with 95%",
            self.bound.value
        )
    }
}

/// A base that a [`StartSearch`](super::StartSearch) tried, with the figures of its pilot.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(bound(deserialize = "T: Scalar + serde::Deserialize<'de>"))
)]
#[non_exhaustive]
pub struct Candidate<T: Scalar = f32> {
    /// The kind of base: `base rates`, `mean field`, `fair coins`, `modes`, `refitted` or `mixture`.
    pub name: String,
    /// The base.
    pub base: BaseRate<T>,
    /// Number of stages of the pilot.
    pub stages: usize,
    /// Number of chains of the pilot.
    pub chains: usize,
    /// The pilot's estimate of log Z.
    pub log_z: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Its effective sample size, a count.
    pub effective_sample_size: f64,
    /// A lower bound on log Z that holds with 95% for all candidates at once.
    pub certified: f64,
}

impl<T: Scalar> Candidate<T> {
    fn of(name: &str, base: BaseRate<T>, run: &Run<Vec<bool>>, confidence: f64) -> Result<Self> {
        let certified = run.certified_lower_bound(confidence)?;
        Ok(Self {
            name: name.to_owned(),
            base,
            stages: run.schedule().stages(),
            chains: run.chains(),
            log_z: run.log_z(),
            standard_error: run.standard_error(),
            effective_sample_size: run.effective_sample_size(),
            certified: certified.expect("a forward run has one"),
        })
    }

    /// Returns what log Z is at least by this pilot: so many errors below the estimate, which counts for no more than
    /// `reference`.
    fn score(&self, reference: f64, errors: f64) -> f64 {
        self.log_z.min(reference) - errors * self.standard_error
    }
}

/// Returns the estimate of the pilot whose certified bound is highest: estimates above it may be the luck of a few chains.
fn reference<T: Scalar>(candidates: &[Candidate<T>]) -> f64 {
    let surest = candidates
        .iter()
        .max_by(|one, other| one.certified.total_cmp(&other.certified));
    surest.map_or(f64::NEG_INFINITY, |candidate| candidate.log_z)
}

/// Errors below the estimates that are compared.
const ERRORS: f64 = 3.0;
/// The same for the first base, which has the benefit of the doubt.
const ERRORS_OF_FIRST: f64 = 2.0;

/// Returns the index of the candidate of the highest score; of equal ones that of the first. Sharp modes serve to find
/// others and are not chosen: intermediate models gather at them and leave the rest out.
fn best<T: Scalar>(candidates: &[Candidate<T>], reference: f64) -> usize {
    let mut chosen = (0, candidates[0].score(reference, ERRORS_OF_FIRST));
    for (index, candidate) in candidates.iter().enumerate().skip(1) {
        let score = candidate.score(reference, ERRORS);
        if candidate.name != MODES && score > chosen.1 {
            chosen = (index, score);
        }
    }
    chosen.0
}

/// The name of the base of modes.
const MODES: &str = "modes";
