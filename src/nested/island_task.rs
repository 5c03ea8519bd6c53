//! The second pass: independent islands that climb the levels of the first pass.

use std::ops::Range;

use rand::RngExt;

use super::island::Island;
use super::island::{Selection, expected, offset};
use super::path::{LevelAt, LevelPath};
use super::run::{IslandRun, Islands};
use super::settings::Settings;
use crate::Result;
use crate::estimate::Estimate;
use crate::kernel::Invariant;
use crate::model::{Sampleable, UnnormalizedModel};
use crate::path::TemperedPath;
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::work::{Forest, Place, Stepped, Task, is_look};

pub(super) struct IslandsTask<'s, 'm, P: Sampleable, L: UnnormalizedModel<State = P::State>, K> {
    problem: &'m TemperedPath<P, L>,
    path: &'s LevelPath<'m, P, L>,
    kernel: &'s K,
    settings: &'s Settings,
    streams: Vec<StreamRng>,
    /// Expected numbers of states that an island keeps, by shell.
    expected: Vec<f64>,
    first_offset: f64,
}

pub(super) struct Climb<'m, P: Sampleable, L: UnnormalizedModel<State = P::State>> {
    chains: Range<usize>,
    island: Island<'m, P, L>,
    run: IslandRun<P::State>,
    selection: Selection,
    passed: usize,
    /// Number of moves made at the current level.
    moves: usize,
}

impl<'s, 'm, P, L, K> IslandsTask<'s, 'm, P, L, K>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
{
    /// Creates the task. `shells` are the log weights of the shells from the first pass.
    pub(super) fn new(
        problem: &'m TemperedPath<P, L>,
        path: &'s LevelPath<'m, P, L>,
        kernel: &'s K,
        shells: &[f64],
        settings: &'s Settings,
    ) -> Self {
        let Settings {
            islands,
            chains,
            seed,
            ..
        } = *settings;
        let streams = successive(stream(seed, Purpose::Run, 0)).step_by(chains);
        Self {
            problem,
            path,
            kernel,
            settings,
            streams: streams.take(islands).collect(),
            expected: expected(settings.kept as f64 / islands as f64, shells),
            first_offset: stream(seed, Purpose::Resampling, 1).random(),
        }
    }
}

impl<'s, 'm, P, L, K> Task for IslandsTask<'s, 'm, P, L, K>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    type Block = Climb<'m, P, L>;
    type Output = Islands<P::State>;

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

    fn start(&self, block: usize) -> Result<Self::Block> {
        let size = (
            self.chains(block),
            self.settings.chains,
            self.settings.moves,
        );
        let stream = self.streams[block].clone();
        Ok(Climb {
            chains: self.chains(block),
            island: Island::start(self.problem, self.path, size, stream)?,
            run: IslandRun::default(),
            selection: Selection::new(self.expected.clone(), offset(self.first_offset, block)),
            passed: 0,
            moves: 0,
        })
    }

    /// Moves an island once. The first move at a level follows its cut.
    fn step(&self, at: &mut Self::Block) -> Result<Stepped> {
        let Climb {
            island,
            run,
            selection,
            passed,
            moves,
            ..
        } = at;
        let levels = self.path.levels();
        let Some(&level) = levels.get(*passed) else {
            return Ok(Stepped::of(0, true));
        };
        if *moves == 0 {
            run.add(island.cut(level, selection));
            if !island.is_empty() {
                island.restart(level, self.path.beta(*passed + 1))?;
            }
        }
        // The restart empties the pool, which the moves fill.
        let is_extinct = *moves == 0 && island.log_mass() == f64::NEG_INFINITY;
        let cost = if is_extinct { 0 } else { self.settings.chains };
        if !is_extinct {
            island.advance(self.kernel)?;
            *moves += 1;
        }
        if is_extinct || *moves == self.settings.moves {
            island.sort();
            run.reach(island.log_mass(), island.decisions());
            *passed += 1;
            *moves = 0;
        }
        Ok(Stepped::of(cost, *passed == levels.len()))
    }

    fn finish(&self, at: &mut Self::Block) -> Result<Self::Output> {
        let mut run = std::mem::take(&mut at.run);
        run.add(at.island.cut(f64::INFINITY, &mut at.selection));
        run.evaluations = at.island.evaluations();
        Ok(Islands::from(run))
    }

    fn suffices(&self, error: f64, blocks: usize, outputs: &Forest<Self::Output>) -> bool {
        if !is_look(FIRST_LOOK, blocks) {
            return false;
        }
        let estimates = outputs.iter().flat_map(|node| node.value.estimates());
        let estimate = Estimate::of_islands(&Vec::from_iter(estimates));
        estimate.is_ok_and(|estimate| estimate.standard_error() <= error)
    }

    fn place(&self, at: &Self::Block) -> Place {
        (at.chains.clone(), 0, 0.0)
    }
}

/// Number of islands before the first check of the standard error.
const FIRST_LOOK: usize = 10;
