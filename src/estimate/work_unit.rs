//! Units of work.

use crate::{Error, Result};

/// The unit of works and free energies.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum WorkUnit {
    /// The thermal energy kT: works over kT.
    Kt,
    /// Kilojoules a mole, at a temperature in kelvin.
    KilojoulesPerMole(f64),
    /// Kilocalories a mole (of 4.184 kJ), at a temperature in kelvin.
    KilocaloriesPerMole(f64),
}

/// The gas constant, in J/(mol K). It is exact since 2019.
const GAS_CONSTANT: f64 = 8.314_462_618_153_24;

impl WorkUnit {
    /// Returns kT in this unit: 1, or RT with the gas constant R = 8.314 J/(mol K).
    ///
    /// ```
    /// use annealed::estimate::WorkUnit;
    ///
    /// assert!((WorkUnit::KilojoulesPerMole(300.0).kt()? - 2.494).abs() < 1e-3);
    /// assert!((WorkUnit::KilocaloriesPerMole(300.0).kt()? - 0.596).abs() < 1e-3);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// A temperature that is not a finite number above 0.
    pub fn kt(self) -> Result<f64> {
        let (kelvin, joules, _) = self.parts();
        Error::check_positive("temperature", kelvin)?;
        Ok(GAS_CONSTANT * kelvin / joules)
    }

    /// Returns the temperature, the unit's size in J/mol, and its name.
    pub(super) fn parts(self) -> (f64, f64, &'static str) {
        match self {
            Self::Kt => (1.0, GAS_CONSTANT, "kT"),
            Self::KilojoulesPerMole(kelvin) => (kelvin, 1_000.0, "kJ/mol"),
            Self::KilocaloriesPerMole(kelvin) => (kelvin, 4_184.0, "kcal/mol"),
        }
    }
}
