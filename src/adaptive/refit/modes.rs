//! Modes that lie apart, found by dips of the states' marginals.

use std::collections::BTreeSet;

use nalgebra::{DMatrix, DVector};

/// Largest probability that any axis of a unimodal distribution shows a dip by chance; a refit omitted for that costs
/// little. With 64 states on 100 axes a dip then needs 10 states, 12 at a level of .001.
const DIP_LEVEL: f64 = 0.05;
/// Largest probability that one axis shows a dip by chance, once another axis has a dip: further dips are then likely.
/// It changes the number of modes counted, never whether there are several.
const FURTHER_DIP_LEVEL: f64 = 0.01;
/// Largest number of states, or of coordinates if they are fewer, at which principal axes are sought. It bounds the
/// cost of the eigenvectors, `n^3`, and admits the default number of chains, 256.
const MOST_ALONG_AXES: usize = 256;
/// Smallest variance along a principal axis, relative to the largest. Rounding leaves some 1e-14 (1e-16 for each of up
/// to 256 states), so any value between that and real axes serves.
const LEAST_VARIANCE: f64 = 1e-9;
/// Numbers a and b: with probability p, n uniform states have a dip above `sqrt(n (a - b log p))` states. They are
/// fitted to simulations: of a level .05, .042 is left at 64 states and .032 at 256.
const DIP_TAIL: [f64; 2] = [0.38, 0.16];

/// Returns the number of modes of `states`: sets of states on the same sides of all dips. `None` if no axis has a dip.
///
/// Weights are ignored: all chains show where modes lie, and a few states of large weight would hide the modes.
pub(super) fn modes(states: &[&DVector<f64>]) -> Option<usize> {
    let axes = axes(states);
    let level = DIP_LEVEL / axes.ncols() as f64;
    let columns = axes.as_slice().chunks_exact(states.len());
    let dips = Vec::from_iter(columns.map(|axis| (axis, Marginal::of(axis).dip())));
    let beyond = |level: f64| {
        let least = least_dip(states.len(), level);
        dips.iter().filter(move |(_, (dip, _))| *dip > least)
    };
    beyond(level).next()?;
    let splits = Vec::from_iter(beyond(level.max(FURTHER_DIP_LEVEL)));
    let sides = |k: usize| Vec::from_iter(splits.iter().map(|(axis, (_, at))| axis[k] < *at));
    let modes: BTreeSet<Vec<bool>> = (0..states.len()).map(sides).collect();
    Some(modes.len())
}

/// Returns the states' coordinates along axes, one axis a column: standardised coordinates, and their principal axes.
fn axes(states: &[&DVector<f64>]) -> DMatrix<f64> {
    let (n, d) = (states.len(), states[0].len());
    let mut states = DMatrix::from_fn(n, d, |i, j| states[i][j]);
    for mut column in states.column_iter_mut() {
        column.add_scalar_mut(-column.mean());
        let deviation = column.norm();
        if deviation > 0.0 {
            column /= deviation;
        }
    }
    if n.min(d) > MOST_ALONG_AXES {
        return states;
    }
    // Up to scales, positions along principal axes are eigenvectors of the products of the states.
    let products = match n < d {
        true => &states * states.transpose(),
        false => states.tr_mul(&states),
    };
    let eigen = products.symmetric_eigen();
    let scores = match n < d {
        true => eigen.eigenvectors,
        false => &states * eigen.eigenvectors,
    };
    let least = LEAST_VARIANCE * eigen.eigenvalues.max();
    let varying = scores.column_iter().zip(&eigen.eigenvalues);
    let varying = varying.filter_map(|(axis, &square)| (square > least).then_some(axis));
    let columns = Vec::from_iter(states.column_iter().chain(varying));
    DMatrix::from_columns(&columns)
}

/// Returns the dip, in states, that n states of a unimodal distribution exceed by chance with probability `level`.
///
/// The uniform distribution has the largest dips of all unimodal ones (Hartigan and Hartigan 1985). The tail of its
/// dips is fitted to simulations.
fn least_dip(n: usize, level: f64) -> f64 {
    (n as f64 * (DIP_TAIL[0] - DIP_TAIL[1] * level.ln())).sqrt()
}

/// Values along an axis in increasing order, and their negatives in increasing order.
struct Marginal {
    sides: [Vec<f64>; 2],
}

impl Marginal {
    fn of(values: &[f64]) -> Self {
        let mut up = values.to_vec();
        up.sort_by(f64::total_cmp);
        let down = up.iter().rev().map(|x| -x).collect();
        Self { sides: [up, down] }
    }

    /// Returns the dip, in states, and a place between the two modes that it separates.
    ///
    /// A distribution function with its mode at the k-th value is convex below the mode and concave above it. The
    /// empirical distribution function lies above its greatest convex minorant below the mode, and under its least
    /// concave majorant above the mode. The dip is the larger of the two largest distances, minimised over k. It is
    /// twice Hartigan's dip.
    fn dip(&self) -> (f64, f64) {
        let [up, down] = &self.sides;
        let last = up.len() - 1;
        let distances = |k: usize| {
            let sides = [&up[..=k], &down[..=last - k]];
            (sides, sides.map(above_minorant))
        };
        // The distance below the mode grows with k, and the distance above it shrinks.
        let k = first_without(last, |k| {
            let (_, [below, above]) = distances(k);
            below.0 < above.0
        });
        let larger = |k: usize| match distances(k) {
            ([side, _], [below, above]) if below.0 >= above.0 => (below.0, 1.0, &side[below.1..]),
            ([_, side], [_, above]) => (above.0, -1.0, &side[above.1..]),
        };
        let here = larger(k);
        let (dip, sign, to_mode) = match k.checked_sub(1).map(larger) {
            Some(before) if before.0 < here.0 => before,
            _ => here,
        };
        (dip, sign * widest_gap(to_mode))
    }
}

