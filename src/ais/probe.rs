//! A few chains that tell runs of different paths or kernels apart.

use super::task::AisTask;
use crate::Result;
use crate::model::{UnnormalizedModel, log_densities_of, single_states};
use crate::path::AnnealingPath;
use crate::population::Population;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::{Probe, ProbeChain, caught};

/// Number of probe chains, unless blocks are smaller.
const CHAINS: usize = 8;

fn at_start<P: AnnealingPath>(
    path: &P,
    schedule: &Schedule,
    states: &[P::State],
) -> Vec<ProbeChain> {
    let stages = [1, schedule.stages().div_ceil(2), schedule.stages()];
    let log_densities = |stage| log_densities_of(&path.at(schedule.betas()[stage]), states);
    let seen = stages.map(log_densities);
    let chain = |(chain, state): (usize, &P::State)| {
        let base = path.base().log_density(state);
        ProbeChain::new(base, seen.each_ref().map(|seen| seen[chain]))
    };
    states.iter().enumerate().map(chain).collect()
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
            chain.moved([log_weight, log_density]);
        }
        Ok(Probe { chains, is_single })
    }
}
