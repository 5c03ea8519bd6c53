//! Walking all states of an RBM's smaller layer, the other layer summed out.

use nalgebra::{DMatrix, DVector};

use crate::num::Available;
use crate::rbm::Rbm;
use crate::rbm::engine::add_scaled;
use crate::rbm::enumerate::state_block::{LowUnits, STATES, StateBlock};
use crate::rbm::scalar::Scalar;
use crate::{Error, Result};

/// The largest smaller layer that is enumerated: `2^25` states.
pub const MAX_ENUMERATED_UNITS: usize = 25;

/// Blocks walked from one fresh sum, so that rounding does not pile up.
const CHUNK_BITS: usize = 6;

/// Independent tasks at most. Fixed, so that the result does not depend on the threads.
const MAX_TASKS: usize = 64;

/// An RBM seen from its smaller layer, with states `s`:
/// `log f(s) = c.s + sum_i softplus(d_i + (U s)_i)`.
#[derive(Debug)]
pub(crate) struct Enumeration {
    /// Whether the enumerated layer is the hidden one.
    pub(crate) over_hidden: bool,
    /// `U`: a column for each enumerated unit.
    weights: DMatrix<f64>,
    bias: DVector<f64>,
    other_bias: DVector<f64>,
    low: LowUnits,
}

impl Enumeration {
    pub(crate) fn new<T: Scalar>(rbm: &Rbm<T>) -> Result<Self> {
        let weights = rbm.weights().map(T::as_);
        let hidden_bias = rbm.hidden_bias().map(T::as_);
        let visible_bias = rbm.visible_bias().map(T::as_);
        let over_hidden = rbm.hidden_units() <= rbm.visible_units();
        let (weights, bias, other_bias) = if over_hidden {
            (weights.transpose(), hidden_bias, visible_bias)
        } else {
            (weights, visible_bias, hidden_bias)
        };
        if bias.len() > MAX_ENUMERATED_UNITS {
            return Err(Error::invalid(
                "units of the smaller layer",
                bias.len(),
                format!("at most {MAX_ENUMERATED_UNITS}, to enumerate their states"),
            ));
        }
        Ok(Self {
            over_hidden,
            low: LowUnits::new(&weights, &bias),
            weights,
            bias,
            other_bias,
        })
    }

    /// Number of enumerated units.
    pub(crate) fn units(&self) -> usize {
        self.bias.len()
    }

    /// Number of units summed out.
    pub(crate) fn other_units(&self) -> usize {
        self.other_bias.len()
    }

    /// Units beyond the low ones: a block of states for each of their states.
    pub(crate) fn high_units(&self) -> usize {
        self.units() - self.low.bits()
    }

    fn chunks(&self) -> usize {
        1 << self.high_units().saturating_sub(CHUNK_BITS)
    }

    /// Number of states, consecutive ones, that [`fold`](Self::fold) gives to one accumulator.
    pub(crate) fn states_per_task(&self) -> usize {
        (1 << self.units()) / self.chunks().min(MAX_TASKS)
    }

    /// The units that are on in a state.
    fn on(&self, state: usize) -> impl Iterator<Item = usize> {
        (0..self.units()).filter(move |k| state >> k & 1 == 1)
    }

    /// `c . s`.
    fn linear(&self, state: usize) -> f64 {
        self.on(state).map(|k| self.bias[k]).sum()
    }

    /// `d + U s`: the logits of the other layer. Bit k of `state` is unit k.
    pub(crate) fn activation(&self, state: usize) -> DVector<f64> {
        let mut activation = self.other_bias.clone();
        for k in self.on(state) {
            activation += self.weights.column(k);
        }
        activation
    }

    /// Visits all states in blocks, each with its first state, split into tasks that each fold
    /// into their own accumulator, in parallel where that is compiled in. The accumulators come
    /// in the order of the states; within a task the blocks come in any order.
    pub(crate) fn fold<A: Send>(
        &self,
        start: impl Fn() -> A + Sync + Send,
        visit: impl Fn(&mut A, usize, &StateBlock) + Sync + Send,
    ) -> Vec<A> {
        let chunks = self.chunks();
        let tasks = chunks.min(MAX_TASKS);
        let run = |task: usize| {
            let (mut accumulator, mut block) =
                (start(), StateBlock::new(Available::best(), &self.low));
            for chunk in chunks / tasks * task..chunks / tasks * (task + 1) {
                self.walk(chunk, &mut block, |state, block| {
                    visit(&mut accumulator, state, block);
                });
            }
            accumulator
        };
        map_tasks(tasks, run)
    }

