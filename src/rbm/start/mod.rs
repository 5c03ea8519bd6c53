//! Search for a base from which annealing finds the mass of an RBM.

mod pool;
mod search;
mod shares;

use std::fmt::{self, Display, Formatter};

use crate::ais::Run;
use crate::estimate::{LogZ, Warning};
use crate::num::{exceeds, largest};
use crate::rbm::components::ComponentWeights;
use crate::rbm::{BaseRate, LogZBound, Rbm, RbmPath, Scalar};
use crate::{Error, Result};

pub use search::StartSearch;

/// The base found by a [`StartSearch`](super::StartSearch), and the bases tried. With the feature `serde` a start can
/// be saved, to use the same base in all parts of a run and in later runs.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Start<T: Scalar = f32> {
    /// Hash of the RBM's parameters.
    machine: u64,
    base: BaseRate<T>,
    /// Weights of the base's components along the path; `None` means the geometric path.
    weights: Option<ComponentWeights>,
    candidates: Vec<Candidate<T>>,
    bound: LogZBound,
    seconds: f64,
}

impl<T: Scalar> Start<T> {
    /// Returns the base of the run: a mixture of all bases that found mass.
    pub fn base(&self) -> &BaseRate<T> {
        &self.base
    }

    pub(crate) fn weights(&self) -> Option<&ComponentWeights> {
        self.weights.as_ref()
    }

    /// Returns the bases tried, in the order of their pilots.
    pub fn candidates(&self) -> &[Candidate<T>] {
        &self.candidates
    }

    /// Returns the lower bound on log Z, which is certain to hold, with the mean-field modes found.
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
    /// If it was for another RBM.
    pub fn check(&self, rbm: &Rbm<T>) -> Result<()> {
        let found = "the start of an RBM with other parameters";
        let expected = "a start that was found for this RBM";
        Error::check(hash(rbm) == self.machine, "start", found, expected)
    }

    /// Creates the straight path from the [base](Self::base) to `rbm`, the machine of the search. Runs along it also
    /// give the warnings of the search.
    ///
    /// Component weights keep the shares of the mixed bases all along the path. They are computed from log Z at the
    /// pilots' stages. Without these weights ([`RbmPath::new`]) intermediate models gather around some of the bases,
    /// and the effective sample size may fall to a half or a third.
    ///
    /// # Errors
    /// If `rbm` has other parameters than the machine of the search.
    pub fn path(&self, rbm: Rbm<T>) -> Result<RbmPath<T>> {
        RbmPath::new(self.base.clone(), rbm)?.with_start(self)
    }

    /// Returns the warnings of the search about a run that did not follow a path of this start. Leaves out a warning if
    /// the run itself has one of the same kind.
    pub fn warnings_of<S, R>(&self, run: &Run<S, R>) -> Vec<Warning> {
        let is_new = |warning: &Warning| {
            run.warnings()
                .iter()
                .all(|told| told.name() != warning.name())
        };
        let mut doubts = self.doubts(Some(self.bound.value), run.interval());
        doubts.retain(is_new);
        doubts
    }

    /// Returns warnings about an interval: a bound above it, a pilot above it, or too few effective chains in all
    /// pilots. The bound is the highest certified bound or, if higher, `certain`, a bound that holds with certainty.
    pub(crate) fn doubts(&self, certain: Option<f64>, interval: (f64, f64)) -> Vec<Warning> {
        let certified = largest(self.candidates.iter().map(|candidate| candidate.certified));
        let (bound, confidence) = match certain {
            Some(certain) if certain >= certified => (certain, 1.0),
            _ => (certified, BOUNDS_CONFIDENCE),
        };
        let below = Warning::below_bound(bound, confidence, interval.1);
        let others = [self.higher_pilot(interval.1), self.weakness()];
        below
            .into_iter()
            .chain(others.into_iter().flatten())
            .collect()
    }

