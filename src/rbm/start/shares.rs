//! Shares of the bases in the mixture from which a run starts.

use crate::num::{exceeds, largest};
use crate::rbm::start::reference;
use crate::rbm::{Candidate, LogZBound, Scalar};

/// Extra share of each base, on top of the shares by effective chains, which sum to 1. Chains in a mode that only one
/// base reaches weigh at most 26 to 30 times the mean; .02 is no better (`docs/notes/bases.md`).
const EXTRA_SHARE: f64 = 0.04;
/// Log of a pilot's part of the known mass, 1%, below which its base counts as having found none. A part of 1% of Z is
/// .01 nats of log Z, a tenth of the error that counts as wrong.
const LEAST_LOG_MASS: f64 = -4.6;
/// Largest number of components of a broad base: one of its own, and the first base mixed in. Other bases are sharp.
const BROAD_COMPONENTS: usize = 2;
/// Effective chains of the pilot of all bases, relative to the best base's, below which sharp bases may be removed. The
/// ratio is .05 on cd1-500 (8 of 160), where they hinder, and .8 on cd1-20 (370 of 449).
const LEAST_ESS_OF_ALL: f64 = 0.4;
/// Difference of log Z, in standard errors, above which the pilot of all bases has found more mass than the best base:
/// two, as for 95% intervals. A mistake only decides whether sharp bases stay.
const MORE_ERRORS: f64 = 2.0;
/// Effective chains that a sharp base needs to stay in the mixture, relative to the best broad base. It counts only if
/// the mixture of all has few effective chains.
const LEAST_SHARP_ESS: f64 = 0.5;

/// Sets the shares of `candidates` by their [effective](Candidate::effective) chains; 0 if a base found no mass. The base with the highest
/// estimate gets a share even if a bound lies far above it. A base gets no extra share if its effective chains are few
/// and its estimate, with its errors, is below the known mass.
pub(super) fn set_by_pilots<T: Scalar>(candidates: &mut [Candidate<T>], bound: &LogZBound) {
    let highest = largest(candidates.iter().map(|one| one.log_z));
    let reference = reference(candidates, bound).min(highest);
    let found = |one: &Candidate<T>| match one.upper() - reference > LEAST_LOG_MASS {
        true => one.effective(reference),
        false => 0.0,
    };
    let total: f64 = candidates.iter().map(found).sum();
    let share = |one: &Candidate<T>| {
        let is_witness = one.is_sure() || !exceeds(reference, one.upper());
        match found(one) {
            0.0 => 0.0,
            found if is_witness => found / total + EXTRA_SHARE,
            found => found / total,
        }
    };
    let shares = Vec::from_iter(candidates.iter().map(share));
    let sum: f64 = shares.iter().sum();
    for (one, share) in candidates.iter_mut().zip(shares) {
        one.share = share / sum;
    }
}

/// Returns the base whose pilot has the most effective chains.
fn most_effective<'c, T: Scalar>(
    candidates: impl Iterator<Item = &'c Candidate<T>>,
    reference: f64,
) -> &'c Candidate<T> {
    let effective = |one: &Candidate<T>| one.effective(reference);
    let most = candidates.max_by(|a, b| effective(a).total_cmp(&effective(b)));
    most.expect("fair coins are among them")
}

/// Removes the shares of sharp bases that hinder others, if the pilot of `all` bases has few effective chains compared
/// with the best base and has found no more mass. Returns true if a share was removed.
///
/// Intermediate models gather around the components of a sharp base, and chains that start elsewhere then have small
/// weights. A sharp base stays if it beats the best broad base in mass, or has half as many effective chains.
pub(super) fn clear_the_way<T: Scalar>(
    all: &Candidate<T>,
    candidates: &mut [Candidate<T>],
    bound: &LogZBound,
) -> bool {
    let reference = reference(candidates, bound);
    let best = most_effective(candidates.iter(), reference);
    let error = MORE_ERRORS * all.standard_error.hypot(best.standard_error);
    let has_found_more = all.log_z > best.log_z + error;
    let has_many = all.effective(reference) > LEAST_ESS_OF_ALL * best.effective(reference);
    if has_many || has_found_more {
        return false;
    }
    let is_sharp = |one: &Candidate<T>| one.base.components().len() > BROAD_COMPONENTS;
    let broad = candidates.iter().filter(|one| !is_sharp(one));
    let broad = most_effective(broad, reference);
    let (most, highest) = (broad.effective(reference), broad.upper());
    let stands_in_the_way = |one: &Candidate<T>| {
        let is_slow = one.effective(reference) < LEAST_SHARP_ESS * most;
        is_sharp(one) && one.share > 0.0 && is_slow && one.lower() < highest
    };
    let is_kept = Vec::from_iter(candidates.iter().map(|one| !stands_in_the_way(one)));
    let kept = candidates.iter().zip(&is_kept).filter(|(_, kept)| **kept);
    let total: f64 = kept.map(|(one, _)| one.share).sum();
    if total == 0.0 || is_kept.iter().all(|kept| *kept) {
        return false;
    }
    for (one, kept) in candidates.iter_mut().zip(is_kept) {
        one.share = if kept { one.share / total } else { 0.0 };
    }
    true
}

/// Returns whether the pilot of all bases missed mass that a bound or one of the bases has shown. The intermediate
/// models then gathered around the components of another base.
pub(super) fn is_too_low<T: Scalar>(
    all: &Candidate<T>,
    candidates: &[Candidate<T>],
    bound: &LogZBound,
) -> bool {
    let sure = candidates.iter().filter(|one| one.is_sure());
    let lower = sure.map(Candidate::lower);
    exceeds(lower.fold(bound.value, f64::max), all.upper())
}

/// Gives the whole share to one base: among bases with trusted errors, the one with the highest log Z minus its errors.
pub(super) fn set_to_surest<T: Scalar>(candidates: &mut [Candidate<T>]) {
    let sure = candidates.iter().filter(|one| one.is_sure());
    let highest = largest(sure.map(Candidate::lower));
    if highest > f64::NEG_INFINITY {
        for one in candidates {
            one.share = f64::from(u8::from(one.is_sure() && one.lower() == highest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbm::BaseRate;

    /// Even if a bound lies a thousand nats above all pilots, the base of the highest pilot gets a share.
    #[test]
    fn some_base_has_a_share_whatever_the_bound() {
        let pilot = |log_z: f64| Candidate {
            name: String::new(),
            base: BaseRate::<f32>::uniform(2, 3).unwrap(),
            stages: 1,
            chains: 512,
            log_z,
            standard_error: 0.1,
            effective_sample_size: 100.0,
            certified: log_z - 1.0,
            share: 0.0,
        };
        let bound = LogZBound {
            value: 1_010.0,
            configurations: 1_010.0,
            modes: Vec::new(),
        };
        let mut candidates = [pilot(10.0), pilot(0.0)];
        set_by_pilots(&mut candidates, &bound);
        assert_eq!(candidates.map(|one| one.share), [1.0, 0.0]);
    }
}
