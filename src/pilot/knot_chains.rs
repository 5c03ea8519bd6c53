//! Chains at the knots of a path.

use crate::ais::Population;
use crate::chain::Block;
use crate::kernel::{TransitionKernel, refuse_stages};
use crate::path::{AnnealingPath, Intermediate};
use crate::random::{Purpose, stream};
use crate::{Error, Result};

/// Chains that pass the knots one after another and stay for a while at each: how a
/// [`BinnedSchedule`](crate::pilot::BinnedSchedule) estimates its costs.
///
/// Their weights are not used: under a kernel that is not invariant, such as unadjusted Langevin, the
/// costs are those of the laws in which the chains settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KnotChains {
    /// Number of chains.
    pub chains: usize,
    /// Steps of each chain at a knot.
    pub updates: usize,
    /// Of these, the first ones that are not counted.
    pub burn_in: usize,
    /// Counted steps are `thinning` steps apart.
    pub thinning: usize,
}

impl Default for KnotChains {
    /// 100 chains and 100 updates a knot, half of them burn-in, every tenth counted: about as
    /// cheap as the default [`Pilot`](crate::pilot::Pilot).
    fn default() -> Self {
        Self {
            chains: 100,
            updates: 100,
            burn_in: 50,
            thinning: 10,
        }
    }
}

impl KnotChains {
    /// The setting of Kiwaki (2015) for this method: 1,000 chains, 6,000 updates a knot, of which
    /// 1,000 are burn-in. With ten segments that is 6.6e7 chain-steps, as many as 6,600 steps of
    /// 10,000 chains.
    pub fn paper() -> Self {
        Self {
            chains: 1_000,
            updates: 6_000,
            burn_in: 1_000,
            thinning: 10,
        }
    }

    fn check(&self) -> Result<()> {
        Error::check_count("chains at the knots", self.chains, 2)?;
        Error::check_at_least("thinning", self.thinning, 1)?;
        // The burn-in and one counted step.
        let least = self.burn_in.saturating_add(self.thinning);
        Error::check_count("updates", self.updates, least)
    }

    pub(crate) fn costs<'p, P, K>(
        &self,
        path: &'p P,
        kernel: &K,
        knots: &[f64],
        seed: u64,
    ) -> Result<Vec<f64>>
    where
        P: AnnealingPath,
        K: TransitionKernel<P::At<'p>>,
    {
        self.check()?;
        refuse_stages(kernel.stages())?;
        let first = stream(seed, Purpose::Knots, 0);
        let mut population = Population::start(path, 0, self.chains, first)?;
        let mut costs = vec![0.0; knots.len() - 1];
        for j in 0..knots.len() {
            if j > 0 {
                population.place_at(knots[j])?;
            }
            let back = (j > 0).then(|| path.at(knots[j - 1]));
            let ahead = (j + 1 < knots.len()).then(|| path.at(knots[j + 1]));
            let [from_back, to_ahead] = self.means(&mut population, kernel, back, ahead)?;
            if j > 0 {
                costs[j - 1] += 0.5 * finite(from_back, knots[j], knots[j - 1])?;
            }
            if j < costs.len() {
                costs[j] -= 0.5 * finite(to_ahead, knots[j], knots[j + 1])?;
            }
        }
        Ok(costs)
    }

    /// Moves the chains at the knot where they stand, and averages two log ratios over them: that of
    /// this knot to the one behind, and that of the knot ahead to this one.
    fn means<'p, P, K>(
        &self,
        chains: &mut Population<'p, P, K::Workspace>,
        kernel: &K,
        back: Option<P::At<'p>>,
        ahead: Option<P::At<'p>>,
    ) -> Result<[f64; 2]>
    where
        P: AnnealingPath,
        K: TransitionKernel<P::At<'p>>,
    {
        let mut sums = [0.0; 2];
        for update in 1..=self.updates {
            chains.stay(kernel)?;
            if update > self.burn_in && (update - self.burn_in).is_multiple_of(self.thinning) {
                let (here, block) = (chains.stage().model, chains.block());
                sums[0] += mean_log_ratio(block, Some(here), back.as_ref())?;
                sums[1] += mean_log_ratio(block, ahead.as_ref(), Some(here))?;
            }
        }
        let counted = ((self.updates - self.burn_in) / self.thinning) as f64;
        Ok(sums.map(|sum| sum / counted))
    }
}

/// Refuses a mean log ratio over the chains at one beta that is infinite, as it is where the model at
/// another beta excludes one of them.
fn finite(mean: f64, here: f64, there: f64) -> Result<f64> {
    if mean.is_finite() {
        return Ok(mean);
    }
    Err(Error::invalid(
        "path",
        format!("chains at beta = {here} off the support of beta = {there}"),
        "one support at all knots, since the divergence between two is infinite otherwise; \
         Friction and VarOpt do without",
    ))
}

/// Mean of `log f_to - log f_from` over the living chains; 0 beyond the path's ends.
fn mean_log_ratio<M: Intermediate>(
    block: &Block<M::State>,
    to: Option<&M>,
    from: Option<&M>,
) -> Result<f64> {
    let (Some(to), Some(from)) = (to, from) else {
        return Ok(0.0);
    };
    let ratio = |chain: usize| to.log_ratio(from, &block.states()[chain]);
    match block.alive().count() {
        0 => Err(Error::AllWeightsZero {
            chains: block.len(),
        }),
        count => Ok(block.alive().map(ratio).sum::<f64>() / count as f64),
    }
}
