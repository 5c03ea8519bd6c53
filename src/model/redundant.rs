//! Coordinates of which one is computed from others. In such coordinates a density has no finite integral.

use nalgebra::{DMatrix, DVector};

use crate::error::short;
use crate::estimate::ranks;
use crate::{Error, Result};

/// Most coordinates in which combinations are checked. The check of 200 takes a tenth of a second.
const MOST: usize = 200;
/// Most states that are compared, unless there are 100 or more coordinates. They are evenly spaced.
const STATES: usize = 1_000;
/// Least variance of a combination of standardised coordinates whose squared factors sum to 1. Files of six digits
/// round a combination without variance to 1e-12, more where a mean is many deviations from 0.
const LEAST_VARIANCE: f64 = 1e-10;
/// Largest variance of a combination that may be due to a file of few digits.
const ROUNDED: f64 = 1e-4;
/// Fewest distinct states whose ranks are compared. Fewer may have one order by chance if a pair is narrow.
const RANKED: usize = 400;
/// Share of the largest factor of a combination below which a coordinate has no part in it.
const PART: f64 = 1e-3;

/// Advice of errors about redundant coordinates.
pub(super) const FREE: &str = "coordinates that vary freely: give a whole simplex its Dirichlet prior, leave out one of \
                               several effects that sum to 0, and leave out constants and quantities computed from others";

/// Refuses states in which a coordinate is constant, in which a combination of up to 200 coordinates varies no more
/// than by rounding, or in which two coordinates have the same or opposite order, as sigma and log sigma have. The error
/// names the coordinates by their indices.
pub(super) fn check_free(states: &[DVector<f64>]) -> Result<()> {
    let dimension = states[0].len();
    let is_constant = |i: &usize| states.iter().all(|state| state[*i] == states[0][*i]);
    if let Some(i) = (0..dimension).find(is_constant) {
        let found = format!("coordinate {i} = {} in all of them", short(states[0][i]));
        return Err(Error::invalid("states", found, FREE));
    }
    let apart = states.len().div_ceil(STATES.max(10 * dimension));
    let kept = Vec::from_iter(states.iter().step_by(apart));
    let distinct = kept.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if dimension > MOST || distinct <= 2 * dimension {
        return Ok(());
    }
    let column = |i| Vec::from_iter(kept.iter().map(|state| state[i]));
    let values = Vec::from_iter((0..dimension).map(column));
    let mut found = bound_together(&values, ROUNDED);
    if found.is_none() && distinct >= RANKED {
        let ranks = values.iter().map(|column| ranks(column));
        found = bound_together(&Vec::from_iter(ranks), LEAST_VARIANCE);
    }
    let free = found.is_none();
    let found = found.unwrap_or_default() + ", of which each is computed from the others";
    Error::check(free, "states", found, FREE)
}

/// Returns the coordinates of a combination that varies no more than by rounding, and at most by `most`, if there is one.
fn bound_together(columns: &[Vec<f64>], most: f64) -> Option<String> {
    let count = columns[0].len();
    let mut states = DMatrix::from_fn(count, columns.len(), |k, i| columns[i][k]);
    let mut rounding = DVector::zeros(columns.len());
    for (mut column, rounding) in states.column_iter_mut().zip(rounding.iter_mut()) {
        column.add_scalar_mut(-column.mean());
        column /= column.amax();
        column /= column.norm();
        let mut sorted = Vec::from_iter(column.iter().copied());
        sorted.sort_by(f64::total_cmp);
        let gaps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
        let least = gaps.filter(|gap| *gap > 0.0).fold(f64::INFINITY, f64::min);
        // Twice the variance of a rounding error, in units of the coordinate's variance.
        *rounding = least * least * count as f64 / 6.0;
    }
    flattest(states.tr_mul(&states), |factors| {
        let explained = factors.component_mul(factors).dot(&rounding);
        explained.clamp(LEAST_VARIANCE, most)
    })
}

/// Returns the coordinates with a part in an eigenvector of `matrix` whose eigenvalue is at most `least` of it. `None` if
/// there is none, or a number is not finite.
fn flattest(matrix: DMatrix<f64>, least: impl Fn(&DVector<f64>) -> f64) -> Option<String> {
    if matrix.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let eigen = matrix.symmetric_eigen();
    let mut pairs = eigen
        .eigenvalues
        .iter()
        .zip(eigen.eigenvectors.column_iter());
    let (_, factors) =
        pairs.find(|(value, factors)| value.abs() <= least(&factors.clone_owned()))?;
    let part = PART * factors.amax();
    let with_part = factors.iter().enumerate().filter(|(_, x)| x.abs() > part);
    let names = Vec::from_iter(with_part.map(|(i, _)| i.to_string()));
    Some(format!("coordinates {}", names.join(", ")))
}

