//! Shares of the bases in the mixture from which a run starts: first by their pilots, then by the mass that each explains.

use crate::rbm::start::pool::Rows;
use crate::rbm::start::{ERRORS, reference};
use crate::rbm::{BaseRate, Candidate, LogZBound, Scalar};

/// Share of each base that found mass, beside 1 for all of them by what their pilots found. A mode that only this base
/// leads to has a weight of at most 25 times the mean.
const LEAST_OF_BASE: f64 = 0.04;
/// Log of the part of the mass below which a base has found none.
const LEAST_MASS: f64 = -4.6;
/// Most components of a base that is not sharp: one, and the first base as its defence.
const BROAD: usize = 2;
/// Effective chains that a sharp base needs, relative to the best broad one.
const LEAST_OF_SHARP: f64 = 0.5;

/// Sets the shares of `candidates` by the effective chains that each has for the mass that it found.
///
/// A base that found no mass has none. Nor has a sharp base that needs more stages than a broad one and found no more: the
/// intermediate models gather around its components, and all other chains then have small weights.
pub(super) fn set_by_pilots<T: Scalar>(candidates: &mut [Candidate<T>], bound: &LogZBound) {
    let reference = reference(candidates).max(bound.value);
    let effective =
        |one: &Candidate<T>| one.effective_sample_size * (one.log_z - reference).min(0.0).exp();
    let is_sharp = |one: &Candidate<T>| one.base.components().len() > BROAD;
    let broad = candidates.iter().filter(|one| !is_sharp(one));
    let broad = broad.max_by(|one, other| effective(one).total_cmp(&effective(other)));
    let (most, highest) = broad.map_or((0.0, reference), |one| (effective(one), upper(one)));
    let found_mass = |one: &Candidate<T>| upper(one) > reference + LEAST_MASS;
    let is_in_the_way = |one: &Candidate<T>| {
        is_sharp(one) && effective(one) < LEAST_OF_SHARP * most && lower(one) < highest
    };
    let shares = candidates
        .iter()
        .map(|one| match found_mass(one) && !is_in_the_way(one) {
            true => effective(one),
            false => 0.0,
        });
    let shares = Vec::from_iter(shares);
    set(candidates, &shares);
}

fn upper<T: Scalar>(one: &Candidate<T>) -> f64 {
    one.log_z + ERRORS * one.standard_error
}

fn lower<T: Scalar>(one: &Candidate<T>) -> f64 {
    one.log_z - ERRORS * one.standard_error
}

/// Sets the shares again, by the mass of `rows` that each base explains.
pub(super) fn set_by_mass<T: Scalar>(candidates: &mut [Candidate<T>], rows: &Rows) {
    let found = candidates.iter().filter(|one| one.share > 0.0);
    let bases: Vec<(f64, &BaseRate<T>)> = found.map(|one| (one.share, &one.base)).collect();
    let mut masses = rows.shares(&bases).into_iter();
    let shares = candidates.iter().map(|one| match one.share > 0.0 {
        true => masses.next().expect("a share for each base"),
        false => 0.0,
    });
    let shares = Vec::from_iter(shares);
    set(candidates, &shares);
}

/// Sets the shares in proportion to `masses`, and [`LEAST_OF_BASE`] more to each that is positive.
fn set<T: Scalar>(candidates: &mut [Candidate<T>], masses: &[f64]) {
    let total: f64 = masses.iter().sum();
    let with_least = |mass: &f64| match *mass > 0.0 {
        true => mass / total + LEAST_OF_BASE,
        false => 0.0,
    };
    let sum: f64 = masses.iter().map(with_least).sum();
    for (one, mass) in candidates.iter_mut().zip(masses) {
        one.share = with_least(mass) / sum;
    }
}
