//! Parts of a run, and how they merge.

use std::collections::BTreeSet;
use std::ops::Range;

use super::block_result::BlockResult;
#[cfg(feature = "serde")]
use super::block_result::{FinalStates, StageSums};
use super::run::Run;
use super::settings::Settings;
use crate::estimate::Estimate;
use crate::work::{Forest, Merge, Node, Probe, StoppedBy, caught_once, merging_panicked};
use crate::{Error, Result};

/// Finished blocks of chains: a part of a run.
///
/// [`Ais::run_range`](crate::ais::Ais::run_range) returns one, and a [`Run`] converts into one. Parts of one run
/// [merge](Self::merge) into its result, and [`Ais::extend`](crate::ais::Ais::extend) runs the missing chains.
///
/// With the feature `serde` it can be saved. Merged results have the same bits only if the format keeps every bit of an
/// f64; `serde_json` needs its feature `float_roundtrip`.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct RunPart<S, R = ()> {
    pub(crate) settings: Settings,
    /// Finished blocks, merged into groups of neighbouring blocks, in the order of their chains.
    pub(crate) nodes: Forest<BlockResult<S, R>>,
    pub(crate) stopped_by: StoppedBy,
    pub(crate) seconds: f64,
    /// Density evaluations per chain and stage; 0 if unknown.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) evaluations: u64,
    /// A few chains that show which path and kernel the run has, if known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) probe: Option<Probe>,
}

impl<S, R: Merge> RunPart<S, R> {
    /// Merges the parts of one run, given in any order, into its result.
    ///
    /// The parts must agree in all settings, and in path and kernel as far as [a few chains](crate::ais::Ais::run)
    /// detect a difference. If blocks are [missing](Self::missing), the result
    /// [warns](crate::estimate::Warning::MissingChains). It stays unbiased if the reasons are unrelated to the weights
    /// of the missing blocks.
    ///
    /// # Errors
    /// No part; no finished block; parts of different runs; a range given twice; [`Error::AllWeightsZero`].
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Result<Run<S, R>>
    where
        R: Clone,
    {
        Run::of(Self::join(parts)?)
    }

    /// Joins parts of one run, given in any order, into one part.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub fn join(parts: impl IntoIterator<Item = Self>) -> Result<Self> {
        let parts: Vec<Self> = parts.into_iter().collect();
        Error::check_not_empty("parts", parts.len())?;
        let settings = parts[0].settings.clone();
        let probe = parts.iter().find_map(|part| part.probe.clone());
        for (place, part) in parts.iter().enumerate() {
            let found = &part.settings;
            let same = settings.check_found(found);
            let chains = || Error::check_found("chains", &found.chains, &settings.chains);
            same.and_then(|()| chains())
                .and_then(|()| Probe::check_found(probe.as_ref(), part.probe.as_ref()))
                .map_err(|error| in_place(error, "part", place))?;
            part.check()?;
        }
        let mut stopped = parts.iter().map(|part| part.stopped_by);
        let stopped_by = stopped.find(|by| *by != StoppedBy::Chains);
        let seconds = parts.iter().map(|part| part.seconds).sum();
        // The largest, because a part saved by an older version has 0.
        let evaluations = parts.iter().map(|part| part.evaluations).max();
        let nodes = parts.into_iter().flat_map(|part| part.nodes);
        let mut nodes: Forest<_> = nodes.collect();
        nodes.sort_by_key(|node| node.blocks().start);
        let joined = Self {
            settings,
            nodes,
            stopped_by: stopped_by.unwrap_or(StoppedBy::Chains),
            seconds,
            evaluations: evaluations.unwrap_or(0),
            probe,
        };
        joined.check_order()?;
        Ok(joined)
    }

    #[cfg(feature = "serde")]
    pub(crate) fn reassembled(
        settings: Settings,
        chains: FinalStates<S>,
        sums: Forest<StageSums<R>>,
    ) -> Result<Self> {
        settings.check()?;
        // Checked first, because `Node::blocks` overflows for the level or index of a damaged node.
        let within = sums.iter().all(|node| node.is_within(settings.blocks()));
        let expected = "those of the settings";
        Error::check(within, "sums", "blocks beyond the last", expected)?;
        let blocks = sums.iter().map(Node::blocks);
        let finished = blocks.map(|blocks| settings.chains_of(blocks).len()).sum();
        let roots = if settings.selection.is_some() {
            finished
        } else {
            0
        };
        Error::check_dimension("states", chains.states.len(), finished)?;
        Error::check_dimension("log weights", chains.log_weights.len(), finished)?;
        Error::check_dimension("roots", chains.roots.len(), roots)?;
        let part = Self {
            nodes: chains.divided(&settings, sums),
            settings,
            stopped_by: StoppedBy::Chains,
            seconds: 0.0,
            evaluations: 0,
            probe: None,
        };
        part.check()?;
        part.check_order()?;
        Ok(part)
    }

    /// Refuses chains that do not fit the settings, as in a damaged file.
    pub(crate) fn check(&self) -> Result<()> {
        let settings = &self.settings;
        let fits = |node: &Node<BlockResult<S, R>>| {
            node.value
                .fits(settings, &settings.chains_of(node.blocks()))
        };
        let sound = settings.check().is_ok() && {
            let mut nodes = self.nodes.iter();
            nodes.all(|node| node.is_within(settings.blocks()) && fits(node))
        };
        let found = "a part whose chains do not fit its settings";
        Error::check(sound, "parts", found, "a part as it was saved")
    }

    /// Refuses blocks that are out of order or given twice.
    pub(crate) fn check_order(&self) -> Result<()> {
        let mut end = 0;
        for blocks in self.nodes.iter().map(Node::blocks) {
            let chain = self.settings.chains_of(blocks.clone()).start;
            let expected = format!("each chain once; chain {chain} is there twice");
            Error::check(end <= blocks.start, "parts", "repeated chains", expected)?;
            end = blocks.end;
        }
        Ok(())
    }
}

