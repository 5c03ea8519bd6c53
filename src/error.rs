//! Typed errors: each names the argument or the place, what was found and what was expected.

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
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
        "{quantity} is {value} in chain {chain} at stage {stage} (beta = {beta}), expected {expected}"
    )]
    NonFinite {
        /// What was being computed.
        quantity: &'static str,
        /// The value found.
        value: f64,
        /// What would have been accepted.
        expected: &'static str,
        /// Index of the chain.
        chain: usize,
        /// Index of the stage, 1 to K; 0 is the draw from the base.
        stage: usize,
        /// Inverse temperature of the model reached by the stage.
        beta: f64,
    },
    /// No chain carries any weight, so that nothing can be said of log Z.
    #[error(
        "all {chains} chains have weight zero: no chain reached the support of the target, or steps \
         of an uncorrected kernel were so far off that every weight vanished; expected a base that \
         overlaps with the target, and steps of the kernel's scale"
    )]
    AllWeightsZero {
        /// Number of chains.
        chains: usize,
    },
    /// A pilot run in which one chain came to carry nearly all the weight, so that it says nothing
    /// to choose a schedule by.
    #[error(
        "the pilot collapsed: its effective sample size is {effective_sample_size:.2} of {chains} \
         chains at beta = {beta}; expected a pilot with more steps, chains or rounds"
    )]
    PilotCollapsed {
        /// Effective sample size where it is lowest, a count.
        effective_sample_size: f64,
        /// Number of pilot chains.
        chains: usize,
        /// Where on the path.
        beta: f64,
    },
    /// A computation that did not converge.
    #[error("{what} did not converge: {detail}")]
    NotConverged {
        /// What was being solved for.
        what: &'static str,
        /// How far it got.
        detail: String,
    },
    /// A file that could not be read or written.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What was wrong and what was expected.
        reason: String,
    },
}

impl Error {
    /// An [`Error::InvalidArgument`].
    pub fn invalid(
        argument: &'static str,
        value: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::InvalidArgument {
            argument,
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    /// An [`Error::DimensionMismatch`] unless the two sizes agree.
    pub(crate) fn check_dimension(
        argument: &'static str,
        found: usize,
        expected: usize,
    ) -> Result<()> {
        if found == expected {
            Ok(())
        } else {
            Err(Self::DimensionMismatch {
                argument,
                found,
                expected,
            })
        }
    }

    /// An [`Error::InvalidArgument`] unless the value is finite and positive.
    pub(crate) fn check_positive(argument: &'static str, value: f64) -> Result<()> {
        if value.is_finite() && value > 0.0 {
            Ok(())
        } else {
            Err(Self::invalid(argument, value, "a finite number above 0"))
        }
    }

    /// An [`Error::InvalidArgument`] unless the value is finite.
    pub(crate) fn check_number(argument: &'static str, value: f64) -> Result<()> {
        if value.is_finite() {
            Ok(())
        } else {
            Err(Self::invalid(argument, value, "a finite number"))
        }
    }

    /// An [`Error::InvalidArgument`] that names the first entry that is not finite.
    pub(crate) fn check_finite(
        argument: &'static str,
        values: impl IntoIterator<Item = f64>,
    ) -> Result<()> {
        match values.into_iter().enumerate().find(|(_, x)| !x.is_finite()) {
            None => Ok(()),
            Some((index, x)) => Err(Self::invalid(
                argument,
                format!("{x} at index {index}"),
                "finite numbers",
            )),
        }
    }
}
