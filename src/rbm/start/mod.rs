//! Search for a base from which annealing finds the mass of an RBM.

mod pool;
mod search;

use std::fmt::{self, Display, Formatter};

use crate::ais::Run;
use crate::estimate::Warning;
use crate::num::largest;
use crate::rbm::{BaseRate, LogZBound, Rbm, Scalar};
use crate::{Error, Result};

pub use search::StartSearch;

/// The base chosen by a [`StartSearch`](super::StartSearch), and the bases tried. The feature `serde` can save it, so
/// that parts of a run and later runs start from the same base.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Start<T: Scalar = f32> {
    /// Hash of the RBM's parameters.
    machine: u64,
    chosen: usize,
    candidates: Vec<Candidate<T>>,
    bound: LogZBound,
    seconds: f64,
}

impl<T: Scalar> Start<T> {
    /// Returns the chosen base.
    pub fn base(&self) -> &BaseRate<T> {
        &self.candidates[self.chosen].base
    }

    /// Returns the index of the chosen base among the [`candidates`](Self::candidates).
    pub fn chosen(&self) -> usize {
        self.chosen
    }

    /// Returns the bases tried, in the order of their pilots.
    pub fn candidates(&self) -> &[Candidate<T>] {
        &self.candidates
    }

    /// Returns the certain lower bound on log Z, with the mean-field modes found.
    pub fn bound(&self) -> &LogZBound {
        &self.bound
    }

    /// Returns the duration of the search, in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Checks by a hash of the parameters that the search was for `rbm`.
    ///
    /// # Errors
    /// Another RBM.
    pub fn check(&self, rbm: &Rbm<T>) -> Result<()> {
        let found = "that of an RBM with other parameters";
        let expected = "the start of a search for this RBM";
        Error::check(hash(rbm) == self.machine, "start", found, expected)
    }

    /// Returns the reasons to doubt a run: a certain or certified bound above its interval, unless the run warns of
    /// one; and [`Warning::WeakSearch`] where no pilot had an effective sample size above 16.
    pub fn warnings_of<S, R>(&self, run: &Run<S, R>) -> Vec<Warning> {
        let is_bound = |warning: &Warning| matches!(warning, Warning::BelowBound { .. });
        let is_told = run.warnings().iter().any(is_bound);
        let certified = largest(self.candidates.iter().map(|candidate| candidate.certified));
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

    fn weakness(&self) -> Option<Warning> {
        let sizes = self.candidates.iter().map(|one| one.effective_sample_size);
        let ess = sizes.fold(0.0, f64::max);
        let least = self.candidates.iter().map(|one| one.chains).min()?;
        (ess <= FEW.min(0.5 * least as f64)).then_some(Warning::WeakSearch { ess })
    }

    /// Returns the candidates that miss mass or need more stages. Their estimates lie more than 0.1, and more than
    /// three standard errors, below the certain bound or below the estimate with the highest certified bound, whose error
    /// then counts too.
    pub fn too_low(&self) -> Vec<&Candidate<T>> {
        let reference = reference(&self.candidates);
        let surest = self
            .candidates
            .iter()
            .find(|candidate| candidate.log_z == reference);
        let error = surest.map_or(0.0, |candidate| candidate.standard_error);
        let is_low = |candidate: &&Candidate<T>| {
            let below = |value: f64, error| value - candidate.log_z > 0.1_f64.max(3.0 * error);
            let own = candidate.standard_error;
            below(reference, own.hypot(error)) || below(self.bound.value, own)
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

/// Joint confidence of the certified bounds of all candidates.
const CONFIDENCE: f64 = 0.95;
/// Largest effective sample size of the best pilot at which the search is weak.
const FEW: f64 = 16.0;

/// A table with a line per candidate, marked if [too low](Start::too_low), and the certain bound.
impl<T: Scalar> Display for Start<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "starts, by pilots (* chosen):")?;
        writeln!(
            f,
            "  base         components   stages chains      log Z  error   ESS   log Z >="
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

/// A base tried by a [`StartSearch`](super::StartSearch), with the results of its pilot.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(bound(deserialize = "T: Scalar + serde::Deserialize<'de>"))
)]
#[non_exhaustive]
pub struct Candidate<T: Scalar = f32> {
    /// Kind of base: `base rates`, `mean field`, `fair coins`, `modes`, `refitted` or `mixture`.
    pub name: String,
    /// The base.
    pub base: BaseRate<T>,
    /// Number of stages of the pilot.
    pub stages: usize,
    /// Number of chains of the pilot.
    pub chains: usize,
    /// The pilot's estimate of log Z.
    pub log_z: f64,
    /// Standard error of the estimate.
    pub standard_error: f64,
    /// Effective sample size of the pilot, a count.
    pub effective_sample_size: f64,
    /// Lower bound on log Z; the bounds of all candidates hold at once with 95%.
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

    /// Returns the smaller of the estimate and `reference`, less `errors` standard errors.
    fn score(&self, reference: f64, errors: f64) -> f64 {
        self.log_z.min(reference) - errors * self.standard_error
    }
}

/// Returns the estimate with the highest certified bound; estimates above it may be the luck of a few chains.
fn reference<T: Scalar>(candidates: &[Candidate<T>]) -> f64 {
    let surest = candidates
        .iter()
        .max_by(|one, other| one.certified.total_cmp(&other.certified));
    surest.map_or(f64::NEG_INFINITY, |candidate| candidate.log_z)
}

/// Standard errors subtracted from the estimates that are compared.
const ERRORS: f64 = 3.0;
/// Standard errors subtracted for the first base, which has the benefit of the doubt.
const ERRORS_OF_FIRST: f64 = 2.0;

/// Returns the index of the candidate with the highest score, the first among equals. The base of modes is never
/// chosen: intermediate models gather at its sharp modes and leave the rest out.
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

const MODES: &str = "modes";
