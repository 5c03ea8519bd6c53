//! Runs over a range of chains, and how they merge into one.

use std::iter::once;

use super::run::Run;
use super::settings::Settings;
use super::stages::Window;
use super::tree::{self, Forest, Merge, Node};
use crate::{Error, Result};

/// The results of the chains of one node of the tree of blocks.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Outcome<S, R> {
    pub(super) states: Vec<S>,
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    pub(super) log_weights: Vec<f64>,
    pub(super) windows: Vec<Window>,
    pub(super) recorder: R,
    /// For each chain the index in the run of the one that it descends from; empty where nothing was
    /// resampled.
    pub(super) roots: Vec<usize>,
    /// Number of living chains that ended where the base has no density.
    pub(super) uncovered: usize,
}

impl<S, R: Merge> Merge for Outcome<S, R> {
    fn merge(&mut self, right: Self) {
        self.states.extend(right.states);
        self.log_weights.extend(right.log_weights);
        for (mine, theirs) in self.windows.iter_mut().zip(&right.windows) {
            mine.merge(theirs);
        }
        self.recorder.merge(right.recorder);
        self.uncovered += right.uncovered;
        self.roots.extend(right.roots);
    }
}

/// The finished chains of a range of indices: one part of a run.
///
/// With the feature `serde` it can be saved, as a checkpoint or to be merged elsewhere. For the
/// merged result to have the same bits, the format must keep every bit of an f64. With `serde_json`
/// that takes its feature `float_roundtrip`.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct PartialRun<S, R = ()> {
    pub(super) settings: Settings,
    pub(super) nodes: Forest<Outcome<S, R>>,
    pub(super) seconds: f64,
}

impl<S, R: Merge> PartialRun<S, R> {
    /// Merges the parts of one run, given in any order, into its result.
    ///
    /// The parts must agree in schedule, seed, number of chains, block size, number of recorded
    /// stages and engine. That they also had the same path and kernel is for the caller to ensure.
    ///
    /// # Errors
    /// No part; parts of different runs; a range missing or given twice;
    /// [`Error::AllWeightsZero`].
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Result<Run<S, R>> {
        let mut parts: Vec<Self> = parts.into_iter().collect();
        Error::check_not_empty("parts", parts.len())?;
        let settings = parts[0].settings.clone();
        Error::check(
            parts.iter().all(|part| part.settings == settings),
            "parts",
            "runs with different settings",
            "the same schedule, seed, engine, block size, chains and recorded stages in all parts",
        )?;
        Error::check(
            parts.iter().all(Self::is_sound),
            "parts",
            "a part whose chains do not fit its settings",
            "a part as it was saved",
        )?;
        parts.sort_by_key(|part| part.nodes.first().map_or(0, |node| node.blocks().start));
        let seconds = parts.iter().map(|part| part.seconds).sum();
        let nodes: Vec<_> = parts.into_iter().flat_map(|part| part.nodes).collect();
        check_tiling(&nodes, &settings)?;
        let outcome = tree::fold(tree::coalesce(nodes)).expect("nodes that cover all chains");
        Run::new(settings, outcome, seconds)
    }

    /// Whether chains and settings fit, which a damaged file may prevent.
    fn is_sound(&self) -> bool {
        let settings = &self.settings;
        let fits = |node: &Node<Outcome<S, R>>| {
            let chains = settings.chains_of(node.blocks()).len();
            node.value.states.len() == chains
                && node.value.log_weights.len() == chains
                && node.value.windows.len() == settings.windows().count()
        };
        let mut nodes = self.nodes.iter();
        settings.check().is_ok()
            && nodes.all(|node| node.is_within(settings.blocks()) && fits(node))
    }
}

/// Refuses nodes that leave a gap or overlap.
fn check_tiling<T>(nodes: &[Node<T>], settings: &Settings) -> Result<()> {
    let all = settings.blocks();
    let mut next = 0;
    for blocks in nodes.iter().map(Node::blocks).chain(once(all..all)) {
        let fault = next.min(blocks.start).saturating_mul(settings.block_size);
        let chains = settings.chains;
        let expected =
            format!("each chain of 0..{chains} once; chain {fault} is the first that is not");
        let found = "missing or repeated chains";
        Error::check(blocks.start == next, "parts", found, expected)?;
        next = blocks.end;
    }
    Ok(())
}
