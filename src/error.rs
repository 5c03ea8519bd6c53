//! The errors of this crate. Each names the argument or the place, the value found and the value expected.

mod checks;

use std::fmt::{self, Debug, Display};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of another library, in a shared pointer.
pub type Failure = Arc<dyn std::error::Error + Send + Sync>;

/// Any error of this crate. `Debug` prints the text of `Display`, so a `main` that returns
/// [`annealed::Result<()>`](Result) ends with a readable message. Two errors are equal if their kind and text are
/// equal.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument outside its domain.
    #[error("invalid {argument}: got {value}, expected {expected}")]
    InvalidArgument {
        /// Name of the argument.
        argument: &'static str,
        /// The value found.
        value: String,
        /// The values accepted.
        expected: String,
    },
    /// Two sizes that should agree do not.
    #[error("dimension mismatch in {argument}: got {found}, expected {expected}")]
    DimensionMismatch {
        /// Name of the argument.
        argument: &'static str,
        /// The size found.
        found: usize,
        /// The size expected.
        expected: usize,
    },
    /// A NaN or an infinity during a run.
    #[error(
        "{quantity} is {value} in chain {chain} at stage {stage} (beta = {}{}), expected {expected}",
        short(*beta),
        coordinate_named(*largest)
    )]
    NonFinite {
        /// The quantity that was computed.
        quantity: &'static str,
        /// The value found.
        value: f64,
        /// The values accepted.
        expected: &'static str,
        /// Index and value of the state's coordinate with the largest absolute value; `None` if states have no
        /// coordinates or the kernel does not read them.
        largest: Option<(usize, f64)>,
        /// Index of the chain.
        chain: usize,
        /// Index of the stage, 1 to K; 0 is the draw from the base.
        stage: usize,
        /// Inverse temperature that the stage reaches.
        beta: f64,
    },
    /// A failure of a library or device that a model calls, for example in a [`BatchModel`](crate::model::BatchModel).
    #[error(
        "the model failed in {} at stage {stage} (beta = {}): {source}",
        chains_named(chains),
        short(*beta)
    )]
    Model {
        /// The error of the library.
        source: Failure,
        /// The chain, or all chains of the block if they move together.
        chains: Range<usize>,
        /// Index of the stage, 1 to K; 0 is the draw from the base.
        stage: usize,
        /// Inverse temperature that the stage reaches.
        beta: f64,
    },
    /// A panic in a user's model, kernel, recorder or progress callback. The run ends when the other blocks have
    /// finished their stage. Rust's panic hook prints its message first, once per thread that panicked. With `panic =
    /// "abort"` the program ends at once.
    #[error(
        "panic in {} at stage {stage} (beta = {}): {message}",
        chains_named(chains),
        short(*beta)
    )]
    Panicked {
        /// Text of the panic.
        message: String,
        /// The chain, or all chains of the block if they move together.
        chains: Range<usize>,
        /// Index of the stage, 1 to K; 0 is the draw from the base.
        stage: usize,
        /// Inverse temperature that the stage reaches.
        beta: f64,
    },
    /// A run that was stopped before its first block of chains was done, and so has no result.
    #[error(
        "{by} before the first block of {chains} chains was done, so there is no estimate; use smaller blocks or fewer \
         stages to finish a block sooner"
    )]
    Stopped {
        /// The reason why the run was stopped.
        by: String,
        /// Number of chains in the first block.
        chains: usize,
    },
    /// A run whose chains all have weight zero. Log Z cannot be estimated from it.
    #[error(
        "no chain of {chains} has any weight: none reached the support of the target, or steps of an uncorrected kernel were \
         so far off that every weight vanished. Choose a base that overlaps with the target, and steps of the kernel's \
         scale. If the target is 0 on nearly all of the base, use `NestedSmc` for a likelihood (with more chains the rarer \
         the rest is), or a finite penalty that is annealed for a constraint (see the cookbook)"
    )]
    AllWeightsZero {
        /// Number of chains.
        chains: usize,
    },
    /// A pilot in which one chain carries nearly all the weight. No schedule can be chosen from it.
    #[error(
        "the pilot collapsed: its effective sample size is {effective_sample_size:.2} of {chains} at \
         beta = {}; use more pilot stages, chains or rounds",
        short(*beta)
    )]
    PilotCollapsed {
        /// Lowest effective sample size, as a number of chains.
        effective_sample_size: f64,
        /// Number of pilot chains.
        chains: usize,
        /// Inverse temperature at which the effective sample size is lowest.
        beta: f64,
    },
    /// A gradient that differs from finite differences of the log density by 5% or more, or that a model assigns to its
    /// argument instead of adding it. [`FirstPass`](crate::adaptive::FirstPass), [`Rounds`](crate::adaptive::Rounds) and
    /// [`Gaussian::laplace`](crate::model::Gaussian::laplace) check gradients.
    #[error(
        "wrong gradient in coordinate {coordinate}: got {}, while differences of the log density give {}",
        short(*gradient),
        short(*difference)
    )]
    WrongGradient {
        /// Index of the coordinate.
        coordinate: usize,
        /// The gradient that the model gives.
        gradient: f64,
        /// The slope of the log density by finite differences.
        difference: f64,
    },
    /// A gradient method that returns another log density than the model's.
    #[error(
        "accumulate_gradient returns {}, where log_density is {}: both must return the same value",
        short(*value),
        short(*log_density)
    )]
    WrongValue {
        /// The log density returned with the gradient.
        value: f64,
        /// The log density of the model.
        log_density: f64,
    },
    /// A computation that did not converge.
    #[error("{what} did not converge: {detail}")]
    NotConverged {
        /// Name of the computation.
        what: &'static str,
        /// How far the computation got.
        detail: String,
    },
    /// A mode on a ridge. [Laplace's approximation](crate::model::Gaussian::laplace) does not fit there, because most
    /// of the mass lies elsewhere.
    #[error(
        "the mode lies on a ridge, as in a hierarchy whose scale is a parameter, and most of the mass lies elsewhere: start \
         from the prior or another wide base. Relative to the density of Laplace's approximation, the target's density is \
         {fall:.0} nats or more below that at the median draw for a tenth of the draws, and {rise:.1} or more above it for \
         a tenth"
    )]
    MisleadingMode {
        /// Nats from the median down to the 10% quantile of the difference between `log f` and the approximation's log
        /// density, over draws from the approximation.
        fall: f64,
        /// Nats from the median of this difference up to its 90% quantile.
        rise: f64,
    },
    /// A checkpoint, a part or another process of a different run.
    #[error("of another run, which has {setting} {found}; this run has {expected}")]
    OtherRun {
        /// The first setting that differs.
        setting: &'static str,
        /// The setting in the checkpoint, the part or the other process.
        found: String,
        /// The setting of this run.
        expected: String,
    },
    /// A failure of one of the [processes](crate::ranks) that share a run, as the other processes report it. The failed
    /// process had an error, sent a message that cannot be read, or has figures that differ from the figures of rank 0
    /// by more than rounding.
    #[error("rank {rank}: {message}")]
    Rank {
        /// Index of the process that failed.
        rank: usize,
        /// Text of the process's error, or a description of the fault in its message or figures.
        message: String,
    },
    /// A file that could not be read or written.
    #[error("{path}: {reason}")]
    File {
        /// Path of the file.
        path: String,
        /// The failure, and the content that was expected.
        reason: String,
        /// The error of the operating system, if there was one.
        source: Option<Arc<io::Error>>,
    },
}

