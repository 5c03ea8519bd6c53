//! The identity of a run: its settings by name, and the effect of path and kernel on a few chains.

use std::fmt::Debug;

#[cfg(feature = "checkpoint")]
use super::bytes::checksum;
use crate::num::SimdLevel;
#[cfg(feature = "checkpoint")]
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Names and values of the settings that determine the bits of a run.
pub(crate) type Named = Vec<(&'static str, String)>;

pub(crate) fn named(name: &'static str, value: &dyn Debug) -> (&'static str, String) {
    (name, format!("{value:?}"))
}

/// Returns the setting `engine`, which affects the bits of a run: the path's arithmetic, and any use of surrogates.
pub(crate) fn named_engine(
    level: Option<SimdLevel>,
    has_surrogates: bool,
) -> (&'static str, String) {
    let name = level.map_or("none", SimdLevel::arithmetic);
    let surrogates = if has_surrogates {
        " with surrogates"
    } else {
        ""
    };
    ("engine", format!("{name}{surrogates}"))
}

/// Returns an error that names the first setting in which `found` differs from `mine`, if any does.
pub(crate) fn check_named(mine: &Named, found: &Named) -> Result<()> {
    let found = found.iter().map(|(_, value)| value);
    check_values(mine.iter().map(|(name, value)| (*name, value)), found)
}

fn check_values<'v>(
    mine: impl Iterator<Item = (&'static str, &'v String)>,
    found: impl Iterator<Item = &'v String>,
) -> Result<()> {
    match mine.zip(found).find(|((_, mine), found)| mine != found) {
        None => Ok(()),
        Some(((setting, mine), found)) => Err(Error::OtherRun {
            setting,
            found: found.clone(),
            expected: mine.clone(),
        }),
    }
}

/// Relative difference that still counts as equal, because machines and parallel sums round differently.
const TOLERANCE: f64 = 1e-6;

/// A few chains that show whether two runs have the same path and kernel. They start at samples of the base, with their
/// own streams, and are the same for forward and reverse runs. They move at the first stage only, because the run
/// itself then makes the same kind of move and reports any error. Differences at other stages remain undetected.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Probe {
    chains: Vec<ProbeChain>,
    /// Whether path or kernel asked a batch model for one state at a time.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) is_single: bool,
}

/// Log densities and log weight of one chain; `-inf` stands for any value that is not finite.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct ProbeChain {
    /// Log density at the start under the base.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    base: f64,
    /// Log densities at the start under the models of the first, middle and last stage.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    path: Vec<f64>,
    /// Log weight and log density after the first stage.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    moved: Vec<f64>,
}

impl Probe {
    /// Creates the probe. `starts` contains log densities at the starts, first under the base, then along the path;
    /// `moved` contains figures of the chains after the first stage. Each inner list has an entry for each chain.
    pub(crate) fn of(starts: &[Vec<f64>], moved: &[Vec<f64>], is_single: bool) -> Self {
        let finite = |column: &Vec<f64>, chain: usize| finite(column[chain]);
        let chain = |chain| ProbeChain {
            base: finite(&starts[0], chain),
            path: starts[1..]
                .iter()
                .map(|column| finite(column, chain))
                .collect(),
            moved: moved.iter().map(|column| finite(column, chain)).collect(),
        };
        let chains = (0..starts[0].len()).map(chain).collect();
        Self { chains, is_single }
    }

    /// Returns the median absolute log density of the base at its own samples.
    pub(crate) fn size_of_base(&self) -> f64 {
        let sizes = self.chains.iter().map(|chain| chain.base.abs());
        let mut sizes: Vec<f64> = sizes.filter(|size| size.is_finite()).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
    }

    /// Refuses another run's probe if it differs from this run's.
    pub(crate) fn check_found(mine: Option<&Self>, found: Option<&Self>) -> Result<()> {
        let (Some(mine), Some(found)) = (mine, found) else {
            return Ok(());
        };
        match mine.difference(found) {
            None => Ok(()),
            Some((setting, found)) => Err(Error::OtherRun {
                setting,
                found,
                expected: "its own".to_owned(),
            }),
        }
    }

    /// Returns which part of another run differs, path or kernel, and how.
    pub(crate) fn difference(&self, other: &Self) -> Option<(&'static str, String)> {
        let differs = |is_like: fn(&ProbeChain, &ProbeChain) -> bool| {
            let mut pairs = self.chains.iter().zip(&other.chains);
            pairs.position(|(mine, theirs)| !is_like(mine, theirs))
        };
        let shown = |what, chain| format!("{what}, as chain {chain} of a probe shows");
        let starts_alike = |mine: &ProbeChain, theirs: &ProbeChain| {
            mine.is_close(&[mine.base], &[theirs.base]) && mine.is_close(&mine.path, &theirs.path)
        };
        if let Some(chain) = differs(starts_alike) {
            let found = shown("from or to another model (base, target or data)", chain);
            return Some(("a path", found));
        }
        // Random bits may depend on the number of chains in a block.
        let comparable = self.chains.len() == other.chains.len();
        let moves_alike =
            |mine: &ProbeChain, theirs: &ProbeChain| mine.is_close(&mine.moved, &theirs.moved);
        let chain = differs(moves_alike).filter(|_| comparable)?;
        let found = shown("that moves otherwise (its kind or parameters)", chain);
        Some(("a kernel", found))
    }
}