/// Returns the middle of the widest gap between increasing values.
fn widest_gap(values: &[f64]) -> f64 {
    let width = |pair: &&[f64]| pair[1] - pair[0];
    let gaps = values.windows(2);
    let widest = gaps.max_by(|a, b| width(a).total_cmp(&width(b)));
    widest.map_or(values[0], |pair| 0.5 * (pair[0] + pair[1]))
}

/// Returns the smallest of `0..=last` at which `holds` is false. `holds` must be true below it and false from it on.
fn first_without(last: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = (low + high) / 2;
        match holds(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// Returns the largest distance, in steps, of the empirical distribution function above its greatest convex minorant up
/// to the last of the increasing `values`. Also returns the index of the value where this distance is found.
fn above_minorant(values: &[f64]) -> (f64, usize) {
    let mut hull: Vec<usize> = Vec::with_capacity(values.len());
    for c in 0..values.len() {
        while let [.., a, b] = hull[..] {
            let turn =
                (values[b] - values[a]) * (c - a) as f64 - (b - a) as f64 * (values[c] - values[a]);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(c);
    }
    let mut largest = (0.0, 0);
    for side in hull.windows(2) {
        let (a, b) = (side[0], side[1]);
        let slope = (b - a) as f64 / (values[b] - values[a]);
        for i in a..b {
            // The minorant touches steps at their lower ends. The distance is taken from the upper ends, hence `i + 1`.
            let off = (i + 1 - a) as f64 - slope * (values[i] - values[a]);
            if off > largest.0 {
                largest = (off, i);
            }
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt};
    use rand_distr::StandardNormal;

    use super::*;
    use crate::random::{Purpose, stream};

    fn states(
        (count, dimension): (usize, usize),
        mut draw: impl FnMut(usize, usize) -> f64,
    ) -> Option<usize> {
        let state = |k| DVector::from_fn(dimension, |i, _| draw(k, i));
        let states: Vec<DVector<f64>> = (0..count).map(state).collect();
        modes(&Vec::from_iter(&states))
    }

    fn normal(rng: &mut impl Rng) -> f64 {
        rng.sample(StandardNormal)
    }

    #[test]
    fn the_distance_to_a_unimodal_law_is_that_of_its_definition() {
        // Steps at 0, 1, 9 and 10: with its mode at 9 the minorant runs from (0, 0) to (9, 2).
        let (distance, place) = above_minorant(&[0.0, 1.0, 9.0]);
        assert!((distance - (2.0 - 2.0 / 9.0)).abs() < 1e-15 && place == 1);
        let (dip, between) = Marginal::of(&[9.0, 0.0, 10.0, 1.0]).dip();
        assert_eq!((dip, between), (distance, 5.0));
        // A far mode with a fifth of the states gives a dip of a fifth, on either side.
        let uneven = |side: f64| {
            Vec::from_iter((0..50).map(|i| side * if i < 10 { -1e6 } else { f64::from(i) }))
        };
        for side in [-1.0, 1.0] {
            let (dip, between) = Marginal::of(&uneven(side)).dip();
            assert!((9.9..=10.0).contains(&dip), "{dip}");
            assert!((-1e6..10.0).contains(&(side * between)), "{between}");
        }
    }

    #[test]
    fn one_mode_is_one() {
        let mut rng = stream(1, Purpose::TESTING, 0);
        let mut flat = 0;
        for _ in 0..30 {
            assert_eq!(states((256, 16), |_, _| normal(&mut rng)), None);
            assert_eq!(states((64, 100), |_, _| normal(&mut rng)), None);
            assert_eq!(states((64, 16), |_, _| normal(&mut rng).tan()), None);
            flat += usize::from(states((256, 16), |_, _| rng.random()).is_some());
        }
        // Flat marginals have the largest dips. 6 or more of 30 trials show one with a probability below .4%.
        assert!(flat <= 5, "{flat}");
    }

    #[test]
    fn modes_are_counted() {
        let mut rng = stream(2, Purpose::TESTING, 0);
        // Wells of shares .15 and .85 in each of 10 coordinates of 20.
        let wells = |_, i: usize| match i < 10 {
            true => 0.2 * normal(&mut rng) + if rng.random_bool(0.15) { -1.7 } else { 1.7 },
            false => normal(&mut rng),
        };
        let found = states((256, 20), wells);
        assert!(found.is_some_and(|modes| modes > 16), "{found:?}");
        // Two modes along a diagonal of 40 dimensions, 10 deviations apart, which no coordinate shows.
        let centre = |k: usize| if k.is_multiple_of(3) { 5.0 } else { -5.0 } / 40f64.sqrt();
        let found = states((256, 40), |k, _| centre(k) + normal(&mut rng));
        assert_eq!(found, Some(2));
        // The same mode with less than a tenth of the states gives no dip.
        let centre = |k: usize| if k < 12 { 5.0 } else { -5.0 } / 40f64.sqrt();
        let found = states((256, 40), |k, _| centre(k) + normal(&mut rng));
        assert_eq!(found, None);
    }
}
