//! The line in which a result is written, with as many digits as its error leaves.

use std::fmt::{self, Formatter};

use super::Warning;

/// Returns the decimals of a figure with this error: three, and two digits of an error below .001.
fn decimals(error: f64) -> usize {
    match error > 0.0 && error < 1e-3 {
        true => 1 + (-error.log10().floor()).min(14.0) as usize,
        false => 3,
    }
}

/// `208.631 +- 0.021`.
pub(super) fn write_value(f: &mut Formatter<'_>, value: f64, error: f64) -> fmt::Result {
    let digits = decimals(error);
    write!(f, "{value:.digits$} +- {error:.digits$}")
}

/// A log Z with its standard error and interval, in one line, and its warnings.
pub(crate) struct Headline<'a> {
    pub log_z: f64,
    pub error: f64,
    pub interval: (f64, f64),
    /// The kind of estimate; empty for a forward run.
    pub kind: &'static str,
    /// The rest of the line.
    pub details: String,
    pub warnings: &'a [Warning],
}

/// `log Z = 208.631 +- 0.021 (95% interval 208.590 to 208.672, ESS 809 of 1000)`, and a line for each warning.
impl fmt::Display for Headline<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let digits = decimals(self.error);
        let (lower, upper) = self.interval;
        let joint = if self.kind.is_empty() { "" } else { "; " };
        write!(f, "log Z = ")?;
        write_value(f, self.log_z, self.error)?;
        write!(f, " ({}{joint}95% interval ", self.kind)?;
        write!(f, "{lower:.digits$} to {upper:.digits$}, {})", self.details)?;
        let mut warnings = self.warnings.iter();
        warnings.try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_error() {
        let line = |error: f64| {
            let headline = Headline {
                log_z: 16.153_226_7,
                error,
                interval: (16.153_220_2, 16.153_230_1),
                kind: "reverse",
                details: "ESS 9 of 10".to_owned(),
                warnings: &[],
            };
            headline.to_string()
        };
        assert_eq!(
            line(2.5e-6),
            "log Z = 16.1532267 +- 0.0000025 (reverse; 95% interval 16.1532202 to 16.1532301, ESS 9 of 10)"
        );
        for (error, expected) in [(0.021, "16.153 +- 0.021 "), (0.0, "16.153 +- 0.000 ")] {
            assert!(line(error).contains(expected), "{}", line(error));
        }
        assert!(line(f64::NAN).contains("16.153 +- NaN"));
        assert!(line(1e-300).contains(" +- 0.000000000000000 "));
    }
}
