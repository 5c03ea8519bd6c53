//! Works of switching processes.

use std::path::Path;

use annealed::{Error, Result};

use crate::{Arrays, text_of};

/// Reads the works of one direction, for
/// [`BennettEstimate::from_works`](annealed::estimate::BennettEstimate::from_works): a text with one number a line, with or
/// without a name in the first line, or a `.npy` array with one axis. Lines that begin with `#` or `@` are comments.
///
/// ```no_run
/// use annealed::estimate::{BennettEstimate, WorkUnit};
/// use annealed_files::read_works;
///
/// let (forward, reverse) = (read_works("forward.csv")?, read_works("reverse.csv")?);
/// let unit = WorkUnit::KilojoulesPerMole(300.0);
/// println!("{}", BennettEstimate::from_works(&forward, &reverse, unit)?);
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// # Errors
/// [`Error::File`]: an unreadable file, a line that is no number, several numbers a line, no numbers.
pub fn read_works(path: impl AsRef<Path>) -> Result<Vec<f64>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let found = parse(bytes).and_then(|works| match works.is_empty() {
        true => Err("no works".to_owned()),
        false => Ok(works),
    });
    found.map_err(|reason| Error::file(path, reason))
}

fn parse(bytes: Vec<u8>) -> Result<Vec<f64>, String> {
    let bytes = match text_of(bytes) {
        Ok(text) => return of_text(&text),
        Err(bytes) => bytes,
    };
    match Arrays::parse(bytes)? {
        Arrays::One(array) if array.shape().len() == 1 => Ok(array.values().collect()),
        Arrays::One(array) => Err(format!("shape {:?}, expected one axis", array.shape())),
        _ => Err("several arrays, expected a .npy of one axis".to_owned()),
    }
}

fn of_text(text: &str) -> Result<Vec<f64>, String> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let is_data = |line: &str| !line.is_empty() && !line.starts_with(['#', '@']);
    let mut lines = lines.zip(1..).filter(|(line, _)| is_data(line)).peekable();
    let number = |line: &str| line.trim_matches('"').trim().parse::<f64>().ok();
    let is_name = |line: &str| {
        let unquoted = line.trim_matches('"');
        unquoted.starts_with(|c: char| c.is_alphabetic()) && !unquoted.contains([',', ';', '\t'])
    };
    lines.next_if(|(line, _)| number(line).is_none() && is_name(line));
    let work = |(line, at): (&str, usize)| {
        number(line).ok_or_else(|| format!("line {at}: `{line}`, expected one number on each line"))
    };
    lines.map(work).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_a_line_below_a_name_or_not() {
        for text in [
            "1.5\n-2\ninf\n",
            "work\r\n1.5\r\n-2\r\ninf\r\n",
            "# kJ/mol\n@ xvg\n\"W\"\n\"1.5\"\n\n-2e0\ninf",
        ] {
            assert_eq!(of_text(text).unwrap(), [1.5, -2.0, f64::INFINITY], "{text}");
        }
    }

    #[test]
    fn arrays_have_one_axis() {
        let array = |shape: &[usize]| crate::npy::format(shape, 8, (0..6).map(f64::from));
        assert_eq!(parse(array(&[6])).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(parse(array(&[2, 3])).unwrap_err().contains("one axis"));
    }

    #[test]
    fn a_file_without_works_is_refused() {
        let file = std::env::temp_dir().join(format!("annealed_no_works_{}", std::process::id()));
        std::fs::write(&file, "work\n").unwrap();
        let error = read_works(&file).unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(error.ends_with("no works"), "{error}");
    }

    #[test]
    fn other_texts_are_refused() {
        let refused = |text| of_text(text).unwrap_err();
        assert!(refused("1,2\n").contains("line 1: `1,2`, expected one number"));
        assert!(refused("a,b\n1,2\n").contains("line 1: `a,b`"));
        assert!(refused("work\n1.5\nx\n").contains("line 3: `x`"));
        assert!(refused("1,5\n").contains("line 1"));
        assert_eq!(of_text("work\n").unwrap(), [] as [f64; 0]);
    }
}
