//! Exact sums over all states of an RBM's smaller layer, and exact samples.

mod exact;
mod state_block;

use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::num::Simd;
use crate::rbm::engine::add;
use crate::rbm::model::draw_all;
use crate::rbm::{Rbm, Scalar};
use crate::{Error, Result};
use state_block::LowUnits;

pub(super) use exact::Cumulative;
pub use exact::EnumeratedRbm;
pub(super) use state_block::{STATES, StateBlock};

/// Largest number of units in a layer that is enumerated. They have `2^25` states.
pub const MAX_ENUMERATED_UNITS: usize = 25;

/// Log2 of the number of blocks (states for a harmonium) after which fields are summed afresh instead of updated. It is
/// small, so rounding errors do not accumulate.
pub(super) const CHUNK_BITS: usize = 6;

/// Largest number of independent tasks. It is fixed, so the number of threads does not change the result.
const MAX_TASKS: usize = 64;

/// An RBM as a model of the states of its smaller layer, the enumerated units.
#[derive(Debug)]
pub(crate) struct Enumeration {
    /// Whether the enumerated layer is the hidden one.
    pub(crate) over_hidden: bool,
    /// The RBM, with layers swapped if needed: the enumerated units are the visible ones.
    rbm: Rbm<f64>,
    low: LowUnits,
}

impl Enumeration {
    pub(crate) fn new<T: Scalar>(rbm: &Rbm<T>) -> Result<Self> {
        let over_hidden = rbm.is_narrow();
        let mut rbm = rbm.cast::<f64>()?;
        if over_hidden {
            rbm = Rbm::new(rbm.weights.transpose(), rbm.visible_bias, rbm.hidden_bias)?;
        }
        check_enumerable("units of the smaller layer", rbm.visible_units())?;
        Ok(Self {
            over_hidden,
            low: LowUnits::new(rbm.weights(), rbm.visible_bias()),
            rbm,
        })
    }

    pub(crate) fn units(&self) -> usize {
        self.rbm.visible_units()
    }

    /// Returns the number of units summed out.
    pub(crate) fn other_units(&self) -> usize {
        self.rbm.hidden_units()
    }

    /// Returns the number of enumerated units that do not change within a block. Each of their joint states is a block.
    pub(crate) fn high_units(&self) -> usize {
        self.units() - self.low.bits()
    }

    fn chunks(&self) -> usize {
        chunks_of(self.high_units())
    }

    /// Returns the number of consecutive states that [`fold`](Self::fold) gives to one accumulator.
    pub(crate) fn states_per_task(&self) -> usize {
        (1 << self.units()) / self.chunks().min(MAX_TASKS)
    }

    pub(crate) fn enumerated(&self, state: usize) -> Vec<bool> {
        units_of(state, self.units())
    }

    /// Returns the logits of the other layer given the enumerated units in `state`.
    pub(crate) fn activation(&self, state: usize) -> DVector<f64> {
        self.rbm.hidden_activation(&self.enumerated(state))
    }

    pub(crate) fn draw_visible<R: Rng + ?Sized>(&self, state: usize, rng: &mut R) -> Vec<bool> {
        if self.over_hidden {
            draw_all(&self.activation(state), rng)
        } else {
            self.enumerated(state)
        }
    }

    /// Visits all states, block by block, and returns the accumulators of the tasks, in the order of the states.
    ///
    /// `start` gets the index of the task. `visit` gets the task's accumulator, the first state of a block, and the
    /// block. The blocks of a task come in any order.
    pub(crate) fn fold<A: Send>(
        &self,
        start: impl Fn(usize) -> A + Sync + Send,
        visit: impl Fn(&mut A, usize, &StateBlock) + Sync + Send,
    ) -> Vec<A> {
        map_chunks(self.chunks(), |task, chunks| {
            let mut accumulator = start(task);
            let mut block = StateBlock::new(Simd::best(), &self.low);
            for chunk in chunks {
                self.walk(chunk, &mut block, |state, block| {
                    visit(&mut accumulator, state, block);
                });
            }
            accumulator
        })
    }

    fn walk(
        &self,
        chunk: usize,
        block: &mut StateBlock,
        mut visit: impl FnMut(usize, &StateBlock),
    ) {
        let (low, bits) = (self.low.bits(), self.high_units().min(CHUNK_BITS));
        let first = chunk << (bits + low);
        let mut activation = self.activation(first);
        for (state, flipped) in gray_order(first, low, bits) {
            if let Some((unit, sign)) = flipped {
                activation.axpy(sign, &self.rbm.weights.column(unit), 1.0);
            }
            let linear = self.rbm.visible_term(&self.enumerated(state));
            block.evaluate(&self.low, &activation, linear);
            visit(state, block);
        }
    }

    /// Adds `p(s) E[unit | s]`, for each state s of a block and each unit of the other layer, to the sums `low` and
    /// `high`. In both, row i is for unit i of the other layer, and the last row sums the probabilities `p(s)` alone.
    ///
    /// The low units are the enumerated units that differ within a block. `low` has a column for each joint state of
    /// these. `high` has a column for each other enumerated unit, summed over the states in which that unit is on.
    pub(crate) fn add_means(
        &self,
        first_state: usize,
        block: &StateBlock,
        p: &[f64; STATES],
        low: &mut [[f64; STATES]],
        high: &mut DMatrix<f64>,
    ) {
        let others = self.other_units();
        let mut total = vec![0.0; others + 1];
        block.add_means(&self.low, p, &mut low[..others], &mut total[..others]);
        add(&mut low[others], p);
        total[others] = p.iter().sum();
        let on = self.enumerated(first_state).into_iter();
        for (mut column, on) in high.column_iter_mut().zip(on.skip(self.low.bits())) {
            if on {
                add(column.as_mut_slice(), &total);
            }
        }
    }

