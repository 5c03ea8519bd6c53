//! A few chains, by which runs of another path or kernel are told from each other.

use super::settings::Settings;
use crate::kernel::{Block, TransitionKernel, check_stages};
use crate::model::UnnormalizedModel;
use crate::path::AnnealingPath;
use crate::population::Population;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::caught;
use crate::{Error, Result};

/// Number of chains, where a block has so many.
const CHAINS: usize = 8;

/// Figures that differ by less than this share of them count as the same: machines round differently, and so do models
/// that add up on many threads.
const TOLERANCE: f64 = 1e-6;

/// A few chains that start at samples of the base, with streams of their own. Two runs along one schedule by one path and
/// kernel, forward or backward, have the same ones.
///
/// They show no difference in what they do not meet. At the first stage, where the kernel moves them, they are near
/// equilibrium, so that they meet nothing that a run does not meet.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Probe {
    chains: Vec<Chain>,
}

/// Log densities of a chain at its start, under models of the path, and what the first stage makes of it. `-inf` stands for
/// whatever is not finite.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Chain {
    /// Under the base.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    base: f64,
    /// Under the models of the first and the middle stage, and under the target.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    path: Vec<f64>,
    /// The log weight after the first stage, and the log density there.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    moved: Vec<f64>,
}

/// Returns the chains at their start, seen by the models of three stages.
fn at_start<P: AnnealingPath>(path: &P, schedule: &Schedule, states: &[P::State]) -> Vec<Chain> {
    let stages = [1, schedule.steps().div_ceil(2), schedule.steps()];
    let models = stages.map(|stage| path.at(schedule.betas()[stage]));
    let seen = |x: &P::State| Chain {
        base: finite(path.base().log_density(x)),
        path: models
            .iter()
            .map(|model| finite(model.log_density(x)))
            .collect(),
        moved: Vec::new(),
    };
    states.iter().map(seen).collect()
}

/// Adds what the first stage made of the chains.
fn moved<M: UnnormalizedModel>(chains: &mut [Chain], block: &Block<M::State>, model: &M) {
    for (chain, found) in chains.iter_mut().enumerate() {
        let log_density = model.log_density(&block.states()[chain]);
        found.moved = vec![finite(block.log_weights()[chain]), finite(log_density)];
    }
}

impl Probe {
    /// That of a run with these settings; `None` where its chains meet an error or a panic, which the run will name.
    pub(crate) fn of<'p, P, K>(path: &'p P, kernel: &K, settings: &Settings) -> Option<Self>
    where
        P: AnnealingPath,
        K: TransitionKernel<P::At<'p>>,
    {
        let met = || Self::meet(path, kernel, settings);
        caught(met).ok().and_then(Result::ok)
    }

    fn meet<'p, P, K>(path: &'p P, kernel: &K, settings: &Settings) -> Result<Self>
    where
        P: AnnealingPath,
        K: TransitionKernel<P::At<'p>>,
    {
        let (schedule, betas) = (&settings.schedule, settings.schedule.betas());
        check_stages("steps of the schedule", kernel.stages(), schedule)?;
        let (chains, first) = (
            CHAINS.min(settings.largest_block()),
            stream(0, Purpose::Probe, 0),
        );
        let mut population: Population<'p, P, K::Workspace> =
            Population::start(path, 0, chains, first)?;
        let mut chains = at_start(path, schedule, population.block().states());
        population.advance_to(kernel, betas[1])?;
        moved(&mut chains, population.block(), population.stage().model);
        Ok(Self { chains })
    }

    /// The size of the base's log density at its own samples: the median of their absolute values.
    pub(crate) fn size_of_base(&self) -> f64 {
        let sizes = self.chains.iter().map(|chain| chain.base.abs());
        let mut sizes: Vec<f64> = sizes.filter(|size| size.is_finite()).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
    }

    /// Refuses the probe of a run found elsewhere whose path or kernel does something else than that of this run.
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

    /// What another run has of its own, and how it differs.
    pub(crate) fn difference(&self, other: &Self) -> Option<(&'static str, &'static str)> {
        let pairs = || self.chains.iter().zip(&other.chains);
        // The random bits of a block may depend on the number of its chains.
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

    /// Whether figures agree, beside those from which they may have been computed.
    fn is_close(&self, (some, others): (&[f64], &[f64])) -> bool {
        let size = 1.0 + self.base.abs();
        let close = |(x, y): (&f64, &f64)| {
            x == y || (x - y).abs() <= TOLERANCE * (size + x.abs().max(y.abs()))
        };
        some.len() == others.len() && some.iter().zip(others).all(close)
    }
}

fn finite(x: f64) -> f64 {
    if x.is_finite() { x } else { f64::NEG_INFINITY }
}
