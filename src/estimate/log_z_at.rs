//! Log Z at one place of a path.

use std::fmt::{self, Display, Formatter};

use super::log_z::{is_skewed, write_figures};

/// Log Z at one beta of a path, from a run that passes it: [`Run::log_z_along`](crate::ais::Run::log_z_along),
/// [`TemperingRun::log_z_along`](crate::tempering::TemperingRun::log_z_along).
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias("free energy curve"))]
#[non_exhaustive]
pub struct LogZAt {
    /// Place on the path.
    pub beta: f64,
    /// Estimate of log Z there.
    pub log_z: f64,
    /// Standard error of `log_z`.
    pub standard_error: f64,
    /// 95% confidence interval of log Z.
    pub interval: (f64, f64),
}

/// Writes `beta 0.250: log Z = 208.631 +- 0.021 (95% interval 208.590 to 208.672)`. The error is left out if the
/// interval is [skewed](super::LogZ::is_skewed).
impl Display for LogZAt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "beta {:.3}: log Z = ", self.beta)?;
        let figures = (self.log_z, self.standard_error, self.interval);
        write_figures(f, figures, is_skewed(self.log_z, self.interval), "")?;
        write!(f, ")")
    }
}
