//! The second pass: independent islands that climb the levels of the first pass.

use std::ops::Range;

use rand::RngExt;

use super::island::{Island, IslandSelection, expected, offset};
use super::path::{LevelAt, LevelPath};
use super::run::IslandRun;
use super::settings::NestedSettings;
use crate::Result;
use crate::estimate::Estimate;
use crate::kernel::Invariant;
use crate::model::{Sampleable, UnnormalizedModel};
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::work::{Forest, Halt, Pulse, Stepped, Task, is_look};

pub(super) struct IslandsTask<'s, 'm, P: Sampleable, L: UnnormalizedModel<State = P::State>, K> {
    path: &'s LevelPath<'m, P, L>,
    kernel: &'s K,
    settings: &'s NestedSettings,
    streams: Vec<StreamRng>,
    /// Expected numbers of states that an island keeps, by shell.
    expected: Vec<f64>,
    first_offset: f64,
}

impl<'s, 'm, P, L, K> IslandsTask<'s, 'm, P, L, K>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
{
    /// Creates the task. `shells` are the log weights of the shells from the first pass.
    pub(super) fn new(
        path: &'s LevelPath<'m, P, L>,
        kernel: &'s K,
        shells: &[f64],
        settings: &'s NestedSettings,
    ) -> Self {
        let (islands, seed) = (settings.islands, settings.seed);
        // Each chain of an island takes the next stream, so the next island starts `chains` streams later.
        let streams = successive(stream(seed, Purpose::RUN, 0)).step_by(settings.chains);
        Self {
            path,
            kernel,
            settings,
            streams: streams.take(islands).collect(),
            expected: expected(settings.kept as f64 / islands as f64, shells),
            first_offset: stream(seed, Purpose::RESAMPLING, 1).random(),
        }
    }
}

impl<'s, 'm, P, L, K> Task for IslandsTask<'s, 'm, P, L, K>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    type Output = Vec<IslandRun<P::State>>;

    fn blocks(&self) -> Range<usize> {
        0..self.settings.islands
    }

    fn chains(&self, block: usize) -> Range<usize> {
        block * self.settings.chains..(block + 1) * self.settings.chains
    }

    fn cost(&self, blocks: Range<usize>) -> u64 {
        let each = self.settings.chain_steps(self.path.levels().len());
        each.saturating_mul(blocks.len() as u64)
    }

    /// Climbs the levels with an island: cuts the states below each level, and restarts and moves the chains above it.
    fn run(&self, block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt> {
        let NestedSettings { chains, moves, .. } = *self.settings;
        // The chains of an island stay in one population, because threads take whole islands.
        let stream = self.streams[block].clone();
        let mut island = Island::start(self.path, self.chains(block), chains, moves, stream)?;
        let mut selection =
            IslandSelection::new(self.expected.clone(), offset(self.first_offset, block));
        let mut run = IslandRun::default();
        let levels = self.path.levels();
        for (passed, &level) in levels.iter().enumerate() {
            run.add(island.cut(level, &mut selection));
            if !island.is_empty() {
                island.restart(level, self.path.beta(passed + 1))?;
            }
            // The restart empties the pool, which the moves fill.
            let is_extinct = island.log_mass() == f64::NEG_INFINITY;
            let moves = if is_extinct { 0 } else { moves };
            for made in 1..=moves {
                island.advance(self.kernel)?;
                let is_last = made == moves && passed + 1 == levels.len();
                pulse.pass(Stepped::of(chains, is_last))?;
            }
            island.sort();
            run.reach(island.log_mass(), island.decisions());
        }
        run.add(island.cut(f64::INFINITY, &mut selection));
        run.evaluations = island.evaluations();
        Ok(vec![run])
    }

    fn suffices(&self, error: f64, blocks: usize, outputs: &Forest<Self::Output>) -> bool {
        if !is_look(FIRST_LOOK, blocks) {
            return false;
        }
        let islands = outputs.iter().flat_map(|node| &node.value);
        let estimate = Estimate::of_islands(&Vec::from_iter(islands.map(IslandRun::estimate)));
        estimate.is_ok_and(|estimate| estimate.standard_error() <= error)
    }
}

/// Number of islands before the first check of the standard error.
const FIRST_LOOK: usize = 10;
