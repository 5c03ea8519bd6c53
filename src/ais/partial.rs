//! Runs over a range of chains, and how they merge into one.

use std::ops::Range;

use crate::ais::run::Run;
use crate::ais::stages;
use crate::ais::stages::{Window, Windows};
use crate::ais::tree;
use crate::ais::tree::{Forest, Merge, Node};
use crate::num::Engine;
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// What fixes a run besides path, kernel and recorder.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Settings {
    pub(crate) schedule: Schedule,
    pub(crate) windows: Windows,
    pub(crate) chains: usize,
    pub(crate) block_size: usize,
    pub(crate) seed: u64,
    pub(crate) purpose: Purpose,
    pub(crate) log_base_normalizer: f64,
    pub(crate) engine: Option<Engine>,
}

impl Settings {
    pub(crate) fn blocks(&self) -> usize {
        self.chains.div_ceil(self.block_size)
    }

    /// The chains of one block.
    pub(crate) fn chains_of(&self, block: usize) -> Range<usize> {
        let at = |block: usize| self.block_size.saturating_mul(block).min(self.chains);
        at(block)..at(block + 1)
    }

    /// The blocks that a range of chains consists of.
    pub(crate) fn blocks_of(&self, chains: &Range<usize>) -> Result<Range<usize>> {
        let at_boundary =
            |chain: usize| chain.is_multiple_of(self.block_size) || chain == self.chains;
        let inside = chains.start < chains.end && chains.end <= self.chains;
        if inside && at_boundary(chains.start) && at_boundary(chains.end) {
            let blocks = chains.start / self.block_size..chains.end.div_ceil(self.block_size);
            return Ok(blocks);
        }
        Err(Error::invalid(
            "range of chains",
            format!("{chains:?}"),
            format!(
                "a non-empty range within 0..{} that begins and ends at a multiple of the block \
                 size {} or at the last chain",
                self.chains, self.block_size
            ),
        ))
    }

    /// Cuts the chains into at most `parts` ranges of whole blocks, about equally long.
    ///
    /// # Errors
    /// Where `parts` is 0.
    pub(crate) fn ranges(&self, parts: usize) -> Result<Vec<Range<usize>>> {
        Error::check_at_least("parts", parts, 1)?;
        let blocks = self.blocks();
        let parts = parts.min(blocks);
        let start = |part: usize| self.chains_of(part * blocks / parts).start;
        Ok((0..parts)
            .map(|part| start(part)..start(part + 1))
            .collect())
    }

    pub(crate) fn chain_steps(&self, blocks: &Range<usize>) -> u64 {
        let chains = self.chains_of(blocks.end - 1).end - self.block_size * blocks.start;
        (chains as u64).saturating_mul(self.schedule.steps() as u64)
    }

    /// The stream of the first chain of each block.
    pub(crate) fn block_streams(&self, blocks: &Range<usize>) -> Vec<StreamRng> {
        let first = stream(self.seed, self.purpose, self.block_size * blocks.start);
        successive(first)
            .step_by(self.block_size)
            .take(blocks.len())
            .collect()
    }
}

/// What the chains of one node of the tree of blocks left behind.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Outcome<S, R> {
    pub(crate) states: Vec<S>,
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    pub(crate) log_weights: Vec<f64>,
    pub(crate) windows: Vec<Window>,
    pub(crate) recorder: R,
    /// Number of living chains that ended where the base has no density.
    pub(crate) uncovered: usize,
}

impl<S, R: Merge> Merge for Outcome<S, R> {
    fn merge(&mut self, right: Self) {
        self.states.extend(right.states);
        self.log_weights.extend(right.log_weights);
        stages::merge(&mut self.windows, &right.windows);
        self.recorder.merge(right.recorder);
        self.uncovered += right.uncovered;
    }
}

/// The finished chains of a range of indices: a part of a run, and its checkpoint.
///
/// With the feature `serde` it can be saved and merged elsewhere. For the merged result to have
/// the same bits, the format must keep every bit of an f64: with `serde_json` that takes its
/// feature `float_roundtrip`.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct PartialRun<S, R = ()> {
    pub(crate) settings: Settings,
    pub(crate) nodes: Forest<Outcome<S, R>>,
    pub(crate) seconds: f64,
}

impl<S, R: Merge> PartialRun<S, R> {
    /// Merges the parts of one run, given in any order, into its result.
    ///
    /// Schedule, seed, numbers of chains, block size and engine are compared; that path and kernel
    /// were the same is for the caller to see to.
    ///
    /// # Errors
    /// No part; parts of different runs; a range missing or given twice;
    /// [`Error::AllWeightsZero`].
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Result<Run<S, R>> {
        let mut parts: Vec<Self> = parts.into_iter().collect();
        let Some(settings) = parts.first().map(|part| part.settings.clone()) else {
            return Err(Error::invalid("parts", "none", "at least one"));
        };
        if parts.iter().any(|part| part.settings != settings) {
            return Err(Error::invalid(
                "parts",
                "runs with different settings",
                "the same schedule, seed, number of chains, block size and engine in all parts",
            ));
        }
        for part in &parts {
            part.check()?;
        }
        parts.sort_by_key(Self::first_block);
        let seconds = parts.iter().map(|part| part.seconds).sum();
        let nodes: Vec<_> = parts.into_iter().flat_map(|part| part.nodes).collect();
        check_tiling(&nodes, &settings)?;
        let Some(outcome) = tree::fold(tree::coalesce(nodes)) else {
            return Err(Error::invalid("parts", "no chain", "all chains of the run"));
        };
        Run::new(settings, outcome, seconds)
    }

    /// Refuses a part that was read from a damaged file.
    fn check(&self) -> Result<()> {
        let settings = &self.settings;
        let sound = settings.block_size > 0
            && settings.windows.fit(settings.schedule.steps())
            && self.nodes.iter().all(|node| {
                node.is_within(settings.blocks()) && {
                    let blocks = node.blocks();
                    let first = settings.chains_of(blocks.start).start;
                    let chains = settings.chains_of(blocks.end - 1).end - first;
                    let outcome = node.value();
                    outcome.states.len() == chains
                        && outcome.log_weights.len() == chains
                        && outcome.windows.len() == settings.windows.count()
                }
            });
        if sound {
            Ok(())
        } else {
            Err(Error::invalid(
                "parts",
                "a part whose chains do not fit its settings",
                "a part as it was saved",
            ))
        }
    }

    fn first_block(&self) -> usize {
        self.nodes.first().map_or(0, |node| node.blocks().start)
    }
}

/// Refuses nodes that leave a gap or overlap.
fn check_tiling<T>(nodes: &[Node<T>], settings: &Settings) -> Result<()> {
    let expected = |next: usize| {
        Error::invalid(
            "parts",
            "missing or repeated chains",
            format!(
                "each chain of 0..{} once; chain {} is the first that is not",
                settings.chains,
                next.saturating_mul(settings.block_size)
            ),
        )
    };
    let mut next = 0;
    for node in nodes {
        if node.blocks().start != next {
            return Err(expected(next.min(node.blocks().start)));
        }
        next = node.blocks().end;
    }
    if next == settings.blocks() {
        Ok(())
    } else {
        Err(expected(next))
    }
}