impl<S, R: Merge + Clone> RunPart<S, R> {
    /// Returns the result of a run that may have been stopped.
    pub(crate) fn result(self) -> Result<Run<S, R>> {
        let chains = 0..self.settings.chains;
        let run = caught_once(|| self.whole());
        run.unwrap_or_else(|message| Err(merging_panicked(message, chains)))
    }

    fn whole(mut self) -> Result<Run<S, R>> {
        if self.stopped_by != StoppedBy::Chains {
            // Blocks after the first gap do not count, because which of them are done depends on the threads.
            let blocks = self.prefix();
            if blocks == 0 {
                return Err(self.stopped());
            }
            self.nodes.retain(|node| node.blocks().end <= blocks);
            self.settings.chains = self.settings.chains_of(0..blocks).end;
        }
        Run::of(self)
    }
}

impl<S, R> RunPart<S, R> {
    /// Returns the chains missing from the whole run, as ranges for [`Ais::run_range`](crate::ais::Ais::run_range).
    /// [`stopped_by`](Self::stopped_by) shows whether the part itself is complete.
    pub fn missing(&self) -> Vec<Range<usize>> {
        let blocks = self.settings.blocks();
        let starts = self.nodes.iter().map(|node| node.blocks().start);
        let ends = self.nodes.iter().map(|node| node.blocks().end);
        let gaps = std::iter::once(0).chain(ends).zip(starts.chain([blocks]));
        gaps.filter(|(end, start)| end < start)
            .map(|(end, start)| self.settings.chains_of(end..start))
            .collect()
    }

    fn prefix(&self) -> usize {
        let missing = self.missing();
        missing.first().map_or(self.settings.blocks(), |gap| {
            gap.start / self.settings.block_size
        })
    }

    /// Returns the error of a run that did not finish its first block.
    pub(crate) fn stopped(&self) -> Error {
        self.stopped_by.error(self.settings.largest_block())
    }

    /// Returns the blocks from which a run with `settings` can continue. If `settings` has more chains than the part, a
    /// partial last block is dropped.
    ///
    /// # Errors
    /// Other settings, or fewer chains than the part began with.
    pub(crate) fn continued(mut self, settings: &Settings) -> Result<Forest<BlockResult<S, R>>> {
        settings.check_found(&self.settings)?;
        let mine = self.settings.chains;
        let expected = format!("at least {mine}, as many as it was begun with");
        Error::check(mine <= settings.chains, "chains", settings.chains, expected)?;
        let full = mine / settings.block_size;
        if mine < settings.chains {
            self.nodes.retain(|node| node.blocks().end <= full);
        }
        Ok(self.nodes)
    }

    /// Returns the seed of the run.
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    /// Returns the number of finished chains.
    pub fn finished(&self) -> usize {
        let nodes = self.nodes.iter();
        nodes.map(|node| node.value.chains.log_weights.len()).sum()
    }

    /// Returns what ended the part; [`StoppedBy::Chains`] if it is complete.
    pub fn stopped_by(&self) -> StoppedBy {
        self.stopped_by
    }

    /// Returns the wall time in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// Adds the index of the offending part or run to an error.
fn in_place(error: Error, of: &str, place: usize) -> Error {
    match error {
        Error::OtherRun {
            setting,
            found,
            expected,
        } => Error::OtherRun {
            setting,
            found: format!("{found} in the {of} with index {place}"),
            expected,
        },
        error => error,
    }
}

impl<S, R> Run<S, R> {
    /// Returns the estimate of `log Z_K` from the pooled chains of runs that differ in seed and perhaps in the number
    /// of chains. To compare runs that differ otherwise, use [`Agreement`](crate::estimate::Agreement).
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
    /// No run; two runs with the same seed, which share chains (for more chains of one seed see
    /// [`Ais::extend`](crate::ais::Ais::extend)); [`Error::OtherRun`] with the first other setting, path or kernel; a
    /// resampled run with a partial last block, unless it is the last run.
    pub fn pooled<'r>(runs: impl IntoIterator<Item = &'r Self>) -> Result<Estimate>
    where
        S: 'r,
        R: 'r,
    {
        let runs: Vec<&Self> = runs.into_iter().collect();
        Error::check_not_empty("runs", runs.len())?;
        let settings = runs[0].settings();
        let mut seeds = BTreeSet::new();
        for (place, run) in runs.iter().enumerate() {
            let of_seed = Settings {
                seed: run.seed(),
                ..settings.clone()
            };
            of_seed
                .check_found(run.settings())
                .and_then(|()| Probe::check_found(runs[0].probe(), run.probe()))
                .map_err(|error| in_place(error, "run", place))?;
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
            // Islands are cut from the joined list at multiples of the block size.
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