    /// Warns of the pilot whose log Z lies the farthest above an interval that ends at `upper`.
    fn higher_pilot(&self, upper: f64) -> Option<Warning> {
        let sure = self.candidates.iter().filter(|one| one.is_sure());
        let highest = sure.max_by(|one, other| one.lower().total_cmp(&other.lower()))?;
        exceeds(highest.lower(), upper).then_some(Warning::HigherPilot {
            pilot: highest.log_z,
            standard_error: highest.standard_error,
            upper,
        })
    }

    fn weakness(&self) -> Option<Warning> {
        let reference = reference(&self.candidates, &self.bound);
        let sizes = self.candidates.iter().map(|one| one.effective(reference));
        let ess = sizes.fold(0.0, f64::max);
        (ess <= WEAK_ESS).then_some(Warning::WeakSearch { ess })
    }

    /// Returns the candidates that miss mass or need more stages. Their estimates lie more than 0.1, and more than
    /// three standard errors, below the certain bound or below the estimate with the highest certified bound. In the
    /// second case the error of that estimate is included.
    pub fn too_low(&self) -> Vec<&Candidate<T>> {
        let surest = surest(&self.candidates).map(|one| (one.log_z, one.standard_error));
        let (reference, error) = surest.unwrap_or((f64::NEG_INFINITY, 0.0));
        let is_low = |candidate: &&Candidate<T>| {
            let below =
                |value: f64, error| value - candidate.log_z > LEAST_GAP.max(CLEAR_ERRORS * error);
            let own = candidate.standard_error;
            below(reference, own.hypot(error)) || below(self.bound.value, own)
        };
        self.candidates.iter().filter(is_low).collect()
    }
}

crate::num::deserialize_checked! {
    Start<T: Scalar> {
        machine: u64,
        base: BaseRate<T>,
        weights: Option<ComponentWeights>,
        candidates: Vec<Candidate<T>>,
        bound: LogZBound,
        seconds: f64,
    } => Self { machine, base, weights, candidates, bound, seconds }.checked()
}

impl<T: Scalar> Start<T> {
    #[cfg(feature = "serde")]
    fn checked(self) -> Result<Self> {
        let components = self.base.components().len();
        let weights = self.weights.as_ref();
        let fit = weights.is_none_or(|weights| weights.fit(components));
        let expected = format!("finite ones of {components} components");
        Error::check(fit, "weights of a start", "others", expected)?;
        Ok(self)
    }
}