impl Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        // The errors of other libraries in some variants cannot be compared, but their texts can.
        let kind = std::mem::discriminant::<Self>;
        kind(self) == kind(other) && self.to_string() == other.to_string()
    }
}

/// Errors for your own models, kernels and file formats.
impl Error {
    /// Creates an [`Error::InvalidArgument`].
    pub fn invalid(
        argument: &'static str,
        value: impl Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::InvalidArgument {
            argument,
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    /// Creates an [`Error::File`] about the content of a file.
    pub fn file(path: impl AsRef<Path>, reason: impl Display) -> Self {
        Self::File {
            path: path.as_ref().display().to_string(),
            reason: printable(&reason.to_string()),
            source: None,
        }
    }

    /// Creates an [`Error::File`] about a file that could not be read or written. The message names a missing folder.
    pub fn io(path: impl AsRef<Path>, error: io::Error) -> Self {
        let path = path.as_ref();
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        Self::File {
            path: path.display().to_string(),
            reason: match folder.filter(|folder| !folder.exists()) {
                Some(folder) => format!("there is no folder {}", folder.display()),
                None => error.to_string(),
            },
            source: Some(Arc::new(error)),
        }
    }
}

/// Panics if a dimension is wrong. Functions without a `Result`, called at each step, use it; a run returns the panic
/// as [`Error::Panicked`].
#[inline]
#[track_caller]
pub(crate) fn demand_dimension(what: &str, found: usize, expected: usize) {
    assert!(
        found == expected,
        "{what} of dimension {found}, expected {expected}"
    );
}

/// Formats a number in six digits at most.
pub(crate) fn short(x: f64) -> String {
    let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    match rounded.abs() {
        0.0 => "0".into(),
        size if !(1e-4..1e7).contains(&size) && size.is_finite() => format!("{rounded:e}"),
        _ => rounded.to_string(),
    }
}

/// Longest reason in bytes. Without a limit, a reason that quotes a forged file could have megabytes.
const LONGEST_REASON: usize = 2_000;

/// Escapes control characters of a quoted file, because a terminal would obey them, and cuts long text.
fn printable(reason: &str) -> String {
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

fn coordinate_named(largest: Option<(usize, f64)>) -> String {
    largest.map_or(String::new(), |(index, x)| {
        format!(", largest coordinate {} at index {index}", short(x))
    })
}

fn chains_named(chains: &Range<usize>) -> String {
    match chains.len() {
        1 => format!("chain {}", chains.start),
        _ => format!("chains {chains:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn debug_prints_the_message() {
        let error = Error::invalid("steps", 0, "at least 1");
        let printed = "invalid steps: got 0, expected at least 1";
        assert_eq!(format!("{error:?}"), printed);
        assert_eq!(error.to_string(), printed);
    }

    #[test]
    fn computed_places_are_short() {
        let numbers = [
            0.1 + 0.2,
            1.0,
            0.0,
            1.0 / 3e5,
            -123_456.789,
            1e300,
            f64::NAN,
            f64::INFINITY,
        ];
        let texts = [
            "0.3",
            "1",
            "0",
            "3.33333e-6",
            "-123457",
            "1e300",
            "NaN",
            "inf",
        ];
        assert_eq!(numbers.map(short), texts);
    }

    #[test]
    fn io_errors_stay_as_sources() {
        let missing = || Error::io("a.txt", io::ErrorKind::NotFound.into());
        let Error::File { source, .. } = &missing() else {
            panic!("not a file error");
        };
        assert_eq!(source.as_ref().unwrap().kind(), io::ErrorKind::NotFound);
        assert_eq!(
            missing().source().unwrap().to_string(),
            io::Error::from(io::ErrorKind::NotFound).to_string()
        );
        assert_eq!(missing(), missing().clone());
        assert_ne!(missing(), Error::file("a.txt", "too short"));
        assert!(Error::file("a.txt", "too short").source().is_none());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let missing = Error::io("no/such/a.txt", io::ErrorKind::NotFound.into());
        assert_eq!(
            missing.to_string(),
            "no/such/a.txt: there is no folder no/such"
        );
    }

    #[test]
    fn quoted_files_give_printable_errors() {
        let error = Error::file("a.npy", "dtype \u{1b}[2J, expected floats\nof 32 bits");
        let text = "a.npy: dtype \\u{1b}[2J, expected floats\nof 32 bits";
        assert_eq!(error.to_string(), text);
        assert!(Error::file("a.npy", "x".repeat(1 << 20)).to_string().len() < 2_100);
    }
}
