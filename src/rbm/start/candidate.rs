//! A base that the search tries, and what its pilot found.

use crate::Result;
use crate::ais::Run;
use crate::rbm::base_rate::BaseRate;
use crate::rbm::scalar::Scalar;

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
    pub(super) fn of(
        name: &str,
        base: BaseRate<T>,
        run: &Run<Vec<bool>>,
        confidence: f64,
    ) -> Result<Self> {
        let certified = run.certified_lower_bound(confidence)?;
        Ok(Self {
            name: name.to_owned(),
            base,
            stages: run.schedule().steps(),
            chains: run.chains(),
            log_z: run.log_z(),
            standard_error: run.standard_error(),
            effective_sample_size: run.effective_sample_size(),
            certified: certified.expect("a forward run has one"),
        })
    }

    /// Returns what log Z is at least by this pilot: so many errors below the estimate, which counts for no more than
    /// `reference`.
    pub(super) fn score(&self, reference: f64, errors: f64) -> f64 {
        self.log_z.min(reference) - errors * self.standard_error
    }
}

/// Returns the estimate of the pilot whose certified bound is highest: estimates above it may be the luck of a few chains.
pub(super) fn reference<T: Scalar>(candidates: &[Candidate<T>]) -> f64 {
    let surest = candidates
        .iter()
        .max_by(|one, other| one.certified.total_cmp(&other.certified));
    surest.map_or(f64::NEG_INFINITY, |candidate| candidate.log_z)
}

/// Errors below the estimates that are compared.
pub(super) const ERRORS: f64 = 3.0;
/// The same for the first base, which has the benefit of the doubt.
const ERRORS_OF_FIRST: f64 = 2.0;

/// Returns the index of the candidate of the highest score; of equal ones that of the first. Sharp modes serve to find
/// others and are not chosen: intermediate models gather at them and leave the rest out.
pub(super) fn best<T: Scalar>(candidates: &[Candidate<T>], reference: f64) -> usize {
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
pub(super) const MODES: &str = "modes";
