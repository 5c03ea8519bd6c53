//! The errors of this crate. Each names the argument or the place, what was found and what was
//! expected.

use std::fmt::{self, Debug, Display};
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
///
/// `Debug` prints what `Display` prints, so that a program whose `main` returns
/// [`annealed::Result<()>`](Result) ends with a readable message. Two errors are equal where they
/// are of the same kind and print the same text.
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
        /// What would have been accepted.
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
    /// A NaN or an infinity met during a run, with its place.
    #[error(
        "{quantity} is {value} in chain {chain} at stage {stage} (beta = {}{}), expected {expected}",
        short(*beta),
        coordinate_named(*largest)
    )]
    NonFinite {
        /// What was being computed.
        quantity: &'static str,
        /// The value found.
        value: f64,
        /// What would have been accepted.
        expected: &'static str,
        /// Of the state where it was met the coordinate of the largest absolute value, with its index, where states
        /// have coordinates and the kernel knows them.
        largest: Option<(usize, f64)>,
        /// Index of the chain.
        chain: usize,
        /// Index of the stage, 1 to K; 0 is the draw from the base.
        stage: usize,
        /// Inverse temperature of the model reached by the stage.
        beta: f64,
    },
    /// A panic in a user's model, kernel, recorder or progress callback during a run, with its place.
    /// It ends the run: the other blocks of chains stop at the end of their stage. Rust's panic hook has printed its
    /// message before that, once for each thread that met one; under `panic = "abort"` the program ends there.
    #[error(
        "panic in {} at stage {stage} (beta = {}): {message}",
        chains_named(chains),
        short(*beta)
    )]
    Panicked {
        /// What the panic said.
        message: String,
        /// The chain at hand, or all chains of the block where they were handled together.
        chains: Range<usize>,
        /// Index of the stage, 1 to K; 0 is the draw from the base.
        stage: usize,
        /// Inverse temperature of the model reached by the stage.
        beta: f64,
    },
    /// A run that was stopped before its first block of chains was done, so that there is no result.
    #[error(
        "stopped by {by} before the first block of chains was done ({chains}), so that there is no estimate; smaller \
         blocks and fewer stages are done sooner"
    )]
    Stopped {
        /// What stopped it.
        by: String,
        /// Number of chains in the first block.
        chains: usize,
    },
    /// No chain carries any weight, so that log Z cannot be estimated.
    #[error(
        "no chain of {chains} has any weight: none reached the support of the target, or steps \
         of an uncorrected kernel were so far off that every weight vanished; expected a base that \
         overlaps with the target, and steps of the kernel's scale"
    )]
    AllWeightsZero {
        /// Number of chains.
        chains: usize,
    },
    /// A pilot run in which one chain carries nearly all the weight. Such a pilot is no basis for
    /// the choice of a schedule.
    #[error(
        "the pilot collapsed: its effective sample size is {effective_sample_size:.2} of {chains} at \
         beta = {}; expected a pilot with more steps, chains or rounds",
        short(*beta)
    )]
    PilotCollapsed {
        /// Effective sample size where it is lowest, a count.
        effective_sample_size: f64,
        /// Number of pilot chains.
        chains: usize,
        /// Where on the path.
        beta: f64,
    },
    /// A gradient that is not that of its log density, as differences of the density show. Pilots look for it (tuning,
    /// [`AdaptiveSmc`](crate::adaptive::AdaptiveSmc), [`Rounds`](crate::adaptive::Rounds)); a run with a kernel as it is does not.
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
        /// The slope of its log density.
        difference: f64,
    },
    /// A computation that did not converge.
    #[error("{what} did not converge: {detail}")]
    NotConverged {
        /// What was being solved for.
        what: &'static str,
        /// How far it got.
        detail: String,
    },
    /// A checkpoint, a part, or another process, whose run is not this one.
    #[error("of another run, which has {setting} {found}; this run has {expected}")]
    OtherRun {
        /// What differs first.
        setting: &'static str,
        /// What it is there.
        found: String,
        /// What it is here.
        expected: String,
    },
    /// A failure of one rank of a run on several, as the other ranks report it, or a message of it that
    /// cannot be read.
    #[cfg(feature = "mpi")]
    #[error("rank {rank}: {message}")]
    Rank {
        /// Index of the process that failed.
        rank: usize,
        /// What went wrong there.
        message: String,
    },
    /// A file that could not be read or written.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What was wrong and what was expected.
        reason: String,
        /// The error of the operating system, where it was one.
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
        let kind = std::mem::discriminant::<Self>;
        kind(self) == kind(other) && self.to_string() == other.to_string()
    }
}