fn hash<T: Scalar>(rbm: &Rbm<T>) -> u64 {
    let biases = rbm.hidden_bias().iter().chain(rbm.visible_bias());
    let parameters = rbm.weights().iter().chain(biases);
    // FNV-1a over little-endian bytes: saved starts need a hash that is the same on all machines and in all versions.
    parameters.fold(0xcbf2_9ce4_8422_2325, |hash, parameter| {
        let bits: f64 = parameter.as_();
        let bytes = bits.to_bits().to_le_bytes().into_iter();
        bytes.fold(hash, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    })
}

/// Joint confidence of the certified bounds of all candidates: the level of the intervals that results print.
const BOUNDS_CONFIDENCE: f64 = 0.95;
/// Largest number of effective chains of the best pilot at which a search is weak; a pilot with a part p of all mass
/// counts p times its chains. In the tables of `docs/notes/bases.md` it warns in all 18 runs of two machines whose
/// pilots fail, and in 6 of 2,062 others.
const WEAK_ESS: f64 = 20.0;
/// Number of standard errors by which a pilot must lie above an interval, or below the known mass, to be significant.
/// Normal errors exceed three on one side in one of 740 cases.
const CLEAR_ERRORS: f64 = 3.0;
/// Smallest effective sample size at which a pilot's standard error is trusted: a mean of 10 weights is known to a
/// third. Pilots with 1 to 8 mislead on `rbm_mnist_500` (`docs/notes/bases.md`).
const SURE_ESS: f64 = 10.0;
/// Distance in nats beyond which an estimate counts as wrong, as in all tables of `docs/notes`.
const LEAST_GAP: f64 = 0.1;

/// Writes a table with a line per candidate, marked if [too low](Start::too_low), and the certain bound.
impl<T: Scalar> Display for Start<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "starts, by pilots, and their shares in the run's start:")?;
        writeln!(
            f,
            "  base         components   stages chains      log Z  error   ESS   log Z >=  share"
        )?;
        let too_low = self.too_low();
        for candidate in &self.candidates {
            let is_low = too_low.iter().any(|low| std::ptr::eq(*low, candidate));
            writeln!(
                f,
                "  {:<12} {:>10} {:>8} {:>6} {:>10.3} {:>6.3} {:>5.0} {:>10.3} {:>6}{}",
                candidate.name,
                candidate.base.components().len(),
                candidate.stages,
                candidate.chains,
                candidate.log_z,
                candidate.standard_error,
                candidate.effective_sample_size,
                candidate.certified,
                match candidate.share {
                    0.0 => "-".to_owned(),
                    share => format!("{:.0}%", 100.0 * share),
                },
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
    /// Kind of base: `base rates`, `mean field`, `fair coins`, `modes`, `refitted`, `mixture` or `all of these`.
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
    /// Lower bound on log Z; the bounds of all candidates hold jointly with probability 95%.
    pub certified: f64,
    /// Share of the base in the [mixture](Start::base) of the run; 0 if it found no mass, or is the mixture itself. A
    /// fitted base is fitted once more for the mixture.
    pub share: f64,
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
            share: 0.0,
        })
    }

    fn upper(&self) -> f64 {
        self.log_z + CLEAR_ERRORS * self.standard_error
    }

    fn lower(&self) -> f64 {
        self.log_z - CLEAR_ERRORS * self.standard_error
    }

    /// Returns whether the pilot's standard error can be trusted.
    fn is_sure(&self) -> bool {
        self.effective_sample_size >= SURE_ESS
    }

    /// Returns the pilot's effective sample size times the part that it found of the mass `exp(reference)`.
    fn effective(&self, reference: f64) -> f64 {
        self.effective_sample_size * (self.log_z - reference).min(0.0).exp()
    }
}

/// Number of intervals between the betas at which depths of a path are computed: about as many as the shortest pilot
/// has stages at K = 1,000. Fewer would let shares drift along the path, without a bias.
const DEPTH_INTERVALS: usize = 128;

/// Returns how far a run's log Z lies below the chord between beta = 0 and 1, at equally spaced betas.
fn depths_of(run: &Run<Vec<bool>>) -> Vec<f64> {
    let last = run.log_z_ratio();
    let stages = run
        .stages()
        .iter()
        .map(|stage| (stage.beta, stage.log_z_ratio));
    let known = Vec::from_iter([(0.0, 0.0)].into_iter().chain(stages));
    let depth = |interval: usize| {
        let beta = interval as f64 / DEPTH_INTERVALS as f64;
        let after = known.partition_point(|(known, _)| *known <= beta);
        let [before, after] = [after - 1, after].map(|place| known[place.min(known.len() - 1)]);
        // At beta = 1 both places are the last one, and the divisor would be 0.
        let rest = (beta - before.0) / (after.0 - before.0).max(f64::MIN_POSITIVE);
        beta * last - (1.0 - rest) * before.1 - rest * after.1
    };
    (0..=DEPTH_INTERVALS).map(depth).collect()
}

/// Returns the candidate with the highest certified bound; estimates above its own may be the luck of a few chains.
fn surest<T: Scalar>(candidates: &[Candidate<T>]) -> Option<&Candidate<T>> {
    let candidates = candidates.iter();
    candidates.max_by(|one, other| one.certified.total_cmp(&other.certified))
}

/// Returns the log Z to compare pilots with: the estimate of the [`surest`] one, or `bound` if higher.
fn reference<T: Scalar>(candidates: &[Candidate<T>], bound: &LogZBound) -> f64 {
    surest(candidates).map_or(bound.value, |one| one.log_z.max(bound.value))
}