    /// Returns the sums of [`add_means`](Self::add_means) as a matrix with the same rows. Each enumerated unit has a
    /// column, summed over the states in which the unit is on. The last column is summed over all states.
    pub(crate) fn columns(&self, low: &[[f64; STATES]], high: &DMatrix<f64>) -> DMatrix<f64> {
        let (bits, units) = (self.low.bits(), self.units());
        DMatrix::from_fn(low.len(), units + 1, |i, unit| {
            if (bits..units).contains(&unit) {
                return high[(i, unit - bits)];
            }
            let states = low[i].iter().enumerate();
            let counted = states.filter(|(state, _)| unit == units || state >> unit & 1 == 1);
            counted.map(|(_, sum)| sum).sum()
        })
    }

    pub(crate) fn log_normalizer(&self) -> Result<f64> {
        Ok(self.log_normalizer_and_shares()?.0)
    }

    /// Returns `log Z`, and the total probability of each task's states.
    pub(crate) fn log_normalizer_and_shares(&self) -> Result<(f64, Vec<f64>)> {
        let parts = self.fold(
            |_| LogSum::ZERO,
            |total, _, block| {
                let max = block.highest();
                let sum = block.relative(max).iter().sum();
                *total = total.plus(LogSum { max, sum });
            },
        );
        let total = parts.iter().copied().fold(LogSum::ZERO, LogSum::plus);
        let log_z = check_log_normalizer(total.log())?;
        let shares = parts.into_iter().map(|part| (part.log() - log_z).exp());
        Ok((log_z, shares.collect()))
    }
}

pub(super) fn check_enumerable(argument: &'static str, units: usize) -> Result<()> {
    let expected = format!("at most {MAX_ENUMERATED_UNITS}, to enumerate their states");
    Error::check(units <= MAX_ENUMERATED_UNITS, argument, units, expected)
}

pub(crate) fn check_log_normalizer(log_z: f64) -> Result<f64> {
    let (argument, found) = (
        "parameters of the RBM",
        format!("values that make log Z {log_z}"),
    );
    Error::check(log_z.is_finite(), argument, found, "a finite log Z")?;
    Ok(log_z)
}

/// Returns the units in a state: unit k is bit k.
pub(super) fn units_of(state: usize, units: usize) -> Vec<bool> {
    (0..units).map(|k| state >> k & 1 == 1).collect()
}

pub(super) fn chunks_of(units: usize) -> usize {
    1 << units.saturating_sub(CHUNK_BITS)
}

/// Returns `2^bits` states in Gray order, from `first` on. Each state differs from the state before in one unit, whose
/// index is at least `low`. A state comes with this index and the sign of the unit's change, the first with `None`.
pub(super) fn gray_order(
    first: usize,
    low: usize,
    bits: usize,
) -> impl Iterator<Item = (usize, Option<(usize, f64)>)> {
    let mut state = first;
    (0..1_usize << bits).map(move |step| {
        if step == 0 {
            return (state, None);
        }
        let unit = low + step.trailing_zeros() as usize;
        state ^= 1 << unit;
        let sign = if state >> unit & 1 == 1 { 1.0 } else { -1.0 };
        (state, Some((unit, sign)))
    })
}

/// Shares chunks among tasks, and returns the results of `run` in the order of the chunks.
pub(super) fn map_chunks<A: Send>(
    chunks: usize,
    run: impl Fn(usize, Range<usize>) -> A + Sync + Send,
) -> Vec<A> {
    let tasks = chunks.min(MAX_TASKS);
    map_tasks(tasks, |task| {
        run(task, chunks / tasks * task..chunks / tasks * (task + 1))
    })
}

#[cfg(feature = "rayon")]
pub(crate) fn map_tasks<A: Send>(tasks: usize, run: impl Fn(usize) -> A + Sync + Send) -> Vec<A> {
    use rayon::prelude::*;
    (0..tasks).into_par_iter().map(run).collect()
}

#[cfg(not(feature = "rayon"))]
pub(crate) fn map_tasks<A: Send>(tasks: usize, run: impl Fn(usize) -> A + Sync + Send) -> Vec<A> {
    (0..tasks).map(run).collect()
}

/// The number `sum * exp(max)`.
#[derive(Debug, Clone, Copy)]
struct LogSum {
    max: f64,
    sum: f64,
}

impl LogSum {
    const ZERO: Self = Self {
        max: f64::NEG_INFINITY,
        sum: 0.0,
    };

    fn log(self) -> f64 {
        self.max + self.sum.ln()
    }

    fn plus(self, other: Self) -> Self {
        let max = self.max.max(other.max);
        let relative = |part: Self| {
            if part.max == max {
                // This includes two parts of -inf, whose difference is NaN.
                part.sum
            } else {
                part.sum * (part.max - max).exp()
            }
        };
        let sum = relative(self) + relative(other);
        Self { max, sum }
    }
}

impl<T: Scalar> Rbm<T> {
    /// Returns the exact `log Z`, by enumeration of the smaller layer in f64. Threads do not change the bits.
    ///
    /// # Errors
    /// If the smaller layer has more than [`MAX_ENUMERATED_UNITS`] units, or `log Z` overflows.
    pub fn exact_log_normalizer(&self) -> Result<f64> {
        Enumeration::new(self)?.log_normalizer()
    }
}
