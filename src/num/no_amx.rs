//! Stands for the detection of AMX on targets and in builds that do not have it.

/// Never.
pub(crate) fn are_available() -> bool {
    false
}
