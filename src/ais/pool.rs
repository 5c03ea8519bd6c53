//! Runs of several seeds taken together.

use std::collections::BTreeSet;

use super::run::Run;
use crate::estimate::Estimate;
use crate::{Error, Result};

impl<S, R> Run<S, R> {
    /// The estimate of `log Z_K` from the chains of several runs, which differ in their seeds and perhaps in
    /// their number of chains: that of one run with all of these chains.
    ///
    /// ```
    /// # use annealed::prelude::*;
    /// # let path = GeometricPath::new(Gaussian::standard(1)?, Gaussian::isotropic(DVector::zeros(1), 0.5)?);
    /// let ais = |seed| Ais::new(&path, RandomWalkMetropolis::new(0.7)?).chains(500).seed(seed).run();
    /// let pooled = Run::pooled(&[ais(1)?, ais(2)?, ais(3)?])?;
    /// assert!(pooled.standard_error() < ais(1)?.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// No run; two runs of one seed, which share their chains (see [`Ais::extend`](crate::ais::Ais::extend)
    /// for more chains of a seed); runs that differ in other settings; resampled runs of which one but the
    /// last ends in a block that is not full.
    pub fn pooled(runs: &[Self]) -> Result<Estimate> {
        Error::check_not_empty("runs", runs.len())?;
        let settings = runs[0].settings();
        let mut seeds = BTreeSet::new();
        for run in runs {
            let alike = run.settings().is_like(settings);
            let expected = "the same schedule, engine, block size and recorded stages";
            Error::check(alike, "runs", "runs with different settings", expected)?;
            let probes = runs[0].probe().zip(run.probe());
            if let Some((part, found)) = probes.and_then(|(one, other)| one.difference(other)) {
                let found = format!("one with a {part} {found}");
                return Err(Error::invalid("runs", found, "the same in all runs"));
            }
            let fresh = seeds.insert(run.seed());
            let expected = "a seed of its own for each run";
            Error::check(
                fresh,
                "runs",
                format!("seed {} twice", run.seed()),
                expected,
            )?;
        }
        let (mut log_weights, mut roots) = (Vec::new(), Vec::new());
        for run in runs {
            let full = run.roots().is_empty() || log_weights.len().is_multiple_of(run.block_size());
            let expected = "whole blocks in all resampled runs but the last";
            Error::check(full, "runs", "a block that is not full", expected)?;
            roots.extend(run.roots().iter().map(|root| root + log_weights.len()));
            log_weights.extend_from_slice(run.log_weights());
        }
        let estimate = settings.estimate(&log_weights, &roots)?;
        Ok(estimate.shifted(settings.log_base_normalizer))
    }
}