    /// Visits the blocks of one chunk in Gray order: one unit flips from each to the next.
    fn walk(
        &self,
        chunk: usize,
        block: &mut StateBlock,
        mut visit: impl FnMut(usize, &StateBlock),
    ) {
        let (low, bits) = (self.low.bits(), self.high_units().min(CHUNK_BITS));
        let mut state = chunk << (bits + low);
        let mut activation = self.activation(state);
        for next in 1..=1_usize << bits {
            block.evaluate(&self.low, &activation, self.linear(state));
            visit(state, block);
            let flipped = next.trailing_zeros() as usize;
            if flipped < bits {
                let unit = low + flipped;
                state ^= 1 << unit;
                let sign = if state >> unit & 1 == 1 { 1.0 } else { -1.0 };
                activation.axpy(sign, &self.weights.column(unit), 1.0);
            }
        }
    }

    /// Adds the means of the other layer over a block's states of probabilities `p`, and the
    /// probabilities themselves, to the sums for each state of the low units, and to the columns
    /// of the other enumerated units that are on.
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
        add_scaled(&mut low[others], 1.0, p);
        total[others] = p.iter().sum();
        for unit in self.on(first_state) {
            let column = &mut high.column_mut(unit - self.low.bits());
            add_scaled(column.as_mut_slice(), 1.0, &total);
        }
    }

    /// From the sums of [`add_means`](Self::add_means), a column for each enumerated unit, over the
    /// states in which it is on, and a last one over all states.
    pub(crate) fn columns(&self, low: &[[f64; STATES]], high: &DMatrix<f64>) -> DMatrix<f64> {
        let bits = self.low.bits();
        let over = |i: usize, counts: &dyn Fn(usize) -> bool| -> f64 {
            let states = low[i].iter().enumerate();
            states.filter(|(s, _)| counts(*s)).map(|(_, sum)| sum).sum()
        };
        DMatrix::from_fn(low.len(), self.units() + 1, |i, unit| {
            if unit < bits {
                over(i, &|state| state >> unit & 1 == 1)
            } else if unit < self.units() {
                high[(i, unit - bits)]
            } else {
                over(i, &|_| true)
            }
        })
    }

    /// `log Z` of the RBM, or an error where it overflows.
    pub(crate) fn log_normalizer(&self) -> Result<f64> {
        let parts = self.fold(LogSumExp::default, |sum, _, block| {
            let max = block.highest();
            let sum_of_block = block.relative(max).iter().sum();
            sum.merge(LogSumExp {
                max,
                sum: sum_of_block,
            });
        });
        let mut total = LogSumExp::default();
        for part in parts {
            total.merge(part);
        }
        check_log_normalizer(total.value())
    }
}

pub(crate) fn check_log_normalizer(log_z: f64) -> Result<f64> {
    if log_z.is_finite() {
        Ok(log_z)
    } else {
        let found = format!("values that make log Z {log_z}");
        Err(Error::invalid(
            "parameters of the RBM",
            found,
            "a finite log Z",
        ))
    }
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

/// A streaming `log sum exp`.
#[derive(Debug, Clone, Copy)]
struct LogSumExp {
    max: f64,
    sum: f64,
}

impl Default for LogSumExp {
    fn default() -> Self {
        Self {
            max: f64::NEG_INFINITY,
            sum: 0.0,
        }
    }
}

impl LogSumExp {
    fn merge(&mut self, other: Self) {
        let (high, low) = if other.max > self.max {
            (other, *self)
        } else {
            (*self, other)
        };
        self.sum = match low.sum {
            // Its maximum is no number to subtract from.
            0.0 => high.sum,
            sum => high.sum + sum * (low.max - high.max).exp(),
        };
        self.max = high.max;
    }

    fn value(self) -> f64 {
        self.max + self.sum.ln()
    }
}

impl<T: Scalar> Rbm<T> {
    /// `log Z`, exactly, by enumerating the smaller layer in f64: `2^20` states beside 784 units
    /// take some tenths of a second. The same bits on any number of threads.
    ///
    /// # Errors
    /// Where the smaller layer has more than [`MAX_ENUMERATED_UNITS`] units, or `log Z` overflows.
    pub fn exact_log_normalizer(&self) -> Result<f64> {
        Enumeration::new(self)?.log_normalizer()
    }
}
