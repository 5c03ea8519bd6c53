//! A Potts model on a complete graph, beyond its transition of the first order, with bases for a challenge.

use annealed::Result;
use annealed::adaptive::{FindModes, Target, Trails};
use annealed::estimate::log_sum_exp;
use annealed::kernel::SymmetricProposal;
use annealed::model::Fit;
use annealed::prelude::*;
use annealed::rand::{Rng, RngExt};

/// Largest number of modes.
const MODES: usize = 16;
/// Share of the sites in which two states of one mode may differ.
const APART: f64 = 0.3;
/// Number of states for which the shares over all sites count at each site.
const SMOOTH: f64 = 60.0;

/// The colour of each site, one of Q.
#[derive(Debug, Clone, Default)]
pub struct Colours<const Q: usize>(Vec<u8>);

/// Returns `coupling / (2 n) sum_c n_c^2` as a model, where `n_c` of n sites have colour c.
pub fn potts<const Q: usize>(
    coupling: f64,
) -> FunctionModel<Colours<Q>, impl Fn(&Colours<Q>) -> f64 + Sync + Send> {
    FunctionModel::new(move |state: &Colours<Q>| {
        let mut counts = [0.0; Q];
        for colour in &state.0 {
            counts[usize::from(*colour)] += 1.0;
        }
        let squares: f64 = counts.iter().map(|count| count * count).sum();
        0.5 * coupling * squares / state.0.len() as f64
    })
}

/// Returns the exact log Z, a sum over the sites of each colour.
pub fn exact<const Q: usize>(sites: usize, coupling: f64) -> f64 {
    let factorials: Vec<f64> = (0..=sites)
        .scan(0.0, |log, n| {
            *log += (n.max(1) as f64).ln();
            Some(*log)
        })
        .collect();
    let one = |n: usize| 0.5 * coupling * (n * n) as f64 / sites as f64 - factorials[n];
    let mut all: Vec<f64> = (0..=sites).map(one).collect();
    for _ in 1..Q {
        let split = |n: usize| log_sum_exp((0..=n).map(|k| all[k] + one(n - k)));
        all = (0..=sites).map(split).collect();
    }
    all[sites] + factorials[sites]
}

/// Gives one site another colour.
#[derive(Debug, Clone)]
pub struct Recolour;

impl<const Q: usize> SymmetricProposal<Colours<Q>> for Recolour {
    fn propose<R: Rng + ?Sized>(
        &self,
        _beta: f64,
        state: &Colours<Q>,
        proposal: &mut Colours<Q>,
        rng: &mut R,
    ) {
        proposal.0.clone_from(&state.0);
        let site = rng.random_range(0..state.0.len());
        proposal.0[site] = rng.random_range(0..Q as u8);
    }
}

/// Independent sites, each with the log probabilities of its colours.
#[derive(Debug, Clone)]
pub struct Sites<const Q: usize>(Vec<[f64; Q]>);

impl<const Q: usize> Sites<Q> {
    pub fn uniform(sites: usize) -> Self {
        Self(vec![[-(Q as f64).ln(); Q]; sites])
    }

    /// Returns the shares of the colours at each site in weighted states. At each site the shares over all sites count
    /// as `SMOOTH` further states, and the present probabilities as one.
    fn with<'s>(&self, states: impl IntoIterator<Item = (&'s Colours<Q>, f64)>) -> Self {
        let mut sums = Self(self.0.iter().map(|site| site.map(f64::exp)).collect());
        for (state, weight) in states {
            for (site, colour) in sums.0.iter_mut().zip(&state.0) {
                site[usize::from(*colour)] += weight;
            }
        }
        let mut all = [0.0; Q];
        for site in &sums.0 {
            all.iter_mut().zip(site).for_each(|(all, one)| *all += one);
        }
        let total: f64 = all.iter().sum();
        for site in &mut sums.0 {
            site.iter_mut()
                .zip(&all)
                .for_each(|(one, all)| *one += SMOOTH * all / total);
            let sum: f64 = site.iter().sum();
            site.iter_mut()
                .for_each(|share| *share = (*share / sum).ln());
        }
        sums
    }
}

impl<const Q: usize> UnnormalizedModel for Sites<Q> {
    type State = Colours<Q>;

    fn log_density(&self, state: &Colours<Q>) -> f64 {
        let pairs = self.0.iter().zip(&state.0);
        pairs.map(|(site, colour)| site[usize::from(*colour)]).sum()
    }
}

impl<const Q: usize> NormalizedModel for Sites<Q> {
    fn log_normalizer(&self) -> f64 {
        0.0
    }
}

impl<const Q: usize> Sampleable for Sites<Q> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Colours<Q> {
        let mut colour = |site: &[f64; Q]| {
            let mut left: f64 = rng.random();
            let is_it = |share: &f64| {
                left -= share.exp();
                left < 0.0
            };
            site.iter().position(is_it).unwrap_or(0) as u8
        };
        Colours(self.0.iter().map(&mut colour).collect())
    }
}

impl<const Q: usize> Fit for Sites<Q> {
    fn fit(states: &[Colours<Q>], weights: &[f64]) -> Result<Self> {
        let uniform = Self::uniform(states[0].0.len());
        Ok(uniform.with(states.iter().zip(weights.iter().copied())))
    }

    fn refit(&self, states: &[Colours<Q>], weights: &[f64]) -> Result<Self> {
        Ok(self.with(states.iter().zip(weights.iter().copied())))
    }
}

impl<const Q: usize> FindModes for Colours<Q> {
    type Law = Sites<Q>;

    /// Groups the chains by their final states, and computes the shares of the colours at each site and power.
    fn find_modes(trails: &Trails<Self>, target: &Target<'_, Self>) -> Result<Vec<Vec<Sites<Q>>>> {
        let ends = trails.ends();
        let mut best: Vec<(f64, usize)> = (0..ends.len())
            .map(|chain| (target.log_density(&ends[chain]), chain))
            .collect();
        // The best state comes first in each mode and represents it.
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        let apart = |a: &Self, b: &Self| {
            let differ = a.0.iter().zip(&b.0).filter(|(a, b)| a != b).count();
            differ as f64 > APART * a.0.len() as f64
        };
        let mut modes: Vec<Vec<usize>> = Vec::new();
        for (_, chain) in best {
            match modes
                .iter()
                .position(|mode| !apart(&ends[mode[0]], &ends[chain]))
            {
                Some(mode) => modes[mode].push(chain),
                None if modes.len() < MODES => modes.push(vec![chain]),
                None => {}
            }
        }
        let fitted = |mode: Vec<usize>| {
            let rungs = trails.rungs().step_by(5).take(2);
            let fit = |(_, states): (f64, &[Self])| {
                let uniform = Sites::uniform(ends[0].0.len());
                uniform.with(mode.iter().map(|&chain| (&states[chain], 1.0)))
            };
            rungs.map(fit).collect()
        };
        Ok(modes.into_iter().map(fitted).collect())
    }
}
