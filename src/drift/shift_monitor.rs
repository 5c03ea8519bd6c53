//! A recorder of the shifts that drift modifiers make.

use nalgebra::DVector;

use crate::ais::{Merge, Recorder};
use crate::drift::DriftModifier;
use crate::drift::langevin::DriftModifiedLangevin;
use crate::estimate::Warning;
use crate::kernel::{Block, Stage};
use crate::model::Differentiable;
use crate::path::Intermediate;

/// Share of cut chains above which [`ShiftMonitor::warning`] gives a warning.
const TOLERATED_SHARE: f64 = 1e-3;

/// A recorder of the lengths `delta |G|` of the shifts of a [`DriftModifiedLangevin`] kernel, at the states that living
/// chains have reached. Cuts between modes are not recorded once no chain is left there.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ShiftMonitor<D> {
    kernel: DriftModifiedLangevin<D>,
    stages: Vec<Shifts>,
}

#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Shifts {
    stage: usize,
    beta: f64,
    chains: usize,
    cut: usize,
    longest: f64,
}

impl<D> ShiftMonitor<D> {
    /// Creates a monitor of the shifts of `kernel`. Each block of chains clones it.
    pub fn new(kernel: DriftModifiedLangevin<D>) -> Self {
        let stages = Vec::new();
        Self { kernel, stages }
    }

    /// Returns `(beta_k, share of living chains with a cut shift, longest shift before the cut)` at each recorded
    /// stage.
    pub fn shifts(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let row = |s: &Shifts| (s.beta, s.share(), s.longest);
        self.stages.iter().map(row)
    }

    /// Returns [`Warning::ShiftsCut`] for the stage with the most cuts, if more than one chain in a thousand was cut.
    pub fn warning(&self) -> Option<Warning> {
        let by_share = |a: &&Shifts, b: &&Shifts| a.share().total_cmp(&b.share());
        let worst = self.stages.iter().max_by(by_share)?;
        (worst.share() > TOLERATED_SHARE).then(|| Warning::ShiftsCut {
            stage: worst.stage,
            beta: worst.beta,
            share: worst.share(),
            longest: worst.longest,
        })
    }
}

impl Shifts {
    fn share(&self) -> f64 {
        self.cut as f64 / self.chains.max(1) as f64
    }
}

impl<M, D> Recorder<M> for ShiftMonitor<D>
where
    M: Intermediate + Differentiable,
    D: DriftModifier + Clone,
{
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<DVector<f64>>) {
        let mut shifts = Shifts {
            stage: stage.index,
            beta: stage.beta,
            chains: 0,
            cut: 0,
            longest: 0.0,
        };
        for (chain, state) in block.states().iter().enumerate() {
            if block.is_alive(chain) {
                let mut shift = DVector::zeros(state.len());
                // The kernel reports a NaN.
                let length = self.kernel.shift_into(stage, state, &mut shift);
                let length = length.unwrap_or(f64::INFINITY);
                shifts.chains += 1;
                shifts.cut += usize::from(length > self.kernel.bound());
                shifts.longest = shifts.longest.max(length);
            }
        }
        self.stages.push(shifts);
    }
}

impl<D> Merge for ShiftMonitor<D> {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.stages.iter_mut().zip(&right.stages) {
            mine.chains += theirs.chains;
            mine.cut += theirs.cut;
            mine.longest = mine.longest.max(theirs.longest);
        }
    }
}
