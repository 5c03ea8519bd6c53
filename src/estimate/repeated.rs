//! Draws that are given twice.

use crate::{Error, Result};

/// Largest number of copies of a series, one after the other, that are found.
const COPIES: usize = 5;
/// Least number of draws that are not equal by chance.
const FEWEST_DRAWS: usize = 10;

/// Least number of runs of equal draws whose lengths have no common factor by chance.
const RUNS: usize = 20;

const EXPECTED: &str = "each draw once: the error takes repeated draws as independent";

/// Refuses series that consist of copies of their first part, or that are given twice, unless they do not vary. `name` is
/// the name of a series in errors.
pub(crate) fn check_repeated<T: PartialEq>(name: &'static str, series: &[Vec<T>]) -> Result<()> {
    for (place, found) in series.iter().enumerate() {
        if found.len() < FEWEST_DRAWS || found.iter().all(|x| *x == found[0]) {
            continue;
        }
        for copies in 2..=COPIES {
            let part = found.len() / copies;
            let is_long = part >= FEWEST_DRAWS && found.len().is_multiple_of(copies);
            let again = is_long && found.chunks(part).all(|chunk| *chunk == found[..part]);
            let value = format!("{name} {place}, which repeats its first 1/{copies}");
            Error::check(!again, "draws", value, EXPECTED)?;
        }
        if let Some(earlier) = series[..place].iter().position(|other| other == found) {
            let value = format!("the draws of {name} {earlier} again as {name} {place}");
            return Err(Error::invalid("draws", value, EXPECTED));
        }
    }
    Ok(())
}

/// Refuses series of independent draws in which each draw has copies next to it. A chain that rejects moves may have them.
pub(crate) fn check_each_once<T: PartialEq>(name: &'static str, series: &[Vec<T>]) -> Result<()> {
    series.iter().enumerate().try_for_each(|(place, found)| {
        let lengths = found.chunk_by(|one, other| one == other).map(<[T]>::len);
        let copies = lengths.clone().fold(0, gcd);
        let value = format!("{name} {place}, which has each draw {copies} times in a row");
        let is_new = copies <= 1 || lengths.count() < RUNS;
        Error::check(is_new, "draws", value, EXPECTED)
    })
}

/// Returns the greatest common divisor.
fn gcd(one: usize, other: usize) -> usize {
    match other {
        0 => one,
        _ => gcd(other, one % other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_each_draw_are_refused() {
        let draws = |copies: usize| Vec::from_iter((0..40 * copies).map(|i| i / copies));
        for copies in [2, 7, 10] {
            let error = check_each_once("chain", &[draws(1), draws(copies)]).unwrap_err();
            let text = format!("chain 1, which has each draw {copies} times in a row");
            assert!(error.to_string().contains(&text), "{error}");
        }
        let mut others = draws(2);
        others.insert(21, 10);
        assert!(check_each_once("chain", &[others, draws(1), vec![3; 100]]).is_ok());
    }
}
