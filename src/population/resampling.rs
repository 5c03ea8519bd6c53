//! Resampling between stages: sequential Monte Carlo.

use std::num::NonZeroUsize;

use rand::Rng;

use crate::num::WeightSums;
use crate::random::resampling_scheme::ResamplingScheme;
use crate::{Error, Result};

/// A rule for resampling the chains of a block between stages: sequential Monte Carlo (Del Moral, Doucet and Jasra
/// 2006). Copies of heavy chains replace light chains, and all continue with the mean weight.
///
/// Each block ([`Ais::block_size`](crate::ais::Ais::block_size)) is an island that resamples by itself. At fixed betas
/// and with a fixed kernel, `E[w] = Z_K/Z_0` holds for any rule, because decisions depend only on the past.
///
/// ```
/// use annealed::population::{Resampling, ResamplingScheme};
///
/// let by_need = Resampling::when_ess_below(0.5)?;
/// let often = Resampling::every(10)?.scheme(ResamplingScheme::Residual);
/// let chosen = Resampling::at([20, 50, 70, 80])?;
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias("SMC", "sequential Monte Carlo", "particle filter"))]
pub struct Resampling {
    rule: Rule,
    scheme: ResamplingScheme,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Rule {
    Every(NonZeroUsize),
    EssBelow(f64),
    /// Strictly increasing stages, none equal to 0.
    At(Vec<usize>),
}

impl Resampling {
    /// Creates systematic resampling after every `stages` stages.
    ///
    /// # Errors
    /// `stages` of 0.
    pub fn every(stages: usize) -> Result<Self> {
        let stages = Error::check_nonzero("stages", stages)?;
        Ok(Self::by(Rule::Every(stages)))
    }

    /// Creates systematic resampling of a block when its effective sample size is below `share` of its chains.
    ///
    /// # Errors
    /// A `share` outside (0, 1].
    pub fn when_ess_below(share: f64) -> Result<Self> {
        Error::check_positive_fraction("share", share)?;
        Ok(Self::by(Rule::EssBelow(share)))
    }

    /// Creates systematic resampling after each of `stages`, which must be below the schedule's number of stages.
    ///
    /// # Errors
    /// No stage; a stage 0; stages that are not strictly increasing.
    pub fn at(stages: impl IntoIterator<Item = usize>) -> Result<Self> {
        let stages: Vec<usize> = stages.into_iter().collect();
        check_stages(&stages)?;
        Ok(Self::by(Rule::At(stages)))
    }

    /// Refuses stages beyond a schedule of `steps` stages, and values that only a damaged file can hold.
    pub(crate) fn check(&self, steps: usize) -> Result<()> {
        match &self.rule {
            Rule::Every(_) => Ok(()),
            Rule::EssBelow(share) => Error::check_positive_fraction("share", *share),
            Rule::At(stages) => {
                check_stages(stages)?;
                let last = stages[stages.len() - 1];
                let expected = format!("below {steps}, the last stage of the schedule");
                Error::check(last < steps, "stages at which to resample", last, expected)
            }
        }
    }

    fn by(rule: Rule) -> Self {
        let scheme = ResamplingScheme::Systematic;
        Self { rule, scheme }
    }

    /// Sets the resampling scheme.
    #[must_use]
    pub fn scheme(mut self, scheme: ResamplingScheme) -> Self {
        self.scheme = scheme;
        self
    }

    pub(crate) fn is_due(&self, stage: usize, log_weights: &[f64]) -> bool {
        match &self.rule {
            Rule::Every(stages) => stage.is_multiple_of(stages.get()),
            Rule::At(stages) => stages.binary_search(&stage).is_ok(),
            Rule::EssBelow(share) => {
                let ess = WeightSums::of(log_weights).effective_sample_size();
                ess < *share * log_weights.len() as f64
            }
        }
    }

    /// Returns whether a run of `steps` stages resamples whatever the weights are, except if all are equal.
    pub(crate) fn is_certain(&self, steps: usize) -> bool {
        match &self.rule {
            Rule::Every(stages) => stages.get() < steps,
            Rule::EssBelow(share) => *share == 1.0,
            Rule::At(_) => true,
        }
    }

    /// Returns the ancestor of each chain, whose state the chain copies. At least one chain must be alive. A chain that
    /// is an ancestor is its own ancestor.
    pub(crate) fn ancestors<R: Rng + ?Sized>(
        &self,
        log_weights: &[f64],
        rng: &mut R,
    ) -> Vec<usize> {
        in_place(&self.scheme.copies(log_weights.len(), log_weights, rng))
    }
}

fn check_stages(stages: &[usize]) -> Result<()> {
    const ARGUMENT: &str = "stages at which to resample";
    Error::check_not_empty(ARGUMENT, stages.len())?;
    let before = std::iter::once(&0).chain(stages);
    let fault = before.zip(stages).find(|(before, stage)| before >= stage);
    fault.map_or(Ok(()), |(before, stage)| {
        let found = format!("{stage} after {before}");
        let expected = "stages from 1 on, strictly increasing";
        Err(Error::invalid(ARGUMENT, found, expected))
    })
}

/// Returns an ancestor for each place: the chain at this place if it has `copies`, otherwise a chain with several.
fn in_place(copies: &[usize]) -> Vec<usize> {
    let spare = copies.iter().enumerate();
    let mut spare = spare.flat_map(|(i, &n)| std::iter::repeat_n(i, n.saturating_sub(1)));
    let place = |(i, &n): (usize, &usize)| match n {
        0 => spare.next().unwrap_or(i),
        _ => i,
    };
    copies.iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};

    #[test]
    fn each_chain_is_copied_in_proportion_to_its_weight() {
        let weights = [0.5_f64, 0.0, 2.3, 1.2, 1.0];
        let logs = weights.map(|w| w.ln() + 1e3);
        for scheme in [
            ResamplingScheme::Multinomial,
            ResamplingScheme::Residual,
            ResamplingScheme::Stratified,
            ResamplingScheme::Systematic,
        ] {
            let mut rng = stream(1, Purpose::TESTING, 0);
            let mut counts = [0; 5];
            const TIMES: usize = 20_000;
            for _ in 0..TIMES {
                let copies = scheme.copies(5, &logs, &mut rng);
                assert_eq!(copies.iter().sum::<usize>(), 5);
                let places = in_place(&copies);
                for (i, (count, n)) in counts.iter_mut().zip(&copies).enumerate() {
                    *count += n;
                    assert_eq!(places.iter().filter(|&&a| a == i).count(), *n);
                    assert!(*n == 0 || places[i] == i);
                }
            }
            for (count, weight) in counts.iter().zip(weights) {
                let error = *count as f64 / TIMES as f64 - weight;
                assert!(
                    error.abs() <= 4.0 * (weight / TIMES as f64).sqrt(),
                    "{scheme:?}"
                );
            }
        }
    }
}
