//! Settings of a run, apart from path, kernel and recorder.

use std::ops::Range;

use super::stages::Windows;
use crate::estimate::Estimate;
use crate::model::UnnormalizedModel;
use crate::num::SimdLevel;
use crate::path::AnnealingPath;
use crate::population::Selection;
use crate::random::{BlockStreams, Purpose, stream};
use crate::schedule::Schedule;
use crate::work::{Named, check_named, is_look, named, named_engine};
use crate::{Error, Result};

/// Settings that determine the bits of a run, besides path, kernel and recorder.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Settings {
    pub(crate) schedule: Schedule,
    pub(crate) chains: usize,
    pub(crate) block_size: usize,
    pub(crate) recorded_stages: usize,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) record_at: Vec<f64>,
    pub(crate) seed: u64,
    pub(crate) purpose: Purpose,
    pub(crate) log_base_normalizer: f64,
    pub(crate) selection: Option<Selection>,
    /// SIMD level of the path.
    pub(crate) engine: Option<SimdLevel>,
    /// Whether chains use surrogates of the path's models.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) has_surrogates: bool,
    /// Rounding error of a log weight, as stated by the path.
    pub(crate) rounding_error: f64,
    /// Epsilon of the number type of the path's log densities.
    #[cfg_attr(feature = "serde", serde(default = "double"))]
    pub(crate) epsilon: f64,
}

/// Returns the epsilon for runs that were saved without one.
#[cfg(feature = "serde")]
fn double() -> f64 {
    f64::EPSILON
}

impl Settings {
    pub(crate) fn new(path: &impl AnnealingPath, log_base_normalizer: f64) -> Self {
        Self {
            schedule: Schedule::linear(1_000).expect("1,000 stages are a schedule"),
            chains: 4_096,
            block_size: 128,
            recorded_stages: 1_000,
            record_at: Vec::new(),
            seed: 0,
            purpose: Purpose::RUN,
            selection: None,
            log_base_normalizer,
            engine: path.simd_level(),
            has_surrogates: path.surrogate_at(1.0).is_some(),
            rounding_error: path.rounding_error(),
            epsilon: path.at(1.0).epsilon(),
        }
    }

    /// Refuses settings out of range. The other methods assume valid ones.
    pub(crate) fn check(&self) -> Result<()> {
        Error::check_count("chains", self.chains, 1)?;
        Error::check_at_least("block_size", self.block_size, 1)?;
        Error::check_at_least("recorded_stages", self.recorded_stages, 1)?;
        Error::check_number("log normalizer of the base", self.log_base_normalizer)?;
        let recorded = self.record_at.iter().copied().enumerate();
        let is_reached = |beta| self.schedule.stage_at(beta).is_some_and(|stage| stage > 0);
        let expected = "betas of the schedule, above 0 (`Schedule::with_betas` adds them)";
        Error::check_each("record_at", "index", recorded, is_reached, expected)?;
        match &self.selection {
            Some(Selection::Resampling(resampling)) => resampling.check(self.schedule.stages()),
            Some(Selection::WasteFree(waste_free)) => waste_free.check(self.largest_block()),
            None => Ok(()),
        }
    }

    /// Refuses `found` settings that differ, except for the number of chains, and names the first difference.
    pub(crate) fn check_found(&self, found: &Self) -> Result<()> {
        self.schedule.check_found(&found.schedule)?;
        check_named(&self.named(), &found.named())
    }

    /// Returns all settings except the schedule and the number of chains.
    pub(crate) fn named(&self) -> Named {
        // Destructured, so that no field is forgotten.
        let Self {
            schedule: _,
            chains: _,
            block_size,
            recorded_stages,
            record_at,
            seed,
            purpose,
            log_base_normalizer,
            selection,
            engine,
            has_surrogates,
            rounding_error,
            epsilon,
        } = self;
        let from = "a path from another base, with log normalizer";
        let to = "a path to another model (an RBM with other weights, or through other machines, say), with rounding error";
        vec![
            named("seed", seed),
            named("block_size", block_size),
            named("recorded_stages", recorded_stages),
            named("record_at", record_at),
            named("purpose", purpose),
            named("resampling", selection),
            named_engine(*engine, *has_surrogates),
            named(from, log_base_normalizer),
            named(to, rounding_error),
            named(
                "a path to a model in another precision, with epsilon",
                epsilon,
            ),
        ]
    }

