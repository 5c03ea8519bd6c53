//! Draws that are given twice.

use crate::{Error, Result};

/// Largest number of copies of a series, one after the other, that are found.
const COPIES: usize = 5;
/// Least number of draws that are not equal by chance.
const LEAST: usize = 10;

/// Refuses series that consist of copies of their first part, or that are given twice, unless they do not vary. `name` is
/// the name of a series in errors.
pub(crate) fn check_repeated<T: PartialEq>(name: &'static str, series: &[Vec<T>]) -> Result<()> {
    let expected = "each draw once: the error takes repeated draws as independent";
    for (place, found) in series.iter().enumerate() {
        if found.len() < LEAST || found.iter().all(|x| *x == found[0]) {
            continue;
        }
        for copies in 2..=COPIES {
            let part = found.len() / copies;
            let is_long = part >= LEAST && found.len().is_multiple_of(copies);
            let again = is_long && found.chunks(part).all(|chunk| *chunk == found[..part]);
            let value = format!("{name} {place}, which repeats its first 1/{copies}");
            Error::check(!again, "draws", value, expected)?;
        }
        if let Some(earlier) = series[..place].iter().position(|other| other == found) {
            let value = format!("the draws of {name} {earlier} again as {name} {place}");
            return Err(Error::invalid("draws", value, expected));
        }
    }
    Ok(())
}
