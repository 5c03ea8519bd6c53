//! A time on the command line.

use std::time::Duration;

/// Parses a time from a number of seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    let expected = "expected a number of seconds, at least 0";
    Duration::try_from_secs_f64(seconds).map_err(|_| expected.to_owned())
}
