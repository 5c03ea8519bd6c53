//! The result of a search for a base.

use std::fmt;

use super::mixture_base::MixtureBase;

/// The base found by a [`BaseSearch`](super::BaseSearch): the path's own base mixed with distributions around modes.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct FoundBase<P, L> {
    /// The mixture.
    pub base: MixtureBase<P, L>,
    /// Number of modes found.
    pub modes: usize,
    /// Number of chains that were cooled, from the target to high powers of the target.
    pub starts: usize,
    /// Evaluations of the density; a value with its gradient counts as one.
    pub evaluations: u64,
    /// Whether the log normaliser of the path's own base is right by construction, or was compared with samples of that
    /// base. If false, a run from the mixture relies on an unchecked value.
    pub is_compared: bool,
}

/// Writes what was found, such as `50% of the path's own base and 12 laws, 2 modes from 128 starts`.
impl<P, L> fmt::Display for FoundBase<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = 100.0 * self.base.own_share();
        let (laws, modes) = (self.base.laws().count(), self.modes);
        let of_modes = if modes == 1 { "mode" } else { "modes" };
        write!(
            f,
            "{own:.0}% of the path's own base and {laws} laws, {modes} {of_modes} from {} starts",
            self.starts
        )?;
        match self.is_compared {
            true => Ok(()),
            false => {
                f.write_str("; the base's log normaliser could not be compared with its samples")
            }
        }
    }
}