    /// Refuses a run whose chains interact, for methods that need independent weights.
    pub(crate) fn check_alone(&self, argument: &'static str, expected: &str) -> Result<()> {
        let found = match &self.selection {
            None => return Ok(()),
            Some(Selection::Resampling(_)) => "chains that are resampled between stages",
            Some(Selection::WasteFree(_)) => "chains of waste-free sequential Monte Carlo",
        };
        Err(Error::invalid(argument, found, expected))
    }

    /// Returns the estimate of `log(Z_K / Z_0)`. `roots` holds the first ancestors, and is empty if chains do not
    /// interact. The chains count as independent if no chain was copied and the settings do not resample in every run.
    pub(crate) fn estimate(&self, log_weights: &[f64], roots: &[usize]) -> Result<Estimate> {
        let steps = self.schedule.stages();
        let selection = self.selection.as_ref();
        let certain = selection.is_some_and(|selection| selection.is_certain(steps));
        let in_place = roots.iter().enumerate().all(|(chain, &root)| chain == root);
        match in_place && !certain {
            true => Estimate::from_log_weights(log_weights),
            false => Estimate::of_interacting(log_weights, roots, self.block_size),
        }
    }

    /// Returns whether the standard error is checked after `blocks` full blocks.
    pub(crate) fn is_look(&self, blocks: usize) -> bool {
        let islands = self.selection.as_ref().map_or(1, |_| FIRST_ISLANDS);
        is_look(FIRST_LOOK.div_ceil(self.block_size).max(islands), blocks)
    }

    /// Returns whether a stage only changes weights. Waste-free runs move the chains later, when ancestors are drawn.
    pub(crate) fn weighs_alone(&self, stage: usize) -> bool {
        let waste_free = matches!(self.selection, Some(Selection::WasteFree(_)));
        waste_free && stage < self.schedule.stages()
    }

    pub(crate) fn windows(&self) -> Windows {
        let kept = self.record_at.iter();
        let kept = kept.filter_map(|&beta| self.schedule.stage_at(beta));
        let (stages, limit) = (self.schedule.stages(), self.recorded_stages);
        let is_backward = self.purpose.reads_backward();
        Windows::new(is_backward, stages, limit, kept.collect())
    }

    /// Returns the random streams of the blocks from index `first` on.
    pub(crate) fn streams(&self, first: usize) -> BlockStreams {
        let chain = self.block_size * first;
        let stream = stream(self.seed, self.purpose, chain);
        BlockStreams::new((first, stream), self.largest_block())
    }

    /// Returns the number of chains in a block. The last block may have fewer.
    pub(crate) fn largest_block(&self) -> usize {
        self.block_size.min(self.chains)
    }

    pub(crate) fn blocks(&self) -> usize {
        self.chains.div_ceil(self.block_size)
    }

    pub(crate) fn chains_of(&self, blocks: Range<usize>) -> Range<usize> {
        // Saturating, because `block_size` has no upper limit.
        let at = |block: usize| self.block_size.saturating_mul(block).min(self.chains);
        at(blocks.start)..at(blocks.end)
    }

    /// Returns the blocks that make up `chains`, which must be whole blocks.
    pub(crate) fn blocks_of(&self, chains: &Range<usize>) -> Result<Range<usize>> {
        let (all, size) = (self.chains, self.block_size);
        let inside = chains.start < chains.end && chains.end <= all;
        let at_boundary = |chain: usize| chain.is_multiple_of(size) || chain == all;
        let whole = inside && at_boundary(chains.start) && at_boundary(chains.end);
        let expected = format!(
            "a non-empty range within 0..{all} that begins and ends at a multiple of the block size \
             {size} or at the last chain"
        );
        Error::check(whole, "range of chains", format!("{chains:?}"), expected)?;
        Ok(chains.start / size..chains.end.div_ceil(size))
    }

    /// Cuts the chains into at most `parts` ranges of whole blocks, about equally long.
    ///
    /// # Errors
    /// `parts` of 0.
    pub(crate) fn ranges(&self, parts: usize) -> Result<Vec<Range<usize>>> {
        Error::check_at_least("parts", parts, 1)?;
        let blocks = self.blocks();
        let parts = parts.min(blocks);
        // The product may exceed 32 bits, the size of a `usize` on some machines.
        let start = |part: usize| (part as u64 * blocks as u64 / parts as u64) as usize;
        let range = |part: usize| self.chains_of(start(part)..start(part + 1));
        Ok((0..parts).map(range).collect())
    }
}

/// Number of chains before the first check of the standard error.
const FIRST_LOOK: usize = 500;
/// Number of blocks before the first check if chains interact. The error can then be computed from islands.
const FIRST_ISLANDS: usize = 10;
