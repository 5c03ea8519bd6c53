//! A stand-in for the detection of AMX, on targets and in builds that do not have it.

/// Tiles are never available.
pub(crate) fn are_available() -> bool {
    false
}
