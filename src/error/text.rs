//! The texts of errors: numbers, places, and what a file says.

use std::ops::Range;

/// Formats a number in six digits at most.
pub(crate) fn short(x: f64) -> String {
    let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    match rounded.abs() {
        0.0 => "0".into(),
        size if !(1e-4..1e7).contains(&size) && size.is_finite() => format!("{rounded:e}"),
        _ => rounded.to_string(),
    }
}

/// Longest reason; one that quotes a forged file could have megabytes.
const LONGEST_REASON: usize = 2_000;

/// Escapes control characters of a quoted file, which a terminal would obey, and cuts long text.
pub(super) fn printable(reason: &str) -> String {
    let mut text = String::new();
    for c in reason.chars() {
        if text.len() > LONGEST_REASON {
            text.push_str(" ..");
            break;
        }
        match c.is_control() && c != '\n' {
            true => text.extend(c.escape_default()),
            false => text.push(c),
        }
    }
    text
}

pub(super) fn coordinate_named(largest: Option<(usize, f64)>) -> String {
    largest.map_or(String::new(), |(index, x)| {
        format!(", largest coordinate {} at index {index}", short(x))
    })
}

pub(super) fn chains_named(chains: &Range<usize>) -> String {
    match chains.len() {
        1 => format!("chain {}", chains.start),
        _ => format!("chains {chains:?}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::Error;

    #[test]
    fn quoted_files_give_printable_errors() {
        let error = Error::file("a.npy", "dtype \u{1b}[2J, expected floats\nof 32 bits");
        let text = "a.npy: dtype \\u{1b}[2J, expected floats\nof 32 bits";
        assert_eq!(error.to_string(), text);
        assert!(Error::file("a.npy", "x".repeat(1 << 20)).to_string().len() < 2_100);
    }
}