impl ProbeChain {
    /// Returns whether two lists agree up to [`TOLERANCE`], relative to their values and the base's log density.
    fn is_close(&self, some: &[f64], others: &[f64]) -> bool {
        let size = 1.0 + self.base.abs();
        let mut pairs = some.iter().zip(others);
        some.len() == others.len() && pairs.all(|(&x, &y)| is_close(x, y, size))
    }
}

/// Returns whether two numbers agree up to [`TOLERANCE`], relative to `size` and their own sizes.
pub(super) fn is_close(x: f64, y: f64, size: f64) -> bool {
    x == y || (x - y).abs() <= TOLERANCE * (size + x.abs().max(y.abs()))
}

fn finite(x: f64) -> f64 {
    // A NaN would differ from itself, so that no run could match its own probe.
    if x.is_finite() { x } else { f64::NEG_INFINITY }
}

/// The identity of a run. It matches a checkpoint to its run, and the processes that share a run to each other.
#[cfg(feature = "checkpoint")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// Names of the settings. They are not written, because the run that reads them has the same names.
    #[serde(skip)]
    names: Vec<&'static str>,
    settings: Vec<String>,
    /// Stages set by the user.
    schedule: Option<Schedule>,
    /// Number of chains or rounds. A checkpoint may be continued by a run that has more of them.
    pub(crate) length: usize,
    #[serde(skip)]
    unit: &'static str,
    probe: Option<Probe>,
    /// Checksum of the outcome of a few chains at the first, middle and last stage.
    checksum: u32,
}

/// The degree to which two identities must agree.
#[cfg(feature = "checkpoint")]
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Alike {
    /// The runs have the same bits, but may differ in length.
    Exactly,
    /// The runs have the same settings and length, but other machines may have rounded their figures.
    ToRounding,
}

#[cfg(feature = "checkpoint")]
impl Identity {
    pub(crate) fn new(settings: Named, probe: Option<Probe>, checksum: u32) -> Self {
        let (names, settings) = settings.into_iter().unzip();
        Self {
            names,
            settings,
            schedule: None,
            length: 0,
            unit: "length",
            probe,
            checksum,
        }
    }

    pub(crate) fn with_schedule(self, schedule: &Schedule) -> Self {
        let schedule = Some(schedule.clone());
        Self { schedule, ..self }
    }

    /// Sets the number of chains or rounds, and its name.
    pub(crate) fn with_length(self, unit: &'static str, length: usize) -> Self {
        Self {
            length,
            unit,
            ..self
        }
    }

    /// Adds `bytes` to the checksum: data that do not affect the probe chains.
    pub(crate) fn with_checksum_of(self, bytes: &[u8]) -> Self {
        let all = [&self.checksum.to_le_bytes(), bytes].concat();
        Self {
            checksum: checksum(&all),
            ..self
        }
    }

    /// Refuses another run. The error names the setting that differs, or path or kernel and a chain that differs.
    pub(crate) fn check(&self, found: &Self, alike: Alike) -> Result<()> {
        Error::check_dimension("settings", found.settings.len(), self.settings.len())?;
        // One of the two identities was read from bytes and has no names.
        let names = self.names.iter().chain(&found.names).copied();
        check_values(names.zip(&self.settings), found.settings.iter())?;
        if let (Some(mine), Some(found)) = (&self.schedule, &found.schedule) {
            mine.check_found(found)?;
        }
        if alike == Alike::ToRounding {
            Error::check_found(found.unit, &found.length, &self.length)?;
        }
        Probe::check_found(self.probe.as_ref(), found.probe.as_ref())?;
        // Not between processes, whose figures may differ by rounding: what only the checksum sees is not compared there.
        if alike == Alike::Exactly && found.checksum != self.checksum {
            return Err(Error::OtherRun {
                setting: "a path and kernel",
                found: "that do something else".to_owned(),
                expected: "other parameters, data, machine or build".to_owned(),
            });
        }
        Ok(())
    }

    /// Returns this identity with the probe and checksum of `first`, whose process may run on a machine that rounds
    /// differently.
    pub(crate) fn rounded_as(self, first: &Self) -> Self {
        Self {
            probe: first.probe.clone(),
            checksum: first.checksum,
            ..self
        }
    }
}
