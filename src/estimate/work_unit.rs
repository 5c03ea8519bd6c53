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
    /// Creates the unit `kT`, `kJ/mol` or `kcal/mol` from its name and a temperature in kelvin, which kT lacks.
    ///
    /// ```
    /// use annealed::estimate::WorkUnit;
    ///
    /// assert_eq!(WorkUnit::named("kJ/mol", Some(300.0))?, WorkUnit::KilojoulesPerMole(300.0));
    /// assert!(WorkUnit::named("kJ/mol", None).is_err());
    /// assert!(WorkUnit::named("kT", Some(300.0)).is_err() && WorkUnit::named("eV", None).is_err());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another name; a temperature for kT, and none for another unit.
    pub fn named(name: &str, temperature: Option<f64>) -> Result<Self> {
        let of_kt = "none for works over kT: name the unit of the works, kJ/mol or kcal/mol";
        let of_mole = "the kelvins at which works in kJ/mol or kcal/mol were measured";
        match (name.to_ascii_lowercase().as_str(), temperature) {
            ("kt", None) => Ok(Self::Kt),
            ("kj/mol", Some(kelvin)) => Ok(Self::KilojoulesPerMole(kelvin)),
            ("kcal/mol", Some(kelvin)) => Ok(Self::KilocaloriesPerMole(kelvin)),
            ("kt", Some(kelvin)) => Err(Error::invalid("temperature", kelvin, of_kt)),
            ("kj/mol" | "kcal/mol", None) => Err(Error::invalid("temperature", "none", of_mole)),
            _ => Err(Error::invalid("unit", name, "kT, kJ/mol or kcal/mol")),
        }
    }

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
        let (kelvin, joules) = match self {
            Self::Kt => return Ok(1.0),
            Self::KilojoulesPerMole(kelvin) => (kelvin, 1_000.0),
            Self::KilocaloriesPerMole(kelvin) => (kelvin, 4_184.0),
        };
        Error::check_positive("temperature", kelvin)?;
        Ok(GAS_CONSTANT * kelvin / joules)
    }

    /// Returns the unit's name: `kT`, `kJ/mol` or `kcal/mol`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kt => "kT",
            Self::KilojoulesPerMole(_) => "kJ/mol",
            Self::KilocaloriesPerMole(_) => "kcal/mol",
        }
    }
}
