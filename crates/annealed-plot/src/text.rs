//! Texts in pictures: values with their errors, and lines of a given width.

use std::fmt::Write;

use annealed::estimate::LogZ;

/// Mean width of a character at the size of labels, from which the room for texts is computed.
const CHARACTER: f64 = 6.4;

/// Height of a line of labels.
pub(super) const LINE: f64 = 14.0;

/// Returns the approximate width of a label.
pub(super) fn width_of(text: &str) -> f64 {
    CHARACTER * text.chars().count() as f64
}

/// Writes a text at a place. Errors are ignored, because writing to a string cannot fail.
pub(super) fn write_text(
    svg: &mut String,
    (x, y): (f64, f64),
    anchor: &str,
    attributes: &str,
    text: &str,
) {
    let text = escaped(text);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\"{attributes}>{text}</text>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Writes log Z with its error, as 192.266(21). If the interval is [skewed](LogZ::is_skewed), the 95% interval replaces
/// the error, as in -6.46 (-10.10 to 0.08).
pub(super) fn log_z_of(result: &dyn LogZ) -> String {
    let (lower, upper) = result.interval();
    match result.is_skewed() {
        true => format!("{:.2} ({lower:.2} to {upper:.2})", result.log_z()),
        false => concise(result.log_z(), result.standard_error()),
    }
}

/// Writes a value with its error in units of the last digit, as 192.266(21).
fn concise(value: f64, error: f64) -> String {
    if !(error > 0.0 && error < 1e15 && value.is_finite()) {
        return format!("{value:.4}");
    }
    let digits = |error: f64| (1.0 - error.log10().floor()).clamp(0.0, 15.0);
    let units = |digits: f64| (error * 10_f64.powf(digits)).round();
    // The rounded error determines the digits: 0.0996 rounds to 0.10.
    let digits = digits(units(digits(error)) / 10_f64.powf(digits(error)));
    let units = units(digits);
    format!("{value:.*}({units})", digits as usize)
}

/// Returns a count with its noun: "1 chain", "2 chains".
pub(super) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// Breaks a text into at most `most` lines of this width. If the text is longer, the last line ends in an ellipsis.
pub(super) fn wrapped(text: &str, width: f64, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let is_last = lines.len() == most;
        let line = lines.last_mut().expect("one line at least");
        let longer = format!("{line} {word}");
        if line.is_empty() {
            line.push_str(word);
        } else if width_of(&longer) <= width {
            *line = longer;
        } else if !is_last {
            lines.push(word.to_owned());
        } else {
            line.push_str(" …");
            break;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_two_digits_of_its_error() {
        for (value, error, expected) in [
            (192.26604, 0.0213, "192.266(21)"),
            (46.84931, 0.0012, "46.8493(12)"),
            (-7.03, 0.0996, "-7.03(10)"),
            (1234.6, 31.4, "1235(31)"),
            (5.0, 0.0, "5.0000"),
            (5.0, f64::INFINITY, "5.0000"),
        ] {
            assert_eq!(concise(value, error), expected);
        }
    }

    #[test]
    fn a_long_text_is_broken_between_words_and_cut() {
        let lines = wrapped("one two three four five six", width_of("one two three"), 2);
        assert_eq!(lines, ["one two three", "four five six"]);
        let lines = wrapped(
            "one two three four five six seven",
            width_of("one two three"),
            2,
        );
        assert_eq!(lines[1], "four five six …");
        assert_eq!(wrapped("", 10.0, 2), [""]);
    }
}