/// A number in six digits at most, for a place that was computed.
pub(crate) fn short(x: f64) -> String {
    let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    match rounded.abs() {
        0.0 => "0".into(),
        size if !(1e-4..1e7).contains(&size) && size.is_finite() => format!("{rounded:e}"),
        _ => rounded.to_string(),
    }
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

/// Errors for one's own models, kernels and file formats.
impl Error {
    /// An [`Error::InvalidArgument`].
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

    /// An [`Error::File`] about what a file holds.
    pub fn file(path: impl AsRef<Path>, reason: impl Display) -> Self {
        Self::File {
            path: path.as_ref().display().to_string(),
            reason: reason.to_string(),
            source: None,
        }
    }

    /// An [`Error::File`] about a file that the operating system could not read or write. It says so where the
    /// file's folder is missing.
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

/// Panics with both numbers where something has another dimension than is demanded. It is for functions that are called
/// at each step and return no `Result`; a run makes [`Error::Panicked`] of it.
#[inline]
#[track_caller]
pub(crate) fn demand_dimension(what: &str, found: usize, expected: usize) {
    assert!(
        found == expected,
        "{what} of dimension {found}, expected {expected}"
    );
}

/// The largest number of stages, chains, updates or coordinates: 8 GiB of numbers.
const LARGEST_COUNT: usize = 1 << 30;

/// Checks of arguments.
impl Error {
    /// A panic among these chains, before or beside any stage.
    pub(crate) fn panicked(message: String, chains: Range<usize>) -> Self {
        let (stage, beta) = (0, 0.0);
        Self::Panicked {
            message,
            chains,
            stage,
            beta,
        }
    }

    /// An [`Error::OtherRun`] unless what is found elsewhere is as in this run.
    pub(crate) fn check_found<T: PartialEq + Debug>(
        setting: &'static str,
        found: &T,
        expected: &T,
    ) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Self::OtherRun {
            setting,
            found: format!("{found:?}"),
            expected: format!("{expected:?}"),
        })
    }

    /// An [`Error::InvalidArgument`] unless the condition holds.
    pub(crate) fn check(
        holds: bool,
        argument: &'static str,
        value: impl Display,
        expected: impl Into<String>,
    ) -> Result<()> {
        match holds {
            true => Ok(()),
            false => Err(Self::invalid(argument, value, expected)),
        }
    }

    /// An [`Error::InvalidArgument`] where a count is below `least`.
    pub(crate) fn check_at_least(argument: &'static str, count: usize, least: usize) -> Result<()> {
        Self::check(count >= least, argument, count, format!("at least {least}"))
    }

    /// An [`Error::InvalidArgument`] where a count is below `least`, or larger than any that can be
    /// worked off.
    pub(crate) fn check_count(argument: &'static str, count: usize, least: usize) -> Result<()> {
        Self::check_at_least(argument, count, least)?;
        let expected = format!("at most {LARGEST_COUNT}");
        Self::check(count <= LARGEST_COUNT, argument, count, expected)
    }

    /// An empty list with room for so many entries, or an [`Error::InvalidArgument`] where memory has
    /// none.
    pub(crate) fn reserved<T>(argument: &'static str, count: usize) -> Result<Vec<T>> {
        let mut list = Vec::new();
        let reserved = list.try_reserve_exact(count);
        let expected = "a number for which there is memory";
        reserved.map_err(|_| Self::invalid(argument, count, expected))?;
        Ok(list)
    }

    /// An [`Error::InvalidArgument`] for a list without entries.
    pub(crate) fn check_not_empty(argument: &'static str, length: usize) -> Result<()> {
        Self::check(length > 0, argument, "none", "at least one")
    }

    /// The count, or an [`Error::InvalidArgument`] where it is 0.
    pub(crate) fn check_nonzero(argument: &'static str, count: usize) -> Result<NonZeroUsize> {
        NonZeroUsize::new(count).ok_or_else(|| Self::invalid(argument, 0, "at least 1"))
    }

    /// An [`Error::DimensionMismatch`] unless the two sizes agree.
    pub(crate) fn check_dimension(
        argument: &'static str,
        found: usize,
        expected: usize,
    ) -> Result<()> {
        match found == expected {
            true => Ok(()),
            false => Err(Self::DimensionMismatch {
                argument,
                found,
                expected,
            }),
        }
    }

    /// An [`Error::InvalidArgument`] unless the value is finite and positive.
    pub(crate) fn check_positive(argument: &'static str, value: f64) -> Result<()> {
        let positive = value.is_finite() && value > 0.0;
        Self::check(positive, argument, value, "a finite number above 0")
    }

    /// An [`Error::InvalidArgument`] unless the value lies in `[0, 1]`.
    pub(crate) fn check_fraction(argument: &'static str, value: f64) -> Result<()> {
        let within = (0.0..=1.0).contains(&value);
        Self::check(within, argument, value, "a number in [0, 1]")
    }

    /// An [`Error::InvalidArgument`] unless the value lies in `(0, 1]`.
    pub(crate) fn check_positive_fraction(argument: &'static str, value: f64) -> Result<()> {
        let within = value > 0.0 && value <= 1.0;
        Self::check(within, argument, value, "a number in (0, 1]")
    }

    /// An [`Error::InvalidArgument`] unless the value lies in `(0, 1)`.
    pub(crate) fn check_inner_fraction(argument: &'static str, value: f64) -> Result<()> {
        let within = value > 0.0 && value < 1.0;
        Self::check(within, argument, value, "a number in (0, 1)")
    }

    /// An [`Error::InvalidArgument`] unless the value is finite.
    pub(crate) fn check_number(argument: &'static str, value: f64) -> Result<()> {
        Self::check(value.is_finite(), argument, value, "a finite number")
    }

    /// An [`Error::InvalidArgument`] that names the first entry that is not finite.
    pub(crate) fn check_finite(
        argument: &'static str,
        values: impl IntoIterator<Item = f64>,
    ) -> Result<()> {
        let values = values.into_iter().enumerate();
        Self::check_each(argument, "index", values, f64::is_finite, "finite numbers")
    }

    /// An [`Error::InvalidArgument`] that names the first value for which the condition does not
    /// hold, and its place: `place` says what the places are, as an index.
    pub(crate) fn check_each(
        argument: &'static str,
        place: &str,
        values: impl IntoIterator<Item = (impl Display, f64)>,
        holds: impl Fn(f64) -> bool,
        expected: &str,
    ) -> Result<()> {
        match values.into_iter().find(|(_, x)| !holds(*x)) {
            None => Ok(()),
            Some((at, x)) => Err(Self::invalid(
                argument,
                format!("{x} at {place} {at}"),
                expected,
            )),
        }
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
}
