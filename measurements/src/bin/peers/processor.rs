//! Processor time of this process, which other programs on the machine disturb less than wall time.

use std::{fs, io};

/// Returns the seconds that the threads of this process have run for, as Linux reports them.
pub fn seconds() -> io::Result<f64> {
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let first = text.split_whitespace().next().and_then(|t| t.parse().ok());
        nanoseconds += first.unwrap_or(f64::NAN);
    }
    Ok(1e-9 * nanoseconds)
}
