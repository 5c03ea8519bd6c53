//! Parts of a run, and how they merge.

use std::ops::Range;

use super::block_result::BlockResult;
#[cfg(feature = "serde")]
use super::block_result::{FinalStates, StageSums};
use super::settings::Settings;
use crate::work::{Forest, Merge, Node, Probe, StoppedBy};
use crate::{Error, Result};

/// Finished blocks of chains: a part of a run.
///
/// [`Ais::run_range`](crate::ais::Ais::run_range) returns one, and a [`Run`](crate::ais::Run) converts into one. Parts of one run
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

    pub(super) fn prefix(&self) -> usize {
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
pub(super) fn in_place(error: Error, of: &str, place: usize) -> Error {
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