/// Returns the coordinates in a direction in which a density with this `precision` hardly changes, if there is one. Its
/// curvature, relative to the curvatures of these coordinates alone, is then at most `least`.
pub(super) fn flat(precision: &DMatrix<f64>, least: f64) -> Option<String> {
    if let Some(i) = precision.diagonal().iter().position(|x| *x == 0.0) {
        return Some(format!("coordinates {i}"));
    }
    let scales = precision.diagonal().map(f64::sqrt);
    let scaled = precision.map_with_location(|i, j, x| x / (scales[i] * scales[j]));
    flattest(scaled, |_| least)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::model::{Fit, Gaussian, GaussianMixture, StudentT};
    use crate::random::{Purpose, StandardNormal, StreamRng, stream};

    /// Returns states of `count` independent normal numbers, mapped by `of` and rounded to `digits` decimals.
    fn states(
        count: usize,
        digits: i32,
        of: impl Fn(&mut StreamRng, &dyn Fn(&mut StreamRng) -> f64) -> Vec<f64>,
    ) -> Vec<DVector<f64>> {
        let (mut rng, unit) = (stream(1, Purpose::TESTING, 0), 10f64.powi(digits));
        let normal = |rng: &mut StreamRng| StandardNormal::get().draw(rng);
        let state = |_| DVector::from_vec(of(&mut rng, &normal)).map(|x| (x * unit).round() / unit);
        (0..count).map(state).collect()
    }

    fn refused(states: &[DVector<f64>]) -> String {
        let weights = vec![1.0; states.len()];
        let error = Gaussian::fit(states, &weights).unwrap_err();
        assert_eq!(error, StudentT::fit(states, &weights).unwrap_err());
        assert_eq!(error, GaussianMixture::fit(states, &weights).unwrap_err());
        error.to_string()
    }

    #[test]
    fn redundant_coordinates_are_named() {
        for digits in [3, 6, 8, 15] {
            for count in [60, 4_000] {
                let sum = states(count, digits, |rng, normal| {
                    let [a, b, c] = [(); 3].map(|()| normal(rng));
                    vec![a, 2.0 * b + 5.0, c, a + 2.0 * b]
                });
                let text = refused(&sum);
                assert!(text.contains("got coordinates 0, 1, 3, of which"), "{text}");
                let simplex = states(count, digits, |rng, _| {
                    let shares = [(); 3].map(|()| -rng.random::<f64>().ln());
                    let all: f64 = shares.iter().sum();
                    shares.map(|x| x / all).to_vec()
                });
                let text = refused(&simplex);
                assert!(text.contains("got coordinates 0, 1, 2, of which"), "{text}");
                assert!(text.contains("its Dirichlet prior"), "{text}");
            }
        }
    }

    #[test]
    fn a_constant_and_a_coordinate_given_twice_are_named() {
        let constant = states(40, 15, |rng, normal| vec![normal(rng), 2.5, normal(rng)]);
        let text = refused(&constant);
        assert!(
            text.contains("got coordinate 1 = 2.5 in all of them"),
            "{text}"
        );
        let twice = states(500, 15, |rng, normal| {
            let log_sigma = normal(rng);
            vec![log_sigma, normal(rng), log_sigma.exp()]
        });
        let text = refused(&twice);
        assert!(text.contains("got coordinates 0, 2, of which"), "{text}");
    }

    /// Coordinates that vary freely, though little, are fitted: a narrow pair, integers, and few states.
    #[test]
    fn free_coordinates_are_fitted() {
        let narrow = |digits| {
            states(2_000, digits, |rng, normal| {
                let (a, b) = (normal(rng), normal(rng));
                vec![1e3 + a, a + 1e-4 * b, (3.0 * normal(rng)).round()]
            })
        };
        let few = |count| {
            states(count, 15, |rng, normal| {
                [(); 3].map(|()| normal(rng)).to_vec()
            })
        };
        for states in [narrow(15), narrow(8), few(4), few(8), few(30)] {
            assert!(Gaussian::fit(&states, &vec![1.0; states.len()]).is_ok());
        }
    }
}
