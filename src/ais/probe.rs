//! A few chains that tell runs of different paths or kernels apart.

#[cfg(feature = "checkpoint")]
use super::runner::Ais;
use super::task::AisTask;
use crate::model::{UnnormalizedModel, log_densities_of, single_states};
use crate::path::AnnealingPath;
use crate::population::Population;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::caught;
use crate::{Error, Result};
#[cfg(feature = "checkpoint")]
use crate::{kernel::TransitionKernel, num::SimdLevel};

/// Number of probe chains, unless blocks are smaller.
const CHAINS: usize = 8;

/// Relative difference that still counts as equal: machines and parallel sums round differently.
const TOLERANCE: f64 = 1e-6;

/// A few chains that start at samples of the base, with their own streams. Runs with the same schedule, path and kernel
/// have the same ones, in either direction. They move at the first stage only, where they meet no error that the run
/// does not meet. Differences elsewhere go unseen.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Probe {
    chains: Vec<Chain>,
    /// Whether path or kernel asked a model of batches for one state at a time.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) is_single: bool,
}

/// Log densities and log weight of one chain; `-inf` stands for any value that is not finite.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Chain {
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

fn at_start<P: AnnealingPath>(path: &P, schedule: &Schedule, states: &[P::State]) -> Vec<Chain> {
    let stages = [1, schedule.stages().div_ceil(2), schedule.stages()];
    let log_densities = |stage| log_densities_of(&path.at(schedule.betas()[stage]), states);
    let seen = stages.map(log_densities);
    let chains = states.iter().enumerate().map(|(chain, state)| Chain {
        base: finite(path.base().log_density(state)),
        path: seen.iter().map(|seen| finite(seen[chain])).collect(),
        moved: Vec::new(),
    });
    chains.collect()
}

impl<P: AnnealingPath, R> AisTask<'_, P, R> {
    /// Returns the probe of the run; `None` where it meets an error or panic, which the run itself will report.
    pub(crate) fn probe(&self) -> Option<Probe> {
        let met = || self.meet();
        caught(met).ok().and_then(Result::ok)
    }

    fn meet(&self) -> Result<Probe> {
        let (path, schedule) = (&self.path, &self.settings.schedule);
        let (beta, chains) = (
            schedule.betas()[1],
            CHAINS.min(self.settings.largest_block()),
        );
        let first = stream(0, Purpose::Probe, 0);
        let mut population: Population<P> = Population::start(path.clone(), 0, chains, first)?;
        let mut chains = at_start(path, schedule, population.block().states());
        let before = single_states();
        population.advance_by(self.kernel.as_ref(), beta)?;
        let single = single_states() - before;
        let is_single = chains.len() > 1 && single >= chains.len() as u64;
        let log_weights = population.block().log_weights().iter();
        let log_densities = log_densities_of(&self.path.at(beta), population.block().states());
        for ((chain, &log_weight), log_density) in
            chains.iter_mut().zip(log_weights).zip(log_densities)
        {
            chain.moved = vec![finite(log_weight), finite(log_density)];
        }
        Ok(Probe { chains, is_single })
    }
}

impl Probe {
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
                found: found.to_owned(),
                expected: "its own".to_owned(),
            }),
        }
    }

    /// Returns which part of another run differs, path or kernel, and how.
    pub(crate) fn difference(&self, other: &Self) -> Option<(&'static str, &'static str)> {
        let pairs = || self.chains.iter().zip(&other.chains);
        // Random bits may depend on the number of chains in a block.
        let comparable = self.chains.len() == other.chains.len();
        if !pairs().all(|(one, other)| one.starts_as(other)) {
            Some(("path", "from or to another model (base, target or data)"))
        } else if comparable && !pairs().all(|(one, other)| one.moves_as(other)) {
            Some(("kernel", "that moves otherwise (its kind or parameters)"))
        } else {
            None
        }
    }
}

impl Chain {
    fn starts_as(&self, other: &Self) -> bool {
        self.is_close((&[self.base], &[other.base])) && self.is_close((&self.path, &other.path))
    }

    fn moves_as(&self, other: &Self) -> bool {
        self.is_close((&self.moved, &other.moved))
    }

    /// Returns whether values agree, relative to their size and the size of the base's log density.
    fn is_close(&self, (some, others): (&[f64], &[f64])) -> bool {
        let size = 1.0 + self.base.abs();
        let close = |(x, y): (&f64, &f64)| {
            x == y || (x - y).abs() <= TOLERANCE * (size + x.abs().max(y.abs()))
        };
        some.len() == others.len() && some.iter().zip(others).all(close)
    }
}

/// A record of what path and kernel do to a few chains, and with which engine. Processes that share a run compare it.
#[cfg(feature = "checkpoint")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Likeness {
    engine: Option<SimdLevel>,
    probe: Option<Probe>,
}

#[cfg(feature = "checkpoint")]
impl Likeness {
    pub(crate) fn of<P, K>(path: P, kernel: &K, schedule: &Schedule) -> Self
    where
        P: AnnealingPath<State: Send> + Send + Sync,
        K: TransitionKernel<P::At> + Sync,
    {
        let engine = path.simd_level();
        let run = Ais::with_base_log_z(path, kernel, 0.0).schedule(schedule.clone());
        let task = run.task().ok();
        Self {
            engine,
            probe: task.and_then(|task| task.probe()),
        }
    }

    /// Refuses another engine, path or kernel than those of the first process.
    pub(crate) fn check_alike(&self, first: &Self) -> Result<()> {
        let expected = format!(
            "{:?}, as on rank 0: engines round differently; set one that all machines have",
            first.engine
        );
        let found = format!("{:?}", self.engine);
        Error::check(self.engine == first.engine, "engine", found, expected)?;
        Probe::check_found(first.probe.as_ref(), self.probe.as_ref())
    }
}

fn finite(x: f64) -> f64 {
    if x.is_finite() { x } else { f64::NEG_INFINITY }
}
